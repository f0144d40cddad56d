//! A caller that follows the content events always knows the result of a read, and the content after a power cut:
//! both equal the machine's own.

use crate::common;

use common::{disk, flash, memory, shingled, system, volume};
use iodyno_emulate::spec::{DurableOrder, Kind, PowerCut, Written};
use iodyno_emulate::{ContentEvent, Fault, Machine, torn_value};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::BTreeMap;

const UNITS: u64 = 24;

/// A follower's record of a unit: its durable value, and newer ones.
#[derive(Default)]
struct Follower {
    kept: BTreeMap<u64, u64>,
    newer: BTreeMap<u64, Vec<u64>>,
}

impl Follower {
    fn apply(&mut self, change: ContentEvent) {
        match change {
            ContentEvent::Accepted { unit, token, kept: false, .. } => {
                self.newer.entry(unit).or_default().push(token);
            }
            ContentEvent::Accepted { unit, token, kept: true, .. } => {
                self.kept.insert(unit, token);
            }
            ContentEvent::Landed { unit, token, .. } => {
                let newer = self.newer.entry(unit).or_default();
                // A protected buffer's were kept before.
                if let Some(at) = newer.iter().position(|&t| t == token) {
                    newer.drain(..=at);
                    self.kept.insert(unit, token);
                }
            }
            ContentEvent::Written { unit, token, overtaken, .. } => {
                self.kept.insert(unit, token);
                if !overtaken {
                    self.newer.remove(&unit);
                }
            }
            ContentEvent::Dropped { unit, count, overtaken, .. } => {
                for unit in unit..unit + count {
                    self.kept.remove(&unit);
                    if !overtaken {
                        self.newer.remove(&unit);
                    }
                }
            }
            ContentEvent::Torn { unit, token, until, .. } => {
                let before = self.kept.get(&unit).copied().unwrap_or(0);
                self.kept.insert(unit, torn_value(before, token, until));
            }
            ContentEvent::PowerCut { .. } => self.newer.clear(),
            ContentEvent::Emptied { .. } => {
                self.newer.clear();
                self.kept.clear();
            }
            other => unreachable!("there is no array: {other:?}"),
        }
    }

    fn read(&self, unit: u64) -> Option<u64> {
        let newest = self.newer.get(&unit).and_then(|n| n.last());
        newest.or_else(|| self.kept.get(&unit)).copied()
    }
}

#[test]
fn a_follower_knows_the_machines_content() {
    let flash_with = |protected: bool| {
        let mut f = flash();
        f.buffer.protected = protected;
        Kind::Flash(Box::new(f))
    };
    let merging = |protected: bool| {
        let mut f = flash();
        f.buffer.protected = protected;
        f.nand.planes = 4;
        f.translation.unit_bytes = 16 << 10;
        Kind::Flash(Box::new(f))
    };
    let cutting = |protected: bool, atomic_bytes, order| {
        let mut f = flash();
        f.buffer.protected = protected;
        f.nand.planes = 2;
        f.power_cut = Some(PowerCut { atomic_bytes, order });
        Kind::Flash(Box::new(f))
    };
    let (any, in_order) = (DurableOrder::Any, DurableOrder::Acknowledged);
    let kinds = [
        ("sectors of a volatile buffer", cutting(false, 512, any), 1, 1),
        ("sectors in order", cutting(false, 512, in_order), 1, 1),
        ("sectors of a represented device", cutting(false, 512, any), 1, 16),
        ("sectors of a protected buffer", cutting(true, 512, any), 1, 1),
        ("blocks of 16 KiB", cutting(false, 16 << 10, any), 1, 1),
        ("a volatile buffer", flash_with(false), 1, 1),
        ("a protected buffer", flash_with(true), 1, 1),
        ("a represented device", flash_with(false), 1, 16),
        ("a protected represented device", flash_with(true), 1, 16),
        ("a map of 16 KiB", merging(false), 1, 1),
        ("a protected buffer, a map of 16 KiB", merging(true), 1, 1),
        ("a represented device, a map of 16 KiB", merging(false), 1, 16),
        ("a disk's cache", disk(true), 300, 1),
        ("a disk without", disk(false), 300, 1),
        ("a shingled disk's cache", shingled(true), 300, 1),
        ("a shingled disk without", shingled(false), 300, 1),
        ("memory", memory(false), 1, 1),
        ("protected memory", memory(true), 1, 1),
        ("a cloud volume", Kind::Volume(Box::new(volume())), 1, 1),
    ];
    for (name, kind, pace, represent) in kinds {
        let mut random = stream(1, name, 0);
        let (mut overlaps, mut cuts) = (0, 0);
        for history in 0..60 {
            let s = system(kind.clone(), Written::Fresh, 1);
            let mut m = Machine::represented(&s, history, represent).unwrap();
            m.follow_content();
            let worker = m.add_worker(0);
            let cut_ns = pace * (20_000 + below(&mut random, 2_000_000));
            m.inject(cut_ns, Fault::PowerCut);
            let mut follower = Follower::default();
            let mut events = Vec::new();
            let mut now = 0;
            for token in 1..200 {
                let unit = below(&mut random, UNITS);
                let kind = match below(&mut random, 20) {
                    0 => OpKind::Flush,
                    1 => OpKind::Trim,
                    2 => OpKind::WriteZeroes,
                    _ => OpKind::Write,
                };
                let len_bytes = 4096 * (1 + below(&mut random, 3) as u32);
                let fua = below(&mut random, 10) == 0;
                let op = match kind {
                    OpKind::Flush => Op::FLUSH,
                    _ => Op { offset_bytes: unit * 4096, len_bytes, kind, fua },
                };
                // A byte for each sector.
                m.submit(now, worker, 0, &op, token * 0x0101_0101_0101_0101);
                now += pace * below(&mut random, 40_000);
                loop {
                    let more = m.next_completion(now).is_some();
                    m.changes(&mut events);
                    cuts += u32::from(events.iter().any(|c| {
                        matches!(c, ContentEvent::PowerCut { .. } | ContentEvent::Emptied { .. })
                    }));
                    events.drain(..).for_each(|change| follower.apply(change));
                    overlaps += u32::from(follower.newer.values().any(|n| n.len() > 1));
                    for unit in 0..UNITS + 3 {
                        let held = m.content(0, unit * 4096);
                        assert_eq!(follower.read(unit), held, "{name}, {history}, unit {unit}");
                    }
                    if !more {
                        break;
                    }
                }
            }
        }
        if !["protected memory", "a cloud volume"].contains(&name) {
            assert!(cuts > 40, "{name}: cut {cuts} times");
        }
        if name == "a volatile buffer" {
            assert!(overlaps > 100, "{name}: {overlaps}");
        }
    }
}
