//! Untrusted job files and command lines of fio are parsed or refused, in bounded time and memory. A parsed one gives
//! a valid workload whose operations lie in its range.
//!
//! `IODYNO_FIO_MUTATIONS=1000000` makes a million mutations instead of 1500, `IODYNO_FIO_MUTATIONS=1@537` only
//! mutation 537, and `IODYNO_FIO_MUTATIONS=1800s` mutations for half an hour of processor time. The latest long pass:
//! `bench/runs/2026-11-24-fio-mutations`.

use crate::mutation_budget;

use iodyno_exchange::fio::{JobFile, Surroundings, parse, parse_command_line};
use iodyno_units::rng::{self, Generator, RngCore as _, below};
use iodyno_workload::{Geometry, Shared, Spec, Stream};
use mutation_budget::Budget;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Default number of mutations.
const SHORT: u64 = 1500;
/// Maximum memory for parsing one text, bytes.
const LIVE_MAX: u64 = 256 << 20;
/// Parsing time from which on a text counts as a hang. The slowest known text takes 0.1 s in a debug build.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts live bytes and their peak.
struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size() as u64;
        PEAK.fetch_max(LIVE.fetch_add(size, Ordering::Relaxed) + size, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Valid texts that are mutated.
const SEEDS: &[&str] = &[
    "; jobs\n[global]\nioengine=libaio\nsize=1g\nruntime=10\ntime_based\ndirect=1\niodepth=32\n[a]\nrw=randread\nbs=4k\n[b]\nstonewall\nrw=write:8k\nbs=64k\nnumjobs=4\n",
    "[a]\nrw=randrw\nrwmixread=70\nbssplit=512/4:4k/60:8k,64k/100\nblockalign=4k\nsize=100m\nrandom_distribution=zoned_abs:60/10m:40/90m\nrate_iops=100,200\nrate_process=poisson\n",
    "[global]\nfilename=/dev/x\noffset=120k\n[w]\nrw=write:112k\nbs=16k\nverify=crc32c\nverify_backlog=4\noffset_increment=1g\nio_size=512m\nsize=10g\nnumjobs=3\nloops=2\n",
    "[a]\nfilename=x\nfilesize=128m\nrw=read:-8k\nruntime=5\n[b]\nwait_for=a\nrw=randread\nthinktime=100us\nthinktime_blocks=8\niodepth_low=4\niodepth=8\nioengine=io_uring\nexitall\n",
    "[s]\nrw=randwrite\npercentage_random=30\nss=iops_slope:0.3%\nss_dur=30s\nss_ramp=5\nruntime=1h\nsize=20%\nstartdelay=3\nflow=2\nkb_base=1000\nbs=4kib\n",
    "include common.inc\n[z]\nrw=read\nzonemode=strided\nzonesize=1m\nzoneskip=3m\nsize=${SIZE}\nfsync=8\nbuffer_compress_percentage=50\n[n]\nnrfiles=7\nsize=70m\nrw=rw\nrandom_distribution=normal:20\n",
    "[m]\nrw=randrw\nfsync=4\nnumber_ios=100\noffset=25%\nsize=1g\nfilename=x\n[n]\nstonewall\nrw=write\nbsrange=3k-10k\nsize=100m\n[o]\nstonewall\nnrfiles=3\nsize=1m\nbs=64k\n",
    "[global]\nname=all\nverify=md5\nioengine=libaio\n[v]\nname=w\nrw=randwrite\nbs=4k\nsize=8m\nnumjobs=2\niodepth=4\n[d]\nstonewall\nfilename=/dev/x\nsize=10000\noffset=1m\nrw=write\nbs=3k\nloops=2\n",
    "$ SIZE=2g sudo -E fio --name=a --size=${SIZE} --rw=rw --output=x 2>&1 > y | tee z",
    "fio -direct=1 -iodepth 16 -rw randwrite -ioeng libaio -size 1g -group_rep -filename_format=$jobname.$filenum -name a",
    "fio --size=1g --bs=8k, all.fio --section b --unlink 1",
    "fio --ioengine=libaio --size=1g --name='a b' --rw randread --bs=4k --time_based --runtime=5 \\\n --name=b --stonewall --rw=randwrite --random_distribution=pareto:0.2",
];

/// Words that mutations insert.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "999999999999p",
    "1k",
    "3",
    "7",
    "513",
    "1e308",
    "NaN",
    "inf",
    "0x",
    "0xffffffffffffffff",
    "100%",
    "101%",
    "0%",
    "4k",
    "4kib",
    "1m",
    "64k",
    "1t",
    ":",
    "::",
    "/",
    ",",
    ",,",
    "=",
    "==",
    "[",
    "]",
    "[global]",
    "[a]",
    "[]",
    "${SIZE}",
    "${",
    "$ncpus",
    "$pagesize",
    "include common.inc",
    "include loop.inc",
    "\n",
    "\n\n",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "é",
    "\\",
    "\\:",
    "\"",
    "'",
    "--name=x",
    "-rw ",
    "-",
    "all.fio",
    "directory=/d",
    "filename_format=x",
    "filename_format=$jobnum",
    "bs=,4k",
    "invalidate=1",
    "$mb_memory",
    "(1+2)",
    "--",
    "fio ",
    "rw=randread:8",
    "rw=trim",
    "rw=randtrimwrite",
    "bs=0",
    "bsrange=1k-64k",
    "bssplit=4k/50:8k",
    "size=0",
    "numjobs=1024",
    "numjobs=0",
    "nrfiles=65536",
    "filename=a:b:c",
    "filename=a",
    "offset=1p",
    "offset_increment=4k",
    "iodepth=0",
    "iodepth_batch_complete_min=3",
    "stonewall",
    "wait_for=a",
    "wait_for=b",
    "startdelay=1",
    "exitall",
    "exit_what=all",
    "time_based",
    "runtime=0",
    "fill_device=1",
    "io_size=50%",
    "verify=md5",
    "verify=crc32c",
    "do_verify=0",
    "latency_target=500us",
    "latency_percentile=99.9",
    "name=a",
    "filename=/dev/x",
    "size=10000",
    "rw=randwrite",
    "ba=512",
    "ba=3k",
    "zonesize=64k",
    "zonemode=zbd",
    "zonerange=1m",
    "random_distribution=zipf:1.2",
    "random_distribution=zoned:50/5:30/:20/",
    "percentage_random=1",
    "unified_rw_reporting=1",
    "cpus_allowed=0-3",
    "iodpeth=4",
    "thinktime=1",
    "rate=1,2,3",
    "offset=25%",
    "size=50%",
    "bsrange=3k-10k",
    "number_ios=7",
    "fdatasync=1",
    "A=1",
    "sudo ",
    "taskset ",
    "| ",
    "> ",
    "2>&1",
    "&& fio ",
    "$(",
    "`",
    "sync=dsync",
    "group_reporting",
    "\r\n",
    "\t",
    "#",
    ";",
];

