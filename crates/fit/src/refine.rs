//! The joint refinement: finds the parameters whose simulated statistics are nearest to the measured ones (simulated
//! moments, Levenberg-Marquardt on logarithms). All simulations have the same seed, so differences between them are due
//! to the parameters alone.

use crate::matrix::{Symmetric, solve};
use crate::parameter::{Parameter, Unit};
use crate::simulate::Bench;
use crate::statistic::{Statistic, simulated_ns, simulation_error, statistics};
use crate::{FitError, Measured, are_printed};
use iodyno_drive::parallel;
use iodyno_measure::statistics::describe;
use std::collections::BTreeMap;

/// Prior standard deviation of a parameter's logarithm around its start, for measured cells: a factor of 2.7. Matters
/// only for parameters that the cells do not determine.
const PRIOR: f64 = 1.0;
/// Prior standard deviation for printed figures, which are fewer than the parameters: those without a figure stay near
/// the device that the fit starts from.
const PRIOR_PRINTED: f64 = 0.5;
/// Half-width of the difference in a numeric derivative, in units of a parameter's logarithm.
const STEP: f64 = 0.08;
/// Number of other seeds with which a minimum is simulated again, to estimate how much of its low cost is chance.
const OTHERS: u64 = 4;
/// Largest change of a parameter's logarithm in one iteration.
const MOVE_MAX: f64 = 1.0;
/// Smallest factor by which a step changes a time, or the reciprocal of a rate.
const SHRINK_MIN: f64 = 0.3;
/// Factors by which each parameter is moved alone to leave a local minimum.
const SCANNED: [f64; 4] = [0.4, 0.7, 1.5, 2.5];
/// Maximum number of rounds of moves by [`SCANNED`], and number of points that are refined in each round.
const SCANS_MAX: usize = 2;
const SCANS_REFINED: usize = 2;
/// Maximum number of iterations that refine a point found by [`SCANNED`].
const SCAN_ITERATIONS: usize = 3;
/// Cost per observation below which the residuals count as no larger than their errors.
const SETTLED: f64 = 1.5;
/// Default relative discrepancy between a device and its model; see [`Problem::estimate_discrepancy`].
const DISCREPANCY: f64 = 0.004;
/// Halvings of the range in which the discrepancy is searched.
const BISECTIONS: u32 = 20;
/// Damping of a step above which a refinement gives up.
const DAMPING_MAX: f64 = 1e4;

/// A least-squares problem: statistics of measured cells, and a device whose parameters shall reproduce them.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) cells: &'a [Measured],
    pub(crate) parameters: &'a [Parameter],
    /// Measured statistics. The error of each combines those of measurement, simulation and discrepancy.
    pub(crate) statistics: Vec<Statistic>,
    /// Relative standard errors of measurement and simulation, for each statistic.
    sampling: Vec<f64>,
    /// Relative standard error that each statistic has because no device behaves exactly like its model.
    discrepancy: f64,
    /// Logarithms of the start values.
    pub(crate) start: Vec<f64>,
    /// Operations of each simulated cell.
    pub(crate) ops: u64,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Weight of each statistic. The weights for one kind of operation in one cell add up to 1.
    pub(crate) weights: Vec<f64>,
}

/// The result of simulating all cells with given parameters.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Logarithms of the parameters.
    pub(crate) at: Vec<f64>,
    /// Logarithm of simulated over measured value, in standard errors, for each statistic.
    pub(crate) residuals: Vec<f64>,
}

/// Dependence of a point's cost on the random numbers of its simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Luck {
    /// Mean cost with other random numbers minus the cost that was minimised; at least 0.
    pub(crate) mean: f64,
    /// Standard deviation of the cost with other random numbers.
    pub(crate) deviation: f64,
}

/// Derivatives of the residuals with respect to the parameters, at a point.
#[derive(Clone, Debug)]
pub(crate) struct Slope {
    /// Derivatives by parameter, then by statistic.
    pub(crate) of: Vec<Vec<f64>>,
    /// One-sided derivatives by parameter, below and above the point, then by statistic. They differ where a limit begins
    /// to bind.
    sides: Vec<[Vec<f64>; 2]>,
}

