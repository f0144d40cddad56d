//! Parameter files of vdbench: the workload for each parameter, and the texts of errors.

use crate::other_tools;

use iodyno_exchange::fio::{Job, JobFile};
use iodyno_exchange::vdbench::{parse, read_command};
use other_tools::{is_workload, one, refusal, says};

fn file(text: &str) -> JobFile {
    parse("t.vdb", text).unwrap_or_else(|problem| panic!("{text}\n{problem}"))
}

/// The job of a run of ten seconds over a file of 1 GiB, with these parameters of the workload and the run.
fn job(workload: &str, run: &str) -> Job {
    let text = format!(
        "sd=sd1,lun=/d/x,size=1g,openflags=o_direct\nwd=wd1,sd=sd1{workload}\nrd=rd1,wd=wd1,elapsed=10,interval=1,warmup=2{run}\n"
    );
    one(parse("t.vdb", &text))
}

const LIMITS: &str = "[limits]\nramp = \"2s\"\ntime = \"10s\"\n";

#[test]
fn parameters_mean_what_vdbench_means() {
    let head = "threads = 8\nactive = \"0B..1GiB\"\n";
    let shared = "[all]\naddresses = { pattern = \"sequential\", shared = true }\n";
    for (workload, run, toml) in [
        ("", ",iorate=max", format!("{head}mix = {{ read = 100 }}\n{LIMITS}")),
        (
            ",xfersize=8k,rdpct=70",
            ",iorate=max",
            format!("{head}block = \"8KiB\"\nmix = {{ read = 70, write = 30 }}\n{LIMITS}"),
        ),
        (",xf=(4k,60,8k,40),rd=0", ",io=max", String::new()),
        (
            ",xf=(4k,60,8k,40),rdpct=0",
            ",io=max",
            format!(
                "{head}block = [{{ size = \"4KiB\", share = 60 }}, {{ size = \"8KiB\", share = 40 }}]\nmix = {{ write = 100 }}\n{LIMITS}"
            ),
        ),
        (
            ",xfersize=(4k,16k,4k)",
            ",iorate=max",
            format!(
                "{head}block = [{{ size = \"4KiB\", share = 1 }}, {{ size = \"8KiB\", share = 1 }}, {{ size = \"12KiB\", share = 1 }}, {{ size = \"16KiB\", share = 1 }}]\nmix = {{ read = 100 }}\n{LIMITS}"
            ),
        ),
        (
            ",seekpct=20,xfersize=1m",
            ",iorate=max",
            format!(
                "depth = 8\nactive = \"0B..1GiB\"\nblock = \"1MiB\"\nmix = {{ read = 100 }}\n[all]\naddresses = {{ pattern = \"sequential\", jump = \"20%\" }}\n{LIMITS}"
            ),
        ),
        (
            ",seekpct=0,xfersize=1m",
            ",iorate=max",
            format!("{head}block = \"1MiB\"\nmix = {{ read = 100 }}\n{shared}{LIMITS}"),
        ),
        (
            ",seekpct=eof,xfersize=1m,rdpct=0",
            ",iorate=max",
            format!(
                "{head}block = \"1MiB\"\nmix = {{ write = 100 }}\n{shared}{LIMITS}bytes = \"1GiB\"\nramp_counts = true\n"
            ),
        ),
        (
            // Whole blocks only: 21845 of 48 KiB.
            ",seekpct=eof,xfersize=48k,rdpct=0",
            ",iorate=max",
            format!(
                "{head}block = \"48KiB\"\nmix = {{ write = 100 }}\n{shared}{LIMITS}bytes = \"1048560KiB\"\nramp_counts = true\n"
            ),
        ),
        (
            // The end of the storage comes after this limit, which excludes the ramp.
            ",seekpct=eof,xfersize=1m,rdpct=0",
            ",iorate=max,maxdata=1m",
            format!(
                "{head}block = \"1MiB\"\nmix = {{ write = 100 }}\n{shared}{LIMITS}bytes = \"1MiB\"\n"
            ),
        ),
        (
            ",range=(10,20)",
            ",iorate=max,maxdata=10g",
            format!(
                "threads = 8\nactive = \"107374182B..214748364B\"\nmix = {{ read = 100 }}\n{LIMITS}bytes = \"10GiB\"\n"
            ),
        ),
        (
            ",openflags=(o_direct,o_sync),rdpct=0",
            ",iorate=500",
            format!(
                "{head}mix = {{ write = 100 }}\n[write]\nfua = \"100%\"\n[arrivals]\nkind = \"open\"\nrate = 500\n{LIMITS}"
            ),
        ),
        (
            "",
            ",iorate=500,distribution=deterministic,threads=4",
            format!(
                "threads = 4\nactive = \"0B..1GiB\"\nmix = {{ read = 100 }}\n[arrivals]\nkind = \"open\"\nrate = 500\nprocess = \"constant\"\n{LIMITS}"
            ),
        ),
    ] {
        if toml.is_empty() {
            // `rd` begins a run.
            let text = format!("sd=sd1,lun=x\nwd=wd1,sd=sd1{workload}\n");
            refusal(&text, parse("t.vdb", &text));
            continue;
        }
        let job = job(workload, run);
        is_workload(&job, &toml);
        // With several I/Os in flight per worker, the target chooses the engine.
        let engine = (job.spec.depth() == 1).then_some("psync");
        assert_eq!((job.engine, job.direct, job.filename.as_deref()), (engine, true, Some("/d/x")));
    }
    let compressed = file(
        "compratio=4\nsd=sd1,lun=/dev/sdb,size=1g\nwd=wd1,sd=*,rdpct=0\nrd=r,wd=*,iorate=max,elapsed=30,interval=5\n",
    );
    let job = &compressed.groups[0][0];
    // The first block of a raw device is never used, and without a warm-up the first interval does not count.
    is_workload(
        job,
        "threads = 8\nactive = \"4KiB..1GiB\"\nmix = { write = 1e2 }\n[content]\nkind = \"compressible\"\ncompressible = \"75%\"\n[limits]\nramp = \"5s\"\ntime = \"25s\"\n",
    );
    let checked =
        file("validate=yes\nsd=sd1,lun=x,size=1g\nwd=wd1,sd=*,rdpct=50\nrd=r,wd=*,iorate=max\n");
    assert_eq!(checked.groups[0][0].spec.content(), iodyno_workload::Content::Verifiable);
}

