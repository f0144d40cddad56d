//! Uncertainty of the fitted parameters. The profile of the misfit gives each parameter a confidence interval, or shows
//! that the measurements do not determine the parameter. Some products of parameters are determined although their
//! factors are not.

use crate::matrix::{eigen, inverse};
use crate::parameter::Parameter;
use crate::refine::{Point, Problem, Slope};
use crate::{FitError, are_printed};
use iodyno_measure::statistics::distribution::{normal_quantile, student_quantile};

/// A parameter counts as identified if neither end of its confidence interval is farther than this from its value. The
/// distance is a difference of natural logarithms; 0.05 is about 5 %.
pub const IDENTIFIED: f64 = 0.05;
/// A parameter counts as not identified if an end of its interval is farther than this from its value. As a difference
/// of logarithms: a factor of 1.65.
const WEAK: f64 = 0.5;
/// Lower bound of the factor that scales the standard errors. Residuals are smaller than their standard errors where a
/// rate limit binds, because the mean latency then varies less than that of independent operations. With this bound,
/// the intervals of randomly drawn SSDs, disks and volumes contain the true value in 95 to 99 % of the cases; with 0.5,
/// some parameters of volumes are called identified that are more than 5 % off.
const SCALE_MIN: f64 = 0.6;
/// An interval counts as unbounded on a side that reaches this far from the value. As a difference of logarithms: a
/// factor of 20.
const UNBOUNDED: f64 = 3.0;
/// Maximum number of rounds of the search for the end of an interval, and the factor by which the distance grows in
/// each.
const ROUNDS_MAX: usize = 7;
const FARTHER: f64 = 3.0;
/// Number of times that the other parameters are adjusted at a tried end, each time to the residuals simulated there.
const ADJUSTMENTS: usize = 2;
/// The end of an interval is extrapolated, by a square root, if the misfit at a tried end has at least this fraction of
/// the growth that defines the end.
const GROWN_MIN: f64 = 0.5;
/// Combinations with intervals of a larger half-width are not reported. As a difference of logarithms: about 10 %.
const COMBINED: f64 = 0.1;
/// Parameters with a smaller absolute exponent are not printed in a combination. The largest exponent is 1.
const SHARE_MIN: f64 = 0.15;

/// Accuracy with which the measurements determine a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The interval is at most 5 % to each side.
    Identified,
    /// The interval is wider than 5 %, but at most a factor of 1.65 to each side.
    Roughly,
    /// The interval is wider still: the measurements do not depend on the parameter, or depend only on a combination
    /// with other parameters.
    NotIdentified,
}

/// A fitted parameter: its value, its confidence interval, and how well the measurements determine it.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Key, unit and bounds of the parameter.
    pub parameter: Parameter,
    /// Value from which the fit's search started: computed by a closed form, or taken from the device that the fit
    /// started from.
    pub start: f64,
    /// Best-fitting value. An unidentified parameter has the value of the device that the fit started from, if the
    /// measurements allow this value.
    pub value: f64,
    /// 95 % confidence interval; meaningless for an unidentified parameter.
    pub interval: (f64, f64),
    /// Accuracy with which the measurements determine the parameter.
    pub known: Known,
    /// Whether the parameter is unidentified and was given the value of the device that the fit started from.
    pub is_of_device: bool,
    /// Names of the cells whose statistics depend most on the parameter, at most three.
    pub from: Vec<String>,
}

