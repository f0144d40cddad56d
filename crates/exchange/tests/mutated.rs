//! Mutates command lines of sysbench, diskspd and `amps_bio_perf_test`, and parameter files of vdbench. No text may
//! cause a panic. A converted workload is valid and equal to that of its own text, errors lie within the text, and all
//! groups of jobs are non-empty.
//!
//! `IODYNO_EXCHANGE_MUTATIONS=1500000@2000000` makes 1500000 mutations of each format from number 2000000 on, instead
//! of 1500; `IODYNO_EXCHANGE_MUTATIONS=1@537` only mutation 537; `IODYNO_EXCHANGE_MUTATIONS=1800s` mutations for half
//! an hour of processor time per format. The latest long pass: `bench/runs/2026-11-26-mutations`.

use crate::mutation_budget;

use iodyno_catalog::Problem;
use iodyno_exchange::fio::JobFile;
use iodyno_exchange::{amps, diskspd, sysbench, vdbench};
use iodyno_units::rng::{self, Generator};
use iodyno_workload::Spec;
use mutation_budget::Budget;

/// Default number of mutations of each format.
const SHORT: u64 = 1500;

type Read = fn(&str) -> Result<JobFile, Problem>;

const SYSBENCH: &[&str] = &[
    "sysbench fileio --file-total-size=4G --file-test-mode=rndrw --time=60 --threads=8 run",
    "sysbench fileio --file-num=4 --file-block-size=4K --file-io-mode=async --file-async-backlog=32 --file-extra-flags=direct,dsync --file-test-mode=rndwr --file-fsync-freq=10 --events=1000 run",
    "sysbench fileio --file-merged-requests=4 --file-fsync-all=on --file-fsync-mode=fdatasync --file-test-mode=seqrewr --rate=100 --warmup-time=5 --validate run",
    "sysbench fileio --file-rw-ratio=2.5 --file-test-mode=rndrw --file-fsync-end=off --percentile=99 --rand-seed=1 --histogram run",
    "sysbench --test=fileio --num-threads=2 --max-time=5 --file-test-mode=seqwr --file-io-mode=mmap 'run'",
];

const AMPS: &[&str] = &[
    "amps_bio_perf_test -b 128 -m 512 -r 80 --file_size 4096 -f /data/log",
    "/opt/amps/bin/amps_bio_perf_test --batch_size=16 --message_size=128K --read_mix 99 --file a",
];

const DISKSPD: &[&str] = &[
    "diskspd -b8K -d60 -o32 -t4 -r -w30 -Sh -L target.dat",
    "diskspd.exe -b64K -B1G:512M -t4 -T128M -W0 -Z1M D:\\x.dat",
    "diskspd -rdpct90/10:0/10:5/20 -r4K -g500i -f1G -z -Rxml a b",
    "diskspd -si -s128K -F2 -O4 -c1G -Zr -w100 -Suw x",
];

const VDBENCH: &[&str] = &[
    "sd=sd1,lun=/dev/sdb,size=10g,threads=32,openflags=o_direct\nwd=wd1,sd=sd1,xfersize=(4k,60,8k,40),rdpct=70,seekpct=100\nrd=rd1,wd=wd1,iorate=(100-500,100),elapsed=60,interval=1,warmup=5\n",
    "* comment\nhd=localhost\ncompratio=2\nsd=default,threads=4\nsd=sd1,lun=/a,size=1g,range=(10,90)\nsd=sd2,lun=/b,size=1g,range=(10,90)\nwd=default,sd=sd*\nwd=w1,skew=60,rdpct=100\nwd=w2,seekpct=0\nrd=r,wd=(w1-w2),iorate=1000,forthreads=(1-8,d),forxfersize=(4k,64k),distribution=d\n",
    "validate=yes\nsd=sd1,lun=x,size=1g,align=4096\nwd=wd1,sd=*,seekpct=eof,xf=64k,openflags=(o_sync,o_direct)\nrd=run,wd=wd1,io=max,maxdata=1g,elapsed=1h\n",
];

/// Pieces that a mutation inserts.
const PIECES: &[&str] = &[
    "",
    " ",
    "=",
    ",",
    "(",
    ")",
    "-",
    "--",
    "*",
    "\"",
    "'",
    "\\",
    "\n",
    "/",
    ":",
    "%",
    "$x",
    "é",
    "\u{0}",
    "\u{202e}",
    "0",
    "1",
    "4k",
    "16K",
    "1g",
    "99999999999999999999",
    "18446744073709551615",
    "4294967296",
    "-1",
    "1e308",
    "NaN",
    "inf",
    "0.0000001",
    "default",
    "max",
    "curve",
    "d",
    "run",
    "fileio",
    "rndrw",
    "seqrd",
    "async",
    "mmap",
    "on",
    "off",
    "sd=",
    "wd=",
    "rd=",
    "sd1",
    "wd1",
    "eof",
    "-r",
    "-si",
    "-T1",
    "-t1000000",
    "-Z",
    "-S",
    "--events=0",
    "--time=0",
    "--file-num=1000000000",
    "--file-total-size=9999999T",
    "--file-merged-requests=4294967295",
    "iorate=(1-1000000,1)",
    "(1-18446744073709551615,d)",
    "(128k-512,d)",
    "(100-0,10)",
    "(1,2,4-8,2)",
    "xfersize=(512,1m,512)",
    "forrdpct=(0-100,1),forthreads=(1-100,1)",
];