/// A run with lists becomes a cell for each combination. Comments, defaults and abbreviations are those of vdbench.
#[test]
fn lists_are_cells() {
    let text = "* a comment\n\nhd=localhost\nsd=default,threads=2,openflags=o_direct\nsd=sd1,lun=/a,size=1g  behind a blank\n\
                sd=sd2,lun=/b,size=1g\nwd=default,sd=sd*\nwd=wd1,xfersize=4k\n\
                rd=one,wd=wd1,iorate=(100-300,100),forthreads=(1-4,d),forrdpct=(0,100),\nelapsed=20\n\
                rd=two,wd=wd1,iorate=max\neof\nnonsense\n";
    let read = file(text);
    let names: Vec<&str> = read.jobs().map(|job| job.name.as_str()).collect();
    assert_eq!(names.len(), 3 * 2 * 3 + 1);
    assert_eq!((names[0], names[1], names[17]), ("one-1-0-100", "one-1-0-200", "one-4-100-300"));
    assert_eq!(names[18], "two");
    let rate = |job: &Job| match job.spec.arrivals() {
        iodyno_workload::ArrivalKind::Open { rate_iops, .. } => Some(rate_iops),
        iodyno_workload::ArrivalKind::Closed { .. } => None,
    };
    // Two targets share the rate.
    assert_eq!(rate(&read.groups[1][0]), Some(100.0));
    assert_eq!((read.groups[1][0].spec.threads(), rate(&read.groups[18][0])), (1, None));
    assert_eq!(read.groups[18][0].spec.threads(), 2);
    says(&read.groups[0][0].notes, "2 targets");
    let limits = read.groups[0][0].spec.limits();
    assert_eq!((limits.ramp_ns, limits.time_ns), (1_000_000_000, Some(19_000_000_000)));
}

