//! Job files of fio: the workload for each option, and the texts of errors. No text may cause a panic.

use iodyno_exchange::fio::{Job, JobFile, Surroundings, parse, parse_command_line, parse_sections};
use iodyno_units::OpKind;
use iodyno_workload::{
    ArrivalKind, Batches, Content, DropCache, NewFile, Pattern, Percent, Process, Spec, Steady,
    SteadyFigure,
};
use proptest::prelude::*;
use std::path::Path;

/// Files and variables of the tests.
struct Fixed;

impl Surroundings for Fixed {
    fn included(&self, path: &Path) -> Result<String, String> {
        match path.to_str() {
            Some("jobs/common.inc") => Ok("[global]\nbs=16k\n".to_owned()),
            Some("jobs/loop.inc") => Ok("include loop.inc\n".to_owned()),
            Some("all.fio") => Ok("[global]\nrw=read\n[a]\n[b]\nstonewall\nsize=2g\n".to_owned()),
            Some("stray.fio") => Ok("rw=read\n[a]\nsize=1g\n".to_owned()),
            _ => Err("there is no such file".to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "2g".to_owned())
    }
}

fn file(text: &str) -> JobFile {
    parse("jobs/test.fio", text, &Fixed).unwrap_or_else(|problem| panic!("{text}\n{problem}"))
}

fn refusal(text: &str) -> String {
    match parse("jobs/test.fio", text, &Fixed) {
        Ok(_) => panic!("is read: {text}"),
        Err(problem) => problem.to_string(),
    }
}

/// The only job of a file.
fn job_of(text: &str) -> Job {
    let mut file = file(text);
    assert_eq!(file.jobs().count(), 1);
    file.groups.remove(0).remove(0)
}

/// A job of ten seconds with these lines.
fn job(lines: &str) -> Job {
    let text = format!("[job]\nruntime=10\ntime_based\n{lines}\n");
    file(&text).groups.remove(0).remove(0)
}

fn spec(lines: &str) -> Spec {
    job(lines).spec
}

/// Asserts that a job with these lines becomes the workload `toml`, except for its `about` line.
fn is_workload(lines: &str, toml: &str) {
    let mine = spec(lines).with_new_file(NewFile::Written).unwrap();
    let toml = format!("schema = 1\nabout = \"{}\"\n{toml}", mine.about());
    let theirs = Spec::from_toml(&toml).unwrap_or_else(|e| panic!("{toml}\n{e:?}"));
    assert_eq!(mine, theirs, "{lines}\n{}\n{}", mine.to_toml(), theirs.to_toml());
}

/// The last lines of the workload of a job of ten seconds.
const TIME: &str = "[limits]\nramp = \"0s\"\ntime = \"10s\"";

/// A write-only job gets a new file with allocated but unwritten space, as in fio, unless an option says otherwise.
#[test]
fn new_files_are_as_fio_leaves_them() {
    for (lines, expected) in [
        ("rw=write\nsize=1g", NewFile::Allocated),
        ("rw=randwrite\nsize=1g\nfdatasync=1", NewFile::Allocated),
        ("rw=write\nsize=1g\nfallocate=none", NewFile::Empty),
        ("rw=write\nsize=1g\noverwrite=1", NewFile::Written),
        ("rw=write\nsize=1g\nverify=md5", NewFile::Written),
        ("rw=randrw\nsize=1g", NewFile::Written),
        ("rw=write\nsize=1g\nfilename=/dev/x", NewFile::Written),
    ] {
        assert_eq!(spec(lines).new_file(), expected, "{lines}");
    }
}

/// Each supported option has fio's meaning.
#[test]
fn options_mean_what_fio_means() {
    let uniform = "[all]\naddresses = { pattern = \"uniform\", once_per_pass = true }\n";
    for (lines, toml) in [
        ("rw=read\nsize=1g", "active = \"0B..1GiB\"\nmix = { read = 1 }\n[all]\naddresses = \"sequential\"\n".to_owned()),
        ("rw=write\nbs=1m\nfdatasync=8\noffset=1g\nsize=1g", "block = \"1MiB\"\nactive = \"1GiB..2GiB\"\nmix = { write = 1 }\n[all]\naddresses = \"sequential\"\n[write]\nflush_every = 8\n".to_owned()),
        ("rw=randread\nbs=8k\nsize=50%\nioengine=io_uring\niodepth=32\nnumjobs=4\nfilename=/dev/x", format!("threads = 4\ndepth = 32\nblock = \"8KiB\"\nactive = \"0%..50%\"\nmix = {{ read = 1 }}\n{uniform}")),
        ("rw=randread\nsize=1g\nnumjobs=4", format!("threads = 4\nactive = \"0B..4GiB\"\nmix = {{ read = 1 }}\n{uniform}")),
        ("rw=randwrite\nsize=1g\nsync=1\nnorandommap", "active = \"0B..1GiB\"\nmix = { write = 1 }\n[write]\nfua = \"100%\"\n".to_owned()),
        ("rw=randrw\nrwmixread=70\nsize=1g", format!("active = \"0B..1GiB\"\nmix = {{ read = 70, write = 30 }}\n{uniform}")),
        ("rw=randrw\nrwmixread=70\nrwmixwrite=40\nsize=1g", format!("active = \"0B..1GiB\"\nmix = {{ read = 60, write = 40 }}\n{uniform}")),
        ("rw=randrw\nbs=4k,8k\nsize=1g", "active = \"0B..1GiB\"\nmix = { read = 50, write = 50 }\n[read]\nblock = \"4KiB\"\n[write]\nblock = \"8KiB\"\n".to_owned()),
        ("rw=randread\nbssplit=4k/10:64k/50:32k\nsize=1g", "block = [{ size = \"4KiB\", share = 10 }, { size = \"64KiB\", share = 50 }, { size = \"32KiB\", share = 40 }]\nactive = \"0B..1GiB\"\nmix = { read = 1 }\n".to_owned()),
        ("rw=randread\nbsrange=3k-10k\nsize=1g", "block = [{ size = \"3KiB\", share = 3 }, { size = \"6KiB\", share = 3 }, { size = \"9KiB\", share = 3 }, { size = \"10KiB\", share = 1 }]\nactive = \"0B..1GiB\"\nmix = { read = 1 }\n".to_owned()),
        ("rw=randread\nbsrange=4k-8k\nsize=1g", "block = [{ size = \"4KiB\", share = 1 }, { size = \"8KiB\", share = 1 }]\nactive = \"0B..1GiB\"\nmix = { read = 1 }\n".to_owned()),
        ("rw=write\nbsrange=4k-8k\nsize=1g", "block = [{ size = \"4KiB\", share = 1 }, { size = \"8KiB\", share = 1 }]\nactive = \"0B..1GiB\"\nmix = { write = 1 }\n[all]\naddresses = { pattern = \"sequential\", to_end = true }\n".to_owned()),
        ("rw=write\nsize=1g\nend_fsync=1", "active = \"0B..1GiB\"\nmix = { write = 1 }\n[all]\naddresses = \"sequential\"\n[write]\nflush_at_end = 1\n".to_owned()),
        ("rw=write\nbs=64k\nsize=1g\nzonemode=zbd\nzonesize=1m\nsqthread_poll", "block = \"64KiB\"\nactive = \"0B..1GiB\"\nmix = { write = 1 }\n[all]\naddresses = \"sequential\"\n".to_owned()),
        ("rw=randread\nsize=1g\nend_fsync=1\nfilename=x", format!("active = \"0B..1GiB\"\nmix = {{ read = 1 }}\n{uniform}")),
        ("rw=randrw\nsize=1g\nfsync=4\nwrite_barrier=8", format!("active = \"0B..1GiB\"\nmix = {{ read = 50, write = 50 }}\n{uniform}[write]\nflush_every = 4\nflush_again = true\n")),
        ("rw=randwrite\nsize=1g\nioengine=libaio\niodepth=16\nfsync=8", format!("depth = 16\nactive = \"0B..1GiB\"\nmix = {{ write = 1 }}\n{uniform}[write]\nflush_every = 8\nflush_waits = true\n")),
        ("rw=randwrite\nsize=1g\nioengine=io_uring\niodepth=16\nfsync=8", format!("depth = 16\nactive = \"0B..1GiB\"\nmix = {{ write = 1 }}\n{uniform}[write]\nflush_every = 8\n")),
        ("rw=randtrim\nbs=1m\nsize=1g", format!("block = \"1MiB\"\nactive = \"0B..1GiB\"\nmix = {{ trim = 1 }}\n{uniform}")),
        ("rw=rw\nsize=1g", "active = \"0B..1GiB\"\nmix = { read = 50, write = 50 }\n[read]\naddresses = \"sequential\"\n[write]\naddresses = \"sequential\"\n".to_owned()),
        ("rw=randread:8\nsize=1g", "active = \"0B..1GiB\"\nmix = { read = 1 }\n[all]\naddresses = { pattern = \"sequential\", run = 8 }\n".to_owned()),
        ("rw=randread\nrandom_distribution=zipf:1.2\nsize=1g", "active = \"0B..1GiB\"\nmix = { read = 1 }\n[all]\naddresses = { pattern = \"zipf\", theta = 1.2 }\n".to_owned()),
        ("rw=randread\nrandom_distribution=zoned:80/20:20/80\nsize=1g", "active = \"0B..1GiB\"\nmix = { read = 1 }\n[all]\naddresses = { pattern = \"hot-spots\", spots = [{ share = 80, range = \"20%\" }, { share = 20, range = \"80%\" }] }\n".to_owned()),
        ("rw=write\nsize=1g\nzero_buffers", "active = \"0B..1GiB\"\nmix = { write = 1 }\n[all]\naddresses = \"sequential\"\n[content]\nkind = \"zeroes\"\n".to_owned()),
        ("rw=write\nsize=1g\nbuffer_compress_percentage=50\ndedupe_percentage=10", "active = \"0B..1GiB\"\nmix = { write = 1 }\n[all]\naddresses = \"sequential\"\n[content]\nkind = \"compressible\"\ncompressible = \"50%\"\ndedupable = \"10%\"\n".to_owned()),
    ] {
        is_workload(lines, &format!("{toml}{TIME}"));
    }
    assert_eq!(spec("rw=write\nsize=1g\nverify=crc32c").content(), Content::Verifiable);
}

/// Address orders and distributions that are specific to fio.
#[test]
fn addresses_go_as_in_fio() {
    let all = |addresses: &str| format!("[all]\naddresses = {addresses}\n");
    let reads = "mix = { read = 1 }\n";
    let gib = "active = \"0B..1GiB\"\n";
    for (lines, toml) in [
        (
            "rw=read:8k\nsize=1g",
            format!(
                "{gib}{reads}{}",
                all("{ pattern = \"sequential\", run = 1, skip = \"8KiB\" }")
            ),
        ),
        (
            // Laps repeat: the range has as many addresses as a multiple of the stride.
            "rw=read:-16k\nsize=1g",
            format!(
                "active = \"0B..1048572KiB\"\n{reads}{}",
                all(
                    "{ pattern = \"strided\", stride = \"12KiB\", start = \"1048568KiB\", backward = true }"
                )
            ),
        ),
        (
            "rw=read\nsize=1g\nzonemode=strided\nzonesize=1m\nzoneskip=3m",
            format!(
                "{gib}{reads}{}",
                all("{ pattern = \"sequential\", run = 256, skip = \"3MiB\" }")
            ),
        ),
        (
            "rw=read\nsize=1g\nzonemode=strided\nzonesize=1m\nzonerange=4m\nzoneskip=4m",
            format!(
                "{gib}{reads}{}",
                all("{ pattern = \"sequential\", run = 256, skip = \"7MiB\" }")
            ),
        ),
        (
            "rw=randread\nsize=1g\nrandom_distribution=pareto:0.2",
            format!("{gib}{reads}{}", all("{ pattern = \"pareto\", h = 0.2 }")),
        ),
        (
            "rw=randread\nsize=1g\nrandom_distribution=normal:12.5",
            format!("{gib}{reads}{}", all("{ pattern = \"normal\", deviation = \"12.5%\" }")),
        ),
        (
            "rw=randread\nsize=1g\nrandom_distribution=zoned_abs:60/256m:40/768m",
            format!(
                "{gib}{reads}{}",
                all(
                    "{ pattern = \"hot-spots\", spots = [{ share = 60, range = \"25%\" }, { share = 40, range = \"75%\" }] }"
                )
            ),
        ),
        (
            "rw=randread\nsize=1g\nrandom_distribution=zoned:50/5:30/15:20/",
            format!(
                "{gib}{reads}{}",
                all(
                    "{ pattern = \"hot-spots\", spots = [{ share = 50, range = \"5%\" }, { share = 30, range = \"15%\" }, { share = 20, range = \"80%\" }] }"
                )
            ),
        ),
        (
            "rw=randread\nsize=1g\nrandom_distribution=zoned:100/50",
            format!(
                "{gib}{reads}{}",
                all(
                    "{ pattern = \"hot-spots\", spots = [{ share = 100, range = \"50%\" }, { share = 0, range = \"50%\" }] }"
                )
            ),
        ),
        (
            "rw=randread\nsize=1g\npercentage_random=30",
            format!("{gib}{reads}{}", all("{ pattern = \"sequential\", jump = \"30%\" }")),
        ),
        (
            "rw=randread\nsize=1g\npercentage_random=0",
            format!("{gib}{reads}{}", all("\"sequential\"")),
        ),
        (
            "rw=randread\nsize=1g\nbssplit=512/4:4k/96\nblockalign=4k",
            format!(
                "block = [{{ size = \"512B\", share = 4 }}, {{ size = \"4KiB\", share = 96 }}]\naddress_align = \"4KiB\"\n{gib}{reads}"
            ),
        ),
        (
            "rw=randread\nsize=1g\nbs=8k\nblockalign=512",
            format!("block = \"8KiB\"\nalign = \"512B\"\n{gib}{reads}"),
        ),
        (
            "rw=read\nsize=1g\noffset=12k\nbs=8k",
            format!(
                "block = \"8KiB\"\nalign = \"4KiB\"\nactive = \"12KiB..1048588KiB\"\n{reads}{}",
                all("\"sequential\"")
            ),
        ),
    ] {
        is_workload(lines, &format!("{toml}{TIME}"));
    }
}

/// Clones and files have the same places as in fio, side by side on the target.
#[test]
fn clones_and_files_have_their_places() {
    let of = |lines: &str| {
        let spec = spec(&format!("rw=read\n{lines}"));
        (spec.active().to_string(), spec.worker_step_bytes())
    };
    let place = |active: &str, step| (active.to_owned(), step);
    // Each clone walks a shared file by itself, or begins where the job says.
    assert_eq!(of("size=1g\nnumjobs=4\nfilename=a"), place("0B..1GiB", Some(0)));
    assert_eq!(of("size=1g\nnumjobs=4\nfilename=a\noffset_increment=1g"), place("0B..4GiB", None));
    assert_eq!(
        of("size=1g\nnumjobs=4\nfilename=a\noffset_increment=2g"),
        place("0B..1GiB", Some(2 << 30))
    );
    assert_eq!(of("numjobs=4\nfilename=a\noffset_increment=2g"), place("0B..100%", Some(2 << 30)));
    assert_eq!(of("size=1g\nnumjobs=4"), place("0B..4GiB", None));
    // Uneven distributions apply to the file of each clone separately.
    let hot = "size=1g\nnumjobs=4\nrw=randread\nrandom_distribution=zipf:1.1";
    assert_eq!(of(hot), place("0B..1GiB", Some(1 << 30)));
    // An offset in percent with a size in bytes, and vice versa; space after the last whole block of a file is unused.
    assert_eq!(of("size=1g\noffset=25%\nfilename=a"), place("25%..+1GiB", None));
    assert_eq!(of("size=50%\noffset=1g\nfilename=a"), place("1GiB..+50%", None));
    assert_eq!(of("size=1m\nnrfiles=3\nbs=64k"), place("0B..960KiB", None));
    // Several files of a job take one block each in turn.
    let several = |lines: &str| spec(lines).addresses(OpKind::Read)[0].pattern.clone();
    let three = Pattern::Streams { streams: 3 };
    assert_eq!(several("rw=read\nsize=3g\nfilename=a:b:c"), three);
    assert_eq!(several("rw=read\nsize=3g\nnrfiles=3\ndirectory=/tmp"), three);
    let one_by_one = "rw=read\nsize=3g\nnrfiles=3\nfile_service_type=sequential";
    assert_eq!(several(one_by_one), Pattern::Sequential { shared: false, run: None });
    // Jobs at the same time: each file has its place, and keeps it in later groups.
    let text = "[global]\nruntime=1\ntime_based\n[a]\nsize=3m\n[b]\nfilename=x\nsize=2m\n[c]\nfilename=x\n\
                offset=1m\nsize=1m\n[d]\nsize=1m\nnumjobs=2\n[e]\nstonewall\nfilename=x\nsize=2m\n";
    let places: Vec<String> = file(text).jobs().map(|j| j.spec.active().to_string()).collect();
    assert_eq!(places, ["0B..3MiB", "3MiB..5MiB", "4MiB..5MiB", "5MiB..7MiB", "3MiB..5MiB"]);
    let places = |text: &str| -> Vec<String> {
        file(text).jobs().map(|job| job.spec.active().to_string()).collect()
    };
    // Files without sizes get equal parts; a file that is used again keeps its part.
    let text = "[global]\nruntime=1\ntime_based\n[a]\nfilename=a\n[b]\nfilename=b\nsize=50%\n\
                [c]\nfilename=c\n[d]\nstonewall\nfilename=b\n";
    let expected =
        ["0%..33.3333333%", "33.3333333%..50%", "66.6666667%..100%", "33.3333333%..66.6666667%"];
    assert_eq!(places(text), expected);
    // A device is a separate target, whatever the other jobs and their sizes.
    let text = "[a]\nfilename=/dev/a\nsize=100%\n[b]\nfilename=/dev/b\n[c]\nsize=1g\n[d]\nfilename=/dev/b\nsize=1g\noffset=2g\n";
    assert_eq!(places(text), ["0%..100%", "0B..100%", "0B..1GiB", "2GiB..3GiB"]);
    // A file keeps its start, even if a later job uses more of it or begins further in.
    let again = "[w]\nfilename=x\nsize=1m\n[r]\nstonewall\nfilename=x\nsize=2m\n[s]\nstonewall\nfilename=x\noffset=16m\nsize=2m\n";
    assert_eq!(places(again), ["0B..1MiB", "0B..2MiB", "16MiB..18MiB"]);
    // A file keeps its content between its first and last job, so other files lie elsewhere.
    let kept = "[w]\nfilename=x\nsize=1m\n[o]\nstonewall\nsize=3m\n[r]\nstonewall\nfilename=x\nsize=1m\n[p]\nstonewall\nsize=5m\n";
    assert_eq!(places(kept), ["0B..1MiB", "1MiB..4MiB", "0B..1MiB", "0B..5MiB"]);
    // A file size that an earlier job defines holds for later jobs, which may use the file's default name.
    let known = "[w]\nsize=8m\n[r]\nstonewall\nfilename=w.0.0\n[s]\nstonewall\nfilename=w.0.0\nsize=50%\noffset=25%\n";
    assert_eq!(places(known), ["0B..8MiB", "0B..8MiB", "2MiB..6MiB"]);
}

/// Warnings about several jobs, ramps, names and skewed addresses, each with its numbers.
#[test]
fn traps_name_their_figures() {
    let of = |text: &str| -> Vec<String> {
        file(text).jobs().flat_map(|job| &job.traps).map(|trap| trap.words.clone()).collect()
    };
    let has = |text: &str, words: &[&str]| {
        let all = of(text);
        let is_there = |trap: &String| words.iter().all(|words| trap.contains(words));
        assert!(all.iter().any(is_there), "{text}: {words:?} in {all:?}");
    };
    let four = "[global]\nsize=1g\nfilename=x\n[a]\n[b]\n[c]\n[d]\n";
    has(four, &["`a`, `b` and 2 more", "at the same time", "stonewall"]);
    for alone in [
        "[a]\nsize=1g\n[b]\nstonewall\nsize=1g\n",
        "[a]\nflow=1\nsize=1g\n[b]\nflow=2\nsize=1g\n",
        "[a]\ncreate_only=1\nsize=1g\n[b]\nsize=1g\n",
    ] {
        assert!(!of(alone).iter().any(|trap| trap.contains("at the same time")), "{alone}");
    }
    has("[a]\nfilename=/dev/a\n[b]\nfilename=/dev/b\n", &["2 devices", "--on /dev/a --on /dev/b"]);
    has("[a]\nsize=1g\nruntime=10\nramp_time=30\n", &["most of the job", "30s", "10s"]);
    has("[a]\nsize=1g\nfilename=sdb\n", &["`sdb` for a file", "/dev/sdb"]);
    has("[a]\nsize=1g\nfilename=/dev/shm/x\n", &["in memory"]);
    has(
        "[a]\nrw=randread\nsize=1g\nrandom_distribution=zipf:1.2\n",
        &["half of the operations go to 13 of 262144 blocks (52 KiB)"],
    );
    has(
        "[a]\nrw=randread\nsize=1g\nrandom_distribution=pareto:0.2\n",
        &["to 1768 of 262144 blocks", "9 of 10 to 122606"],
    );
    let even = of("[a]\nrw=randread\nsize=1g\nrandom_distribution=zipf:0.5\n");
    assert!(!even.iter().any(|trap| trap.contains("half")), "{even:?}");
}

/// A job that only creates files is omitted, but its file sizes apply to other jobs.
#[test]
fn jobs_that_make_files_issue_nothing() {
    let read = file(
        "[make]\ncreate_only=1\nsize=16m\nfilename=x\n[r]\nstonewall\nrw=randread\nfilename=x\n",
    );
    let names: Vec<&str> = read.jobs().map(|job| job.name.as_str()).collect();
    assert_eq!((names.as_slice(), read.groups.len()), (["r"].as_slice(), 1));
    assert_eq!(read.groups[0][0].spec.active().to_string(), "0B..16MiB");
    assert!(read.groups[0][0].notes[0].words.contains("create_only"));
}

/// Random percentages by kind of operation.
#[test]
fn shares_of_random_operations_go_by_kind() {
    let of = |lines: &str| {
        let spec = spec(&format!("rw=randrw\nsize=1g\n{lines}"));
        [OpKind::Read, OpKind::Write].map(|kind| spec.addresses(kind)[0].pattern.clone())
    };
    let jumps = |share: f64| Pattern::Jumps { share: Percent::from_fraction(share) };
    assert_eq!(of("percentage_random=44,18"), [jumps(0.44), jumps(0.18)]);
    let sequential = Pattern::Sequential { shared: false, run: None };
    let uniform = |once_per_pass| Pattern::Uniform { once_per_pass };
    assert_eq!(of("percentage_random=100,0"), [uniform(true), sequential.clone()]);
    let zipf = "percentage_random=0,100\nrandom_distribution=zipf:1.2\nnorandommap";
    assert_eq!(of(zipf), [sequential, Pattern::Zipf { theta: 1.2 }]);
    assert_eq!(of("percentage_random=100,100\nnorandommap"), [uniform(false), uniform(false)]);
}

/// Think times, batches and flows of a closed loop.
#[test]
fn slots_are_used_again_as_in_fio() {
    let of = |lines: &str| {
        spec(&format!("rw=randread\nsize=1g\nioengine=libaio\niodepth=16\n{lines}")).batches()
    };
    let none = Batches::default();
    assert_eq!(of("iodepth_low=4"), Batches { refill_at: Some(4), ..none });
    assert_eq!(of("iodepth_batch_complete_min=10"), Batches { refill_at: Some(6), ..none });
    // Reap ten at a time until at most four are in flight.
    let both = "iodepth_batch_complete_min=10\niodepth_low=4";
    assert_eq!(of(both), Batches { refill_at: Some(0), ..none });
    assert_eq!(of("iodepth_batch_complete=16"), Batches { refill_at: Some(0), ..none });
    assert_eq!(of("thinktime=100"), Batches { think_after: Some(1), ..none });
    assert_eq!(of("thinktime=100\nthinktime_blocks=8"), Batches { think_after: Some(8), ..none });
    assert_eq!(of("flow=3"), Batches { flow: Some(3), ..none });
    let together =
        |lines: &str| spec(&format!("rw=randread\nsize=1g\niodepth=16\n{lines}")).submit_batch();
    assert_eq!(together("ioengine=libaio"), None, "by the rate");
    assert_eq!(together("ioengine=libaio\niodepth_batch=8"), Some(8));
    assert_eq!(together("ioengine=libaio\niodepth_batch_submit=0"), Some(16), "all");
    assert_eq!(together("ioengine=libaio\niodepth_batch=99"), Some(16));
    assert_eq!(together("ioengine=psync\niodepth_batch=8"), None);
}

/// Start delays, waits and ends of jobs at the same time.
#[test]
fn jobs_of_a_group_have_times_of_their_own() {
    let text = "[a]\nsize=1g\n[b]\nsize=1g\nruntime=5\ntime_based\nstartdelay=3\n[c]\nwait_for=b\nsize=1g\nexitall\n\
                [d]\nstonewall\nsize=1g\n[e]\nwait_for=d\nsize=1g\n";
    let read = file(text);
    let sizes: Vec<usize> = read.groups.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 1, 1], "a chain is groups, one after the other");
    let limits: Vec<_> = read.groups[0].iter().map(|job| job.spec.limits()).collect();
    let second = 1_000_000_000;
    assert_eq!((limits[0].bytes, limits[0].start_after_ns), (Some(1 << 30), 0));
    assert_eq!((limits[1].time_ns, limits[1].start_after_ns), (Some(5 * second), 3 * second));
    assert_eq!(limits[2].start_after_ns, 8 * second);
    // `exitall` in any section applies to all jobs.
    assert!(read.jobs().all(|job| job.spec.limits().ends_others));
    let passes = |lines: &str| file(&format!("[job]\n{lines}\n")).groups[0][0].spec.limits().passes;
    assert_eq!(passes("filename=/dev/x"), Some(1.0));
    assert_eq!(passes("filename=/dev/x\nnumjobs=2\nloops=3\nsize=50%"), Some(6.0));
    assert_eq!(passes("filename=/dev/x\nio_size=20%"), Some(0.2));
    // A walk with holes begins again if only a hole extends beyond the end.
    assert_eq!(passes("filename=/dev/x\nrw=rw:4k"), Some(1.0));
    assert_eq!(passes("filename=/dev/x\nrw=read:12k\noffset=1m"), Some(0.25));
    assert_eq!(passes("filename=/dev/x\nrw=rw:12k\noffset=1m"), Some(0.5));
    assert_eq!(passes("rw=write\nfill_device=1"), Some(1.0));
    let steady = spec("size=1g\nss=bw_slope:0.5%\nss_dur=30s\nss_ramp=10").limits().steady;
    let expected = Steady {
        figure: SteadyFigure::Bandwidth,
        by_slope: true,
        within: Percent::from_fraction(0.005),
        window_ns: 30 * second,
        after_ns: 10 * second,
    };
    assert_eq!(steady, Some(expected));
    let backlog = spec("rw=write\nsize=1g\nverify=md5\nverify_backlog=8");
    assert_eq!(backlog.read_back(), 8);
}

