//! Content behind RAID adapters in situations that random histories (`adapter_histories.rs`) rarely or never reach:
//! the data of a slow read in a cache, and the order in which two writes to a unit reach a device.

use crate::common;

use common::{flash, host};
use iodyno_emulate::spec::{
    Access, Adapters, ArrayShape, Cache, Device, Drawers, HostPaths, Kind, ParityEngine,
    Preconditioned, Processor, Slot, Written,
};
use iodyno_emulate::{AdapterFault, Completion, Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::{Op, OpKind};

const UNIT: u64 = 4096;
const STRIP_UNITS: u64 = 4;
const MS: u64 = 1_000_000;

/// A machine with one volume of `members` fresh devices behind a pair of adapters. Their cache takes no time, keeps
/// read data, and destages above half. `change` changes the adapters.
fn machine(members: u32, change: impl Fn(&mut Adapters)) -> Machine {
    let mut system = System::new("test", host());
    for _ in 0..members {
        let mut flash = flash();
        flash.capacity_bytes = 64 * UNIT;
        flash.nand.channels = 2;
        flash.nand.pages_per_block = 8;
        flash.nand.raw_bytes = 192 * UNIT;
        flash.nand.parity_stripe = 0;
        let kind = Kind::Flash(Box::new(flash));
        let state = Preconditioned { how: Written::Fresh, fill: 0.0 };
        system.add_device(
            Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() },
            state,
            0,
        );
    }
    let mut adapters = Adapters {
        count: 2,
        access: Access::Balanced,
        host_paths: HostPaths::Optimized,
        commands_max: 1 << 20,
        slot: Slot { read_bytes_per_s: 1e12, write_bytes_per_s: 1e12, fetch_ns: 0 },
        processor: Processor { read_ns: 0, write_ns: 0, device_ns: 0, raid6_ns: 0, forward_ns: 0 },
        parity: ParityEngine { xor_bytes_per_s: 1e12, gf_bytes_per_s: 1e12 },
        latency_ns: 0,
        strip_bytes: STRIP_UNITS * UNIT,
        cache: Some(Cache {
            bytes: 2 * 16 * UNIT,
            write_ns: 0,
            mirror_ns: 0,
            mirror_bytes_per_s: 1e12,
            mirror_latency_ns: 0,
            destage_share: 0.5,
            destage_ramp_bytes: 1 << 20,
            destage_depth: 8,
            keeps_reads: true,
        }),
        devices_max: 96,
        ssds_max: 48,
        aa_links: 1,
        failover_ns: 0,
        drawers: Drawers { count: 1, bays: 96, bytes_per_s: 1e12 },
    };
    change(&mut adapters);
    system.attach(adapters).unwrap();
    let strip_bytes = STRIP_UNITS * UNIT;
    let shape =
        ArrayShape { level: Level::Raid0, members, strip_bytes, rotation: Rotation::LeftSymmetric };
    let shape = (members > 1).then(|| (shape, "array".to_owned()));
    system.group(vec![(0..members as usize, shape)]).unwrap();
    let mut machine = Machine::represented(&system, 1, 1).unwrap();
    machine.keep_content();
    machine.add_worker(0);
    machine
}

fn fault(machine: &mut Machine, fault: AdapterFault) {
    machine.apply_fault(&Fault::Adapters(fault));
}

fn op(kind: OpKind, unit: u64, units: u64) -> Op {
    Op { offset_bytes: unit * UNIT, len_bytes: (units * UNIT) as u32, kind, fua: false }
}

/// Submits an operation; the token is the value of the units that it writes.
fn submit(machine: &mut Machine, op: &Op, token: u64) {
    machine.submit(machine.now_ns(), 0, 0, op, token);
}

fn ends(machine: &mut Machine, token: u64) -> Completion {
    let done = machine.next_completion(u64::MAX).expect("it ends");
    assert_eq!((done.token, done.failure), (token, None));
    done
}

fn write(machine: &mut Machine, unit: u64, value: u64) {
    submit(machine, &op(OpKind::Write, unit, 1), value);
    ends(machine, value);
}

fn read(machine: &mut Machine, unit: u64) -> u64 {
    submit(machine, &op(OpKind::Read, unit, 1), 1);
    ends(machine, 1);
    machine.values_read().expect("it was a read")[0]
}

/// Lets time pass in which no operation may complete.
fn pass(machine: &mut Machine, ns: u64) {
    assert_eq!(machine.next_completion(machine.now_ns() + ns), None);
}

fn settle(machine: &mut Machine) {
    while machine.step(u64::MAX) {}
    assert_eq!(machine.check(), Ok(()));
}

