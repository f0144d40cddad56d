//! Collects the inputs of a method for `run`: the method's file, workload files and flags. The command line names the
//! method or its file, or defines a method by `--vary`.

use crate::args::Run;
use crate::failure::Failure;
use crate::fill_first;
use crate::legal_flags::no_effect;
use crate::named_work::{Workloads, shown_method};
use crate::overrides::{check_content, override_all};
use iodyno_catalog::{File, Kind, find};
use iodyno_method::{Axis, AxisKind, Choice, Method, MethodSource, Sweep, Value};
use iodyno_run::{find_work, volumes};
use iodyno_targets::TargetName;
use std::collections::BTreeMap;

/// A sweep that the command line requests, and descriptions of the changes that other flags make to its
/// workload.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) source: MethodSource,
    /// Descriptions of the changes that flags make to the workload, such as `depth 8`.
    pub(crate) changes: Vec<String>,
}

/// Reads a method from its file, and applies the flags for setting, threads, depth, active range and scale.
pub(crate) fn of_file(file: File, flags: &Run) -> Result<MethodSource, Failure> {
    let choice = Choice {
        setting: flags.setting.clone(),
        threads: flags.threads,
        depth: flags.depth,
        active: flags.active.map(|active| active.to_string()),
        scale: flags.scale,
    };
    let shown = shown_method(&file).to_owned();
    let source = find_work::method_source(file, choice)?;
    refuse_closed_choices(&source, &shown, flags)?;
    Ok(source)
}

/// Refuses flags for values that the method's file fixes: such a flag has no effect, whatever its value.
/// `shown` is the method's name in messages.
///
/// # Errors
/// The first such flag.
fn refuse_closed_choices(source: &MethodSource, shown: &str, flags: &Run) -> Result<(), Failure> {
    let stages = |choice: Choice| {
        Method::new(MethodSource { choice, ..source.clone() }).ok().map(|m| (m.stages, m.setting))
    };
    let mine = &source.choice;
    let mut others: Vec<(&str, Choice)> = Vec::new();
    // Another valid value.
    let next = |n: u32| if n < 512 { n + 1 } else { n - 1 };
    if let Some(n) = mine.threads {
        others.push(("threads", Choice { threads: Some(next(n)), ..mine.clone() }));
    }
    if let Some(n) = mine.depth {
        others.push(("depth", Choice { depth: Some(next(n)), ..mine.clone() }));
    }
    if let Some(range) = &mine.active {
        let other = if range == "0%..50%" { "0%..25%" } else { "0%..50%" };
        others.push(("active", Choice { active: Some(other.to_owned()), ..mine.clone() }));
    }
    let with = stages(mine.clone());
    for (flag, other) in others {
        if with.is_some() && with == stages(other) {
            let how = "itself in each of its stages";
            return Err(Failure::input(no_effect(flag, shown, how, "")));
        }
    }
    let real = |target: &TargetName| !matches!(target, TargetName::Model(_));
    if flags.reuse {
        let prepares = Method::new(source.clone()).is_ok_and(|m| {
            m.purges() || m.stages.iter().any(|s| matches!(s.act, iodyno_method::Act::Fill(_)))
        });
        if !prepares {
            return Err(Failure::input(format!(
                "--reuse has no effect on `{shown}`, which neither purges nor fills: take it out"
            )));
        }
        if !flags.on.iter().any(real) {
            return Err(Failure::input(
                "--reuse has no effect on emulated targets, which need no purge and no fill: take it out",
            ));
        }
    }
    Ok(())
}

