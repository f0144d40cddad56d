//! Arrays of arrays, hosts' arrays of volumes behind adapters, and read caches, with bytes: random concurrent
//! operations, losses, replacements, power cuts and faults of adapters. Each read must return the latest bytes
//! written.

use crate::rig::{self, NOW_NS, Rig, UNIT, device, options, pair, stores_in_memory};
use iodyno_emulate::spec::{ArrayShape, Device, Preconditioned, Written};
use iodyno_emulate::{AdapterFault, Fault, PartId, System};
use iodyno_live::counts::Looks;
use iodyno_live::served::{Payload, VolumeFolder};
use iodyno_live::store::Store;
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};
use std::path::Path;
use std::sync::mpsc::Receiver;

/// Structure of a random volume: arrays, adapters and a read cache.
#[derive(Clone, Copy, Debug)]
struct Composed {
    /// Level and members of the host's array; `inner` is that of the arrays that are its members. None: no such array.
    outer: Option<(Level, u32)>,
    inner: Option<(Level, u32)>,
    strip_units: u64,
    inner_strip_units: u64,
    /// Whether the adapters before the members, or before the volume, have a cache; None: there are no adapters.
    adapters: Option<bool>,
    read_cache: bool,
    kind: u64,
}

fn is_redundant(level: Option<(Level, u32)>) -> bool {
    level.is_some_and(|(level, _)| !matches!(level, Level::Raid0 | Level::Jbod))
}

impl Composed {
    fn any(random: &mut Generator) -> Self {
        use Level::{Jbod, Raid0, Raid1, Raid5, Raid6, Raid10};
        let mut one = |n: u64| below(random, n);
        let mut array = |levels: &[Level]| {
            let level = levels[one(levels.len() as u64) as usize];
            (level, level.least_members() as u32 + one(2) as u32)
        };
        let outer = array(&[Jbod, Raid0, Raid1, Raid5, Raid5, Raid6, Raid10]);
        let inner = array(&[Raid0, Raid1, Raid5, Raid5, Raid6]);
        let (outer, inner, adapters, read_cache) = match one(5) {
            0 | 1 => (Some(outer), Some(inner), None, one(4) == 0),
            2 => (Some(outer), Some(inner), Some(one(3) > 0), false),
            3 => (Some(outer), None, Some(one(3) > 0), false),
            _ => (None, [None, Some(inner)][one(2) as usize], None, true),
        };
        // (Adapters take no memory.)
        let kind = one(2).max(u64::from(adapters.is_some()));
        let (strip_units, inner_strip_units) = (1 + one(3), 1 + one(2));
        Self { outer, inner, strip_units, inner_strip_units, adapters, read_cache, kind }
    }

    /// Number of devices in one array of devices, and number of such arrays.
    fn counts(&self) -> (u32, u32) {
        (self.inner.map_or(1, |of| of.1), self.outer.map_or(1, |of| of.1))
    }

    fn system(&self) -> System {
        let mut system = System::new("test", rig::host());
        let (width, arrays) = self.counts();
        let state = Preconditioned { how: Written::Fresh, fill: 0.0 };
        let add = |system: &mut System, kind| {
            let device =
                Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() };
            system.add_device(device, state, 0);
        };
        (0..width * arrays).for_each(|_| add(&mut system, device(self.kind)));
        if self.read_cache {
            add(&mut system, device(1));
        }
        if let Some(is_cached) = self.adapters {
            system.attach(pair(is_cached)).unwrap();
        }
        let rotation = Rotation::LeftSymmetric;
        let shape = |(level, members), units: u64, name: &str| {
            (ArrayShape { level, members, strip_bytes: units * UNIT, rotation }, name.to_owned())
        };
        let fast = |n: u32| (n as usize..n as usize + 1, None);
        let mut ranges: Vec<_> = (0..arrays)
            .map(|n| {
                let inner = self.inner.map(|inner| shape(inner, self.inner_strip_units, "inner"));
                ((n * width) as usize..((n + 1) * width) as usize, inner)
            })
            .collect();
        ranges.extend(self.read_cache.then(|| fast(arrays * width)));
        system.group(ranges).unwrap();
        if let Some(outer) = self.outer {
            let outer = shape(outer, self.strip_units, "outer");
            let mut ranges = vec![(0..arrays as usize, Some(outer))];
            ranges.extend(self.read_cache.then(|| fast(arrays)));
            system.group(ranges).unwrap();
        }
        if self.read_cache {
            system.cache_reads(&[(0, 24 * UNIT)]);
        }
        system
    }
}

