//! One stage of a method as input of its plots, and access to the rows of its table.

use super::labels;
use crate::method_headlines::is_over_workloads;
use iodyno_measure::{Cell, Level};
use iodyno_method::findings::{Row, Table as Grid};
use iodyno_notebook::Run;
use iodyno_page::Tone;

/// One stage of one subject, with the cells that it measured.
pub(super) struct Stage<'a> {
    pub(super) run: &'a Run,
    /// The gravest verdict on the run as a whole.
    pub(super) run_level: Option<Level>,
    /// The subject's target, where there are several subjects; else empty.
    pub(super) of: String,
    /// A name for links, unique in the report.
    pub(super) id: String,
    /// Its name.
    pub(super) name: &'a str,
    /// Its cells; of several targets the merged ones.
    pub(super) cells: Vec<&'a Cell>,
    /// Whether to draw grids also as columns.
    pub(super) columns: bool,
}

impl Stage<'_> {
    /// The line below a figure.
    pub(super) fn line(&self) -> String {
        labels::line_of(self.run, self.run_level, self.cells.iter().copied())
    }

    /// A title, with the subject where there are several.
    pub(super) fn titled(&self, title: &str) -> String {
        if self.of.is_empty() { title.to_owned() } else { format!("{title}, {}", self.of) }
    }
}

/// The values of an axis, in their order.
pub(super) fn values(table: &Grid, axis: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in &table.rows {
        if !all.contains(&row.at[axis]) {
            all.push(row.at[axis].clone());
        }
    }
    all
}

/// `depth 4, block 4KiB`; of a grid over workloads the workload's name, of one without axes the stage's.
pub(super) fn point_name(stage: &Stage<'_>, table: &Grid, row: &Row) -> String {
    if is_over_workloads(&table.axes) {
        return row.at[0].clone();
    }
    let at = table.axes.iter().zip(&row.at).map(|(axis, value)| format!("{axis} {value}"));
    let name = at.collect::<Vec<_>>().join(", ");
    if name.is_empty() { stage.name.to_owned() } else { name }
}

/// One of `NINES`, ns.
pub(super) fn nine(row: &Row, i: usize) -> Option<f64> {
    row.nines_ns.get(i).copied().flatten().map(|ns| ns as f64)
}

pub(super) fn tone(row: &Row) -> Tone {
    row.level.filter(|l| *l >= Level::Warning).map_or(Tone::Plain, labels::tone)
}
