//! Arrays with bytes, alone and behind RAID adapters: random operations, losses, replacements and power cuts, on
//! members that keep acknowledged data. Each read must return the latest bytes written.

mod composed;
mod rig;

use iodyno_emulate::spec::{Kind, Part};
use iodyno_emulate::{AdapterFault, Fault, Machine, PartId};
use iodyno_live::counts::Looks;
use iodyno_live::fault_command::{self, Ask};
use iodyno_live::record::{Record, Recorder};
use iodyno_live::served::{ArrayFolder, DescribedArray, Payload};
use iodyno_raid::Level;
use iodyno_units::rng::{below, stream};
use iodyno_units::{IoError, Op, OpKind};
use rig::{NOW_NS, Rig, STEP_NS, UNIT, options, stores_in_memory, system};
use std::fs::File;
use std::os::unix::fs::FileExt;

#[test]
fn every_read_returns_the_bytes_that_were_written_last() {
    let mut rebuilt = 0;
    let only = std::env::var("HISTORY").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in only.map_or(0..400, |seed| seed..seed + 1) {
        let mut random = stream(seed, "live-arrays", 0);
        let level = Level::ALL[below(&mut random, 6) as usize];
        let members = level.least_members() as u32 + below(&mut random, 3) as u32;
        let adapters = [None, Some(false), Some(true), Some(true)][below(&mut random, 4) as usize];
        // (Adapters take no memory.)
        let kind = below(&mut random, 2).max(u64::from(adapters.is_some()));
        let strip = 1 + below(&mut random, 3);
        NOW_NS.set(1_000);
        println!(
            "HISTORY={seed}: {level} of {members}, strips of {strip}, kind {kind}, {adapters:?}"
        );
        let mut rig = Rig::new(level, members, kind, strip, adapters);
        let mut lost: Vec<u32> = Vec::new();
        for _ in 0..60 {
            match below(&mut random, 12) {
                0 if lost.len() < rig.tolerates => {
                    let member = below(&mut random, u64::from(rig.members)) as u32;
                    if !lost.contains(&member) {
                        rig.live.inject(Fault::Lose { part: PartId(member) });
                        lost.push(member);
                    }
                }
                1 => {
                    if let Some(member) = lost.pop() {
                        rig.live.inject(Fault::Replace { part: PartId(member) });
                        for _ in 0..3 {
                            let op = rig.any_op(&mut random);
                            rig.run(&op, &mut random);
                        }
                        rig.settle();
                        let missing =
                            rig.live.look(|m, _, _| m.array_state(0).unwrap().missing.len());
                        assert_eq!(missing, lost.len(), "seed {seed}");
                        rebuilt += 1;
                    }
                }
                2 => {
                    // Without a flush, or a journal in the adapters' memory, data of members that are missing before
                    // the resync would be lost: the write hole.
                    if !lost.is_empty() && adapters != Some(true) {
                        let flushed = rig.wait(&rig.begin(&Op::FLUSH, Payload::None));
                        assert_eq!(flushed.0, Ok(()));
                    }
                    rig.live.inject(Fault::PowerCut);
                    rig.settle();
                }
                3 if level.parities() > 0 && lost.is_empty() && kind == 0 => {
                    // Bits flip on a member: it can't be read there, and is recovered.
                    rig.settle();
                    let member = below(&mut random, u64::from(rig.members)) as usize;
                    let range = 8 * UNIT..9 * UNIT;
                    rig.live.look(|_, stores, _| stores[member].corrupt(&range, seed));
                    let len_bytes = rig.bytes.len().min(64 * UNIT as usize) as u32;
                    let all = Op { offset_bytes: 0, len_bytes, kind: OpKind::Read, fua: false };
                    let _ = rig.wait(&rig.begin(&all, Payload::ReadIntoSink));
                    rig.settle();
                    rig.run(&all, &mut random);
                    rig.live.look(|machine, stores, _| {
                        stores[member].clear_corruption();
                        machine.apply_fault(&Fault::Clear { part: PartId(member as u32) });
                    });
                }
                4 | 5 if adapters.is_some() => rig.adapters_fail(&mut random),
                _ => {
                    let op = rig.any_op(&mut random);
                    rig.run(&op, &mut random);
                }
            }
        }
        if adapters.is_some() {
            for adapter in 0..2 {
                rig.live.inject(Fault::Adapters(AdapterFault::Clear { adapter }));
            }
        }
        rig.read_all(&mut random);
        // As many members as the level survives are lost at last.
        for member in 0..rig.members {
            if lost.len() < rig.tolerates && !lost.contains(&member) {
                rig.live.inject(Fault::Lose { part: PartId(member) });
                lost.push(member);
            }
        }
        rig.read_all(&mut random);
    }
    assert!(only.is_some() || rebuilt > 100, "{rebuilt}");
}

