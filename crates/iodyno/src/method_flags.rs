//! The flags of `run` that have an effect with a method. A flag without effect is refused: otherwise it would be
//! ignored silently.

use crate::args::Run;
use crate::failure::Failure;
use iodyno_method::{Choice, Method, MethodSource};
use iodyno_targets::TargetName;

/// Refuses flags for workloads, given with a method from the catalog or a file.
///
/// # Errors
/// The first such flag.
pub(crate) fn refuse_of_workloads(flags: &Run) -> Result<(), Failure> {
    let alone = [
        ("--record-trace", "records one cell of a workload", flags.record_trace.is_some()),
        ("--section", "chooses jobs of a job file", !flags.section.is_empty()),
    ];
    if let Some((flag, what, _)) = alone.into_iter().find(|(_, _, given)| *given) {
        let words = format!("{flag} {what}, and `{}` is a method: take it out", flags.workload);
        return Err(Failure::input(words));
    }
    let given = [
        ("--block", flags.block.is_some()),
        ("--read", flags.read.is_some()),
        ("--pattern", flags.pattern.is_some()),
        ("--zipf", flags.zipf.is_some()),
        ("--hot", flags.hot.is_some()),
        ("--fsync", flags.fsync.is_some()),
        ("--dsync", flags.dsync),
        ("--fill", flags.fill.is_some()),
        ("--with", !flags.with.is_empty()),
        ("--rate", flags.rate.is_some()),
        ("--content", flags.content.is_some()),
        ("--time", flags.time.is_some()),
        ("--ramp", flags.ramp.is_some()),
        ("--ops", flags.ops.is_some()),
        ("--bytes", flags.bytes.is_some()),
        ("--repeat", flags.repeat > 1),
    ];
    let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    Err(no_effect(flag, flags, "for each of its cells", ", or use --scale for shorter times"))
}

/// Refuses choices that the method's file does not leave open: the method is the same without them, and with any
/// other value.
///
/// # Errors
/// The first such flag.
pub(crate) fn refuse_closed_choices(source: &MethodSource, flags: &Run) -> Result<(), Failure> {
    let stages = |choice: Choice| {
        Method::new(MethodSource { choice, ..source.clone() }).ok().map(|m| (m.stages, m.setting))
    };
    let mine = &source.choice;
    let mut others: Vec<(&str, Choice)> = Vec::new();
    // Another valid value.
    let next = |n: u32| if n < 512 { n + 1 } else { n - 1 };
    if let Some(n) = mine.threads {
        others.push(("--threads", Choice { threads: Some(next(n)), ..mine.clone() }));
    }
    if let Some(n) = mine.depth {
        others.push(("--depth", Choice { depth: Some(next(n)), ..mine.clone() }));
    }
    if let Some(range) = &mine.active {
        let other = if range == "0%..50%" { "0%..25%" } else { "0%..50%" };
        others.push(("--active", Choice { active: Some(other.to_owned()), ..mine.clone() }));
    }
    let with = stages(mine.clone());
    for (flag, other) in others {
        if with.is_some() && with == stages(other) {
            return Err(no_effect(flag, flags, "itself in each of its stages", ""));
        }
    }
    let real = |target: &TargetName| !matches!(target, TargetName::Model(_));
    if flags.reuse {
        let prepares = Method::new(source.clone()).is_ok_and(|m| {
            m.purges() || m.stages.iter().any(|s| matches!(s.act, iodyno_method::Act::Fill(_)))
        });
        if !prepares {
            return Err(Failure::input(format!(
                "--reuse has no effect on `{}`, which neither purges nor fills: take it out",
                flags.workload
            )));
        }
        if !flags.on.iter().any(real) {
            return Err(Failure::input(
                "--reuse has no effect on emulated targets, whose state is constructed: take it out",
            ));
        }
    }
    Ok(())
}

/// Refuses flags for methods, given with a sweep by `--vary`, which has no settings and no preparation.
///
/// # Errors
/// The first such flag.
pub(crate) fn refuse_of_files(flags: &Run) -> Result<(), Failure> {
    let given = [("--setting", flags.setting.is_some()), ("--reuse", flags.reuse)];
    let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    Err(Failure::input(format!(
        "{flag} has no effect on a sweep by --vary: it is for methods of the catalog or of a file; take it out"
    )))
}

fn no_effect(flag: &str, flags: &Run, how: &str, or: &str) -> Failure {
    Failure::input(format!(
        "{flag} has no effect on a method, and `{}` says it {how}: copy its file (`iodyno catalog {0}`) and change it there{or}",
        flags.workload
    ))
}

