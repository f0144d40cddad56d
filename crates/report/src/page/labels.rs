//! Labels shared by several parts of a report: names of cells (measurements), the test conditions of a cell in one
//! line, and ids for links.

use crate::compare::SideFacts;
use crate::terminal::conditions_of_cell as of_cell;
pub(super) use crate::verdict_groups::tone;
use iodyno_measure::{Cell, CellKey, Interval, Level};
use iodyno_notebook::Run;
use iodyno_page::Cell as Field;
use iodyno_units::{OpKind, human};

/// Maximum number of targets that are described below the title.
const TARGETS_MAX: usize = 4;

/// Lines below the title of a report on one run: targets, kernel, start, duration, id, status and annotation.
pub(super) fn about(run: &Run) -> Vec<String> {
    let mut lines = described(&[run]);
    lines.push(format!("{} UTC", run.started.strftime("%Y-%m-%d %H:%M:%S")));
    if let Some(ended) = run.ended {
        let ms = ended.as_millisecond() - run.started.as_millisecond();
        lines.push(format!("took {}", human::duration_ns(ms.max(0) as u64 * 1_000_000)));
    }
    if !run.id.is_empty() {
        lines.push(format!("run {}", run.id));
    }
    lines.push(run.status.name().to_owned());
    lines.extend(run.annotation.clone());
    lines
}

/// Lines below the title of a comparison: one line per run (at most 12), then targets and kernels.
pub(super) fn about_several(runs: &[&Run]) -> Vec<String> {
    runs.iter()
        .take(12)
        .map(|run| {
            let when = run.started.strftime("%Y-%m-%d %H:%M");
            format!("{} · {} · {} · {when} UTC", run.id, run.head.heading(), targets(run))
        })
        .chain((runs.len() > 12).then(|| format!("and {} more runs", runs.len() - 12)))
        .chain(described(runs))
        .collect()
}

/// Describes the distinct targets of the runs (device, size, file system and engine), then the kernels of
/// runs with real I/O.
fn described(runs: &[&Run]) -> Vec<String> {
    let (mut lines, mut kernels) = (Vec::<String>::new(), Vec::new());
    for run in runs {
        for target in &run.head.targets {
            let words = crate::terminal::targets::words(run, &target.name, &target.description())
                .join(" · ");
            let line = format!("{}: {words}", target.name);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let kernel = run.head.machine_description().kernel.map(|k| format!("kernel {k}"));
        let is_real = run.cells.iter().any(|c| !c.evidence.virtual_time);
        kernels.extend(kernel.filter(|k| is_real && !kernels.contains(k)));
    }
    if lines.len() > TARGETS_MAX {
        let more = lines.len() - TARGETS_MAX;
        lines.truncate(TARGETS_MAX);
        lines.push(format!("and {more} more targets"));
    }
    lines.extend(kernels);
    lines
}

/// Label of a side in a comparison: the run's name or id, as written on the command line. An id is put in brackets
/// after the description of the run.
pub(super) fn side(of: &SideFacts<'_>) -> String {
    match of.headings.as_slice() {
        // A run that a person has named has a heading `name: description`.
        [name] if name.split(": ").next() != Some(of.asked) => format!("{name} ({})", of.asked),
        _ => of.asked.to_owned(),
    }
}

/// Names the first target of the run and the number of further ones.
pub(super) fn targets(run: &Run) -> String {
    match run.head.targets.as_slice() {
        [] => "no target".to_owned(),
        [one] => one.name.clone(),
        [first, rest @ ..] => format!("{} and {} more targets", first.name, rest.len()),
    }
}

/// The cell's name, with the repeat number if the run has repeats, and the target if it has several targets.
pub(super) fn name(run: &Run, key: &CellKey) -> String {
    let mut name = key.name.clone();
    if run.cells.iter().any(|c| c.key.repeat > 0) {
        name = format!("{name} #{}", key.repeat + 1);
    }
    if run.head.targets.len() > 1 && !key.is_of_all_targets() {
        name = format!("{name} on {}", key.target);
    }
    name
}

/// Threads, depth and block size: `T1Q32 4 KiB`.
pub(super) fn conditions(cell: &Cell) -> String {
    let (oio, block) = of_cell(cell);
    format!("{oio} {block}")
}

/// One line with the test conditions of a chart of a single cell.
pub(super) fn line_of_cell(run: &Run, cell: &Cell) -> String {
    let (ops, of) = (cell.total().ops(), cell.io_kinds());
    let is_io = |interval: &Interval| interval.kinds().all(|kind| of.count(kind));
    let counted = if cell.series.iter().all(is_io) { "I/Os" } else { "operations" };
    let parts = [
        run_words(run),
        cell.key.target.clone(),
        cell.key.engine.clone(),
        conditions(cell),
        format!("{} {counted} in {}", human::whole(ops), human::duration_ns(cell.window_ns)),
        judged([cell].into_iter(), None),
    ];
    join(&parts)
}

/// One line with the test conditions of a chart of several cells. Does not call the cells VALID if
/// `run_level` is a warning or worse.
pub(super) fn line_of<'a>(
    run: &Run,
    run_level: Option<Level>,
    cells: impl Iterator<Item = &'a Cell> + Clone,
) -> String {
    let n = cells.clone().count();
    // A purge or a wait is stored as a cell without an engine.
    let engine = cells.clone().map(|c| &c.key.engine).find(|e| !e.is_empty());
    let engine = engine.cloned().unwrap_or_default();
    let count = if n == 1 { "1 cell".to_owned() } else { format!("{n} cells") };
    join(&[
        run_words(run),
        targets(run),
        engine,
        count,
        of_run(run_level),
        judged(cells, run_level),
    ])
}

