//! The issued operations, as far as a file shows them afterwards: the same bytes from the same seed
//! with every engine, addresses as in the workload, content as in the options, and verified content
//! that detects damage.

use crate::place::{Place, cells, codes, engines, whole};
use iodyno_units::verifiable::Mark;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: usize = 4096;

/// Lays out a file, then runs a workload that writes to it. Returns the file's content before and after.
fn before_and_after(place: &Place, workload: &str, flags: &str) -> (Vec<u8>, Vec<u8>) {
    let path = place.path("t");
    let _ = std::fs::remove_file(&path);
    place.iodyno("run random-read --on t?size=4MiB --ops 1 --ramp 0s -q").succeeds();
    let before = std::fs::read(&path).unwrap();
    place.iodyno(&format!("run {workload} --on t --ramp 0s -q {flags}")).succeeds();
    (before, std::fs::read(&path).unwrap())
}

/// The blocks that differ.
fn changed(before: &[u8], after: &[u8]) -> Vec<usize> {
    assert_eq!(before.len(), after.len());
    let blocks = before.chunks(BLOCK).zip(after.chunks(BLOCK));
    blocks.enumerate().filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect()
}

#[test]
fn one_seed_gives_the_same_bytes_by_every_engine() {
    let place = Place::new();
    for content in ["incompressible", "verifiable", "compressible=50%"] {
        let write = |engine: &str, seed: u32| {
            let flags =
                format!("--depth 1 --ops 300 --content {content} --engine {engine} --seed {seed}");
            let bytes = before_and_after(&place, "random-write", &flags).1;
            // Verifiable content names its run: equal are the blocks that were written, and how often.
            if content == "verifiable" { generations(&bytes) } else { bytes }
        };
        let engines = engines(&place);
        let first = write(engines[0], 7);
        for engine in &engines[1..] {
            assert!(write(engine, 7) == first, "{content} by {engine}");
        }
        assert!(write("psync", 8) != first, "{content} of another seed");
    }
}

/// Number of writes to each block: its generation, or 0 if the block is not verifiable.
fn generations(bytes: &[u8]) -> Vec<u8> {
    let generation = |block| Mark::read(block).map_or(0, |mark| mark.generation);
    bytes.chunks(BLOCK).flat_map(|block| generation(block).to_le_bytes()).collect()
}

/// Uniform means independent draws: 1024 of them hit 1024 (1 − 1/e) ≈ 647 blocks, ± 15 in one of
/// three cases. Once per pass hits each.
#[test]
fn uniform_addresses_are_independent_draws() {
    let place = Place::new();
    for seed in [1, 2] {
        let flags = format!("--depth 4 --ops 1024 --seed {seed}");
        let (before, after) = before_and_after(&place, "random-write", &flags);
        let hit = changed(&before, &after).len();
        assert!((580..715).contains(&hit), "{hit}");
    }
    let permuted = "schema = 1\nblock = \"4KiB\"\n[mix]\nwrite = 1\n[write]\naddresses = { pattern = \"uniform\", once_per_pass = true }\n[limits]\nops = 1024\n";
    place.write("pass.toml", permuted);
    let (before, after) = before_and_after(&place, "pass.toml", "");
    assert_eq!(changed(&before, &after).len(), 1024);
}

#[test]
fn sequential_writes_go_over_everything_once() {
    let place = Place::new();
    // 64 KiB appends, 64 of them, by one worker or by several that share the cursor.
    for flags in ["--depth 1 --ops 64", "--threads 3 --depth 2 --ops 64"] {
        let (before, after) = before_and_after(&place, "log-write", flags);
        assert_eq!(changed(&before, &after).len(), 1024, "{flags}");
    }
    let (before, after) = before_and_after(&place, "log-write", "--depth 1 --ops 16");
    assert_eq!(changed(&before, &after), (0..256).collect::<Vec<_>>());
}

/// Nothing outside of the active range is touched, and all of it is used.
#[test]
fn writes_stay_in_the_active_range() {
    let place = Place::new();
    let flags = "--ops 3000 --threads 2";
    for (range, blocks) in [("25%..50%", 256..512), ("1MiB..1100KiB", 256..275), ("0..4KiB", 0..1)]
    {
        let flags = format!("{flags} --active {range}");
        let (before, after) = before_and_after(&place, "random-write", &flags);
        let hit = changed(&before, &after);
        assert!(hit.iter().all(|block| blocks.contains(block)), "{range}: {hit:?}");
        assert!(hit.len() * 10 >= blocks.len() * 9, "{range}: {hit:?}");
    }
}