/// A flag of the run replaces the option, and an unset variable is refused only where it is used.
#[test]
fn flags_and_sections_decide_what_is_read() {
    struct Polls;
    impl Surroundings for Polls {
        fn included(&self, path: &Path) -> Result<String, String> {
            Fixed.included(path)
        }
        fn variable(&self, name: &str) -> Option<String> {
            Fixed.variable(name)
        }
        fn gives(&self, flag: &str) -> bool {
            flag == "poll"
        }
    }
    let text = "[a]\nhipri\nsize=1g\n[b]\nsize=${NOPE}\n";
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        parse_sections("jobs/test.fio", text, &names, &Polls)
    };
    let read = of(&["a"]).unwrap();
    assert!(read.groups[0][0].notes[0].words.contains("--poll"), "{:?}", read.groups[0][0].notes);
    assert!(of(&[]).unwrap_err().to_string().contains("NOPE"));
    assert!(of(&["c"]).unwrap_err().to_string().contains("a, b"));
    assert!(refusal(text).contains("--poll"));
}

/// A command line gives the same workload as the equivalent job file.
#[test]
fn a_command_line_is_a_job_file() {
    let line = "fio --ioengine=libaio --direct=1 --time_based --runtime 10 --output=x.json --output-format=json \\\n \
                --name=a --rw randread --size='1g' --name=b --stonewall --rw=write --size=2g";
    let text = "[global]\nioengine=libaio\ndirect=1\ntime_based\nruntime=10\n[a]\nrw=randread\nsize=1g\n\
                [b]\nstonewall\nrw=write\nsize=2g\n";
    let (mine, theirs) = (parse_command_line(line, &[], &Fixed).unwrap(), file(text));
    let without_about = |file: &JobFile| -> Vec<Vec<String>> {
        let toml = |job: &Job| job.toml.lines().filter(|l| !l.starts_with("about")).collect();
        file.groups.iter().map(|group| group.iter().map(toml).collect()).collect()
    };
    assert_eq!(without_about(&mine), without_about(&theirs));
    let only = parse_command_line(&format!("{line} --section=b"), &[], &Fixed).unwrap();
    assert_eq!(only.jobs().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["b"]);
    // A pasted line: its variables apply, and the shell syntax around the command is noted.
    let pasted = format!(
        "$ HALF=512m SIZE=1g sudo -E {} > out 2>&1 | tee x",
        line.replace("'1g'", "${SIZE}")
    );
    let pasted = parse_command_line(&pasted, &[], &Fixed).unwrap();
    assert_eq!(without_about(&pasted), without_about(&theirs));
    let notes: Vec<&str> =
        pasted.groups[0][0].notes.iter().map(|note| note.words.as_str()).collect();
    for words in
        ["`HALF` is set", "`sudo` is left out", "not redirected", "follows `|`", "`--output`"]
    {
        assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:?}");
    }
    let of = |line: &str| parse_command_line(line, &[], &Fixed).unwrap_err().to_string();
    let all: Vec<String> = [
        "taskset -c 0-3 fio a.fio",
        "fio --name=a --size=1g && fio b.fio",
        "fio --name=a --size=1g --numjobs=$(nproc)",
        "fio --rw=read",
        "fio --name=a --iodpeth=4",
        "fio 'a.fio",
        "fio a.fio --size=1g",
        "fio all.fio b.fio",
        "fio all.fio --name=c --size=1g",
        "fio --size=1g stray.fio",
        "fio --name=a --client=host",
        "fio --name=a --size=1g --ioengine=rdma",
    ]
    .into_iter()
    .map(of)
    .collect();
    insta::assert_snapshot!("command_lines", all.join("\n\n"));
}

