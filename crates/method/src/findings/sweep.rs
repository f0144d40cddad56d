//! Result of measuring a grid: a table of its points, the load curve if all axes are loads, and the scaling if the only
//! axis is targets or threads.

use super::table::Table;
use super::{Step, measured};
use crate::axis::AxisKind;
use crate::completed_step::Done;
use crate::next_step::load_points;
use crate::stage::Cells;
use iodyno_measure::statistics::knee::{LoadPoint, Optimum, optimum, outside_curve, ties};
use iodyno_measure::statistics::scaling::{Scalability, ScalePoint, Scaled, fit, scaled};
use iodyno_measure::verdict::limit_seen;
use serde::Serialize;

/// Result of measuring a grid of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepFinding {
    pub table: Table,
    /// Latency as a function of load; `None` unless every axis is depth, threads or rate.
    pub load: Option<Load>,
    /// Throughput as a function of parallelism; `None` unless targets or threads is the only axis.
    pub scaling: Option<Scaling>,
}

/// Load curve: throughput and latency as functions of the outstanding I/Os.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Index of the table row of each entry of [`Self::points`].
    pub rows: Vec<usize>,
    /// Throughput and latencies at each point of the curve.
    pub points: Vec<LoadPoint>,
    /// Texts of the latency ceilings (maximum latencies) that the best point must meet, such as `p99 ≤ 1 ms`.
    pub ceilings: Vec<String>,
    /// Text (as in [`Self::ceilings`]) and value in ns of each latency ceiling.
    pub limits: Vec<(String, f64)>,
    /// Best point that meets all latency ceilings (maximum latencies). Indices refer to [`Self::points`].
    pub optimum: Optimum,
    /// Indices in [`Self::points`] of the points that perform like the best one: they meet the latency ceilings, and
    /// the 95 % confidence intervals of their IOPS overlap with that of the best point. Without latency ceilings, the
    /// best point is the one with the highest IOPS.
    pub ties: Vec<usize>,
    /// Indices in [`Self::points`] of the points that achieve more IOPS than every point with fewer outstanding I/Os.
    /// Points with unusable figures are ignored.
    pub outside: Vec<usize>,
    /// Description of the limit outside the device that determined the highest IOPS; `None` if none is known or
    /// inferred.
    pub limited_by: Option<String>,
}

impl Load {
    /// Sentence about the limit outside the device that determines the curve's knee; `None` without such a limit.
    pub fn limited(&self) -> Option<String> {
        let limit = self.limited_by.as_ref()?;
        Some(format!(
            "the knee is caused by an external limit, and latencies beyond it are waits for that limit, not queueing in the device: {limit}"
        ))
    }
}

/// Throughput as a function of the number of targets or threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaling {
    /// Axis of the scaling: `targets` or `threads`.
    pub of: &'static str,
    /// Speed-up and efficiency of each point, relative to the point with the fewest targets or threads.
    pub points: Vec<Scaled>,
    /// Universal scalability law fitted to the points; `None` with too few points.
    pub law: Option<Scalability>,
}

pub(super) fn sweep(cells: &Cells, steps: &[&Step<'_>]) -> SweepFinding {
    let table = Table::of(&cells.grid, &measured(steps));
    let done: Vec<&Done> = steps.iter().map(|s| s.done).collect();
    let load = cells.grid.is_load_curve().then(|| {
        let points = load_points(&cells.grid, &done, false, &cells.ceilings);
        let limited_by = limited_by(steps);
        Load { limited_by, ..load(points, cells, &table) }
    });
    SweepFinding { load, scaling: scaling(cells, &table), table }
}

fn load(points: Vec<(usize, LoadPoint)>, cells: &Cells, table: &Table) -> Load {
    let (rows, points): (Vec<usize>, Vec<LoadPoint>) = points.into_iter().unzip();
    let named =
        |c: &crate::Ceiling| format!("{} ≤ {}", c.of, iodyno_units::human::time_ns(c.ns as f64));
    let limits: Vec<f64> = cells.ceilings.iter().map(|c| c.ns as f64).collect();
    let optimum = optimum(&points, &limits);
    let half_widths: Vec<_> = rows.iter().map(|&row| table.rows[row].iops_half_width).collect();
    let ties = match optimum {
        Optimum::Found { most, .. } if limits.is_empty() => {
            ties(&points, &limits, &half_widths, most)
        }
        Optimum::Found { chosen, .. } => ties(&points, &limits, &half_widths, chosen),
        _ => Vec::new(),
    };
    Load {
        rows,
        optimum,
        ties,
        outside: outside_curve(&points),
        points,
        ceilings: cells.ceilings.iter().map(named).collect(),
        limits: cells.ceilings.iter().map(|c| (named(c), c.ns as f64)).collect(),
        limited_by: None,
    }
}

/// External limit that determined the rate of the cell with the highest rate; `None` if there is none.
fn limited_by(steps: &[&Step<'_>]) -> Option<String> {
    let rate = |step: &&Step<'_>| step.done.figures.as_ref().map_or(0.0, |f| f.summary.ops_per_s);
    let fastest = measured(steps).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    limit_seen(fastest.cell).map(|limit| limit.words)
}

fn scaling(cells: &Cells, table: &Table) -> Option<Scaling> {
    let [axis] = cells.grid.axes.as_slice() else { return None };
    if !matches!(axis.kind, AxisKind::Targets | AxisKind::Threads) {
        return None;
    }
    let points = axis.values.iter().zip(&table.rows).filter_map(|(value, row)| {
        let n = value.to_string().parse().ok()?;
        Some(ScalePoint { n, throughput: row.iops.filter(|x| *x > 0.0)? })
    });
    let points: Vec<ScalePoint> = points.collect();
    Some(Scaling { of: axis.kind.name(), points: scaled(&points).ok()?, law: fit(&points).ok() })
}
