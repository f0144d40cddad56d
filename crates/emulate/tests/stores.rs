//! The fill of buffers and caches: accepted data is either still held or was written out, and a constructed full disk
//! cache behaves like one filled by writes.

use crate::common;

use common::{Loop, RANDOM, disk, flash, system};
use iodyno_emulate::spec::Kind;
use iodyno_emulate::{Keeps, Machine, Store};
use iodyno_units::{Op, OpKind};

fn store(machine: &Machine, name: &str) -> Store {
    *machine.stores().iter().find(|store| store.name == name).unwrap()
}

/// Writes, and the time after them: each store holds all accepted data, at most its capacity, until it writes the
/// data out.
#[test]
fn what_goes_in_is_held_or_came_out() {
    for (kind, name) in
        [(disk(true), "disk's write cache"), (Kind::Flash(Box::new(flash())), "SSD's write buffer")]
    {
        let mut machine = Machine::new(&system(kind, RANDOM, 2), 1).unwrap();
        let workers = [machine.add_worker(0), machine.add_worker(1)];
        for (volume, worker) in (0..).zip(workers) {
            for n in 0..8_u64 {
                let op = Op {
                    offset_bytes: n * 65_536,
                    len_bytes: 4096,
                    kind: OpKind::Write,
                    fua: false,
                };
                machine.submit(0, worker, volume, &op, n);
            }
        }
        let mut most = 0;
        for done in 1..=16 {
            machine.next_completion(u64::MAX).unwrap();
            let now = store(&machine, name);
            assert_eq!(now.keeps, Keeps::Dirty);
            assert!(now.held_bytes <= now.passed_bytes && now.held_bytes <= now.capacity_bytes);
            assert!(done < 16 || now.passed_bytes == 16 * 4096, "{now:?}");
            most = most.max(now.held_bytes);
        }
        assert!(most > 0);
        while machine.step(u64::MAX) {}
        // A page that no other joins is not programmed.
        let left = store(&machine, name).held_bytes;
        assert!(left == 0 || name.starts_with("SSD"), "{left}");
    }
    let mut uncached = Machine::new(&system(disk(false), RANDOM, 1), 1).unwrap();
    assert!(uncached.stores().is_empty());
    uncached.fill_write_caches(1.0);
    Loop { read_share: 0.0, ..Loop::reads(4) }.run(&mut uncached);
}

/// A full cache writes at the same rate however it was filled.
#[test]
fn a_cache_that_was_filled_is_as_one_that_filled() {
    let kind = |buffer_bytes| {
        let Kind::Disk(mut disk) = disk(true) else { unreachable!() };
        disk.buffer_bytes = buffer_bytes;
        Kind::Disk(disk)
    };
    let writes = |ramp_ns, time_ns| Loop { read_share: 0.0, ramp_ns, time_ns, ..Loop::reads(4) };
    let filled_by_writes = {
        let mut machine = Machine::new(&system(kind(4 << 20), RANDOM, 1), 1).unwrap();
        writes(10_000_000_000, 10_000_000_000).run(&mut machine).iops
    };
    let constructed = {
        let mut machine = Machine::new(&system(kind(4 << 20), RANDOM, 1), 1).unwrap();
        let worker = machine.add_worker(0);
        let mut random = iodyno_units::rng::stream(1, "some", 0);
        for n in 0..128 {
            let offset_bytes = iodyno_units::rng::below(&mut random, 2_441_406) * 4096;
            let op = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Write, fua: false };
            machine.submit(0, worker, 0, &op, n);
        }
        for _ in 0..128 {
            machine.next_completion(u64::MAX).unwrap();
        }
        machine.fill_write_caches(0.5);
        let half = store(&machine, "disk's write cache").held_bytes;
        assert!((2 << 20) - half <= 8192, "{half}");
        machine.fill_write_caches(1.0);
        let full = store(&machine, "disk's write cache");
        assert!(full.capacity_bytes - full.held_bytes <= 8192, "{full:?}");
        let from_ns = machine.now_ns();
        // All of it is written within the time that as many writes take.
        while store(&machine, "disk's write cache").held_bytes > 2 << 20 {
            machine.step(u64::MAX);
        }
        512.0 * 1e9 / (machine.now_ns() - from_ns) as f64
    };
    assert!((constructed / filled_by_writes - 1.0).abs() < 0.1, "{constructed} {filled_by_writes}");
}
