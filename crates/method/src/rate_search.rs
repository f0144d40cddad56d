//! Search for the highest rate at which a latency stays under a limit: decides the outcome of each cell (measurement),
//! and the next rate to try. Results are in `findings/rate_search.rs`.
//!
//! The first cell runs the workload in a closed loop: its rate is the target's capacity at this depth. Each further cell offers a
//! rate in an open loop, where response time counts from the intended start and so includes the queue before an
//! overloaded target. The search bisects between the highest rate that met the limit (initially 0) and the lowest that
//! missed it (initially the capacity). If even the capacity meets the limit, it tries higher rates, because an open loop
//! has as many operations outstanding as it needs. Since cells at the same rate may differ, a rate that misses the limit is
//! repeated: the majority of up to three cells decides. The final rate is repeated until two cells meet the limit
//! (`rate_search/course.rs`).

mod course;

pub use course::{Course, Outcome, PRECISION_SHARE};

use crate::completed_step::Figures;
use crate::grid::Grid;
use core::fmt;
use core::str::FromStr;
use iodyno_measure::histogram::EXCEEDANCES_MIN;
use iodyno_measure::metric::{Metric, NoMetric, Quantity};
use iodyno_measure::offered_rate::chance_ops;
use iodyno_measure::summary::PERCENTILES;
use iodyno_units::{human, parse_duration_ns};
use serde::{Deserialize, Serialize};

/// Maximum number of cells after the closed-loop cell. Suffices to descend from the capacity to a thousandth of it
/// and to reach the required precision there, including repeats.
pub(crate) const PROBES_MAX: u32 = 40;
/// If the target completes less than this fraction of the offered rate, the rate counts as missed without repeats.
const OVERLOAD_SHARE: f64 = 0.9;
/// Outstanding operations up to which rates are tried, as a closed loop at the measured latency would have them: the
/// search above the capacity ends there on a target without a limit.
const OUTSTANDING_MAX: u32 = 512;
/// Minimum for the highest rate tried, as a multiple of the capacity.
const REACH_MIN: f64 = 16.0;

/// An upper bound of a latency statistic, such as `p99<1ms`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LatencyLimit {
    /// Latency metric of the limit, for one kind of operation or for all.
    pub metric: Metric,
    /// Value that the latency must stay below, ns.
    pub below_ns: u64,
}

impl FromStr for LatencyLimit {
    type Err = String;

    /// Parses a latency limit such as `p99<1ms`, `read.p99.9 < 2ms` or `mean<200us`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, time)) = text.split_once('<') else {
            return Err(format!("`{text}` is not a limit: use one such as p99<1ms"));
        };
        let metric: Metric = name.trim().parse().map_err(|e: NoMetric| e.to_string())?;
        let known = |q: f64| PERCENTILES.iter().any(|p| p.quantile.total_cmp(&q).is_eq());
        match metric.quantity {
            Quantity::Mean => {}
            Quantity::Quantile(q) if metric.kind.is_none() || known(q) => {}
            _ => {
                return Err(format!(
                    "`{metric}` can't be searched for: use mean or a percentile; for one kind of operation p50, p90, p99, p99.9, p99.99 or p99.999"
                ));
            }
        }
        let time = time.trim().trim_start_matches('=');
        match parse_duration_ns(time).map_err(|e| e.to_string())? {
            0 => Err("a latency must be above 0".to_owned()),
            below_ns => Ok(Self { metric, below_ns }),
        }
    }
}

impl fmt::Display for LatencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}", self.metric, human::time_ns(self.below_ns as f64))
    }
}

impl From<LatencyLimit> for String {
    fn from(limit: LatencyLimit) -> Self {
        format!("{}<{}ns", limit.metric, limit.below_ns)
    }
}

impl TryFrom<String> for LatencyLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl LatencyLimit {
    /// Value of the limited latency metric in a cell, ns; `None` with too few samples.
    pub(crate) fn of(&self, figures: &Figures) -> Option<f64> {
        let summary = &figures.summary;
        match self.metric.kind {
            None => summary.get(self.metric.quantity),
            Some(kind) => {
                let of = summary.kinds.iter().find(|of| of.kind == kind)?;
                of.response_time.get(self.metric.quantity)
            }
        }
    }

