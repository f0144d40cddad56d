//! Laws of the streams: each pattern compared with its definition, its exact probabilities or a direct count, on
//! geometries that do not divide evenly.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use iodyno_units::{Op, OpKind};
use iodyno_workload::{Geometry, GeometryError, Shared, Spec, Stream};
use proptest::prelude::*;

const KIB: u64 = 1024;

fn spec(text: &str) -> Spec {
    Spec::from_toml(&format!("schema = 1\n{text}")).unwrap()
}

/// A workload of 4 KiB reads with these addresses.
fn reads(addresses: &str) -> Spec {
    spec(&format!("mix = {{ read = 1 }}\nall = {{ addresses = {addresses} }}"))
}

fn shared(spec: &Spec, blocks: u64, workers: u32) -> Arc<Shared> {
    let geometry = Geometry { capacity_bytes: blocks * 4 * KIB, align_bytes: 512, workers };
    Shared::new(spec, 7, &geometry).unwrap()
}

fn take(shared: &Arc<Shared>, worker: u32, count: usize) -> Vec<Op> {
    let mut stream = Stream::new(shared, worker);
    (0..count).map(|_| stream.next_op()).collect()
}

/// Numbers of the 4 KiB blocks at which operations start.
fn blocks(ops: &[Op]) -> Vec<u64> {
    ops.iter().map(|op| op.offset_bytes / (4 * KIB)).collect()
}

/// Standard deviations by which chi squared exceeds its mean.
fn chi(hits: &[u64], expected: impl Fn(usize) -> f64) -> f64 {
    let sum: f64 = hits
        .iter()
        .enumerate()
        .map(|(i, &hits)| (hits as f64 - expected(i)).powi(2) / expected(i))
        .sum();
    let freedom = hits.len() as f64 - 1.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

fn near(found: usize, of: usize, share: f64) {
    let deviation = (of as f64 * share * (1.0 - share)).sqrt();
    let off = (found as f64 - of as f64 * share).abs() / deviation;
    assert!(off < 5.0, "{found} of {of} is {off:.1} deviations off {share}");
}

#[test]
fn uniform_draws_are_even_and_independent() {
    // The plain path and the general one, which a second pattern forces.
    for addresses in [
        "\"uniform\"",
        "[{ pattern = \"uniform\", share = 1 }, { pattern = \"uniform\", share = 1 }]",
    ] {
        let drawn = blocks(&take(&shared(&reads(addresses), 300, 1), 0, 60_000));
        let mut hits = vec![0; 300];
        // Pairs that follow one another, by tenths of the range: dependence would show here.
        let mut pairs = vec![0; 100];
        for (&first, &second) in drawn.iter().zip(&drawn[1..]) {
            hits[first as usize] += 1;
            pairs[(first / 30 * 10 + second / 30) as usize] += 1;
        }
        assert!(chi(&hits, |_| 59_999.0 / 300.0) < 4.0);
        assert!(chi(&pairs, |_| 59_999.0 / 100.0) < 4.0);
    }
}

#[test]
fn a_pass_visits_each_block_once_and_the_next_in_another_order() {
    let shared = shared(&reads("{ pattern = \"uniform\", once_per_pass = true }"), 1003, 4);
    // Worker w of 4 has the blocks w, w + 4, … of a pass: 251, 251, 251 and 250.
    let mut passes = [Vec::new(), Vec::new(), Vec::new()];
    for (worker, count) in [251, 251, 251, 250].into_iter().enumerate() {
        let mut drawn = blocks(&take(&shared, worker as u32, 3 * count)).into_iter();
        for pass in &mut passes {
            pass.extend(drawn.by_ref().take(count));
        }
    }
    for pass in &passes {
        let mut sorted = pass.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1003).collect::<Vec<u64>>());
    }
    let same = passes[0].iter().zip(&passes[1]).filter(|(a, b)| a == b).count();
    assert!(same < 10, "two random orders agree in about one place: {same}");
    assert_ne!(passes[1], passes[2]);
}

