//! Creates and finds the stores that hold the content of a system.

use crate::store::{self, Store};
use iodyno_emulate::spec::Kind;
use iodyno_emulate::{Machine, System};

/// Number of stores that hold the content of a system: one per device and, if its adapters have a cache, one
/// per volume that they present.
pub fn stores_needed(system: &System) -> usize {
    system.devices().count() + if system.has_cache() { system.paths().count() } else { 0 }
}

/// Creates all stores of a system (see [`stores_needed`]) in memory, each limited to `bytes_max` bytes.
pub fn stores_in_memory(system: &System, bytes_max: u64) -> Vec<Store> {
    let holes_for_zeroes = system.numbers_devices();
    let devices = system.devices().map(|placed| {
        let device = &placed.device;
        let emptied_by_power_failure = matches!(&device.kind, Kind::Memory(m) if !m.protected);
        let options = store::Options {
            emptied_by_power_failure,
            holes_for_zeroes,
            ..store::Options::default()
        };
        Store::in_memory(device.capacity_bytes(), bytes_max, options)
    });
    let cached = system.paths().filter(|_| system.has_cache());
    let caches = cached.map(|(_, path)| {
        Store::in_memory(path.capacity_bytes, bytes_max, store::Options::default())
    });
    devices.chain(caches).collect()
}

/// Store of a volume that is a single device; `None` if the volume is an array.
pub fn store_of<'a>(machine: &Machine, stores: &'a [Store], volume: u32) -> Option<&'a Store> {
    if !machine.system().is_device(volume) {
        return None;
    }
    stores.get(machine.system().volumes[volume as usize].root.index())
}