/// Concurrent small writes to different sectors don't undo each other, whatever the adapters' cache reads for them.
#[test]
fn small_writes_at_once_keep_each_other() {
    for (seed, level) in (0..60).zip(Level::ALL.into_iter().cycle()) {
        NOW_NS.set(1_000);
        let random = &mut stream(seed, "small-writes", 0);
        let members = level.least_members() as u32;
        let mut rig = Rig::new(level, members, 1, 1, Some(seed % 3 > 0));
        for _ in 0..80 {
            // In units that the cache does not hold any more, mostly; several writes have parts of one.
            let first = below(random, 55) * 8;
            let mut at = first + below(random, 3);
            let mut open = Vec::new();
            while at < first + 24 {
                let sectors = 1 + below(random, 5);
                let range = at as usize * 512..(at + sectors) as usize * 512;
                let data: Vec<u8> = range.clone().map(|_| below(random, 256) as u8).collect();
                rig.bytes[range].copy_from_slice(&data);
                let (offset_bytes, len_bytes) = (at * 512, sectors as u32 * 512);
                let op = Op { offset_bytes, len_bytes, kind: OpKind::Write, fua: false };
                open.push(rig.begin(&op, Payload::Write(&data)));
                at += sectors + below(random, 3);
                if below(random, 3) == 0 {
                    NOW_NS.set(NOW_NS.get() + below(random, 200_000));
                    rig.live.poll(Looks::default());
                }
            }
            for from in open {
                assert_eq!(rig.wait(&from).0, Ok(()), "seed {seed}");
            }
        }
        rig.read_all(random);
        rig.settle();
        rig.read_all(random);
    }
}

/// Runs an operation on a volume of two devices behind a cache. While the operation waits for the second device, the
/// cached version of a unit of the first device becomes older or newer than the device's.
fn beside_a_late_read(begin: impl Fn(&mut Rig) -> Op, end: impl Fn(&mut Rig)) {
    NOW_NS.set(1_000);
    let random = &mut stream(1, "late", 0);
    let mut rig = Rig::new(Level::Raid0, 2, 1, 1, Some(true));
    let write = |unit| {
        let (offset_bytes, len_bytes) = (unit * UNIT, UNIT as u32);
        Op { offset_bytes, len_bytes, kind: OpKind::Write, fua: false }
    };
    // Half of the cache has 24 units.
    let others =
        |rig: &mut Rig, random: &mut _| (20..80).for_each(|unit| rig.run(&write(unit), random));
    rig.run(&write(0), random);
    others(&mut rig, random);
    rig.settle();
    let delay = Fault::Delay { part: PartId(1), delay_ns: 900_000_000, kind: Some(OpKind::Read) };
    rig.live.inject(delay);
    let late = begin(&mut rig);
    let from = rig.start(&late, random);
    NOW_NS.set(NOW_NS.get() + 2_000_000);
    rig.live.poll(Looks::default());
    if late.kind == OpKind::Write {
        rig.run(&write(0), random);
    }
    others(&mut rig, random);
    assert!(from.try_recv().is_err() && NOW_NS.get() < 900_000_000, "it is late");
    assert_eq!(rig.wait(&from).0, Ok(()));
    end(&mut rig);
}

