//! Result of a series: one workload sampled over time.

use super::table::Row;
use super::within_cell::{self, Stalls};
use super::{Step, measured};
use crate::completed_step::Done;
use crate::next_step::series_steady;
use crate::stage::Series;
use iodyno_measure::statistics::drift::Drift;
use iodyno_measure::statistics::steady::{Progress, SteadyReport};
use serde::Serialize;

/// Result of a stage that samples one workload over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesFinding {
    pub samples: Vec<Sample>,
    /// Result of SNIA's steady-state test on every n-th sample; `None` if the method requires no steady state.
    pub steady: Option<SteadyReport>,
    /// Result of iodyno's own drift test on the rates of all intervals; `None` for too few intervals.
    pub drift: Option<Drift>,
    /// Number and length of the stalls: runs of intervals with a rate below a tenth of the median.
    pub stalls: Stalls,
    /// Results of the last [`Self::end_samples`] samples.
    pub end: Row,
    /// Number of samples at the end: the steady-state window, from its first judged sample to its last. Without a
    /// steady state: the last fifth of the samples, or the last ten if that is more, but at most the last half.
    pub end_samples: usize,
    /// Results of the first sample.
    pub first: Row,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Time from the start of the series to the end of the sample, including idle time, s.
    pub at_s: f64,
    /// Bytes written since the start of the series, divided by the size of the active range (drive fills); `None` if
    /// unknown.
    pub fills: Option<f64>,
    /// Completed reads and writes per second; all kinds of operation if there were neither.
    pub iops: f64,
    /// Bytes read and written per second.
    pub bytes_per_s: f64,
    /// Mean latency, ns; `None` if nothing completed.
    pub mean_ns: Option<f64>,
    /// 99.999th percentile of the latency, ns; `None` with too few samples.
    pub p99_999_ns: Option<f64>,
    /// Maximum latency, ns; `None` if nothing completed.
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
    let steady = series_steady(of, done).ok().flatten().map(|s| s.report());
    // Samples before the first judged one are not part of the window: the drive may still have been fresh.
    let every = of.steady_every.unwrap_or(1) as usize;
    let window = (of.limits.window_rounds as usize).saturating_sub(1) * every + 1;
    let last = match &steady {
        Some(steady) if steady.progress == Progress::Reached => window.min(all.len()),
        _ => (all.len() / 5).max(10).min(all.len().div_ceil(2)),
    };
    let end = &all[all.len() - last..];
    SeriesFinding {
        samples,
        steady,
        drift: within_cell::drift(all.iter().copied(), seed),
        stalls: within_cell::stalls(all.iter().copied()),
        end: Row::of(Vec::new(), end.iter().copied()),
        end_samples: end.iter().filter(|step| step.done.figures.is_some()).count(),
        first: Row::of(Vec::new(), all.iter().take(1).copied()),
    }
}
