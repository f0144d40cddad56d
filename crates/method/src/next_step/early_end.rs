//! End condition of cells in virtual time that may end before their time.

use super::Method;
use crate::stage::{Act, Ceiling};
use iodyno_measure::metric::{Metric, Quantity};
use iodyno_units::Precondition;
use iodyno_workload::{EmulationOptions, Settle, Spec};

/// Minimum number of operations in a cell before it may end early; enough for a 99.9th percentile.
pub(super) const SETTLE_OPS: u64 = 12_000;
/// Minimum number of operations in the measurement of an operating point, so that a hundred lie beyond the
/// 99.999th percentile.
pub(super) const TAIL_OPS: u64 = 10_000_000;
/// Minimum number of operations beyond a percentile on which a decision depends.
const BEYOND_MIN: f64 = 100.0;

impl Method {
    /// End condition of a cell whose metrics `judged` decide something, such as whether a threshold holds. The cell
    /// may end only once it supports their percentiles. `None`: it must not end early, because a steady mean proves
    /// nothing about a maximum, or about operations outside the mix.
    pub fn settle_for(
        settle: Settle,
        spec: &Spec,
        judged: impl IntoIterator<Item = Metric>,
    ) -> Option<Settle> {
        let all: f64 = spec.kinds().map(|(_, share)| share).sum();
        judged.into_iter().try_fold(settle, |settle, metric| {
            let quantile = match metric.quantity {
                Quantity::Max => return None,
                Quantity::Quantile(quantile) => quantile,
                Quantity::Iops | Quantity::Bandwidth | Quantity::Mean => return Some(settle),
            };
            let meant = spec.kinds().filter(|(kind, _)| metric.kind.is_none_or(|of| of == *kind));
            let rarest = meant.map(|(_, share)| share / all).reduce(f64::min)?;
            let ops = (BEYOND_MIN / ((1.0 - quantile) * rarest)).ceil() as u64;
            Some(Settle { ops_min: settle.ops_min.max(ops), ..settle })
        })
    }

    /// Metrics of a stage's cells by which the method decides: ceilings, also those of stages that choose among these
    /// cells, and variables of the steady-state test.
    pub(super) fn judged(&self, stage: usize) -> Vec<Metric> {
        let mut ceilings: Vec<&Ceiling> = Vec::new();
        let mut tracked = Vec::new();
        match self.stages.get(stage).map(|stage| &stage.act) {
            Some(Act::Cells(cells)) => ceilings.extend(&cells.ceilings),
            Some(Act::Rounds(rounds)) => {
                ceilings.extend(&rounds.ceilings);
                tracked.extend(rounds.track.iter().map(|track| track.quantity));
            }
            _ => {}
        }
        for other in &self.stages {
            if let Act::Points(points) = &other.act
                && points.of == stage
            {
                ceilings.extend(&points.ceilings);
            }
        }
        tracked.extend(ceilings.into_iter().map(|ceiling| ceiling.of));
        tracked.into_iter().map(Metric::of_all).collect()
    }
}

/// Emulation options of a cell. If the cell starts in its workload's steady state, it may end early once its
/// mean is precise and `settle_ops` operations have completed.
pub(super) fn emulation(
    precondition: Precondition,
    fill: Option<f64>,
    settle_ops: Option<u64>,
) -> EmulationOptions {
    let settle_ops = settle_ops.filter(|_| precondition == Precondition::Workload);
    EmulationOptions { precondition, fill, settle: settle_ops.map(Settle::to_1_percent) }
}