/// Destages all dirty data.
fn drain(machine: &mut Machine) {
    fault(machine, AdapterFault::BatteryFails { adapter: 0 });
    pass(machine, 5 * MS);
    fault(machine, AdapterFault::Clear { adapter: 0 });
    assert_eq!(machine.adapters().unwrap().dirty_bytes, 0);
}

/// A read of two units gets the first unit from the device at once, and the second late. In between, the first unit
/// is written and leaves the cache. The value that the read got is then stale, and must not be cached.
#[test]
fn a_cache_keeps_nothing_of_a_read_that_a_write_overtook() {
    let (old, new, late) = (10, 20, STRIP_UNITS);
    let unit = late - 1;
    let read_both = |m: &mut Machine| {
        let delay = |delay_ns| Fault::Delay { part: PartId(1), delay_ns, kind: Some(OpKind::Read) };
        m.apply_fault(&delay(50 * MS));
        submit(m, &op(OpKind::Read, unit, 2), 7);
        pass(m, MS);
        m.apply_fault(&delay(0));
    };
    // Others take its place: as many as the cache holds.
    let evict = |m: &mut Machine| (2 * STRIP_UNITS..).take(16).for_each(|other| _ = read(m, other));
    let access = |on| AdapterFault::Access { volume: 0, on: Some(on), from: 0 };
    for how in ["destaged", "destaged, and its volume moved", "written past the cache"] {
        let mut m = machine(2, |_| ());
        write(&mut m, unit, old);
        drain(&mut m);
        if how == "written past the cache" {
            evict(&mut m);
            fault(&mut m, AdapterFault::BatteryFails { adapter: 0 });
            read_both(&mut m);
            write(&mut m, unit, new);
        } else {
            // The read finds it in the cache, which writes it to the device.
            write(&mut m, unit, new);
            read_both(&mut m);
            drain(&mut m);
            evict(&mut m);
        }
        if how == "destaged, and its volume moved" {
            fault(&mut m, access(1));
        }
        ends(&mut m, 7);
        let returned = m.values_read().unwrap().to_vec();
        assert!(returned == [new, 0] || (how == "written past the cache" && returned == [old, 0]));
        assert_eq!(read(&mut m, unit), new, "{how}");
        settle(&mut m);
        assert_eq!(m.content(0, unit * UNIT), Some(new), "{how}");
    }
}

/// Returns a machine in which a destage is still on its way to a device although the cache has lost its data, and the
/// destaged unit. One adapter accepted the write without its partner, and was replaced.
fn with_void_destages() -> (Machine, u64) {
    let mut m = machine(1, |adapters| adapters.processor.device_ns = MS);
    // No neighbours, which one destage would take together: the device has the last after 8 ms.
    let units: Vec<u64> = (0..8).map(|strip| strip * STRIP_UNITS).collect();
    for &unit in &units {
        write(&mut m, unit, 10 + unit);
    }
    assert_eq!(m.adapters().unwrap().dirty_bytes, 8 * UNIT);
    fault(&mut m, AdapterFault::LinkDown { link: 0 });
    fault(&mut m, AdapterFault::Replace { adapter: 0 });
    let state = m.adapters().unwrap();
    assert_eq!((state.dirty_bytes, state.is_caching), (0, false));
    (m, units[7])
}

/// Destages of data that a cache has lost are still on their way to the device, in the queue of a processor that was
/// lost with its adapter. A write of the same unit that bypasses the cache reaches the device later than the
/// destages.
#[test]
fn a_write_past_the_cache_waits_for_destages_of_what_was_lost() {
    let (mut m, unit) = with_void_destages();
    write(&mut m, unit, 99);
    settle(&mut m);
    assert_eq!((read(&mut m, unit), m.content(0, unit * UNIT)), (99, Some(99)));
}

/// A write waits in a cache while its volume moves to the other adapter and back: no cache waits
/// for destages that have already ended.
#[test]
fn a_moved_volume_takes_destages_of_what_was_lost() {
    let (mut m, unit) = with_void_destages();
    fault(&mut m, AdapterFault::LinkUp { link: 0 });
    write(&mut m, unit, 99);
    for on in [1, 0] {
        fault(&mut m, AdapterFault::Access { volume: 0, on: Some(on), from: 0 });
        assert_eq!(m.adapters().unwrap().adapters[on as usize].optimized, [0]);
        pass(&mut m, 20 * MS);
        assert_eq!((read(&mut m, unit), m.check()), (99, Ok(())));
        drain(&mut m);
        assert_eq!(m.content(0, unit * UNIT), Some(99));
        write(&mut m, unit, 99);
    }
}
