//! Refuses flags of `run` that have no effect on the requested kind of work, rather than ignore them silently.

use crate::args::Run;
use crate::failure::Failure;
use crate::named_work::NamedWork;

/// Long name of each flag of `run`, and the kinds of work on which it has an effect. W: a workload, J: jobs
/// of another tool, S: a sweep or rate search, M: a method, V: a verification pass.
#[rustfmt::skip]
const FLAGS: [(&str, &str); 63] = [
    ("accept",          "WJSMV"),
    ("active",          "WJSMV"),
    ("block",           "WJS.V"),
    ("bytes",           "WJS.."),
    ("ceiling",         "..S.."),
    ("color",           "WJSMV"),
    ("constant",        "WJS.."),
    ("content",         "WJS.."),
    ("cpus",            "WJSMV"),
    ("depth",           "WJSMV"),
    ("destroy",         "WJSM."),
    ("dsync",           "WJS.."),
    ("each",            "..SM."),
    ("engine",          "WJSMV"),
    ("fill",            "WJS.."),
    ("find-rate",       "..S.."),
    ("fsync",           "WJS.."),
    ("help",            "WJSMV"),
    ("hot",             "WJS.."),
    ("insist-on-plain", "WJSMV"),
    ("interval",        "WJSMV"),
    ("json",            "WJSMV"),
    ("max-errors",      "WJSMV"),
    ("metrics",         "WJSMV"),
    ("name",            "WJSMV"),
    ("no-notebook",     "WJSMV"),
    ("notebook",        "WJSMV"),
    ("notes",           "WJSMV"),
    ("numa",            "WJSMV"),
    ("on",              "WJSMV"),
    ("on-host",         "WJSMV"),
    ("ops",             "WJS.."),
    ("order",           "..S.."),
    ("overlap",         "WJSMV"),
    ("pattern",         "WJS.."),
    ("plain-ring",      "WJSMV"),
    ("poll",            "WJSMV"),
    ("quiet",           "WJSMV"),
    ("ramp",            "WJS.V"),
    ("rate",            "WJS.."),
    ("read",            "WJS.."),
    ("read-only",       "WJSMV"),
    ("record-trace",    "WJS.V"),
    ("repeat",          "WJS.."),
    ("report",          "WJSMV"),
    ("require",         "WJSM."),
    ("reuse",           "...M."),
    ("scale",           "..SM."),
    // In a sweep, only over jobs of another tool.
    ("section",         ".J..."),
    ("seed",            "WJSMV"),
    ("series",          "WJSMV"),
    ("setting",         "...M."),
    ("shard",           "WJSMV"),
    ("shared",          "WJSMV"),
    ("strict",          "WJSMV"),
    ("system-clock",    "WJSMV"),
    ("threads",         "WJSMV"),
    ("time",            "WJS.V"),
    ("vary",            "..S.."),
    ("verbose",         "WJSMV"),
    ("verify-only",     "....V"),
    ("with",            "WJS.."),
    ("zipf",            "WJS.."),
];

/// Letters of the kinds of work on which a flag has an effect.
fn works_of(flag: &str) -> &'static str {
    FLAGS.iter().find(|(known, _)| *known == flag).map_or("WJSMV", |(_, works)| works)
}

/// Refuses flags that have no effect on the given kind of work; `None`: a verification pass.
///
/// # Errors
/// The first such flag.
pub(crate) fn check(flags: &Run, work: Option<&NamedWork>) -> Result<(), Failure> {
    let is_sweep = is_sweep(flags);
    let letters: &[char] = match work {
        None => &['V'],
        Some(NamedWork::Method(_)) => &['M'],
        Some(NamedWork::Jobs(_)) if is_sweep => &['S', 'J'],
        Some(NamedWork::Jobs(_)) => &['J'],
        Some(NamedWork::Workloads(_)) if is_sweep => &['S'],
        Some(NamedWork::Workloads(_)) => &['W'],
    };
    match flags.given.all().find(|flag| !works_of(flag).contains(letters)) {
        None => Ok(()),
        Some(flag) => Err(Failure::input(refusal(flag, work, is_sweep))),
    }
}

/// Whether the command line requests a sweep or a rate search.
pub(crate) fn is_sweep(flags: &Run) -> bool {
    !flags.vary.is_empty() || flags.find_rate.is_some()
}

