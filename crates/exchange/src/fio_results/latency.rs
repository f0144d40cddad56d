//! Converts fio's latency bins or percentiles to latencies with counts.
//!
//! fio has 64 bins per power of two, and its JSON names a bin by its midpoint (`plat_idx_to_val` in fio's `stat.c`).
//! Latencies keep these midpoints, so percentiles differ from fio's by at most half a bin, 0.8 %. Minimum, maximum and
//! mean are exact.

use super::output::Latency;
use iodyno_measure::{Histogram, PERCENTILES};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Number of leading bits of a latency, after the first 1 bit, that determine its bin within a power of two.
const BITS: u32 = 6;
/// Lower bound of fio's last bin, which holds all longer latencies, ns.
const LAST_BIN_NS: u64 = (1 << 34) - (1 << 27);

/// Latencies of one kind of operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// Latencies in ns, each with its number of operations, in ascending order.
    pub(super) counts: Vec<(u64, u64)>,
    /// Exact sum of all latencies, ns; None: computed from `counts`.
    pub(super) sum_ns: Option<u128>,
    /// Whether the latencies are upper bounds, derived from percentiles.
    pub(super) only_percentiles: bool,
}

impl Values {
    /// Number of operations.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|(_, n)| n).sum()
    }

    pub(super) fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        self.counts.iter().for_each(|&(ns, n)| histogram.record_n(ns, n));
        if let Some(sum_ns) = self.sum_ns {
            histogram.set_sum_ns(sum_ns);
        }
        histogram.trim();
        histogram
    }

    /// Latencies of `ops` operations from the bins of `json+`, or else from the percentiles. None if fio recorded
    /// neither, or lacks a percentile that reports show.
    pub(super) fn of(latency: &Latency, ops: u64) -> Option<Self> {
        if latency.bins.values().any(|n| *n > 0) {
            Some(Self::of_bins(latency))
        } else {
            Self::of_percentiles(latency, ops)
        }
    }

    fn of_bins(latency: &Latency) -> Self {
        let mut counts: Vec<_> =
            latency.bins.iter().map(|(ns, n)| (*ns, *n)).filter(|(_, n)| *n > 0).collect();
        let (min, max) = (latency.min, latency.max);
        let holds = |at: Option<&(u64, u64)>, ns| at.is_some_and(|(bin, _)| is_in_bin(*bin, ns));
        if min <= max && holds(counts.first(), min) && holds(counts.last(), max) {
            for (ns, _) in &mut counts {
                *ns = (*ns).clamp(min, max);
            }
            put_ends(&mut counts, min, max);
        }
        let ops: u64 = counts.iter().map(|(_, n)| n).sum();
        Self { counts, sum_ns: Some(sum_ns(latency, ops)), only_percentiles: false }
    }

    /// Gives each operation the latency of the smallest known percentile at or above the operation's rank, or the
    /// maximum.
    fn of_percentiles(latency: &Latency, ops: u64) -> Option<Self> {
        let (min, max) = (latency.min, latency.max);
        let known = latency.percentile.iter().filter_map(|(p, ns)| Some((p.parse().ok()?, *ns)));
        // Old versions fill the list with percentiles of 0.
        let mut known: Vec<(f64, u64)> = known.filter(|(p, _)| *p > 0.0 && *p <= 100.0).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let has = |q: f64| known.iter().any(|(p, _)| (p - q * 100.0).abs() < 1e-6);
        let mut sample = Histogram::trimmed();
        sample.record_n(max, ops);
        // fio's list ends at 99.99 %.
        let is_shown = |q: f64| q < 0.999_99 && sample.supports(q);
        let misses = PERCENTILES.iter().any(|p| is_shown(p.quantile) && !has(p.quantile));
        if ops == 0 || known.is_empty() || misses || min > max {
            return None;
        }
        let (mut counts, mut ranked, mut above) = (Vec::new(), 0, min);
        for (p, ns) in known {
            above = ns.clamp(above, max);
            let rank = (p / 100.0 * ops as f64 * (1.0 - 4.0 * f64::EPSILON)).ceil() as u64;
            let rank = rank.clamp(ranked, ops);
            counts.push((above, rank - ranked));
            ranked = rank;
        }
        counts.push((max, ops - ranked));
        counts.retain(|(_, n)| *n > 0);
        put_ends(&mut counts, min, max);
        Some(Self { counts, sum_ns: Some(sum_ns(latency, ops)), only_percentiles: true })
    }

    /// Distributes the latencies over slots so that all slots have nearly the same distribution. `slots`: operations
    /// per slot; their sum is [`Self::count`].
    pub(super) fn dealt(&self, slots: &[u64]) -> Vec<Self> {
        let empty = Self { only_percentiles: self.only_percentiles, ..Self::default() };
        let mut dealt = vec![empty; slots.len()];
        let mut left = slots.to_vec();
        let mut left_all: u64 = left.iter().sum();
        for &(ns, n) in &self.counts {
            let n = n.min(left_all);
            let share =
                |of: u64| (u128::from(n) * u128::from(of) / u128::from(left_all.max(1))) as u64;
            let mut given: Vec<u64> = left.iter().map(|&of| share(of)).collect();
            let rest = n - given.iter().sum::<u64>();
            if rest > 0 {
                let mut fullest: Vec<usize> = (0..slots.len()).collect();
                fullest.sort_unstable_by_key(|&i| Reverse(left[i] - given[i]));
                fullest.iter().take(rest as usize).for_each(|&i| given[i] += 1);
            }
            left_all -= n;
            for ((slot, left), n) in dealt.iter_mut().zip(&mut left).zip(given) {
                *left -= n;
                if n > 0 {
                    slot.counts.push((ns, n));
                }
            }
        }
        let (all, mut ops, mut before) = (self.count(), 0, 0);
        for (slot, n) in dealt.iter_mut().zip(slots) {
            ops += n;
            let up_to = self.sum_ns.map(|sum| part(sum, ops, all));
            slot.sum_ns = up_to.map(|up_to| up_to - before);
            before = up_to.unwrap_or(0);
        }
        dealt
    }
}

