//! The statistics of a measured cell that a fit compares with the simulation, and their uncertainty.
//!
//! Each kind of operation gives its mean latency, its median and its 99th percentile. In closed loop the rate follows
//! from the mean latency (Little's law), so it is not a separate statistic. Published figures, however, may state only
//! a rate.

use iodyno_measure::statistics::{describe, distribution, quantile};
use iodyno_measure::{Cell, Histogram};
use iodyno_units::OpKind;

/// Smallest number of operations of a kind for which statistics are computed.
const OPS_MIN: u64 = 100;
/// Smallest number of a cell's intervals from which the correlation of neighbouring operations is estimated.
const INTERVALS_MIN: usize = 10;
/// Relative standard error of a percentile because buckets of histograms are 1/128 wide: the error between two values,
/// each uniformly distributed in a bucket.
const BUCKET: f64 = 0.0032;
/// Minimum relative standard error of a mean, because the window cuts off its first and last operations.
const MEAN_ERROR_MIN: f64 = 0.0005;

/// Mean or percentile of a latency, or a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    Mean,
    /// Median of the latency.
    P50,
    /// 99th percentile of the latency.
    P99,
    /// Mean time between completions of all kinds of operations: the reciprocal of the rate.
    Rate,
}

impl Figure {
    /// The figures that are computed from a histogram of latencies, in display order.
    pub const OF_LATENCY: [Self; 3] = [Self::Mean, Self::P50, Self::P99];

    /// Name of the figure in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Rate => "rate",
        }
    }

    /// Relative change of the latency, or of the rate, if its value in ns is multiplied by `ratio`.
    pub(crate) fn change(self, ratio: f64) -> f64 {
        (if self == Self::Rate { 1.0 / ratio } else { ratio }) - 1.0
    }

    /// Value of the figure in a histogram, ns; `None` if it has too few operations, or for a rate.
    fn of(self, latencies: &Histogram) -> Option<f64> {
        match self {
            Self::Rate => None,
            Self::Mean => latencies.mean_ns(),
            Self::P50 => latencies.supported_quantile_ns(0.5).map(|ns| ns as f64),
            Self::P99 => latencies.supported_quantile_ns(0.99).map(|ns| ns as f64),
        }
    }
}

/// Mean or percentile latency of one kind of operation in one cell, or the rate of the cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistic {
    /// Index of the cell in its list: the cells that the fit uses, or the held-out cells.
    pub cell: usize,
    /// Kind of the operations whose latency this is; for a rate, the first kind of operation in the workload.
    pub kind: OpKind,
    /// Mean or percentile of the latency, or the rate.
    pub figure: Figure,
    /// Measured value, ns, above 0.
    pub value_ns: f64,
    /// Relative standard error of the value: the sampling error of this cell, or the error stated for a published
    /// value.
    pub error: f64,
}

/// Measured or published results of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Statistics that a fit compares with the simulation. [`Statistic::cell`] is 0 in all of them.
    pub statistics: Vec<Statistic>,
    /// Operations per second, all kinds together.
    pub ops_per_s: f64,
    /// Reads and writes: operations per second, and bytes per second.
    pub(crate) rates: [(f64, f64); 2],
    /// Length of the measured window, ns; `None` for published values, which hold for any length.
    pub window_ns: Option<u64>,
}

impl Observed {
    /// Computes the rates and latency statistics of a measured cell.
    pub fn of(cell: &Cell) -> Self {
        let total = cell.total();
        let rate = |kind| {
            total.class(kind).map_or((0.0, 0.0), |class| {
                (cell.per_second(class.ops() as f64), cell.per_second(class.bytes as f64))
            })
        };
        Self {
            statistics: statistics(0, cell),
            ops_per_s: cell.per_second(total.ops() as f64),
            rates: [rate(OpKind::Read), rate(OpKind::Write)],
            window_ns: Some(cell.window_ns),
        }
    }