/// Refuses flags for methods, given with a workload.
///
/// # Errors
/// The first such flag.
pub(crate) fn refuse_of_methods(flags: &Run) -> Result<(), Failure> {
    let given = [
        ("--setting", flags.setting.is_some()),
        ("--scale", flags.scale.is_some()),
        ("--each", flags.each),
        ("--reuse", flags.reuse),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::input(format!(
            "{flag} is for methods, and `{}` is a workload: `iodyno catalog` lists both",
            flags.workload
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::{CommandFactory as _, Parser as _};
    use std::collections::BTreeSet;

    /// The effect of a flag on a method.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Means {
        /// It applies to the run, the targets or the output, with any work.
        Always,
        /// It applies to the cells of a workload; with a method, the file defines them.
        NotOfMethods,
        /// It applies only to sweeps by `--vary`.
        OfSweeps,
        /// It replaces a workload or method.
        Instead,
        /// It is a choice that the method's file may leave open.
        IfOpen,
    }

    /// Each flag of `run` by its long name.
    const FLAGS: [(&str, Means); 62] = [
        ("verify-only", Means::Instead),
        ("on", Means::Always),
        ("threads", Means::IfOpen),
        ("depth", Means::IfOpen),
        ("block", Means::NotOfMethods),
        ("read", Means::NotOfMethods),
        ("pattern", Means::NotOfMethods),
        ("zipf", Means::NotOfMethods),
        ("hot", Means::NotOfMethods),
        ("fsync", Means::NotOfMethods),
        ("dsync", Means::NotOfMethods),
        ("fill", Means::NotOfMethods),
        ("with", Means::NotOfMethods),
        ("record-trace", Means::NotOfMethods),
        ("section", Means::NotOfMethods),
        ("cpus", Means::Always),
        ("numa", Means::Always),
        ("rate", Means::NotOfMethods),
        ("constant", Means::NotOfMethods),
        ("active", Means::IfOpen),
        ("content", Means::NotOfMethods),
        ("seed", Means::Always),
        ("repeat", Means::NotOfMethods),
        ("vary", Means::OfSweeps),
        ("find-rate", Means::OfSweeps),
        ("order", Means::OfSweeps),
        ("ceiling", Means::OfSweeps),
        ("setting", Means::IfOpen),
        ("scale", Means::Always),
        ("each", Means::Always),
        ("reuse", Means::IfOpen),
        ("time", Means::NotOfMethods),
        ("ramp", Means::NotOfMethods),
        ("ops", Means::NotOfMethods),
        ("bytes", Means::NotOfMethods),
        ("max-errors", Means::Always),
        ("engine", Means::Always),
        ("poll", Means::Always),
        ("plain-ring", Means::Always),
        ("system-clock", Means::Always),
        ("require", Means::Always),
        ("name", Means::Always),
        ("read-only", Means::Always),
        ("destroy", Means::Always),
        ("json", Means::Always),
        ("series", Means::Always),
        ("interval", Means::Always),
        ("quiet", Means::Always),
        ("metrics", Means::Always),
        ("insist-on-plain", Means::Always),
        ("notes", Means::Always),
        ("verbose", Means::Always),
        ("no-notebook", Means::Always),
        ("shard", Means::Always),
        ("on-host", Means::Always),
        ("shared", Means::Always),
        ("overlap", Means::Always),
        ("report", Means::Always),
        ("notebook", Means::Always),
        ("color", Means::Always),
        ("help", Means::Always),
        ("version", Means::Always),
    ];

    fn said(flag: &str, method: &str) -> Option<String> {
        let words = format!("iodyno run {method} --on null:1GiB {flag}");
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let crate::args::Command::Run(flags) = &cli.command else { unreachable!() };
        let refused = crate::method::source(flags).err();
        refused.map(|failure| failure.render(false))
    }

    /// A new flag must be classified here, and flags that no method accepts are refused.
    #[test]
    fn each_flag_is_known_to_mean_something_or_is_refused() {
        let mut cli = Cli::command();
        cli.build();
        let run = cli.find_subcommand("run").unwrap();
        let there: BTreeSet<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        let known: BTreeSet<&str> = FLAGS.iter().map(|(flag, _)| *flag).collect();
        let missing: Vec<_> = there.difference(&known).collect();
        assert!(missing.is_empty(), "say in FLAGS what they do to a method: {missing:?}");
        let value = |flag: &str| match flag {
            "block" => "4KiB",
            "read" => "70%",
            "pattern" => "random",
            "zipf" => "1.1",
            "hot" => "80/20",
            "fsync" => "8",
            "dsync" | "fill" => "",
            "with" => "seq-write",
            "record-trace" => "a.trace",
            "section" => "job",
            "find-rate" => "p99<1ms",
            "rate" => "1k/s",
            "content" => "zeroes",
            "time" | "ramp" => "1s",
            "ops" | "repeat" => "2",
            "bytes" => "1MiB",
            "vary" => "depth=1,2",
            other => panic!("--{other} has no value here"),
        };
        for (flag, means) in FLAGS {
            // These require another flag, which is refused.
            if ["constant", "order", "ceiling"].contains(&flag) {
                continue;
            }
            if matches!(means, Means::NotOfMethods | Means::OfSweeps) {
                let refused = said(format!("--{flag} {}", value(flag)).trim_end(), "pts-lat");
                assert!(refused.is_some_and(|text| text.contains(flag)), "{flag}");
            }
        }
    }

    /// A choice is refused if the file makes it, and accepted if the file leaves it open.
    #[test]
    fn a_choice_is_taken_where_it_is_open() {
        for (flag, method, refused) in [
            ("--depth 3", "pts-lat", true),
            ("--threads 3", "pts-lat", true),
            ("--depth 3", "pts-iops", false),
            ("--threads 3", "pts-iops", false),
            ("--active 0%..50%", "pts-lat", false),
            ("--reuse", "depth", true),
            ("--reuse", "pts-iops", false),
            ("--setting client", "pts-iops", false),
        ] {
            let text = said(flag, method);
            assert_eq!(text.is_some(), refused, "{method} {flag}: {text:?}");
        }
        assert!(said("--setting client", "random-read --vary depth=1,2").is_some());
    }
}
