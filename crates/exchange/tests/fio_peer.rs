//! Compares with fio itself: fio's own I/O log of a job contains the same operations as the converted workload issues,
//! or the same distribution. `IODYNO_FIO_SEED=7` sets the seed of both.

use iodyno_exchange::fio::{Process, parse_command_line};
use iodyno_units::OpKind;
use iodyno_workload::{Geometry, Shared, Stream};
use std::process::Command;
use std::sync::Arc;

/// Blocks of the file: a power of two, for which fio's hash of ranks is a bijection.
const BLOCKS: usize = 1024;
const OPS: usize = 40_000;

/// Size of the file that exists before the job.
const FILE_BYTES: u64 = 4 << 20;

/// An operation: kind, number of the file, offset and length.
type Issued = (OpKind, usize, u64, u64);

/// Whether fio is installed.
fn has_fio() -> bool {
    let is_there = Command::new("fio").arg("--version").output().is_ok();
    assert!(is_there || std::env::var("CI").is_err(), "fio is missing");
    is_there
}

/// Operations that fio issues for a command line in a folder.
fn issued_by_fio(line: &str, folder: &std::path::Path) -> Vec<Issued> {
    // fio appends to an existing log.
    let log = tempfile::Builder::new().tempfile_in(folder).unwrap().path().to_owned();
    let mut command = Command::new("fio");
    command.args(line.split_whitespace().skip(1)).arg("--output=/dev/null").current_dir(folder);
    command.arg(format!("--write_iolog={}", log.display()));
    assert!(command.status().unwrap().success(), "{line}");
    let mut files: Vec<String> = Vec::new();
    let mut issued = Vec::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let kind = match words.get(2) {
            Some(&"add") => {
                files.push(words[1].to_owned());
                continue;
            }
            Some(&"read") => OpKind::Read,
            Some(&"write") => OpKind::Write,
            Some(&("sync" | "datasync")) => OpKind::Flush,
            _ => continue,
        };
        let file = files.iter().position(|file| file == words[1]).unwrap();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let place = if kind == OpKind::Flush { (0, 0) } else { (number(3), number(4)) };
        issued.push((kind, file, place.0, place.1));
    }
    issued
}

/// Number of operations of fio on each block.
fn by_fio(line: &str, folder: &std::path::Path) -> Vec<u64> {
    let mut hits = vec![0; BLOCKS];
    for (kind, _, offset, len) in issued_by_fio(&format!("{line} --ioengine=null"), folder) {
        assert_eq!((kind, len), (OpKind::Read, 4096), "{line}");
        hits[(offset / 4096) as usize] += 1;
    }
    assert_eq!(hits.iter().sum::<u64>(), OPS as u64, "{line}");
    hits
}

/// Operations of the line's workload on a target of this size, up to its limit in bytes.
fn issued_by_iodyno(line: &str, capacity_bytes: u64, seed: u64) -> Vec<Issued> {
    let file = parse_command_line(line, &[], &Process).unwrap_or_else(|e| panic!("{line}: {e}"));
    let spec = &file.groups[0][0].spec;
    let geometry = Geometry { capacity_bytes, align_bytes: 1, workers: 1 };
    let shared = Shared::new(spec, seed, &geometry).unwrap_or_else(|e| panic!("{line}: {e}"));
    let mut stream = Stream::new(&shared, 0);
    let most_bytes = spec.limits().bytes.unwrap_or_else(|| {
        let (start_bytes, end_bytes) = spec.active_on(capacity_bytes);
        ((end_bytes - start_bytes) as f64 * spec.limits().passes.unwrap()) as u64
    });
    let (mut all, mut bytes) = (Vec::new(), 0);
    while bytes < most_bytes {
        let op = stream.next_op();
        bytes += u64::from(op.len_bytes);
        all.push((op.kind, 0, op.offset_bytes, op.len_bytes.into()));
    }
    all
}

/// Number of operations of iodyno on each block.
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