fn refusal(flag: &str, work: Option<&NamedWork>, is_sweep: bool) -> String {
    let Some(work) = work else {
        return format!(
            "--{flag} has no effect with --verify-only, which reads all of each target and writes nothing: leave out one of the two flags"
        );
    };
    let name = work.shown();
    match (work, flag) {
        (NamedWork::Method(_), "vary" | "find-rate") => format!(
            "`{name}` is a method whose file defines the variations: take --{flag} out, or name a workload"
        ),
        (NamedWork::Method(_), "record-trace") => {
            format!(
                "`{name}` is a method, but --{flag} records one cell of a workload: take out --{flag}"
            )
        }
        (_, "section") => {
            format!(
                "--{flag} chooses jobs of another tool's file, but `{name}` is not such a file: leave --{flag} out"
            )
        }
        (NamedWork::Method(_), "time" | "ramp") => {
            no_effect(flag, name, "for each of its cells", ", or use --scale for shorter times")
        }
        (NamedWork::Method(_), _) => no_effect(flag, name, "for each of its cells", ""),
        _ if is_sweep => {
            format!("--{flag} has no effect on a sweep, only on a method: take it out")
        }
        (_, "scale" | "each") => format!(
            "--{flag} is for methods and for sweeps by --vary, but `{name}` is a workload: take it out"
        ),
        _ => format!(
            "--{flag} is for methods, but `{name}` is a workload: `iodyno catalog` lists both"
        ),
    }
}

