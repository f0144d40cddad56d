//! Result of the search for the highest rate that meets a latency limit. The result has two pairs of bounds for this
//! rate: one from the measured values, one with 95 % confidence.

use super::{Step, kinds, measured};
use crate::completed_step::Figures;
use crate::rate_search::{Outcome, PRECISION_SHARE, RateSearch};
use iodyno_measure::metric::{Metric, Quantity};
use iodyno_measure::statistics::within::{Within, within};
use iodyno_measure::statistics::{batch, describe};
use iodyno_measure::verdict::limit_seen;
use iodyno_measure::{Cell, ClassStats, Histogram, Interval, KindSummary};
use iodyno_units::{OpKind, human};
use serde::Serialize;

/// An external limit is reported to set the highest rate if no rate below this fraction of the capacity missed the
/// latency limit. Otherwise it is reported to set only the rate of the closed loop.
const EDGE_SHARE_MIN: f64 = 0.5;

/// Result of a search for the highest rate under a latency limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateSearchFinding {
    /// Latency limit, as text such as `p99<1ms`.
    pub limit: String,
    /// Kinds of operation that the limit covers and that occurred.
    #[serde(serialize_with = "kinds::names")]
    pub covers: Vec<OpKind>,
    /// Latency metric of the limit, such as p99.
    #[serde(skip)]
    pub metric: Metric,
    /// Capacity: rate of the closed-loop measurement, operations per second.
    pub capacity_iops: f64,
    /// Rate at which the search gave up because too few operations completed to determine the latency; `None` if the
    /// search did not give up.
    pub unknown_iops: Option<f64>,
    /// Length of a window that would have sufficed to determine the latency at `unknown_iops`, s; `None` if the search
    /// did not give up.
    pub time_needed_s: Option<f64>,
    /// Whether rates are still to be tried, because the run was interrupted or is in progress.
    #[serde(skip)]
    pub is_unfinished: bool,
    /// Highest rate found to meet the limit; `None` if none was.
    pub holds_iops: Option<f64>,
    /// Lowest rate found to miss the limit; `None` if all rates up to nearly the capacity met it.
    pub fails_iops: Option<f64>,
    /// Highest rate that certainly meets the limit: the latency's 95 % confidence interval is below the limit, and no
    /// measurement at this or a lower rate missed the limit. `None` if there is no such rate.
    pub surely_holds_iops: Option<f64>,
    /// Lowest rate that certainly misses the limit. At this rate, the latency's 95 % confidence interval is above the
    /// limit, or the target did not sustain the rate. In addition, no measurement at this or a higher rate met the
    /// limit. `None` if there is no such rate.
    pub surely_fails_iops: Option<f64>,
    /// Range of rates with mixed outcomes: from the lowest rate at which a measurement missed the limit to the highest
    /// at which one met it. `None` if all misses were at higher rates than all successes.
    pub mixed_iops: Option<(f64, f64)>,
    /// Number of measurements at [`Self::holds_iops`].
    pub cells_at_answer: usize,
    /// Mean numbers of operations in flight at [`Self::holds_iops`] and in closed loop, if the closed loop had more in
    /// flight but completed less. No steady target does so.
    #[serde(skip)]
    pub oio_above_capacity: Option<(f64, f64)>,
    /// Description of a limit outside the device, such as a cgroup's IOPS limit, that determined a rate. `None` if none
    /// was found.
    pub limited_by: Option<String>,
    /// Results at all tried rates, in ascending order of the rate; the closed-loop measurement comes last.
    pub probes: Vec<Probe>,
}

impl RateSearchFinding {
    /// Latency of one kind of operation at a tried rate, ns, in the limit's metric; `None` with too few samples.
    pub fn of_kind(&self, probe: &Probe, kind: OpKind) -> Option<f64> {
        let of = probe.kinds.iter().find(|of| of.kind == kind)?;
        of.response_time.get(self.metric.quantity)
    }

