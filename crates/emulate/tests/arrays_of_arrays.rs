//! Arrays of arrays in virtual time: closed forms of one operation, member operations, survivable losses, and
//! re-created branches. (`array_histories.rs` checks the content.)

use crate::common;

use common::{flash, host};
use iodyno_emulate::spec::{
    Access, Adapters, ArrayShape, Device, Drawers, Group, HostPaths, Kind, ParityEngine, Part,
    Preconditioned, Processor, Slot, Written,
};
use iodyno_emulate::{Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::{IoError, Op, OpKind};

const UNIT: u64 = 4096;
const STRIP: u64 = 64 << 10;
/// Time in which a device reads a unit, as in `arrays.rs`.
const READ_NS: u64 = 50_000 + 4;
const WRITE_NS: u64 = 2_000 + 4;

fn shape(level: Level, members: u32) -> ArrayShape {
    ArrayShape { level, members, strip_bytes: STRIP, rotation: Rotation::LeftSymmetric }
}

/// A system with the devices for an array of arrays, which [`group`] then creates.
fn system(outer: ArrayShape, inner: ArrayShape, before: Written) -> System {
    let mut system = System::new("test", host());
    for _ in 0..outer.members * inner.members {
        let mut flash = flash();
        flash.nand.parity_stripe = 0;
        let kind = Kind::Flash(Box::new(flash));
        let state = Preconditioned { how: before, fill: 1.0 };
        system.add_device(
            Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() },
            state,
            0,
        );
    }
    system
}

fn group(system: &mut System, outer: ArrayShape, inner: ArrayShape) {
    let of = inner.members as usize;
    let branch = |n: u32| n as usize * of..(n as usize + 1) * of;
    let inner: Vec<Group> =
        (0..outer.members).map(|n| (branch(n), Some((inner, "inner".to_owned())))).collect();
    system.group(inner).unwrap();
    system.group(vec![(0..outer.members as usize, Some((outer, "outer".to_owned())))]).unwrap();
}

fn machine(outer: ArrayShape, inner: ArrayShape) -> Machine {
    let mut system = system(outer, inner, Written::Sequential);
    group(&mut system, outer, inner);
    let mut machine = Machine::new(&system, 1).unwrap();
    machine.add_worker(0);
    machine
}

fn op(kind: OpKind, unit: u64, units: u64) -> Op {
    Op { offset_bytes: unit * UNIT, len_bytes: (units * UNIT) as u32, kind, fua: false }
}

fn alone(machine: &mut Machine, op: &Op) -> (u64, Option<IoError>) {
    let from_ns = machine.submit(machine.now_ns(), 0, 0, op, 7);
    let done = machine.next_completion(u64::MAX).expect("it ends");
    while machine.step(u64::MAX) {}
    (done.at_ns - from_ns, done.failure)
}

fn parity_ns(units: u64) -> u64 {
    6_000 + units * UNIT / 8
}

#[test]
fn an_operation_alone_takes_the_longest_branch_of_each_step() {
    let small = op(OpKind::Write, 3, 1);
    for (outer, inner, op, expected_ns) in [
        ((Level::Raid1, 2), (Level::Raid0, 3), small, WRITE_NS),
        ((Level::Raid0, 2), (Level::Raid1, 2), op(OpKind::Read, 3, 1), READ_NS),
        // The outer array computes parity of what branches hold,
        ((Level::Raid5, 4), (Level::Raid1, 2), small, READ_NS + parity_ns(4) + WRITE_NS),
        // the inner ones of what devices hold,
        ((Level::Raid1, 2), (Level::Raid5, 4), small, READ_NS + parity_ns(4) + WRITE_NS),
        // and here each for itself: the branches of data and of parity write at the same time.
        (
            (Level::Raid5, 4),
            (Level::Raid5, 4),
            small,
            READ_NS + parity_ns(4) + READ_NS + parity_ns(4) + WRITE_NS,
        ),
    ] {
        let mut m = machine(shape(outer.0, outer.1), shape(inner.0, inner.1));
        let (took_ns, failure) = alone(&mut m, &op);
        let off = took_ns as i64 - expected_ns as i64;
        assert_eq!(m.check(), Ok(()));
        assert!(failure.is_none() && (-8..200).contains(&off), "{outer:?} of {inner:?}: {took_ns}");
    }
}