/// Builds a sweep over workloads, after applying the flags that change them.
pub(crate) fn sweep(named: Workloads, flags: &Run) -> Result<Asked, Failure> {
    let Workloads { name, mut members } = named;
    let changes = override_all(&mut members, flags, true)?;
    check_content(&members, flags)?;
    let workloads: BTreeMap<String, String> =
        members.into_iter().map(|(name, spec)| (name, spec.to_toml())).collect();
    let mut axes: Vec<Axis> = Vec::new();
    for vary in &flags.vary {
        let refused = |why: String| Failure::input(format!("--vary {vary}: {why}"));
        let axis: Axis = vary.parse().map_err(refused)?;
        let name = axis.kind.name();
        if flags.given.has(name) {
            return Err(Failure::input(format!(
                "--{name} has no effect with --vary {vary}, which sets it in each cell: leave one of them out"
            )));
        }
        if axes.iter().any(|other| other.kind == axis.kind) {
            return Err(refused(format!(
                "`{name}` is varied twice: give all its values in one list"
            )));
        }
        refuse_idle_axis(flags, &axis).map_err(refused)?;
        axes.push(axis);
    }
    let is_load_curve = workloads.len() == 1 && axes.iter().all(|axis| axis.kind.is_load());
    if !flags.ceiling.is_empty() && !is_load_curve {
        return Err(Failure::input(
            "--ceiling selects the best load of one workload, so --vary may have only depth, threads and rate: leave --ceiling out, or make a sweep for each of the other values",
        ));
    }
    let ceilings = flags.ceiling.iter().map(|ceiling| {
        ceiling.parse().map_err(|why| Failure::input(format!("--ceiling {ceiling}: {why}")))
    });
    let sweep = Sweep {
        axes,
        order: flags.order.unwrap_or_default(),
        repeats: flags.measuring.repeat,
        fill_passes: fill_first::passes(flags)?,
        find_rate: flags.find_rate,
        ceilings: ceilings.collect::<Result<_, _>>()?,
    };
    let choice = Choice { scale: flags.scale, ..Choice::default() };
    let what = if flags.find_rate.is_some() { "rate search" } else { "sweep" };
    let name = format!("{what} of {name}");
    let sweep = Some(sweep);
    let source = MethodSource { name, sweep, workloads, choice, ..MethodSource::default() };
    Ok(Asked { source, changes })
}

/// Refuses an axis `targets` with more targets than the run has, and an axis `fill` unless all targets are `model:`.
fn refuse_idle_axis(flags: &Run, axis: &Axis) -> Result<(), String> {
    let targets: u32 = if flags.each { 1 } else { flags.on.iter().map(volumes).sum() };
    let counts = axis.values.iter().filter_map(|value| match value {
        Value::Count(n) => Some(*n),
        _ => None,
    });
    if axis.kind == AxisKind::Targets
        && let Some(most) = counts.max().filter(|most| *most > targets)
    {
        return Err(format!(
            "--vary targets={most} exceeds the number of targets of the run, {targets}: name more with --on, or leave {most} out"
        ));
    }
    let real = flags.on.iter().find(|target| !matches!(target, TargetName::Model(_)));
    match real.filter(|_| axis.kind == AxisKind::Fill) {
        None => Ok(()),
        Some(real) => Err(format!(
            "the fill can be varied only on emulated storage (model:): leave `{real}` out"
        )),
    }
}

/// Returns the one-line description of a method in the catalog.
pub(crate) fn about(name: &str) -> Result<String, Failure> {
    let file = find(Kind::Method, name)?;
    Ok(find_work::method(find_work::method_source(file, Choice::default())?)?.about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::named_work::NamedWork;
    use crate::run::named_work;

    /// A flag is refused if the method's file fixes the value, and accepted otherwise.
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
            let words = format!("iodyno run {method} --on null:1GiB {flag}");
            let words: Vec<std::ffi::OsString> = words.split(' ').map(Into::into).collect();
            let cli = Cli::of_words(&words).unwrap();
            let Command::Run(flags) = &cli.command else { unreachable!() };
            let Ok(Some(NamedWork::Method(file))) = named_work(flags) else { panic!("{method}") };
            let said = of_file(file, flags).err().map(|failure| failure.render(false));
            assert_eq!(said.is_some(), refused, "{method} {flag}: {said:?}");
        }
    }
}