/// Words are parsed as by fio's `getopt_long_only`: an option has one dash or two, its value may be the next word, and
/// its name may be abbreviated. Options on the line of a job file apply to all its jobs, unless these override them.
#[test]
fn the_words_of_a_line_are_taken_as_by_fio() {
    let tomls = |file: JobFile| -> Vec<String> {
        let body = |job: &Job| job.toml.lines().skip(2).collect::<Vec<_>>().join("\n");
        file.jobs().map(body).collect()
    };
    let of = |line: &str| tomls(parse_command_line(line, &[], &Fixed).unwrap());
    let text = "[a]\ndirect=1\niodepth=16\nrw=randwrite\nioengine=libaio\nbs=8k\nsize=1g\nnumjobs=2\nruntime=10\n\
                group_reporting\nfilename=/dev/x\ngtod_reduce=1\ncreate_on_open=1\n";
    for line in [
        "fio -direct=1 -iodepth=16 -rw=randwrite -ioengine=libaio -bs=8k -size=1G -numjobs=2 -runtime=10 -group_reporting \
         -filename=/dev/x -gtod_reduce=1 -create_on_open=1 -name=a",
        "fio -name a -direct 1 -iodepth 16 -readwrite randwrite -ioeng libaio -blocksize=8k -size 1g -numj 2 -runtime 10 \
         --group_rep --filename /dev/x --gtod_reduce 1 --create_on_open 1 -output x -eta never",
    ] {
        assert_eq!(of(line), tomls(file(text)), "{line}");
    }
    let text = "[global]\nbs=64k\nsize=1g\nrw=read\n[a]\n[b]\nstonewall\nsize=2g\n";
    for line in ["fio -bs=64k -size=1g all.fio", "fio all.fio --bs=64k --size 1g --rw=write"] {
        assert_eq!(of(line), tomls(file(text)), "{line}");
    }
    assert_eq!(of("fio --size=1g all.fio --section=b").len(), 1);
    // `--readonly` allows jobs that read, and refuses jobs that write.
    assert_eq!(of("fio --readonly --size=1g all.fio").len(), 2);
    let writes = parse_command_line("fio --name=a --size=1g --rw=randrw --readonly", &[], &Fixed);
    assert!(
        writes.unwrap_err().to_string().contains("`a` writes, which fio's `--readonly` forbids")
    );
}

