//! Command lines of `amps_bio_perf_test`: the workload for each option, and the texts of errors.

use crate::other_tools;

use iodyno_exchange::amps::parse;
use iodyno_exchange::fio::Job;
use other_tools::{is_workload, one, refusal, says};

fn job(options: &str) -> Job {
    one(parse(&format!("amps_bio_perf_test {options}")))
}

const LOG: &str = "[write]\naddresses = { pattern = \"sequential\", shared = true }\n";
const LIMITS: &str = "[limits]\nramp = \"0s\"\ntime = \"10s\"\n";

#[test]
fn options_mean_what_the_documentation_says() {
    let whole = "active = \"0%..100%\"\n";
    for (options, toml) in [
        (
            "-b 128 -m 512",
            format!("block = \"64KiB\"\n{whole}mix = {{ write = 100 }}\n{LOG}{LIMITS}"),
        ),
        (
            "--batch_size=256 --message_size=128K --file_size 8192 -r 0",
            format!(
                "block = \"32MiB\"\nactive = \"0B..8GiB\"\nmix = {{ write = 100 }}\n{LOG}{LIMITS}"
            ),
        ),
        (
            "-b16 -m256 -r80 -f 512 -f /data/log",
            format!(
                "block = \"4KiB\"\nactive = \"0B..512MiB\"\nmix = {{ read = 80, write = 20 }}\n[read]\naddresses = {{ pattern = \"sequential\", run = 4096 }}\n{LOG}{LIMITS}"
            ),
        ),
        (
            "-b 256 -m 128K -r 99",
            format!(
                "block = \"32MiB\"\n{whole}mix = {{ read = 99, write = 1 }}\n[read]\naddresses = \"uniform\"\n{LOG}{LIMITS}"
            ),
        ),
    ] {
        let job = job(options);
        is_workload(&job, &toml);
        assert!(job.direct && job.engine.is_none(), "O_DIRECT");
    }
    let job = job("-b16 -m256 -r80 -f 512 -f /data/log");
    assert_eq!(job.filename.as_deref(), Some("/data/log"));
    says(&job.notes, "uses -f for both");
    says(&job.notes, "writes per second × batch size");
    says(&job.traps, "never written");
}

/// The command line of the published measurement gives the workloads of the catalog, except for their limits.
#[test]
fn the_published_mixes_are_the_catalogs() {
    for (options, name) in [("-r 0", "log-write"), ("-r 80", "log-80-20")] {
        let found = iodyno_catalog::find(iodyno_catalog::Kind::Workload, name).unwrap();
        let theirs = iodyno_workload::Spec::from_toml(&found.text).unwrap();
        let ours = job(options);
        says(&ours.traps, "128 messages of 512 B");
        let same = theirs.clone().with_ramp(0).unwrap();
        let about = |spec: &iodyno_workload::Spec| {
            let text = spec.to_toml();
            let lines =
                text.lines().filter(|l| !l.starts_with("about") && !l.starts_with("source"));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(about(&ours.spec), about(&same), "{name}");
    }
}

#[test]
fn what_is_refused() {
    for (options, words) in [
        ("-b 257", "`--batch_size` must be a whole number from 1 to 256, not `257`"),
        ("-b 0", "from 1 to 256"),
        ("-m 300", "not a multiple of 256 B"),
        ("-m 256K", "from 256B to 128KiB"),
        ("-r 100", "`--read_mix` must be a whole number from 0 to 99"),
        ("--file_size 8193", "from 1 to 8192"),
        ("--file_size", "`--file_size` has no value"),
        ("--batchsize 3", "did you mean `--batch_size`?"),
        ("-x 3", "has no option `-x`"),
        ("log.dat", "`log.dat` is not an option"),
        ("-b 1 -m 256 -f 'a", "does not end"),
    ] {
        let line = format!("amps_bio_perf_test {options}");
        let text = refusal(&line, parse(&line));
        assert!(text.contains(words), "{options}: {text}");
        assert!(text.contains("amps_bio_perf_test:1:"), "{text}");
    }
}