/// Files and variables of the test.
struct Fixed;

impl Surroundings for Fixed {
    fn included(&self, path: &Path) -> Result<String, String> {
        match path.file_name().and_then(|name| name.to_str()) {
            Some("common.inc") => Ok("[global]\nbs=16k\n".to_owned()),
            Some("all.fio") => {
                Ok("[global]\nrw=read\n[a]\n[b]\nbs=,16k\ninvalidate=0\n".to_owned())
            }
            Some("loop.inc") => Ok("include loop.inc\ninclude common.inc\n".to_owned()),
            _ => Err("there is no such file".to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "2g".to_owned())
    }
}

/// Text of the mutation with this number.
fn mutated(number: u64) -> String {
    let mut rng = rng::stream(1, "fio mutation", number);
    let pick = |rng: &mut Generator, n: usize| below(rng, n as u64) as usize;
    let mut text: Vec<u8> = SEEDS[pick(&mut rng, SEEDS.len())].into();
    // Few changes are more likely than many.
    let changes = 1 + below(&mut rng, 3) * below(&mut rng, 4);
    for _ in 0..changes {
        let at = pick(&mut rng, text.len() + 1);
        let end = at + pick(&mut rng, (text.len() - at).min(40) + 1);
        match below(&mut rng, 9) {
            0 => drop(text.drain(at..end)),
            1 => {
                let word = WORDS[pick(&mut rng, WORDS.len())];
                drop(text.splice(at..end, word.bytes()));
            }
            2 => {
                // A line of its own.
                let ends: Vec<usize> = (0..text.len()).filter(|&i| text[i] == b'\n').collect();
                let at = ends.get(pick(&mut rng, ends.len().max(1))).map_or(at, |end| end + 1);
                let word = WORDS[pick(&mut rng, WORDS.len())];
                drop(text.splice(at..at, word.bytes().chain(*b"\n")));
            }
            3 => {
                // Another value.
                let marks: Vec<usize> = (0..text.len()).filter(|&i| text[i] == b'=').collect();
                let mark = marks.get(pick(&mut rng, marks.len().max(1))).copied().unwrap_or(at);
                let from = (mark + 1).min(text.len());
                let is_end = |c: &u8| c.is_ascii_whitespace();
                let len = text[from..].iter().position(is_end).unwrap_or(text.len() - from);
                let word = WORDS[pick(&mut rng, WORDS.len())];
                drop(text.splice(from..from + len, word.bytes()));
            }
            4 if at < text.len() => text[at] = rng.next_u64() as u8,
            5 if at < text.len() => text[at] ^= 1 << below(&mut rng, 8),
            6 => {
                let piece = text[at..end].to_vec();
                let to = pick(&mut rng, text.len() + 1);
                drop(text.splice(to..to, piece));
            }
            7 => {
                let other = SEEDS[pick(&mut rng, SEEDS.len())].as_bytes();
                let from = pick(&mut rng, other.len());
                drop(text.splice(at..at, other[from..].iter().copied()));
            }
            8 => {
                // Repeat a piece many times, rarely.
                let times = if below(&mut rng, 50) == 0 { 20_000 } else { 300 };
                let piece = text[at..end].repeat(times / (end - at).max(1));
                drop(text.splice(at..end, piece));
            }
            _ => {}
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Asserts that the workload and its text are valid and equal, and that its operations lie in its range.
fn judge(read: &JobFile) {
    assert!(read.jobs().count() > 0);
    let with_checks = || read.jobs().flat_map(|job| [Some(job), job.check.as_deref()]).flatten();
    for job in with_checks() {
        assert_eq!(Spec::from_toml(&job.toml).as_ref(), Ok(&job.spec), "{}", job.toml);
        assert_eq!(Spec::from_toml(&job.spec.to_toml()).as_ref(), Ok(&job.spec), "{}", job.toml);
    }
    let Some(job) = with_checks().last() else { return };
    let (spec, capacity_bytes) = (&job.spec, 1 << 42);
    let geometry = Geometry { capacity_bytes, align_bytes: 512, workers: spec.threads() };
    let Ok(shared) = Shared::new(spec, 1, &geometry) else { return };
    for worker in [0, spec.threads() - 1] {
        let step_bytes = spec.worker_step_bytes().unwrap_or(0) * u64::from(worker);
        let (start_bytes, end_bytes) = spec.active_on(capacity_bytes);
        let start_bytes = start_bytes + step_bytes;
        let is_moved = !spec.active().ends_with_target();
        let end_bytes = end_bytes + if is_moved { step_bytes } else { 0 };
        let mut stream = Stream::new(&shared, worker);
        for op in (0..50).map(|_| stream.next_op()).filter(|op| op.len_bytes > 0) {
            let op_end_bytes = op.offset_bytes + u64::from(op.len_bytes);
            assert!(
                op.offset_bytes >= start_bytes && op_end_bytes <= end_bytes,
                "{op:?} {}",
                job.toml
            );
            assert_eq!(op.offset_bytes % u64::from(spec.align_bytes()), 0, "{op:?} {}", job.toml);
        }
    }
}

/// Counts of texts that were read and refused.
#[derive(Debug, Default)]
struct Seen {
    texts: u64,
    read: u64,
    jobs: u64,
    longest: Duration,
    most_bytes: u64,
}

#[test]
fn no_text_breaks_the_parser() {
    for seed in SEEDS {
        let read = if seed.starts_with(['[', ';', 'i']) {
            parse("jobs/seed.fio", seed, &Fixed)
        } else {
            parse_command_line(seed, &[], &Fixed)
        };
        judge(&read.unwrap_or_else(|problem| panic!("{seed}\n{problem}")));
    }
    let budget = Budget::asked("IODYNO_FIO_MUTATIONS", SHORT);
    let (mut seen, began) = (Seen::default(), Instant::now());
    for number in budget.numbers() {
        let text = mutated(number);
        PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        let (before, start) = (LIVE.load(Ordering::Relaxed), Instant::now());
        let one = std::panic::catch_unwind(|| {
            let file = parse("jobs/test.fio", &text, &Fixed);
            let line = parse_command_line(&text, &[], &Fixed);
            let mut jobs = (0, 0);
            for read in [file, line] {
                match read {
                    Ok(read) => {
                        judge(&read);
                        jobs = (jobs.0 + 1, jobs.1 + read.jobs().count() as u64);
                    }
                    Err(problem) => {
                        assert!(!problem.to_string().is_empty());
                    }
                }
            }
            jobs
        });
        let took = start.elapsed();
        let bytes = PEAK.load(Ordering::Relaxed).saturating_sub(before);
        let text: String = text.chars().take(2000).collect();
        let Ok((read, jobs)) = one else { panic!("mutation {number}:\n{text}") };
        assert!(took < PATIENCE, "mutation {number} took {took:?}:\n{text}");
        assert!(bytes < LIVE_MAX, "mutation {number} took {bytes} bytes:\n{text}");
        seen.texts += 1;
        seen.read += read;
        seen.jobs += jobs;
        seen.longest = seen.longest.max(took);
        seen.most_bytes = seen.most_bytes.max(bytes);
    }
    println!("{seen:?}, {:?} in all", began.elapsed());
    assert!(
        seen.texts < SHORT || seen.read * 20 > seen.texts,
        "{seen:?}: mutations leave nothing to read"
    );
}
