//! Arrays in virtual time: closed forms of one operation, the member operations of each level, and the data lost with
//! each set of members. (The crate `raid` tests layouts, plans and parity.)

use crate::common;

use crate::catalog_devices::Bench;
use common::{disk, flash, host, memory};
use iodyno_emulate::spec::{
    ArrayShape, Attach, Device, Kind, Preconditioned, STRIP_BYTES, Written,
};
use iodyno_emulate::{Completion, Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{IoError, Op, OpKind};

const STRIP: u64 = 64 << 10;
const UNIT: u32 = 4096;

fn shape(level: Level, members: u32) -> ArrayShape {
    ArrayShape { level, members, strip_bytes: STRIP, rotation: Rotation::LeftSymmetric }
}

/// One array of equal devices, on a host that costs nothing.
fn system(kind: &Kind, level: Level, members: u32) -> System {
    let mut system = System::new("test", host());
    for _ in 0..members {
        let device = Device {
            name: "device".to_owned(),
            kind: kind.clone(),
            hot_swap: true,
            limits: Vec::new(),
        };
        let state = Preconditioned { how: Written::Sequential, fill: 1.0 };
        system.add_device(device, state, 0);
    }
    let all = 0..members as usize;
    system.group(vec![(all, Some((shape(level, members), "array".to_owned())))]).unwrap();
    system
}

fn machine(kind: &Kind, level: Level, members: u32) -> Machine {
    let mut machine = Machine::new(&system(kind, level, members), 1).unwrap();
    machine.add_worker(0);
    machine
}

fn ssd() -> Kind {
    let mut flash = flash();
    flash.nand.parity_stripe = 0;
    Kind::Flash(Box::new(flash))
}

fn op(kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { offset_bytes, len_bytes, kind, fua: false }
}

/// Runs one operation alone. Returns its duration and its failure.
fn alone(machine: &mut Machine, op: &Op) -> (u64, Option<IoError>) {
    let from_ns = machine.submit(machine.now_ns(), 0, 0, op, 7);
    let done = machine.next_completion(u64::MAX).expect("it ends");
    while machine.step(u64::MAX) {}
    assert_eq!((done.token, machine.check()), (7, Ok(())));
    (done.at_ns - from_ns, done.failure)
}

/// Members read a unit in 50 us and accept a write in 2 us. An array takes 6 us for a stripe with
/// parity, and 1/8 ns a byte.
const READ_NS: u64 = 50_000 + 4;
const WRITE_NS: u64 = 2_000 + 4;

fn parity_ns(units: u64) -> u64 {
    6_000 + units * 4096 / 8
}

#[test]
fn an_operation_alone_takes_the_longest_member_of_each_step() {
    let small = op(OpKind::Write, 4096 * 3, UNIT);
    for (level, members, op, expected_ns) in [
        (Level::Raid0, 4, small, WRITE_NS),
        (Level::Raid1, 2, small, WRITE_NS),
        (Level::Raid10, 4, small, WRITE_NS),
        (Level::Jbod, 2, small, WRITE_NS),
        (Level::Raid5, 4, small, READ_NS + parity_ns(4) + WRITE_NS),
        (Level::Raid6, 6, small, READ_NS + parity_ns(6) + WRITE_NS),
        // The other member's data are fewer than the old data and parity.
        (Level::Raid5, 3, small, READ_NS + parity_ns(3) + WRITE_NS),
        (Level::Raid6, 4, small, READ_NS + parity_ns(4) + WRITE_NS),
        (Level::Raid5, 4, op(OpKind::Read, 8192, UNIT), READ_NS),
        (Level::Raid1, 3, op(OpKind::Read, 8192, UNIT), READ_NS),
        // A full stripe is written without reading.
        (Level::Raid5, 4, op(OpKind::Write, 0, 3 * STRIP as u32), parity_ns(64) + WRITE_NS),
    ] {
        let mut m = machine(&ssd(), level, members);
        let (took_ns, failure) = alone(&mut m, &op);
        assert_eq!(failure, None);
        // Transfers take a few ns a page.
        let off = took_ns as i64 - expected_ns as i64;
        assert!(
            (-8..200).contains(&off),
            "{level} of {members}, {op:?}: {took_ns} for {expected_ns}"
        );
    }
}

/// Mean time between completions with `depth` outstanding operations of `kind` in address order, ns.
fn period_ns(machine: &mut Machine, kind: OpKind, len: u32, depth: u64) -> f64 {
    let mut next = 0;
    let mut ends = Vec::new();
    for ended in 0..1500 {
        while next < ended + depth {
            let at = next * u64::from(len);
            machine.submit(machine.now_ns(), 0, 0, &op(kind, at, len), next);
            next += 1;
        }
        ends.push(machine.next_completion(u64::MAX).expect("some are outstanding").at_ns);
    }
    (ends[1499] - ends[499]) as f64 / 1000.0
}

/// Sequential reads of mirrored copies use all members alike.
#[test]
fn copies_are_read_from_all_members() {
    let mut kind = ssd();
    let Kind::Flash(flash) = &mut kind else { unreachable!() };
    let Attach::Link { read_bytes_per_s, .. } = &mut flash.attach else { unreachable!() };
    *read_bytes_per_s = 0.5e9;
    let raid10 = (2..=9).map(|members| (Level::Raid10, members));
    for (level, members) in raid10.chain([(Level::Raid1, 2), (Level::Raid1, 3)]) {
        for len in [STRIP as u32, 4 * STRIP as u32] {
            let is = period_ns(&mut machine(&kind, level, members), OpKind::Read, len, 64);
            let off = is * f64::from(members) * 0.5e9 / 1e9 / f64::from(len);
            assert!((0.98..1.1).contains(&off), "{level} of {members}, {len} bytes: {off}");
        }
    }
}

/// The worker's core does the host's work for each member operation of an array in the host, before it submits the
/// operation.
#[test]
fn members_cost_the_host_what_devices_do() {
    let mut kind = ssd();
    let Kind::Flash(flash) = &mut kind else { unreachable!() };
    let Attach::Link { host_ns, host_bytes_per_s, .. } = &mut flash.attach else { unreachable!() };
    (*host_ns, *host_bytes_per_s) = (40_000, 1e9);
    let strip = STRIP as u32;
    for (level, members, op, expected_ns) in [
        (Level::Raid0, 1, op(OpKind::Read, 4096, UNIT), 44_096),
        (Level::Raid0, 4, op(OpKind::Read, STRIP / 2, 2 * strip), 3 * 40_000 + 131_072),
        (Level::Raid1, 3, op(OpKind::Read, 4096, UNIT), 44_096),
        (Level::Raid1, 3, op(OpKind::Write, 4096, UNIT), 3 * 44_096),
        (Level::Raid10, 4, op(OpKind::Write, 4096, strip), 4 * 40_000 + 131_072),
        (Level::Raid6, 5, op(OpKind::Read, 0, 2 * strip), 2 * 40_000 + 131_072),
        // The array's own thread writes.
        (Level::Raid5, 3, op(OpKind::Write, 0, UNIT), 0),
        // These transfer no data.
        (Level::Raid0, 4, op(OpKind::Trim, 0, strip), 40_000),
        (Level::Raid0, 4, Op::FLUSH, 4 * 40_000),
    ] {
        let mut m = machine(&kind, level, members);
        let is_ns = m.submit(0, 0, 0, &op, 0);
        assert_eq!(is_ns, expected_ns, "{level} of {members}, {op:?}");
    }
}

/// Pages that members read and wrote for one host operation.
fn member_pages(machine: &mut Machine, op: &Op) -> (u64, u64) {
    let of = |m: &Machine| {
        let counts = m.flash_counts(0).unwrap();
        (counts.senses, counts.host_pages + m.buffered_bytes(0).unwrap().0 / 4096)
    };
    let before = of(machine);
    assert_eq!(alone(machine, op).1, None, "{op:?}");
    let after = of(machine);
    (after.0 - before.0, after.1 - before.1)
}

/// Each level needs the textbook's number of member operations (the write penalty), and a write of a full stripe saves
/// reads. Also checked with missing members.
#[test]
fn levels_cost_their_member_operations() {
    let read = op(OpKind::Read, 0, UNIT);
    let write = op(OpKind::Write, 0, UNIT);
    let stripe = |data: u64| op(OpKind::Write, 0, (data * STRIP) as u32);
    let pages = STRIP / 4096;
    for (level, members, op, reads, writes) in [
        (Level::Raid0, 5, write, 0, 1),
        (Level::Raid1, 3, write, 0, 3),
        (Level::Raid10, 5, write, 0, 2),
        (Level::Raid5, 8, write, 2, 2),
        (Level::Raid6, 8, write, 3, 3),
        (Level::Raid6, 8, read, 1, 0),
        (Level::Raid5, 5, stripe(4), 0, 5 * pages),
        (Level::Raid6, 6, stripe(4), 0, 6 * pages),
    ] {
        let mut m = machine(&ssd(), level, members);
        assert_eq!(member_pages(&mut m, &op), (reads, writes), "{level} of {members}, {op:?}");
    }
    // Without the member that holds the first strip a read takes all others (RAID 6: one parity of the two).
    for (level, reads) in [(Level::Raid5, 7), (Level::Raid6, 6)] {
        let mut m = machine(&ssd(), level, 8);
        lose(&mut m, 0);
        let members_with_data =
            (0..8).map(|strip| member_pages(&mut m, &self::op(OpKind::Read, strip * STRIP, UNIT)));
        let all: Vec<u64> = members_with_data.map(|(reads, _)| reads).collect();
        assert!(all.contains(&1) && all.contains(&reads), "{level}: {all:?}");
    }
}

fn lose(machine: &mut Machine, member: u32) {
    machine.apply_fault(&Fault::Lose { part: PartId(member) });
}

/// With missing members an array returns all data, or an error for data that is lost.
#[test]
fn an_array_serves_what_its_level_survives_and_fails_the_rest() {
    for (level, members, lost, survives) in [
        (Level::Raid0, 3, &[1][..], false),
        (Level::Jbod, 3, &[1], false),
        (Level::Raid1, 3, &[0, 2], true),
        (Level::Raid1, 2, &[0, 1], false),
        (Level::Raid10, 4, &[0, 2], true),
        (Level::Raid10, 4, &[0, 1], false),
        (Level::Raid5, 4, &[3], true),
        (Level::Raid5, 4, &[1, 3], false),
        (Level::Raid6, 5, &[0, 4], true),
        (Level::Raid6, 5, &[0, 2, 4], false),
    ] {
        let mut m = machine(&ssd(), level, members);
        for member in lost {
            lose(&mut m, *member);
        }
        let mut failed = 0;
        let mut rng = stream(1, "lost", 0);
        for _ in 0..200 {
            let kind = [OpKind::Read, OpKind::Write, OpKind::Flush][below(&mut rng, 3) as usize];
            let unit = below(&mut rng, m.capacity_bytes(0) / 4096);
            failed += u32::from(alone(&mut m, &op(kind, unit * 4096, UNIT)).1.is_some());
        }
        assert_eq!(failed == 0, survives, "{level} without {lost:?}: {failed} failed");
    }
}

/// Writes to one stripe with parity are serialized; writes to two stripes are not.
#[test]
fn writes_to_one_stripe_follow_each_other() {
    let took_ns = |level, second: u64| {
        let mut m = machine(&ssd(), level, 5);
        for (token, offset) in [0, second].into_iter().enumerate() {
            m.submit(0, 0, 0, &op(OpKind::Write, offset, UNIT), token as u64);
        }
        let ends: Vec<u64> =
            std::iter::from_fn(|| m.next_completion(u64::MAX)).map(|done| done.at_ns).collect();
        assert_eq!((ends.len(), m.check()), (2, Ok(())));
        ends[1]
    };
    let alone_ns = READ_NS + parity_ns(4) + WRITE_NS;
    assert!(took_ns(Level::Raid5, STRIP) > 2 * alone_ns - 100, "strips of one stripe");
    let apart_ns = took_ns(Level::Raid5, 8 * STRIP);
    assert!(apart_ns < alone_ns + parity_ns(4) + 300, "two stripes: {apart_ns}");
    assert!(took_ns(Level::Raid10, 4096) < WRITE_NS + 300, "no parity");
}

/// Unreadable sectors are recovered from the other members, and rewritten.
#[test]
fn unreadable_sectors_are_recovered_and_written_again() {
    for level in [Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6] {
        for kind in [ssd(), disk(false)] {
            let mut m = machine(&kind, level, 4);
            for member in 0..4 {
                let fault = Fault::Latent {
                    part: PartId(member),
                    // Each stripe is affected on one member only.
                    offset_bytes: u64::from(member) * 2 * STRIP,
                    len_bytes: STRIP,
                };
                m.apply_fault(&fault);
            }
            let read =
                |m: &mut Machine, strip: u64| alone(m, &op(OpKind::Read, strip * STRIP, UNIT));
            let first: Vec<_> = (0..24).map(|strip| read(&mut m, strip)).collect();
            assert!(first.iter().all(|(_, failure)| failure.is_none()), "{level}: {first:?}");
            let again: Vec<_> = (0..24).map(|strip| read(&mut m, strip)).collect();
            let slower = |of: &[(u64, Option<IoError>)]| of.iter().map(|o| o.0).max().unwrap();
            if matches!(kind, Kind::Flash(_)) && level.parities() > 0 {
                assert!(slower(&first) > slower(&again) + 50_000, "{level}: {first:?} {again:?}");
            }
        }
    }
    let mut m = machine(&ssd(), Level::Raid0, 2);
    m.apply_fault(&Fault::Latent { part: PartId(0), offset_bytes: 0, len_bytes: 4096 });
    assert_eq!(alone(&mut m, &op(OpKind::Read, 0, UNIT)).1, Some(IoError::Io));
}

/// Disks are rebuilt at a large part of their sequential rate on all levels, mirrors included.
#[test]
fn disks_rebuild_in_large_pieces() {
    for (name, sequential) in [("hdd-15k-300g", 150e6), ("hdd-nearline-20t", 200e6)] {
        let kind = Bench::new(name).device.kind;
        for (level, members) in
            [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 6)]
        {
            let mut system = System::new("test", host());
            for _ in 0..members {
                common::add(&mut system, kind.clone(), Written::Fresh);
            }
            let shape = ArrayShape { strip_bytes: STRIP_BYTES, ..shape(level, members) };
            system.group(vec![(0..members as usize, Some((shape, "array".to_owned())))]).unwrap();
            let mut m = Machine::new(&system, 1).unwrap();
            m.apply_fault(&Fault::Replace { part: PartId(1) });
            assert!(m.next_completion(10_000_000_000).is_none());
            let bytes_per_s = m.array_state(0).unwrap().counts.rebuilt_bytes as f64 / 10.0;
            let off = bytes_per_s / sequential;
            assert!((0.25..1.0).contains(&off), "{name}, {level}: {bytes_per_s}");
        }
    }
}