/// Values by kind extend those of `[global]`; a rate of 0 is no limit; distributions have fio's own parameters.
#[test]
fn what_is_left_out_is_as_in_fio() {
    let body =
        |text: &str| -> String { job_of(text).toml.lines().skip(2).collect::<Vec<_>>().join("\n") };
    let is_same = |a: &str, b: &str| assert_eq!(body(a), body(b), "{a}\n{b}");
    is_same(
        "[global]\nbs=8k\nrate_iops=100,200\n[a]\nrw=randrw\nsize=1g\nbs=,16k\nrate_iops=,300",
        "[a]\nrw=randrw\nsize=1g\nbs=8k,16k\nrate_iops=100,300",
    );
    is_same("[a]\nrw=read\nsize=1g\nrate=0\nrate_iops=0", "[a]\nrw=read\nsize=1g");
    is_same("[a]\nrw=read\nsize=1g\nrate=0\nrate_iops=5", "[a]\nrw=read\nsize=1g\nrate_iops=5");
    for (short, long) in [("zipf", "zipf:1.1"), ("pareto", "pareto:0.2"), ("normal", "normal:0")] {
        let of = |law: &str| format!("[a]\nrw=randread\nsize=1g\nrandom_distribution={law}");
        is_same(&of(short), &of(long));
    }
}

