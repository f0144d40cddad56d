//! The store without a machine: bytes, extents, damage, limits, threads.

#![allow(clippy::useless_vec, reason = "long arrays don't go on the stack")]

use iodyno_emulate::{ContentEvent, PartId};
use iodyno_live::store::{Extent, Image, OpenError, Options, ReadError, Scrub, Store, WriteError};
use iodyno_units::rng::{below, stream};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

const CAPACITY: u64 = (5 << 20) + 1000;

/// Creates a store of each kind. Also returns the folder of the files.
fn both() -> ([Store; 2], tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = Store::in_file(&folder.path().join("image"), CAPACITY, Options::default());
    ([Store::in_memory(CAPACITY, 1 << 30, Options::default()), file.unwrap()], folder)
}

/// Compares bytes and extents with a plain vector, at any alignment, up to the last byte of a volume that does not end
/// at a unit boundary.
fn follow(stores: &[Store], mut plain: Vec<u8>) {
    let mut random = stream(1, "direct", 0);
    for step in 0..1500 {
        let longest = [1 << 9, 1 << 13, 3 << 20][below(&mut random, 3) as usize];
        let from = below(&mut random, CAPACITY);
        let to = match below(&mut random, 10) {
            0 => CAPACITY,
            _ => (from + below(&mut random, longest)).min(CAPACITY),
        };
        let (len, range) = (to - from, from as usize..to as usize);
        match below(&mut random, 8) {
            0 => {
                let trimmed = range.start.next_multiple_of(4096)..range.end / 4096 * 4096;
                if !trimmed.is_empty() {
                    plain[trimmed].fill(0);
                }
                for s in stores {
                    s.trim_now(from, len).unwrap();
                }
            }
            1 => {
                plain[range.clone()].fill(0);
                for s in stores {
                    s.zero_now(from, len).unwrap();
                }
            }
            2 | 3 => {
                let data: Vec<u8> = (0..len).map(|i| (step + i) as u8 | 1).collect();
                plain[range.clone()].copy_from_slice(&data);
                for s in stores {
                    s.write_now(from, &data).unwrap();
                }
            }
            _ => {
                for store in stores {
                    let mut found = vec![9; range.len()];
                    store.read(from, &mut found).unwrap();
                    assert!(found == plain[range.clone()], "step {step}: {range:?}");
                }
            }
        }
        if step % 20 == 0 {
            for store in stores {
                let extents = store.extents(from, len, usize::MAX).unwrap();
                assert_eq!(extents.iter().map(|e| e.len_bytes).sum::<u64>(), len);
                assert!(extents.windows(2).all(|e| e[0].data != e[1].data), "{extents:?}");
                let mut at = range.start;
                for Extent { len_bytes, data } in extents {
                    let run = at..at + len_bytes as usize;
                    assert!(data || plain[run.clone()].iter().all(|&b| b == 0), "{run:?}");
                    at = run.end;
                }
            }
        }
    }
}

#[test]
fn bytes_are_those_of_a_plain_vector() {
    let (stores, _folder) = both();
    follow(&stores, vec![0; CAPACITY as usize]);
    for store in &stores {
        let scrub = store.scrub(|unit| panic!("unit {unit}")).unwrap();
        assert!(scrub.sound_units > 0 && scrub.unknown_units < 64, "{scrub:?}");
    }
}

