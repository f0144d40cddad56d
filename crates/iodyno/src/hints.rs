//! Suggestions for mistaken arguments, such as fio's names of workloads and flags, or a target in place of a workload.

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use iodyno_catalog::{Kind, list};
use iodyno_targets::TargetName;
use iodyno_units::nearest;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Terms of fio and SNIA for workloads and methods, with iodyno's equivalents.
const WORKLOADS: [(&[&str], &str); 12] = [
    (&["randread", "rand-read", "rread"], "`random-read`"),
    (&["randwrite", "rand-write", "rwrite"], "`random-write`"),
    (
        &["randrw", "rw-random", "randomrw", "mixed", "mix", "oltp"],
        "a random mix such as `db-oltp` (70 % reads of 8 KiB) or `oltp1` (60 % reads of 4 KiB); `random-read --read 70%` sets any share",
    ),
    (&["read", "seqread", "sequential-read"], "`seq-read`"),
    (&["write", "seqwrite", "sequential-write"], "`seq-write`"),
    (&["rw", "readwrite", "seqrw"], "`seq-read` or `seq-write`; `seq-read --read 70%` mixes both"),
    (
        &["pts", "snia", "snia-pts", "sss-pts"],
        "one of SNIA's tests: `pts-iops`, `pts-tp`, `pts-lat`, `pts-wsat`, `pts-hir`, `pts-xsr`, `pts-cbw`, `pts-dirth`",
    ),
    (
        &["latency", "lat"],
        "`pts-lat` (SNIA's latency test), or `load-latency` (latency over offered load)",
    ),
    (&["wsat", "saturation"], "`pts-wsat`"),
    (&["sweep"], "a workload with `--vary`, such as `iodyno run random-read --vary depth=1,2,4,8`"),
    (&["trim", "randtrim"], "a workload file of your own with `mix = { trim = 1 }`"),
    (&["steady-state", "steady"], "`pts-iops`, which continues until the steady state"),
];

/// Flags of fio, with iodyno's equivalents.
const FLAGS: [(&[&str], &str); 25] = [
    (
        &["rw", "readwrite"],
        "the workload's name decides what is issued: `iodyno run random-read`; `iodyno catalog` lists all workloads",
    ),
    (
        &["bs", "blocksize", "bsrange", "bssplit"],
        "use --block, such as `--block 4KiB` or `--block 4KiB:60,8KiB:40`",
    ),
    (&["iodepth", "qd", "queue-depth"], "use --depth"),
    (&["numjobs", "jobs", "workers"], "use --threads"),
    (&["runtime", "duration", "timeout"], "use --time, such as `--time 30s`"),
    (&["ramp_time", "ramp-time", "warmup"], "use --ramp, such as `--ramp 5s`"),
    (
        &["reads", "rwmixread", "rwmixwrite", "mix", "write"],
        "use --read, such as `--read 70%`, or vary it: `--vary read=100%,70%,0%`",
    ),
    (
        &["filename", "target", "device", "directory", "file"],
        "use --on, such as `--on /dev/nvme1n1` or `--on data.bin?size=8GiB`",
    ),
    (
        &["size", "filesize", "io_size"],
        "set the size in the target: `--on data.bin?size=8GiB`; --active limits the part that is used, --bytes the data transferred",
    ),
    (&["ioengine"], "use --engine: uring, libaio, psync or mmap"),
    (
        &["direct", "buffered"],
        "append `?direct=yes` or `?direct=no` to the target; the default is direct I/O where the target supports it",
    ),
    (&["uncached"], "append it to the target: `--on 'data.bin?uncached=yes'`"),
    (
        &["rate_iops", "rate-iops", "iops"],
        "use --rate, such as `--rate 50k/s`: the rate of each target, summed over its workers",
    ),
    (&["randseed", "random-seed"], "use --seed"),
    (&["loops", "repeats", "runs"], "use --repeat"),
    (&["verify", "do_verify"], "use `--content verifiable`"),
    (
        &["output", "output-format", "o"],
        "use --json; `iodyno export last --format fio-json` writes fio's format",
    ),
    (&["number_ios"], "use --ops"),
    (
        &["time_based", "group_reporting", "norandommap", "thread"],
        "leave it out: iodyno always works this way",
    ),
    (
        &["random_distribution", "zoned", "rand"],
        "use --pattern, such as `--pattern zipf=1.1` or `--pattern hot=80/20`",
    ),
    (
        &["fdatasync", "sync"],
        "use --fsync N for a flush after N writes, or --dsync for writes that are durable when they complete",
    ),
    (&["cpus_allowed", "cpumask"], "use --cpus, such as `--cpus 0-3`"),
    (&["numa_cpu_nodes", "numa_mem_policy"], "use --numa NODE"),
    (&["thinktime"], "use `--vary think=1ms`, or `think_time` in a workload file"),
    (
        &["force", "yes", "overwrite"],
        "use --destroy NAME, with the name of the target to be overwritten",
    ),
];

