//! Results of a grid as a table. Each row has the results of one grid point, computed from all cells (measurements) of
//! the point except skipped ones.

use super::Step;
use super::kinds::{self, NINES};
use crate::completed_step::{Figures, response_time};
use crate::grid::Grid;
use iodyno_measure::statistics::repeats;
use iodyno_measure::statistics::within::{Within, within};
use iodyno_measure::{Ended, Histogram, KindSummary, Level};
use iodyno_units::OpKind;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;

/// Results of all points of a grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Names of the axes, outermost first.
    pub axes: Vec<String>,
    /// One row per point, in the order of the grid's definition.
    pub rows: Vec<Row>,
}

/// Results of one point, over all of its cells (measurements).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Value of the point on each axis, as text.
    pub at: Vec<String>,
    /// Number of cells from which the results were computed. Skipped cells are not counted.
    pub n: usize,
    /// Reason why a cell of the point was skipped; `None` if none was.
    pub skipped: Option<String>,
    /// Outstanding I/Os of all threads of a target: threads × depth in closed loop, the measured mean in open loop.
    #[serde(serialize_with = "as_integer_if_whole")]
    pub oio: f64,
    /// Mean of the cells' IOPS; `None` if no cell was measured.
    pub iops: Option<f64>,
    /// Half width of the 95 % confidence interval of `iops` over the cells, as a fraction of `iops`; `None` for
    /// fewer than two cells.
    pub iops_half_width: Option<f64>,
    /// Mean of the cells' bytes per second; `None` if no cell was measured.
    pub bytes_per_s: Option<f64>,
    /// Mean latency over all operations of all cells, ns; `None` if nothing completed.
    pub mean_ns: Option<f64>,
    /// Latency percentiles in the order of [`NINES`], from the merged histogram of the cells, ns; `None` with too
    /// few samples.
    pub nines_ns: Vec<Option<u64>>,
    /// 95 % confidence interval of each latency percentile, in the order of [`NINES`]; `None` with too few samples.
    pub within: Vec<Option<Within>>,
    /// Maximum latency, ns; `None` if nothing completed.
    pub max_ns: Option<u64>,
    /// Number of operations completed in all cells.
    pub ops: u64,
    /// Level of the most severe verdict on the cells; `None` without verdicts.
    pub level: Option<Level>,
    /// Codes of the cells' verdicts of level `Warning` or worse, without duplicates.
    pub codes: Vec<String>,
    /// Whether a cell ended early because its mean was precise enough. Occurs only in virtual time.
    pub settled: bool,
    #[serde(serialize_with = "kinds::serialize")]
    pub kinds: Vec<KindSummary>,
}

impl Table {
    /// Builds the table from the completed steps of a grid.
    pub(crate) fn of<'a>(
        grid: &Grid,
        steps: &(impl Iterator<Item = &'a Step<'a>> + Clone),
    ) -> Self {
        let rows = (0..grid.len()).map(|index| {
            let mine = steps.clone().filter(|s| s.done.place.index as usize == index);
            let words = grid.point(index).map(|p| p.words).unwrap_or_default();
            Row::of(words.into_iter().map(|(_, value)| value).collect(), mine)
        });
        Self {
            axes: grid.axes.iter().map(|axis| axis.kind.name().to_owned()).collect(),
            rows: rows.collect(),
        }
    }
}

impl Table {
    /// Kinds of operation whose latencies must be shown separately: all kinds if a point has several, otherwise none.
    pub fn kinds_apart(&self) -> Vec<OpKind> {
        kinds_apart(self.rows.iter())
    }
}

/// Kinds of operation whose latencies must be shown separately: all kinds in `rows` if a row has several, otherwise
/// none.
pub fn kinds_apart<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<OpKind> {
    let (mut all, mut has_several) = (BTreeSet::new(), false);
    for row in rows {
        all.extend(row.kinds.iter().map(|of| of.kind));
        has_several |= row.kinds.len() > 1;
    }
    if has_several { all.into_iter().collect() } else { Vec::new() }
}

/// Serialises a whole number without a fraction.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn as_integer_if_whole<S: Serializer>(x: &f64, out: S) -> Result<S::Ok, S::Error> {
    if x.fract() == 0.0 { out.serialize_u64(*x as u64) } else { out.serialize_f64(*x) }
}

impl Row {
    /// Results of one kind of operation; `None` if it did not occur.
    pub fn of_kind(&self, kind: OpKind) -> Option<&KindSummary> {
        self.kinds.iter().find(|of| of.kind == kind)
    }

    /// Builds a row from the cells of one point.
    pub(crate) fn of<'a>(at: Vec<String>, steps: impl Iterator<Item = &'a Step<'a>>) -> Self {
        let mut row = Self { at, ..Self::default() };
        let mut all = Vec::<&Figures>::new();
        let mut cells = Vec::new();
        let mut series: Vec<Vec<&Histogram>> = Vec::new();
        for step in steps {
            let cell = step.cell;
            row.skipped = row.skipped.take().or_else(|| cell.evidence.skipped.clone());
            let Some(figures) = &step.done.figures else { continue };
            all.push(figures);
            cells.push(cell);
            let parts = cell.series.iter().map(iodyno_measure::Interval::iter);
            series
                .extend(parts.map(|kinds| kinds.map(|(_, class)| class.response_time()).collect()));
            row.level = row.level.max(cell.level());
            for verdict in cell.verdicts.iter().filter(|v| v.level >= Level::Warning) {
                if !row.codes.contains(&verdict.code) {
                    row.codes.push(verdict.code.clone());
                }
            }
            row.settled |= cell.ended == Ended::Settled;
        }
        row.n = all.len();
        if all.is_empty() {
            return row;
        }
        let response_time = response_time(&all);
        let iops: Vec<f64> = all.iter().map(|f| f.summary.iops).collect();
        let mean =
            |of: &dyn Fn(&Figures) -> f64| all.iter().map(|f| of(f)).sum::<f64>() / row.n as f64;
        row.oio = mean(&|f| f.oio);
        row.iops = Some(mean(&|f| f.summary.iops));
        row.iops_half_width = repeats::mean(&iops, 0.95).ok().and_then(|m| m.half_width_share());
        row.bytes_per_s = Some(mean(&|f| f.summary.bytes_per_s));
        row.mean_ns = response_time.mean_ns();
        row.nines_ns = NINES.iter().map(|(q, _)| response_time.supported_quantile_ns(*q)).collect();
        row.within = within(&response_time, &series, &NINES.map(|(q, _)| q), 0.95);
        row.max_ns = response_time.max_ns();
        row.ops = response_time.count();
        row.kinds = match cells.as_slice() {
            [_] => all[0].summary.kinds.clone(),
            several => KindSummary::of_several(several),
        };
        // With a single kind of operation, its intervals are those of all operations.
        if row.kinds.len() > 1 {
            KindSummary::add_intervals(&mut row.kinds, &cells);
        }
        row
    }
}