/// Lists expand in order, as in vdbench's `Var_parms`: a range ascends by its step, doubles, or halves from a larger
/// start. A descending range with a step is only its first value. No list is lost.
#[test]
fn ranges_are_those_of_vdbench() {
    let values = |run: &str| -> Vec<String> {
        let text = format!(
            "sd=sd1,lun=/a,size=1g\nwd=wd1,sd=sd1\nrd=r,wd=wd1,iorate=max,elapsed=10,interval=1,{run}\n"
        );
        file(&text).jobs().map(|job| job.name.strip_prefix("r-").unwrap().to_owned()).collect()
    };
    for (run, expected) in [
        ("forxfersize=(128k-512,d)", "131072 65536 32768 16384 8192 4096 2048 1024 512"),
        ("forxfersize=(4k-64k,d)", "4096 8192 16384 32768 65536"),
        ("forxfersize=(4k-20k,8k)", "4096 12288 20480"),
        ("forxfersize=(4k-19k,8k)", "4096 12288"),
        ("forthreads=(64-1,d)", "64 32 16 8 4 2 1"),
        ("forthreads=(1-7,d)", "1 2 4"),
        ("forthreads=(3-3,d)", "3"),
        ("forthreads=(1,2,4-8,2,16)", "1 2 4 6 8 16"),
        ("forthreads=(1-3,1,10-12,1)", "1 2 3 10 11 12"),
        ("forrdpct=(0-100,25)", "0 25 50 75 100"),
        ("forrdpct=(100-0,10)", "100"),
        ("forrdpct=(100,50,0)", "100 50 0"),
        ("forseekpct=(random,seq)", "random seq"),
    ] {
        assert_eq!(values(run).join(" "), expected, "{run}");
    }
    let text = "sd=sd1,lun=/a,size=1g\nwd=wd1,sd=sd1\nrd=r,wd=wd1,iorate=max,forrdpct=(100-0,10)\n";
    says(&file(text).groups[0][0].notes, "descends with a fixed step");
    for (run, why) in [
        ("forthreads=(1-8)", "the range `1-8` has no step"),
        ("forthreads=(1-8,0)", "the range `1-8` has no step"),
        ("forthreads=(8-0,d)", "forever"),
        ("forrdpct=(0-100,d)", "forever"),
        ("forthreads=(100-1,d)", "`12.5` is not a whole number"),
        ("forthreads=(1-x,1)", "`x` is not a number"),
        ("forthreads=(1-100000,1)", "more than 256 combinations"),
        ("forrdpct=(0,101)", "`101` is not a percentage"),
        ("forthreads=()", "is not a number"),
    ] {
        let text = format!(
            "sd=sd1,lun=/a,size=1g\nwd=wd1,sd=sd1\nrd=r,wd=wd1,iorate=max,elapsed=10,interval=1,{run}\n"
        );
        let refused = refusal(&text, parse("t.vdb", &text));
        assert!(refused.contains(why), "{run}: {refused}");
    }
    // Ranges of names ascend by number, whatever the order of the definitions.
    let text = |names: &str| {
        format!(
            "sd=sd1,lun=/a,size=1g\nsd=sd3,lun=/c,size=1g\nsd=sd2,lun=/b,size=1g\nwd=wd1,sd={names}\nrd=r,wd=wd1,iorate=300\n"
        )
    };
    let rate = |names: &str| match file(&text(names)).groups[0][0].spec.arrivals() {
        iodyno_workload::ArrivalKind::Open { rate_iops, .. } => rate_iops,
        iodyno_workload::ArrivalKind::Closed { .. } => panic!("a rate"),
    };
    assert_eq!((rate("(sd1-sd2)"), rate("(sd1-sd3)"), rate("sd*")), (150.0, 100.0, 100.0));
    for (names, why) in
        [("(sd1-sd4)", "`sd4` of the range"), ("(sd3-sd1)", "`sd3-sd1` is not defined")]
    {
        let refused = refusal(names, parse("t.vdb", &text(names)));
        assert!(refused.contains(why), "{refused}");
    }
}

/// Percentages and defaults, by the user's guide.
#[test]
fn percentages_and_defaults_are_those_of_vdbench() {
    // Defaults: 4 KiB, random reads, 8 threads, 30 s of which the first interval of 1 s is not counted.
    let text = "sd=sd1,lun=/a,size=1g\nwd=wd1,sd=sd1\nrd=r,wd=wd1,iorate=max\n";
    let plain = file(text);
    is_workload(
        &plain.groups[0][0],
        "threads = 8\nblock = \"4KiB\"\nactive = \"0B..1GiB\"\nmix = { read = 100 }\n[all]\naddresses = \"uniform\"\n[limits]\nramp = \"1s\"\ntime = \"29s\"\n",
    );
    let spec = |workload: &str| job(workload, ",iorate=max").spec;
    // Shares of reads and of writes are equivalent, and the run's list overrides the workload's value.
    assert_eq!(spec(",rdpct=70"), spec(",readpct=70"));
    assert_eq!(spec(",rdpct=70"), spec(",wrpct=30"));
    assert_eq!(job(",rdpct=10", ",iorate=max,rdpct=70").toml.matches("read = 70").count(), 1);
    // Ends of a range up to 100 are percentages; larger ones are bytes.
    assert_eq!(spec(",range=(10,20)"), spec(",range=(107374182,214748364)"));
    assert_eq!(spec(",seekpct=100"), spec(""));
}