/// If a unit is destaged while a read of its neighbour waits, the content that the read found earlier is not kept in
/// the cache.
#[test]
fn what_a_late_read_found_is_not_kept() {
    let op = |kind, units: u64| Op {
        offset_bytes: 0,
        len_bytes: (units * UNIT) as u32,
        kind,
        fua: false,
    };
    beside_a_late_read(
        |rig| {
            // It waits in the cache, and its neighbour is not there.
            rig.run(&op(OpKind::Write, 1), &mut stream(3, "late", 0));
            op(OpKind::Read, 2)
        },
        |rig| {
            rig.run(&op(OpKind::Read, 1), &mut stream(4, "late", 0));
            rig.settle();
            rig.run(&op(OpKind::Read, 2), &mut stream(5, "late", 0));
        },
    );
}

/// A small write reads its first unit again if the unit was changed, destaged and evicted while the write read its last
/// unit.
#[test]
fn a_small_write_reads_again_what_changed() {
    let late = Op {
        offset_bytes: UNIT - 512,
        len_bytes: 1024 + 4 * UNIT as u32,
        kind: OpKind::Write,
        fua: false,
    };
    beside_a_late_read(
        |_| late,
        |rig| {
            let read = Op {
                offset_bytes: 0,
                len_bytes: UNIT as u32 - 512,
                kind: OpKind::Read,
                fua: false,
            };
            rig.run(&read, &mut stream(6, "late", 0));
        },
    );
}

/// Data lost to more failures than the level survives reads as an error until it is rewritten.
#[test]
fn bytes_that_are_lost_are_reported() {
    let mut random = stream(1, "lost", 0);
    for (level, members) in [(Level::Raid0, 3), (Level::Raid5, 3), (Level::Raid6, 4)] {
        NOW_NS.set(1_000);
        let mut rig = Rig::new(level, members, 1, 1, None);
        let all = rig.bytes.len() as u32;
        let op = |kind| Op { offset_bytes: 0, len_bytes: all, kind, fua: false };
        rig.run(&op(OpKind::Write), &mut random);
        for member in 0..=rig.tolerates as u32 {
            rig.live.inject(Fault::Lose { part: PartId(member) });
        }
        let read = |rig: &Rig| rig.wait(&rig.begin(&op(OpKind::Read), Payload::ReadIntoSink)).0;
        assert_eq!(read(&rig), Err(IoError::Io), "{level}");
        for member in 0..=rig.tolerates as u32 {
            rig.live.inject(Fault::Replace { part: PartId(member) });
        }
        rig.settle();
        assert_eq!(read(&rig), Err(IoError::Io), "{level}");
        if level != Level::Raid0 {
            rig.run(&op(OpKind::Write), &mut random);
            rig.run(&op(OpKind::Read), &mut random);
        }
    }
}

/// Replays the record of a server that shut down cleanly, after access states had changed and the cache was destaged.
#[test]
fn a_record_of_adapters_gives_the_same_events() {
    NOW_NS.set(1_000);
    let random = &mut stream(1, "record", 0);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.rec");
    let mut rig = Rig::new(Level::Raid5, 3, 1, 1, Some(true));
    rig.live.record(Recorder::create(&path, &serde_json::json!({})).unwrap());
    for number in 0..60 {
        let op = rig.any_op(random);
        rig.run(&op, random);
        if number % 10 == 9 {
            let on = Some(1 - number / 10 % 2);
            rig.live.inject(Fault::Adapters(AdapterFault::Access { volume: 0, on, from: 0 }));
        }
    }
    let state = rig.live.look(|machine, _, _| machine.adapters()).unwrap();
    assert!(state.dirty_bytes > 0 && state.adapters[0].optimized == [0], "{state:?}");
    // (The clock is ahead of the last event.)
    NOW_NS.set(NOW_NS.get() + 100_000);
    rig.live.end(|_| 0).unwrap();
    let record = std::fs::read(&path).unwrap();
    let mut machine =
        Machine::represented(&system(Level::Raid5, 3, 1, 1, Some(true)), 1, 1).unwrap();
    machine.add_worker(0);
    machine.follow_content();
    let record = Record::open(&record[..]).unwrap();
    let ended = record.replay(&mut machine, &mut |_, _| {}).unwrap();
    assert_eq!((ended.faults, ended.is_same()), (6, Some(true)));
    assert_eq!(machine.adapters().unwrap().dirty_bytes, 0);
}

