//! Repeated runs: mean and median with confidence intervals, and the number of runs needed. A run (preparation,
//! preconditioning, steady state) counts as one independent value. The interval covers only the variation between
//! runs on this device and this host.

use super::{BadInput, ConfidenceInterval, all_finite, describe, distribution};
use serde::{Deserialize, Serialize};

/// Maximum number of runs that [`runs_needed`] recommends.
const RUNS_MAX: u32 = 1_000_000;

/// Mean of several runs, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanOfRuns {
    /// Number of runs from which the mean was computed.
    pub n: usize,
    /// Mean of the runs, in the unit of the values.
    pub mean: f64,
    /// Sample standard deviation of the runs; None for one run.
    pub deviation: Option<f64>,
    /// Confidence interval of the mean by Student's t; None for a single run.
    pub interval: Option<ConfidenceInterval>,
}

impl MeanOfRuns {
    /// Half width of the confidence interval as a fraction of the mean; None for a single run or a mean of 0.
    pub fn half_width_share(&self) -> Option<f64> {
        self.interval.filter(|_| self.mean != 0.0).map(|i| i.half_width() / self.mean.abs())
    }

    /// Coefficient of variation: standard deviation divided by the mean. None for a single run or a mean of 0.
    pub fn variation(&self) -> Option<f64> {
        self.deviation.filter(|_| self.mean != 0.0).map(|d| d / self.mean.abs())
    }
}

/// Computes the mean of `runs` with a confidence interval of `level`. An empty list is an error.
pub fn mean(runs: &[f64], level: f64) -> Result<MeanOfRuns, BadInput> {
    checked(runs)?;
    let (n, mean) = (runs.len(), describe::mean(runs));
    let deviation = (n > 1).then(|| describe::deviation(runs));
    let interval = deviation.map(|deviation| {
        let t = distribution::student_quantile(f64::midpoint(1.0, level), (n - 1) as f64);
        let reach = t * deviation / (n as f64).sqrt();
        ConfidenceInterval { low: mean - reach, high: mean + reach, level }
    });
    Ok(MeanOfRuns { n, mean, deviation, interval })
}

/// Median of several runs, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianOfRuns {
    /// Number of runs from which the median was computed.
    pub n: usize,
    /// Median of the runs, in the unit of the values.
    pub median: f64,
    /// Confidence interval of the median, bounded by two of the runs and valid for any distribution. None with
    /// too few runs (fewer than 6 for 95 %).
    pub interval: Option<ConfidenceInterval>,
}

/// Computes the median of `runs` with a confidence interval of at least `level`. An empty list is an error.
pub fn median(runs: &[f64], level: f64) -> Result<MedianOfRuns, BadInput> {
    checked(runs)?;
    let sorted = describe::sorted(runs);
    let ranks = distribution::quantile_ranks(runs.len() as u64, 0.5, level);
    let at = |rank: u64| sorted.get((rank as usize).wrapping_sub(1)).copied();
    let interval = at(ranks.lower).zip(at(ranks.upper)).map(|(low, high)| ConfidenceInterval {
        low,
        high,
        level: ranks.level,
    });
    Ok(MedianOfRuns { n: runs.len(), median: describe::median(runs), interval })
}

fn checked(runs: &[f64]) -> Result<(), BadInput> {
    if runs.is_empty() {
        return Err(BadInput("no run was given".to_owned()));
    }
    all_finite("the runs", runs)
}

/// Minimum number of runs (2 or more) for which the mean's confidence interval has a half width of at most
/// `half_width_share` of the mean, if the coefficient of variation is `variation`. None if a million runs are not
/// enough, or an argument is out of range.
pub fn runs_needed(variation: f64, half_width_share: f64, level: f64) -> Option<u32> {
    if !(variation >= 0.0 && half_width_share > 0.0) {
        return None;
    }
    let enough = |n: u32| {
        let t = distribution::student_quantile(f64::midpoint(1.0, level), f64::from(n - 1));
        t * variation <= half_width_share * f64::from(n).sqrt()
    };
    if !enough(RUNS_MAX) {
        return None;
    }
    // The half width decreases with n, so bisection finds the smallest n.
    let (mut short, mut long) = (1, RUNS_MAX);
    while long - short > 1 {
        let middle = u32::midpoint(short, long);
        if enough(middle) { long = middle } else { short = middle }
    }
    Some(long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise::{ar1, share, trial};

    #[test]
    fn the_mean_of_few_runs() {
        // s = √2.5, t(4) = 2.7764.
        let m = mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        let i = m.interval.unwrap();
        assert!((i.half_width() - 2.776_445 * 0.5_f64.sqrt()).abs() < 1e-5, "{m:?}");
        assert!((m.half_width_share().unwrap() - i.half_width() / 3.0).abs() < 1e-12);
        assert!((m.variation().unwrap() - 2.5_f64.sqrt() / 3.0).abs() < 1e-12);
        assert_eq!(mean(&[7.0], 0.95).unwrap().interval, None, "one run has no interval");
        assert!(mean(&[], 0.95).is_err() && median(&[f64::NAN], 0.95).is_err());
    }

    #[test]
    fn the_median_of_few_runs() {
        let runs = [50.0, 10.0, 30.0, 20.0, 40.0, 60.0, 70.0, 100.0, 90.0, 80.0];
        let m = median(&runs, 0.95).unwrap();
        let i = m.interval.unwrap();
        assert_eq!((m.median, i.low, i.high), (55.0, 20.0, 90.0));
        // 1 − 2 (1 + 10)/1024
        assert!((i.level - (1.0 - 22.0 / 1_024.0)).abs() < 1e-12);
        assert_eq!(median(&runs[..5], 0.95).unwrap().interval, None);
        assert!(median(&runs[..6], 0.95).unwrap().interval.is_some());
    }

    /// The recommended number of runs gives a narrow enough confidence interval, and one run less does not.
    #[test]
    fn runs_needed_are_the_fewest() {
        let table = [(0.02, 0.02, 7), (0.02, 0.01, 18), (0.05, 0.05, 7), (0.05, 0.02, 27)];
        for (variation, half_width, n) in table {
            assert_eq!(runs_needed(variation, half_width, 0.95), Some(n));
        }
        assert_eq!(runs_needed(0.0, 0.01, 0.95), Some(2));
        assert_eq!(runs_needed(1.0, 1e-9, 0.95), None);
        assert_eq!(runs_needed(0.1, 0.0, 0.95), None);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let runs = |i| ar1(&mut trial("runs", i), 8, 100.0, 0.03, 0.0);
        let means =
            share(2_000, |i| mean(&runs(i), 0.95).unwrap().interval.unwrap().contains(100.0));
        assert!((0.935..=0.965).contains(&means), "{means}");
        let mut level = 0.0;
        let medians = share(2_000, |i| {
            let interval = median(&runs(i), 0.95).unwrap().interval.unwrap();
            level = interval.level;
            interval.contains(100.0)
        });
        assert!(level >= 0.95 && (medians - level).abs() < 0.012, "{medians}, {level} claimed");
    }
}
