//! Content of arrays in situations that random histories (`array_histories.rs`) rarely or never reach: reports of lost
//! data, and the effects of a journal, a spare or a scrub.

use crate::common;

use common::{disk, flash, host, memory};
use iodyno_emulate::spec::{self, ArrayShape, Device, Kind, Part, Preconditioned, Volume, Written};
use iodyno_emulate::{Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::{IoError, Op, OpKind};

const UNIT: u64 = 4096;
const STRIP_UNITS: u64 = 4;

/// A device that loses nothing that it acknowledged.
fn durable() -> Kind {
    let Kind::Memory(mut memory) = memory(true) else { unreachable!() };
    memory.capacity_bytes = 64 * UNIT;
    Kind::Memory(memory)
}

/// A device that loses unflushed data in a power cut.
fn volatile() -> Kind {
    let mut flash = flash();
    flash.capacity_bytes = 64 * UNIT;
    flash.nand.channels = 2;
    flash.nand.pages_per_block = 8;
    flash.nand.raw_bytes = 192 * UNIT;
    flash.nand.parity_stripe = 0;
    flash.buffer.protected = false;
    flash.buffer.bytes = 64 * UNIT;
    Kind::Flash(Box::new(flash))
}

/// An array of fresh devices that keeps content; `change` sets other parameters.
fn machine(
    kind: &Kind,
    level: Level,
    (members, spares): (u32, u32),
    change: impl Fn(&mut spec::Array),
) -> Machine {
    let mut system = System::new("test", host());
    for _ in 0..members + spares {
        let device = Device {
            name: "device".to_owned(),
            kind: kind.clone(),
            hot_swap: true,
            limits: Vec::new(),
        };
        system.add_device(device, Preconditioned { how: Written::Fresh, fill: 0.0 }, 0);
    }
    let strip_bytes = STRIP_UNITS * UNIT;
    let shape = ArrayShape { level, members, strip_bytes, rotation: Rotation::LeftSymmetric };
    let all = members as usize;
    let mut groups = vec![(0..all, Some((shape, "array".to_owned())))];
    groups.extend((all..all + spares as usize).map(|at| (at..at + 1, None)));
    system.group(groups).unwrap();
    let Some(Part::Array(array)) = system.parts.last_mut() else { unreachable!() };
    let devices = (0..members + spares).map(PartId);
    array.spares = (members..members + spares).map(PartId).collect();
    change(array);
    // Each device is a volume too.
    let state = Preconditioned { how: Written::Fresh, fill: 0.0 };
    let alone = |root| Volume { name: "device".to_owned(), root, state };
    system.volumes.truncate(1);
    system.volumes.extend(devices.map(alone));
    let mut machine = Machine::represented(&system, 1, 1).unwrap();
    machine.keep_content();
    machine.add_worker(0);
    machine
}

fn op(kind: OpKind, unit: u64, units: u64) -> Op {
    Op { offset_bytes: unit * UNIT, len_bytes: (units * UNIT) as u32, kind, fua: false }
}

/// Runs one operation alone; a write gives its units this value. Returns the values read.
fn alone(machine: &mut Machine, op: &Op, value: u64) -> Result<Vec<u64>, IoError> {
    machine.submit(machine.now_ns(), 0, 0, op, value);
    let done = machine.next_completion(u64::MAX).expect("it ends");
    let values = machine.values_read().map(<[u64]>::to_vec);
    done.failure.map_or_else(|| Ok(values.unwrap_or_default()), Err)
}

fn write(machine: &mut Machine, unit: u64, value: u64) {
    assert_eq!(alone(machine, &op(OpKind::Write, unit, 1), value), Ok(Vec::new()));
}

fn read(machine: &mut Machine, unit: u64) -> Result<u64, IoError> {
    alone(machine, &op(OpKind::Read, unit, 1), 0).map(|values| values[0])
}

fn flush(machine: &mut Machine) {
    assert_eq!(alone(machine, &Op::FLUSH, 0), Ok(Vec::new()));
}

/// Waits until the array has ended all its internal work.
fn settle(machine: &mut Machine) {
    while machine.step(u64::MAX) {}
    assert_eq!(machine.check(), Ok(()));
}

fn lose(machine: &mut Machine, part: u32) {
    machine.apply_fault(&Fault::Lose { part: PartId(part) });
}

fn rebuild(machine: &mut Machine, part: u32) {
    machine.apply_fault(&Fault::Replace { part: PartId(part) });
    settle(machine);
    assert!(machine.array_state(0).unwrap().missing.is_empty());
}

/// A RAID 5 that has lost two units of a row: one on a member that was replaced, and one that could
/// not be read during the rebuild.
fn without_unit_0(journal: bool) -> Machine {
    let mut m = machine(&volatile(), Level::Raid5, (3, 0), |array| array.journal = journal);
    for unit in 0..3 * STRIP_UNITS {
        write(&mut m, unit, 100 + unit);
    }
    flush(&mut m);
    settle(&mut m);
    lose(&mut m, 0);
    m.apply_fault(&Fault::Latent { part: PartId(1), offset_bytes: 0, len_bytes: UNIT });
    rebuild(&mut m, 0);
    let lost = Err(IoError::Io);
    let units = [0, 1, STRIP_UNITS];
    assert_eq!(units.map(|unit| read(&mut m, unit)), [lost, Ok(101), lost]);
    assert_eq!(units.map(|unit| m.content(0, unit * UNIT)), [None, Some(101), None]);
    m
}

#[test]
fn a_lost_unit_is_reported_until_it_is_written_as_a_whole() {
    let mut m = without_unit_0(false);
    let part = Op { offset_bytes: 512, len_bytes: 1024, kind: OpKind::Write, fua: false };
    assert_eq!(alone(&mut m, &part, 7), Ok(Vec::new()));
    assert_eq!(read(&mut m, 0), Err(IoError::Io), "of the rest of it nothing is known");
    assert_eq!(m.content(0, 0), None);
    assert_eq!(alone(&mut m, &op(OpKind::Trim, 0, 1), 0), Ok(Vec::new()));
    assert_eq!(read(&mut m, 0), Err(IoError::Io), "a trim may be ignored");
    write(&mut m, 0, 8);
    assert_eq!(read(&mut m, 0), Ok(8));
}

/// A power cut takes back a rewrite of a lost unit, which is then reported as lost again, unless
/// the rewrite was durable or in a journal.
#[test]
fn a_power_cut_takes_back_the_write_that_healed_a_unit() {
    for (journal, flushes) in [(false, false), (false, true), (true, false)] {
        let mut m = without_unit_0(journal);
        write(&mut m, 0, 8);
        write(&mut m, STRIP_UNITS, 9);
        assert!(m.array_health(0).unwrap().lost, "a power cut would bring it back");
        if flushes {
            flush(&mut m);
            assert!(!m.array_state(0).unwrap().lost);
        }
        m.apply_fault(&Fault::PowerCut);
        settle(&mut m);
        let expected = if flushes || journal { [Ok(8), Ok(9)] } else { [Err(IoError::Io); 2] };
        assert_eq!([0, STRIP_UNITS].map(|unit| read(&mut m, unit)), expected);
    }
}

/// A flush that began before a lost unit was rewritten does not make the rewrite durable.
#[test]
fn a_flush_makes_durable_what_was_written_before_it() {
    let mut m = without_unit_0(false);
    let (part, kind) = (PartId(2), Some(OpKind::Flush));
    m.apply_fault(&Fault::Delay { part, delay_ns: 10_000_000, kind });
    m.submit(m.now_ns(), 0, 0, &Op::FLUSH, 1);
    for unit in [0, STRIP_UNITS] {
        m.submit(m.now_ns(), 0, 0, &op(OpKind::Write, unit, 1), 8);
        assert_eq!(m.next_completion(u64::MAX).map(|done| done.token), Some(8));
    }
    assert_eq!(m.next_completion(u64::MAX).map(|done| (done.token, done.failure)), Some((1, None)));
    assert!(m.array_health(0).unwrap().lost);
    m.apply_fault(&Fault::PowerCut);
    settle(&mut m);
    assert_eq!(read(&mut m, 0), Err(IoError::Io));
}

/// A member that fails a flush may have lost any data: the array drops the member, or fails the
/// flush.
#[test]
fn a_member_that_fails_a_flush_is_missing() {
    for level in Level::ALL {
        let mut m = machine(&volatile(), level, (4, 0), |_| {});
        write(&mut m, 0, 1);
        let (part, kind) = (PartId(0), Some(OpKind::Flush));
        m.apply_fault(&Fault::Errors { part, percent: 100.0, kind });
        let is_redundant = !matches!(level, Level::Raid0 | Level::Jbod);
        assert_eq!(alone(&mut m, &Op::FLUSH, 0).is_ok(), is_redundant, "{level}");
        assert_eq!(m.array_state(0).unwrap().missing.contains(0), is_redundant, "{level}");
    }
}

/// The journal holds the last write to a unit, even if the unit's member was missing at that time.
#[test]
fn a_journal_forgets_what_a_missing_member_held() {
    for level in [Level::Raid5, Level::Raid6] {
        let mut m = machine(&durable(), level, (4, 0), |array| array.journal = true);
        write(&mut m, 0, 1);
        lose(&mut m, 0);
        write(&mut m, 0, 2);
        m.apply_fault(&Fault::PowerCut);
        settle(&mut m);
        assert_eq!(read(&mut m, 0), Ok(2), "{level}");
    }
}

/// A journal is replayed even in a row that has lost more units than the level survives.
#[test]
fn a_journal_is_replayed_in_rows_that_have_lost_something() {
    let mut m = machine(&volatile(), Level::Raid5, (4, 0), |array| array.journal = true);
    (0..3 * STRIP_UNITS).for_each(|unit| write(&mut m, unit, 100 + unit));
    flush(&mut m);
    settle(&mut m);
    write(&mut m, 0, 7);
    for member in [1, 2] {
        let part = PartId(member);
        m.apply_fault(&Fault::Latent { part, offset_bytes: 0, len_bytes: UNIT });
    }
    m.apply_fault(&Fault::PowerCut);
    settle(&mut m);
    let units = [0, STRIP_UNITS, 2 * STRIP_UNITS];
    let lost = Err(IoError::Io);
    assert_eq!(units.map(|unit| read(&mut m, unit)), [Ok(7), lost, lost]);
    m.scrub(0);
    settle(&mut m);
    assert_eq!(m.array_state(0).unwrap().counts.contradictions, 0);
}

/// A forced write makes its row durable only if all earlier writes of the row were durable.
#[test]
fn a_row_is_durable_when_all_its_writes_are() {
    let mut m = machine(&volatile(), Level::Raid5, (3, 0), |_| {});
    let forced = Op { fua: true, ..op(OpKind::Write, STRIP_UNITS, 1) };
    assert_eq!(alone(&mut m, &forced, 1), Ok(Vec::new()));
    assert!(!m.has_unflushed_rows(0));
    write(&mut m, 0, 2);
    assert_eq!(alone(&mut m, &forced, 3), Ok(Vec::new()));
    assert!(m.has_unflushed_rows(0), "of the write beside it");
    flush(&mut m);
    assert!(!m.has_unflushed_rows(0));
}

/// Operations in flight to a lost member end in the same way whether or not a spare replaces it.
#[test]
fn operations_in_flight_survive_their_members_replacement() {
    for level in [Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6] {
        for kind in [OpKind::Read, OpKind::Write] {
            for part in 0..4 {
                let mut m = machine(&volatile(), level, (4, 1), |_| {});
                for unit in 0..24 {
                    write(&mut m, unit, 100 + unit);
                }
                flush(&mut m);
                settle(&mut m);
                let now_ns = m.now_ns();
                (0..24).for_each(|unit| {
                    m.submit(now_ns, 0, 0, &op(kind, unit, 1), 200 + unit);
                });
                while m.next_event().is_some_and(|at_ns| at_ns <= now_ns) {
                    m.step(now_ns);
                }
                lose(&mut m, part);
                assert!(m.array_state(0).unwrap().members.contains(&PartId(4)));
                let mut ended = 0;
                while let Some(done) = m.next_completion(u64::MAX) {
                    let unit = done.token - 200;
                    assert_eq!(done.failure, None, "{level}, {kind:?} without {part}: {unit}");
                    if kind == OpKind::Read {
                        assert_eq!(m.values_read(), Some(&[100 + unit][..]));
                    }
                    ended += 1;
                }
                assert_eq!(ended, 24);
                settle(&mut m);
                let base = if kind == OpKind::Read { 100 } else { 200 };
                for unit in 0..24 {
                    assert_eq!(read(&mut m, unit), Ok(base + unit), "{level}, {kind:?}, {part}");
                }
            }
        }
    }
}

/// A scrub counts each row whose parity or copies contradict the data, from the first stripe to the
/// last.
#[test]
fn a_scrub_counts_contradictions() {
    for level in [Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6] {
        for member in 0..4 {
            let mut m = machine(&durable(), level, (4, 0), |_| {});
            for unit in 0..m.capacity_bytes(0) / UNIT {
                write(&mut m, unit, 100 + unit);
            }
            let scrub = |m: &mut Machine| {
                m.scrub(0);
                settle(m);
                m.array_state(0).unwrap().counts
            };
            let counts = scrub(&mut m);
            assert_eq!((counts.contradictions, counts.scrubs), (0, 1), "{level}");
            // Another host writes to the device.
            for unit in [0, 63] {
                m.submit(m.now_ns(), 0, 1 + member, &op(OpKind::Write, unit, 1), 7);
                assert_eq!(m.next_completion(u64::MAX).unwrap().failure, None);
            }
            let counts = scrub(&mut m);
            assert_eq!((counts.contradictions, counts.scrubs), (2, 2), "{level}: {member}");
        }
    }
}

/// Writing zeroes to a part of a unit does not zero the whole unit, on any level.
#[test]
fn zeroes_are_of_whole_units() {
    for level in Level::ALL {
        let mut m = machine(&volatile(), level, (4, 0), |_| {});
        (0..4).for_each(|unit| write(&mut m, unit, 100 + unit));
        let (offset_bytes, kind) = (UNIT / 2, OpKind::WriteZeroes);
        let zeroes = Op { offset_bytes, len_bytes: 2 * UNIT as u32, kind, fua: false };
        assert_eq!(alone(&mut m, &zeroes, 7), Ok(Vec::new()));
        let values = [0, 1, 2, 3].map(|unit| read(&mut m, unit).unwrap());
        assert_eq!((values[1], values[3]), (0, 103), "{level}");
        assert!(values[0] != 0 && values[2] != 0, "{level}: {values:?}");
    }
}

/// A read fails if its member answers so late that the unit was lost and zeroed before the answer.
#[test]
fn a_read_does_not_return_what_was_lost_meanwhile() {
    let mut m = machine(&disk(true), Level::Raid5, (3, 0), |_| ());
    let units = 4 * STRIP_UNITS;
    alone(&mut m, &op(OpKind::Write, 0, units), 7).unwrap();
    alone(&mut m, &Op::FLUSH, 0).unwrap();
    // Unit 0 is on member 0, and a strip of its stripe on member 1.
    let (part, read) = (PartId(0), op(OpKind::Read, 0, 1));
    let delay = |delay_ns| Fault::Delay { part, delay_ns, kind: Some(OpKind::Read) };
    m.apply_fault(&delay(4_000_000_000));
    m.submit(m.now_ns(), 0, 0, &read, 1);
    assert!(m.next_completion(m.now_ns() + 1_000_000_000).is_none(), "it is late");
    m.apply_fault(&delay(0));
    m.apply_fault(&Fault::Latent { part, offset_bytes: 0, len_bytes: UNIT });
    m.apply_fault(&Fault::Replace { part: PartId(1) });
    let begin_ns = m.now_ns();
    while !m.array_state(0).unwrap().lost {
        assert!(m.step(begin_ns + 1_000_000_000) && m.now_ns() < begin_ns + 900_000_000);
    }
    // Zeroes are written in its place.
    assert!(m.next_completion(begin_ns + 1_500_000_000).is_none(), "it is late");
    let done = m.next_completion(u64::MAX).unwrap();
    assert_eq!(done.failure, Some(IoError::Io), "{:?}", m.values_read());
    assert_eq!(alone(&mut m, &read, 2), Err(IoError::Io));
    alone(&mut m, &op(OpKind::Write, 0, 1), 9).unwrap();
    assert_eq!(alone(&mut m, &read, 3).unwrap(), [9]);
}

/// A flush that began in one rebuild makes nothing durable that a later rebuild has written.
#[test]
fn a_flush_of_one_rebuild_says_nothing_of_the_next() {
    let slow = |array: &mut spec::Array| array.rebuild_bytes_per_s = 100e6;
    // A mirror that is rebuilt in pieces of a small strip.
    let mut m = machine(&volatile(), Level::Raid10, (2, 0), slow);
    let units = 64;
    alone(&mut m, &op(OpKind::Write, 0, units), 7).unwrap();
    alone(&mut m, &Op::FLUSH, 0).unwrap();
    // 64 units take some 2.6 ms, and those of the last one are not in the cells yet.
    let us = |m: &mut Machine, us: u64| {
        let until_ns = m.now_ns() + us * 1_000;
        assert!(m.next_completion(until_ns).is_none());
    };
    let replaced = Fault::Replace { part: PartId(1) };
    m.apply_fault(&replaced);
    us(&mut m, 2_000);
    let delay = |delay_ns| Fault::Delay { part: PartId(0), delay_ns, kind: Some(OpKind::Flush) };
    m.apply_fault(&delay(2_000_000));
    m.submit(m.now_ns(), 0, 0, &Op::FLUSH, 1);
    us(&mut m, 200);
    m.apply_fault(&replaced);
    let done = m.next_completion(u64::MAX).unwrap();
    assert_eq!(done.failure, None);
    m.apply_fault(&delay(0));
    let share = m.array_state(0).unwrap().rebuilt.expect("the second is under way").1;
    assert!((0.3..0.95).contains(&share), "{share}");
    // What the new member has accepted since is lost, and written again.
    m.apply_fault(&Fault::PowerCut);
    while m.step(u64::MAX) {}
    assert!(m.array_state(0).unwrap().missing.is_empty());
    m.apply_fault(&Fault::Lose { part: PartId(0) });
    assert_eq!(alone(&mut m, &op(OpKind::Read, 0, units), 0).unwrap(), vec![7; 64]);
}