/// A fault at the interface counts in the simulated time, also while that is held back: a reply that it delays stays
/// back, and a fault that is injected begins at the held time.
#[test]
fn faults_at_the_interface_follow_the_held_time() {
    NOW_NS.set(1_000);
    let random = &mut stream(1, "lag and faults", 0);
    let mut rig = Rig::new(Level::Raid1, 2, 1, 1, None);
    let inject = |rig: &Rig, fault: &str| match fault_command::parse(
        &fault.split(' ').collect::<Vec<_>>(),
    ) {
        Ok(Ask::Interface { volume, fault }) => rig.live.add_interface_fault(volume, fault),
        other => panic!("{other:?}"),
    };
    inject(&rig, "delay 30s next 1");
    let mut write = |rig: &mut Rig| {
        let units = rig.bytes.len() as u64 / UNIT;
        let offset_bytes = below(random, units) * UNIT;
        let op = Op { offset_bytes, len_bytes: UNIT as u32, kind: OpKind::Write, fua: false };
        rig.start(&op, random)
    };
    let delayed = write(&mut rig);
    let others: Vec<_> = (0..400).map(|_| write(&mut rig)).collect();
    NOW_NS.set(60_000_000_000);
    STEP_NS.set(1_000_000);
    rig.live.poll(Looks::default());
    assert!(others.iter().any(|from| from.try_recv().is_ok()));
    assert!(delayed.try_recv().is_err(), "30 s have not passed in the simulated time");
    NOW_NS.set(200_000_000_000);
    inject(&rig, "error EIO reads for 10s");
    let faults = rig.live.interface_faults(0);
    assert!(!faults.last().unwrap().is_over, "{faults:?}");
    STEP_NS.set(0);
    NOW_NS.set(NOW_NS.get() + 11_000_000_000);
    for _ in 0..1_000 {
        rig.live.poll(Looks::default());
    }
    let faults = rig.live.interface_faults(0);
    assert!(faults.last().unwrap().is_over, "{faults:?}");
}

/// If this computer simulates too slowly, no thread keeps the lock until all due events have been processed: the
/// simulated time is held back. A replay still gives the same events.
#[test]
fn a_machine_that_lags_lets_others_in() {
    NOW_NS.set(1_000);
    let random = &mut stream(1, "lag", 0);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lag.rec");
    let mut rig = Rig::new(Level::Raid1, 2, 1, 1, None);
    rig.live.record(Recorder::create(&path, &serde_json::json!({})).unwrap());
    let units = rig.bytes.len() as u64 / UNIT;
    let mut open = Vec::new();
    for _ in 0..400 {
        let offset_bytes = below(random, units) * UNIT;
        let op = Op { offset_bytes, len_bytes: UNIT as u32, kind: OpKind::Write, fua: false };
        open.push(rig.start(&op, random));
    }
    assert!(!rig.live.is_held_back());
    // Each reading of the clock stands for a time in which few events were processed.
    NOW_NS.set(60_000_000_000);
    STEP_NS.set(1_000_000);
    rig.live.poll(Looks::default());
    let is_over = |from: &std::sync::mpsc::Receiver<_>| from.try_recv().is_ok();
    open.retain(|from| !is_over(from));
    assert!(open.len() > 100, "{} are left", open.len());
    assert!(rig.live.held_back_ns() > 59_000_000_000, "{}", rig.live.held_back_ns());
    assert!(rig.live.is_held_back());
    let part = PartId(0);
    rig.live.inject(Fault::Delay { part, delay_ns: 5_000, kind: None });
    open.push(rig.begin(&Op::FLUSH, Payload::None));
    let mut polls = 0;
    while !open.is_empty() {
        rig.live.poll(Looks::default());
        open.retain(|from| !is_over(from));
        polls += 1;
    }
    assert!(polls > 2, "{polls}");
    STEP_NS.set(0);
    rig.read_all(random);
    rig.live.end(|_| 0).unwrap();
    let record = std::fs::read(&path).unwrap();
    let mut machine = Machine::represented(&system(Level::Raid1, 2, 1, 1, None), 1, 1).unwrap();
    machine.add_worker(0);
    machine.follow_content();
    let record = Record::open(&record[..]).unwrap();
    let ended = record.replay(&mut machine, &mut |_, _| {}).unwrap();
    assert_eq!((ended.faults, ended.is_same()), (1, Some(true)));
}

