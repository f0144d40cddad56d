//! The mean of an autocorrelated series with its confidence interval, by batch means: the series is cut into 10 to 30
//! batches, long enough that their means are nearly independent, and Student's t is applied to these means. The
//! series must be steady, because a trend or a step would widen the interval as if it were noise.
//!
//! Source: Law, *Simulation Modeling and Analysis*, section 9.5.3. Starting with 30 batches, and using fewer while
//! their lag-1 correlation is above 0.2, is our choice.

use super::{BadInput, ConfidenceInterval, all_finite, describe, distribution};
use serde::{Deserialize, Serialize};

/// Initial number of batches, reduced while neighbouring batch means are correlated.
pub const BATCHES_MAX: usize = 30;
/// Minimum number of batches. With fewer, the confidence interval is wide and the correlation of the batch
/// means cannot be estimated.
pub const BATCHES_MIN: usize = 10;
/// Maximum acceptable lag-1 correlation of the batch means.
pub const CORRELATION_MAX: f64 = 0.2;

/// Mean of a correlated series with its confidence interval, by the method of batch means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchMean {
    /// Mean of all values of the series, in their unit.
    pub mean: f64,
    /// Confidence interval of the mean, by Student's t over the batch means.
    pub interval: ConfidenceInterval,
    /// Number of batches into which the series was divided.
    pub batches: usize,
    /// Number of values in the series.
    pub n: usize,
    /// Effective sample size: the number of independent values that would give the same certainty. It may exceed
    /// `n` if neighbouring values are negatively correlated. Equal to `n` for a constant series.
    pub n_effective: f64,
    /// Lag-1 correlation of the batch means; None for a constant series.
    pub correlation: Option<f64>,
    /// Whether `correlation` is at most [`CORRELATION_MAX`]. If not, the confidence interval is too narrow, and a
    /// longer run is needed.
    pub independent: bool,
}

/// Computes the mean of `series` with a confidence interval of `level` (such as 0.95). Fewer than 20 values
/// are an error, because each batch needs two.
pub fn mean(series: &[f64], level: f64) -> Result<BatchMean, BadInput> {
    all_finite("a series", series)?;
    if series.len() < 2 * BATCHES_MIN {
        return Err(BadInput(format!(
            "a series of {} values is too short for a confidence interval of its mean: at least {} are needed",
            series.len(),
            2 * BATCHES_MIN
        )));
    }
    let overall = describe::mean(series);
    let mut b = BATCHES_MAX.min(series.len() / 2);
    let (mut batches, mut correlation);
    loop {
        batches = cut(series, b);
        let means: Vec<f64> = batches.iter().map(|x| x.1).collect();
        correlation = describe::autocorrelation(&means, 1);
        if b == BATCHES_MIN || correlation.unwrap_or(0.0) <= CORRELATION_MAX {
            break;
        }
        b = (b / 2).max(BATCHES_MIN);
    }
    // Lengths differ by at most one; each batch is weighted by its number of values, as the groups in an analysis of
    // variance are. With equal lengths this is the textbook's formula.
    let between: f64 = batches.iter().map(|(n, m)| n * (m - overall).powi(2)).sum();
    let variance_of_mean = between / (b - 1) as f64 / series.len() as f64;
    let t = distribution::student_quantile(f64::midpoint(1.0, level), (b - 1) as f64);
    let reach = t * variance_of_mean.sqrt();
    let n = series.len();
    let n_effective = match correlation {
        Some(_) if variance_of_mean > 0.0 => describe::deviation(series).powi(2) / variance_of_mean,
        _ => n as f64,
    };
    Ok(BatchMean {
        mean: overall,
        interval: ConfidenceInterval { low: overall - reach, high: overall + reach, level },
        batches: b,
        n,
        n_effective,
        correlation,
        independent: correlation.unwrap_or(0.0) <= CORRELATION_MAX,
    })
}

/// Cuts the series into `b` batches; returns the length and the mean of each.
fn cut(series: &[f64], b: usize) -> Vec<(f64, f64)> {
    let edge = |i: usize| i * series.len() / b;
    (0..b)
        .map(|i| {
            let batch = &series[edge(i)..edge(i + 1)];
            (batch.len() as f64, describe::mean(batch))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise;

    /// Fraction of 2000 simulated series whose 95 % confidence interval contains the true mean.
    fn coverage(name: &str, n: usize, rho: f64) -> f64 {
        noise::share(2_000, |i| {
            let series = noise::ar1(&mut noise::trial(name, i), n, 100_000.0, 0.05, rho);
            mean(&series, 0.95).unwrap().interval.contains(100_000.0)
        })
    }

    /// Simulates IOPS per second over two and ten minutes. At a correlation of 0.9 two minutes are too short, and
    /// `independent` is false.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for (n, rho) in [(120, 0.0), (600, 0.0), (600, 0.5), (600, 0.8), (3_600, 0.9), (605, -0.4)]
        {
            let share = coverage("batch", n, rho);
            assert!((0.93..=0.97).contains(&share), "n {n}, correlation {rho}: {share}");
        }
        let warned = noise::share(200, |i| {
            let series = noise::ar1(&mut noise::trial("batch short", i), 120, 1e5, 0.05, 0.97);
            !mean(&series, 0.95).unwrap().independent
        });
        assert!(warned > 0.5, "{warned}");
    }

    /// The effective size of an AR(1) process of n values is n (1 − ρ)/(1 + ρ), except for effects at the ends.
    #[test]
    fn effective_size_agrees_with_the_closed_form() {
        for (rho, factor) in [(0.0, 1.0), (0.5, 1.0 / 3.0), (0.8, 1.0 / 9.0)] {
            let mut sum = 0.0;
            for i in 0..200 {
                let series = noise::ar1(&mut noise::trial("effective", i), 6_000, 1.0, 0.1, rho);
                // Averages of the variance of the mean are unbiased.
                sum += 1.0 / mean(&series, 0.95).unwrap().n_effective;
            }
            let n_effective = 200.0 / sum / 6_000.0;
            assert!((n_effective / factor - 1.0).abs() < 0.15, "{rho}: {n_effective}");
        }
    }

    #[test]
    fn independent_batches_give_the_textbooks_interval() {
        // Twenty batches of two with means 1, 2, …: far from independent, so ten of four are taken.
        let ramp: Vec<f64> = (0..40).map(|i| f64::from(i / 2)).collect();
        let m = mean(&ramp, 0.95).unwrap();
        assert_eq!((m.batches, m.independent), (10, false));
        // Thirty batches with alternating means ± 1: s = √(30/29), t = 2.0452.
        let turn: Vec<f64> = (0..60).map(|i| if i / 2 % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let m = mean(&turn, 0.95).unwrap();
        assert_eq!((m.batches, m.independent), (30, true));
        let reach = 2.045_23 * (30.0_f64 / 29.0).sqrt() / 30.0_f64.sqrt();
        assert!((m.interval.high - reach).abs() < 1e-5, "{m:?}");
        let flat = mean(&[7.0; 25], 0.95).unwrap();
        assert!(flat.interval.half_width().abs() < 1e-12 && flat.independent);
        assert!((flat.n_effective - 25.0).abs() < 1e-12);
        assert!(mean(&[1.0; 19], 0.95).unwrap_err().to_string().contains("19 values"));
        assert!(mean(&[f64::INFINITY; 30], 0.95).is_err());
    }
}
