//! Power cuts and flushes: the surviving data, and the guarantee of a flush.

use super::*;
use crate::disk::PowerCut;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const BLOCK: u64 = 4096;

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    /// Cuts the power at a random event and compares the disk's list of losses with its guarantees,
    /// tracked separately for each block.
    #[test]
    fn a_cut_loses_only_unflushed_writes(
        seed in any::<u64>(),
        cut in 1_usize..800,
        depth in 1_u32..24,
        window in 1_u32..20,
        buffer_blocks in 1_u64..64,
        blocks in 8_u64..400,
        band_blocks in proptest::option::of(16_u64..40),
    ) {
        let scheduler = Scheduler::Satf { age_max_ns: 100 * MS, window };
        let spec = DiskSpec {
            capacity_bytes: 1 << 30,
            write_cache: true,
            buffer_bytes: buffer_blocks * BLOCK,
            scheduler,
            shingled: band_blocks.map(|of| Shingled {
                band_bytes: of * BLOCK,
                cache_bytes: 50 * BLOCK,
                entries_max: 30,
                idle_ns: None,
            }),
            ..plain()
        };
        let mut disk = Disk::new(&spec, seed, 0);
        let mut draw: Generator = stream(seed, "power", 0);
        let mut open: HashMap<u32, (usize, Op)> = HashMap::new();
        // Per block: acknowledgement time and id of its last write, and the time up to which all are durable.
        let mut acknowledged: HashMap<u64, (usize, u32)> = HashMap::new();
        let mut durable: HashMap<u64, usize> = HashMap::new();
        let (mut id, mut done) = (0, Vec::new());
        let blocks_of = |op: &Op| op.offset_bytes / BLOCK..(op.offset_bytes + u64::from(op.len_bytes)) / BLOCK;
        for event in 1..=cut {
            let now = if event == 1 { 0 } else { disk.wake_at() };
            if event > 1 {
                done.clear();
                disk.wake(now, &mut done);
            }
            for id in &done {
                let (submitted, op) = open.remove(id).unwrap();
                match op.kind {
                    OpKind::Write if !op.fua => {
                        for block in blocks_of(&op) {
                            acknowledged.insert(block, (event, *id));
                        }
                    }
                    OpKind::Write => {
                        for block in blocks_of(&op) {
                            // A write acknowledged while this one was in progress may be ordered after it.
                            if acknowledged.get(&block).is_none_or(|a| a.0 < submitted) {
                                acknowledged.remove(&block);
                            }
                        }
                    }
                    _ => {
                        for (&block, &(at, _)) in &acknowledged {
                            if at <= submitted {
                                durable.insert(block, at);
                            }
                        }
                    }
                }
            }
            while open.len() < depth as usize {
                let offset_bytes = below(&mut draw, blocks) * BLOCK;
                let op = match below(&mut draw, 20) {
                    0 => Op::FLUSH,
                    1 => Op { fua: true, ..op(OpKind::Write, offset_bytes, BLOCK as u32) },
                    n => op(OpKind::Write, offset_bytes, (BLOCK * (1 + n % 2)) as u32),
                };
                disk.submit(now, id, op);
                open.insert(id, (event, op));
                id += 1;
            }
        }
        let usage = disk.usage();
        let cut = disk.power_cut();
        prop_assert_eq!(cut.dropped.len(), open.len());
        let mut gone = HashSet::new();
        for range in &cut.lost {
            for block in range.offset_bytes / BLOCK..(range.offset_bytes + range.len_bytes) / BLOCK {
                prop_assert!(gone.insert(block), "block {} is lost twice", block);
                let last = acknowledged.get(&block);
                prop_assert!(last.is_some(), "block {} was never acknowledged", block);
                let (at, id) = *last.unwrap();
                prop_assert!(durable.get(&block).is_none_or(|&d| d < at), "block {} was flushed", block);
                prop_assert_eq!(range.id, id);
            }
        }
        if usage.medium_writes == 0 && usage.destages == 0 {
            prop_assert_eq!(gone.len(), acknowledged.len());
        }
        // The disk works again, and its caches are empty.
        prop_assert_eq!(disk.wake_at(), u64::MAX);
        let lost = cut.lost.first().map_or(0, |range| range.offset_bytes);
        one(&mut disk, 1 << 50, op(OpKind::Read, lost, 4096));
        prop_assert_eq!(disk.usage().medium_reads, 1);
        prop_assert_eq!(disk.power_cut(), PowerCut::default());
    }
}