/// Clones share a file whose name lacks their number, and jobs share a file of the same name in the same folder.
#[test]
fn names_decide_which_files_are_shared() {
    let active = |text: &str| -> Vec<String> {
        let line =
            |job: &Job| job.toml.lines().find(|l| l.starts_with("active")).unwrap().to_owned();
        file(text).jobs().map(line).collect()
    };
    let head = "[global]\nrw=randread\nsize=1g\nnumjobs=4\n";
    for (lines, gib) in [
        ("", 4),
        ("filename_format=$jobname.$jobnum.$filenum", 4),
        ("filename_format=$jobname.$filenum", 1),
        ("filename_format=$JOBNUM.x", 4),
        ("filename_format=data\nnrfiles=2", 1),
        ("directory=/d\nfilename=f", 1),
    ] {
        let found = active(&format!("{head}{lines}\n[a]\n"));
        assert_eq!(found, [format!("active = \"0B..{gib}GiB\"")], "{lines}");
    }
    // fio runs only the first of such clones.
    let clones = |lines: &str| job_of(&format!("{head}{lines}\n[a]\n")).spec.threads();
    assert_eq!((clones("filename_format=data"), clones("filename=data")), (1, 4));
    let two = |a: &str, b: &str| active(&format!("{head}[a]\n{a}\n[b]\n{b}\n"));
    let (first, second) = ("active = \"0B..1GiB\"", "active = \"1GiB..2GiB\"");
    assert_eq!(two("filename_format=x", "filename_format=x"), [first, first]);
    assert_eq!(two("filename_format=$jobname", "filename_format=$jobname"), [first, second]);
    assert_eq!(two("directory=/d\nfilename=f", "directory=/d/\nfilename=f"), [first, first]);
    assert_eq!(two("directory=/d\nfilename=f", "directory=/e\nfilename=f"), [first, second]);
}

/// A block size that is not a multiple of the sector size goes through the page cache, as in the command line by which
/// etcd's users test a disk.
#[test]
fn blocks_below_a_sector_are_buffered() {
    let line = "fio --rw=write --ioengine=sync --fdatasync=1 --directory=test-data --size=22m --bs=2300 --name=mytest";
    let job = parse_command_line(line, &[], &Fixed).unwrap().groups.remove(0).remove(0);
    let (bytes, align) = (job.spec.limits().bytes.unwrap(), job.spec.align_bytes());
    assert_eq!((align, bytes % 2300, (22 << 20) - bytes < 2300), (4, 0, true));
    assert!(parse_command_line(&format!("{line} --direct=1"), &[], &Fixed).is_err());
    assert!(parse_command_line(&format!("{line} --verify=crc32c"), &[], &Fixed).is_err());
}

/// The page cache is dropped before a job as in fio: clean pages, and before a verification all pages.
#[test]
fn the_page_cache_is_dropped_as_in_fio() {
    for (lines, expected) in [
        ("rw=read\nsize=1g", Some(DropCache::Clean)),
        ("rw=read\nsize=1g\ninvalidate=1", Some(DropCache::Clean)),
        ("rw=read\nsize=1g\ninvalidate=0", None),
        ("rw=read\nsize=1g\ndirect=1", None),
    ] {
        assert_eq!(job(lines).drop_cache, expected, "{lines}");
    }
    let job = job_of("[a]\nrw=write\nsize=8m\nverify=crc32c");
    assert_eq!(job.drop_cache, Some(DropCache::Clean));
    assert_eq!(job.check.unwrap().drop_cache, Some(DropCache::All));
}