/// Rewrites clap's message about a number out of range, such as `0 is not in 1..=65536`, as a sentence. `None` for
/// other errors.
pub(crate) fn of_range(error: &clap::Error, color: bool) -> Option<String> {
    const IS_NOT_IN: &str = " is not in ";
    let rendered = error.render();
    let text = if color { rendered.ansi().to_string() } else { rendered.to_string() };
    let at = text.find(IS_NOT_IN).filter(|_| error.kind() == ErrorKind::ValueValidation)?;
    let (before, range) = (&text[..at], &text[at + IS_NOT_IN.len()..]);
    let end = range.find('\n').unwrap_or(range.len());
    let (least, most) = range[..end].split_once("..=")?;
    let number = before.rfind(": ")? + 2;
    Some(format!("{}must be from {least} to {most}{}", &before[..number], &range[end..]))
}

/// Returns a hint for an unexpected argument: iodyno's equivalent of another tool's flag, or how to name a
/// target.
pub(crate) fn of_flag(error: &clap::Error, takes_targets: bool) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if !flag.starts_with('-') && takes_targets {
        return Some(format!(
            "error: unexpected argument '{flag}': targets are given by --on: `--on {flag}`\n\nFor more information, try '--help'.\n"
        ));
    }
    let name = flag.trim_start_matches('-').split('=').next()?;
    let (_, hint) = FLAGS.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!(
        "error: unexpected argument '{flag}': {hint}\n\nFor more information, try '--help'.\n"
    ))
}

/// Refuses a path that does not exist, has no `?size=`, and equals the name of an emulated device: probably the prefix
/// `model:` is missing.
///
/// # Errors
/// The error suggests the full name.
pub(crate) fn check_target(target: &TargetName) -> Result<(), Failure> {
    let TargetName::Path { path, size_bytes: None, .. } = target else { return Ok(()) };
    let Some(name) = path.to_str() else { return Ok(()) };
    let is_device =
        [Kind::Device, Kind::System].into_iter().any(|k| list(k).any(|(n, _)| n == name));
    if !is_device || path.exists() {
        return Ok(());
    }
    Err(Failure::input(format!(
        "there is no file `{name}`, and the catalog has a device of that name: give `--on model:{name}` for virtual time, or `--on live:{name}` for real time"
    )))
}

/// Refuses a name that is neither a workload nor a method, and suggests what was probably meant. Does not
/// check paths, which may be workload files.
///
/// # Errors
/// The name is a target's, or not in the catalog.
pub(crate) fn check_workload(name: &str) -> Result<(), Failure> {
    if [Kind::Workload, Kind::Method].into_iter().any(|kind| list(kind).any(|(n, _)| n == name)) {
        return Ok(());
    }
    if is_target(name) {
        return Err(Failure::input(format!(
            "`{name}` is a target, and a workload or a method is needed here: `iodyno run four-corners --on {name}`; `iodyno catalog` lists both"
        )));
    }
    let is_path = name.contains('/') || Path::new(name).extension().is_some_and(|e| e == "toml");
    if is_path {
        return Ok(());
    }
    let is_in = |kind| list(kind).any(|(n, _)| n == name);
    let hint = if is_in(Kind::Device) {
        format!("it is a device: `iodyno run four-corners --on model:{name}`; ")
    } else if is_in(Kind::System) {
        format!("it is a system: `iodyno run four-corners --on model:DEVICE*4@{name}`; ")
    } else if is_in(Kind::Study) {
        format!("it is a study: `iodyno study {name}`; ")
    } else {
        meant(name).map(|near| format!("did you mean {near}? ")).unwrap_or_default()
    };
    Err(Failure::input(format!(
        "there is no workload or method named `{name}`: {hint}`iodyno catalog` lists them; a file of your own is given by a path that contains `/` or ends in `.toml`"
    )))
}

/// Returns similar catalog names, as text for an error message; None if there are none.
fn meant(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase().replace('_', "-");
    if let Some((_, ours)) = WORKLOADS.iter().find(|(theirs, _)| theirs.contains(&&*lower)) {
        return Some((*ours).to_owned());
    }
    let known = || [Kind::Workload, Kind::Method].into_iter().flat_map(list).map(|(n, _)| n);
    if let Some(near) = nearest(&lower, known()) {
        return Some(format!("`{near}`"));
    }
    let begun: Vec<String> =
        known().filter(|n| n.starts_with(&lower)).map(|n| format!("`{n}`")).collect();
    (!lower.is_empty() && !begun.is_empty()).then(|| begun.join(", "))
}