/// Corrupt data of a member is rebuilt by the device, else by the array, and no read fails. Without redundancy reads
/// fail until the data is rewritten, and a rebuilt member does not return other bytes instead.
#[test]
fn corrupt_data_of_a_member_is_rebuilt_or_refused() {
    for (device_rebuilds, array_rebuilds) in
        [(true, true), (true, false), (false, true), (false, false)]
    {
        NOW_NS.set(1_000);
        let random = &mut stream(1, "corrupt", 0);
        let mut system = system(Level::Raid1, 2, 1, 1, None);
        for part in &mut system.parts {
            if let Part::Device(placed) = part
                && let Kind::Flash(flash) = &mut placed.device.kind
            {
                flash.nand.parity_stripe = u32::from(device_rebuilds);
            }
        }
        let stores = stores_in_memory(&system);
        let mut rig = Rig::over(&system, stores, Level::Raid1);
        let op = |kind| Op { offset_bytes: 2 * UNIT, len_bytes: 4 * UNIT as u32, kind, fua: false };
        rig.run(&op(OpKind::Write), random);
        rig.settle();
        if !array_rebuilds {
            rig.live.inject(Fault::Lose { part: PartId(1) });
        }
        rig.live.corrupt(PartId(0), &(3 * UNIT..3 * UNIT + 1), 7);
        let read = |rig: &Rig| rig.wait(&rig.begin(&op(OpKind::Read), Payload::ReadIntoSink));
        let is_lost = !device_rebuilds && !array_rebuilds;
        for _ in 0..4 {
            let (result, bytes) = read(&rig);
            assert_eq!(result.is_err(), is_lost, "{device_rebuilds} {array_rebuilds}");
            assert!(is_lost || bytes == rig.bytes[2 * UNIT as usize..6 * UNIT as usize]);
        }
        if !array_rebuilds {
            rig.live.inject(Fault::Replace { part: PartId(1) });
            rig.settle();
            rig.live.inject(Fault::Lose { part: PartId(0) });
            assert_eq!(read(&rig).0.is_err(), is_lost);
        }
        rig.run(&op(OpKind::Write), random);
        rig.run(&op(OpKind::Read), random);
    }
}

/// Data of a member that has rotted on the host: reads recover it, also before the array knows. Where there is no other
/// copy, reads fail until it is rewritten: of the member itself, of a member rebuilt from it, also if a server on the
/// same files knows nothing of the damage.
#[test]
fn data_that_has_rotted_on_the_host_is_recovered_or_refused() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4)] {
        NOW_NS.set(1_000);
        let random = &mut stream(1, "rotted", 0);
        let system = system(level, members, 0, 1, None);
        let place = tempfile::tempdir().unwrap();
        let Some(Part::Array(array)) = system.parts.last() else { panic!("an array") };
        let described = DescribedArray {
            name: "array",
            layout: array.layout,
            member_bytes: 32 * UNIT,
            cached_bytes: None,
        };
        let path = place.path().join("array");
        let open = || {
            let (folder, stores) = ArrayFolder::open(&path, described, options()).unwrap();
            let rig = Rig::over(&system, stores, level);
            rig.live.keep_arrays(vec![(PartId(members), folder)]);
            rig
        };
        let mut rig = open();
        let len_bytes = 24 * UNIT as u32;
        let op = |kind| Op { offset_bytes: 0, len_bytes, kind, fua: false };
        let read = |rig: &Rig| rig.wait(&rig.begin(&op(OpKind::Read), Payload::ReadIntoSink));
        rig.run(&op(OpKind::Write), random);
        rig.run(&op(OpKind::Flush), random);
        rig.settle();
        // One unit of the first member, which the others can recover.
        let rot = |unit: u64| {
            let file = File::options().write(true).open(path.join("member-0")).unwrap();
            file.write_all_at(&[0x55; 512], unit * UNIT + 512).unwrap();
        };
        rot(0);
        rig.run(&op(OpKind::Read), random);
        // Beyond redundancy, it makes the rebuilt members unreadable too.
        let redundancy = rig.tolerates as u32;
        let replaced = (members - redundancy..members).map(PartId);
        replaced.clone().for_each(|part| _ = rig.live.inject(Fault::Lose { part }));
        rot(1);
        for part in replaced {
            rig.live.inject(Fault::Replace { part });
            rig.settle();
        }
        assert!(read(&rig).0.is_err(), "{level:?}");
        rig.live.end(|_| 0).unwrap();
        let Rig { live, bytes, .. } = rig;
        drop(live);
        let mut rig = Rig { bytes, ..open() };
        assert!(read(&rig).0.is_err(), "{level:?}, after a restart");
        rig.live.inject(Fault::Lose { part: PartId(0) });
        assert!(read(&rig).0.is_err(), "{level:?}, without the first member");
        rig.run(&op(OpKind::Write), random);
        rig.run(&op(OpKind::Read), random);
    }
}

