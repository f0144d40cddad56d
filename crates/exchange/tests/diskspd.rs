//! Command lines of diskspd: the workload for each option, and the texts of errors.

use crate::other_tools;

use iodyno_exchange::diskspd::parse;
use iodyno_exchange::fio::Job;
use other_tools::{is_workload, one, refusal, says};

fn job(options: &str) -> Job {
    one(parse(&format!("diskspd {options} x.dat")))
}

#[test]
fn options_mean_what_diskspd_means() {
    let limits = "[limits]\nramp = \"5s\"\ntime = \"10s\"\n";
    let whole = "active = \"0B..100%\"\n";
    let pattern =
        "[content]\nkind = \"compressible\"\ncompressible = \"100%\"\ndedupable = \"100%\"\n";
    let sequential = "[all]\naddresses = \"sequential\"\n";
    for (options, toml) in [
        (
            "-t1",
            format!(
                "depth = 2\nblock = \"64KiB\"\n{whole}mix = {{ read = 1e2 }}\n{sequential}{limits}"
            ),
        ),
        (
            "-b8K -d60 -o32 -t4 -r -w30 -Sh",
            format!(
                "threads = 4\ndepth = 32\nblock = \"8KiB\"\n{whole}mix = {{ read = 70, write = 30 }}\n[write]\nfua = \"100%\"\n{pattern}[limits]\nramp = \"5s\"\ntime = \"60s\"\n"
            ),
        ),
        (
            "-b4k -o1 -W0 -d5 -w100 -Zr -si -t2",
            format!(
                "threads = 2\nblock = \"4KiB\"\n{whole}mix = {{ write = 100 }}\n[all]\naddresses = {{ pattern = \"sequential\", shared = true }}\n[limits]\nramp = \"0s\"\ntime = \"5s\"\n"
            ),
        ),
        (
            "-r64K -b8K -Z -w50 -c1G",
            format!(
                "depth = 2\nblock = \"8KiB\"\naddress_align = \"64KiB\"\nactive = \"0B..1GiB\"\nmix = {{ read = 50, write = 50 }}\n[content]\nkind = \"zeroes\"\n{limits}"
            ),
        ),
        (
            "-r4K -b8K -Z -w50 -c1G",
            format!(
                "depth = 2\nblock = \"8KiB\"\nalign = \"4KiB\"\nactive = \"0B..1GiB\"\nmix = {{ read = 50, write = 50 }}\n[content]\nkind = \"zeroes\"\n{limits}"
            ),
        ),
        (
            "-b64K -B1G:512M -t4 -T128M",
            format!(
                "threads = 4\ndepth = 2\nblock = \"64KiB\"\nactive = \"1GiB..1536MiB\"\nmix = {{ read = 100 }}\n{sequential}{limits}"
            ),
        ),
        (
            "-f8192b -b4K -s64K",
            format!(
                "depth = 2\nblock = \"4KiB\"\nactive = \"0B..32MiB\"\nmix = {{ read = 100 }}\n[all]\naddresses = {{ pattern = \"strided\", stride = \"64KiB\" }}\n{limits}"
            ),
        ),
        (
            "-r -rdpct90/10:0/10:5/20",
            format!(
                "depth = 2\nblock = \"64KiB\"\n{whole}mix = {{ read = 100 }}\n[all]\naddresses = {{ pattern = \"hot-spots\", spots = [{{ share = 90, range = \"10%\" }}, {{ share = 0, range = \"10%\" }}, {{ share = 5, range = \"20%\" }}, {{ share = 5, range = \"60%\" }}] }}\n{limits}"
            ),
        ),
        (
            "-r -b64K -t2 -g1024",
            format!(
                "threads = 2\ndepth = 2\nblock = \"64KiB\"\n{whole}mix = {{ read = 100 }}\n[arrivals]\nkind = \"open\"\nrate = 31.25\nprocess = \"constant\"\n{limits}"
            ),
        ),
        (
            "-rs80 -b8K -w100 -Zr",
            format!(
                "depth = 2\nblock = \"8KiB\"\n{whole}mix = {{ write = 100 }}\n[all]\naddresses = {{ pattern = \"sequential\", jump = \"80%\" }}\n{limits}"
            ),
        ),
        (
            "-rs100 -b8K",
            format!("depth = 2\nblock = \"8KiB\"\n{whole}mix = {{ read = 100 }}\n{limits}"),
        ),
        ("-r -t2 -g500i -F2", String::new()),
        (
            "-r -t2 -g500i -L -D -Rxml -n",
            format!(
                "threads = 2\ndepth = 2\nblock = \"64KiB\"\n{whole}mix = {{ read = 100 }}\n[arrivals]\nkind = \"open\"\nrate = 1000\nprocess = \"constant\"\n{limits}"
            ),
        ),
    ] {
        if toml.is_empty() {
            refusal(options, parse(&format!("diskspd {options} x.dat")));
        } else {
            is_workload(&job(options), &toml);
        }
    }
    let (sh, sm) = (job("-Sh -r"), job("-Sm -r"));
    assert_eq!((sh.engine, sh.direct, sh.filename.as_deref()), (None, true, Some("x.dat")));
    assert_eq!((sm.engine, sm.direct), (Some("mmap"), false));
    assert!(
        !job("-r").direct && !job("-Sbw -r").direct && job("-S -r").direct && job("-h -r").direct
    );
    let windows = one(parse("C:\\tools\\diskspd.exe -r D:\\x.dat E:\\y.dat"));
    assert_eq!(windows.filename.as_deref(), Some("D:\\x.dat"));
    says(&windows.notes, "2 targets");
}