    /// Minimum number of operations in a cell to determine the limited latency.
    fn ops_min(&self) -> f64 {
        match self.metric.quantity {
            Quantity::Quantile(q) => EXCEEDANCES_MIN / q.min(1.0 - q),
            _ => 1.0,
        }
    }
}

/// Search for the highest rate that meets a latency limit: parameters of [`Act::RateSearch`](crate::Act::RateSearch).
#[derive(Clone, Debug, PartialEq)]
pub struct RateSearch {
    /// Workload whose rate is searched, as a grid of one point.
    pub grid: Grid,
    pub limit: LatencyLimit,
}

impl RateSearch {
    /// Outcome of a cell that offered `rate_iops`: whether the target sustained the rate with the latency under
    /// the limit.
    pub(crate) fn outcome(&self, rate_iops: f64, figures: &Figures) -> Outcome {
        let (done, ops) = (figures.summary.ops_per_s, figures.summary.ops as f64);
        let offered = figures.offered_iops.unwrap_or(rate_iops);
        let due = if done > 0.0 { ops / done * offered } else { f64::INFINITY };
        // Few random arrivals may be far fewer than offered.
        let is_far_short = done < OVERLOAD_SHARE * offered && due - ops > chance_ops(due);
        match self.limit.of(figures) {
            _ if is_far_short => Outcome::Overloaded,
            None if figures.is_rate_met => Outcome::Unknown,
            Some(ns) if figures.is_rate_met && ns < self.limit.below_ns as f64 => Outcome::Holds,
            _ => Outcome::Fails,
        }
    }

    /// Reconstructs the state of the search from the results of its cells, the closed-loop cell first; `None` without
    /// cells.
    pub(crate) fn course(&self, figures: &[&Figures]) -> Option<Course> {
        let (first, probes) = figures.split_first()?;
        let reach = f64::from(OUTSTANDING_MAX) / first.oio.max(1.0);
        let capacity_iops = first.summary.ops_per_s;
        let mut course = Course::from_capacity(capacity_iops, reach.max(REACH_MIN) * capacity_iops);
        for figures in probes {
            let Some(rate_iops) = course.next_iops() else { break };
            let outcome = self.outcome(rate_iops, figures);
            if outcome == Outcome::Unknown {
                course.end_unknown(rate_iops, self.time_needed_ns(rate_iops, figures));
            } else {
                course.add(rate_iops, outcome);
            }
        }
        Some(course)
    }

    /// Measuring time in which enough operations would complete to determine the latency, ns.
    fn time_needed_ns(&self, rate_iops: f64, figures: &Figures) -> u64 {
        // A single kind has fewer operations, in proportion.
        let ops = figures.summary.ops.max(1) as f64;
        let of_kind = self.limit.metric.kind.and_then(|kind| {
            figures.summary.kinds.iter().find(|of| of.kind == kind).map(|of| of.ops as f64)
        });
        let share = of_kind.unwrap_or(ops) / ops;
        let needed_s = self.limit.ops_min() / (rate_iops * share.max(1.0 / ops));
        (needed_s * 1.1e9) as u64
    }

