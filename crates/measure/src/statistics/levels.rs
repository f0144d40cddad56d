//! Shifts of level in a history: the values of one figure in repeated equal runs, in order of time. An update, a new
//! driver or a worn device changes the level from some run on; single outliers and noise do not.
//!
//! Each segment has one level. Several divisions into segments are candidates: those that minimise the sum of squares
//! of the logarithms plus a penalty per segment (optimal partitioning), for penalties from large to small. Schwarz's
//! criterion chooses among the candidates. It estimates the noise of each candidate from the candidate's own residuals,
//! so that shifts do not enlarge the estimate. The noise is modelled as an AR(1) process, to distinguish a drift from
//! run to run from a shift.
//!
//! [`super::change`] fits lines instead: drifts are usual within a cell, steps between runs.

use super::change::{logarithms, without_stalls};
use super::describe::{self, ConfidenceInterval};
use super::distribution::student_quantile;
use super::partition::cheapest;

/// Penalty of Schwarz's criterion for a shift, as a multiple of ln n: one for the level, one for the position.
const PENALTY: f64 = 2.0;
/// Further penalty for a shift, because Schwarz's criterion is for long series. In simulated histories of 8 to 40 runs
/// without a shift, with noise of 0.2 to 30 %, the criterion alone finds a shift in 5 to 9 % of the histories, or in up
/// to 27 % if neighbouring runs are correlated. With this penalty, it finds one in less than 1 %, or in about 2 % if
/// neighbouring runs are correlated.
const PENALTY_MORE: f64 = 8.0;
/// Factor between the penalties of successive candidates.
const PENALTY_STEP: f64 = 1.5;
/// Minimum number of runs in a segment: a shift can be found once four runs have the new level.
pub const RUNS_MIN: usize = 4;
/// Standard deviation that is added to the noise, as a fraction of the level. Runs in virtual time have no noise; with
/// this addition, a step of 0.1 % counts as a shift in their history.
const NOISE_MIN: f64 = 0.000_2;
/// Largest difference in twice the log-likelihood at which another position of a shift is still plausible (95 %, one
/// degree of freedom).
const PLAUSIBLE: f64 = 3.84;
/// Largest number of values in a history; the computing time grows with the square of this number.
pub const VALUES_MAX: usize = 4000;

/// A range of runs with one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Index of the level's first run in the history.
    pub start: usize,
    /// Index after the level's last run in the history.
    pub end: usize,
    /// Geometric mean of the runs' values, without outliers.
    pub value: f64,
    /// Change from the previous level; `None` for the first level.
    pub shift: Option<Shift>,
}

/// A change from one level to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// The new level divided by the previous one.
    pub ratio: f64,
    /// 95 % confidence interval of `ratio`.
    pub interval: ConfidenceInterval,
    /// First and last index at which the new level may begin, with 95 % confidence.
    pub begins: (usize, usize),
}

/// Divides a history of positive values into levels. The caller must shorten histories longer than [`VALUES_MAX`].
pub fn levels(values: &[f64]) -> Vec<Level> {
    let n = values.len();
    if n == 0 {
        return Vec::new();
    }
    let clean = without_stalls(values);
    let points = logarithms(&clean);
    let sums = Sums::new(&points);
    let (starts, noise) = division(&points, &sums);
    let variance = noise.long_run();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([n]).collect();
    let level = |i: usize| {
        let (start, end) = (starts[i], ends[i]);
        let shift = i
            .checked_sub(1)
            .map(|before| shift(&sums, (starts[before], start, end), variance, n - starts.len()));
        Level { start, end, value: sums.mean(start, end).exp(), shift }
    };
    (0..starts.len()).map(level).collect()
}

/// Upper limit of the estimated correlation of neighbouring runs.
const RHO_MAX: f64 = 0.9;

/// Noise of the runs around their levels: an AR(1) process.
struct Noise {
    /// Correlation of neighbouring runs, 0 to [`RHO_MAX`].
    rho: f64,
    /// Variance of the innovations, which are the independent parts of the runs' noise.
    variance: f64,
}

