//! Finds stalls, changes of level and periodic swings in the throughput of a cell. [`verdict`](crate::verdict) judges
//! these findings.

use crate::Interval;
use crate::cell::Cell;
use crate::statistics::batch::{self, BatchMean};
use crate::statistics::{change, describe, oscillation, stalls};
use std::ops::Range;

/// Confidence level for mean rates.
const LEVEL: f64 = 0.95;
/// Minimum number of operations per interval, in the median without empty ones, for the search for stalls. With fewer,
/// an interval may be empty by chance. Also the minimum mean number per point in the search for a change or a swing:
/// the noise of smaller counts can't be estimated, and an even schedule of 2.5 operations per interval alternates.
const OPS_MIN: f64 = 10.0;
/// Minimum number of intervals in a cell for the search for stalls.
const INTERVALS_MIN: usize = 5;
/// Minimum number of intervals for the search for a change of the rate: in general, and if intervals are averaged
/// because they have few operations, so that chance is larger.
const TREND_INTERVALS_MIN: (usize, usize) = (10, 20);
/// Maximum number of points in the search for level changes; longer series are first averaged down.
const POINTS_BREAKS: usize = 600;
/// Maximum number of points in the search for a periodic swing; longer series are first averaged down.
const POINTS_SWING: usize = 2_000;
/// Minimum latency of an operation, as a fraction of the interval's length, to suspect a stall within the
/// interval.
const WITHIN_INTERVAL_SHARE: f64 = 0.2;
/// Minimum latency of an operation, as a multiple of the median latency, to suspect a stall within an
/// interval.
const MEDIANS_MIN: f64 = 10.0;
/// A slow interval counts as chance if its rate is at most this number of standard deviations below the surrounding
/// rate.
const CHANCE_DEVIATIONS: f64 = 4.0;
/// Number of intervals on each side of a stall. Their median rate is the surrounding rate.
const NEIGHBOURS: usize = 6;
/// Minimum number of intervals on one side of a stall for their median to count as the rate on that side.
const SIDE_MIN: usize = 3;
/// Minimum difference between the mean rates of the window's first and last fifth for a trend, in standard
/// errors.
const ENDS_ERRORS_MIN: f64 = 4.0;
/// Maximum factor by which correlation may raise the variance of a mean rate. A larger estimate is attributed
/// to a trend and capped.
const MEMORY_MAX: f64 = 8.0;
/// Minimum change of the rate over the window that counts as a trend, as a fraction of the mean.
const TREND_SHARE_MIN: f64 = 0.1;
/// Minimum deviation of a segment's rate from the mean rate to be reported, as a fraction of the mean.
const STEP_SHARE_MIN: f64 = 0.05;
/// Minimum difference between the rates before and after a step, in standard errors. It is high because the
/// search picks the best of all positions.
const STEP_ERRORS_MIN: f64 = 8.0;
/// Minimum number of intervals before and after a step.
const STEP_INTERVALS_MIN: usize = 4;
/// Minimum amplitude of a periodic swing, as a fraction of the mean rate; smaller swings are noise.
const SWING_SHARE_MIN: f64 = 0.1;

/// Maximum standard deviation of the times between stalls for them to count as regular, as a fraction of the
/// mean time.
const REGULAR_SHARE_MAX: f64 = 0.15;

/// A period with almost no completions although operations were in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// Start of the stall, ns after the start of the window.
    pub from_ns: u64,
    /// End of the stall, ns after the start of the window.
    pub to_ns: u64,
}

impl Stall {
    /// Duration of the stall, ns: `to_ns` minus `from_ns`.
    pub const fn length_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// A step or trend of the throughput within the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Mean IOPS before a step, or at the start of the window for a trend.
    pub before_iops: f64,
    /// Mean IOPS after a step, or at the end of the window for a trend.
    pub after_iops: f64,
    /// Time of the step, ns after the start of the window; None for a trend.
    pub at_ns: Option<u64>,
}

/// A periodic variation of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swing {
    pub period_ns: u64,
    /// Number of periods in the window.
    pub periods: f64,
    /// Amplitude of the swing as a fraction of the mean rate (0.1 = 10 %).
    pub amplitude_share: f64,
}

