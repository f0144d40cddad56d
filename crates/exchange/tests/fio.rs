//! Job files of fio: what each option makes of a workload, what is refused and in which words, and that no text makes
//! the parser panic.

use iodyno_exchange::fio::{Job, JobFile, Surroundings, parse};
use iodyno_units::OpKind;
use iodyno_workload::{ArrivalKind, Content, Process, Spec};
use proptest::prelude::*;
use std::path::Path;

/// Files and variables of the tests.
struct Fixed;

impl Surroundings for Fixed {
    fn included(&self, path: &Path) -> Result<String, String> {
        match path.to_str() {
            Some("jobs/common.inc") => Ok("[global]\nbs=16k\n".to_owned()),
            Some("jobs/loop.inc") => Ok("include loop.inc\n".to_owned()),
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

/// One job that ends after ten seconds, with these lines.
fn job(lines: &str) -> Job {
    let text = format!("[job]\nruntime=10\ntime_based\n{lines}\n");
    file(&text).groups.remove(0).remove(0)
}

fn spec(lines: &str) -> Spec {
    job(lines).spec
}

/// Whether two texts stand for the same workload but for the line about it.
fn is_workload(lines: &str, toml: &str) {
    let mine = spec(lines);
    let toml = format!("schema = 1\nabout = \"{}\"\n{toml}", mine.about());
    let theirs = Spec::from_toml(&toml).unwrap_or_else(|e| panic!("{toml}\n{e:?}"));
    assert_eq!(mine, theirs, "{lines}\n{}\n{}", mine.to_toml(), theirs.to_toml());
}

/// The end of a workload that a job of ten seconds makes.
const TIME: &str = "[limits]\nramp = \"0s\"\ntime = \"10s\"";

/// Each honoured option has fio's meaning.
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
        ("rw=randread\nbsrange=4k-8k\nsize=1g", "block = [{ size = \"4KiB\", share = 1 }, { size = \"8KiB\", share = 1 }]\nactive = \"0B..1GiB\"\nmix = { read = 1 }\n".to_owned()),
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
    assert_eq!(limits("size=1g\nnumber_ios=7\nruntime=1\ntime_based=1").2, Some(7));
    assert_eq!(limits("size=${SIZE}"), (None, Some(2 * gib), None, 0));
}

/// With the default base `kib` is 1000, as fio 3.33 has it; `k`, `kb` and `ki` are 1024.
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

/// `[global]` counts for the jobs after it; groups begin at `stonewall`; included files are looked for beside the file.
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
    // Jobs of one name stay apart.
    let twice = file("[a]\nsize=1g\n[a]\nsize=1g\nstonewall\n");
    let names: Vec<&str> = twice.jobs().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["a", "a-2"]);
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
    ] {
        let traps = job(lines).traps;
        assert!(traps.iter().any(|trap| trap.words.contains(words)), "{lines}: {traps:?}");
    }
}

/// What can't be honoured is refused at its line, with the reason and the remedy.
#[test]
fn refusals() {
    let all: Vec<String> = [
        "rw=randread\niodepth_batch=8",
        "rw=randread\nrandom_distribution=pareto:0.9",
        "rw=randread\nrandom_distribution=normal:20",
        "rw=write:8k",
        "rw=trimwrite",
        "rw=randread\npercentage_random=50",
        "steadystate=iops:5%",
        "ioengine=rdma",
        "bs=1000",
        "bssplit=4k/60:8k/60",
        "rw=read\nfilename=/dev/a:/dev/b",
        "rw=read\nnumjobs=4\nfilename=/dev/a",
        "rate_iops=,100",
        "ioengine=libaio\niodepth=4\nthinktime=100",
        "latency_target=1000",
        "iodpeth=4",
        "size=${NOPE}",
        "bs",
        "bs=0",
        "rw=write\nend_fsync=1",
    ]
    .iter()
    .map(|lines| refusal(&format!("[job]\nsize=1g\nruntime=1\ntime_based\n{lines}\n")))
    .collect();
    let whole = [
        "bs=4k\n[job]\n",
        "[job]\nrw=read\n",
        "[job\n",
        "",
        "include loop.inc\n",
        "include other.inc\n",
        "[a]\nsize=1g\n[b]\nsize=1g\n",
        "[a]\nsize=1g\nruntime=1\ntime_based\n[b]\nsize=1g\nruntime=2\ntime_based\n",
        "[global]\nhipri\n[a]\nsize=1g\n[b]\nsize=1g\nstonewall\nprio=3\n",
    ];
    let all: Vec<String> = all.into_iter().chain(whole.into_iter().map(refusal)).collect();
    insta::assert_snapshot!(all.join("\n\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No text makes the parser panic, and what it reads is a valid workload, also in its text.
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
