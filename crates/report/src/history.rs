//! History of a workload: one metric over all runs on the same targets, divided into ranges with a constant level
//! (`measure/src/statistics/levels.rs`).

use crate::terminal::minutes;
use iodyno_measure::metric::Counted;
use iodyno_measure::statistics::levels::{Level, RUNS_MIN, Shift, detectable_share, levels};
use iodyno_measure::{CellKey, Level as Severity, Metric, Quantity as Measured, Role};
use iodyno_notebook::{Run, RunSummary, Status, TargetRecord, Timestamp};
use iodyno_page::terminal::{Lines, Style, table};
use iodyno_page::{
    Axis, Block, Cell, Column, Document, Figure, Mark, Panel, Plot, Point, Quantity, Scale,
    Section, Series, Shape, Table,
};
use iodyno_units::human;
use iodyno_units::text::clean;
use serde_json::{Value, json};
use std::fmt;
use std::sync::OnceLock;

/// Version of the JSON schema of a history, written to the field `schema`.
pub const JSON_VERSION: u32 = 1;

/// Minimum number of runs in which a shift can be found.
const SHIFT_RUNS_MIN: usize = 2 * RUNS_MIN;

/// Finished runs of a notebook that a history leaves out, counted by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Runs of the same workload on other targets.
    pub other_targets: usize,
    pub other_workloads: usize,
    /// Runs of the same workload on the same targets that started before the earliest run shown.
    pub earlier: usize,
}

impl LeftOut {
    /// Counts the finished runs in `all` that a history does not show. The history contains `shown` runs with the
    /// workload and targets of run `of`. With `name`, it contains only runs with this name.
    pub fn of(all: &[RunSummary], of: &RunSummary, name: Option<&str>, shown: usize) -> Self {
        let mut out = Self::default();
        let mut same: usize = 0;
        for run in all.iter().filter(|run| run.status == Status::Finished) {
            let is_work = run.workloads == of.workloads && name.is_none_or(|name| name == run.name);
            match (is_work, run.identities == of.identities) {
                (true, true) => same += 1,
                (true, false) => out.other_targets += 1,
                (false, _) => out.other_workloads += 1,
            }
        }
        out.earlier = same.saturating_sub(shown);
        out
    }

    /// Lists the left-out runs by reason; None if there are none. With `has_hints`, adds the arguments of `iodyno
    /// history` that show them.
    fn words(self, has_hints: bool) -> Option<String> {
        let part = |n: usize, of: &str, what: &str, hint: &str| {
            let hint = if has_hints { format!(" ({hint})") } else { String::new() };
            (n > 0).then(|| format!("{}{what}{hint}", human::counted(n as u64, of)))
        };
        let parts: Vec<String> = [
            part(self.other_targets, "run", " on other targets", "--on TARGET"),
            part(self.other_workloads, "run", " of other workloads", "iodyno history WORKLOAD"),
            part(self.earlier, "earlier run", "", "--last N"),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join(", ")))
    }
}

/// Values of one metric of a cell (measurement) in successive runs.
#[derive(Clone, Debug)]
pub struct CellHistory {
    /// Name of the cell. Cells with the same name but different targets or loads have separate histories.
    pub cell: String,
    /// Target of the cell, by its name in the first run; a history never mixes targets.
    pub target: String,
    /// Identity of the target, which may have other names in other runs.
    identity: String,
    /// Load of the cell; a history never mixes loads.
    pub load: Load,
    /// Metric, which determines the unit of the values.
    pub metric: Metric,
    /// Values in the order in which the runs started. Runs without a value are left out.
    pub runs: Vec<RunValue>,
    /// Levels of `runs`, computed when first requested, because this takes a fraction of a second for thousands of
    /// runs.
    found: Found,
}

/// Levels of a history, and the shift that would have been found.
#[derive(Clone, Debug, Default)]
struct Found {
    levels: OnceLock<Vec<Level>>,
    detectable_share: OnceLock<Option<f64>>,
}

/// Load of a cell. Only cells with equal loads share a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Most frequent block size, bytes.
    pub block_bytes: u32,
    /// Worker threads per target.
    pub threads: u32,
    /// Operations in flight per thread.
    pub depth: u32,
    /// Offered rate, operations per second; `None` in a closed loop, and for a method, which chooses its rates itself.
    pub offered_iops: Option<f64>,
}

impl Load {
    fn of_key(key: &CellKey) -> Self {
        Self {
            block_bytes: key.block_bytes(),
            threads: key.threads,
            depth: key.depth,
            offered_iops: key.offered_iops.filter(|_| key.place.is_none()),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}Q{} {}", self.threads, self.depth, human::size(u64::from(self.block_bytes)))?;
        match self.offered_iops {
            Some(rate) => write!(f, " at {}/s", human::count(rate)),
            None => Ok(()),
        }
    }
}