fn one<T: Copy>(rng: &mut Generator, of: &[T]) -> T {
    of[below(rng, of.len() as u64) as usize]
}

/// Histories of any operations on any array, with losses, errors and power cuts at any time. Every
/// operation ends once, nothing is left over, and no operation fails as long as the level survives
/// the losses.
#[test]
fn every_operation_ends_whatever_fails() {
    let mut lost_much = 0;
    for seed in 0..400 {
        let mut rng = stream(seed, "arrays", 0);
        let level = one(&mut rng, &Level::ALL);
        let members = level.least_members() as u32 + below(&mut rng, 4) as u32;
        let kind = one(&mut rng, &[0, 1, 2]);
        let kind = [ssd(), disk(true), memory(true)][kind].clone();
        let mut m = machine(&kind, level, members);
        let capacity = m.capacity_bytes(0);
        let losses = below(&mut rng, 3) as u32;
        let mut lost: Vec<u32> = Vec::new();
        for _ in 0..losses {
            let part = PartId(below(&mut rng, u64::from(members)) as u32);
            let fault = if below(&mut rng, 3) == 0 {
                let offset_bytes = below(&mut rng, 64) * 4096;
                Fault::Latent { part, offset_bytes, len_bytes: 16 << 10 }
            } else {
                lost.push(part.0);
                Fault::Lose { part }
            };
            m.inject(below(&mut rng, 3_000_000), fault);
        }
        let cuts = below(&mut rng, 8) == 0;
        if cuts {
            m.inject(below(&mut rng, 3_000_000), Fault::PowerCut);
        }
        lost.sort_unstable();
        lost.dedup();
        let (mut submitted, mut ended) = (0_u64, vec![false; 600]);
        let (mut failures, end) = (0, |done: Completion, ended: &mut Vec<bool>| {
            assert!(!std::mem::replace(&mut ended[done.token as usize], true));
            u32::from(done.failure.is_some())
        });
        while submitted < 600 {
            let kinds = [
                OpKind::Read,
                OpKind::Write,
                OpKind::Write,
                OpKind::Flush,
                OpKind::Trim,
                OpKind::WriteZeroes,
            ];
            // Many meet in few stripes.
            let len = one(&mut rng, &[1, 1, 4, 64, 200]);
            let at = below(&mut rng, 256) * 4096;
            let fua = below(&mut rng, 8) == 0;
            let op = Op {
                offset_bytes: at.min(capacity - len * 4096),
                len_bytes: len as u32 * 4096,
                kind: one(&mut rng, &kinds),
                fua,
            };
            m.submit(m.now_ns(), 0, 0, &op, submitted);
            submitted += 1;
            if submitted > 16 {
                failures += m.next_completion(u64::MAX).map_or(0, |done| end(done, &mut ended));
            }
        }
        while let Some(done) = m.next_completion(u64::MAX) {
            failures += end(done, &mut ended);
        }
        assert_eq!(m.check(), Ok(()), "seed {seed}");
        let what = format!("seed {seed}: {level} of {members} without {lost:?}, {failures} failed");
        assert!(cuts || ended.iter().all(|ended| *ended), "{what}");
        let set = lost.iter().map(|&member| member as usize).collect();
        let layout =
            iodyno_raid::Layout::new(level, &vec![1 << 21; members as usize], 128).unwrap();
        let redundant = layout.copies() > 1 || level.parities() > 0;
        // Latent errors on one member count as a loss of it.
        if redundant && losses <= 1 || lost.is_empty() && losses == 0 {
            assert_eq!(failures, 0, "{what}");
        }
        if !layout.survives(set) {
            lost_much += 1;
        }
    }
    assert!(lost_much > 20, "{lost_much}");
}

/// Random writes keep the disks of an array busy, although each write overwrites data that a disk
/// has just read and from which it would read ahead.
#[test]
fn random_writes_to_disks_keep_them_busy() {
    let Kind::Disk(mut disk) = disk(false) else { unreachable!() };
    (disk.read_ahead_bytes, disk.read_segments) = (512 << 10, 32);
    let mut m = machine(&Kind::Disk(disk), Level::Raid5, 4);
    let rng = &mut stream(9, "disks", 0);
    let units = m.capacity_bytes(0) / 4096;
    let mut submit = |m: &mut Machine, token: u64| {
        let write = op(OpKind::Write, below(rng, units) * 4096, UNIT);
        m.submit(m.now_ns(), 0, 0, &write, token);
    };
    (0..2).for_each(|token| submit(&mut m, token));
    for token in 2..1000 {
        assert!(m.next_completion(u64::MAX).is_some(), "{token}");
        submit(&mut m, token);
    }
    // Each reads, then writes, in some 20 ms.
    let took_s = m.now_ns() as f64 / 1e9;
    assert!((5.0..20.0).contains(&took_s), "{took_s} s");
}