impl Noise {
    /// Estimates the noise from the residuals of a division.
    fn of(points: &[f64], starts: &[usize], sums: &Sums) -> Self {
        let n = points.len();
        let ends = starts.iter().skip(1).copied().chain([n]);
        let residuals: Vec<f64> = starts
            .iter()
            .zip(ends)
            .flat_map(|(&start, end)| {
                let mean = sums.mean(start, end);
                points[start..end].iter().map(move |point| point - mean)
            })
            .collect();
        let pairs = || residuals.iter().zip(&residuals[1..]);
        let squares: f64 = residuals.iter().map(|e| e * e).sum();
        let products: f64 = pairs().map(|(a, b)| a * b).sum();
        let raw = if squares > 0.0 { products / squares } else { 0.0 };
        // Fitted means lower the estimate, by (1 + 3ρ)/n for one mean (Kendall, Biometrika 41, 1954).
        let bias = (starts.len() as f64 + 3.0 * raw.max(0.0)) / n as f64;
        let rho = (raw + bias).clamp(0.0, RHO_MAX);
        let first = (1.0 - rho * rho) * residuals[0].powi(2);
        let rest: f64 = pairs().map(|(a, b)| (b - rho * a).powi(2)).sum();
        let variance = (first + rest) / (n.saturating_sub(starts.len()).max(1)) as f64;
        Self { rho, variance: variance + NOISE_MIN * NOISE_MIN }
    }

    /// Long-run variance: independent runs with this variance would have a mean as uncertain as the mean of these runs.
    fn long_run(&self) -> f64 {
        self.variance / (1.0 - self.rho).powi(2)
    }

    /// Twice the negative log-likelihood of `n` runs divided into `segments` segments, up to a constant, plus the
    /// penalty of the shifts.
    fn criterion(&self, n: usize, segments: usize) -> f64 {
        let n = n as f64;
        let penalty = PENALTY * n.ln() + PENALTY_MORE;
        n * self.variance.ln() - (1.0 - self.rho * self.rho).ln() + penalty * (segments - 1) as f64
    }
}

/// The best division by Schwarz's criterion, as the start index of each segment, and the noise around its levels.
fn division(points: &[f64], sums: &Sums) -> (Vec<usize>, Noise) {
    let n = points.len();
    let whole = vec![0];
    let noise = Noise::of(points, &whole, sums);
    let mut best = (noise.criterion(n, 1), whole, noise);
    // From a penalty at which no shift pays to that of a known noise, which the median difference estimates: 0.455 is the
    // median of a squared standard normal variable.
    let mut squares: Vec<f64> = points.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).collect();
    if n < 2 * RUNS_MIN {
        return (best.1, best.2);
    }
    let least = describe::median_in_place(&mut squares) / (2.0 * 0.455) + NOISE_MIN * NOISE_MIN;
    let mut penalty = sums.residual(0, n);
    while penalty > least * (n as f64).ln() {
        let starts = cheapest(n, RUNS_MIN, penalty, |start, end| sums.residual(start, end));
        penalty /= PENALTY_STEP;
        if starts.len() == best.1.len() && starts == best.1 {
            continue;
        }
        let noise = Noise::of(points, &starts, sums);
        let criterion = noise.criterion(n, starts.len());
        if criterion < best.0 {
            best = (criterion, starts, noise);
        }
    }
    (best.1, best.2)
}

/// Decreases that [`detectable_share`] tries, as fractions of the level.
const TRIED: [f64; 12] = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5];

/// Smallest decrease, as a fraction of the level, that [`levels`] would find if the second half of the history
/// decreased by it. Tries only a few fixed decreases. `None` if [`levels`] would find none of them, such as in fewer
/// than 8 runs.
pub fn detectable_share(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    TRIED.into_iter().find(|share| {
        let mut shifted = values.to_vec();
        shifted[middle..].iter_mut().for_each(|value| *value *= 1.0 - share);
        levels(&shifted).iter().any(|level| level.start.abs_diff(middle) <= 1 && level.start > 0)
    })
}

/// The shift at `at`, between the levels of `from..at` and `at..end`.
fn shift(
    sums: &Sums,
    (from, at, end): (usize, usize, usize),
    variance: f64,
    degrees: usize,
) -> Shift {
    let step = sums.mean(at, end) - sums.mean(from, at);
    let error = (variance * (1.0 / (at - from) as f64 + 1.0 / (end - at) as f64)).sqrt();
    let half = student_quantile(0.975, degrees.max(1) as f64) * error;
    let cost = |cut: usize| sums.residual(from, cut) + sums.residual(cut, end);
    let most = cost(at) + PLAUSIBLE * variance;
    let plausible = |cut: &usize| cost(*cut) <= most;
    let first = (from + 1..=at).rev().take_while(plausible).last().unwrap_or(at);
    let last = (at..end).take_while(plausible).last().unwrap_or(at);
    Shift {
        ratio: step.exp(),
        interval: ConfidenceInterval {
            low: (step - half).exp(),
            high: (step + half).exp(),
            level: 0.95,
        },
        begins: (first, last),
    }
}

