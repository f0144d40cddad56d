//! Due times of the operations of an open loop: a schedule that is fixed in advance, independent of completions.

use iodyno_units::rng::{self, Generator, unit_open_closed};

use crate::spec::{ArrivalKind, Process, Spec};
use crate::worker_index::WorkerIndex;

/// Arrival times of one worker's operations in an open loop. The workers of a target divide the target's
/// rate.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Gaps,
}

#[derive(Clone, Debug)]
enum Gaps {
    Constant(Constant),
    Poisson(Poisson),
}

impl Arrivals {
    /// Creates the arrival schedule of one worker. The workers divide the workload's rate. `None`: the workload is a
    /// closed loop.
    ///
    /// # Panics
    /// If the worker's index is not below the number of workers.
    pub fn new(spec: &Spec, seed: u64, worker: WorkerIndex) -> Option<Self> {
        let WorkerIndex { index, of } = worker;
        assert!(index < of, "worker {index} of {of}");
        let ArrivalKind::Open { rate_iops, process } = spec.arrivals() else { return None };
        let process = match process {
            Process::Constant => Gaps::Constant(Constant::new(rate_iops, worker)),
            Process::Poisson => Gaps::Poisson(Poisson {
                rng: rng::stream(seed, "arrival", index.into()),
                mean_gap: 1e9 * f64::from(of) / rate_iops * Poisson::FRACTIONS,
                now: 0,
            }),
        };
        Some(Self { process })
    }

    /// Intended start of the next operation, ns from the start of the schedule. Never earlier than that of the previous
    /// operation.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        match &mut self.process {
            Gaps::Constant(constant) => constant.next_ns(),
            Gaps::Poisson(poisson) => poisson.next_ns(),
        }
    }
}

/// Arrivals at constant intervals. Arrival k of worker w, one of W workers, is at ⌊(k W + w) 10⁹ / rate⌋ ns. Rounding
/// errors don't accumulate: the period is an exact fraction, and its remainder is kept.
#[derive(Clone, Debug)]
struct Constant {
    now_ns: u64,
    remainder: u64,
    gap_ns: u64,
    gap_remainder: u64,
    divisor: u64,
}

impl Constant {
    /// Creates the arrivals of one worker. `rate_iops`, the rate of all workers together, must be from 0.001 to
    /// 10⁹.
    fn new(rate_iops: f64, worker: WorkerIndex) -> Self {
        let (numerator, divisor) = period_ns(rate_iops);
        let split = |periods: u32| {
            let whole = numerator * u128::from(periods);
            let divisor = u128::from(divisor);
            ((whole / divisor) as u64, (whole % divisor) as u64)
        };
        let (now_ns, remainder) = split(worker.index);
        let (gap_ns, gap_remainder) = split(worker.of);
        Self { now_ns, remainder, gap_ns, gap_remainder, divisor }
    }

    #[inline]
    fn next_ns(&mut self) -> u64 {
        let due_ns = self.now_ns;
        self.now_ns = self.now_ns.saturating_add(self.gap_ns);
        self.remainder += self.gap_remainder;
        if self.remainder >= self.divisor {
            self.remainder -= self.divisor;
            self.now_ns = self.now_ns.saturating_add(1);
        }
        due_ns
    }
}

/// The period 10⁹ / `rate_iops` as an exact fraction: numerator and divisor. The divisor is at most 2⁵³ and
/// the numerator at most 10⁹ × 2⁶², because the rate is at least 0.001.
fn period_ns(rate_iops: f64) -> (u128, u64) {
    let bits = rate_iops.to_bits();
    let exponent = (bits >> 52) as i32 - 1075;
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    // rate = mantissa × 2^exponent; a rate of at most 10⁹ has an exponent below 0.
    let common = mantissa.trailing_zeros().min((-exponent) as u32);
    let denominator_bits = (-exponent) as u32 - common;
    (1_000_000_000_u128 << denominator_bits, mantissa >> common)
}