    /// Summarises the result of the search in one sentence.
    pub fn sentence(&self) -> String {
        let rate = |iops: f64| format!("{}/s", human::count(iops));
        let capacity = rate(self.capacity_iops);
        let limit = &self.limit;
        if let (Some(rate_iops), Some(needed_s)) = (self.unknown_iops, self.time_needed_s) {
            return format!(
                "too few operations to tell whether {} meets {limit}: give --time {} or more",
                rate(rate_iops),
                human::duration_ns(needed_s.ceil() as u64 * 1_000_000_000)
            );
        }
        if self.is_unfinished {
            let so_far = match (self.holds_iops, self.fails_iops) {
                (None, None) => "unknown".to_owned(),
                (None, Some(fails)) => format!("less than {}", rate(fails)),
                (Some(holds), None) => format!("at least {}", rate(holds)),
                (Some(holds), Some(fails)) => format!("{} to {}", rate(holds), rate(fails)),
            };
            return format!(
                "the search is unfinished: the highest rate with {limit} is {so_far}. In closed loop, {capacity} were completed"
            );
        }
        match (self.holds_iops, self.fails_iops) {
            (None, None) => format!("no rate was tried. In closed loop, {capacity} were completed"),
            (None, Some(fails)) => format!(
                "no rate meets {limit}: even {} misses it. In closed loop, {capacity} were completed",
                rate(fails)
            ),
            (Some(holds), None) => format!(
                "every rate up to {}, the highest tried, meets {limit}. In closed loop, {capacity} were completed{}",
                rate(holds),
                self.remarks()
            ),
            (Some(holds), Some(fails)) => {
                let surely = match (self.surely_holds_iops, self.surely_fails_iops) {
                    (Some(low), Some(high)) => {
                        format!("between {} and {} (95 %)", rate(low), rate(high))
                    }
                    (Some(low), None) => format!("{} or more (95 %)", rate(low)),
                    (None, Some(high)) => format!("less than {} (95 %)", rate(high)),
                    (None, None) => {
                        "the cells are too short for a confidence interval: use a longer --time"
                            .to_owned()
                    }
                };
                format!(
                    "highest rate with {limit}: {}, {surely}; {} misses the limit. In closed loop, {capacity} were completed{}",
                    rate(holds),
                    rate(fails),
                    self.remarks()
                )
            }
        }
    }

    /// Describes the limit outside the device that determined the highest rate; `None` if there is none.
    pub fn limited(&self) -> Option<String> {
        let limit = self.limited_by.as_ref()?;
        let is_edge =
            self.fails_iops.is_none_or(|fails| fails >= EDGE_SHARE_MIN * self.capacity_iops);
        let what = if is_edge {
            "the highest rate is set by an external limit, and latencies near it are waits for that limit, not queueing in the device"
        } else {
            "an external limit, not the device, sets the rate of the closed loop"
        };
        Some(format!("{what}: {limit}"))
    }
}

impl RateSearchFinding {
    /// Reasons to doubt the result, each after a semicolon; empty if there are none.
    fn remarks(&self) -> String {
        let all = [self.not_monotonic(), self.above_capacity()];
        let words: Vec<String> = all.into_iter().flatten().collect();
        if words.is_empty() { String::new() } else { format!("; {}", words.join("; ")) }
    }

    /// Describes a result that exceeds the closed loop's rate although fewer operations were in flight; `None` if it
    /// does not.
    fn above_capacity(&self) -> Option<String> {
        let (open, closed) = self.oio_above_capacity?;
        Some(format!(
            "in closed loop, more operations in flight ({} instead of {}) completed less, so the target sustains the higher rate only for a time, such as by burst credits{}",
            human::three_digits(closed),
            human::three_digits(open),
            if self.mixed_iops.is_some() { "" } else { ": use a longer --time" }
        ))
    }

    /// Describes rates at or above the first miss that nevertheless met the limit; `None` if there are none.
    pub fn not_monotonic(&self) -> Option<String> {
        let (lowest, highest) = self.mixed_iops?;
        let rate = |iops: f64| format!("{}/s", human::count(iops));
        let where_ = if lowest < highest {
            format!(
                "a cell at {} missed the limit and one at {} met it",
                rate(lowest),
                rate(highest)
            )
        } else {
            format!("of the cells at {}, some missed the limit and some met it", rate(lowest))
        };
        Some(format!(
            "not monotonic: {where_}, so the result can vary from run to run; use a longer --time"
        ))
    }
}