/// Error message for a flag without effect, because the method's file determines the value.
pub(crate) fn no_effect(flag: &str, method: &str, how: &str, or: &str) -> String {
    format!(
        "--{flag} has no effect on a method: `{method}` sets this {how}. Copy its file (`iodyno catalog {method}`) and change it there{or}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::run::{named_work, request_for};
    use clap::CommandFactory as _;
    use iodyno_run::RunRequest;
    use std::collections::{BTreeMap, BTreeSet};

    /// An example command line for each kind of work, by its letter.
    const WORKS: [(char, &str); 5] = [
        ('W', "random-read"),
        ('J', "fio-line"),
        ('S', "random-read --vary threads=1,2"),
        ('M', "pts-lat"),
        ('V', "--verify-only"),
    ];

    fn parsed(work: &str, flag: &str) -> Result<Box<Run>, String> {
        let words = ["iodyno", "run"].into_iter().chain(work.split(' '));
        let words = words.map(|word| match word {
            "fio-line" => "fio --name=a --rw=randread --filename=a --stonewall --name=b --rw=read --filename=a",
            word => word,
        });
        let words =
            words.chain(["--on", "null:1GiB"]).chain(flag.split(' ').filter(|w| !w.is_empty()));
        let words: Vec<std::ffi::OsString> = words.map(Into::into).collect();
        let cli = Cli::of_words(&words).map_err(|e| e.to_string())?;
        let Command::Run(flags) = cli.command else { unreachable!() };
        Ok(flags)
    }

    fn said(work: &str, flag: &str) -> Option<String> {
        let flags = match parsed(work, flag) {
            Ok(flags) => flags,
            Err(text) => return Some(text),
        };
        let work = named_work(&flags).unwrap();
        check(&flags, work.as_ref()).err().map(|failure| failure.render(false))
    }

    /// The run that a command line requests, even if its flags are refused later; None if it can't be parsed or
    /// resolved.
    fn requested(work: &str, flag: &str) -> Option<RunRequest> {
        let flags = parsed(work, flag).ok()?;
        request_for(named_work(&flags).ok()?, &flags).ok()
    }

    /// Describes an error in a row of the table of flags. The flag must change the requested run if the kind of work
    /// is listed in the row, and must leave it unchanged otherwise. Returns None if there is no error.
    fn mistake(letter: char, work: &str, words: &str, works: &str) -> Option<String> {
        let has_effect = requested(work, words)? != requested(work, "")?;
        (has_effect != works.contains(letter)).then(|| format!("{work} {words}: {has_effect}"))
    }

    /// Finds flags that clap would accept without the flag that they require. It drops a requirement if a given flag
    /// conflicts with the required one. A flag must therefore conflict with all that its required flag conflicts with.
    fn ignored_flags(command: &clap::Command, found: &mut Vec<String>) {
        let conflicts = |a: &clap::Arg, b: &clap::Arg| {
            let of = |a: &clap::Arg, b: &clap::Arg| {
                command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id())
            };
            of(a, b) || of(b, a)
        };
        for flag in command.get_arguments() {
            // The list of required flags is not public.
            let shown = format!("{flag:?}");
            let (_, requires) = shown.split_once(", requires: [").unwrap();
            let (requires, _) = requires.split_once(']').unwrap();
            // A flag that is required only for one of the values is checked by its command.
            for id in
                requires.split('"').skip(1).step_by(2).filter(|_| !requires.contains("Equals"))
            {
                let needed = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
                for other in command.get_arguments().filter(|other| conflicts(needed, other)) {
                    if !conflicts(flag, other) && flag.get_id() != other.get_id() {
                        let ids = [flag, needed, other].map(|arg| arg.get_id().as_str());
                        found.push(format!("{}: {}", command.get_name(), ids.join(", ")));
                    }
                }
            }
        }
        command.get_subcommands().for_each(|command| ignored_flags(command, found));
    }

    #[test]
    fn no_flag_is_ignored_because_the_one_that_it_needs_is_refused() {
        let mut cli = Cli::command();
        cli.build();
        let mut found = Vec::new();
        ignored_flags(&cli, &mut found);
        assert_eq!(
            found, [""; 0],
            "a flag, the one that it requires, and one in conflict with that"
        );
    }

    /// Every flag is in the table. It is refused for the kinds of work that its row excludes, and changes the
    /// requested run for all others.
    #[test]
    fn each_flag_is_refused_where_it_has_no_effect() {
        let mut cli = Cli::command();
        cli.build();
        let run = cli.find_subcommand("run").unwrap();
        let there: BTreeSet<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        let known: BTreeSet<&str> = FLAGS.iter().map(|(flag, _)| *flag).collect();
        assert_eq!(there, known, "each flag of `run` has a row in FLAGS");
        let values = BTreeMap::from([
            ("active", "0%..50%"),
            ("block", "8KiB"),
            ("read", "70%"),
            ("pattern", "sequential"),
            ("zipf", "1.1"),
            ("hot", "80/20"),
            ("fsync", "8"),
            ("with", "seq-write"),
            ("record-trace", "a.trace"),
            ("section", "a"),
            ("find-rate", "p99<1ms"),
            ("rate", "1k/s"),
            ("content", "zeroes"),
            ("time", "3s"),
            ("ramp", "2s"),
            ("interval", "500ms"),
            ("ops", "2"),
            ("repeat", "2"),
            ("seed", "2"),
            ("depth", "2"),
            ("threads", "2"),
            ("max-errors", "2"),
            ("numa", "0"),
            ("cpus", "0"),
            ("engine", "psync"),
            ("bytes", "1MiB"),
            ("vary", "depth=1,2"),
            ("setting", "client"),
            ("scale", "0.5"),
            ("require", "p99<1s"),
            ("name", "a"),
            ("destroy", "a"),
            ("shard", "1/2"),
            ("metrics", "0"),
            ("on-host", "a=null:"),
            ("notebook", "a"),
        ]);
        // Flags that need another one, whose row decides; and those that are not of the request.
        let skipped = [
            "accept",
            "constant",
            "order",
            "ceiling",
            "insist-on-plain",
            "on",
            "help",
            "version",
            "color",
            "verify-only",
        ];
        // A trace is of one cell; a sweep prepares nothing that it could reuse.
        let refused_on_purpose = [('M', &"record-trace"), ('S', &"reuse")];
        let mut mistakes = Vec::new();
        // These are not in the request.
        let of_output = [
            "json",
            "series",
            "quiet",
            "notes",
            "verbose",
            "report",
            "notebook",
            "no-notebook",
            "strict",
            "metrics",
        ];
        for (flag, works) in FLAGS.iter().filter(|(flag, _)| !skipped.contains(flag)) {
            let words = format!("--{flag} {}", values.get(flag).unwrap_or(&""));
            for (letter, work) in WORKS {
                // Flags that make a sweep are not flags of the workload, and some flags exclude each other.
                let makes_sweep = "WJ".contains(letter) && ["vary", "find-rate"].contains(flag);
                let excluded =
                    letter == 'S' && ["find-rate", "ops", "bytes", "with"].contains(flag);
                if makes_sweep || excluded {
                    continue;
                }
                let refused = said(work, words.trim());
                assert_eq!(
                    refused.is_none(),
                    works.contains(letter),
                    "{work} {words}: {refused:?}"
                );
                assert!(refused.is_none_or(|text| text.contains(&format!("--{flag}"))), "{words}");
                if !of_output.contains(flag) && !refused_on_purpose.contains(&(letter, flag)) {
                    mistakes.extend(mistake(letter, work, words.trim(), works));
                }
            }
        }
        assert!(mistakes.is_empty(), "{mistakes:#?}");
        assert_eq!(said("fio-line --vary threads=1,2", "--section a"), None);
        assert_eq!(said("pts-lat", "--repeat 1"), None, "the default has no effect");
    }
}