/// Value of the metric in one run of a history.
#[derive(Clone, Debug)]
pub struct RunValue {
    pub id: String,
    /// Start time of the run, which determines the order of the values in a history.
    pub started: Timestamp,
    /// Value of the metric, in operations or bytes per second, or in ns.
    pub value: f64,
    /// Annotation that a user added to the run; `None` if there is none.
    pub annotation: Option<String>,
}

impl CellHistory {
    fn values(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.value).collect()
    }

    /// Divides the runs into ranges with a constant level. Each range contains its shift from the previous one.
    pub fn levels(&self) -> &[Level] {
        self.found.levels.get_or_init(|| levels(&self.values()))
    }

    /// Whether no shift was found in enough runs.
    fn has_no_shift(&self) -> bool {
        self.can_shift() && self.levels().len() == 1
    }

    /// Smallest shift that would have been found in the middle of a history without shifts
    /// (`levels::detectable_share`). `None` if there is a shift, or no tried shift would have been found.
    fn detectable_share(&self) -> Option<f64> {
        let share = || self.has_no_shift().then(|| detectable_share(&self.values())).flatten();
        *self.found.detectable_share.get_or_init(share)
    }

    /// States that no shift was found, and which shift would have been. `None` if there is a shift, or too few runs to
    /// find one.
    fn without_shift(&self) -> Option<String> {
        self.has_no_shift().then(|| match self.detectable_share() {
            Some(share) => format!(
                "No shift found; a shift of {} in the middle would have been found.",
                Quantity::Share.words(share)
            ),
            None => {
                "No shift found; the runs vary too much to find even a shift of 50 %.".to_owned()
            }
        })
    }

    /// Whether there are enough runs to find a shift. With fewer, the level is only a mean.
    fn can_shift(&self) -> bool {
        self.runs.len() >= SHIFT_RUNS_MIN
    }
}

/// Histories of all cells of a workload.
#[derive(Clone, Debug)]
pub struct History {
    workload: String,
    metric: Metric,
    runs: usize,
    cells: Vec<CellHistory>,
    pub left_out: LeftOut,
}