/// Every acknowledged block is on the medium, was replaced by a newer one in the buffer, or is lost.
#[test]
fn cached_writes_are_conserved() {
    let spec =
        DiskSpec { write_cache: true, capacity_bytes: 1 << 30, buffer_bytes: 1 << 20, ..plain() };
    let mut some_absorbed = false;
    for cut in (1..3_000).step_by(111) {
        let mut disk = Disk::new(&spec, cut, 0);
        closed_loop(&mut disk, 0, 8, cut as usize, random(4 << 20, 4096, 0, cut));
        let usage = disk.usage();
        let power = disk.power_cut();
        let mut lost: u64 = power.lost.iter().map(|r| r.len_bytes).sum();
        // The block under the heads may have been rewritten since: then the newer write is lost.
        if let Some(torn) = power.torn {
            let also = power.lost.iter().filter(|r| r.offset_bytes == torn.offset_bytes).count();
            assert!(also == 1);
            lost += if power.lost[0] == torn { 0 } else { torn.len_bytes };
        }
        assert_eq!(usage.cached_writes * 4096, usage.destages * 4096 + usage.absorbed_bytes + lost);
        some_absorbed |= usage.absorbed_bytes > 0;
    }
    assert!(some_absorbed);
}

#[test]
fn a_flush_waits_for_the_writes_before_it_and_no_others() {
    let scheduler = Scheduler::Satf { age_max_ns: 1_000 * MS, window: 4_000 };
    let spec = DiskSpec { write_cache: true, scheduler, ..plain() };
    let mut disk = Disk::new(&spec, 1, 0);
    assert_eq!(one(&mut disk, 0, Op::FLUSH), spec.command_ns);
    let mut load = random(spec.capacity_bytes, 4096, 0, 9);
    let outcome = closed_loop(&mut disk, MS, 4, 1_000, &mut load);
    let dirty = disk.usage().cached_writes - disk.usage().destages;
    assert!(dirty > 900);
    // Writes continue during the flush, faster than the medium takes them.
    let mut done = Vec::new();
    disk.submit(outcome.ended_ns, 0, Op::FLUSH);
    disk.submit(outcome.ended_ns, 1, load());
    let before = disk.usage();
    while !done.contains(&0) {
        done.clear();
        let now = disk.wake_at();
        disk.wake(now, &mut done);
        if done.contains(&1) {
            disk.submit(now, 1, load());
        }
    }
    let destages = disk.usage().destages - before.destages;
    assert!((dirty - 1..=dirty + 1).contains(&destages), "{destages} for {dirty}");
    assert!(disk.usage().cached_writes > before.cached_writes + dirty);
}

/// A flush that waits for a write waits for a newer write that replaces it in the buffer.
#[test]
fn a_flush_waits_for_the_write_that_replaced_the_one_it_promised() {
    let spec = DiskSpec { write_cache: true, ..plain() };
    let mut disk = Disk::new(&spec, 1, 0);
    let mut done = Vec::new();
    let mut now = 0;
    // Block 0 occupies the heads, so that block A stays in the buffer.
    let a = 50 << 30;
    for (id, offset) in [(0, 0), (1, a)] {
        disk.submit(now, id, op(OpKind::Write, offset, 4096));
        while !done.contains(&id) {
            now = disk.wake_at();
            disk.wake(now, &mut done);
        }
    }
    disk.submit(now, 2, Op::FLUSH);
    disk.submit(now, 3, op(OpKind::Write, a, 4096));
    while !done.contains(&2) {
        now = disk.wake_at();
        disk.wake(now, &mut done);
    }
    assert!(done.contains(&3));
    assert_eq!(disk.usage().absorbed_bytes, 4096);
    assert_eq!(disk.power_cut().lost, vec![]);
}