/// Values that mutations insert and that may be valid.
const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "4",
    "10",
    "50",
    "100",
    "4k",
    "64K",
    "1g",
    "1M",
    "on",
    "off",
    "sync",
    "async",
    "mmap",
    "rndrd",
    "rndwr",
    "rndrw",
    "seqrd",
    "seqwr",
    "seqrewr",
    "direct",
    "dsync",
    "fdatasync",
    "max",
    "random",
    "eof",
    "sd*",
    "wd*",
    "-r",
    "-si",
    "-Sh",
    "-w30",
    "-o8",
    "-t4",
    "-b4K",
    "-d5",
    "-Zr",
    "-r4K",
    "--threads=4",
    "--events=100",
];

fn pick<'a>(random: &mut Generator, list: &[&'a str]) -> &'a str {
    list[rng::below(random, list.len() as u64) as usize]
}

/// A random boundary between two characters.
fn place(random: &mut Generator, text: &str) -> usize {
    let mut at = rng::below(random, text.len() as u64 + 1) as usize;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn mutated(random: &mut Generator, texts: &[&str]) -> String {
    let mut text = pick(random, texts).to_owned();
    for _ in 0..=rng::below(random, 3) {
        let (a, b) = (place(random, &text), place(random, &text));
        let (from, to) = (a.min(b), a.max(b));
        match rng::below(random, 12) {
            0 => text.insert_str(from, pick(random, PIECES)),
            1 => {
                let removed = text[from..].chars().take(8).map(char::len_utf8).sum::<usize>();
                text.replace_range(from..from + removed, "");
            }
            2 => {
                let piece = text[from..to].to_owned();
                text.insert_str(from, &piece);
            }
            3 => {
                // Insert a part of another text.
                let other = pick(random, texts);
                let (c, d) = (place(random, other), place(random, other));
                text.insert_str(from, &other[c.min(d)..c.max(d)]);
            }
            _ => {
                // Replace a word or a value.
                let is_end = |c: char| c.is_whitespace() || ",=()".contains(c);
                let start = text[..from].rfind(is_end).map_or(0, |at| at + 1);
                let end = text[start..].find(is_end).map_or(text.len(), |at| start + at);
                if start > 0 {
                    let list = if rng::below(random, 3) > 0 { VALUES } else { PIECES };
                    text.replace_range(start..end, pick(random, list));
                }
            }
        }
        while !text.is_char_boundary(text.len().min(4000)) {
            text.pop();
        }
        text.truncate(4000);
    }
    text
}

fn check(name: &str, texts: &[&str], read: Read) {
    for text in texts {
        assert!(read(text).is_ok() || name == "diskspd", "{text}");
    }
    let (mut taken, mut refused) = (0_u64, 0_u64);
    for number in Budget::asked("IODYNO_EXCHANGE_MUTATIONS", SHORT).numbers() {
        let mut random = rng::stream(1, name, number);
        let text = mutated(&mut random, texts);
        // On a panic, print the number and the text.
        let judged = std::panic::catch_unwind(|| judge(&text, read));
        let judged = judged.unwrap_or_else(|_| panic!("{name} {number} panics:\n{text}"));
        match judged {
            Ok(true) => taken += 1,
            Ok(false) => refused += 1,
            Err(why) => panic!("{name} {number}: {why}\n{text}"),
        }
    }
    let count = taken + refused;
    println!("{name}: {taken} read, {refused} refused");
    assert!(count < 1000 || taken > count / 50, "{name}: only {taken} of {count} are read");
    assert!(count < 1000 || refused > count / 50, "{name}: only {refused} of {count} are refused");
}

/// Whether a text is accepted. The error describes a wrong result of the parser.
fn judge(text: &str, read: Read) -> Result<bool, String> {
    match read(text) {
        Ok(file) => {
            if file.groups.is_empty() || file.groups.iter().any(Vec::is_empty) {
                return Err("a group has no job".to_owned());
            }
            for job in file.jobs() {
                if Spec::from_toml(&job.toml).as_ref() != Ok(&job.spec) {
                    return Err(format!("not what its text says: {}", job.toml));
                }
                if Spec::from_toml(&job.spec.to_toml()).as_ref() != Ok(&job.spec) {
                    return Err(format!("not what its stored form says: {}", job.toml));
                }
            }
            Ok(true)
        }
        Err(problem) => {
            if problem.to_string().is_empty() || problem.message().is_empty() {
                return Err("it is refused without a word".to_owned());
            }
            Ok(false)
        }
    }
}

#[test]
fn mutated_sysbench_lines() {
    check("sysbench", SYSBENCH, sysbench::parse);
}

#[test]
fn mutated_diskspd_lines() {
    check("diskspd", DISKSPD, diskspd::parse);
}

#[test]
fn mutated_amps_lines() {
    check("amps", AMPS, amps::parse);
}

#[test]
fn mutated_vdbench_files() {
    check("vdbench", VDBENCH, |text| vdbench::parse("t.vdb", text));
}