/// Whether a word names a target: it has the form of one, or is a device, or a file too large for a workload.
fn is_target(word: &str) -> bool {
    let schemes = [
        "scratch:",
        "ram:",
        "null:",
        "nbd:",
        "nbd+unix:",
        "nbds:",
        "nbds+unix:",
        "model:",
        "live:",
    ];
    if schemes.iter().any(|s| word.starts_with(s)) || word.contains("?size=") {
        return true;
    }
    let is_toml =
        Path::new(word).extension().is_some_and(|e| e == "toml" || e == "fio" || e == "vdb");
    if is_toml || word.contains('/') && word.parse::<TargetName>().is_err() {
        return false;
    }
    let Ok(found) = std::fs::metadata(word) else { return word.starts_with("/dev/") };
    let kind = found.file_type();
    kind.is_block_device()
        || kind.is_char_device()
        || kind.is_file() && found.len() > iodyno_catalog::MAX_FILE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::{CommandFactory as _, Parser as _};

    /// No flag of fio in the table is also a flag of iodyno, and every `--flag` and catalog name in a hint
    /// exists.
    #[test]
    fn hints_name_existing_flags_and_entries() {
        let run = Cli::command().find_subcommand("run").unwrap().clone();
        let ours: Vec<String> =
            run.get_arguments().filter_map(|a| a.get_long().map(str::to_owned)).collect();
        for (theirs, hint) in FLAGS {
            assert!(theirs.iter().all(|t| !ours.iter().any(|o| o == t)), "{theirs:?}");
            for word in hint.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
                if let Some(flag) = word.strip_prefix("--") {
                    let known = ours.iter().any(|o| o == flag) || flag == "format";
                    assert!(known, "{theirs:?}: --{flag}");
                }
            }
        }
        let known: Vec<&str> =
            [Kind::Workload, Kind::Method].into_iter().flat_map(list).map(|(n, _)| n).collect();
        for (theirs, hint) in WORKLOADS {
            assert!(theirs.iter().all(|t| !known.contains(t)), "{theirs:?}");
            let named: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
            for name in named.iter().filter(|n| !n.contains([' ', '=']) && !n.starts_with('-')) {
                assert!(known.contains(name), "{theirs:?}: {name}");
            }
        }
    }

    #[test]
    fn names_of_other_tools_get_a_hint() {
        for (typed, ours) in [
            ("randread", "`random-read`"),
            ("RandRead", "`random-read`"),
            ("randrw", "`db-oltp`"),
            ("pts", "`pts-iops`"),
            ("read", "`seq-read`"),
            ("fourcorners", "`four-corners`"),
            ("pts-laten", "`pts-lat`"),
        ] {
            let found = meant(typed).unwrap_or_default();
            assert!(found.contains(ours), "{typed}: {found}");
        }
        assert_eq!(meant("zzzzzz"), None);
        for flag in
            ["--rw=randread", "--bs=4k", "--iodepth", "--numjobs", "--runtime", "--rwmixread"]
        {
            let error = Cli::try_parse_from(["iodyno", "run", "random-read", flag]).unwrap_err();
            let said = of_flag(&error, true).unwrap_or_else(|| panic!("{flag}: {error}"));
            assert!(said.contains(flag.split('=').next().unwrap()), "{said}");
        }
        let error = Cli::try_parse_from(["iodyno", "run", "x", "--dpth", "1"]).unwrap_err();
        assert_eq!(of_flag(&error, true), None, "clap's own suggestion is better");
        let error = Cli::try_parse_from(["iodyno", "run", "random-read", "t.img"]).unwrap_err();
        let said = of_flag(&error, true).unwrap();
        assert!(said.contains("targets are given by --on: `--on t.img`"), "{said}");
        assert_eq!(of_flag(&error, false), None);
    }

    #[test]
    fn a_number_out_of_range_is_told_its_range() {
        for (value, range) in
            [("0", "must be from 1 to 65536"), ("65537", "must be from 1 to 65536")]
        {
            let error = Cli::try_parse_from(["iodyno", "run", "random-read", "--depth", value])
                .unwrap_err();
            let said = of_range(&error, false).unwrap();
            assert!(said.contains(&format!("'--depth <N>': {range}\n")), "{said}");
        }
        let error =
            Cli::try_parse_from(["iodyno", "run", "random-read", "--depth", "x"]).unwrap_err();
        assert_eq!(of_range(&error, false), None);
    }
}
