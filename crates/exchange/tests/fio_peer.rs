//! Distributions of addresses beside fio itself: a job that fio runs, with a log of its addresses, gives the same shares as
//! the workload that it becomes. `IODYNO_FIO_SEED=7` chooses the seed of both.

use iodyno_exchange::fio::{Process, parse_command_line};
use iodyno_workload::{Geometry, Shared, Stream};
use std::process::Command;
use std::sync::Arc;

/// Blocks of the file: a power of two, for which fio's hash of ranks is a bijection.
const BLOCKS: usize = 1024;
const OPS: usize = 40_000;

/// How often each block is addressed by fio.
fn by_fio(line: &str, folder: &std::path::Path) -> Vec<u64> {
    // fio appends to a log that is there.
    let log = tempfile::Builder::new().tempfile_in(folder).unwrap().path().to_owned();
    let mut command = Command::new("fio");
    command.args(line.split_whitespace().skip(1)).arg("--output=/dev/null").current_dir(folder);
    command.arg("--ioengine=null").arg(format!("--write_iolog={}", log.display()));
    assert!(command.status().unwrap().success(), "{line}");
    let mut hits = vec![0; BLOCKS];
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [_, _, "read", offset, "4096"] = words.as_slice() {
            hits[offset.parse::<usize>().unwrap() / 4096] += 1;
        }
    }
    assert_eq!(hits.iter().sum::<u64>(), OPS as u64, "{line}");
    hits
}

/// The same by iodyno.
fn by_iodyno(line: &str, seed: u64) -> Vec<u64> {
    let file = parse_command_line(line, &[], &Process).unwrap_or_else(|e| panic!("{e}"));
    let spec = &file.groups[0][0].spec;
    let geometry = Geometry { capacity_bytes: 4096 * BLOCKS as u64, align_bytes: 512, workers: 1 };
    let shared: Arc<Shared> = Shared::new(spec, seed, &geometry).unwrap();
    let mut stream = Stream::new(&shared, 0);
    let mut hits = vec![0; BLOCKS];
    for _ in 0..OPS {
        hits[stream.next_op().offset_bytes as usize / 4096] += 1;
    }
    hits
}

/// The largest difference between two samples' shares of the first blocks: Kolmogorov and Smirnov's.
fn difference(a: &[u64], b: &[u64]) -> f64 {
    let (mut sums, mut most) = ((0, 0), 0_u64);
    for (a, b) in a.iter().zip(b) {
        sums = (sums.0 + a, sums.1 + b);
        most = most.max(sums.0.abs_diff(sums.1));
    }
    most as f64 / OPS as f64
}

/// At so many draws of each two samples of one law differ by more than 0.0138 once in a thousand (1.95 √(2 / n)). Hot
/// blocks are scattered, by other keys: they are compared in the order of their hits, which makes both samples alike in
/// their noise. fio's zipf is an approximation (Gray's), with a systematic difference of 1 to 2 % here.
#[test]
fn shares_are_those_of_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        assert!(std::env::var("CI").is_err(), "fio is missing");
        return;
    }
    let seed: u64 = std::env::var("IODYNO_FIO_SEED").map_or(1, |seed| seed.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for (distribution, is_scattered, most) in [
        ("random", false, 0.0138),
        ("zoned:50/5:30/15:20/", false, 0.0138),
        ("zoned_abs:60/1m:40/3m", false, 0.0138),
        ("pareto:0.2", true, 0.0138),
        ("normal:20", true, 0.0138),
        ("zipf:0.9", true, 0.034),
        ("zipf:1.2", true, 0.034),
    ] {
        let line = format!(
            "fio --name=a --rw=randread --norandommap=1 --bs=4k --size=4m --io_size={} --random_distribution={distribution} --randseed={seed}",
            OPS * 4096
        );
        let (mut theirs, mut ours) = (by_fio(&line, folder.path()), by_iodyno(&line, seed));
        if is_scattered {
            theirs.sort_unstable_by_key(|hits| std::cmp::Reverse(*hits));
            ours.sort_unstable_by_key(|hits| std::cmp::Reverse(*hits));
        }
        let found = difference(&theirs, &ours);
        println!("{distribution}: {found:.4}");
        assert!(found < most, "{distribution}: {found}, at most {most}, seed {seed}");
    }
}
