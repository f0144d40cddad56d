//! Resolution of methods: from a name, a file or `--vary` to a request.

use crate::args::Run;
use crate::failure::Failure;
use crate::overrides::overridden;
use crate::{catalog, hints, method_flags};
use iodyno_catalog::{File, FileError, Kind, Problem, find, list};
use iodyno_method::{Choice, Method, MethodSource, is_method};
use iodyno_run::{MethodRequest, Resume};
use iodyno_target::TargetName;
use iodyno_units::human;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The shortest time of a measurable cell, ns: a few I/Os of a disk do not fit, tens of an
/// SSD do.
const CELL_NS_MIN: u64 = 1_000_000;
/// The name of a run whose method came from `--vary`.
const SWEEP: &str = "sweep";

/// The requested method, if there is one: by a name, by a file, or by `--vary` over a workload.
pub(crate) fn source(flags: &Run) -> Result<Option<MethodSource>, Failure> {
    let choice = Choice {
        setting: flags.setting.clone(),
        threads: flags.threads,
        depth: flags.depth,
        active: flags.active.map(|active| active.to_string()),
        scale: flags.scale,
    };
    hints::check_workload(&flags.workload)?;
    if let Some(file) = file(&flags.workload)? {
        if !flags.vary.is_empty() {
            return Err(Failure::input(format!(
                "`{}` is a method and says itself what varies: take --vary out, or name a workload",
                flags.workload
            )));
        }
        method_flags::refuse_of_workloads(flags)?;
        let workloads = workloads(&file.text)?;
        let (name, text) = (file.name, file.text.to_string());
        let source = MethodSource { name, text, workloads, choice };
        method_flags::refuse_closed_choices(&source, flags)?;
        return Ok(Some(source));
    }
    if flags.vary.is_empty() {
        return Ok(None);
    }
    method_flags::refuse_of_files(flags)?;
    swept(flags).map(Some)
}

/// A method's file: from the catalog by name, or by path.
pub(crate) fn file(name: &str) -> Result<Option<File>, Failure> {
    if list(Kind::Method).any(|(n, _)| n == name) {
        return Ok(Some(find(Kind::Method, name)?));
    }
    let is_path = name.contains('/') || Path::new(name).extension().is_some_and(|e| e == "toml");
    if !is_path {
        return Ok(None);
    }
    let file = find(Kind::Method, name)?;
    Ok(is_method(&file.text).then_some(file))
}

/// The texts of the workload files that a method names, members of groups included.
fn workloads(text: &str) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for name in Method::workloads_named(text) {
        add_workload(&name, &mut all)?;
    }
    Ok(all)
}

fn add_workload(name: &str, all: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    let (file, workload) = catalog::workload(name)?;
    if let iodyno_workload::Workload::Group(group) = &workload {
        for member in &group.members {
            add_workload(&member.name, all)?;
        }
    }
    all.insert(name.to_owned(), file.text.to_string());
    Ok(())
}

/// A sweep over a workload, as a method file of one stage. The workload's text includes the flags' changes.
fn swept(flags: &Run) -> Result<MethodSource, Failure> {
    let (name, members) = catalog::members(&flags.workload)?;
    let mut workloads = BTreeMap::new();
    let mut time_ns = 0;
    let mut ramp_ns = 0;
    for (name, spec) in members {
        let spec =
            overridden(spec, flags).map_err(|why| Failure::input(format!("{name}: {why}")))?;
        time_ns = spec.limits().time_ns.unwrap_or(time_ns);
        ramp_ns = spec.limits().ramp_ns;
        workloads.insert(name, spec.to_toml());
    }
    if time_ns == 0 {
        return Err(Failure::input("the cells of a sweep end by time: give --time"));
    }
    let quoted = |text: &str| format!("\"{}\"", text.replace(['"', '\\', '\n'], ""));
    let lists =
        |values: &str| values.split(',').map(|v| quoted(v.trim())).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "schema = 1\nabout = {}\n\n[[stages]]\nname = \"sweep\"\ndo = \"cells\"\n",
        quoted(&format!("a sweep of {name}"))
    );
    let _ = writeln!(
        text,
        "workload = [{}]",
        workloads.keys().map(|n| quoted(n)).collect::<Vec<_>>().join(", ")
    );
    let _ = writeln!(text, "time = \"{time_ns}ns\"\nramp = \"{ramp_ns}ns\"");
    let mut varied = Vec::new();
    for vary in &flags.vary {
        let Some((axis, values)) = vary.split_once('=') else {
            return Err(Failure::input(format!(
                "--vary {vary}: say what varies and how, such as `depth=1,2,4,8`"
            )));
        };
        let known =
            iodyno_method::AxisKind::ALL.iter().map(|k| k.name()).filter(|k| *k != "workload");
        let known: Vec<&str> = known.collect();
        if !known.contains(&axis) {
            return Err(Failure::input(format!(
                "--vary {vary}: `{axis}` is no axis; there are {}",
                known.join(", ")
            )));
        }
        let fixed = match axis {
            "depth" => flags.depth.is_some(),
            "threads" => flags.threads.is_some(),
            "block" => flags.block.is_some(),
            "rate" => flags.rate.is_some(),
            _ => false,
        };
        if fixed {
            return Err(Failure::input(format!(
                "--{axis} has no effect beside --vary {vary}, which sets it in each cell: leave one of them out"
            )));
        }
        if varied.contains(&axis) {
            return Err(Failure::input(format!(
                "--vary {vary}: `{axis}` is varied twice: write all its values in one list"
            )));
        }
        varied.push(axis);
        let values_seen: Vec<&str> = values.split(',').map(str::trim).collect();
        if let Some(twice) =
            values_seen.iter().enumerate().find(|(at, v)| values_seen[..*at].contains(v))
        {
            return Err(Failure::input(format!(
                "--vary {vary}: {} is there twice; for the same cells again use --repeat",
                twice.1
            )));
        }
        let _ = writeln!(text, "{axis} = [{}]", lists(values));
    }
    if flags.repeat > 1 {
        let _ = writeln!(text, "repeats = {}", flags.repeat);
    }
    if let Some(order) = &flags.order {
        let _ = writeln!(text, "order = {}", quoted(order));
    }
    if !flags.ceiling.is_empty() {
        let mut pairs = Vec::new();
        for ceiling in &flags.ceiling {
            let Some((of, time)) = ceiling.split_once('=') else {
                return Err(Failure::input(format!(
                    "--ceiling {ceiling}: say of which latency and how much, such as `p99=1ms`"
                )));
            };
            pairs.push(format!("{} = {}", quoted(of), quoted(time)));
        }
        let _ = writeln!(text, "ceiling = {{ {} }}", pairs.join(", "));
    }
    let choice = Choice { scale: flags.scale, ..Choice::default() };
    Ok(MethodSource { name: format!("{SWEEP} of {name}"), text, workloads, choice })
}