#[test]
fn sequential_workers_start_apart_and_go_around() {
    let shared = shared(&reads("\"sequential\""), 10, 3);
    assert_eq!(blocks(&take(&shared, 0, 12)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
    assert_eq!(blocks(&take(&shared, 1, 12)), [3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4]);
    assert_eq!(blocks(&take(&shared, 2, 5)), [6, 7, 8, 9, 0]);
}

#[test]
fn sequential_blocks_of_several_sizes_leave_no_gap() {
    let mixed = spec(
        "block = [{ size = \"4k\", share = 1 }, { size = \"8k\", share = 1 }, { size = \"12k\", share = 1 }]\n\
         mix = { read = 1 }\nall = { addresses = \"sequential\" }",
    );
    let mut wraps = 0;
    let mut sizes = HashSet::new();
    let mut end_bytes = 0;
    for op in take(&shared(&mixed, 101, 1), 0, 5000) {
        sizes.insert(op.len_bytes);
        if op.offset_bytes != end_bytes {
            assert_eq!(op.offset_bytes, 0);
            assert!(end_bytes + u64::from(op.len_bytes) > 101 * 4 * KIB, "it would have fitted");
            wraps += 1;
        }
        end_bytes = op.offset_bytes + u64::from(op.len_bytes);
    }
    assert!(wraps > 50 && sizes.len() == 3);
}

/// Four threads advance one cursor: together they take each block of each pass once, and each of
/// them gets only ascending addresses.
#[test]
fn a_shared_cursor_is_sequential_over_all_threads() {
    const EACH: usize = 50_000;
    let shared = shared(&reads("{ pattern = \"sequential\", shared = true }"), 1013, 4);
    let threads: Vec<_> = (0..4)
        .map(|worker| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || blocks(&take(&shared, worker, EACH)))
        })
        .collect();
    let mut visits = vec![0_usize; 1013];
    for thread in threads {
        for block in thread.join().unwrap() {
            visits[block as usize] += 1;
        }
    }
    // 200,000 operations are 197 whole passes and the first 439 blocks of another.
    for (block, &visits) in visits.iter().enumerate() {
        assert_eq!(visits, 197 + usize::from(block < 4 * EACH - 197 * 1013), "block {block}");
    }
    // Alone, the order is exact.
    assert_eq!(
        blocks(&take(
            &self::shared(&reads("{ pattern = \"sequential\", shared = true }"), 3, 2),
            1,
            7
        )),
        [0, 1, 2, 0, 1, 2, 0]
    );
}