impl<'a> Problem<'a> {
    /// Selects the statistics that measurement and simulation both have. `at` holds the logarithms of the simulated
    /// parameters; `None` takes the start.
    pub(crate) fn new(
        bench: &'a Bench,
        cells: &'a [Measured],
        parameters: &'a [Parameter],
        start: &[f64],
        at: Option<&[f64]>,
        ops: u64,
        seed: u64,
    ) -> Result<Self, FitError> {
        let start: Vec<f64> = start.iter().map(|value| value.ln()).collect();
        let mut problem = Self {
            bench,
            cells,
            parameters,
            statistics: Vec::new(),
            sampling: Vec::new(),
            discrepancy: 0.0,
            start,
            ops,
            seed,
            threads: parallel::processors(),
            weights: Vec::new(),
        };
        let simulated = problem.simulate(at.unwrap_or(&problem.start), seed)?;
        for (number, (measured, simulated)) in cells.iter().zip(&simulated).enumerate() {
            let simulated = statistics(number, simulated);
            let both = |of: Statistic| {
                let error = of.error.hypot(simulation_error(&of, &simulated)?);
                Some(Statistic { error, ..of })
            };
            problem.statistics.extend(measured.observed.numbered(number).filter_map(both));
        }
        problem.sampling = problem.statistics.iter().map(|of| of.error).collect();
        problem.set_discrepancy(DISCREPANCY);
        let mut group = BTreeMap::new();
        for of in &problem.statistics {
            *group.entry((of.cell, of.kind.index())).or_insert(0.0) += 1.0;
        }
        let weight = |of: &Statistic| 1.0 / group[&(of.cell, of.kind.index())];
        problem.weights = problem.statistics.iter().map(weight).collect();
        Ok(problem)
    }

    /// Reciprocal of the prior variance of a parameter's logarithm.
    pub(crate) fn prior_information(&self) -> f64 {
        let deviation = if are_printed(self.cells) { PRIOR_PRINTED } else { PRIOR };
        1.0 / (deviation * deviation)
    }

    fn set_discrepancy(&mut self, discrepancy: f64) {
        self.discrepancy = discrepancy;
        for (of, sampling) in self.statistics.iter_mut().zip(&self.sampling) {
            of.error = sampling.hypot(discrepancy);
        }
    }