/// Arrivals with exponentially distributed gaps. Times are summed in units of 2⁻³² ns: gaps rounded down to
/// whole ns would raise the rate, and a floating-point sum would lose digits as it grows.
#[derive(Clone, Debug)]
struct Poisson {
    rng: Generator,
    /// Mean gap between arrivals, in units of 2⁻³² ns.
    mean_gap: f64,
    /// Time of the last arrival, in units of 2⁻³² ns.
    now: u128,
}

impl Poisson {
    const FRACTIONS: f64 = 4_294_967_296.0;

    #[inline]
    fn next_ns(&mut self) -> u64 {
        let gap = -libm::log(unit_open_closed(&mut self.rng)) * self.mean_gap;
        // Nearly every gap fits 64 bits (4 s), whose conversion is a single instruction rather than a call.
        let gap = gap + 0.5;
        self.now += if gap < 1.8e19 { u128::from(gap as u64) } else { gap as u128 };
        (self.now >> 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(rate: &str, process: &str) -> Spec {
        Spec::from_toml(&format!(
            "schema = 1\nmix = {{ read = 1 }}\n\
             arrivals = {{ kind = \"open\", rate = \"{rate}\", process = \"{process}\" }}"
        ))
        .unwrap()
    }

    proptest! {
        /// Compares arrival times with the formula in 128-bit integers, at rates that are multiples of 0.5.
        #[test]
        fn constant_arrivals_are_exact(
            halves in 1_u64..4_000_000_000 / 2,
            workers in 1_u32..1024,
            worker in 0_u32..1024,
            skip in 0_u64..3000,
        ) {
            let worker = worker % workers;
            let mut arrivals = Constant::new(halves as f64 / 2.0, WorkerIndex { index: worker, of: workers });
            for _ in 0..skip {
                arrivals.next_ns();
            }
            let number = u128::from(skip) * u128::from(workers) + u128::from(worker);
            let due_ns = number * 2_000_000_000 / u128::from(halves);
            prop_assert_eq!(u128::from(arrivals.next_ns()), due_ns);
        }
    }

    #[test]
    fn constant_arrivals_of_all_workers_make_one_even_comb() {
        let spec = open("3", "constant");
        let mut due: Vec<u64> = (0..4)
            .flat_map(|index| {
                let mut arrivals = Arrivals::new(&spec, 1, WorkerIndex { index, of: 4 }).unwrap();
                (0..300).map(move |_| arrivals.next_ns())
            })
            .collect();
        due.sort_unstable();
        let even: Vec<u64> = (0..1200).map(|k| k * 1_000_000_000 / 3).collect();
        assert_eq!(due, even);
    }

    /// The lowest rate has the largest numerator, which must not overflow.
    #[test]
    fn the_slowest_rate_fits() {
        let (numerator, divisor) = period_ns(0.001);
        let period_ns = numerator as f64 / divisor as f64;
        assert!((period_ns - 1e12).abs() < 1e-3, "{period_ns}");
        assert!(numerator.leading_zeros() >= 10, "1024 workers fit");
    }

    /// At a million arrivals per second, 10⁷ arrivals end within 1 ns of the exact sum of their gaps, and the
    /// mean and variance of the gaps are right within four standard errors. Gaps rounded down to whole ns would
    /// end 5 ms early.
    #[test]
    fn poisson_arrivals_keep_their_rate() {
        const ARRIVALS: u32 = 10_000_000;
        let mut arrivals = Arrivals::new(&open("1M/s", "poisson"), 5, WorkerIndex::ALONE).unwrap();
        let mut same = rng::stream(5, "arrival", 0);
        // Kahan summation of the gaps.
        let (mut sum_ns, mut lost_ns) = (0.0, 0.0);
        let (mut last_ns, mut squares) = (0, 0.0);
        for _ in 0..ARRIVALS {
            let now_ns = arrivals.next_ns();
            squares += (now_ns - last_ns) as f64 * (now_ns - last_ns) as f64;
            last_ns = now_ns;
            let gap_ns = -libm::log(unit_open_closed(&mut same)) * 1000.0 - lost_ns;
            let next_ns = sum_ns + gap_ns;
            lost_ns = (next_ns - sum_ns) - gap_ns;
            sum_ns = next_ns;
        }
        assert!((last_ns as f64 - sum_ns).abs() < 2.0, "{last_ns} {sum_ns}");
        let mean = last_ns as f64 / f64::from(ARRIVALS);
        let variance = squares / f64::from(ARRIVALS) - mean * mean;
        assert!((mean - 1000.0).abs() < 4.0 * 0.316, "{mean}");
        // The variance of an exponential is its mean squared; its standard error here is
        // √(8 / 10⁷) of that. Flooring to whole ns adds 1/6 ns².
        assert!((variance / 1e6 - 1.0).abs() < 4.0 * 0.000_9, "{variance}");
    }

    /// The combined arrivals of many workers are a Poisson process: the variance of counts per interval is their
    /// mean.
    #[test]
    fn workers_together_are_one_poisson_process() {
        let spec = open("100k/s", "poisson");
        let mut counts = vec![0_u32; 2000];
        for index in 0..8 {
            let mut arrivals = Arrivals::new(&spec, 9, WorkerIndex { index, of: 8 }).unwrap();
            while let Some(count) = counts.get_mut(arrivals.next_ns() as usize / 1_000_000) {
                *count += 1;
            }
        }
        let mean = counts.iter().sum::<u32>() as f64 / 2000.0;
        let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / 2000.0;
        // 100 per ms; standard errors: 0.22 of the mean, 0.032 of the ratio.
        assert!((mean - 100.0).abs() < 1.0, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.13, "{}", variance / mean);
    }

    /// Kolmogorov-Smirnov test that gaps are exponentially distributed, for one worker and for eight combined, at
    /// rates with mean gaps far above 1 ns and near 1 ns. 1.63 is the critical value at the 1 % level.
    #[test]
    fn gaps_of_poisson_arrivals_are_exponential() {
        const GAPS: usize = 100_000;
        for (rate, mean_ns) in [("500/s", 2e6), ("10k/s", 1e5), ("50M/s", 20.0)] {
            for workers in [1, 8] {
                let mut due: Vec<u64> = (0..workers)
                    .flat_map(|index| {
                        let worker = WorkerIndex { index, of: workers };
                        let mut arrivals =
                            Arrivals::new(&open(rate, "poisson"), 3, worker).unwrap();
                        (0..GAPS).map(move |_| arrivals.next_ns()).collect::<Vec<_>>()
                    })
                    .collect();
                due.sort_unstable();
                // Cut to the period in which all workers have arrivals.
                due.truncate(GAPS);
                let d = distance(&due, mean_ns);
                let most = 1.63 / (GAPS as f64).sqrt();
                assert!(d < most, "{rate}, {workers} workers: distance {d} is not below {most}");
            }
        }
        // The test detects even gaps, and a rate that is 2 % off.
        let even: Vec<u64> = (0..GAPS as u64).map(|k| k * 100_000).collect();
        assert!(distance(&even, 1e5) > 0.3);
        let mut arrivals = Arrivals::new(&open("10k/s", "poisson"), 3, WorkerIndex::ALONE).unwrap();
        let due: Vec<u64> = (0..GAPS).map(|_| arrivals.next_ns()).collect();
        assert!(distance(&due, 1.02e5) > 1.63 / (GAPS as f64).sqrt());
    }

    /// Largest distance between the distribution of gaps and the exponential one, for due times in whole ns.
    fn distance(due: &[u64], mean_ns: f64) -> f64 {
        let mut gaps: Vec<u64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        let all = gaps.len() as f64;
        let mut most: f64 = 0.0;
        let mut below = 0;
        while let Some(&gap) = gaps.get(below) {
            let up_to = below + gaps[below..].partition_point(|g| *g == gap);
            // A difference of floored times is at most n for gaps up to n, and for half of those up to n + 1.
            let law = |ns: f64| 1.0 - libm::exp(-ns.max(0.0) / mean_ns);
            let ends = |n: f64| f64::midpoint(law(n), law(n + 1.0));
            most = most.max((below as f64 / all - ends(gap as f64 - 1.0)).abs());
            most = most.max((up_to as f64 / all - ends(gap as f64)).abs());
            below = up_to;
        }
        most
    }
}