/// Compares bytes and extents over an image that is shorter than the volume. Reads return the image's bytes until they
/// are written or dropped, and its file is not changed.
#[test]
fn an_image_shows_until_it_is_written_or_dropped() {
    let mut plain: Vec<u8> = (0..CAPACITY as u32 - (1 << 20)).map(|i| (i / 7) as u8 | 1).collect();
    // A hole of its own.
    plain[1 << 20..2 << 20].fill(0);
    let mut image = tempfile::NamedTempFile::new().unwrap();
    image.write_all(&plain).unwrap();
    let opened = Image::file(image.path()).unwrap();
    assert_eq!(opened.size_bytes(), plain.len() as u64);
    let store = Store::over_image(opened, CAPACITY, 1 << 30, Options::default());
    let mut all = plain.clone();
    all.resize(CAPACITY as usize, 0);
    follow(&[store], all.clone());
    assert!(std::fs::read(image.path()).unwrap() == plain);

    // Memory without power is empty, whatever lay beneath; a cut takes from others only what was not written.
    let options = Options { emptied_by_power_failure: true, ..Options::default() };
    let mut found = vec![1; CAPACITY as usize];
    for (options, left) in [(options, vec![0; CAPACITY as usize]), (Options::default(), all)] {
        let opened = Image::file(image.path()).unwrap();
        let mut store = Store::over_image(opened, CAPACITY, 1 << 30, options);
        let part = PartId(0);
        store.change(&if options.emptied_by_power_failure {
            ContentEvent::Emptied { part }
        } else {
            ContentEvent::PowerCut { part }
        });
        store.read(0, &mut found).unwrap();
        assert!(found == left);
    }
    for what in ["a folder", "empty"] {
        let folder = tempfile::tempdir().unwrap();
        let path = if what == "empty" { folder.path().join("new") } else { folder.path().into() };
        if what == "empty" {
            std::fs::write(&path, []).unwrap();
        }
        let why = Image::file(&path).unwrap_err().to_string();
        assert!(why.contains(what) && why.contains("qemu-nbd"), "{why}");
    }
    // A server that writes to a file has it for itself.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let server = Store::in_file(&path, CAPACITY, Options::default()).unwrap();
    assert!(matches!(Image::file(&path), Err(OpenError::Locked { .. })));
    drop(server);
    let opened = Image::file(&path).unwrap();
    assert!(Store::in_file(&path, CAPACITY, Options::default()).is_err());
    drop(opened);
}

#[test]
fn extents_cover_held_data_and_data_that_waits_to_land() {
    let (stores, _folder) = both();
    for mut store in stores {
        store.write_now(1 << 20, &vec![1; 65_536]).unwrap();
        let hole = |len_bytes| Extent { len_bytes, data: false };
        let data = |len_bytes| Extent { len_bytes, data: true };
        let begin = hole((1 << 20) - 512);
        assert_eq!(store.extents(512, 2 << 20, 1), Ok(vec![begin]));
        let rest = hole((1 << 20) - 65_536 + 512);
        assert_eq!(store.extents(512, 2 << 20, 9), Ok(vec![begin, data(65_536), rest]));

        store.begin_write(1, 4096 + 100, &[2; 10]).unwrap();
        assert_eq!(store.volatile_units(), 0);
        let (part, unit, token) = (PartId(0), 1, 1);
        store.change(&iodyno_emulate::ContentEvent::Accepted { part, unit, token, kept: false });
        let all = store.extents(0, CAPACITY, 9).unwrap();
        assert_eq!(all[..3], [hole(4096), data(4096), hole((1 << 20) - 8192)]);
        let beyond = ReadError::OutOfRange { offset_bytes: 1, len_bytes: CAPACITY };
        assert_eq!(store.extents(1, CAPACITY, 9), Err(beyond));

        // A discarded write leaves a hole again.
        store.change(&iodyno_emulate::ContentEvent::PowerCut { part });
        store.cancel_write(1);
        store.trim_now((1 << 20) - 5, 65_536 + 10).unwrap();
        assert_eq!(store.extents(0, CAPACITY, 9), Ok(vec![hole(CAPACITY)]));
    }
}

#[test]
fn damage_is_reported_and_never_served() {
    let (stores, _folder) = both();
    for store in stores {
        let data: Vec<u8> = (0..8 * 4096_u32).map(|i| (i / 7) as u8).collect();
        store.write_now(0, &data).unwrap();
        store.corrupt(&(2 * 4096 + 7..4 * 4096), 5);
        let mut into = [0; 4096];
        for unit in 0..8 {
            let found = store.read(unit * 4096 + 10, &mut into[..100]);
            let damaged = unit == 2 || unit == 3;
            assert_eq!(found, if damaged { Err(ReadError::Corrupt { unit }) } else { Ok(()) });
        }
        let mut reported = Vec::new();
        let found = store.scrub(|unit| reported.push(unit)).unwrap();
        assert_eq!(found, Scrub { sound_units: 6, unknown_units: 0, corrupt_units: 2 });
        assert_eq!(reported, [2, 3]);

        // A part of it can't be written; all of it can, and is sound then.
        assert_eq!(store.write_now(8192, &[1; 5]), Err(WriteError::Corrupt { unit: 2 }));
        assert_eq!(store.zero_now(8192, 5), Err(WriteError::Corrupt { unit: 2 }));
        store.write_now(8192, &[1; 4096]).unwrap();
        assert_eq!(store.read(8192, &mut into), Ok(()));
        assert_eq!(store.read(3 * 4096, &mut into), Err(ReadError::Corrupt { unit: 3 }));
        store.heal(3);
        assert_eq!(store.read(3 * 4096, &mut into), Ok(()));
        assert_eq!(into[..], data[3 * 4096..4 * 4096]);

        store.corrupt(&(0..CAPACITY), 6);
        store.trim_now(0, 4096).unwrap();
        assert_eq!(store.read(0, &mut into), Ok(()), "dropped units hold zeroes");
        assert_eq!(store.read(9 * 4096, &mut into), Ok(()), "a hole has no bits");
        assert_eq!(store.read(4096, &mut into), Err(ReadError::Corrupt { unit: 1 }));
        store.clear_corruption();
        let scrub = store.scrub(|_| {}).unwrap();
        assert_eq!((scrub.sound_units, scrub.corrupt_units), (7, 0));
    }
}