/// Running sums from which the mean and residual of any range are computed in constant time.
struct Sums {
    /// Running sums of the values minus their mean, which reduces rounding errors.
    y: Vec<f64>,
    yy: Vec<f64>,
    mean: f64,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        let mean = describe::mean(values);
        let running = |f: &dyn Fn(f64) -> f64| {
            let sum = values.iter().scan(0.0, |sum, v| {
                *sum += f(v - mean);
                Some(*sum)
            });
            [0.0].into_iter().chain(sum).collect::<Vec<f64>>()
        };
        Self { y: running(&|y| y), yy: running(&|y| y * y), mean }
    }

    fn mean(&self, start: usize, end: usize) -> f64 {
        self.mean + (self.y[end] - self.y[start]) / (end - start) as f64
    }

    /// Sum of squared distances of the points `start..end` from their mean.
    fn residual(&self, start: usize, end: usize) -> f64 {
        if start == end {
            return 0.0;
        }
        let y = self.y[end] - self.y[start];
        (self.yy[end] - self.yy[start] - y * y / (end - start) as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::noise::{ar1, normals, share, trial};
    use super::*;

    fn starts(values: &[f64]) -> Vec<usize> {
        levels(values).iter().map(|level| level.start).collect()
    }

    /// In 200 runs with 2 % noise and three shifts of 5 %, all shifts are found within 3 runs, their intervals contain
    /// the true values, and nothing else is found. Without shifts nothing is found.
    #[test]
    fn shifts_of_a_history_are_found() {
        let cuts = [60, 110, 160];
        let factors = [1.0, 0.95, 1.0, 0.95];
        let (mut covered, mut placed, mut shifts) = (0, 0, 0);
        let found = share(300, |i| {
            let mut y = ar1(&mut trial("shifts", i), 200, 1000.0, 0.02, 0.0);
            for (j, v) in y.iter_mut().enumerate() {
                *v *= factors[cuts.iter().filter(|cut| j >= **cut).count()];
            }
            let all = levels(&y);
            for (level, cut) in all.iter().skip(1).zip(cuts) {
                let shift = level.shift.as_ref().unwrap();
                let truth = if cut == 110 { 1.0 / 0.95 } else { 0.95 };
                shifts += 1;
                covered += u32::from(shift.interval.low <= truth && truth <= shift.interval.high);
                placed += u32::from(shift.begins.0 <= cut && cut <= shift.begins.1);
            }
            all.len() == 4 && all[1..].iter().zip(cuts).all(|(l, cut)| l.start.abs_diff(cut) <= 3)
        });
        assert!(found > 0.97, "{found}");
        let share_of = |n: u32| f64::from(n) / f64::from(shifts);
        assert!(share_of(covered) > 0.9, "{}", share_of(covered));
        assert!(share_of(placed) > 0.9, "{}", share_of(placed));
    }

    /// Noise alone has one level, even if it has the heavy tails of Student's t with 3 degrees of freedom, if the
    /// machine drifts from run to run, or if there are single outliers.
    #[test]
    fn noise_has_one_level() {
        let quiet = share(300, |i| {
            let mut rng = trial("quiet", i);
            levels(&ar1(&mut rng, 200, 1000.0, 0.02, 0.0)).len() == 1
        });
        assert!(quiet > 0.99, "{quiet}");
        let heavy = share(300, |i| {
            let z = normals(&mut trial("heavy", i), 800);
            let t =
                |j: usize| z[j] / (z[j + 1..j + 4].iter().map(|x| x * x).sum::<f64>() / 3.0).sqrt();
            let y: Vec<f64> = (0..200).map(|j| 1000.0 * (0.02 * t(4 * j)).exp()).collect();
            levels(&y).len() == 1
        });
        assert!(heavy > 0.98, "{heavy}");
        let correlated = share(300, |i| {
            levels(&ar1(&mut trial("correlated", i), 200, 1000.0, 0.02, 0.4)).len() == 1
        });
        assert!(correlated > 0.98, "{correlated}");
        let mut y = ar1(&mut trial("odd", 0), 100, 1000.0, 0.02, 0.0);
        (y[30], y[70]) = (300.0, 2000.0);
        assert_eq!(starts(&y), [0]);
    }

    /// A shift in a short history is not taken for correlated noise, whatever the size of the shift and of the noise.
    /// For a history without a shift, [`detectable_share`] gives the smallest shift that would have been found.
    #[test]
    fn short_histories() {
        for (runs, deviations, least) in [
            (8, 14.0, 0.97),
            (12, 8.0, 0.95),
            (18, 5.0, 0.9),
            (18, 14.0, 0.99),
            (24, 30.0, 0.99),
            (40, 3.0, 0.9),
        ] {
            let cut = (runs * 4 / 9).max(4);
            let mut found_at = Vec::new();
            for noise in [0.002, 0.007, 0.02] {
                let found = share(300, |i| {
                    let mut y = ar1(&mut trial("short", i), runs, 1000.0, noise, 0.0);
                    y[cut..].iter_mut().for_each(|v| *v *= (-noise * deviations).exp());
                    let starts = starts(&y);
                    starts.len() == 2 && starts[1].abs_diff(cut) <= 3
                });
                assert!(found > least, "{runs} runs, {deviations} × {noise}: {found}");
                found_at.push(found);
            }
            let spread = found_at.iter().copied().fold(0.0, f64::max)
                - found_at.iter().copied().fold(1.0, f64::min);
            assert!(spread < 0.03, "the unit of the noise has an effect: {found_at:?}");
            for noise in [0.002, 0.02, 0.3] {
                let quiet = share(300, |i| {
                    levels(&ar1(&mut trial("short quiet", i), runs, 1000.0, noise, 0.2)).len() == 1
                });
                assert!(quiet > 0.97, "{runs} runs, {noise}: {quiet}");
            }
        }
        let mut y = ar1(&mut trial("found", 0), 18, 1000.0, 0.007, 0.0);
        assert_eq!(starts(&y), [0]);
        let found = detectable_share(&y).unwrap();
        assert!((0.01..=0.05).contains(&found), "{found}");
        y[8..].iter_mut().for_each(|v| *v *= 0.9);
        assert_eq!(starts(&y), [0, 8]);
        assert_eq!(detectable_share(&y[..7]), None);
    }

    #[test]
    fn short_and_exact_histories() {
        assert_eq!(starts(&[]), [0; 0]);
        assert_eq!(starts(&[5.0]), [0]);
        assert_eq!(starts(&[5.0, 9.0, 5.0, 9.0]), [0]);
        // Virtual time repeats exactly.
        for runs in [8, 20, 200] {
            let mut y = vec![1000.0; runs];
            y[runs / 2..].fill(1001.0);
            assert_eq!(starts(&y), [0, runs / 2]);
        }
        let mut y = vec![1000.0; 20];
        y[12..].fill(1010.0);
        let all = levels(&y);
        assert_eq!(starts(&y), [0, 12]);
        let shift = all[1].shift.as_ref().unwrap();
        assert!((shift.ratio - 1.01).abs() < 1e-9 && shift.begins == (12, 12), "{shift:?}");
    }

    /// The recursion finds the cheapest of all cuts into two or three segments.
    #[test]
    fn the_cut_is_the_cheapest() {
        for i in 0..20 {
            let mut y = ar1(&mut trial("cheapest levels", i), 24, 10.0, 0.1, 0.0);
            y[9..].iter_mut().for_each(|v| *v += 6.0);
            y[16..].iter_mut().for_each(|v| *v -= 4.0);
            let of = |range: &[f64]| {
                let mean = describe::mean(range);
                range.iter().map(|v| (v - mean).powi(2)).sum::<f64>() + 12.0
            };
            let cost = |cuts: &[usize]| {
                [&[0], cuts, &[24]].concat().windows(2).map(|e| of(&y[e[0]..e[1]])).sum::<f64>()
            };
            let mut best = (cost(&[]), vec![0]);
            for a in RUNS_MIN..=24 - RUNS_MIN {
                let mut ways = vec![vec![a]];
                ways.extend((a + RUNS_MIN..=24 - RUNS_MIN).map(|b| vec![a, b]));
                for cuts in ways {
                    if cost(&cuts) < best.0 {
                        best = (cost(&cuts), [vec![0], cuts].concat());
                    }
                }
            }
            let sums = Sums::new(&y);
            let found = cheapest(24, RUNS_MIN, 12.0, |start, end| sums.residual(start, end));
            assert!(found.len() > 3 || found == best.1, "{found:?}, not {:?}", best.1);
        }
    }
}