/// A product of powers of parameters. The measurements determine the product, but not the parameters one by one.
#[derive(Clone, Debug)]
pub struct Combination {
    /// Keys of the parameters with their exponents, largest absolute value first. The first exponent is 1.
    pub factors: Vec<(&'static str, f64)>,
    /// Half-width of the product's 95 % confidence interval, as a difference of logarithms: 0.02 is about 2 %.
    pub half_width: f64,
}

impl Combination {
    /// The combination as text: `nand.read^1.00 × link.latency^0.31 to ± 2.1 %`.
    pub fn words(&self) -> String {
        let factors: Vec<String> =
            self.factors.iter().map(|(key, exponent)| format!("{key}^{exponent:.2}")).collect();
        format!("{} to ± {:.1} %", factors.join(" × "), self.half_width * 100.0)
    }
}

/// Size of the residuals in standard errors, root mean square: 1 if they are as large as the standard errors predict.
/// Also returns the degrees of freedom.
pub(crate) fn scale(problem: &Problem<'_>, best: &Point, slope: &Slope) -> (f64, f64) {
    let mut information = problem.information(slope);
    for (j, row) in information.iter_mut().enumerate() {
        row[j] += problem.prior_information();
    }
    // A parameter that the prior determines takes no degree of freedom.
    let count = best.at.len();
    let determined = inverse(&information).map_or(count as f64, |covariance| {
        (0..count).map(|j| 1.0 - covariance[j][j] * problem.prior_information()).sum()
    });
    let degrees = (problem.observations() - determined).max(1.0);
    ((problem.misfit(best) / degrees).sqrt(), degrees)
}

/// Estimates of all parameters with their intervals.
pub(crate) struct Intervals {
    pub(crate) estimates: Vec<Estimate>,
    pub(crate) combinations: Vec<Combination>,
    /// Point with the lowest cost that the search for the intervals has met: the best point of the refinement, or a
    /// better one that it missed.
    pub(crate) better: Point,
}

/// Estimates all parameters with their intervals, and finds the combinations.
pub(crate) fn estimates(
    problem: &Problem<'_>,
    best: &Point,
    slope: &Slope,
) -> Result<Intervals, FitError> {
    let (scale, degrees) = scale(problem, best, slope);
    let scale = scale.max(SCALE_MIN);
    // Printed figures state their errors; those of measured cells are estimated.
    let t = if are_printed(problem.cells) {
        normal_quantile(0.975)
    } else {
        student_quantile(0.975, degrees)
    };
    let mut information = problem.information(slope);
    for (j, row) in information.iter_mut().enumerate() {
        for x in row.iter_mut() {
            *x /= scale * scale;
        }
        row[j] += problem.prior_information();
    }
    let covariance = inverse(&information).ok_or_else(|| {
        FitError::Start(
            "the cells give no information: measure more of them, or each for longer".to_owned(),
        )
    })?;
    let half: Vec<f64> = (0..best.at.len()).map(|j| t * covariance[j][j].max(0.0).sqrt()).collect();
    let (sides, better) = profiles(problem, best, slope, &half, scale, t)?;
    let mut all = Vec::new();
    for (j, parameter) in problem.parameters.iter().enumerate() {
        let (low, high) = parameter.at_least_one_step(best.at[j], sides[j]);
        let widest = low.max(high);
        let known = match widest {
            w if w <= IDENTIFIED => Known::Identified,
            w if w <= WEAK => Known::Roughly,
            _ => Known::NotIdentified,
        };
        all.push(Estimate {
            parameter: *parameter,
            start: problem.start[j].exp(),
            value: best.at[j].exp(),
            interval: (
                (best.at[j] - low).exp().max(parameter.bounds.0),
                (best.at[j] + high).exp().min(parameter.bounds.1),
            ),
            known,
            is_of_device: false,
            from: cells_of(problem, &slope.of[j]),
        });
    }
    let unknown: Vec<usize> = (0..all.len()).filter(|j| half[*j] > WEAK).collect();
    let combinations = combinations(problem, &covariance, &unknown, t);
    Ok(Intervals { estimates: all, combinations, better })
}

/// Misfit above which a point agrees significantly less well with the cells than `best`.
fn misfit_max(problem: &Problem<'_>, best: &Point, scale: f64, t: f64) -> Result<f64, FitError> {
    Ok(problem.misfit(best) + problem.luck(best)?.mean + (t * scale).powi(2))
}

/// Gives unidentified parameters the values of the device that the fit started from, unless the misfit then grows too
/// much. Returns the logarithms of all parameters.
pub(crate) fn like_device(
    problem: &Problem<'_>,
    best: &Point,
    estimates: &mut [Estimate],
    of_device: &[f64],
    scale: f64,
) -> Result<Vec<f64>, FitError> {
    let most = misfit_max(problem, best, scale.max(SCALE_MIN), 2.0)?;
    let mut at = best.at.clone();
    for (j, estimate) in estimates.iter_mut().enumerate() {
        if estimate.known != Known::NotIdentified {
            continue;
        }
        let mut tried = at.clone();
        tried[j] = of_device[j];
        if problem.misfit(&problem.point(&tried)?) <= most {
            at = tried;
            estimate.value = of_device[j].exp();
            estimate.is_of_device = true;
        }
    }
    Ok(at)
}

/// One end of a parameter's interval during the search for it.
struct Side {
    parameter: usize,
    /// -1 for the lower end, 1 for the upper one.
    sign: f64,
    /// Distance from the best value, as a difference of logarithms.
    distance: f64,
    is_found: bool,
}

/// Distances from each parameter's value to the lower and upper end of its interval, as differences of logarithms. At
/// an end, with the other parameters adjusted, the misfit has grown by (t × scale)². The search begins at the ends of
/// the linear model and goes farther while the misfit hardly grows: a rate limit that no cell reaches has only a lower
/// end. [`UNBOUNDED`] means that there is no end. Also returns the point with the lowest cost that was found.
fn profiles(
    problem: &Problem<'_>,
    best: &Point,
    slope: &Slope,
    half: &[f64],
    scale: f64,
    t: f64,
) -> Result<(Vec<(f64, f64)>, Point), FitError> {
    let mut sides: Vec<Side> = half
        .iter()
        .enumerate()
        .flat_map(|(parameter, half)| {
            let (distance, is_found) = (half.clamp(0.002, UNBOUNDED), *half > WEAK);
            [-1.0, 1.0].map(|sign| Side { parameter, sign, distance, is_found })
        })
        .collect();
    // The minimised cost is partly luck: with other random numbers it is larger by this much.
    let luck = problem.luck(best)?;
    let least = problem.cost(best) + luck.mean;
    let mut better = best.clone();
    for _ in 0..ROUNDS_MAX {
        let open: Vec<usize> = (0..sides.len()).filter(|i| !sides[*i].is_found).collect();
        if open.is_empty() {
            break;
        }
        let ways = |i: &usize| {
            let side = &sides[*i];
            [
                alone(problem, best, side),
                problem.compensated(best, slope, side.parameter, side.sign * side.distance),
            ]
        };
        let at: Vec<Vec<f64>> = open.iter().flat_map(ways).collect();
        let mut points = problem.points(&at)?;
        let mut ends = Vec::new();
        while let (Some(compensated), Some(alone)) = (points.pop(), points.pop()) {
            // Where a limit begins to bind, the linear model is wrong on one side: there, moving the parameter has no
            // effect for which others must compensate.
            ends.push(if problem.cost(&alone) < problem.cost(&compensated) {
                alone
            } else {
                compensated
            });
        }
        ends.reverse();
        for _ in 0..ADJUSTMENTS {
            let both = || ends.iter().zip(&open);
            let adjusted =
                |(end, i): (&Point, &usize)| problem.adjusted(end, slope, sides[*i].parameter);
            let tried = problem.points(&both().map(adjusted).collect::<Vec<_>>())?;
            for (end, tried) in ends.iter_mut().zip(tried) {
                if problem.cost(&tried) < problem.cost(end) {
                    *end = tried;
                }
            }
        }
        for (i, end) in open.into_iter().zip(ends) {
            let grown = (problem.cost(&end) - least) / (scale * scale);
            if problem.cost(&end) < problem.cost(&better) {
                better = end;
            }
            let side = &mut sides[i];
            let linear = half[side.parameter];
            // A parameter without effect on this side must not seem to have one by chance.
            if grown >= GROWN_MIN * t * t + luck.deviation / (scale * scale) {
                // Chance can make an end seem too near, so the linear model's distance is the minimum.
                side.distance = (side.distance * t / grown.sqrt()).max(linear);
                side.is_found = true;
            } else {
                side.distance *= FARTHER;
                side.is_found = side.distance >= UNBOUNDED;
            }
        }
    }
    for side in sides.iter_mut().filter(|side| !side.is_found) {
        side.distance = UNBOUNDED;
    }
    let end = |side: &Side| side.distance.min(UNBOUNDED);
    Ok((sides.chunks(2).map(|both| (end(&both[0]), end(&both[1]))).collect(), better))
}

/// The best parameters with one of them moved to the end that is tried.
fn alone(problem: &Problem<'_>, best: &Point, side: &Side) -> Vec<f64> {
    let mut at = best.at.clone();
    at[side.parameter] += side.sign * side.distance;
    problem.bounded(&mut at);
    at
}

/// Names of the cells whose statistics depend most on a parameter, at most three.
fn cells_of(problem: &Problem<'_>, slope: &[f64]) -> Vec<String> {
    let mut by_cell = vec![0.0; problem.cells.len()];
    for ((of, weight), slope) in problem.statistics.iter().zip(&problem.weights).zip(slope) {
        by_cell[of.cell] += weight * slope * slope;
    }
    let all: f64 = by_cell.iter().sum();
    let mut order: Vec<usize> = (0..by_cell.len()).filter(|i| by_cell[*i] > 0.1 * all).collect();
    order.sort_by(|a, b| by_cell[*b].total_cmp(&by_cell[*a]));
    order.into_iter().take(3).map(|i| problem.cells[i].name.clone()).collect()
}

/// Finds products of powers of parameters that are known to 10 % although no single parameter is. `of`: indices of the
/// parameters. The products are directions in which the covariance of the logarithms is small.
fn combinations(
    problem: &Problem<'_>,
    covariance: &[Vec<f64>],
    of: &[usize],
    t: f64,
) -> Vec<Combination> {
    let part = of.iter().map(|&i| of.iter().map(|&j| covariance[i][j]).collect()).collect();
    let mut found = Vec::new();
    for (variance, direction) in eigen(&part) {
        let most = direction.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let Some(most) = most else { continue };
        let mut factors: Vec<(&'static str, f64)> = of
            .iter()
            .zip(&direction)
            .map(|(&j, x)| (problem.parameters[j].key, x / most))
            .filter(|(_, x)| x.abs() >= SHARE_MIN)
            .collect();
        factors.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        // The exponents that are not printed count too.
        let dropped: f64 = of
            .iter()
            .zip(&direction)
            .filter(|(_, x)| (*x / most).abs() < SHARE_MIN)
            .map(|(&j, x)| (x / most).powi(2) * covariance[j][j])
            .sum();
        let half_width = t * (variance.max(0.0) / (most * most) + dropped).sqrt();
        if factors.len() > 1 && half_width <= COMBINED {
            found.push(Combination { factors, half_width });
        }
    }
    found
}
