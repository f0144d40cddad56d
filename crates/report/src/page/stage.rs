//! One stage of a method as the input of charts, and functions that read rows of the stage's result table.

use super::labels;
use crate::kinds::plural;
use crate::method_headlines::is_over_workloads;
pub(super) use crate::verdict_groups::tone_of_point as tone;
use iodyno_measure::{Cell, Level, Quantity};
use iodyno_method::findings::{NINES, Row, Table as Grid};
use iodyno_notebook::Run;
use iodyno_page::{Mark, Series};
use iodyno_units::OpKind;

/// A stage of a method on one subject (one target, or all together), with the measured cells.
pub(super) struct Stage<'a> {
    pub(super) run: &'a Run,
    /// The most severe verdict on the run as a whole.
    pub(super) run_level: Option<Level>,
    /// Name of the target if the method measures each target alone; otherwise empty.
    pub(super) of: String,
    /// Prefix of the stage's HTML ids, unique in the report.
    pub(super) id: String,
    pub(super) name: &'a str,
    /// Cells of the stage. With several targets, the cells merged over all targets.
    pub(super) cells: Vec<&'a Cell>,
    /// Whether to additionally draw grids of two axes as three-dimensional columns.
    pub(super) columns: bool,
}

impl Stage<'_> {
    /// Test conditions of the stage, as one line below a chart.
    pub(super) fn line(&self) -> String {
        labels::line_of(self.run, self.run_level, self.cells.iter().copied())
    }

    /// Adds the subject to the title if there are several subjects.
    pub(super) fn titled(&self, title: &str) -> String {
        if self.of.is_empty() { title.to_owned() } else { format!("{title}, {}", self.of) }
    }
}

/// Distinct values of an axis, in the order of the table's rows.
pub(super) fn values(table: &Grid, axis: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in &table.rows {
        if !all.contains(&row.at[axis]) {
            all.push(row.at[axis].clone());
        }
    }
    all
}

/// Name of a point: `depth 4, block 4KiB`; the workload's name in a grid over workloads; the
/// stage's name in a grid without axes.
pub(super) fn point_name(stage: &Stage<'_>, table: &Grid, row: &Row) -> String {
    if is_over_workloads(&table.axes) {
        return row.at[0].clone();
    }
    let at = table.axes.iter().zip(&row.at).map(|(axis, value)| format!("{axis} {value}"));
    let name = at.collect::<Vec<_>>().join(", ");
    if name.is_empty() { stage.name.to_owned() } else { name }
}

/// Latency of a row at the percentile `NINES[i]`, ns.
pub(super) fn nine(row: &Row, i: usize) -> Option<f64> {
    row.nines_ns.get(i).copied().flatten().map(|ns| ns as f64)
}

/// Line styles by kind of operation, for figures in which colours have another meaning.
pub(super) const KIND_MARKS: [Mark; 3] = [Mark::Line, Mark::Dashed, Mark::Dots];

/// Mean latency of one kind of operation, ns.
pub(super) fn kind_mean(row: &Row, kind: OpKind) -> Option<f64> {
    row.of_kind(kind)?.response_time.mean_ns
}

/// Latency of one kind of operation at the percentile `NINES[i]`, ns.
pub(super) fn kind_nine(row: &Row, kind: OpKind, i: usize) -> Option<f64> {
    row.of_kind(kind)?.response_time.get(Quantity::Quantile(NINES[i].0))
}

/// A line that shows one latency percentile, over all kinds of operation or over one.
pub(super) struct NineLine {
    /// The line's name, mark and colour, without points.
    pub(super) series: Series,
    pub(super) is_labelled: bool,
    kind: Option<OpKind>,
    nine: usize,
}

impl NineLine {
    /// Latency of the line's percentile at a row, ns.
    pub(super) fn of(&self, row: &Row) -> Option<f64> {
        match self.kind {
            Some(kind) => kind_nine(row, kind, self.nine),
            None => nine(row, self.nine),
        }
    }
}

/// Latency lines of a figure: p50, p99 and p99.9 over all operations; or, if `apart` is not empty, p99 and
/// p50 of each kind of operation, with one colour per kind.
pub(super) fn nine_lines(apart: &[OpKind]) -> Vec<NineLine> {
    let line = |kind: Option<OpKind>, nine: usize, mark, color, is_labelled| {
        let of = kind.map_or(String::new(), |kind| format!(" of {}", plural(kind)));
        let name = format!("{}{of}", NINES[nine].1);
        let series = Series { name, mark, color, points: Vec::new() };
        NineLine { series, is_labelled, kind, nine }
    };
    if apart.is_empty() {
        return (0..3).map(|i| line(None, i, Mark::Line, i, i == 1)).collect();
    }
    let of_kind = |(color, &kind): (usize, &OpKind)| {
        // Points of several lines lie above one another: only one line has labels.
        let p99 = line(Some(kind), 1, Mark::Line, color, color == 0);
        [p99, line(Some(kind), 0, Mark::Dashed, color, false)]
    };
    apart.iter().enumerate().flat_map(of_kind).collect()
}