/// Percentages, ranges, lists and defaults, by diskspd's documentation of its command line.
#[test]
fn percentages_ranges_and_defaults_are_those_of_diskspd() {
    let text =
        |options: &str| job(options).toml.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    // Defaults: 64 KiB, one thread with 2 requests, reads from the start, 10 s after a warm-up of 5 s.
    for (option, without) in [
        ("-b64K -r", "-r"),
        ("-o2 -r", "-r"),
        ("-t1 -r", "-r"),
        ("-d10 -W5 -r", "-r"),
        ("-w0 -r", "-r"),
        ("-w -r", "-r"),
        ("-s", "-t1"),
        ("-s64K", "-t1"),
        ("-Sb -r", "-r"),
    ] {
        assert_eq!(text(option), text(without), "{option}");
    }
    // Suffixes are powers of 1024, and b counts blocks; -B is a base and a length, -f an end.
    let active = |options: &str| {
        job(options).toml.lines().find(|l| l.starts_with("active")).unwrap().to_owned()
    };
    assert_eq!(active("-r -b4K -B8b:16b"), active("-r -b4K -B32K:64K"));
    assert_eq!(active("-r -b4K -B32K:64K"), "active = \"32KiB..96KiB\"");
    assert_eq!(active("-r -f1M"), "active = \"0B..1MiB\"");
    // The rest of the I/O goes to the rest of the target.
    let addresses = |options: &str| {
        job(options).toml.lines().find(|l| l.starts_with("addresses")).unwrap().to_owned()
    };
    assert_eq!(addresses("-rdpct90/10"), addresses("-rdpct90/10:10/90"));
    for options in ["-w101 -r", "-rdpct90/110", "-rdpct60/10:60/10", "-rs0", "-rs101", "-w-1 -r"] {
        refusal(options, parse(&format!("diskspd {options} x.dat")));
    }
    // A refusal names the shell variable.
    for (line, name) in [
        ("diskspd -b$SIZE -r x.dat", "`$SIZE`"),
        ("diskspd -b${SIZE} -r x.dat", "`${SIZE}`"),
        ("diskspd -b%SIZE% -r x.dat", "`%SIZE%`"),
        ("diskspd -r $env:TARGET", "`$env`"),
    ] {
        let refused = refusal(line, parse(line));
        assert!(refused.contains(&format!("{name} is a shell variable")), "{refused}");
    }
    assert!(parse("diskspd -r \\\\host\\c$\\x.dat").is_ok());
}

#[test]
fn traps_are_explained() {
    for (options, words) in [
        ("-w100", "buffered writes measure the file cache"),
        ("-r -w10", "one pattern of 256 bytes"),
        ("-r -w10 -Z", "zeroes compress"),
        ("-r", "never written"),
        ("-r", "2 requests outstanding"),
        ("-r", "64 KiB"),
        ("-r -g100", "bytes per millisecond"),
    ] {
        says(&job(options).traps, words);
    }
    assert_eq!(job("-b4K -o1 -r -Sh -w100 -Zr").traps, []);
}

#[test]
fn refusals() {
    let all: Vec<String> = [
        "diskspd -t4 x.dat",
        "diskspd -t4 -T1M x.dat",
        "diskspd -t2 -F4 -r x.dat",
        "diskspd -F4 -r x.dat y.dat",
        "diskspd -r -w101 x.dat",
        "diskspd -r -w3x -d -W1m x.dat",
        "diskspd -rs50 -w30 x.dat",
        "diskspd -rs0 -rs50 -r4K -b8K x.dat",
        "diskspd -rs50 -rdpct90/10 x.dat",
        "diskspd -rdabs90/10G x.dat",
        "diskspd -rdpct90/10:20/90 x.dat",
        "diskspd -rdpct90 x.dat",
        "diskspd -b1000 -r x.dat",
        "diskspd -b4q -r x.dat",
        "diskspd -Xprofile.xml x.dat",
        "diskspd -a0,1 -i4 -j10 -p x.dat",
        "diskspd -Sx -Sr -q x.dat",
        "diskspd -Z1M,data.bin -w5 -r x.dat",
        "diskspd -r x.dat -d5",
        "diskspd -g0 -r -d0 x.dat",
        "diskspd -B1M:4M -f8M -r -O4 x.dat",
    ]
    .iter()
    .map(|line| refusal(line, parse(line)))
    .collect();
    insta::assert_snapshot!(all.join("\n\n"));
}