/// The request for a run, from a method's source.
pub(crate) fn request(
    source: MethodSource,
    flags: &Run,
    resume: Option<Resume>,
) -> Result<MethodRequest, Failure> {
    let file = File {
        origin: source.name.clone(),
        name: source.name.clone(),
        text: source.text.as_str().into(),
    };
    let targets: u32 = flags.on.iter().map(targets_of).sum();
    let whole =
        MethodSource { choice: Choice { scale: None, ..source.choice.clone() }, ..source.clone() };
    let method = Method::new(source).map_err(|errors| problem(&file, &errors))?;
    if let (Some(scale), Ok(whole)) = (flags.scale, Method::new(whole)) {
        refuse_small_scale(scale, &whole)?;
    }
    let subjects = if flags.each { 1 } else { targets };
    refuse_idle_axes(flags, subjects)?;
    let folder = std::env::current_dir().map_or(String::new(), |f| f.display().to_string());
    Ok(MethodRequest {
        reuse: flags.reuse || method.reuse,
        method: method.with_targets(subjects),
        each: flags.each,
        folder,
        resume,
    })
}

/// Refuses a scale that makes a cell too short to measure.
fn refuse_small_scale(scale: f64, whole: &Method) -> Result<(), Failure> {
    let times = whole.all_cells().into_iter().filter_map(|cell| cell.spec.limits().time_ns);
    let Some(shortest_ns) = times.min().filter(|ns| *ns > CELL_NS_MIN) else { return Ok(()) };
    if shortest_ns as f64 * scale >= CELL_NS_MIN as f64 {
        return Ok(());
    }
    // Rounded up to two digits, so that it can be typed.
    let least = CELL_NS_MIN as f64 / shortest_ns as f64;
    let step = 10_f64.powf(least.log10().floor() - 1.0);
    let least = (least / step).ceil() * step;
    Err(Failure::input(format!(
        "--scale {scale} leaves the shortest cells of the method, of {}, less than 1 ms, in which nothing can be measured: take {} or more",
        human::duration_ns(shortest_ns),
        format!("{least:.12}").trim_end_matches('0')
    )))
}

/// Refuses values of axes that would change nothing on these targets.
fn refuse_idle_axes(flags: &Run, targets: u32) -> Result<(), Failure> {
    for vary in &flags.vary {
        let Some((axis, values)) = vary.split_once('=') else { continue };
        let most = values.split(',').filter_map(|v| v.trim().parse::<u32>().ok()).max();
        if axis == "targets"
            && let Some(most) = most.filter(|most| *most > targets)
        {
            let there = if targets == 1 { "is 1" } else { &format!("are {targets}") };
            return Err(Failure::input(format!(
                "--vary {vary}: {most} targets can't work at once where there {there}: name more with --on, or take {most} out"
            )));
        }
        let real = flags.on.iter().find(|target| !matches!(target, TargetName::Model(_)));
        if axis == "fill"
            && let Some(real) = real
        {
            return Err(Failure::input(format!(
                "--vary {vary}: how full a device is can be varied of emulated storage only (model:), and `{real}` is none: take it out"
            )));
        }
    }
    Ok(())
}

/// How many targets a name stands for.
fn targets_of(name: &TargetName) -> u32 {
    match name {
        TargetName::Model(model) => model.count,
        _ => 1,
    }
}

/// The first error at its place; an error in a choice has none.
pub(crate) fn problem(file: &File, errors: &[FileError]) -> Problem {
    if let Some(first) = errors.first().filter(|first| first.span.is_empty()) {
        let message = match &first.help {
            Some(help) => format!("{}; {help}", first.message),
            None => first.message.clone(),
        };
        return Problem::new(file.origin.as_str(), message);
    }
    Problem::of(file, errors)
}

/// A line about a method of the catalog.
pub(crate) fn about(name: &str) -> Result<String, Failure> {
    let file = find(Kind::Method, name)?;
    let workloads = workloads(&file.text)?;
    let source = MethodSource {
        name: file.name.clone(),
        text: file.text.to_string(),
        workloads,
        choice: Choice::default(),
    };
    Ok(Method::new(source).map_err(|errors| problem(&file, &errors))?.about)
}