impl History {
    /// Creates an empty history of a workload, to which runs are added.
    pub fn new(workload: &str, metric: Metric) -> Self {
        Self {
            workload: workload.to_owned(),
            metric,
            runs: 0,
            cells: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Adds a run, which must have started after all runs added before. Invalid, skipped and unmeasured cells have no
    /// value. Repeats of a cell are merged.
    pub fn add(&mut self, run: &Run) {
        self.runs += 1;
        let is_measured = |cell: &&iodyno_measure::Cell| {
            let place = cell.key.place.as_ref();
            !cell.is_skipped()
                && place.is_none_or(|place| place.role == Role::Measure)
                && cell.level().is_some_and(|level| level < Severity::Invalid)
        };
        let cells: Vec<_> = run.cells.iter().filter(is_measured).collect();
        let identity = |cell: &&iodyno_measure::Cell| {
            (cell.key.name.clone(), cell.key.target.clone(), Load::of_key(&cell.key))
        };
        let mut identities: Vec<(String, String, Load)> = Vec::new();
        for of in cells.iter().map(identity) {
            if !identities.contains(&of) {
                identities.push(of);
            }
        }
        let of_target = |name: &String| {
            let target = run.head.targets.iter().find(|target| target.name == *name);
            target.map_or_else(|| name.clone(), TargetRecord::identity)
        };
        for (name, target, load) in identities {
            let identity = of_target(&target);
            let of = |cell: &&&iodyno_measure::Cell| {
                (&cell.key.name, &cell.key.target) == (&name, &target)
                    && Load::of_key(&cell.key) == load
            };
            let counted = Counted::of(cells.iter().filter(of).copied());
            for metric in counted.figures(self.metric) {
                let value = counted.value(metric).ok().filter(|value| *value > 0.0);
                let Some(value) = value else { continue };
                let run = RunValue {
                    id: run.id.clone(),
                    started: run.started,
                    value,
                    annotation: run.annotation.clone(),
                };
                let known = self.cells.iter_mut().find(|history| {
                    (&history.cell, &history.identity, history.metric) == (&name, &identity, metric)
                        && history.load == load
                });
                match known {
                    Some(history) => {
                        history.runs.push(run);
                        history.found = Found::default();
                    }
                    None => self.cells.push(CellHistory {
                        cell: name.clone(),
                        target: target.clone(),
                        identity: identity.clone(),
                        load: load.clone(),
                        metric,
                        runs: vec![run],
                        found: Found::default(),
                    }),
                }
            }
        }
    }

    /// Histories of all cells (measurements) that have a value in at least one run.
    pub fn cells(&self) -> &[CellHistory] {
        &self.cells
    }

    fn title(&self) -> String {
        format!("History of {}", self.workload)
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn in_words(shift: &Shift) -> String {
    let (low, high) = (percent(shift.interval.low), percent(shift.interval.high));
    format!("{} ({low} to {high})", percent(shift.ratio))
}

/// Id of the run with which a level began; if that is uncertain, ids of the first and the last possible run.
fn beginning(history: &CellHistory, level: &Level) -> String {
    let id = |index: usize| history.runs[index].id.clone();
    match &level.shift {
        Some(Shift { begins: (first, last), .. }) if first != last => {
            format!("{} to {}", id(*first), id(*last))
        }
        _ => id(level.start),
    }
}

/// One line of text per annotated run.
fn annotations(history: &CellHistory) -> impl Iterator<Item = String> {
    history.runs.iter().filter_map(|run| {
        let text = run.annotation.as_ref()?;
        Some(format!("{} run {}: {text}", minutes(run.started), run.id))
    })
}

fn rows(history: &CellHistory) -> Table {
    let mut table = Table::new([
        Column::words("level"),
        Column::words("shift, with its 95 % interval").short("shift (95 %)"),
        Column::words("runs"),
        Column::words("first run (UTC)"),
        Column::words("began with run (95 %)").short("began with"),
    ]);
    table.caption =
        format!("{} of {}, {}, on {}", history.metric, history.cell, history.load, history.target);
    for level in history.levels() {
        table.push([
            Cell::words(history.metric.quantity.human(level.value)),
            level.shift.as_ref().map_or_else(Cell::none, |shift| Cell::words(in_words(shift))),
            Cell::words((level.end - level.start).to_string()),
            Cell::words(minutes(history.runs[level.start].started)),
            Cell::words(beginning(history, level)),
        ]);
    }
    table
}

/// Formats the history as terminal text: the values and annotations of each cell, and the number of shifts.
#[must_use]
pub fn show(history: &History, style: Style) -> String {
    let mut text = Lines::new(style);
    text.heading(&history.title(), &human::counted(history.runs as u64, "run"));
    for cell in &history.cells {
        text.line(&format!("{} on {}: {}, {}", cell.cell, cell.target, cell.metric, cell.load));
        for line in table::lines(&rows(cell), style) {
            text.line(&format!("  {line}"));
        }
        for line in cell.without_shift().into_iter().chain(annotations(cell)) {
            text.line(&format!("  {}", clean(&line)));
        }
        text.blank();
    }
    let shifts: usize = history.cells.iter().map(|cell| cell.levels().len().max(1) - 1).sum();
    let (long, short): (Vec<_>, Vec<_>) = history.cells.iter().partition(|cell| cell.can_shift());
    text.line(&match shifts {
        0 if long.is_empty() => {
            let mut loads: Vec<String> = short.iter().map(|cell| cell.load.to_string()).collect();
            loads.sort();
            loads.dedup();
            let needed =
                format!("no shift can be detected yet: at least {SHIFT_RUNS_MIN} runs are needed");
            match loads.len() {
                0 | 1 => needed,
                n => format!("{needed} of each load, but these runs have {n} loads"),
            }
        }
        0 if short.is_empty() => "no shift found".to_owned(),
        0 => format!("no shift found in the cells with at least {SHIFT_RUNS_MIN} runs"),
        n => human::counted(n as u64, "shift"),
    });
    if let Some(left_out) = history.left_out.words(true) {
        text.line(&left_out);
    }
    text.end()
}

/// Returns the history as JSON (`docs/schema/history-v1.schema.json`).
#[must_use]
pub fn json(history: &History) -> Value {
    let cells = history.cells.iter().map(|cell| {
        let runs = cell.runs.iter().map(|run| {
            let (started, value) = (run.started.to_string(), run.value);
            let mut of = json!({ "run": run.id, "started": started, "value": value });
            if let Some(text) = &run.annotation {
                of["annotation"] = json!(text);
            }
            of
        });
        let levels = cell.levels().iter().map(|level| {
            let shift = level.shift.as_ref().map(|shift| {
                json!({
                    "ratio": shift.ratio,
                    "low": shift.interval.low,
                    "high": shift.interval.high,
                    "began_first": cell.runs[shift.begins.0].id,
                    "began_last": cell.runs[shift.begins.1].id,
                })
            });
            json!({
                "first_run": cell.runs[level.start].id,
                "last_run": cell.runs[level.end - 1].id,
                "runs": level.end - level.start,
                "value": level.value,
                "shift": shift,
            })
        });
        json!({
            "cell": cell.cell,
            "target": cell.target,
            "block_bytes": cell.load.block_bytes,
            "threads": cell.load.threads,
            "depth": cell.load.depth,
            "offered_iops": cell.load.offered_iops,
            "metric": cell.metric.to_string(),
            "runs": runs.collect::<Vec<_>>(),
            "levels": levels.collect::<Vec<_>>(),
            "detectable_share": cell.detectable_share(),
        })
    });
    let LeftOut { other_targets, other_workloads, earlier } = history.left_out;
    json!({
        "schema": JSON_VERSION,
        "workload": history.workload,
        "left_out": {
            "other_targets": other_targets,
            "other_workloads": other_workloads,
            "earlier": earlier,
        },
        "cells": cells.collect::<Vec<_>>(),
    })
}

/// Creates an axis that need not include 0, so that shifts of a few percent are visible.
fn without_zero(label: String, quantity: Quantity) -> Axis {
    Axis { label, quantity, scale: Scale::Linear { zero: false }, range: None }
}

fn figure(index: usize, history: &CellHistory) -> Figure {
    let quantity = match history.metric.quantity {
        Measured::Iops => Quantity::Iops,
        Measured::Bandwidth => Quantity::Throughput,
        Measured::Mean | Measured::Quantile(_) | Measured::Max => Quantity::LatencyNs,
    };
    let all = history.levels();
    // Annotated runs, and the first run of each level, are named.
    let label = |i: usize, run: &RunValue| match &run.annotation {
        Some(text) => text.clone(),
        None if all.iter().any(|level| level.start == i) => run.id.clone(),
        None => String::new(),
    };
    let at = |(i, run): (usize, &RunValue)| Point {
        label: label(i, run),
        ..Point::at(i as f64 + 1.0, run.value)
    };
    let line = |level: &Level| {
        let ends = [level.start as f64 + 0.6, level.end as f64 + 0.4];
        // A gap after each level.
        ends.map(|x| Point::at(x, level.value)).into_iter().chain([Point::at(ends[1], f64::NAN)])
    };
    let series = |name: &str, mark: Mark, color: usize, points: Vec<Point>| Series {
        name: name.to_owned(),
        mark,
        color,
        points,
    };
    let mut drawn =
        vec![series("run", Mark::Dots, 0, history.runs.iter().enumerate().map(at).collect())];
    let mut why = None;
    if history.can_shift() {
        drawn.push(series("level", Mark::Line, 1, all.iter().flat_map(line).collect()));
    } else {
        why = Some(format!(
            "No level is drawn: at least {SHIFT_RUNS_MIN} runs are needed to tell a shift from noise"
        ));
    }
    let shifts = all.iter().filter_map(|level| Some((level, level.shift.as_ref()?)));
    let notes = shifts
        .map(|(level, shift)| format!("{} from run {}", in_words(shift), beginning(history, level)))
        .chain(history.without_shift())
        .chain(annotations(history))
        .chain(why)
        .collect();
    Figure {
        id: format!("history-{index}"),
        title: format!("{} of {}", history.metric, history.cell),
        summary: format!(
            "{} of {} in {}, with {}",
            history.metric,
            history.cell,
            human::counted(history.runs.len() as u64, "run"),
            match all.len() {
                1 if !history.can_shift() => "too few for a level".to_owned(),
                1 => "one level".to_owned(),
                n => format!("{n} levels"),
            }
        ),
        conditions: format!("{}, {}", history.target, history.load),
        shape: Shape::Plot(Plot {
            x: without_zero("runs in chronological order".to_owned(), Quantity::Count),
            panels: vec![Panel::new(without_zero(history.metric.to_string(), quantity), drawn)],
            spans: Vec::new(),
        }),
        notes,
    }
}

/// Creates the page of a history. `made_by`: name and version of the program. `command`: command line that creates the
/// page.
#[must_use]
pub fn document(history: &History, made_by: &str, command: &str) -> Document {
    let section = |(index, cell): (usize, &CellHistory)| Section {
        id: format!("cell-{index}"),
        title: format!("{} on {}", cell.cell, cell.target),
        blocks: vec![Block::Figure(figure(index, cell)), Block::Table(rows(cell))],
        folded: false,
    };
    let mut sections: Vec<Section> = history.cells.iter().enumerate().map(section).collect();
    if sections.is_empty() {
        sections.push(Section {
            id: "none".to_owned(),
            title: "Nothing to show".to_owned(),
            blocks: vec![Block::Text(format!(
                "No finished run has enough operations for a value of {}.",
                history.metric
            ))],
            folded: false,
        });
    }
    let command = Block::Code { caption: "Command".to_owned(), text: command.to_owned() };
    sections.push(Section {
        id: "reproduce".to_owned(),
        title: "Reproduce".to_owned(),
        blocks: vec![command],
        folded: false,
    });
    Document {
        title: history.title(),
        about: [history.metric.to_string(), human::counted(history.runs as u64, "run")]
            .into_iter()
            .chain(history.left_out.words(false))
            .collect(),
        sections,
        made_by: made_by.to_owned(),
        ..Document::default()
    }
}
