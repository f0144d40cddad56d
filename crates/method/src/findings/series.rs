//! A series: one workload over time, in samples.

use super::table::Row;
use super::within_cell::{self, Stalls};
use super::{Step, measured};
use crate::completed_step::Done;
use crate::next_step::series_steady;
use crate::stage::Series;
use iodyno_measure::statistics::drift::Drift;
use iodyno_measure::statistics::steady::SteadyReport;
use serde::Serialize;

/// Finding of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesFinding {
    /// In order of time.
    pub samples: Vec<Sample>,
    /// The verdict by the specification's rule on every n-th sample, where the method requires it.
    pub steady: Option<SteadyReport>,
    /// Iodyno's drift test beside it, on the rate interval by interval; None where there are too few.
    pub drift: Option<Drift>,
    /// Intervals with less than a tenth of the usual operations.
    pub stalls: Stalls,
    /// Over the last fifth of the samples, at least ten.
    pub end: Row,
    /// Over the first sample.
    pub first: Row,
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// From the start of the series to the end of the sample, measured time and waits, s.
    pub at_s: f64,
    /// Written since the start, in active ranges of the target (drive fills); None where unknown.
    pub fills: Option<f64>,
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency, ns.
    pub mean_ns: Option<f64>,
    /// 99.999th percentile, ns; None where the samples do not support it.
    pub p99_999_ns: Option<f64>,
    /// Largest latency, ns.
    pub max_ns: Option<f64>,
}

pub(super) fn series(of: &Series, seed: u64, done: &[&Done], steps: &[&Step<'_>]) -> SeriesFinding {
    use iodyno_measure::metric::Quantity as Q;
    let (mut at_ns, mut written) = (0_u64, 0_u64);
    let mut samples = Vec::new();
    for step in measured(steps) {
        let Some(figures) = &step.done.figures else { continue };
        at_ns += figures.window_ns;
        written += figures.written_bytes;
        let active = figures.active_bytes;
        samples.push(Sample {
            at_s: at_ns as f64 / 1e9,
            fills: (active > 0).then(|| written as f64 / active as f64),
            iops: figures.summary.iops,
            bytes_per_s: figures.summary.bytes_per_s,
            mean_ns: figures.get(Q::Mean),
            p99_999_ns: figures.get(Q::Quantile(0.99999)),
            max_ns: figures.get(Q::Max),
        });
        at_ns += of.wait_ns;
    }
    let all: Vec<&Step<'_>> = measured(steps).collect();
    let last = (all.len() / 5).max(10).min(all.len());
    SeriesFinding {
        samples,
        steady: series_steady(of, done).ok().flatten().map(|s| s.report()),
        drift: within_cell::drift(all.iter().copied(), seed),
        stalls: within_cell::stalls(all.iter().copied()),
        end: Row::of(Vec::new(), all[all.len() - last..].iter().copied()),
        first: Row::of(Vec::new(), all.iter().take(1).copied()),
    }
}