/// Stalls, changes of throughput and periodic swings found in a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stationarity {
    /// Stalls, in order of time.
    pub stalls: Vec<Stall>,
    /// Largest step of the throughput, or its trend; None if there is neither.
    pub shift: Option<Shift>,
    /// Periodic variation of the throughput; None if there is none.
    pub swing: Option<Swing>,
    /// Half width of the 95 % confidence interval of the mean rate, as a fraction of the mean. Intervals with a
    /// stall are excluded. None with too few intervals.
    pub reach_share: Option<f64>,
}

impl Stationarity {
    /// Analyses the throughput of `cell`. Replayed traces are searched only for stalls, because a trace itself
    /// determines the rate.
    pub fn of(cell: &Cell) -> Self {
        let (interval_ns, rates) = cell.rates_iops();
        if rates.len() < INTERVALS_MIN || interval_ns == 0 {
            return Self::default();
        }
        let series = Series::of(cell, interval_ns, rates);
        let stalled = series.stalled();
        let is_free = |i: &usize| !stalled.iter().any(|place| place.contains(i));
        let kept: Vec<usize> = (0..series.rates.len()).filter(is_free).collect();
        let undisturbed: Vec<f64> = kept.iter().map(|i| series.rates[*i]).collect();
        let each = series.intervals_per_point();
        let mean = batch::mean(&undisturbed, LEVEL).ok().filter(|mean| mean.mean > 0.0);
        let reach_share = mean.map(|mean| mean.interval.half_width() / mean.mean);
        let stalls = stalled.iter().map(|place| series.stall(place)).collect();
        if cell.evidence.trace.is_some() {
            return Self { stalls, reach_share, ..Self::default() };
        }
        let caught_up = series.caught_up(&stalled);
        let kept: Vec<usize> = kept.into_iter().filter(|i| !caught_up[*i]).collect();
        let undisturbed: Vec<f64> = kept.iter().map(|i| series.rates[*i]).collect();
        let least = if each > 1 { TREND_INTERVALS_MIN.1 } else { TREND_INTERVALS_MIN.0 };
        let shift = shift(&averaged(&undisturbed, each), least);
        let shift = shift.map(|(shift, place)| Shift {
            at_ns: place.map(|place| kept[place * each] as u64 * interval_ns),
            ..shift
        });
        let is_level = |i: usize| is_free(&i) && !caught_up[i];
        let rate = |i: usize| if is_level(i) { series.rates[i] } else { series.level };
        let filled: Vec<f64> = (0..series.rates.len()).map(rate).collect();
        let swing = swing(&averaged(&filled, each), interval_ns * each as u64);
        // The first and the last fifth of the window may lie in different phases of a swing.
        let is_phase = |shift: &Shift, swing: &Swing| {
            let apart = (shift.after_iops - shift.before_iops).abs();
            let amplitude =
                swing.amplitude_share * f64::midpoint(shift.after_iops, shift.before_iops);
            shift.at_ns.is_none() && apart < amplitude
        };
        let shift = shift.filter(|shift| !swing.as_ref().is_some_and(|s| is_phase(shift, s)));
        Self { stalls, shift, swing, reach_share }
    }

    /// Mean time between the starts of successive stalls, ns. None if there are fewer than four stalls, or if they are
    /// irregular.
    pub fn stall_period_ns(&self) -> Option<u64> {
        let apart = |pair: &[Stall]| (pair[1].from_ns - pair[0].from_ns) as f64;
        let apart_ns: Vec<f64> = self.stalls.windows(2).map(apart).collect();
        let mean_ns = describe::mean(&apart_ns);
        let is_regular = describe::deviation(&apart_ns) <= REGULAR_SHARE_MAX * mean_ns;
        (apart_ns.len() + 1 >= oscillation::PERIODS_MIN && is_regular).then_some(mean_ns as u64)
    }

    pub fn stalled_ns(&self) -> u64 {
        self.stalls.iter().map(Stall::length_ns).sum()
    }
}