/// Runs several operations at once that don't overlap, and waits for them.
fn at_once(rig: &mut Rig, random: &mut Generator) {
    let sectors = rig.bytes.len() as u64 / 512;
    let mut at = below(random, sectors / 2);
    let mut open: Vec<(Op, Receiver<_>)> = Vec::new();
    while open.len() < 6 && at + 40 < sectors {
        let len = [1, 5, 8, 16, 40][below(random, 5) as usize];
        let kind = [OpKind::Read, OpKind::Write, OpKind::Write][below(random, 3) as usize];
        let op = Op { offset_bytes: at * 512, len_bytes: len * 512, kind, fua: false };
        open.push((op, rig.start(&op, random)));
        at += u64::from(len) + below(random, 4);
        if below(random, 3) == 0 {
            NOW_NS.set(NOW_NS.get() + below(random, 100_000));
            rig.live.poll(Looks::default());
        }
    }
    for (op, from) in open {
        let (result, bytes) = rig.wait(&from);
        assert_eq!(result, Ok(()), "{op:?}");
        if op.kind == OpKind::Read {
            let begin = op.offset_bytes as usize;
            let differs = bytes != rig.bytes[begin..begin + bytes.len()];
            assert!(!differs, "{op:?}: other bytes");
        }
    }
}

#[test]
fn every_read_returns_the_bytes_that_were_written_last() {
    let (mut rebuilt, mut hits) = (0, 0);
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let only = number("HISTORY");
    let count = number("HISTORIES").unwrap_or(250);
    for seed in only.map_or(0..count, |seed| seed..seed + 1) {
        let mut random = stream(seed, "live-composed", 0);
        let of = Composed::any(&mut random);
        NOW_NS.set(1_000);
        println!("HISTORY={seed}: {of:?}");
        let system = of.system();
        let mut rig = Rig::over(&system, stores_in_memory(&system), Level::Jbod);
        rig.adapters = of.adapters;
        let (width, arrays) = of.counts();
        let fast = width * arrays;
        let survives = is_redundant(of.outer) || is_redundant(of.inner);
        let mut lost: Option<u32> = None;
        let mut is_fast_lost = false;
        for _ in 0..50 {
            match below(&mut random, 12) {
                0 if survives && lost.is_none() => {
                    let device = below(&mut random, u64::from(fast)) as u32;
                    rig.live.inject(Fault::Lose { part: PartId(device) });
                    lost = Some(device);
                }
                1 => {
                    if let Some(device) = lost.take() {
                        rig.live.inject(Fault::Replace { part: PartId(device) });
                        at_once(&mut rig, &mut random);
                        // What adapters' cache wrote to it is refused no more.
                        for fault in [0, 1].map(|adapter| AdapterFault::Clear { adapter }) {
                            if of.adapters.is_some() {
                                rig.live.inject(Fault::Adapters(fault));
                            }
                        }
                        rig.settle();
                        let missing =
                            rig.live.look(|m, _, _| m.array_state(0).map(|s| s.missing.len()));
                        assert_eq!(missing.unwrap_or(0), 0, "seed {seed}");
                        rebuilt += 1;
                    }
                }
                2 => {
                    // Without a flush data of a missing member could be lost: the write hole.
                    if lost.is_some() {
                        let flushed = rig.wait(&rig.begin(&Op::FLUSH, Payload::None));
                        assert_eq!(flushed.0, Ok(()));
                    }
                    rig.live.inject(Fault::PowerCut);
                    rig.settle();
                }
                3 if of.read_cache => {
                    let part = PartId(fast);
                    let fault =
                        if is_fast_lost { Fault::Replace { part } } else { Fault::Lose { part } };
                    rig.live.inject(fault);
                    is_fast_lost = !is_fast_lost;
                }
                4 | 5 if of.adapters.is_some() => rig.adapters_fail(&mut random),
                6..=8 => at_once(&mut rig, &mut random),
                _ => {
                    let op = rig.any_op(&mut random);
                    rig.run(&op, &mut random);
                }
            }
        }
        rig.read_all(&mut random);
        rig.settle();
        rig.read_all(&mut random);
        hits += rig.live.look(|m, _, _| m.read_cache_counts(0).map_or(0, |counts| counts.hits));
    }
    assert!(only.is_some() || (rebuilt > count / 10 && hits > count / 4), "{rebuilt}, {hits}");
}

