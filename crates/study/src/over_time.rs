//! Latency over time within a cell: median and maximum of each interval, and latency spikes.

use iodyno_measure::{Cell, Histogram};
use serde::{Deserialize, Serialize};

/// Minimum latency of a spike, as a multiple of the median latency over the whole time.
const SPIKE_MEDIANS: f64 = 5.0;

/// Latencies and rates of a cell in intervals of equal length, over all devices. Latencies of an interval without
/// completions are NaN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    pub interval_ns: u64,
    /// Median latency over the whole time, ns.
    pub whole_median_ns: f64,
    /// Median latency of each interval, ns.
    pub median_ns: Vec<f64>,
    /// Maximum latency of each interval, ns.
    pub longest_ns: Vec<f64>,
    /// Operations completed per second in each interval, over all devices.
    pub iops: Vec<f64>,
}

/// Number and regularity of latency spikes. Consecutive intervals with a spike count as one spike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spikes {
    /// Number of spikes, where consecutive intervals with a spike count once.
    pub count: usize,
    /// Mean time between spikes, ns; NaN for fewer than two spikes.
    pub every_ns: f64,
    /// Standard deviation of the times between spikes, as a fraction of their mean; NaN for fewer than three
    /// spikes.
    pub deviation_share: f64,
}

impl OverTime {
    /// Combines the intervals of the cells of all devices, which ran simultaneously.
    pub(crate) fn of(cells: &[Cell], interval_ns: u64) -> Self {
        let intervals = cells.iter().map(|cell| cell.series.len()).max().unwrap_or(0);
        let mut whole = Histogram::new();
        let (mut median_ns, mut longest_ns, mut iops) = (Vec::new(), Vec::new(), Vec::new());
        let or_none = |value: Option<u64>| value.map_or(f64::NAN, |ns| ns as f64);
        for i in 0..intervals {
            let mut latency = Histogram::new();
            for interval in cells.iter().filter_map(|cell| cell.series.get(i)) {
                interval.iter().for_each(|(_, class)| latency.merge(class.response_time()));
            }
            median_ns.push(or_none(latency.quantile_ns(0.5)));
            longest_ns.push(or_none(latency.max_ns()));
            iops.push(latency.count() as f64 / (interval_ns as f64 * 1e-9));
            whole.merge(&latency);
        }
        let whole_median_ns = or_none(whole.quantile_ns(0.5));
        Self { interval_ns, whole_median_ns, median_ns, longest_ns, iops }
    }

    /// Finds latency spikes: intervals whose maximum latency is at least five times the median over the whole
    /// time.
    pub fn spikes(&self) -> Spikes {
        let is_spike = |i: usize| self.longest_ns[i] >= SPIKE_MEDIANS * self.whole_median_ns;
        let starts: Vec<usize> = (0..self.longest_ns.len())
            .filter(|&i| is_spike(i) && (i == 0 || !is_spike(i - 1)))
            .collect();
        let gaps: Vec<f64> = starts
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 * self.interval_ns as f64)
            .collect();
        let n = gaps.len() as f64;
        let every_ns = gaps.iter().sum::<f64>() / n;
        let squares: f64 = gaps.iter().map(|gap| (gap - every_ns).powi(2)).sum();
        let deviation_share = (squares / (n - 1.0)).sqrt() / every_ns;
        let deviation_share = if gaps.len() < 2 { f64::NAN } else { deviation_share };
        Spikes { count: starts.len(), every_ns, deviation_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_and_the_times_between_them() {
        let of = |longest_ns: Vec<f64>| {
            let n = longest_ns.len();
            let (median_ns, iops) = (vec![10.0; n], vec![1.0; n]);
            OverTime { interval_ns: 1000, whole_median_ns: 10.0, median_ns, longest_ns, iops }
                .spikes()
        };
        let mut longest = vec![12.0; 40];
        for i in [3, 13, 14, 23, 33] {
            longest[i] = 50.0;
        }
        let regular = of(longest.clone());
        assert_eq!((regular.count, regular.every_ns), (4, 10_000.0), "13 and 14 are one");
        assert!(regular.deviation_share.abs() < 1e-9);
        longest[5] = 60.0;
        assert!(of(longest).deviation_share > 0.5);
        let one = of(vec![f64::NAN, 50.0, 1.0]);
        assert!(
            one.count == 1 && one.every_ns.is_nan(),
            "an interval without operations is not a spike"
        );
    }
}
