//! Google's Persistent Disks. Their baseline and their maximum belong to the instance, so all disks of a class perform
//! as one disk of their total size ("Configure disks to meet performance requirements").

use iodyno_emulate::System;
use iodyno_emulate::describe::{DescribedDevice, VolumeClass};
use iodyno_emulate::spec::Limit;
use iodyno_units::VolumeOptions;
use std::path::Path;

/// Whether the disks of an instance share the limits of this class: `gcp-pd-balanced` and its siblings. `name`: the
/// name of the class, or the path of its file.
pub(crate) fn is_pooled(name: &str) -> bool {
    let stem = Path::new(name).file_stem();
    stem.is_some_and(|stem| stem.to_string_lossy().starts_with("gcp-pd-"))
}

/// Returns the limits that `count` disks of a pooled class share. `options` and `size_bytes` are those of each disk.
/// `None`: the class refuses the options.
pub(crate) fn limits(
    class: &VolumeClass,
    options: &VolumeOptions,
    size_bytes: u64,
    count: u32,
) -> Option<Vec<Limit>> {
    let all_bytes = size_bytes.saturating_mul(count.into()).min(class.sizes_bytes[2]);
    let size_bytes = class.has_sizes().then_some(all_bytes);
    class.volume("", &VolumeOptions { size_bytes, ..*options }).ok().map(|(_, limits)| limits)
}

/// Replaces the limits of a system's devices, all of one pooled class, by the limits that they share.
pub(crate) fn pool(system: &mut System, of: &DescribedDevice) {
    let Some(class) = &of.class else { return };
    let sizes: Vec<u64> = system.devices().map(|placed| placed.device.capacity_bytes()).collect();
    let each_bytes = sizes.first().copied().unwrap_or(0);
    let options = VolumeOptions::default();
    let Some(shared) = limits(class, &options, each_bytes, sizes.len() as u32) else { return };
    system.devices_mut().for_each(|placed| placed.device.limits.clear());
    system.limits.extend(shared);
}