/// Pages that devices read and write: the penalties of both levels multiply.
#[test]
fn levels_multiply_their_member_operations() {
    let write = op(OpKind::Write, 0, 1);
    for (outer, inner, reads, writes) in [
        ((Level::Raid1, 2), (Level::Raid0, 3), 0, 2),
        ((Level::Raid0, 3), (Level::Raid1, 2), 0, 2),
        ((Level::Raid10, 4), (Level::Raid10, 4), 0, 4),
        ((Level::Raid5, 5), (Level::Raid1, 2), 2, 4),
        ((Level::Raid1, 2), (Level::Raid5, 5), 4, 4),
        ((Level::Raid5, 5), (Level::Raid5, 5), 2 + 2 * 2, 2 * 2),
    ] {
        let mut m = machine(shape(outer.0, outer.1), shape(inner.0, inner.1));
        let of = |m: &Machine| {
            let counts = m.flash_counts(0).unwrap();
            (counts.senses, counts.host_pages + m.buffered_bytes(0).unwrap().0 / UNIT)
        };
        let before = of(&m);
        assert_eq!(alone(&mut m, &write).1, None);
        let after = of(&m);
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (reads, writes),
            "{outer:?} {inner:?}"
        );
    }
}

/// Lost devices, and whether all data survives.
type Losses = (&'static [u32], bool);

#[test]
fn what_both_levels_survive_is_served() {
    let cases: [(Level, u32, Level, u32, &[Losses]); 4] = [
        (Level::Raid1, 2, Level::Raid0, 2, &[(&[0, 1], true), (&[0, 2], false)]),
        (Level::Raid0, 2, Level::Raid1, 2, &[(&[0, 2], true), (&[0, 1], false)]),
        (Level::Raid5, 3, Level::Raid5, 3, &[(&[0, 3, 6], true), (&[0, 1, 3, 4], false)]),
        (Level::Raid6, 4, Level::Raid0, 2, &[(&[0, 3], true), (&[0, 2, 4], false)]),
    ];
    for (outer, branches, inner, members, losses) in cases {
        for (lost, survives) in losses {
            let mut m = machine(shape(outer, branches), shape(inner, members));
            for &device in *lost {
                m.apply_fault(&Fault::Lose { part: PartId(device) });
            }
            let mut failed = 0;
            for unit in 0..400 {
                let kind = [OpKind::Read, OpKind::Write, OpKind::Flush][unit as usize % 3];
                let op = if kind == OpKind::Flush { Op::FLUSH } else { op(kind, unit * 11, 1) };
                failed += u32::from(alone(&mut m, &op).1.is_some());
            }
            assert_eq!(m.check(), Ok(()));
            assert_eq!(failed == 0, *survives, "{outer} of {inner} without {lost:?}: {failed}");
        }
    }
}

/// A branch without redundancy is lost with one device. Once that is replaced, the branch is
/// re-created and rebuilt completely.
#[test]
fn a_branch_is_made_again_and_rebuilt() {
    for (inner, lost) in [(Level::Raid0, &[1][..]), (Level::Raid5, &[0, 2]), (Level::Raid1, &[1])] {
        let (outer, inner) = (shape(Level::Raid1, 2), shape(inner, 3));
        let mut system = system(outer, inner, Written::Fresh);
        for placed in system.devices_mut() {
            let Kind::Flash(flash) = &mut placed.device.kind else { unreachable!() };
            (flash.capacity_bytes, flash.nand.channels) = (256 * UNIT, 2);
            (flash.nand.pages_per_block, flash.nand.raw_bytes) = (8, 384 * UNIT);
        }
        group(&mut system, outer, inner);
        for part in &mut system.parts {
            if let Part::Array(array) = part {
                array.rebuild_bytes_per_s = 1e9;
            }
        }
        let mut m = Machine::represented(&system, 1, 1).unwrap();
        m.keep_content();
        m.add_worker(0);
        let units = m.capacity_bytes(0) / UNIT;
        for unit in 0..units {
            m.submit(m.now_ns(), 0, 0, &op(OpKind::Write, unit, 1), 100 + unit);
            assert_eq!(m.next_completion(u64::MAX).unwrap().failure, None);
        }
        let of_branch = |m: &Machine| m.array_state_of(PartId(6)).unwrap();
        for &device in lost {
            m.apply_fault(&Fault::Lose { part: PartId(device) });
        }
        let is_broken = inner.level != Level::Raid1;
        assert_eq!(m.array_state(0).unwrap().missing.contains(0), is_broken, "{}", inner.level);
        // Operations are under way while it is made again, and go on.
        let now_ns = m.now_ns();
        for unit in 0..16 {
            m.submit(now_ns, 0, 0, &op(OpKind::Write, unit, 1), 500 + unit);
        }
        for (number, &device) in (1..).zip(lost) {
            assert_eq!(m.array_state(0).unwrap().rebuilt, None);
            m.apply_fault(&Fault::Replace { part: PartId(device) });
            if is_broken && number == lost.len() {
                let lacks = usize::from(inner.level == Level::Raid5);
                assert_eq!(of_branch(&m).missing.len(), lacks, "its members don't agree yet");
                assert!(m.array_state(0).unwrap().missing.contains(0), "and not rebuilt");
            }
        }
        while let Some(done) = m.next_completion(u64::MAX) {
            assert_eq!(done.failure, None);
        }
        while m.step(u64::MAX) {}
        let counts = m.array_state(0).unwrap().counts;
        let of_inner = of_branch(&m).counts;
        let rebuilt = (counts.rebuilt_members, of_inner.rebuilt_members);
        let of_inner = u64::from(inner.level != Level::Raid0);
        assert_eq!(rebuilt, (u64::from(is_broken), of_inner), "{}", inner.level);
        if is_broken {
            assert_eq!(counts.rebuilt_bytes, units * UNIT);
        }
        // The other branch goes: what was rebuilt is right.
        for device in 3..6 {
            m.apply_fault(&Fault::Lose { part: PartId(device) });
        }
        for unit in 0..units {
            m.submit(m.now_ns(), 0, 0, &op(OpKind::Read, unit, 1), 0);
            assert_eq!(m.next_completion(u64::MAX).unwrap().failure, None, "{unit}");
            let expected = if unit < 16 { 500 + unit } else { 100 + unit };
            assert_eq!(m.values_read(), Some(&[expected][..]), "{} {unit}", inner.level);
        }
    }
}

/// A mirror in the host is above the adapters: each of its members is a volume behind an adapter.
#[test]
fn a_hosts_array_is_above_the_adapters() {
    const FAST: f64 = 1e12;
    let adapters = Adapters {
        access: Access::Balanced,
        host_paths: HostPaths::Optimized,
        aa_links: 1,
        failover_ns: 0,
        count: 2,
        commands_max: 1 << 20,
        slot: Slot { read_bytes_per_s: FAST, write_bytes_per_s: FAST, fetch_ns: 0 },
        processor: Processor {
            read_ns: 1_000,
            write_ns: 3_000,
            device_ns: 400,
            raid6_ns: 0,
            forward_ns: 0,
        },
        parity: ParityEngine { xor_bytes_per_s: FAST, gf_bytes_per_s: FAST },
        latency_ns: 10_000,
        strip_bytes: STRIP,
        cache: None,
        devices_max: 96,
        ssds_max: 48,
        drawers: Drawers { count: 2, bays: 24, bytes_per_s: FAST },
    };
    let (outer, inner) = (shape(Level::Raid1, 2), shape(Level::Raid0, 3));
    let mut system = system(outer, inner, Written::Sequential);
    system.attach(adapters).unwrap();
    group(&mut system, outer, inner);
    assert!(matches!(&system.parts[system.volumes[0].root.index()], Part::Array(_)));
    let mut m = Machine::new(&system, 1).unwrap();
    m.add_worker(0);
    // Each copy goes through an adapter of its own, at the same time.
    for (kind, expected_ns) in
        [(OpKind::Read, 1_400 + READ_NS + 10_000), (OpKind::Write, 3_400 + WRITE_NS + 10_000)]
    {
        let (took_ns, failure) = alone(&mut m, &op(kind, 0, 1));
        let off = took_ns as i64 - expected_ns as i64;
        assert!(failure.is_none() && (-8..200).contains(&off), "{kind:?}: {took_ns}");
    }
    m.apply_fault(&Fault::Lose { part: PartId(1) });
    assert!(m.array_state(0).unwrap().missing.contains(0));
    assert_eq!(alone(&mut m, &op(OpKind::Read, 20, 1)).1, None);
    m.apply_fault(&Fault::Replace { part: PartId(1) });
    assert_eq!(m.array_state(0).unwrap().rebuilt.map(|of| of.0), Some(0));
}