    /// Lowers the discrepancy from its default to the value at which the residuals of `best` are as large as their
    /// errors, with `degrees` degrees of freedom. Returns whether the discrepancy became lower.
    pub(crate) fn estimate_discrepancy(&mut self, best: &Point, degrees: f64) -> bool {
        let ratios: Vec<f64> =
            best.residuals.iter().zip(&self.statistics).map(|(r, of)| r * of.error).collect();
        let misfit = |discrepancy: f64| -> f64 {
            let terms = ratios.iter().zip(&self.sampling).zip(&self.weights);
            terms.map(|((r, s), w)| w * (r / s.hypot(discrepancy)).powi(2)).sum()
        };
        let (mut low, mut high) = (0.0, self.discrepancy);
        if misfit(high) >= degrees {
            return false;
        }
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            *(if misfit(middle) > degrees { &mut low } else { &mut high }) = middle;
        }
        self.set_discrepancy(high);
        true
    }

    /// Number of observations: pairs of a cell and a kind of operation.
    pub(crate) fn observations(&self) -> f64 {
        self.weights.iter().sum()
    }

    fn simulate(&self, at: &[f64], seed: u64) -> Result<Vec<iodyno_measure::Cell>, FitError> {
        let values: Vec<f64> = at.iter().map(|x| x.exp()).collect();
        let bench = self.bench.with(self.parameters, &values);
        // Cells with the same random numbers would err together, and the parameters would absorb it.
        let seeds = (0..).map(|number: u64| seed.wrapping_add(number << 16));
        let cells = self.cells.iter().zip(seeds);
        cells.map(|(cell, seed)| bench.simulate(cell, self.ops, seed)).collect()
    }

    /// Simulates all cells with each set of parameters in `at`, in parallel.
    pub(crate) fn points(&self, at: &[Vec<f64>]) -> Result<Vec<Point>, FitError> {
        let ((), done) = parallel::at_once(self.threads, at, |at| self.point(at), || ());
        done.into_iter().flatten().collect()
    }

    /// Simulates all cells with the parameters whose logarithms are `at`.
    pub(crate) fn point(&self, at: &[f64]) -> Result<Point, FitError> {
        self.point_of(at, self.seed)
    }

    /// Growth of the cost of `best` when simulated with [`OTHERS`] other seeds.
    pub(crate) fn luck(&self, best: &Point) -> Result<Luck, FitError> {
        let seeds: Vec<u64> = (1..=OTHERS).map(|n| self.seed.wrapping_add(n << 32)).collect();
        let work = |seed: &u64| self.point_of(&best.at, *seed);
        let ((), done) = parallel::at_once(self.threads, &seeds, work, || ());
        let mut costs = Vec::new();
        for point in done.into_iter().flatten() {
            costs.push(self.cost(&point?));
        }
        let mean = (describe::mean(&costs) - self.cost(best)).max(0.0);
        Ok(Luck { mean, deviation: describe::deviation(&costs) })
    }

    fn point_of(&self, at: &[f64], seed: u64) -> Result<Point, FitError> {
        let simulated = self.simulate(at, seed)?;
        let residual = |of: &Statistic| {
            simulated_ns(of, &simulated[of.cell])
                .map_or(1.0 / of.error, |ns| (ns / of.value_ns).ln() / of.error)
        };
        Ok(Point { at: at.to_vec(), residuals: self.statistics.iter().map(residual).collect() })
    }

    /// Sum of the weighted squares of the residuals.
    pub(crate) fn misfit(&self, point: &Point) -> f64 {
        self.weights.iter().zip(&point.residuals).map(|(w, r)| w * r * r).sum()
    }

    /// The misfit plus the squared distances of the parameters from the start, in units of the prior's
    /// standard deviation.
    pub(crate) fn cost(&self, point: &Point) -> f64 {
        let from_start = point.at.iter().zip(&self.start).map(|(x, s)| (x - s).powi(2));
        self.misfit(point) + from_start.sum::<f64>() * self.prior_information()
    }

    /// Derivatives at a point, by central differences.
    pub(crate) fn slope(&self, point: &Point) -> Result<Slope, FitError> {
        let moved = |j: usize, by: f64| {
            let mut at = point.at.clone();
            at[j] += by;
            self.bounded(&mut at);
            at
        };
        let count = point.at.len();
        let at: Vec<Vec<f64>> =
            (0..count).flat_map(|j| [moved(j, -STEP), moved(j, STEP)]).collect();
        let points = self.points(&at)?;
        let between = |j: usize, low: &Point, high: &Point| -> Vec<f64> {
            let width = (high.at[j] - low.at[j]).max(STEP / 10.0);
            let both = low.residuals.iter().zip(&high.residuals);
            both.map(|(low, high)| (high - low) / width).collect()
        };
        let pairs = || points.chunks(2).enumerate();
        let of = pairs().map(|(j, pair)| between(j, &pair[0], &pair[1])).collect();
        let sides =
            pairs().map(|(j, pair)| [between(j, &pair[0], point), between(j, point, &pair[1])]);
        Ok(Slope { of, sides: sides.collect() })
    }

    /// Fisher information of the statistics about each pair of parameters, without the prior.
    pub(crate) fn information(&self, slope: &Slope) -> Symmetric {
        let dot = |a: &[f64], b: &[f64]| {
            self.weights.iter().zip(a.iter().zip(b)).map(|(w, (a, b))| w * a * b).sum::<f64>()
        };
        slope.of.iter().map(|a| slope.of.iter().map(|b| dot(a, b)).collect()).collect()
    }

    /// The step to the minimum of the linear model at a point, with `damping` (Marquardt's, relative to the diagonal).
    /// Parameter `fixed` keeps its value. `None` if the equations can't be solved.
    pub(crate) fn step(
        &self,
        point: &Point,
        slope: &Slope,
        damping: f64,
        fixed: Option<usize>,
    ) -> Option<Vec<f64>> {
        let free: Vec<usize> = (0..point.at.len()).filter(|j| Some(*j) != fixed).collect();
        let all = self.information(slope);
        let prior = self.prior_information();
        let mut a: Symmetric =
            free.iter().map(|&i| free.iter().map(|&j| all[i][j]).collect()).collect();
        for (k, row) in a.iter_mut().enumerate() {
            row[k] = (row[k] + prior) * (1.0 + damping);
        }
        let b: Vec<f64> = free
            .iter()
            .map(|&j| {
                let terms = self.weights.iter().zip(slope.of[j].iter().zip(&point.residuals));
                let down = terms.map(|(w, (s, r))| w * s * r).sum::<f64>();
                -down - prior * (point.at[j] - self.start[j])
            })
            .collect();
        let found = solve(&a, &b)?;
        let mut step = vec![0.0; point.at.len()];
        for (&j, by) in free.iter().zip(found) {
            step[j] = by.clamp(-MOVE_MAX, MOVE_MAX);
        }
        Some(step)
    }

    /// Moves each logarithm into the bounds of its parameter.
    pub(crate) fn bounded(&self, at: &mut [f64]) {
        for (x, parameter) in at.iter_mut().zip(self.parameters) {
            *x = x.clamp(parameter.bounds.0.ln(), parameter.bounds.1.ln());
        }
    }

    /// Leaves a local minimum: moves each parameter alone by the factors [`SCANNED`] and refines the best of these
    /// points. Ends when the residuals are as small as their errors, or when no better point is found.
    pub(crate) fn search(&self, mut best: Point, iterations: usize) -> Result<Point, FitError> {
        best = self.refine(best, iterations)?;
        for _ in 0..SCANS_MAX {
            let before = self.cost(&best);
            if before < self.observations() * SETTLED {
                break;
            }
            let moved = |(j, factor): (usize, f64)| {
                let mut at = best.at.clone();
                at[j] += factor.ln();
                self.bounded(&mut at);
                at
            };
            let each = (0..best.at.len()).flat_map(|j| SCANNED.map(|factor| (j, factor)));
            let mut tried = self.points(&each.map(moved).collect::<Vec<_>>())?;
            // A point that is no better may lead to a better one: the best few are refined.
            tried.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
            for point in tried.into_iter().take(SCANS_REFINED) {
                let point = self.refine(point, SCAN_ITERATIONS)?;
                if self.cost(&point) < self.cost(&best) {
                    best = point;
                }
            }
            if self.cost(&best) > before * 0.9 {
                break;
            }
        }
        Ok(best)
    }

    /// Logarithms of the parameters of `point` with one of them moved, and the others adjusted by the linear model to
    /// compensate. The model is linear in the times of operations, not in their logarithms.
    pub(crate) fn compensated(
        &self,
        point: &Point,
        slope: &Slope,
        parameter: usize,
        by: f64,
    ) -> Vec<f64> {
        let mut moved = point.clone();
        moved.at[parameter] += by;
        let effect = match self.parameters[parameter].unit {
            Unit::BytesPerS | Unit::OpsPerS | Unit::Rpm => 1.0 - (-by).exp(),
            Unit::Ns => by.exp() - 1.0,
            Unit::Share => by,
        };
        let side = &slope.sides[parameter][usize::from(by > 0.0)];
        for (residual, slope) in moved.residuals.iter_mut().zip(side) {
            *residual += effect * slope;
        }
        self.adjusted(&moved, slope, parameter)
    }

    /// Logarithms of the parameters of `point`, with all but `fixed` adjusted by the linear model to the point's
    /// residuals.
    pub(crate) fn adjusted(&self, point: &Point, slope: &Slope, fixed: usize) -> Vec<f64> {
        let step = self.step(point, slope, 0.0, Some(fixed));
        step.map_or_else(|| point.at.clone(), |step| self.moved(&point.at, &step))
    }

    /// Logarithms of the parameters after a step of the linear model. The step is applied to times and to reciprocals
    /// of rates, not to their logarithms. Latencies are sums of times, so a step that lengthens one time and shortens
    /// another by the same amount then leaves them unchanged.
    fn moved(&self, at: &[f64], step: &[f64]) -> Vec<f64> {
        let each = at.iter().zip(step).zip(self.parameters);
        let moved = each.map(|((x, by), parameter)| match parameter.unit {
            Unit::Ns => x + (1.0 + by).max(SHRINK_MIN).ln(),
            Unit::BytesPerS | Unit::OpsPerS | Unit::Rpm => x - (1.0 - by).max(SHRINK_MIN).ln(),
            Unit::Share => x + by,
        });
        let mut moved: Vec<f64> = moved.collect();
        self.bounded(&mut moved);
        moved
    }

    /// Improves a point until an iteration lowers the cost by less than 1 %, for at most `iterations`.
    pub(crate) fn refine(&self, mut best: Point, iterations: usize) -> Result<Point, FitError> {
        let mut damping = 0.01;
        for _ in 0..iterations {
            let slope = self.slope(&best)?;
            let before = self.cost(&best);
            let mut improved = false;
            while damping < DAMPING_MAX {
                // Two dampings at a time, one for each processor of a small machine.
                let dampings = [damping, damping * 10.0];
                let steps = dampings.iter().filter_map(|d| self.step(&best, &slope, *d, None));
                let at = steps.map(|step| self.moved(&best.at, &step));
                let tried = self.points(&at.collect::<Vec<_>>())?;
                let least = tried.into_iter().min_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
                match least {
                    Some(point) if self.cost(&point) < before => {
                        best = point;
                        damping = (damping / 5.0).max(1e-6);
                        improved = true;
                        break;
                    }
                    _ => damping *= 100.0,
                }
            }
            if !improved || self.cost(&best) > before * 0.99 {
                break;
            }
        }
        Ok(best)
    }
}