/// Workloads of a run are simultaneous, with their shares of the rate.
#[test]
fn workloads_at_once_share_a_rate() {
    let text = "sd=sd1,lun=/a,size=1g\nwd=w1,sd=sd1,skew=60,rdpct=100\nwd=w2,sd=sd1,rdpct=0\nwd=w3,sd=sd1,rdpct=50\n\
                rd=r,wd=(w1-w3),iorate=1000,elapsed=10\n";
    let read = file(text);
    assert_eq!(read.groups.len(), 1);
    let rates: Vec<f64> = read.groups[0]
        .iter()
        .map(|job| match job.spec.arrivals() {
            iodyno_workload::ArrivalKind::Open { rate_iops, .. } => rate_iops,
            iodyno_workload::ArrivalKind::Closed { .. } => panic!("a rate"),
        })
        .collect();
    assert_eq!(rates, [600.0, 200.0, 200.0]);
    let names: Vec<&str> = read.jobs().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["r-1000-w1", "r-1000-w2", "r-1000-w3"]);
}

#[test]
fn traps_are_explained() {
    says(&job(",rdpct=0", ",iorate=100").traps, "takes the I/O from its queue");
    says(&job(",rdpct=0", ",iorate=max").traps, "the same buffer over and over");
    says(&job("", ",iorate=max").traps, "never written");
    let buffered = file("sd=s,lun=/dev/sdb\nwd=w,sd=s\nrd=r,wd=w,iorate=max\n");
    says(&buffered.groups[0][0].traps, "o_direct");
    says(&buffered.groups[0][0].notes, "first block of a raw device");
    assert_eq!(buffered.groups[0][0].traps[0].at, "t.vdb:1");
}

#[test]
fn a_command_line_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parm");
    std::fs::write(&path, "sd=s,lun=/a\nwd=w,sd=s\nrd=r,wd=w,iorate=max,elapsed=99\n").unwrap();
    let path = path.to_str().unwrap();
    let read = read_command(&format!("./vdbench -f {path} -e30 -w 5 -o out")).unwrap();
    let limits = read.groups[0][0].spec.limits();
    assert_eq!((limits.ramp_ns, limits.time_ns), (5_000_000_000, Some(30_000_000_000)));
    for line in ["vdbench -t", "vdbench -e 30", "vdbench -f 'x"] {
        assert!(read_command(line).is_err(), "{line}");
    }
}

#[test]
fn refusals() {
    let all: Vec<String> = [
        "",
        "sd=sd1,lun=/a\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1\nrd=rd1,wd=wd2,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd2\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,iorate=curve,curve=(10,50)\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1,rhpct=50,seekpct=120,stride=(1,2)\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1,xfersize=(4k,50,8k,40)\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1,seekpct=poisson\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1,xfersize=1000\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1\nwd=wd2,sd=sd1\nrd=rd1,wd=wd*,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1,skew=60\nwd=wd2,sd=sd1,skew=60\nrd=rd1,wd=wd*,iorate=10\n",
        "sd=sd1,lun=/a,threads=4\nsd=sd2,lun=/b\nwd=wd1,sd=sd*\nrd=rd1,wd=wd*,iorate=10\n",
        "sd=sd1,lun=/a\nsd=sd2,lun=/b\nwd=wd1,sd=sd1\nwd=wd2,sd=sd2\nrd=rd1,wd=wd*,iorate=10\n",
        "fsd=fsd1,anchor=/a,depth=1,width=1,files=10\nfwd=fwd1,fsd=fsd1\nrd=rd1,fwd=fwd1\n",
        "hd=h1,system=other,user=root\nsd=sd1,lun=$lun\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,iorate=max\n",
        "dedupratio=2\ninclude=x\nsd=sd1,lun=/a,size=(1g,2g\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1,seekpct=eof\nrd=rd1,wd=wd1,iorate=max\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,iorate=(0,x),elapsed=1x,elapsde=3,distribution=uniform\n",
        "sd=sd1,lun=/a\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,iorate=(1-100000,1)\n",
    ]
    .iter()
    .map(|text| refusal(text, parse("t.vdb", text)))
    .collect();
    insta::assert_snapshot!(all.join("\n\n"));
}