impl Values {
    /// Corrects the latencies of `slots`, which are midpoints of bins, so that their total minimum, maximum and sum are
    /// exact.
    pub(super) fn refine(&self, slots: &mut [Self]) {
        let (Some((min, _)), Some((max, _)), Some(sum_ns), false) =
            (self.counts.first(), self.counts.last(), self.sum_ns, self.only_percentiles)
        else {
            return;
        };
        let lowest = slots.iter().filter_map(|slot| slot.counts.first()).map(|(ns, _)| *ns).min();
        let first = |slot: &&mut Self| slot.counts.first().map(|(ns, _)| *ns) == lowest;
        if lowest.is_some_and(|bin| is_in_bin(bin, *min))
            && let Some(slot) = slots.iter_mut().find(first)
        {
            slot.counts[0].1 -= 1;
            slot.counts.insert(0, (*min, 1));
        }
        let highest = slots.iter().filter_map(|slot| slot.counts.last()).map(|(ns, _)| *ns).max();
        let last = |slot: &&mut Self| {
            slot.counts.last().is_some_and(|(ns, n)| Some(*ns) == highest && *n > 0)
        };
        if highest.is_some_and(|bin| is_in_bin(bin, *max))
            && let Some(slot) = slots.iter_mut().find(last)
            && let Some(end) = slot.counts.last_mut()
        {
            end.1 -= 1;
            slot.counts.push((*max, 1));
        }
        let rough = |slot: &Self| slot.counts.iter().map(|(ns, n)| *ns as f64 * *n as f64).sum();
        let sums: Vec<f64> = slots.iter().map(rough).collect();
        let all: f64 = sums.iter().sum();
        for (slot, sum) in slots.iter_mut().zip(sums) {
            for (ns, _) in &mut slot.counts {
                *ns = (*ns).clamp(*min, *max);
            }
            slot.counts.retain(|(_, n)| *n > 0);
            slot.sum_ns = Some((sum_ns as f64 * sum / all.max(1.0)).round() as u128);
        }
    }

    /// Merges the latencies of several jobs.
    pub(super) fn merged(parts: &[Self]) -> Self {
        let mut all = BTreeMap::new();
        parts
            .iter()
            .flat_map(|of| &of.counts)
            .for_each(|(ns, n)| *all.entry(*ns).or_default() += n);
        Self {
            counts: all.into_iter().collect(),
            sum_ns: parts.iter().map(|of| of.sum_ns).sum(),
            only_percentiles: parts.iter().any(|of| of.only_percentiles),
        }
    }
}

/// `sum × ops / all`, without overflow for sums of up to 2^116.
fn part(sum: u128, ops: u64, all: u64) -> u128 {
    let all = u128::from(all.max(1));
    sum / all * u128::from(ops) + sum % all * u128::from(ops) / all
}

/// Whether a latency is in fio's bin with the given midpoint.
fn is_in_bin(middle_ns: u64, ns: u64) -> bool {
    let shift = (middle_ns | ((2 << BITS) - 1)).ilog2() - BITS;
    ns >> shift == middle_ns >> shift || middle_ns.min(ns) >= LAST_BIN_NS
}

/// Replaces one latency of the lowest bin by the minimum, and one of the highest bin by the maximum.
fn put_ends(counts: &mut Vec<(u64, u64)>, min: u64, max: u64) {
    let ops: u64 = counts.iter().map(|(_, n)| n).sum();
    if let Some(first) = counts.first_mut() {
        first.1 -= 1;
        counts.insert(0, (min, 1));
    }
    if ops > 1
        && let Some(last) = counts.last_mut()
    {
        last.1 -= 1;
        counts.push((max, 1));
    }
    counts.retain(|(_, n)| *n > 0);
}

fn sum_ns(latency: &Latency, ops: u64) -> u128 {
    // The limits of both factors keep the product below 2^104.
    (latency.mean * ops as f64).round() as u128
}
