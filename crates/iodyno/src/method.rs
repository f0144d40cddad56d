//! Resolution of methods: from a name, a file or `--vary` to all inputs of a method.

use crate::args::Run;
use crate::failure::Failure;
use crate::overrides::override_all;
use crate::{fill_first, foreign_workload, hints, method_flags};
use iodyno_catalog::{Kind, find};
use iodyno_exchange::fio::JobFile;
use iodyno_method::{Axis, AxisKind, Choice, MethodSource, Sweep, Value};
use iodyno_run::{find_work, volumes};
use iodyno_targets::TargetName;

/// A method that a command line requests.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) source: MethodSource,
    /// The changes that flags made to the varied workload, in words.
    pub(crate) changes: Vec<String>,
    /// The foreign workload that is varied, whose jobs determine the engine and the page cache.
    pub(crate) jobs: Option<JobFile>,
}

/// The requested method, if any: by a name, by a file, or by `--vary` over a workload.
pub(crate) fn source(flags: &Run) -> Result<Option<Asked>, Failure> {
    let choice = Choice {
        setting: flags.setting.clone(),
        threads: flags.threads,
        depth: flags.depth,
        active: flags.active.map(|active| active.to_string()),
        scale: flags.scale,
    };
    hints::check_workload(&flags.workload)?;
    let is_foreign = iodyno_exchange::is_foreign(&flags.workload);
    let file = if is_foreign { None } else { find_work::method_file(&flags.workload)? };
    if let Some(file) = file {
        let given =
            [("--vary", !flags.vary.is_empty()), ("--find-rate", flags.find_rate.is_some())];
        if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(Failure::input(format!(
                "`{}` is a method and says itself what varies: take {flag} out, or name a workload",
                flags.workload
            )));
        }
        method_flags::refuse_of_workloads(flags)?;
        let source = find_work::method_source(file, choice)?;
        method_flags::refuse_closed_choices(&source, flags)?;
        return Ok(Some(Asked { source, changes: Vec::new(), jobs: None }));
    }
    if flags.vary.is_empty() && flags.find_rate.is_none() {
        return Ok(None);
    }
    method_flags::refuse_of_files(flags)?;
    swept(flags).map(Some)
}

/// A sweep over a workload. The workloads' texts include the changes by flags.
fn swept(flags: &Run) -> Result<Asked, Failure> {
    let jobs = iodyno_exchange::is_foreign(&flags.workload)
        .then(|| foreign_workload::one_by_one(flags))
        .transpose()?;
    let (name, mut members) = match &jobs {
        Some(file) => {
            let all = file.jobs().map(|job| (job.name.clone(), job.spec.clone()));
            (file.name.clone(), all.collect())
        }
        None => find_work::members(&flags.workload)?,
    };
    let changes = override_all(&mut members, flags, true)?;
    let workloads = members.into_iter().map(|(name, spec)| (name, spec.to_toml())).collect();
    let mut axes: Vec<Axis> = Vec::new();
    for vary in &flags.vary {
        let refused = |why: String| Failure::input(format!("--vary {vary}: {why}"));
        let axis: Axis = vary.parse().map_err(refused)?;
        let name = axis.kind.name();
        let fixed = match axis.kind {
            AxisKind::Depth => flags.depth.is_some(),
            AxisKind::Threads => flags.threads.is_some(),
            AxisKind::Block => flags.block.is_some(),
            AxisKind::Rate => flags.rate.is_some(),
            AxisKind::Read => flags.read.is_some(),
            AxisKind::Engine => flags.engine.is_some(),
            AxisKind::Fsync => flags.fsync.is_some(),
            _ => false,
        };
        if fixed {
            return Err(Failure::input(format!(
                "--{name} has no effect beside --vary {vary}, which sets it in each cell: leave one of them out"
            )));
        }
        if axes.iter().any(|other| other.kind == axis.kind) {
            return Err(refused(format!(
                "`{name}` is varied twice: write all its values in one list"
            )));
        }
        refuse_idle_axis(flags, &axis).map_err(refused)?;
        axes.push(axis);
    }
    let ceilings = flags.ceiling.iter().map(|ceiling| {
        ceiling.parse().map_err(|why| Failure::input(format!("--ceiling {ceiling}: {why}")))
    });
    let sweep = Sweep {
        axes,
        order: flags.order.unwrap_or_default(),
        repeats: flags.repeat,
        fill_passes: fill_first::passes(flags)?,
        find_rate: flags.find_rate,
        ceilings: ceilings.collect::<Result<_, _>>()?,
    };
    let choice = Choice { scale: flags.scale, ..Choice::default() };
    let what = if flags.find_rate.is_some() { "rate search" } else { "sweep" };
    let name = format!("{what} of {name}");
    let sweep = Some(sweep);
    let source = MethodSource { name, sweep, workloads, choice, ..MethodSource::default() };
    Ok(Asked { source, changes, jobs })
}

/// Refuses an axis that would change nothing on these targets.
fn refuse_idle_axis(flags: &Run, axis: &Axis) -> Result<(), String> {
    let targets: u32 = if flags.each { 1 } else { flags.on.iter().map(volumes).sum() };
    let counts = axis.values.iter().filter_map(|value| match value {
        Value::Count(n) => Some(*n),
        _ => None,
    });
    if axis.kind == AxisKind::Targets
        && let Some(most) = counts.max().filter(|most| *most > targets)
    {
        let there = if targets == 1 { "is 1" } else { &format!("are {targets}") };
        return Err(format!(
            "{most} targets can't work at once where there {there}: name more with --on, or take {most} out"
        ));
    }
    let real = flags.on.iter().find(|target| !matches!(target, TargetName::Model(_)));
    match real.filter(|_| axis.kind == AxisKind::Fill) {
        None => Ok(()),
        Some(real) => Err(format!(
            "how full a device is can be varied of emulated storage only (model:), and `{real}` is none: take it out"
        )),
    }
}

/// A one-line description of a method in the catalog.
pub(crate) fn about(name: &str) -> Result<String, Failure> {
    let file = find(Kind::Method, name)?;
    Ok(find_work::method(find_work::method_source(file, Choice::default())?)?.about)
}