/// Mean rate of a cell with its confidence interval, computed from the cell's complete intervals. `amount`
/// returns the count of one interval, such as its bytes. None for fewer than 20 complete intervals.
pub fn mean_rate(cell: &Cell, amount: impl Fn(&Interval) -> u64) -> Option<BatchMean> {
    let whole = cell.window_ns.checked_div(cell.interval_ns)? as usize;
    let per_second = |i: &Interval| amount(i) as f64 * 1e9 / cell.interval_ns as f64;
    let rates: Vec<f64> = cell.series.iter().take(whole).map(per_second).collect();
    batch::mean(&rates, LEVEL).ok()
}

/// Throughput of a cell by interval, with service times for detecting stalls.
struct Series<'a> {
    cell: &'a Cell,
    interval_ns: u64,
    rates: Vec<f64>,
    /// Median rate of the intervals with completions: stalls may take most of the window.
    level: f64,
    /// Longest service time of each interval, ns. Empty if intervals of the cell were merged.
    longest_ns: Vec<u64>,
    in_flight_ns: Vec<u128>,
}

impl<'a> Series<'a> {
    fn of(cell: &'a Cell, interval_ns: u64, rates: Vec<f64>) -> Self {
        let own: &[Interval] = if cell.recorded.is_some() { &[] } else { &cell.series };
        let longest = |i: &Interval| i.iter().filter_map(|(_, c)| c.service.max_ns()).max();
        let sum = |i: &Interval| i.iter().map(|(_, c)| c.service.sum_ns()).sum();
        Self {
            cell,
            interval_ns,
            // 0 if nothing completed.
            level: describe::median(&moving(&rates)).max(0.0),
            rates,
            longest_ns: own.iter().map(|i| longest(i).unwrap_or(0)).collect(),
            in_flight_ns: own.iter().map(sum).collect(),
        }
    }