fn run_words(run: &Run) -> String {
    if run.id.is_empty() { String::new() } else { format!("run {}", run.id) }
}

fn join(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    parts.join(" · ")
}

/// States the run's level if it is a warning or worse; otherwise empty.
fn of_run(level: Option<Level>) -> String {
    match level {
        Some(Level::Invalid) => "run INVALID".to_owned(),
        Some(Level::Warning) => "run with warnings".to_owned(),
        _ => String::new(),
    }
}

/// Summarises the verdicts on cells: `VALID`, `2 warnings`, `INVALID (1 finding)`.
fn judged<'a>(cells: impl Iterator<Item = &'a Cell>, run_level: Option<Level>) -> String {
    let (mut warnings, mut invalid, mut judged) = (0, 0, false);
    for verdict in cells.flat_map(|c| &c.verdicts) {
        judged = true;
        warnings += usize::from(verdict.level == Level::Warning);
        invalid += usize::from(verdict.level == Level::Invalid);
    }
    match (invalid, warnings) {
        _ if !judged => "not judged".to_owned(),
        (0, 0) if run_level >= Some(Level::Warning) => "no cell has a warning".to_owned(),
        (0, 0) => "VALID".to_owned(),
        (0, 1) => "1 warning".to_owned(),
        (0, n) => format!("{n} warnings"),
        (1, _) => "INVALID (1 finding)".to_owned(),
        (n, _) => format!("INVALID ({n} findings)"),
    }
}

/// Full label of a grid axis, such as `share of reads` for the axis `read`.
pub(super) fn axis(name: &str) -> &str {
    match name {
        "read" => "share of reads",
        "block" => "block size",
        "think" => "think time",
        "fsync" => "writes per flush",
        "fill" => "fill level of the device",
        other => other,
    }
}

pub(super) fn kinds(cells: &[&Cell]) -> std::collections::BTreeSet<OpKind> {
    let each = cells.iter().flat_map(|cell| &cell.series).flat_map(Interval::iter);
    each.filter(|(_, stats)| stats.ops() > 0).map(|(kind, _)| kind).collect()
}

/// Converts a text to a name for links and files: every character other than a letter or digit becomes a
/// dash.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars().take(60) {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "x".to_owned() } else { slug.to_owned() }
}

/// Formats a latency in ns as a table field; a dash if `None`.
pub(super) fn time(ns: Option<f64>) -> Field {
    ns.map_or_else(Field::none, |ns| Field::number(human::time_ns(ns), ns))
}

/// Formats the rate of a kind of operation, per second, as a table field.
pub(super) fn rate(kind: OpKind, per_s: f64) -> Field {
    Field::number(crate::kinds::rate(kind, per_s), per_s)
}

/// Formats a throughput in bytes per second as a table field; a dash if `None`.
pub(super) fn throughput(rate: Option<f64>) -> Field {
    rate.map_or_else(Field::none, |x| Field::number(human::throughput(x), x))
}