#[test]
fn a_volume_takes_no_more_memory_than_it_may() {
    let huge = 16 << 40;
    let store = Store::in_memory(huge, 1 << 20, Options::default());
    let full = WriteError::Memory { memory_bytes_max: 1 << 20 };
    let mut written = 0;
    let refused = loop {
        match store.write_now(huge / 2 + written * 4096, &[3; 4096]) {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
        assert!(store.memory_bytes() <= 1 << 20);
    };
    assert_eq!(refused, full);
    assert!(refused.is_no_space() && refused.to_string().contains("1048576 bytes"));
    assert!(written > 200, "{written}");
    // Data that is there can be read, and written again; freed units give space.
    store.write_now(huge / 2, &[4; 4096]).unwrap();
    let taken = store.memory_bytes();
    store.trim_now(huge / 2, 64 * 4096).unwrap();
    assert!(store.memory_bytes() + 64 * 4096 <= taken);
    store.write_now(huge / 2 + (100 << 12), &vec![5; 16 * 4096]).unwrap();
    store.zero_now(0, huge).unwrap();
    let mut all = vec![1; 1 << 20];
    store.read(huge / 2, &mut all).unwrap();
    assert!(all.iter().all(|&b| b == 0));
    assert!(store.memory_bytes() < 1 << 18, "tables: {}", store.memory_bytes());
}

/// A write of the machine without space on the host reports the error when it ends. Still, the machine's decision takes
/// effect, survives a modelled power cut, and is written once there is space.
#[test]
fn refused_writes_are_reported_and_take_effect() {
    use iodyno_emulate::ContentEvent::{Accepted, Dropped, Landed, PowerCut};
    let mut store = Store::in_memory(1 << 30, 132_768, Options::default());
    let (part, unit) = (PartId(0), 9);
    store.write_now(0, &[1; 4 * 4096]).unwrap();
    let full = WriteError::Memory { memory_bytes_max: 132_768 };
    assert_eq!(store.write_now(1 << 20, &vec![1; 16 * 4096]), Err(full.clone()));

    store.begin_write(1, unit * 4096, &[7; 4096]).unwrap();
    store.change(&Accepted { part, unit, token: 1, kept: true });
    assert_eq!(store.end_write(1), Err(full.clone()));
    store.begin_write(2, unit * 4096 + 1, &[8; 4094]).unwrap();
    store.change(&Accepted { part, unit, token: 2, kept: false });
    assert_eq!(store.end_write(2), Ok(()));
    store.change(&Landed { part, unit, token: 2 });
    store.begin_write(3, unit * 4096, &[9; 2]).unwrap();
    store.change(&Accepted { part, unit, token: 3, kept: false });
    assert_eq!(store.trouble(), Some(&full));
    assert_eq!(store.settle(), Err(full));
    store.change(&PowerCut { part });
    store.cancel_write(3);
    let holds = |store: &Store| {
        let mut into = [1; 4096];
        store.read(unit * 4096, &mut into).unwrap();
        (into[0], into[1], into[4094], into[4095])
    };
    assert_eq!((holds(&store), store.volatile_units()), ((7, 8, 8, 7), 0));
    store.begin_trim(4, 0, 4096 * 4).unwrap();
    store.change(&Dropped { part, unit: 0, count: 4, token: 4, overtaken: false });
    assert_eq!((store.end_write(4), store.settle()), (Ok(()), Ok(())));
    assert_eq!(store.trouble(), None);
    assert_eq!((holds(&store), store.volatile_units()), ((7, 8, 8, 7), 0));
}

/// A payload is kept until its write has ended: if the write is larger than the buffer, some units land before others
/// are accepted.
#[test]
fn a_payload_stays_until_its_write_has_ended() {
    use iodyno_emulate::ContentEvent::{Accepted, Landed, PowerCut};
    let (part, token) = (PartId(0), 1);
    let mut store = Store::in_memory(1 << 20, 1 << 20, Options::default());
    store.begin_write(token, 0, &[[1; 4096], [2; 4096]].concat()).unwrap();
    for unit in 0..2 {
        store.change(&Accepted { part, unit, token, kept: false });
        store.change(&Landed { part, unit, token });
    }
    assert_eq!(store.end_write(token), Ok(()));
    // And beyond that where versions of it are left.
    store.begin_write(2, 4095, &[3, 4]).unwrap();
    store.change(&Accepted { part, unit: 0, token: 2, kept: false });
    store.change(&Accepted { part, unit: 1, token: 2, kept: false });
    assert_eq!(store.end_write(2), Ok(()));
    store.begin_write(3, 0, &[9; 8192]).unwrap();
    store.change(&Landed { part, unit: 1, token: 2 });
    store.change(&PowerCut { part });
    store.cancel_write(3);
    let mut all = [0; 8192];
    store.read(0, &mut all).unwrap();
    assert!(all[..4096] == [1; 4096] && all[4096] == 4 && all[4097..] == [2; 4095]);
}

/// Threads that write and read the same units concurrently never see a unit with parts of two writes.
#[test]
fn threads_see_no_torn_unit() {
    let (stores, _folder) = both();
    for store in &stores {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let stop = &stop;
                scope.spawn(move || {
                    let mut random = stream(writer, "writer", 0);
                    let mut n = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let unit = below(&mut random, 4);
                        n += 1;
                        let units = 1 + below(&mut random, 2);
                        let data = (n << 1 | writer).to_le_bytes().repeat(512 * units as usize);
                        store.write_now(unit * 4096, &data).unwrap();
                        if n % 16 == 0 {
                            store.trim_now(unit * 4096, 4096).unwrap();
                        }
                    }
                });
            }
            let mut into = vec![0; 5 * 4096];
            for _ in 0..3000 {
                store.read(0, &mut into).unwrap();
                for unit in into.chunks(4096) {
                    assert!(unit.chunks(8).all(|word| word == &unit[..8]), "torn");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Flushed content survives a power cut, even if the host refused a write that replaced cached content, or one of which
/// the cache had a newer version.
#[test]
fn flushed_writes_survive_a_power_cut() {
    use iodyno_emulate::ContentEvent::{Accepted, Landed, PowerCut, Written};
    for overtaken in [false, true] {
        let mut store = Store::in_memory(1 << 30, 132_768, Options::default());
        let (part, unit) = (PartId(0), 9);
        store.write_now(0, &[1; 4 * 4096]).unwrap();
        let _ = store.write_now(1 << 20, &vec![1; 16 * 4096]);
        store.begin_write(1, unit * 4096, &[7; 4096]).unwrap();
        store.change(&Accepted { part, unit, token: 1, kept: false });
        assert_eq!(store.end_write(1), Ok(()));
        store.begin_write(2, unit * 4096 + 512, &[8; 1024]).unwrap();
        if overtaken {
            store.begin_write(3, unit * 4096 + 1024, &[9; 1024]).unwrap();
            store.change(&Accepted { part, unit, token: 3, kept: false });
            assert_eq!(store.end_write(3), Ok(()));
        }
        store.change(&Written { part, unit, token: 2, overtaken });
        assert!(store.end_write(2).is_err());
        if overtaken {
            store.change(&Landed { part, unit, token: 3 });
        }
        // Space is freed.
        store.begin_trim(4, 0, 4096).unwrap();
        let dropped = iodyno_emulate::ContentEvent::Dropped {
            part,
            unit: 0,
            count: 1,
            token: 4,
            overtaken: false,
        };
        store.change(&dropped);
        assert_eq!((store.end_write(4), store.settle()), (Ok(()), Ok(())));
        let mut before = [0; 4096];
        store.read(unit * 4096, &mut before).unwrap();
        assert_eq!((before[0], before[600]), (7, 8));
        assert_eq!((before[1100], before[2000]), if overtaken { (9, 9) } else { (8, 7) });
        store.change(&PowerCut { part });
        let mut after = [0; 4096];
        store.read(unit * 4096, &mut after).unwrap();
        assert!(before == after, "{overtaken}: {} is {}", before[0], after[0]);
    }
}