fn seed() -> u64 {
    std::env::var("IODYNO_FIO_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// Kolmogorov–Smirnov statistic: the largest difference between the cumulative shares of two samples.
fn difference(a: &[u64], b: &[u64]) -> f64 {
    let (mut sums, mut most) = ((0, 0), 0_u64);
    for (a, b) in a.iter().zip(b) {
        sums = (sums.0 + a, sums.1 + b);
        most = most.max(sums.0.abs_diff(sums.1));
    }
    most as f64 / OPS as f64
}

/// With this number of draws, two samples of one law differ by more than 0.0138 once in a thousand (1.95 √(2 / n)). Hot
/// blocks are scattered by different keys, so blocks are compared in the order of their hits, which makes both samples
/// alike in their noise. fio's zipf is an approximation (Gray's), with a systematic difference of 1 to 2 % here.
#[test]
fn shares_are_those_of_fio() {
    if !has_fio() {
        return;
    }
    let seed = seed();
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

/// Sequential patterns visit the same blocks in the same order, for any files, sizes and starts of the job. The file
/// exists and has 4 MiB.
#[test]
fn walks_are_those_of_fio() {
    if !has_fio() {
        return;
    }
    for (options, part_bytes) in [
        ("--filename=f --rw=write --bs=64k --size=1m --offset=25%", 0),
        ("--filename=f --rw=read --bs=64k --size=1m --offset=10%", 0),
        ("--filename=f --rw=write --bs=64k --size=50% --offset=1m", 0),
        ("--filename=f --rw=write --bs=64k --size=100% --offset=1m", 0),
        ("--filename=f --rw=write --bs=64k --size=90% --offset=25%", 0),
        ("--rw=read --bs=48k --size=1000k", 0),
        ("--rw=write --bs=2300 --size=1m --fdatasync=1", 0),
        ("--filename=f --rw=read --bs=64k --size=1m --fsync=2", 0),
        ("--filename=f --rw=write --bs=64k --size=1m --fsync=3", 0),
        ("--filename=f --rw=write --bs=64k --size=1m --fsync=3 --number_ios=7", 0),
        ("--rw=write --bs=64k --size=1m --nrfiles=3", 320 << 10),
        ("--rw=write --bs=4k --size=1m --nrfiles=3", 340 << 10),
        ("--rw=write --bs=64k --size=1000k --nrfiles=7 --file_service_type=sequential", 128 << 10),
        ("--rw=write --bs=16k --filesize=100k --size=300k --nrfiles=3", 96 << 10),
        ("--rw=write --bs=64k --size=1m --nrfiles=3 --loops=2", 320 << 10),
        // A flush after each pass.
        ("--filename=f --rw=write --bs=64k --size=256k --loops=3 --end_fsync=1", 0),
        ("--filename=f --rw=write --bs=64k --size=256k --io_size=768k --end_fsync=1", 0),
        // A walk with holes ends with the file, or begins again if only a hole reaches beyond it.
        ("--rw=read:8k --bs=4k --size=256k", 0),
        ("--rw=read:8k --bs=4k --size=256k --loops=2", 0),
        ("--rw=read:4k --bs=4k --size=256k", 0),
        ("--rw=write:8k --bs=4k --size=256k --offset=64k", 0),
        ("--rw=read:20k --bs=16k --size=100k", 0),
        ("--rw=read:20k --bs=48k --size=100k", 0),
        ("--rw=read:8k --bs=4k --size=256k --io_size=40k", 0),
        ("--rw=read:8k --bs=4k --size=256k --io_size=200k", 0),
        ("--rw=read:8k --bs=4k --size=256k --io_size=200k --loops=2", 0),
        // A pass through zones ends with the file if its end cuts off the last one, and else begins again.
        ("--rw=write --bs=4k --size=1m --zonemode=strided --zonesize=128k --zoneskip=64k", 0),
        (
            "--rw=read --bs=4k --size=1m --zonemode=strided --zonesize=128k --zonerange=256k --zoneskip=64k",
            0,
        ),
        ("--rw=read --bs=12k --size=1m --zonemode=strided --zonesize=96k --zoneskip=96k", 0),
        (
            "--rw=read --bs=12k --size=1000k --zonemode=strided --zonesize=96k --zoneskip=4k --loops=2",
            0,
        ),
        (
            "--rw=read --bs=4k --size=1m --zonemode=strided --zonesize=128k --zoneskip=256k --loops=2",
            0,
        ),
        (
            "--rw=write --bs=4k --size=1m --zonemode=strided --zonesize=128k --zoneskip=64k --offset=64k --loops=2",
            0,
        ),
        (
            "--rw=write --bs=4k --size=1m --zonemode=strided --zonesize=128k --zoneskip=64k --io_size=2m",
            0,
        ),
        (
            "--rw=read --bs=4k --size=1m --zonemode=strided --zonesize=128k --zoneskip=64k --io_size=900k --loops=2",
            0,
        ),
        ("--rw=write:0 --bs=4k --size=1m --zonemode=strided --zonesize=128k --zoneskip=64k", 0),
        // Passes repeat until `io_size` is moved, at least `loops` times.
        ("--rw=read --bs=4k --size=256k --io_size=768k --loops=2", 0),
        ("--rw=write --bs=4k --size=256k --io_size=640k --loops=2", 0),
        ("--rw=read --bs=4k --size=256k --io_size=384k --loops=4", 0),
        ("--rw=read --bs=4k --size=256k --io_size=100k --loops=3", 0),
        // Each lap of a backward walk has the same addresses.
        ("--rw=read:-16k --bs=4k --size=256k --loops=2", 0),
        ("--filename=f --rw=write:-8k --bs=4k --size=256k --io_size=1m", 0),
        ("--filename=f --rw=read:-16k --bs=4k --size=256k --offset=256k --loops=3", 0),
        // Files are no larger than `filesize`, and begin at `offset`, which in percent is of the file.
        ("--filename=f --rw=read --bs=64k --filesize=4m --offset=25%", 0),
        ("--filename=f --rw=read --bs=64k --filesize=4m --size=25% --offset=50%", 0),
        ("--filename=f --rw=read --bs=64k --filesize=4m --size=75% --offset=50%", 0),
        ("--rw=read --bs=64k --filesize=1m --size=4m", 0),
        ("--rw=read --bs=64k --filesize=2m --offset=512k", 0),
        ("--rw=read --bs=64k --filesize=2m --size=1m --offset=512k", 0),
        ("--filename=f --rw=read --bs=64k --filesize=2m --size=50%", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::File::create(folder.path().join("f")).unwrap().set_len(FILE_BYTES).unwrap();
        let line = format!("fio --name=a --ioengine=psync {options}");
        let of_target = |(kind, file, offset, len): Issued| {
            let base = if kind == OpKind::Flush { 0 } else { file as u64 * part_bytes };
            (kind, 0, base + offset, len)
        };
        let theirs: Vec<Issued> =
            issued_by_fio(&line, folder.path()).into_iter().map(of_target).collect();
        let mut ours = issued_by_iodyno(&line, FILE_BYTES, seed());
        // fio also flushes after the last write, if a flush is due.
        ours.extend(
            theirs.last().filter(|last| last.0 == OpKind::Flush && ours.last() != Some(last)),
        );
        assert_eq!(ours, theirs, "{options}");
    }
}

/// Sequential blocks of several sizes are adjacent, fill the same part of the file, and have the same frequencies of
/// sizes. Random blocks of several files are the same set, in another order.
#[test]
fn last_blocks_are_those_of_fio() {
    if !has_fio() {
        return;
    }
    for options in [
        "--rw=write --bsrange=4k-64k --size=16m",
        "--rw=write --bsrange=3k-10k --size=10000k",
        "--rw=write --bsrange=1k-256k --size=32m",
        "--rw=write --bssplit=4k/50:64k/50 --size=16m",
        "--rw=read --bssplit=32k/50:100k/50 --size=16m",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("fio --name=a --ioengine=psync {options} --randseed={}", seed());
        let theirs = issued_by_fio(&line, folder.path());
        let ours = issued_by_iodyno(&line, 64 << 20, seed());
        let (mut ends, mut sums) = ([0; 2], [0.0; 2]);
        for (at, ops) in [&theirs, &ours].into_iter().enumerate() {
            for (_, _, offset, len) in ops {
                assert_eq!(*offset, ends[at], "{options}: no gap");
                ends[at] = offset + len;
                sums[at] += (*len as f64).powi(2);
            }
        }
        // If the sizes leave a remainder, it may differ.
        let rest = if options.contains("3k") || options.contains("32k") { 100 << 10 } else { 0 };
        assert!(ends[0].abs_diff(ends[1]) <= rest, "{options}: {ends:?}");
        let rates = [theirs.len() as f64, ours.len() as f64];
        assert!((rates[0] / rates[1] - 1.0).abs() < 0.2, "{options}: {rates:?}");
        assert!((sums[0] / sums[1] - 1.0).abs() < 0.2, "{options}: {sums:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let line = "fio --name=a --ioengine=psync --rw=randwrite --bs=64k --size=1m --nrfiles=7";
    let mut theirs: Vec<u64> = issued_by_fio(line, folder.path())
        .into_iter()
        .map(|(_, file, offset, _)| file as u64 * (128 << 10) + offset)
        .collect();
    let mut ours: Vec<u64> =
        issued_by_iodyno(line, 4 << 20, seed()).into_iter().map(|op| op.2).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
}

/// In a mix, a sequential operation continues from the last one of its own kind.
#[test]
fn walks_of_a_mix_go_on_by_kind() {
    if !has_fio() {
        return;
    }
    for (options, gap_bytes) in [
        ("--rw=randrw:8", 0),
        ("--rw=randrw --percentage_random=50", 0),
        ("--rw=randrw --percentage_random=20 --norandommap", 0),
        ("--rw=rw:4k", 4096),
        ("--rw=rw:4k --loops=2", 4096),
        ("--rw=rw:8 --rwmixread=80", 8),
        ("--rw=rw", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let seed = seed();
        let line =
            format!("fio --name=a --ioengine=psync --bs=4k --size=8m --randseed={seed} {options}");
        let theirs = issued_by_fio(&line, folder.path());
        let ours = issued_by_iodyno(&line, 8 << 20, seed);
        let share = |ops: &[Issued]| {
            let (mut ends, mut on) = ([u64::MAX; 2], 0);
            for (kind, _, offset, len) in ops {
                let end = &mut ends[usize::from(*kind == OpKind::Write)];
                on += usize::from(*offset == end.saturating_add(gap_bytes));
                *end = offset + len;
            }
            on as f64 / ops.len() as f64
        };
        assert_eq!(theirs.len(), ours.len(), "{options}");
        let shares = [share(&theirs), share(&ours)];
        assert!((shares[0] - shares[1]).abs() < 0.05, "{options}: {shares:?}");
    }
}

/// A job with `io_size` above `size` and `loops` moves as much as in fio.
#[test]
fn io_size_with_loops_moves_as_much_as_in_fio() {
    if !has_fio() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for options in [
        "--rw=randread --io_size=768k --loops=2",
        "--rw=randwrite --io_size=384k --loops=4",
        "--rw=randread --io_size=768k --loops=2 --norandommap",
        "--rw=randread --io_size=768k --loops=2 --norandommap --random_generator=lfsr",
        "--rw=randread --io_size=640k --loops=2 --random_distribution=zipf:1.1",
        "--rw=randread:8 --io_size=640k --loops=2",
        "--rw=write:-8k --io_size=640k --loops=2",
        "--rw=randrw --io_size=640k --loops=2",
    ] {
        let line = format!("fio --name=a --ioengine=psync --bs=4k --size=256k {options}");
        let theirs = issued_by_fio(&line, folder.path()).len();
        assert_eq!(issued_by_iodyno(&line, FILE_BYTES, seed()).len(), theirs, "{options}");
    }
}

/// In a mix of reads and writes, a due flush is repeated after each read until the next write. fio and iodyno then have
/// equally many flushes.
#[test]
fn flushes_of_a_mix_are_those_of_fio() {
    if !has_fio() {
        return;
    }
    for (options, every) in [
        ("--rw=randrw --fsync=1", 1),
        ("--rw=randrw --fsync=4", 4),
        ("--rw=rw --rwmixread=80 --fdatasync=8", 8),
        ("--rw=randrw --rwmixread=20 --fsync=32", 32),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "fio --name=a --ioengine=psync --bs=4k --size=8m --randseed={} {options}",
            seed()
        );
        let theirs = issued_by_fio(&line, folder.path());
        let ours = issued_by_iodyno(&line, 8 << 20, seed());
        let flushes = [&theirs, &ours].map(|ops| {
            let (mut writes, mut is_flushed, mut flushes) = (0, true, 0);
            for (kind, ..) in ops {
                let is_due = writes > 0 && writes % every == 0 && !is_flushed;
                assert_eq!(*kind == OpKind::Flush, is_due, "{options}: after {writes} writes");
                is_flushed = *kind == OpKind::Flush;
                writes += u64::from(*kind == OpKind::Write);
                flushes += u32::from(is_flushed);
            }
            f64::from(flushes)
        });
        // About 2048 / `every` flushes, in short runs: allow five standard deviations.
        let deviation = ((2048 / every) as f64 * 4.0).sqrt() * 5.0;
        assert!((flushes[0] - flushes[1]).abs() < deviation, "{options}: {flushes:?}");
    }
}

/// Files with sizes from a range have fio's number, total size and blocks, with any seed and generator. Later jobs of
/// a file have other draws. Sequential blocks have the same order, and random blocks are the same set.
#[test]
fn sizes_of_files_are_those_of_fio() {
    if !has_fio() {
        return;
    }
    for options in [
        "--rw=write --bs=4k --filesize=4k-1m --nrfiles=20 --file_service_type=sequential",
        "--rw=read --bs=4k --filesize=100k-200k --nrfiles=7 --file_service_type=sequential",
        "--rw=randread --bs=4k --filesize=4k-1m --nrfiles=20",
        "--rw=randwrite --bs=16k --filesize=20k-1m --nrfiles=9 --file_service_type=random",
        "--rw=randwrite --bs=3000 --filesize=16k-1m --nrfiles=9 --random_generator=tausworthe64",
        "--rw=randread --bs=4k --filesize=4k-1m --nrfiles=80 --allrandrepeat=1",
        "--rw=write --bs=4k --filesize=8k-1m",
        "--rw=write --bs=4k --filesize=4k-64k --filename=x:y:z --file_service_type=sequential",
        "--rw=randread --bs=4k --filesize=4k-64k --nrfiles=5 --loops=2",
        "--rw=write --bs=4k --filesize=4k-1m --nrfiles=5 --size=200k --file_service_type=sequential",
    ] {
        for seed in [None, Some(seed())] {
            let folder = tempfile::tempdir().unwrap();
            let seed = seed.map(|seed| format!(" --randseed={seed}")).unwrap_or_default();
            // The numbers of earlier jobs' clones change the draws.
            let earlier =
                "--name=q --numjobs=2 --rw=read --size=4k --create_only=1 --name=a --stonewall";
            let name = if seed.is_empty() { "--name=a" } else { earlier };
            let line = format!("fio {name} --ioengine=psync {options}{seed}");
            let theirs = issued_by_fio(&line, folder.path());
            let mut names: Vec<(usize, u64)> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap())
                // The log has a hidden name, and the earlier job has files of its own.
                .filter(|entry| !matches!(entry.file_name().as_encoded_bytes()[0], b'.' | b'q'))
                .map(|entry| {
                    let name = entry.file_name().into_string().unwrap();
                    let number = name.rsplit('.').next().and_then(|last| last.parse().ok());
                    let letter = || usize::from(name.as_bytes()[0] - b'x');
                    (number.unwrap_or_else(letter), entry.metadata().unwrap().len())
                })
                .collect();
            names.sort_unstable();
            let starts: Vec<u64> = std::iter::once(0)
                .chain(names.iter().scan(0, |sum, (_, bytes)| {
                    *sum += bytes;
                    Some(*sum)
                }))
                .collect();
            let mut theirs: Vec<u64> =
                theirs.into_iter().map(|(_, file, offset, _)| starts[file] + offset).collect();
            let file = parse_command_line(&line, &[], &Process).unwrap();
            let total = file.groups[0][0].spec.active_on(1 << 40).1;
            assert_eq!(total, starts[names.len()], "{line}: total size");
            let mut ours: Vec<u64> =
                issued_by_iodyno(&line, 64 << 20, 7).into_iter().map(|op| op.2).collect();
            if options.contains("rand") {
                theirs.sort_unstable();
                ours.sort_unstable();
            }
            assert_eq!(ours, theirs, "{line}");
        }
    }
}

/// If fio repeats files before all others are complete, each file has the same number of operations, and each
/// operation lies within one file.
#[test]
fn shares_of_files_are_those_of_fio() {
    if !has_fio() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = "fio --name=a --ioengine=psync --bs=4k --rw=randread --filesize=4k-1m --nrfiles=12 --norandommap --size=4m";
    let theirs = issued_by_fio(line, folder.path());
    let bytes = |file: usize| folder.path().join(format!("a.0.{file}")).metadata().unwrap().len();
    let ends: Vec<u64> = (0..12)
        .scan(0, |sum, file| {
            *sum += bytes(file);
            Some(*sum)
        })
        .collect();
    let mut hits = [[0_usize; 12]; 2];
    for (_, file, ..) in &theirs {
        hits[0][*file] += 1;
    }
    let ours = issued_by_iodyno(line, 64 << 20, seed());
    for (.., offset, len) in &ours {
        let file = ends.iter().position(|end| offset < end).unwrap();
        assert!(offset + len <= ends[file], "{offset}: across the end of file {file}");
        hits[1][file] += 1;
    }
    assert_eq!(theirs.len(), ours.len());
    let most = |hits: [usize; 12]| hits.into_iter().max().unwrap() as f64 / ours.len() as f64;
    // A twelfth of about 1000 operations, with five standard deviations.
    assert!((most(hits[0]) - most(hits[1])).abs() < 0.045, "{hits:?}");
}