/// Result at one tried rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// Offered rate, operations per second; `None` for the closed-loop measurement.
    pub offered_iops: Option<f64>,
    /// Completed operations of all kinds per second.
    pub iops: f64,
    /// Latency in the limit's metric, ns; `None` with too few samples.
    pub latency_ns: Option<f64>,
    /// 95 % confidence interval of the latency; `None` with too few samples.
    pub within: Option<Within>,
    /// Whether the target sustained the rate with the latency under the limit; `None` if too few operations completed
    /// to tell, and for the closed-loop measurement.
    pub holds: Option<bool>,
    #[serde(serialize_with = "kinds::serialize")]
    pub kinds: Vec<KindSummary>,
}

pub(super) fn finding(search: &RateSearch, steps: &[&Step<'_>]) -> Option<RateSearchFinding> {
    let cells: Vec<_> =
        measured(steps).filter_map(|s| Some((s.cell, s.done.figures.as_ref()?))).collect();
    let figures: Vec<_> = cells.iter().map(|(_, figures)| *figures).collect();
    let course = search.course(&figures)?;
    let mut probes = Vec::new();
    for (cell, figures) in &cells {
        let offered_iops = cell.key.offered_iops;
        probes.push(Probe {
            offered_iops,
            iops: figures.summary.ops_per_s,
            latency_ns: search.limit.of(figures),
            within: interval(search, cell),
            holds: offered_iops.and_then(|rate_iops| match search.outcome(rate_iops, figures) {
                Outcome::Holds => Some(true),
                Outcome::Fails | Outcome::Overloaded => Some(false),
                Outcome::Unknown => None,
            }),
            kinds: figures.summary.kinds.clone(),
        });
    }
    let below_ns = search.limit.below_ns;
    let tried = || probes.iter().filter_map(|probe| Some((probe.offered_iops?, probe)));
    // Without an estimate of how slow operations cluster, an interval is too narrow.
    let within = |probe: &Probe| probe.within.filter(|within| within.inflation.is_some());
    let surely_holds = tried().filter(|(_, probe)| {
        let high_ns = within(probe).and_then(|within| within.high_ns);
        probe.holds == Some(true) && high_ns.is_some_and(|ns| ns < below_ns)
    });
    let surely_fails = tried().filter(|(_, probe)| {
        let low_ns = within(probe).and_then(|within| within.low_ns);
        // With the latency under the limit, the rate was not met.
        let is_under = probe.latency_ns.is_some_and(|ns| ns < below_ns as f64);
        probe.holds == Some(false) && (is_under || low_ns.is_some_and(|ns| ns >= below_ns))
    });
    let outcomes = |held: bool| tried().filter(move |(_, p)| p.holds == Some(held)).map(|p| p.0);
    let first_failure = outcomes(false).fold(f64::INFINITY, f64::min);
    let last_success = outcomes(true).fold(0.0, f64::max);
    let below = surely_holds.map(|(rate, _)| rate).filter(|rate| *rate < first_failure);
    let surely_holds_iops = below.reduce(f64::max);
    let above = surely_fails.map(|(rate, _)| rate).filter(|rate| *rate > last_success);
    let surely_fails_iops = above.reduce(f64::min);
    // The closed-loop cell comes last.
    let rate = |probe: &Probe| probe.offered_iops.unwrap_or(f64::INFINITY);
    probes.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let metric = search.limit.metric;
    let completed = OpKind::ALL.into_iter().filter(|kind| {
        metric.kind.is_none_or(|only| only == *kind)
            && probes.iter().flat_map(|probe| &probe.kinds).any(|of| of.kind == *kind)
    });
    Some(RateSearchFinding {
        limit: search.limit.to_string(),
        covers: completed.collect(),
        metric,
        capacity_iops: course.capacity_iops,
        unknown_iops: course.unknown.map(|(rate_iops, _)| rate_iops),
        time_needed_s: course.unknown.map(|(_, ns)| ns as f64 / 1e9),
        is_unfinished: search.next_iops(&figures).is_some(),
        holds_iops: (course.holds_iops > 0.0).then_some(course.holds_iops),
        fails_iops: course.has_failed.then_some(course.fails_iops),
        surely_holds_iops,
        surely_fails_iops,
        mixed_iops: course.mixed_iops(),
        cells_at_answer: course.cells_at(course.holds_iops),
        oio_above_capacity: oio_above_capacity(course.holds_iops, &figures),
        limited_by: limited_by(cells.iter().map(|(cell, _)| *cell)),
        probes,
    })
}

/// Mean numbers of operations in flight at the rate `holds_iops` and in closed loop, the first of `figures`; `None`
/// unless the closed loop completed less, by more than the search's precision, with more in flight.
fn oio_above_capacity(holds_iops: f64, figures: &[&Figures]) -> Option<(f64, f64)> {
    let (closed, open) = figures.split_first()?;
    let is_answer = |rate_iops: f64| (rate_iops / holds_iops - 1.0).abs() < 1e-6;
    let at_answer = open.iter().filter(|of| of.offered_iops.is_some_and(is_answer));
    let oio = at_answer.map(|of| of.oio).reduce(f64::max)?;
    let closed_oio = closed.oio * f64::from(closed.targets.max(1));
    let capacity_iops = closed.summary.ops_per_s * (1.0 + PRECISION_SHARE);
    (holds_iops > capacity_iops && oio < closed_oio).then_some((oio, closed_oio))
}

/// Describes the external limit that was read from the kernel in any cell, or else inferred in the closed-loop cell or
/// at the highest rate; `None` if there is none. Other inferred limits are ignored: a round rate suggests a limit, but
/// among many rates one is round by chance.
fn limited_by<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<String> {
    let mut cells: Vec<&Cell> = cells.collect();
    let rate = |cell: &Cell| cell.key.offered_iops.unwrap_or(f64::INFINITY);
    cells.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let seen = cells.iter().enumerate().filter_map(|(i, cell)| Some((i, limit_seen(cell)?)));
    seen.filter(|(i, limit)| limit.is_read || *i < 2).map(|(_, limit)| limit.words).next()
}

/// 95 % confidence interval of the limited mean or percentile in a cell; `None` with too few samples.
fn interval(search: &RateSearch, cell: &Cell) -> Option<Within> {
    let kind = search.limit.metric.kind;
    let of = |part: &Interval| -> Vec<Histogram> {
        let mine = part.iter().filter(|(k, _)| kind.is_none_or(|kind| kind == *k));
        mine.map(|(_, class): (_, &ClassStats)| class.response_time().clone()).collect()
    };
    let parts: Vec<Vec<Histogram>> = cell.series.iter().map(of).collect();
    let Quantity::Quantile(q) = search.limit.metric.quantity else { return within_mean(&parts) };
    let series: Vec<Vec<&Histogram>> = parts.iter().map(|part| part.iter().collect()).collect();
    let mut total = Histogram::default();
    for histogram in parts.iter().flatten() {
        total.merge(histogram);
    }
    within(&total, &series, &[q], 0.95).into_iter().next()?
}

/// 95 % confidence interval of the mean latency, by batch means of a ratio (Law, section 9.5.3): the sum of latencies
/// in each interval less what its operations would take at the mean. `None` for fewer than 20 intervals.
fn within_mean(parts: &[Vec<Histogram>]) -> Option<Within> {
    let each = parts.iter().map(|part| {
        let of = |f: fn(&Histogram) -> f64| part.iter().map(f).sum::<f64>();
        (of(|h| h.count() as f64), of(|h| h.sum_ns() as f64))
    });
    let each: Vec<(f64, f64)> = each.collect();
    let (count, sum_ns) = each.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    if count == 0.0 {
        return None;
    }
    let mean_ns = sum_ns / count;
    let excess_ns: Vec<f64> = each.iter().map(|(n, sum_ns)| sum_ns - n * mean_ns).collect();
    let found = batch::mean(&excess_ns, 0.95).ok()?;
    let intervals = each.len() as f64;
    let half_width_ns = found.interval.half_width() * intervals / count;
    // Variances of the mean: as measured, and of independent operations.
    let measured =
        (describe::deviation(&excess_ns) * intervals / count).powi(2) / found.n_effective;
    let squares = parts
        .iter()
        .flatten()
        .flat_map(Histogram::buckets)
        .map(|bucket| bucket.count as f64 * (bucket.middle_ns() - mean_ns).powi(2));
    let independent = squares.sum::<f64>() / count.powi(2);
    Some(Within {
        low_ns: Some((mean_ns - half_width_ns).max(0.0) as u64),
        high_ns: Some((mean_ns + half_width_ns).ceil() as u64),
        level: found.interval.level,
        count: count as u64,
        inflation: Some(if independent > 0.0 { (measured / independent).max(1.0) } else { 1.0 }),
    })
}
