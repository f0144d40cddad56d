//! Early end of a cell in virtual time: it may end before its time limit once its results are proven steady and
//! precise enough.
//!
//! The window is divided into batches of equal length. For each batch, the number of operations on all targets and the
//! sum of their latencies are known. The first check is made after `batches_min` batches, the next ones when the window
//! is 1.5, 2, 3, 4, 6, … times as long. At 2, 4, 8, … times, pairs of batches are merged, so the number of batches and
//! the cost stay small. Few checks also make it unlikely that a random walk seems precise at one of them; the tests
//! measure the remaining risk.
//!
//! The cell may end if both the rate and the mean latency meet these conditions:
//!
//! * The 95 % confidence interval of the mean, by batch means ([`batch`]), is narrow enough: its half width is at most
//!   the requested fraction of the mean. The batch means are independent.
//! * The confidence interval of the trend over the whole window ([`drift`]) lies within ± [`TREND_MAX`] times that
//!   fraction.
//! * The level has no break.
//! * An oscillation, if any, was observed for ten periods.
//!
//! In addition, a batch must last at least as long as an operation. Otherwise all batch means would still depend on the
//! start.

use iodyno_measure::statistics::drift::{self, DriftLimits, Steadiness};
use iodyno_measure::statistics::{BadInput, batch};
use iodyno_workload::Settle;

/// Confidence level of all intervals that are computed here.
const LEVEL: f64 = 0.95;
/// Maximum trend of rate and latency over the window, as a multiple of the requested half width of the
/// confidence interval. With independent batches, the interval of a trend is 3.5 times as wide as that of the
/// mean.
const TREND_MAX: f64 = 4.0;
/// Minimum number of periods of an oscillation that the window must contain.
const PERIODS_MIN: f64 = 10.0;

/// Operations that completed in one batch. Batches divide the window into parts of equal length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Batch {
    ops: u64,
    /// Sum of the latencies of the batch's operations, ns.
    sum_ns: u64,
}

/// Precision of a settled cell's rate and latency: half widths of their confidence intervals, as fractions of
/// the means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settled {
    pub(super) rate: f64,
    pub(super) latency: f64,
}

/// Decides when a cell's results have settled, so that it may end early.
#[derive(Debug)]
pub(super) struct Settling {
    asked: Settle,
    /// Random seed for estimating the confidence interval of the trend.
    seed: u64,
    batch_ns: u64,
    batches: Vec<Batch>,
    current: Batch,
    /// End of the current batch in virtual time, ns (exclusive).
    pub(super) edge_ns: u64,
}

impl Settling {
    pub(super) fn new(asked: &Settle, seed: u64, window_start_ns: u64) -> Self {
        let n = asked.batches_min.max(2 * batch::BATCHES_MIN as u32);
        let batch_ns = asked.time_min_ns.div_ceil(u64::from(n)).max(1);
        Self {
            asked: Settle { batches_min: n, ..*asked },
            seed,
            batch_ns,
            batches: Vec::with_capacity(2 * n as usize),
            current: Batch::default(),
            edge_ns: window_start_ns.saturating_add(batch_ns),
        }
    }

    /// Adds a completed operation to the current batch.
    #[inline]
    pub(super) fn completed(&mut self, latency_ns: u64) {
        self.current.ops += 1;
        self.current.sum_ns += latency_ns;
    }

    /// Ends the current batch. Returns the precision if the cell has settled, otherwise `None`.
    #[cold]
    pub(super) fn next_batch(&mut self) -> Option<Settled> {
        self.batches.push(core::mem::take(&mut self.current));
        let (n, least) = (self.batches.len(), self.asked.batches_min as usize);
        let asked_now = n == least || n == least + least / 2 || n == 2 * least;
        let settled = if asked_now { self.judge() } else { None };
        if n == 2 * least {
            let both = |pair: &[Batch]| Batch {
                ops: pair[0].ops + pair[1].ops,
                sum_ns: pair[0].sum_ns + pair[1].sum_ns,
            };
            self.batches = self.batches.chunks_exact(2).map(both).collect();
            self.batch_ns *= 2;
        }
        self.edge_ns = self.edge_ns.saturating_add(self.batch_ns);
        settled
    }

    fn judge(&self) -> Option<Settled> {
        let n = self.batches.len() as f64;
        let ops: u64 = self.batches.iter().map(|b| b.ops).sum();
        if ops < self.asked.ops_min.max(1) {
            return None;
        }
        let mean_ops = ops as f64 / n;
        let mean_ns = self.batches.iter().map(|b| b.sum_ns as f64).sum::<f64>() / ops as f64;
        let rates: Vec<f64> = self.batches.iter().map(|b| b.ops as f64).collect();
        // A batch's contribution to the mean over all operations, a ratio of two sums, to first order.
        let part = |b: &Batch| mean_ns + (b.sum_ns as f64 - mean_ns * b.ops as f64) / mean_ops;
        let latencies: Vec<f64> = self.batches.iter().map(part).collect();
        Some(Settled {
            rate: self.known(&rates, mean_ns)?,
            latency: self.known(&latencies, mean_ns)?,
        })
    }

    /// Half width of the mean's confidence interval, as a fraction of the mean. `None` if it exceeds the requested
    /// precision, if the series has a trend, or if a batch is shorter than an operation, which takes `operation_ns` on
    /// average.
    fn known(&self, series: &[f64], operation_ns: f64) -> Option<f64> {
        let window_ns = series.len() as f64 * self.batch_ns as f64;
        let mean = batch::mean(series, LEVEL).ok()?;
        let share = mean.interval.half_width() / mean.mean;
        let is_known = mean.mean > 0.0
            && mean.independent
            && share <= self.asked.half_width_share_max
            && operation_ns * mean.batches as f64 <= window_ns;
        (is_known && self.is_steady(series, window_ns).unwrap_or(false)).then_some(share)
    }