#[test]
fn content_is_as_reducible_as_requested() {
    let place = Place::new();
    let blocks_of = |content: &str| {
        let flags = format!("--ops 1024 --block 4KiB --depth 1 --content {content}");
        let (before, after) = before_and_after(&place, "seq-write", &flags);
        if content != "zeroes" {
            assert_eq!(changed(&before, &after).len(), 1024, "{content}");
        }
        after
    };
    assert!(blocks_of("zeroes") == vec![0; 4 << 20]);
    // A compressor removes repetitions: about half of each block is one byte over and over.
    let compressible = blocks_of("compressible=50%");
    for block in compressible.chunks(BLOCK) {
        let repeated = block.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((BLOCK * 2 / 5..BLOCK * 3 / 5).contains(&repeated), "{repeated} of {BLOCK}");
    }
    let distinct = |bytes: &[u8]| {
        let mut blocks: Vec<&[u8]> = bytes.chunks(BLOCK).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len()
    };
    assert_eq!(distinct(&compressible), 1024);
    assert_eq!(distinct(&blocks_of("incompressible")), 1024);
    // With `dedupable=50%`, half of the blocks repeat another one.
    let dedupable = distinct(&blocks_of("compressible=0%,dedupable=50%"));
    assert!((400..640).contains(&dedupable), "{dedupable}");
}

#[test]
fn verified_content_that_is_sound() {
    let place = Place::new();
    for engine in engines(&place) {
        let depth = if ["psync", "mmap"].contains(&engine) { 1 } else { 16 };
        let flags = format!("--engine {engine} --depth {depth} --threads 2 --time 300ms --ramp 0s");
        let words = format!("run db-oltp --on scratch:4MiB --content verifiable {flags}");
        let cell = cells(&place.document(&words))[0].clone();
        for kind in ["read", "write"] {
            assert_eq!(cell[kind]["errors"], 0, "{engine}: {cell}");
            assert!(whole(&cell[kind]["ops"]) > 0, "{engine}: {cell}");
        }
        assert_eq!(cell["ended"], "time", "{engine}: {cell}");
        assert!(cell["evidence"]["first_corruption"].is_null());
    }
}

/// Another program overwrites the file while it is read: every block that is met is counted as
/// corrupt and as nothing else, with the address of the first.
#[test]
fn verified_content_that_was_damaged() {
    let place = Place::new();
    for (engine, workload) in
        [("psync", "random-read"), ("libaio", "random-read"), ("psync", "db-oltp")]
    {
        let _ = std::fs::remove_file(place.path("t"));
        let flags =
            format!("--engine {engine} --depth 1 --time 1m --ramp 0s --max-errors 50 --json -q");
        let words = format!("run {workload} --on t?size=2MiB --content verifiable {flags}");
        let mut running = place.start(&words);
        place.wait_for_cells(&mut running, 1);
        let damage = AtomicBool::new(true);
        let file = std::fs::OpenOptions::new().write(true).open(place.path("t")).unwrap();
        let output = std::thread::scope(|scope| {
            // A run that writes would repair it, so the damage continues.
            scope.spawn(|| {
                while damage.load(Ordering::Relaxed) {
                    for block in 0..512 {
                        file.write_all_at(&[0xEE; 64], block * 4096 + 1000).unwrap();
                    }
                }
            });
            let output = running.finish();
            damage.store(false, Ordering::Relaxed);
            output
        });
        let document = crate::faults::assert_stopped(&place, &output);
        let cell = &cells(&document)[0];
        crate::faults::assert_failures(cell, "read", "corrupt", 51);
        assert_eq!(cell["write"]["errors"], 0, "what is written can't be corrupt");
        assert!(codes(cell).contains(&"STOPPED_BY_ERRORS"));
        let first = cell["evidence"]["first_corruption"].as_str().unwrap();
        assert!(first.starts_with("at byte "), "{first}");
        let text = cell["verdicts"].as_array().unwrap().iter().find(|v| v["code"] == "ERRORS");
        let text = text.unwrap()["text"].as_str().unwrap();
        assert!(text.contains("wrong content") && text.contains(first), "{text}");
    }
}

/// Targets of one run have different data, whether it is laid out, filled or written by the workload: storage that stores
/// equal blocks once would hold one of them.
#[test]
fn each_target_has_its_own_data() {
    for words in
        ["random-read --ops 10", "random-read --ops 10 --fill", "seq-write --ops 1 --depth 1"]
    {
        let place = Place::new();
        let files = "--on a?size=1MiB --on b?size=1MiB --ramp 0s -q";
        place.iodyno(&format!("run {words} {files}")).succeeds();
        let blocks = |name: &str| -> BTreeSet<Vec<u8>> {
            let bytes = std::fs::read(place.path(name)).unwrap();
            bytes.chunks(4096).map(<[u8]>::to_vec).collect()
        };
        let (a, b) = (blocks("a"), blocks("b"));
        assert_eq!((a.len(), b.len()), (256, 256), "{words}");
        assert!(a.is_disjoint(&b), "{words}");
    }
}

/// A named file is kept, even if the workload itself writes it for the first time. A later run that reads it lays it out.
#[test]
fn a_file_that_a_workload_makes_is_kept() {
    let place = Place::new();
    place.write("w.fio", "[job]\nioengine=psync\nrw=write\nbs=64k\nsize=1m\n");
    place.iodyno("run w.fio --on made?size=1MiB --content verifiable -q").succeeds();
    assert_eq!(std::fs::metadata(place.path("made")).unwrap().len(), 1 << 20);
    let document = place.document("run --verify-only --on made");
    let found = &cells(&document)[0]["evidence"]["verification"];
    assert_eq!((whole(&found["checked"]), whole(&found["unverified"])), (256, 0), "{found}");
    place.iodyno("run random-read --on made --ops 10 -q").succeeds();
}