    /// Returns the statistics with `number` as the index of their cell.
    pub(crate) fn numbered(&self, number: usize) -> impl Iterator<Item = Statistic> {
        self.statistics.iter().map(move |of| Statistic { cell: number, ..*of })
    }
}

/// Computes the statistics of a cell. `number`: the cell's index in the list of cells.
pub(crate) fn statistics(number: usize, cell: &Cell) -> Vec<Statistic> {
    let total = cell.total();
    let mut all = Vec::new();
    for (kind, class) in total.iter() {
        let latencies = class.response_time();
        if latencies.count() < OPS_MIN {
            continue;
        }
        let inflation = inflation(cell, kind);
        for figure in Figure::OF_LATENCY {
            let (Some(value_ns), Some(error)) =
                (figure.of(latencies), error(figure, latencies, inflation))
            else {
                continue;
            };
            if value_ns > 0.0 {
                all.push(Statistic { cell: number, kind, figure, value_ns, error });
            }
        }
    }
    all
}

/// Relative standard error of a statistic in a simulated cell; `None` if the cell has too few operations of the kind. A
/// rate is as uncertain as the mean latency.
pub(crate) fn simulation_error(of: &Statistic, simulated: &[Statistic]) -> Option<f64> {
    let figure = if of.figure == Figure::Rate { Figure::Mean } else { of.figure };
    let same = |other: &&Statistic| (of.kind, figure) == (other.kind, other.figure);
    simulated.iter().find(same).map(|other| other.error)
}

/// Looks up the value of a statistic in a simulated cell, ns. `None` if the cell has too few operations of the kind.
pub(crate) fn simulated_ns(of: &Statistic, cell: &Cell) -> Option<f64> {
    let total = cell.total();
    if of.figure == Figure::Rate {
        let per_s = cell.per_second(total.ops() as f64);
        return (per_s > 0.0).then(|| 1e9 / per_s);
    }
    let latencies = total.class(of.kind)?.response_time();
    of.figure.of(latencies).filter(|ns| *ns > 0.0)
}

/// Number of correlated operations that carry as much information as one independent operation, at least 1:
/// operations in flight together are delayed together. 1 if there are too few intervals.
fn inflation(cell: &Cell, kind: OpKind) -> f64 {
    let of = |interval: &iodyno_measure::Interval| {
        let latencies = interval.class(kind)?.response_time();
        (latencies.count() > 0).then(|| (latencies.count() as f64, latencies.mean_ns()))
    };
    let (counts, means): (Vec<f64>, Vec<f64>) =
        cell.series.iter().filter_map(of).filter_map(|(n, mean)| Some((n, mean?))).unzip();
    let total = cell.total();
    let deviation_ns = total.class(kind).and_then(|class| class.response_time().stddev_ns());
    let Some(deviation_ns) = deviation_ns else { return 1.0 };
    if means.len() < INTERVALS_MIN || deviation_ns == 0.0 {
        return 1.0;
    }
    let expected = deviation_ns.powi(2) / describe::mean(&counts);
    (describe::deviation(&means).powi(2) / expected).max(1.0)
}

/// Relative standard error of a figure due to sampling; `None` if it is unknown.
fn error(figure: Figure, latencies: &Histogram, inflation: f64) -> Option<f64> {
    let sampling = match figure {
        Figure::Mean | Figure::Rate => {
            let n = latencies.count() as f64 / inflation;
            (latencies.stddev_ns()? / latencies.mean_ns()? / n.sqrt()).hypot(MEAN_ERROR_MIN)
        }
        Figure::P50 | Figure::P99 => {
            let q = if figure == Figure::P50 { 0.5 } else { 0.99 };
            let found = quantile::quantile(latencies, q, 0.95, inflation)?;
            let interval = found.interval()?;
            let widths = 2.0 * distribution::normal_quantile(0.975);
            ((interval.high / interval.low.max(1.0)).ln() / widths).hypot(BUCKET)
        }
    };
    Some(sampling)
}