    fn is_steady(&self, series: &[f64], window_ns: f64) -> Result<bool, BadInput> {
        let window_s = window_ns / 1e9;
        let limits = DriftLimits {
            share_per_hour_max: TREND_MAX * self.asked.half_width_share_max * 3600.0 / window_s,
            // A swing of any size does not harm a mean over many of its periods.
            amplitude_share_max: f64::INFINITY,
            length_min_s: 0.0,
            periods_min: PERIODS_MIN,
            level: LEVEL,
        };
        let found = drift::judge(series, self.batch_ns as f64 / 1e9, &limits, self.seed)?;
        Ok(found.breaks_s.is_empty() && found.steadiness == Steadiness::Steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{Generator, stream, unit_open_closed};

    const ASKED: Settle =
        Settle { half_width_share_max: 0.01, time_min_ns: 64_000_000, batches_min: 64, ops_min: 1 };

    /// Number of random series tested for each kind of noise.
    const TRIALS: u64 = 16;

    /// Simulates batches of 1000 operations of about 1000 ns, until the cell settles or 4096 initial batch
    /// lengths have passed. `shift` gives the relative change of latency over time. Returns the time in initial
    /// batch lengths, the precision, and the mean latency.
    fn search(mut shift: impl FnMut(u64) -> f64) -> (u64, Option<Settled>, f64) {
        let mut settling = Settling::new(&ASKED, 1, 0);
        let (mut time, mut sum) = (0, 0.0);
        while time < 4096 {
            let length = settling.batch_ns / 1_000_000;
            for unit in time..time + length {
                let latency_ns = 1000.0 * (1.0 + shift(unit));
                settling.current.ops += 1000;
                settling.current.sum_ns += (1000.0 * latency_ns) as u64;
                sum += latency_ns;
            }
            time += length;
            assert_eq!(settling.edge_ns, time * 1_000_000);
            let settled = settling.next_batch();
            if settled.is_some() {
                return (time, settled, sum / time as f64);
            }
        }
        (time, None, sum / time as f64)
    }

    fn normal(rng: &mut Generator) -> f64 {
        (0..12).map(|_| unit_open_closed(rng)).sum::<f64>() - 6.0
    }

    /// Normally distributed noise of standard deviation `spread`. Successive values have correlation `rho`.
    fn noise(trial: u64, spread: f64, rho: f64) -> impl FnMut(u64) -> f64 {
        let mut rng = stream(1, "settling", trial);
        let mut state = normal(&mut rng);
        move |_| {
            state = rho * state + (1.0 - rho * rho).sqrt() * normal(&mut rng);
            spread * state
        }
    }

    /// A constant series settles at the first check. Noise settles once its confidence interval is narrow, after
    /// about (1.96 σ / 1 %)² independent values.
    #[test]
    fn it_ends_when_the_interval_is_narrow() {
        assert_eq!(search(|_| 0.0).0, 64);
        for (spread, rho, needed) in [(0.02, 0.0, 64.0), (0.15, 0.0, 864.0), (0.1, 0.5, 1152.0)] {
            let mean = (0..8).map(|i| search(noise(i, spread, rho)).0 as f64).sum::<f64>() / 8.0;
            let share: f64 = mean / needed;
            assert!(
                (0.9..2.5).contains(&share),
                "spread {spread}, correlation {rho}: {mean} samples, {needed} needed"
            );
        }
        assert_eq!(search(noise(1, 1.0, 0.0)).1, None, "too noisy for the available time");
    }

    /// Despite repeated checks, the confidence interval contains the true mean nearly as often as with a fixed
    /// length (92 % in a run of 160 trials).
    #[test]
    fn the_truth_is_within_the_interval() {
        let (mut ended, mut held) = (0, 0);
        for (spread, rho) in [(0.05, 0.0), (0.1, 0.0), (0.05, 0.6), (0.03, 0.9)] {
            for trial in 0..TRIALS {
                let (_, settled, mean) = search(noise(trial, spread, rho));
                if let Some(settled) = settled {
                    assert!(settled.latency <= 0.01 && settled.rate <= 0.0);
                    ended += 1;
                    held += u64::from((mean / 1000.0 - 1.0).abs() <= settled.latency);
                }
            }
        }
        let share = held as f64 / ended as f64;
        println!("{ended} ended, {share} held");
        assert!(ended > 3 * TRIALS && share >= 0.85, "{ended} ended, {share} held");
    }

    /// An unsteady series does not settle: a trend, a step, a warm-up that fades late, or an oscillation with too
    /// few periods.
    #[test]
    fn an_unsteady_series_continues() {
        let noisy = |trial, rule: fn(f64) -> f64| {
            let mut noise = noise(trial, 0.005, 0.0);
            move |unit: u64| noise(unit) + rule(unit as f64)
        };
        for trial in 0..6 {
            // 10 % over the longest window: each check finds a trend or too much noise.
            assert_eq!(search(noisy(trial, |t| 0.1 * t / 64.0)).1, None);
            // A trend that noise hides from batch means: at 64 batches they would pass.
            let mut hiding = noise(trial, 0.03, 0.0);
            assert_eq!(search(|unit| hiding(unit) + 0.048 * unit as f64 / 64.0).1, None);
            // 10 % at the start is 1 % of the mean over 400 batches.
            let (time, ..) = search(noisy(trial, |t| if t < 40.0 { 0.1 } else { 0.0 }));
            assert!(time >= 400, "{time}");
            let (time, settled, _) = search(noisy(trial, |t| 0.2 * (t / 40.0).sin()));
            assert!(settled.is_none() || time >= 2500, "ten periods of 251: {time}");
        }
    }
}