    /// Next rate to try after the given cells, for all targets together; `None` if the search is complete.
    pub(crate) fn next_iops(&self, figures: &[&Figures]) -> Option<f64> {
        if figures.len() > PROBES_MAX as usize {
            return None;
        }
        self.course(figures)?.next_iops()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_measure::{Histogram, Summary};

    /// Simulates a cell whose `ops` operations all have the same latency.
    fn figures(iops: f64, latency_ns: u64, ops: u64) -> Figures {
        let mut response_time = Histogram::default();
        response_time.record_n(latency_ns, ops);
        let summary = Summary { ops_per_s: iops, ops, response_time, ..Summary::default() };
        Figures { summary, is_rate_met: true, ..Figures::default() }
    }

    fn search(limit: &str) -> RateSearch {
        let grid = Grid {
            base: Vec::new(),
            axes: Vec::new(),
            time_ns: 1,
            state: iodyno_units::Precondition::Workload,
            settles: false,
            rate_of: None,
        };
        RateSearch { grid, limit: limit.parse().unwrap() }
    }

    /// The latency crosses the limit at a rate between the two rates found, which differ by at most the promised
    /// precision. The search needs at most the stated number of cells.
    #[test]
    fn the_search_encloses_the_rate_at_which_the_latency_crosses_the_limit() {
        let search = search("p99<1ms");
        for crossing in [0.0015, 0.02, 0.1, 0.33, 0.5, 0.9, 0.989, 1.01, 1.7, 12.0] {
            let capacity_iops = 123_456.0;
            let mut all = vec![figures(capacity_iops, 5_000_000, 10_000)];
            while let Some(rate) = search.next_iops(&all.iter().collect::<Vec<_>>()) {
                let under = rate < crossing * capacity_iops;
                all.push(figures(rate, if under { 900_000 } else { 1_100_000 }, 10_000));
            }
            let found = search.course(&all.iter().collect::<Vec<_>>()).unwrap();
            let (low, high) = (found.holds_iops / capacity_iops, found.fails_iops / capacity_iops);
            assert!(low <= crossing && crossing <= high, "{crossing}: {low} {high}");
            assert!(high / low <= 1.0 + PRECISION_SHARE, "{crossing}: {low} {high}");
            assert!(all.len() <= 1 + PROBES_MAX as usize, "{crossing}: {}", all.len());
            assert!(found.has_failed);
            assert!(found.holds_iops == 0.0 || found.cells_at(found.holds_iops) >= 2);
        }
    }

    #[test]
    fn no_rate_holds_every_rate_holds_and_too_few_operations_to_know() {
        let search = search("p99 <= 1ms");
        let run = |latency_ns, met, ops| {
            let mut all = vec![figures(1e5, 1, 10_000)];
            while let Some(rate) = search.next_iops(&all.iter().collect::<Vec<_>>()) {
                let is_rate_met = met > 0.97;
                all.push(Figures { is_rate_met, ..figures(rate * met, latency_ns, ops) });
            }
            search.course(&all.iter().collect::<Vec<_>>()).unwrap()
        };
        let none = run(2_000_000, 1.0, 10_000);
        assert!(none.holds_iops == 0.0 && none.has_failed);
        assert!(run(1, 0.9, 10_000).holds_iops == 0.0, "a rate that is not met misses the limit");
        let every = run(1, 1.0, 10_000);
        assert!((5e7..=5.12e7).contains(&every.holds_iops) && !every.has_failed);
        // Of 100 operations one lies beyond the 99th percentile, but 1000 operations are needed, at 50000 per second.
        let (rate, time_ns) = run(1, 1.0, 100).unknown.unwrap();
        assert!(
            (rate - 5e4).abs() < 1.0 && (20_000_000..25_000_000).contains(&time_ns),
            "{time_ns}"
        );
    }

    /// By chance 895 of 1,000 random arrivals are due, but not 8,950 of 10,000.
    #[test]
    fn random_arrivals_are_not_missed() {
        let outcome =
            |rate, ops: u64| search("p90<1ms").outcome(rate, &figures(rate * 0.895, 900_000, ops));
        assert_eq!(outcome(1_000.0, 895), Outcome::Holds);
        assert_eq!(outcome(10_000.0, 8_950), Outcome::Overloaded);
    }

    #[test]
    fn limits_as_text() {
        for (text, shown) in [
            ("p99<1ms", "p99 < 1.00 ms"),
            ("read.p99.9 <= 2500us", "read.p99.9 < 2.50 ms"),
            ("mean < 80us", "mean < 80.0 µs"),
            ("p95<1ms", "p95 < 1.00 ms"),
        ] {
            let limit: LatencyLimit = text.parse().unwrap();
            assert_eq!(limit.to_string(), shown);
            assert_eq!(LatencyLimit::try_from(String::from(limit)), Ok(limit));
        }
        for wrong in ["p99", "p99>1ms", "iops<5", "max<1ms", "read.p95<1ms", "p99<0s", "p99<1"] {
            assert!(wrong.parse::<LatencyLimit>().is_err(), "{wrong}");
        }
    }
}