#[test]
fn rates_are_of_each_clone_and_kind() {
    let arrivals = |lines: &str| spec(&format!("rw=randread\nsize=1g\n{lines}")).arrivals();
    let open = |rate_iops, process| ArrivalKind::Open { rate_iops, process };
    assert_eq!(arrivals("rate_iops=1000"), open(1000.0, Process::Constant));
    assert_eq!(arrivals("rate_iops=1k\nnumjobs=2"), open(2048.0, Process::Constant));
    assert_eq!(arrivals("rate_iops=500\nrate_process=poisson"), open(500.0, Process::Poisson));
    assert_eq!(arrivals("rate=4m\nbs=4k"), open(1024.0, Process::Constant));
    let mixed = spec("rw=randrw\nrwmixread=90\nsize=1g\nrate_iops=300,100");
    assert_eq!(mixed.arrivals(), open(400.0, Process::Constant));
    let shares: Vec<_> = mixed.kinds().collect();
    assert_eq!(shares, [(OpKind::Read, 300.0), (OpKind::Write, 100.0)]);
    let thinking = ArrivalKind::Closed { think_time_ns: 500_000, think_drains: false };
    assert_eq!(arrivals("thinktime=500"), thinking);
    assert_eq!(arrivals("thinktime=500us"), thinking);
}

#[test]
fn jobs_end_as_in_fio() {
    let limits = |lines: &str| {
        let read = file(&format!("[job]\n{lines}\n"));
        let limits = read.groups[0][0].spec.limits();
        (limits.time_ns, limits.bytes, limits.ops, limits.ramp_ns)
    };
    let gib = 1u64 << 30;
    assert_eq!(limits("size=1g"), (None, Some(gib), None, 0));
    assert_eq!(limits("size=1g\nnumjobs=2\nloops=3"), (None, Some(6 * gib), None, 0));
    assert_eq!(
        limits("size=1g\nio_size=4g\nruntime=1m"),
        (Some(60_000_000_000), Some(4 * gib), None, 0)
    );
    let timed = (Some(500_000_000), None, None, 2_000_000_000);
    assert_eq!(limits("size=1g\nruntime=500ms\ntime_based\nramp_time=2"), timed);
    assert_eq!(limits("size=1g\nnumber_ios=7").2, Some(7));
    assert_eq!(limits("size=1g\nnumber_ios=7\nloops=3").2, Some(21));
    // A job that is `time_based` goes on after `number_ios`, in fio too; and no limit cuts a block.
    assert_eq!(limits("size=1g\nnumber_ios=7\nruntime=1\ntime_based=1").2, None);
    assert_eq!(limits("size=1m\nbs=24k\nloops=10").1, Some(420 * 24 * 1024));
    assert_eq!(limits("size=1m\nbs=64k\nnrfiles=3").1, Some(15 << 16));
    // More files than blocks of any size.
    let many = refusal("[job]\nsize=1m\nbs=64k\nnrfiles=9223372036854775807\n");
    assert!(many.contains("the number of streams"), "{many}");
    // A ramp counts towards the size, but not towards `number_ios`.
    let ramp_counts = |lines: &str| {
        job_of(&format!("[job]\nsize=1g\nramp_time=1\n{lines}\n")).spec.limits().ramp_counts
    };
    assert!(ramp_counts("loops=2") && ramp_counts("numjobs=2\nnumber_ios=7"));
    assert!(!ramp_counts("rw=write\nnumber_ios=100\nfsync=1"));
    assert!(!ramp_counts("time_based\nruntime=1"));
    // Flushes count as operations here; fio neither paces nor counts them.
    assert_eq!(limits("rw=write\nsize=1g\nnumber_ios=100\nfsync=1").1, Some(100 << 12));
    assert_eq!(limits("rw=randrw\nsize=1g\nnumber_ios=80\nfsync=4").1, Some(80 << 12));
    assert_eq!(limits("rw=randrw\nbs=4k,8k\nsize=1g\nnumber_ios=80\nfsync=4").2, Some(100));
    let rate = |lines: &str| match file(&format!("[job]\nsize=1g\n{lines}\n")).groups[0][0]
        .spec
        .arrivals()
    {
        ArrivalKind::Open { rate_iops, .. } => rate_iops.round() as u64,
        other @ ArrivalKind::Closed { .. } => panic!("{other:?}"),
    };
    assert!(refusal("[job]\nsize=1g\niodepth=0\n").contains("`iodepth` must be 1 or more"));
    assert_eq!(rate("rw=write\nrate_iops=50\nfsync=1"), 100);
    assert_eq!(rate("rw=randrw\nrate_iops=100,100\nfdatasync=4"), 250);
    // Files that are larger than the bytes moved, and offset steps in percent of them.
    let job = |lines: &str| file(&format!("[job]\nrw=randread\nfilename=x\n{lines}\n"));
    let spec = |lines: &str| job(lines).groups[0][0].spec.clone();
    let large = spec("filesize=4m\nsize=1m");
    assert_eq!(
        (large.active().to_string().as_str(), large.limits().bytes),
        ("0B..4MiB", Some(1 << 20))
    );
    let stepped = job("size=4m\nnumjobs=2\noffset_increment=10%");
    assert!(
        stepped.groups[0][0].toml.contains("worker_step = \"412KiB\""),
        "{}",
        stepped.groups[0][0].toml
    );
    assert_eq!(limits("size=${SIZE}"), (None, Some(2 * gib), None, 0));
}

/// With the default base, `kib` is 1000 as in fio 3.33; `k`, `kb` and `ki` are 1024.
#[test]
fn sizes_have_the_base_that_the_job_names() {
    for (lines, bytes) in [
        ("bs=4k", 4096),
        ("bs=4KB", 4096),
        ("bs=4ki", 4096),
        ("bs=512000", 512_000),
        ("bs=64kib", 64_000),
        ("kb_base=1000\nbs=4kib", 4096),
        ("kb_base=1000\nbs=64k", 64_000),
        ("bs=0x1000", 4096),
    ] {
        let spec = spec(&format!("rw=randread\nsize=1g\n{lines}"));
        assert_eq!(u64::from(spec.blocks(OpKind::Read)[0].bytes), bytes, "{lines}");
    }
}

/// Errors do not quote included files, which the job's author may not be allowed to read.
#[test]
fn an_error_in_an_included_file_shows_nothing_of_it() {
    struct Secret;
    impl Surroundings for Secret {
        fn included(&self, _: &Path) -> Result<String, String> {
            Ok("# first\nroot:hash=xyzzy:0\n[xyzzy]\nxyzzy=1\n".to_owned())
        }
        fn variable(&self, _: &str) -> Option<String> {
            None
        }
    }
    for text in
        ["include /etc/shadow\n[a]\nrw=randread\n", "[a]\nrw=randread\ninclude /etc/shadow\n"]
    {
        let said = parse("job.fio", text, &Secret).unwrap_err().to_string();
        assert!(said.contains("/etc/shadow:") && !said.contains("xyzzy"), "{said}");
        assert!(!said.contains("first"), "{said}");
    }
}

/// `[global]` applies to the jobs after it; groups begin at `stonewall`; included files are searched in the folder of
/// the file.
#[test]
fn sections_and_groups() {
    let text = "; a comment\n[global]\nioengine=libaio # with words\nsize=1g\nruntime=1\ntime_based\ndirect=1\n\
                [a]\nrw=randread\n[b]\nname=other\n[global]\nbs=8k\n[c]\nstonewall\nrw=randwrite\n";
    let read = file(text);
    let names: Vec<Vec<&str>> =
        read.groups.iter().map(|g| g.iter().map(|job| job.name.as_str()).collect()).collect();
    assert_eq!(names, [vec!["a", "other"], vec!["c"]]);
    let bytes = |job: &Job, kind| job.spec.blocks(kind)[0].bytes;
    assert_eq!(bytes(&read.groups[0][0], OpKind::Read), 4096);
    assert_eq!(bytes(&read.groups[1][0], OpKind::Write), 8192);
    assert!(read.jobs().all(|job| job.direct && job.engine == Some("libaio")));
    let included = file("include common.inc\n[a]\nsize=1g\n");
    assert_eq!(bytes(&included.groups[0][0], OpKind::Read), 16384);
    // Jobs of the same name stay separate.
    let twice = file("[a]\nsize=1g\n[a]\nsize=1g\nstonewall\n");
    let names: Vec<&str> = twice.jobs().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["a", "a-2"]);
}