    /// Ranges of consecutive interval indices that contain a stall.
    fn stalled(&self) -> Vec<Range<usize>> {
        if self.level * self.interval_ns as f64 / 1e9 < OPS_MIN {
            return Vec::new();
        }
        let mut is_stalled = vec![false; self.rates.len()];
        for place in stalls::stalls(&self.rates, self.level) {
            if self.was_in_flight(&place) {
                is_stalled[place].fill(true);
            }
        }
        for place in self.within_intervals() {
            is_stalled[place].fill(true);
        }
        // The first and the last interval of a stall may be only partly affected.
        let deviation = self.deviation();
        let is_low = |i: usize| {
            self.rates[i] < self.level_beside(&(i..i + 1)) - CHANCE_DEVIATIONS * deviation
        };
        for i in 0..is_stalled.len() {
            let follows = i > 0 && is_stalled[i - 1];
            let precedes = is_stalled.get(i + 1) == Some(&true);
            if !is_stalled[i] && (follows || precedes) && is_low(i) {
                is_stalled[i] = true;
            }
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for i in (0..is_stalled.len()).filter(|i| is_stalled[*i]) {
            match found.last_mut() {
                Some(last) if last.end == i => last.end = i + 1,
                _ => found.push(i..i + 1),
            }
        }
        found
    }

    /// Number of intervals that form a point, so that a point has at least [`OPS_MIN`] operations on average.
    fn intervals_per_point(&self) -> usize {
        let ops = describe::mean(&self.rates) * self.interval_ns as f64 / 1e9;
        (OPS_MIN / ops.max(f64::MIN_POSITIVE)).ceil().min(self.rates.len() as f64) as usize
    }

    /// Whether each interval belongs to the time after a stall in which an open loop completes what the stall held up.
    fn caught_up(&self, stalled: &[Range<usize>]) -> Vec<bool> {
        let mut caught_up = vec![false; self.rates.len()];
        let Some(offered) = self.cell.key.offered_iops else { return caught_up };
        for (i, place) in stalled.iter().enumerate() {
            let next = stalled.get(i + 1).map_or(self.rates.len(), |next| next.start);
            let mut held: f64 = self.rates[place.clone()].iter().map(|rate| offered - rate).sum();
            let after = place.end..next;
            for (caught_up, rate) in caught_up[after.clone()].iter_mut().zip(&self.rates[after]) {
                // A target that is slower after the stall does not catch up.
                if held <= 0.0 || *rate <= offered {
                    break;
                }
                *caught_up = true;
                held -= rate - offered;
            }
        }
        caught_up
    }

    /// Standard deviation of the rates of the intervals with completions, estimated from the median absolute deviation
    /// to limit the effect of outliers.
    fn deviation(&self) -> f64 {
        let distance = |rate: f64| (rate - self.level).abs();
        let mut distances: Vec<f64> = moving(&self.rates).into_iter().map(distance).collect();
        describe::median_in_place(&mut distances) / 0.674_489_75
    }

    /// Median rate of the intervals just before and after the range `place`.
    fn level_around(&self, place: &Range<usize>) -> f64 {
        let [before, after] = beside(place, self.rates.len());
        self.moving_median(before.chain(after)).unwrap_or(self.level)
    }

    /// Median rate of the intervals just before the range `place`, or just after it, whichever is lower. A drop is a
    /// stall only if the rate recovers afterwards, which it does not after a step. At an end of the window, a side of
    /// one or two intervals does not count.
    fn level_beside(&self, place: &Range<usize>) -> f64 {
        let [before, after] = beside(place, self.rates.len());
        let sides: &[Range<usize>] = match (before.len() < SIDE_MIN, after.len() < SIDE_MIN) {
            (true, false) => &[after],
            (false, true) => &[before],
            _ => &[before, after],
        };
        let levels = sides.iter().cloned().filter_map(|side| self.moving_median(side));
        levels.reduce(f64::min).unwrap_or(self.level)
    }

    /// Median rate of the given intervals that have no stall; `None` if all of them have one.
    fn moving_median(&self, intervals: impl Iterator<Item = usize>) -> Option<f64> {
        let is_moving = |rate: &f64| *rate >= stalls::STALL_SHARE * self.level;
        let rates: Vec<f64> = intervals.map(|i| self.rates[i]).filter(is_moving).collect();
        (!rates.is_empty()).then(|| describe::median(&rates))
    }

    /// Whether operations were in flight for at least half of the time of the intervals `place`. If not, the workload
    /// had no operations to issue, and the pause is not a stall.
    fn was_in_flight(&self, place: &Range<usize>) -> bool {
        if self.in_flight_ns.is_empty() {
            return true;
        }
        let until = place.end.min(self.in_flight_ns.len());
        let mut in_flight_ns: u128 = self.in_flight_ns[place.start..until].iter().sum();
        let length_ns = place.len() as u64 * self.interval_ns;
        // Operations held up by a stall complete in the interval after it, and took long, or are in flight at the
        // window's end.
        if self.longest_ns.get(place.end).is_some_and(|longest_ns| 2 * longest_ns >= length_ns) {
            in_flight_ns += self.in_flight_ns[place.end];
        }
        if place.end >= self.rates.len() {
            in_flight_ns += self.cell.resources.carried_out_ns.max(0).unsigned_abs();
        }
        2 * in_flight_ns >= u128::from(length_ns)
    }

    /// Finds stalls too short to leave an interval empty: one operation took long, and the intervals that it spans have
    /// correspondingly fewer operations.
    fn within_intervals(&self) -> Vec<Range<usize>> {
        let total = self.cell.total();
        let medians = total.iter().filter_map(|(_, c)| c.service.quantile_ns(0.5));
        let Some(median_ns) = medians.max() else { return Vec::new() };
        let interval_ns = self.interval_ns as f64;
        let long_ns =
            (WITHIN_INTERVAL_SHARE * interval_ns).max(MEDIANS_MIN * median_ns as f64) as u64;
        let deviation = self.deviation();
        let mut found = Vec::new();
        for (i, &longest_ns) in self.longest_ns.iter().enumerate().take(self.rates.len()) {
            if longest_ns < long_ns {
                continue;
            }
            let before = longest_ns.div_ceil(self.interval_ns) as usize;
            let place = i.saturating_sub(before)..i + 1;
            let level = self.level_beside(&place);
            let lacks = |i: usize| (1.0 - self.rates[i] / level).max(0.0);
            let low = |i: &usize| level - self.rates[*i] > CHANCE_DEVIATIONS * deviation;
            let lost_ns: f64 = place.clone().filter(low).map(|i| lacks(i) * interval_ns).sum();
            if lost_ns >= 0.5 * longest_ns as f64 {
                found.extend(place.filter(low).map(|i| i..i + 1));
            }
        }
        found
    }

    /// Computes the stall in the intervals `place`. The stall lasts as long as the missing operations would take at the
    /// surrounding rate, and ends in the last of the intervals.
    fn stall(&self, place: &Range<usize>) -> Stall {
        let level = self.level_around(place);
        let lacks = |i: usize| {
            let share = (1.0 - self.rates[i] / level).clamp(0.0, 1.0);
            (share * self.interval_ns as f64) as u64
        };
        let length_ns: u64 = place.clone().map(lacks).sum();
        let last = place.end - 1;
        let is_alone = place.len() == 1;
        let to_ns = place.end as u64 * self.interval_ns
            - if is_alone { 0 } else { self.interval_ns - lacks(last) };
        Stall { from_ns: to_ns.saturating_sub(length_ns), to_ns }
    }
}

/// Rates of the intervals with completions, without those next to an empty interval if enough are left: a stall may
/// begin or end in them.
fn moving(rates: &[f64]) -> Vec<f64> {
    let is_moving = |i: usize| rates.get(i).is_none_or(|rate| *rate > 0.0);
    let all = (0..rates.len()).filter(|i| is_moving(*i));
    let is_inside = |i: &usize| (i.saturating_sub(1)..i + 2).all(is_moving);
    let inside: Vec<usize> = all.clone().filter(is_inside).collect();
    let kept = if inside.len() < SIDE_MIN { all.collect() } else { inside };
    kept.into_iter().map(|i| rates[i]).collect()
}

/// Index ranges of the intervals just before and just after `place`. `count` is the number of intervals in the series.
fn beside(place: &Range<usize>, count: usize) -> [Range<usize>; 2] {
    [
        place.start.saturating_sub(NEIGHBOURS)..place.start,
        place.end..(place.end + NEIGHBOURS).min(count),
    ]
}

/// Finds the largest step of `rates` with its index, or else a trend, which has no index; `None` if there is neither, or
/// fewer rates than `least`.
fn shift(rates: &[f64], least: usize) -> Option<(Shift, Option<usize>)> {
    let mean = describe::mean(rates);
    if rates.len() < least || mean <= 0.0 {
        return None;
    }
    let each = rates.len().div_ceil(POINTS_BREAKS);
    let segments = change::segments(&averaged(rates, each));
    let differs = |s: &change::Segment| (s.mean / mean - 1.0).abs();
    let largest = segments.iter().map(differs).fold(0.0, f64::max);
    if segments.len() > 1 && largest > STEP_SHARE_MIN {
        let jump = |pair: &&[change::Segment]| (pair[1].mean - pair[0].mean).abs();
        let pair = segments.windows(2).max_by(|a, b| jump(a).total_cmp(&jump(b)))?;
        // The points next to the break may mix both levels.
        let points = averaged(rates, each);
        let before_iops = describe::mean(&points[pair[0].start..pair[0].end - 1]);
        let after_iops = describe::mean(&points[pair[1].start + 1..pair[1].end]);
        let shift = Shift { before_iops, after_iops, at_ns: None };
        return Some((shift, Some((pair[1].start * each).min(rates.len() - 1))));
    }
    let points = averaged(rates, each);
    if let Some((shift, place)) = step(&points, mean) {
        return Some((shift, Some(place * each)));
    }
    ends(&points, mean).map(|shift| (shift, None))
}

/// Finds a trend: the mean rates of the first and the last fifth differ by more than noise explains. None if they do
/// not.
fn ends(rates: &[f64], mean: f64) -> Option<Shift> {
    let fifth = rates.len() / 5;
    let (first, last) = (&rates[..fifth], &rates[rates.len() - fifth..]);
    let (before_iops, after_iops) = (describe::mean(first), describe::mean(last));
    // A trend looks like noise with a long memory, so the correlation may raise the variance by at most `MEMORY_MAX`.
    let noise = change::noise(rates);
    let alone = noise.variance * (1.0 - noise.rho);
    let variance = noise.long_run().min(MEMORY_MAX * alone);
    let error = (2.0 * variance / fifth as f64).sqrt();
    let apart = (before_iops - after_iops).abs();
    (apart > TREND_SHARE_MIN * mean && apart > ENDS_ERRORS_MIN * error).then_some(Shift {
        before_iops,
        after_iops,
        at_ns: None,
    })
}

/// Finds a clear step between two levels, with its index; None if there is none. The general search for breaks misses a
/// step in a short series, because it cannot estimate the noise's correlation there and assumes a high one.
fn step(rates: &[f64], mean: f64) -> Option<(Shift, usize)> {
    let n = rates.len();
    let residual = |split: usize| {
        let (a, b) = rates.split_at(split);
        let of = |part: &[f64]| describe::deviation(part).powi(2) * (part.len() - 1) as f64;
        of(a) + of(b)
    };
    let split = (STEP_INTERVALS_MIN..=n.checked_sub(STEP_INTERVALS_MIN)?)
        .min_by(|a, b| residual(*a).total_cmp(&residual(*b)))?;
    let (before, after) = rates.split_at(split);
    let (before_iops, after_iops) = (describe::mean(before), describe::mean(after));
    let levels = [(before, before_iops), (after, after_iops)];
    let rests = levels.iter().flat_map(|(part, level)| part.iter().map(move |rate| rate - level));
    let rest: Vec<f64> = rests.collect();
    let rho = describe::autocorrelation(&rest, 1).unwrap_or(0.0).clamp(0.0, 0.95);
    let each = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
    let error = describe::deviation(&rest) * (each * (1.0 + rho) / (1.0 - rho)).sqrt();
    let apart = (before_iops - after_iops).abs();
    let is_step = apart > TREND_SHARE_MIN * mean && apart > STEP_ERRORS_MIN * error;
    is_step.then_some((Shift { before_iops, after_iops, at_ns: None }, split))
}

fn swing(rates: &[f64], interval_ns: u64) -> Option<Swing> {
    let each = rates.len().div_ceil(POINTS_SWING);
    let points = averaged(rates, each);
    let mean = describe::mean(&points);
    let found = oscillation::oscillation(&points)?;
    let amplitude_share = found.amplitude / mean;
    let swing = Swing {
        period_ns: (found.period * (each as u64 * interval_ns) as f64) as u64,
        periods: points.len() as f64 / found.period,
        amplitude_share,
    };
    (mean > 0.0 && amplitude_share >= SWING_SHARE_MIN).then_some(swing)
}

/// Averages groups of `each` consecutive values; an incomplete last group is omitted.
fn averaged(values: &[f64], each: usize) -> Vec<f64> {
    values.chunks_exact(each.max(1)).map(describe::mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval in which the level changes belongs to neither level.
    #[test]
    fn a_step_is_between_its_levels() {
        let noise = |i: usize| ((i * 7 % 11) as f64 - 5.0) / 5.0;
        for mixed in [400.0, 1_500.0, 2_900.0] {
            let mut rates: Vec<f64> = (0..60).map(|i| 3_000.0 + noise(i)).collect();
            rates.push(mixed);
            rates.extend((61..200).map(|i| 300.0 + noise(i)));
            let (shift, place) = shift(&rates, 10).unwrap();
            assert!(place.unwrap().abs_diff(60) <= 1, "{mixed}: {place:?}");
            assert!((shift.before_iops - 3_000.0).abs() <= 1.0, "{mixed}: {shift:?}");
            assert!((shift.after_iops - 300.0).abs() <= 1.0, "{mixed}: {shift:?}");
        }
    }
}