/// Data lost from a cache does not affect a later write of the same unit.
#[test]
fn what_a_cache_has_lost_does_not_take_what_follows() {
    NOW_NS.set(1_000);
    let random = &mut stream(1, "lost-cache", 0);
    let mut rig = Rig::new(Level::Raid1, 2, 1, 1, Some(true));
    let op = |kind| Op { offset_bytes: 3 * UNIT, len_bytes: UNIT as u32, kind, fua: false };
    let fault = |rig: &Rig, fault| _ = rig.live.inject(Fault::Adapters(fault));
    fault(&rig, AdapterFault::Lose { adapter: 1 });
    rig.run(&op(OpKind::Write), random);
    fault(&rig, AdapterFault::Replace { adapter: 0 });
    fault(&rig, AdapterFault::Clear { adapter: 1 });
    let read = rig.wait(&rig.begin(&op(OpKind::Read), Payload::ReadIntoSink));
    assert_eq!(read.0, Err(IoError::Io), "only the replaced adapter held it");
    rig.run(&op(OpKind::Write), random);
    rig.run(&op(OpKind::Read), random);
    rig.settle();
    rig.run(&op(OpKind::Read), random);
}

/// A folder is made consistent after a kill, which may leave data without parity, or one copy without the others.
#[test]
fn a_folder_agrees_after_a_kill() {
    let levels = [(Level::Raid1, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];
    for (level, members) in levels {
        NOW_NS.set(1_000);
        let mut random = stream(3, "kill", 0);
        let place = tempfile::tempdir().unwrap();
        let system = system(level, members, 0, 2, None);
        let Some(Part::Array(array)) = system.parts.last() else { panic!("an array") };
        let layout = &array.layout;
        let described = DescribedArray {
            name: "array",
            layout: *layout,
            member_bytes: 32 * UNIT,
            cached_bytes: None,
        };
        let path = place.path().join("array");
        let open = || ArrayFolder::open(&path, described, options()).unwrap();
        let (_, stores) = open();
        let mut bytes = vec![0; (layout.sectors() * 512) as usize];
        for _ in 0..layout.sectors() / 16 {
            let unit = below(&mut random, layout.sectors() / 8) as usize;
            let range = unit * UNIT as usize..(unit + 1) * UNIT as usize;
            bytes[range.clone()].fill_with(|| below(&mut random, 256) as u8);
            let at = layout.place(unit as u64 * 8);
            stores[at.member].write_now(at.sector * 512, &bytes[range]).unwrap();
        }
        drop(stores);
        let (folder, stores) = open();
        assert!(folder.resynced_units() > 0 && folder.missing().is_empty(), "{level}");
        let mut rig = Rig::over(&system, stores, level);
        rig.live.keep_arrays(vec![(PartId(members), folder)]);
        rig.bytes = bytes;
        for member in 0..rig.tolerates as u32 {
            rig.live.inject(Fault::Lose { part: PartId(member) });
        }
        rig.read_all(&mut random);
        rig.live.end(|_| 0).unwrap();
        let Rig { live, .. } = rig;
        drop(live);
        // It ended in order, without those members.
        let (folder, _) = open();
        assert_eq!(folder.resynced_units(), 0, "{level}");
        assert!(folder.missing().iter().eq(0..folder.missing().len()), "{level}");
        assert!(!folder.missing().is_empty(), "{level}");
    }
}