/// As in fio, a `name` in `[global]` names no job, but one in a job's own section does.
#[test]
fn sections_name_their_jobs() {
    let named = file("[global]\nname=all\nsize=1g\n[a]\nrw=read\n[b]\nname=c\n[all]\n");
    let names: Vec<&str> = named.jobs().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "all"]);
}

/// As in fio, a job that writes each block of its own files and verifies them is read back after its group.
#[test]
fn what_is_verified_is_read_back() {
    let job = job_of(
        "[a]\nrw=randwrite\nbs=8k\nsize=10m\noffset=1m\nfilename=x\nverify=md5\nnumjobs=2\nioengine=libaio\niodepth=4\ndirect=1\nfsync=3\nrate_iops=10\nloops=2\n",
    );
    let check = job.check.unwrap();
    let expected = "threads = 2\ndepth = 4\nblock = \"8KiB\"\nactive = \"1MiB..11MiB\"\nworker_step = \"0B\"\nmix = { read = 1 }\n\n[all]\naddresses = \"sequential\"\n\n[content]\nkind = \"verifiable\"\n\n[limits]\nbytes = \"20MiB\"\nramp = \"0s\"\n";
    assert!(check.toml.ends_with(expected), "{}", check.toml);
    assert_eq!(
        (check.name.as_str(), check.engine, check.direct),
        ("a-verify", Some("libaio"), true)
    );
    let two = file("[global]\nverify=md5\nsize=1m\nrw=write\n[a]\n[a-verify]\nstonewall\n");
    let checks: Vec<&str> =
        two.jobs().map(|job| job.check.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(checks, ["a-verify-2", "a-verify-verify"]);
    // Files that are written in part, or by other jobs too, are not read back.
    for lines in [
        "rw=randrw",
        "rw=read",
        "rw=write:4k",
        "rw=write\ndo_verify=0",
        "rw=write\nverify=0",
        "rw=write\nnumber_ios=7",
        "rw=write\nio_size=64k",
        "rw=write\nruntime=1",
        "rw=randwrite\nnorandommap",
        "rw=randwrite\nrandom_distribution=zipf:1.1",
        "rw=write\nexitall",
        "rw=write\nfilename=x\n[b]\nsize=1m\nrw=trim\nfilename=x",
    ] {
        let text = format!("[a]\nsize=1m\nverify=crc32c\n{lines}\n");
        assert!(file(&text).jobs().all(|job| job.check.is_none()), "{lines}");
    }
}

/// As in fio, a sequential pass over a part of a device ends with the last block that begins there, and in a file with
/// the last block that fits.
#[test]
fn a_walk_on_a_device_ends_with_a_whole_block() {
    for (lines, bytes) in [
        ("filename=/dev/sdx\nrw=write", 12_288),
        ("filename=/dev/sdx\nrw=read\nbs=8k", 16_384),
        ("filename=/dev/sdx\nrw=trim", 12_288),
        ("filename=/dev/sdx\nrw=rw", 12_288),
        ("filename=/dev/sdx\nrw=randread", 8192),
        ("filename=/dev/shm/x\nrw=read", 8192),
        ("filename=x\nrw=read", 8192),
        ("rw=read", 8192),
    ] {
        let job = job_of(&format!("[a]\nsize=10000\n{lines}\n"));
        assert_eq!(job.spec.limits().bytes, Some(bytes), "{lines}");
        let (start, end) = job.spec.active_on(1 << 30);
        assert_eq!((end - start) / bytes, 1, "{lines}");
    }
}

/// The suggested `--find-rate` has the job's own limit.
#[test]
fn a_search_is_named_with_its_limit() {
    for (lines, limit) in [
        ("latency_target=500\nlatency_percentile=99.9", "'p99.9<500us'"),
        ("latency_target=2ms", "'p99.99<2ms'"),
        ("latency_window=1s", "'p99<1ms'"),
    ] {
        let words = refusal(&format!("[a]\nsize=1g\nrw=read\n{lines}\n"));
        assert!(words.contains(&format!("--find-rate {limit}")), "{words}");
    }
}

/// Notes where fio's passes or flushes differ with the engine.
#[test]
fn engines_decide_what_fio_repeats() {
    let has = |lines: &str, words: &str| {
        let job = job_of(&format!("[a]\nsize=1g\n{lines}\n"));
        job.notes.iter().any(|note| note.words.contains(words))
    };
    let passes = "fio repeats those of the first pass";
    let drawn = "rw=randread\nnorandommap\nioengine=libaio\niodepth=4\n";
    assert!(has(&format!("{drawn}loops=2"), passes));
    assert!(has(&format!("{drawn}io_size=2g"), passes));
    for lines in
        ["", "loops=2\nrandrepeat=0", "loops=2\nioengine=psync", "loops=2\ntime_based\nruntime=1"]
    {
        assert!(!has(&format!("{drawn}{lines}"), passes), "{lines}");
    }
    assert!(!has("rw=randread\nloops=2\nioengine=libaio", passes), "each block once");
    let flushes = "issues it several times";
    assert!(has("rw=write\nfsync=8\nioengine=io_uring\niodepth=4", flushes));
    assert!(!has("rw=write\nfsync=8\nioengine=libaio\niodepth=4", flushes));
    assert!(!has("rw=write\nfsync=8", flushes));
}

/// A synchronous engine has one I/O at a time, whatever `iodepth` says.
#[test]
fn a_synchronous_engine_ignores_the_depth() {
    let job = job("rw=randread\nsize=1g\nioengine=psync\niodepth=32");
    assert_eq!((job.spec.depth(), job.engine), (1, Some("psync")));
    assert!(
        job.traps.iter().any(|trap| trap.at == "jobs/test.fio:7" && trap.words.contains("one I/O"))
    );
}

#[test]
fn traps_are_explained() {
    for (lines, words) in [
        ("rw=write\nsize=1g", "buffered writes without fsync"),
        ("rw=write\nsize=1g\ndirect=1\nnumjobs=4", "4GiB in all"),
        ("rw=randread\nsize=1g\ndirect=1", "never written"),
        ("rw=randread\nsize=1g\nbs=64kib", "64000 bytes"),
        ("rw=randread\nsize=1g\nrate_iops=10k", "1024 operations"),
        ("rw=write\nsize=1g\ndirect=1\nzero_buffers", "zeroes compress"),
        ("rw=read\nsize=1g\nioengine=libaio\niodepth=8", "asynchronous with direct=1 only"),
        ("rw=read\nsize=1g\nrate=1250", "1250 is almost nothing"),
        (
            "rw=read\nsize=1g\nrate_iops=100\nbssplit=4k/50:64k/50",
            "converts it to bytes by the smallest block size",
        ),
        (
            "rw=read\nsize=1g\nrate=8m\nrate_process=poisson\nbsrange=4k-8k",
            "converts it by the smallest block size",
        ),
        ("rw=randread\nsize=1g\nbssplit=4k/50:64k/50", "shortens blocks"),
        ("rw=read\nsize=1g", "later passes are read from memory"),
        ("rw=write\nsize=1g\nnumjobs=2\nfilename_format=x", "fio gives it to the first one"),
    ] {
        let traps = job(lines).traps;
        let trap = traps.iter().find(|trap| trap.words.contains(words));
        let trap = trap.unwrap_or_else(|| panic!("{lines}: {traps:?}"));
        // A run detects by itself reads from the page cache and reads of unwritten blocks.
        let is_judged = words.contains("buffered writes") || words.contains("never written");
        assert_eq!(trap.is_judged, is_judged, "{lines}");
    }
}

/// Unsupported options are refused with their line, the reason and the remedy.
#[test]
fn refusals() {
    let all: Vec<String> = [
        "rw=randread\nrandom_distribution=pareto:1.5",
        "rw=randread\nrandom_distribution=normal:20,30",
        "rw=randread\nrandom_distribution=zoned_abs:80/1g:20/1g",
        "rw=randread\nrandom_distribution=zoned_abs:60/256m:40/",
        "rw=randread\nrandom_distribution=zoned:90/10:/20:/70",
        "rw=write:-2k",
        "direct=1\nrw=write:1000",
        "rw=randrw\nblockalign=8k,32k",
        "rw=read\nsize=(2*1g)",
        "rw=read\nsize=$mb_memory",
        "rw=trimwrite",
        "rw=randrw\npercentage_random=50,100\nrandom_distribution=zipf:1.1",
        "rw=randrw\nbs=4k-16k",
        "rw=read\nbssplit=12k-16k/5:4k/95",
        "size=4k-64k",
        "size=904z",
        "nrfiles=4\nfilesize=4k-64k",
        "rw=randread\nnrfiles=4\nfilesize=64k-4k",
        "rw=randread\nnrfiles=4\nfilesize=1k-64k",
        "rw=randread\nnrfiles=4\nfilesize=4k-64k\nsize=50%",
        "rw=randread\nnrfiles=4\nfilesize=4k-64k\noffset=4k",
        "rw=randread\nnrfiles=4\nfilesize=4k-64k\nbsrange=1k-4k",
        "rw=randread\nnrfiles=4\nfilesize=4k-64k\nrandom_distribution=zipf:1.1",
        "rw=randread\nnrfiles=4\nfilesize=64k-640k\nbs=12k\nnorandommap",
        "rw=randread\nnrfiles=65\nfilesize=4k-64k\nnorandommap",
        "rw=randread\nnrfiles=9999999\nfilesize=4k-64k",
        "rw=randread\nnumjobs=2\nnrfiles=4\nfilesize=4k-64k",
        "filename=/dev/x\noffset=30%\noffset_align=1m",
        "rw=randread:8\npercentage_random=50",
        "rw=write:4k\nrw_sequencer=identical",
        "steadystate=iops:500\nss_dur=10",
        "steadystate=iops:5%\nss_dur=500ms",
        "rw=read\nzonemode=zbd",
        "rw=write\nzonemode=zbd\nzonesize=10k",
        "rw=randread\nzonemode=strided\nzonesize=1m",
        "rw=write:8k\nzonemode=strided\nzonesize=1m",
        "rw=rw\nzonemode=strided\nzonesize=1m",
        "rw=read\nzonesize=1m",
        "rw=read\nzonemode=strided",
        "rw=read:-2g",
        "rw=read\nzonemode=strided\nzonesize=5k",
        "rw=read\nfilename=/dev/a:/dev/b\nfile_service_type=random",
        "rw=read\nnrfiles=3\nbsrange=4k-64k",
        "rw=write\nsync_file_range=write:8",
        "exitall\nexit_what=some",
        "wait_for=nobody",
        "ioengine=rdma",
        "direct=1\nbs=1000",
        "bssplit=4k/60:8k/60:16k",
        "rate_iops=,100",
        "latency_target=1000",
        "iodpeth=4",
        "size=${NOPE}",
        "bs",
        "bs=0",
    ]
    .iter()
    .map(|lines| refusal(&format!("[job]\nsize=1g\nruntime=1\ntime_based\n{lines}\n")))
    .collect();
    let whole = [
        "bs=4k\n[job]\n",
        "[a]\nsize=1g\n[b]\nfilename=x\n",
        "[a]\ncreate_only=1\nsize=1g\n",
        "[a]\nfilename=x:y\nsize=1g\n[b]\nstonewall\nfilename=y\nsize=1g\n",
        "[a]\nflow=1\nsize=1g\n[b]\nflow=1\nflow_id=2\nsize=1g\n",
        "[a]\nsize=1g\n[b]\nsize=1g\n[c]\nwait_for=a\nsize=1g\n",
        "[a]\nexitall\nexit_what=all\nsize=1g\n[b]\nsize=1g\nstonewall\n",
        "[a]\nexit_what=all\nsize=1g\n[b]\nsize=1g\nstonewall\nexitall\n",
        "[job\n",
        "",
        "include loop.inc\n",
        "include other.inc\n",
        "[global]\nhipri\n[a]\nsize=1g\n[b]\nsize=1g\nstonewall\nprio=3\n",
    ];
    let all: Vec<String> = all.into_iter().chain(whole.into_iter().map(refusal)).collect();
    insta::assert_snapshot!(all.join("\n\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No text makes the parser panic. A workload that it returns is valid and equal to that of its own text.
    #[test]
    fn any_text_is_read_or_refused(text in any_text()) {
        if let Ok(read) = parse("jobs/test.fio", &text, &Fixed) {
            for job in read.jobs() {
                prop_assert_eq!(Spec::from_toml(&job.toml), Ok(job.spec.clone()));
            }
        }
    }

    /// Options with values of their kinds, more often valid than not.
    #[test]
    fn any_job_is_read_or_refused(lines in prop::collection::vec(any_line(), 0..12)) {
        let text = format!("[job]\nsize=1g\n{}\n", lines.join("\n"));
        if let Ok(read) = parse("jobs/test.fio", &text, &Fixed) {
            for job in read.jobs() {
                prop_assert_eq!(Spec::from_toml(&job.toml), Ok(job.spec.clone()));
            }
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\\[\\]a-z=:;#$\\{\\}0-9,/%\n \u{e9}\"\\\\.-]{0,200}",
        prop::collection::vec(any_line(), 0..20).prop_map(|lines| lines.join("\n")),
    ]
}

fn any_line() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "rw",
        "bs",
        "bssplit",
        "bsrange",
        "size",
        "io_size",
        "offset",
        "offset_increment",
        "iodepth",
        "numjobs",
        "ioengine",
        "direct",
        "buffered",
        "fsync",
        "sync",
        "runtime",
        "time_based",
        "ramp_time",
        "rate",
        "rate_iops",
        "rate_process",
        "thinktime",
        "random_distribution",
        "verify",
        "loops",
        "number_ios",
        "kb_base",
        "filename",
        "name",
        "stonewall",
        "rwmixread",
        "rwmixwrite",
        "zero_buffers",
        "dedupe_percentage",
        "buffer_compress_percentage",
        "ba",
        "iodepth_low",
        "percentage_random",
        "norandommap",
        "include",
        "hipri",
    ]);
    let values = prop_oneof![
        prop::sample::select(vec![
            "randread",
            "randrw",
            "write",
            "rw",
            "randwrite:8",
            "trim",
            "4k",
            "8k,16k",
            "4k/30:8k/70",
            "1k-64k",
            "1g",
            "50%",
            "0",
            "1",
            "2",
            "64",
            "libaio",
            "psync",
            "io_uring",
            "poisson",
            "zipf:1.1",
            "zoned:50/10:50/90",
            "crc32c",
            "1000",
            "1024",
            "10ms",
            "18446744073709551615",
            "99999999999999p",
            "/dev/a:b",
            "a\"b\\",
            "${SIZE}",
            "é",
            ",",
            ":",
            "/",
            "-1",
            "1-",
            "0-0",
            "1e9",
            "NaN",
            "zipf:inf",
        ])
        .prop_map(str::to_owned),
        "[a-z0-9:/,%.-]{0,12}",
    ];
    prop_oneof![
        6 => (names.clone(), values).prop_map(|(name, value)| format!("{name}={value}")),
        1 => names.prop_map(str::to_owned),
        1 => prop::sample::select(vec!["[job]", "[global]", "[é]", "[", "; x", "[a]b"]).prop_map(str::to_owned),
    ]
}