/// Starts a server over a folder, whose content should be `bytes`.
fn over_folder(of: &Composed, path: &Path, bytes: Option<Vec<u8>>) -> Rig {
    let system = of.system();
    let VolumeFolder { mut stores, folders } =
        VolumeFolder::open(path, &system, 0, options()).unwrap();
    stores.sort_by_key(|of| of.0);
    let stores: Vec<Store> = stores.into_iter().map(|of| of.1).collect();
    let mut rig = Rig::over(&system, stores, Level::Jbod);
    rig.live.keep_arrays(folders);
    rig.adapters = of.adapters;
    rig.bytes = bytes.unwrap_or_else(|| vec![0; rig.bytes.len()]);
    rig
}

/// After a kill, the folder has all acknowledged data, and the next server makes its rows consistent. After a clean
/// shutdown, it also has the list of missing members.
#[test]
fn folders_keep_what_servers_leave() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (only, mut with_missing) = (number("HISTORY"), 0);
    for seed in only.map_or(0..40, |seed| seed..seed + 1) {
        let mut random = stream(seed, "live-composed-folders", 0);
        let of = Composed::any(&mut random);
        NOW_NS.set(1_000);
        println!("HISTORY={seed}: {of:?}");
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("volume");
        let mut rig = over_folder(&of, &path, None);
        for _ in 0..2 {
            (0..12).for_each(|_| at_once(&mut rig, &mut random));
            // Any part of the operations in flight may remain after the kill.
            let mut open = Vec::new();
            for _ in 0..4 {
                let op = Op { kind: OpKind::Write, ..rig.any_op(&mut random) };
                open.push((op, rig.start(&op, &mut random)));
                NOW_NS.set(NOW_NS.get() + below(&mut random, 100_000));
                rig.live.poll(Looks::default());
            }
            let bytes = std::mem::take(&mut rig.bytes);
            drop(rig);
            rig = over_folder(&of, &path, Some(bytes));
            for (op, _) in open {
                let (result, bytes) =
                    rig.wait(&rig.begin(&Op { kind: OpKind::Read, ..op }, Payload::ReadIntoSink));
                assert_eq!(result, Ok(()), "{op:?}");
                let begin = op.offset_bytes as usize;
                rig.bytes[begin..begin + bytes.len()].copy_from_slice(&bytes);
            }
            rig.read_all(&mut random);
        }
        let (width, arrays) = of.counts();
        let device = below(&mut random, u64::from(width * arrays)) as u32;
        let survives = is_redundant(of.outer) || is_redundant(of.inner);
        if survives {
            rig.live.inject(Fault::Lose { part: PartId(device) });
            rig.read_all(&mut random);
        }
        (0..4).for_each(|_| at_once(&mut rig, &mut random));
        // (What a lost device does not take stays in the cache.)
        let ended = rig.live.end(|_| 0);
        assert!(ended.is_ok() || (survives && of.adapters == Some(true)), "{ended:?}");
        let bytes = std::mem::take(&mut rig.bytes);
        drop(rig);
        rig = over_folder(&of, &path, Some(bytes));
        rig.read_all(&mut random);
        if survives {
            let lost = |rig: &Rig| -> Vec<PartId> {
                let devices = (0..width * arrays).map(PartId);
                rig.live.look(|machine, _, _| {
                    devices.filter(|&part| machine.device_fault_state(part).lost).collect()
                })
            };
            let found = lost(&rig);
            assert!(found.contains(&PartId(device)), "{found:?}");
            with_missing += 1;
            for part in found {
                rig.live.inject(Fault::Replace { part });
            }
            rig.settle();
            assert_eq!(lost(&rig), []);
            rig.read_all(&mut random);
            rig.live.end(|_| 0).unwrap();
            let bytes = std::mem::take(&mut rig.bytes);
            drop(rig);
            rig = over_folder(&of, &path, Some(bytes));
            assert_eq!(lost(&rig), []);
            rig.read_all(&mut random);
        }
    }
    assert!(only.is_some() || with_missing > 20, "{with_missing}");
}