#[test]
fn runs_are_sequential_jump_anywhere_and_stay_inside() {
    let shared = shared(&reads("{ pattern = \"sequential\", run = 16 }"), 1000, 1);
    let drawn = blocks(&take(&shared, 0, 16 * 2000));
    let mut starts = HashSet::new();
    for run in drawn.chunks(16) {
        assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 1), "{run:?}");
        assert!(run[15] < 1000);
        starts.insert(run[0]);
    }
    // 2000 draws of 985 places leave 985 e^-2.03 = 129 of them out, ± 10.
    assert!((800..=910).contains(&starts.len()), "{}", starts.len());
    assert!(starts.contains(&0) || starts.contains(&1));
    // A run that is longer than the range is the range.
    let short = self::shared(&reads("{ pattern = \"sequential\", run = 16 }"), 3, 1);
    assert_eq!(blocks(&take(&short, 0, 7)), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn strides_of_all_workers_are_one_comb() {
    let shared =
        shared(&reads("{ pattern = \"strided\", stride = \"12KiB\", start = \"8KiB\" }"), 100, 3);
    let mut all = vec![0; 90];
    for worker in 0..3 {
        for (i, block) in blocks(&take(&shared, worker, 30)).into_iter().enumerate() {
            all[3 * i + worker as usize] = block;
        }
    }
    let expected: Vec<u64> = (0..90).map(|k| (2 + 3 * k) % 100).collect();
    assert_eq!(all, expected);
}

/// The number of different blocks that are touched follows from the probabilities, so no two ranks
/// share a block and every block is reachable; and the hot blocks are the same for every worker and
/// kind.
#[test]
fn zipf_ranks_have_blocks_of_their_own() {
    const DRAWS: usize = 200_000;
    let blocks_in_range = 50_000_u64;
    let zipf = "addresses = { pattern = \"zipf\", theta = 0.9 }";
    let both = spec(&format!(
        "mix = {{ read = 1, write = 1 }}\nread = {{ {zipf} }}\nwrite = {{ {zipf} }}"
    ));
    let shared = shared(&both, blocks_in_range, 2);
    let weights: Vec<f64> = (1..=blocks_in_range).map(|k| (k as f64).powf(-0.9)).collect();
    let total: f64 = weights.iter().sum();
    let mut hottest = HashSet::new();
    for worker in 0..2 {
        let ops = take(&shared, worker, 2 * DRAWS);
        for kind in [OpKind::Read, OpKind::Write] {
            let mut hits: HashMap<u64, u64> = HashMap::new();
            let of_kind: Vec<Op> = ops.iter().copied().filter(|op| op.kind == kind).collect();
            for block in blocks(&of_kind) {
                *hits.entry(block).or_default() += 1;
            }
            let draws = of_kind.len() as f64;
            let unique: f64 = weights.iter().map(|w| 1.0 - (1.0 - w / total).powf(draws)).sum();
            // The variance of the number of unique blocks is below that number.
            let off = (hits.len() as f64 - unique).abs() / unique.sqrt();
            assert!(off < 4.0, "{} unique, expected {unique:.0}", hits.len());
            hottest.insert(hits.iter().max_by_key(|(_, hits)| **hits).map(|(block, _)| *block));
        }
    }
    assert_eq!(hottest.len(), 1, "{hottest:?}");
}

#[test]
fn hot_spots_have_their_shares() {
    const DRAWS: usize = 100_000;
    let spots = "spots = [{ share = 80, range = \"20%\" }, { share = 0, range = \"30%\" }, { share = 20, range = \"50%\" }]";
    let plain = reads(&format!("{{ pattern = \"hot-spots\", {spots} }}"));
    let drawn = blocks(&take(&shared(&plain, 1000, 1), 0, DRAWS));
    near(drawn.iter().filter(|&&block| block < 200).count(), DRAWS, 0.8);
    assert!(drawn.iter().all(|block| !(200..500).contains(block)), "the gap");
    let mut hot = vec![0; 200];
    drawn.iter().filter(|&&block| block < 200).for_each(|&block| hot[block as usize] += 1);
    let mean = hot.iter().sum::<u64>() as f64 / 200.0;
    assert!(chi(&hot, |_| mean) < 4.0);
    // Scattered: as many blocks, as often, but not side by side.
    let scattered = reads(&format!("{{ pattern = \"hot-spots\", scatter = true, {spots} }}"));
    let mut hits: HashMap<u64, usize> = HashMap::new();
    for block in blocks(&take(&shared(&scattered, 1000, 1), 0, DRAWS)) {
        *hits.entry(block).or_default() += 1;
    }
    assert_eq!(hits.len(), 700);
    let hot: Vec<u64> = hits.iter().filter(|(_, hits)| **hits > 200).map(|(b, _)| *b).collect();
    assert_eq!(hot.len(), 200);
    assert!(hot.iter().filter(|&&block| block < 200).count() < 80, "spread out");
}

/// Compares with a model that keeps the whole history.
#[test]
fn recent_addresses_are_of_the_window_and_misses_are_counted() {
    let spec = spec(
        "mix = { read = 50, write = 50 }\n\
         [read]\naddresses = [{ pattern = \"uniform\", share = 50 }, { pattern = \"recently-written\", share = 50, window = 100 }]\n\
         [write]\naddresses = { pattern = \"sequential\" }",
    );
    let shared = shared(&spec, 1 << 40, 1);
    let mut stream = Stream::new(&shared, 0);
    let (mut written, mut repeated, mut reads, mut ages) = (Vec::new(), 0, 0, HashMap::new());
    let mut before_first_write = 0;
    for _ in 0..40_000 {
        let op = stream.next_op();
        if op.kind == OpKind::Write {
            written.push(op.offset_bytes);
            continue;
        }
        reads += 1;
        before_first_write += u64::from(written.is_empty());
        // Sequential writes lie at the start of a range so large that a uniform read is never there.
        if op.offset_bytes < 1 << 27 {
            repeated += 1;
            let age = written.iter().rev().position(|&at| at == op.offset_bytes);
            *ages.entry(age.expect("was written")).or_insert(0) += 1;
        }
    }
    near(repeated, reads, 0.5);
    let oldest = ages.keys().max().copied();
    assert_eq!(oldest, Some(99), "the whole window, and no more");
    assert_eq!(ages.len(), 100);
    assert!(stream.recent_misses() <= before_first_write);

    // The other way round there is nothing to repeat until the first read.
    let cold = self::shared(
        &self::spec(
            "mix = { read = 1, write = 1000 }\nread = { addresses = \"uniform\" }\n\
             write = { addresses = [{ pattern = \"recently-read\", share = 1 }] }",
        ),
        1 << 20,
        1,
    );
    let mut stream = Stream::new(&cold, 0);
    let first_read = (0..100_000).position(|_| stream.next_op().kind == OpKind::Read).unwrap();
    assert!(first_read > 0);
    assert_eq!(stream.recent_misses(), first_read as u64);
    for _ in 0..1000 {
        stream.next_op();
    }
    assert_eq!(stream.recent_misses(), first_read as u64);
}

/// A repeated address is not added to the window again. Half of the reads repeat an address, and yet all of the last
/// 512 new addresses are repeated equally often, and no older one is.
#[test]
fn repeating_does_not_narrow_the_window() {
    let spec = reads(
        "[{ pattern = \"uniform\", share = 50 }, { pattern = \"recently-read\", share = 50, window = 512 }]",
    );
    let mut first_seen: HashMap<u64, usize> = HashMap::new();
    let mut ages = vec![0; 512];
    for block in blocks(&take(&shared(&spec, 1 << 40, 1), 0, 200_000)) {
        let fresh = first_seen.len();
        match first_seen.get(&block) {
            Some(number) if fresh > 512 => ages[fresh - 1 - number] += 1,
            Some(_) => {}
            None => drop(first_seen.insert(block, fresh)),
        }
    }
    near(first_seen.len(), 200_000, 0.5);
    let mean = ages.iter().sum::<u64>() as f64 / 512.0;
    assert!(chi(&ages, |_| mean) < 4.0, "{ages:?}");
}

#[test]
fn kinds_sizes_and_fua_have_their_shares() {
    const OPS: usize = 100_000;
    let spec = spec(
        "block = [{ size = \"4k\", share = 3 }, { size = \"64k\", share = 1 }]\n\
         mix = { read = 60, write = 25, flush = 5, trim = 6, write_zeroes = 4 }\n\
         write = { fua = \"20%\", block = \"8k\" }",
    );
    let ops = take(&shared(&spec, 1 << 20, 1), 0, OPS);
    let count = |test: &dyn Fn(&Op) -> bool| ops.iter().filter(|op| test(op)).count();
    for (kind, share) in [
        (OpKind::Read, 0.6),
        (OpKind::Write, 0.25),
        (OpKind::Flush, 0.05),
        (OpKind::Trim, 0.06),
        (OpKind::WriteZeroes, 0.04),
    ] {
        near(count(&|op| op.kind == kind), OPS, share);
    }
    let reads = count(&|op| op.kind == OpKind::Read);
    near(count(&|op| op.kind == OpKind::Read && op.len_bytes == 65_536), reads, 0.25);
    let writes = count(&|op| op.kind == OpKind::Write);
    assert_eq!(count(&|op| op.kind == OpKind::Write && op.len_bytes == 8192), writes);
    near(count(&|op| op.fua), writes, 0.2);
    assert_eq!(count(&|op| op.fua && op.kind != OpKind::Write), 0);
    assert!(ops.iter().all(|op| op.kind != OpKind::Flush || *op == Op::FLUSH));
}

#[test]
fn a_flush_follows_every_so_many_writes() {
    let spec = spec("mix = { read = 1, write = 1 }\nwrite = { flush_every = 3, fua = \"100%\" }");
    let mut writes = 0;
    for op in take(&shared(&spec, 1000, 1), 0, 10_000) {
        match op.kind {
            OpKind::Write => {
                writes += 1;
                assert!(writes <= 3 && op.fua);
            }
            OpKind::Flush => assert_eq!(std::mem::take(&mut writes), 3),
            _ => assert!(writes < 3, "the flush comes at once"),
        }
    }
    assert!(spec.issues(OpKind::Flush) && !spec.issues(OpKind::Trim));
}

/// As in fio, a due flush is repeated after each operation, even a flush or a read, until the next write.
#[test]
fn a_flush_is_issued_again_until_the_next_write() {
    for every in [1, 4] {
        let text = format!(
            "mix = {{ read = 3, write = 2 }}\nwrite = {{ flush_every = {every}, flush_again = true }}"
        );
        let (mut writes, mut is_flushed, mut flushes) = (0, true, 0);
        let ops = take(&shared(&spec(&text), 1000, 1), 0, 20_000);
        for op in &ops {
            let is_due = writes > 0 && writes % every == 0 && !is_flushed;
            assert_eq!(op.kind == OpKind::Flush, is_due, "after {writes} writes of {every}");
            is_flushed = op.kind == OpKind::Flush;
            writes += u64::from(op.kind == OpKind::Write);
            flushes += usize::from(is_flushed);
        }
        // Each count of writes lasts equally long, which gives the number of flushes per operation.
        near(flushes, ops.len() - flushes, 1.0_f64.min(1.0 / every as f64 - 1e-4));
    }
}

/// Blocks of several sizes fill the range to its end, even if one size is drawn very rarely.
#[test]
fn a_walk_to_the_end_leaves_nothing() {
    for (share, range_kib) in [(1.0, 1000), (1e-9, 1000), (1.0, 1024)] {
        let text = format!(
            "mix = {{ write = 1 }}\nblock = [{{ size = \"4KiB\", share = {share} }}, {{ size = \"24KiB\", share = 1 }}]\n\
             active = \"8KiB..+{range_kib}KiB\"\nall = {{ addresses = {{ pattern = \"sequential\", to_end = true }} }}"
        );
        let (start_bytes, end_bytes) = (8 * KIB, (8 + range_kib) * KIB);
        let (mut next_bytes, mut passes) = (start_bytes, 0);
        for op in take(&shared(&spec(&text), 1000, 1), 0, 5000) {
            assert_eq!(op.offset_bytes, next_bytes, "{share}");
            next_bytes += u64::from(op.len_bytes);
            assert!(next_bytes <= end_bytes, "{op:?}");
            if next_bytes == end_bytes {
                (next_bytes, passes) = (start_bytes, passes + 1);
            }
        }
        assert!(passes > 50, "{passes}");
    }
}

/// Reads and writes under `[all]` share one cursor. In tables of their own, each kind has its own cursor.
#[test]
fn a_cursor_belongs_to_its_table() {
    let one = spec("mix = { read = 1, write = 1 }\nall = { addresses = \"sequential\" }");
    assert_eq!(blocks(&take(&shared(&one, 100, 1), 0, 50)), (0..50).collect::<Vec<u64>>());
    let two = spec(
        "mix = { read = 1, write = 1 }\nread = { addresses = \"sequential\" }\n\
         write = { addresses = \"sequential\" }",
    );
    let ops = take(&shared(&two, 100, 1), 0, 50);
    for kind in [OpKind::Read, OpKind::Write] {
        let of_kind: Vec<Op> = ops.iter().copied().filter(|op| op.kind == kind).collect();
        assert_eq!(blocks(&of_kind), (0..of_kind.len() as u64).collect::<Vec<u64>>());
    }
}

/// A worker's stream is a function of seed and number: the other workers, and the order in which
/// the streams are made and used, change nothing.
#[test]
fn streams_are_independent() {
    let spec = Spec::from_toml(include_str!("../../../catalog/workloads/oltp3.toml")).unwrap();
    let alone = take(&shared(&spec, 1 << 20, 8), 5, 2000);
    let together = shared(&spec, 1 << 20, 8);
    let mut streams: Vec<Stream> = (0..8).map(|worker| Stream::new(&together, worker)).collect();
    let mut interleaved = vec![Vec::new(); 8];
    for _ in 0..2000 {
        for (stream, ops) in streams.iter_mut().zip(&mut interleaved).rev() {
            ops.push(stream.next_op());
        }
    }
    assert_eq!(interleaved[5], alone);
    let common: HashSet<u64> = blocks(&interleaved[0]).into_iter().collect();
    let met = blocks(&interleaved[1]).into_iter().filter(|block| common.contains(block)).count();
    assert!(met < 20, "two random walks over a million blocks meet about four times: {met}");
}

#[test]
fn a_workload_that_does_not_fit_is_refused_with_the_reason() {
    let fit = |text: &str, capacity_bytes: u64, align_bytes: u32, workers: u32| {
        let geometry = Geometry { capacity_bytes, align_bytes, workers };
        Shared::new(&spec(text), 1, &geometry).map(|shared| shared.active_bytes())
    };
    let reads = "mix = { read = 1 }";
    assert_eq!(fit(reads, 1 << 20, 1, 1), Ok((0, 1 << 20)));
    assert_eq!(fit(reads, 1 << 20, 512, 0), Err(GeometryError::NoWorkers));
    let fine = fit("block = 512\nmix = { read = 1 }", 1 << 20, 4096, 1).unwrap_err();
    assert_eq!(
        fine.to_string(),
        "the target needs addresses and lengths in multiples of 4 KiB, but the workload's are \
         multiples of 512 B; make block and align multiples of 4 KiB"
    );
    let small = fit("block = \"64k\"\nmix = { read = 1 }", 65_535, 1, 1).unwrap_err();
    assert_eq!(small, GeometryError::TooSmall { range_bytes: 0, block_bytes: 65_536 });
    let beyond = fit("active = \"0..2MiB\"\nmix = { read = 1 }", 1 << 20, 1, 1).unwrap_err();
    assert!(beyond.to_string().contains("ends at 2 MiB, beyond the target's capacity of 1 MiB"));
    // Both ends move inward to the alignment.
    let inner = "active = \"1KiB..50%\"\nmix = { read = 1 }";
    assert_eq!(fit(inner, 100_000, 1, 1), Ok((4096, 49_152 - 4096)));
    let once =
        "mix = { read = 1 }\nall = { addresses = { pattern = \"uniform\", once_per_pass = true } }";
    assert_eq!(
        fit(once, 16_384, 1, 5).unwrap_err(),
        GeometryError::FewerBlocksThanWorkers { blocks: 4, workers: 5 }
    );
    assert!(fit(once, 16_384, 1, 4).is_ok());
    let spots = "mix = { read = 1 }\nall = { addresses = { pattern = \"hot-spots\", spots = \
                 [{ share = 1, range = \"1%\" }, { share = 1, range = \"99%\" }] } }";
    assert!(matches!(fit(spots, 65_536, 1, 1), Err(GeometryError::EmptySpot { number: 1, .. })));
}

/// Every pattern, for tests on ranges of odd sizes, from one block up.
const PATTERNS: [&str; 10] = [
    "\"uniform\"",
    "{ pattern = \"uniform\", once_per_pass = true }",
    "\"sequential\"",
    "{ pattern = \"sequential\", shared = true }",
    "{ pattern = \"sequential\", run = 5 }",
    "{ pattern = \"zipf\", theta = 1 }",
    "{ pattern = \"hot-spots\", scatter = true, spots = [{ share = 1, range = \"100%\" }] }",
    "[{ pattern = \"uniform\", share = 1 }, { pattern = \"recently-read\", share = 9, window = 7 }]",
    "{ pattern = \"strided\", stride = \"7KiB\", start = \"1KiB\" }",
    "[{ pattern = \"sequential\", share = 1 }, { pattern = \"zipf\", theta = 0.5, share = 2 }]",
];

proptest! {
    #[test]
    fn every_operation_lies_in_the_active_range_and_is_aligned(
        pattern in proptest::sample::select(&PATTERNS[..]),
        several_sizes: bool,
        start in 0_u64..100_000,
        units in 13_u64..4000,
        rest in 0_u64..1024,
        workers in 1_u32..4,
        seed: u64,
    ) {
        let several = several_sizes && !pattern.contains("true");
        let block = if several {
            "[{ size = \"3k\", share = 1 }, { size = \"1k\", share = 1 }, { size = \"13k\", share = 1 }]"
        } else {
            "\"3k\""
        };
        // The workload's range, with space for one block for each worker.
        let first = start.next_multiple_of(1024);
        let end = first + units * 1024 + rest;
        let spec = spec(&format!(
            "align = 1024\nblock = {block}\nactive = \"{start}..{end}\"\nmix = {{ read = 1 }}\n\
             all = {{ addresses = {pattern} }}"
        ));
        let geometry = Geometry { capacity_bytes: end, align_bytes: 1024, workers };
        let shared = Shared::new(&spec, seed, &geometry).unwrap();
        for worker in 0..workers {
            let mut stream = Stream::new(&shared, worker);
            for _ in 0..200 {
                let op = stream.next_op();
                prop_assert_eq!(op.offset_bytes % 1024, 0);
                prop_assert!(op.offset_bytes >= first, "{:?}", op);
                prop_assert!(op.offset_bytes + u64::from(op.len_bytes) <= first + units * 1024, "{:?}", op);
            }
        }
    }
}

/// Compares addresses one by one, including the return to the start: fio's `rw=read:8k`, `read:-8k` and strided zones,
/// and several interleaved files.
#[test]
fn walks_with_gaps_go_where_they_say() {
    let of = |addresses: &str, range: u64, workers, worker, count| {
        blocks(&take(&shared(&reads(addresses), range, workers), worker, count))
    };
    let skip = "{ pattern = \"sequential\", skip = \"8KiB\" }";
    assert_eq!(of(skip, 10, 1, 0, 6), [0, 3, 6, 9, 0, 3]);
    assert_eq!(of(skip, 11, 1, 0, 5), [0, 3, 6, 9, 0]);
    let zones = "{ pattern = \"sequential\", run = 2, skip = \"12KiB\" }";
    assert_eq!(of(zones, 12, 1, 0, 7), [0, 1, 5, 6, 10, 11, 0]);
    assert_eq!(of(zones, 11, 1, 0, 7), [0, 1, 5, 6, 10, 0, 1]);
    assert_eq!(of(zones, 20, 2, 1, 3), [10, 11, 15]);
    let back = "{ pattern = \"strided\", stride = \"4KiB\", start = \"4KiB\", backward = true }";
    assert_eq!(of(back, 5, 1, 0, 7), [3, 2, 1, 0, 4, 3, 2]);
    let streams = "{ pattern = \"sequential\", streams = 3 }";
    assert_eq!(of(streams, 7, 1, 0, 8), [0, 2, 4, 1, 3, 5, 0, 2]);
    assert_eq!(of(streams, 12, 2, 1, 4), [2, 6, 10, 3]);
}

/// Each block follows the previous one, except for the share of jumps.
#[test]
fn jumps_have_their_share() {
    let of = reads("{ pattern = \"sequential\", jump = \"30%\" }");
    let drawn = blocks(&take(&shared(&of, 1000, 1), 0, 50_000));
    let follows = drawn.windows(2).filter(|pair| pair[1] == (pair[0] + 1) % 1000).count();
    // A jump reaches the next block once in a thousand.
    near(follows, 49_999, 0.7 + 0.3 / 1000.0);
}

/// fio's Pareto: 1 - h of the draws are among the first h of the ranks. Its normal distribution: the mean of twelve
/// draws has a standard deviation of a twelfth of the range. 68.1 % of the draws are within one deviation, and 95.6 %
/// within two (Irwin and Hall). A shift as wide as the range spreads the draws.
#[test]
fn pareto_and_normal_are_those_of_fio() {
    const DRAWS: usize = 300_000;
    let heaviest = |addresses: &str, places: u64, of: &[u64]| -> Vec<f64> {
        let mut hits = vec![0_u64; places as usize];
        for block in blocks(&take(&shared(&reads(addresses), places, 1), 0, DRAWS)) {
            hits[block as usize] += 1;
        }
        hits.sort_unstable_by_key(|hits| std::cmp::Reverse(*hits));
        let share = |n: &u64| hits[..*n as usize].iter().sum::<u64>() as f64 / DRAWS as f64;
        of.iter().map(share).collect()
    };
    for h in [0.1, 0.2, 0.4] {
        let pattern = format!("{{ pattern = \"pareto\", h = {h} }}");
        let found = heaviest(&pattern, 1001, &[(h * 1000.0) as u64])[0];
        assert!((found - (1.0 - h)).abs() < 0.004, "h {h}: {found}");
    }
    // Sorting by hits favours the heaviest by their noise, by less than half a percent here.
    let found = heaviest("\"normal\"", 1200, &[200, 400]);
    assert!((found[0] - 0.681).abs() < 0.008 && (found[1] - 0.956).abs() < 0.008, "{found:?}");
    let wide = heaviest("{ pattern = \"normal\", deviation = \"50%\" }", 1200, &[200, 600]);
    // The sum of a normal of deviation σ = n / 12 and a uniform as wide as n / 2: its middle n / 6 has a third, up to the
    // normal's tails beyond 2 σ; its middle half lacks 2 σ / √(2 π) / (n / 2) = 13.3 %.
    assert!((wide[0] - 0.332).abs() < 0.012 && (wide[1] - 0.867).abs() < 0.008, "{wide:?}");
}

/// A worker's own range is the first worker's range, shifted. Operations in it do not depend on other workers.
#[test]
fn workers_have_ranges_of_their_own() {
    let text = |pattern: &str, step: &str| {
        format!(
            "mix = {{ read = 1 }}\nthreads = 3\nactive = \"8KiB..40KiB\"\nworker_step = \"{step}\"\nall = {{ addresses = {pattern} }}"
        )
    };
    for (pattern, step, first) in [
        ("\"sequential\"", "16KiB", [2, 6, 10]),
        ("\"sequential\"", "0B", [2, 2, 2]),
        ("{ pattern = \"strided\", stride = \"4KiB\" }", "4KiB", [2, 3, 4]),
    ] {
        let shared = shared(&spec(&text(pattern, step)), 20, 3);
        for (worker, first) in (0..3).zip(first) {
            let expected: Vec<u64> = (0..16).map(|n| first + n % 8).collect();
            assert_eq!(blocks(&take(&shared, worker, 16)), expected, "{pattern} {step}");
        }
    }
    let once = "{ pattern = \"uniform\", once_per_pass = true }";
    for pattern in ["\"uniform\"", once, "{ pattern = \"zipf\", theta = 0.9 }"] {
        let shared = shared(&spec(&text(pattern, "32KiB")), 26, 3);
        let all: Vec<HashSet<u64>> = (0..3)
            .map(|worker| blocks(&take(&shared, worker, 800)).into_iter().collect())
            .collect();
        for (seen, first) in all.iter().zip([2, 10, 18]) {
            assert_eq!(*seen, (first..first + 8).collect(), "{pattern}");
        }
    }
    let passes = shared(&spec(&text(once, "32KiB")), 26, 3);
    assert_eq!(blocks(&take(&passes, 1, 8)).into_iter().collect::<HashSet<_>>().len(), 8);
    assert_ne!(blocks(&take(&passes, 0, 8))[1..], blocks(&take(&passes, 1, 8))[..7]);
    let beyond = spec(&text("\"uniform\"", "36KiB"));
    let geometry = Geometry { capacity_bytes: 26 * 4 * KIB, align_bytes: 512, workers: 3 };
    assert!(matches!(Shared::new(&beyond, 1, &geometry), Err(GeometryError::BeyondEnd { .. })));
}

/// Blocks smaller than their alignment begin at multiples of the alignment, each multiple equally often.
#[test]
fn small_blocks_keep_the_alignment_of_addresses() {
    let text = "mix = { read = 1 }\naddress_align = \"4KiB\"\nactive = \"1KiB..40KiB\"\n\
                block = [{ size = \"512B\", share = 1 }, { size = \"4KiB\", share = 1 }]";
    let ops = take(&shared(&spec(text), 20, 1), 0, 40_000);
    assert!(ops.iter().all(|op| op.offset_bytes % 4096 == 0));
    let mut hits = [0; 9];
    for op in ops.iter().filter(|op| op.len_bytes == 512) {
        hits[(op.offset_bytes / 4096 - 1) as usize] += 1;
    }
    let all: u64 = hits.iter().sum();
    assert!(chi(&hits, |_| all as f64 / 9.0) < 4.0, "{hits:?}");
}

/// Writes are read back in their order, a fixed number at a time, with flushes in between.
#[test]
fn writes_are_read_back() {
    let text = "mix = { write = 1 }\nall = { addresses = \"sequential\" }\nwrite = { read_back = 3, flush_every = 2 }";
    let ops = take(&shared(&spec(text), 100, 1), 0, 14);
    let words: Vec<String> = ops
        .iter()
        .map(|op| format!("{}{}", &op.kind.name()[..1], op.offset_bytes / 4096))
        .collect();
    let expected =
        ["w0", "w1", "f0", "w2", "r0", "r1", "r2", "w3", "f0", "w4", "w5", "f0", "r3", "r4"];
    assert_eq!(words, expected);
}

/// Each open zone is written from its start to its end, then another one is opened. The number of
/// open zones is limited, and workers have zones of their own.
#[test]
fn zones_are_written_from_start_to_end() {
    let text = "threads = 2\nmix = { write = 1 }\nall = { addresses = { pattern = \"zones\", zone = \"32KiB\", open = 6 } }";
    let shared = shared(&spec(text), 8 * 40 + 3, 2);
    for worker in 0..2 {
        let mut next: HashMap<u64, u64> = HashMap::new();
        let mut hits = [0_u64; 40];
        for block in blocks(&take(&shared, worker, 20_000)) {
            let zone = block / 8;
            assert_eq!(zone % 2, u64::from(worker));
            assert_eq!(next.insert(zone, block % 8 + 1).unwrap_or(0) % 8, block % 8, "zone {zone}");
            next.retain(|_, next| *next < 8);
            assert!(next.len() <= 3);
            hits[zone as usize] += 1;
        }
        // 2500 zones of 8 blocks, over 20.
        let own: Vec<u64> = hits.iter().copied().filter(|hits| *hits > 0).collect();
        assert!(own.len() == 20 && own.iter().all(|hits| hits.abs_diff(1000) < 400), "{own:?}");
    }
}

/// With `trim = true` the writes are the same, and a trim of the whole zone precedes the first write of each zone, in
/// pieces of at most 1 GiB.
#[test]
fn zones_are_trimmed_when_they_are_opened() {
    const GIB: u64 = 1 << 30;
    const ZONE: u64 = 5 * GIB / 2;
    let of = |trim| {
        let addresses =
            format!("{{ pattern = \"zones\", zone = \"2560MiB\", open = 3, trim = {trim} }}");
        let spec = spec(&format!(
            "block = \"64MiB\"\nmix = {{ write = 1 }}\nall = {{ addresses = {addresses} }}"
        ));
        assert_eq!(spec.issues(OpKind::Trim), trim);
        take(&shared(&spec, 100 << 18, 1), 0, 10_000)
    };
    let trimmed = of(true);
    let writes: Vec<Op> = trimmed.iter().copied().filter(|op| op.kind == OpKind::Write).collect();
    assert!(writes.len() > 9000);
    assert_eq!(writes, of(false)[..writes.len()]);
    for (i, op) in trimmed.iter().enumerate().skip(3).filter(|(_, op)| op.kind == OpKind::Write) {
        let trims = trimmed[i - 3..i].iter().filter(|op| op.kind == OpKind::Trim);
        let before: Vec<(u64, u64)> =
            trims.map(|op| (op.offset_bytes, op.len_bytes.into())).collect();
        let start = op.offset_bytes;
        let whole = [(start, GIB), (start + GIB, GIB), (start + 2 * GIB, GIB / 2)];
        assert_eq!(before == whole, start % ZONE == 0, "{op:?} after {before:?}");
    }
}
