//! Fits the parameters of an emulated device to measured cells. The fitted device, called the twin of the measured one,
//! predicts cells that were not measured. Each parameter has an interval or is reported as unidentified. Held-out
//! cells, which are measured but not fitted to, score the result.
//!
//! `refine.rs` simulates the measured cells on the emulator and adjusts the parameters until the latencies agree.
//! `interval.rs` finds which parameters the cells determine, and how well.

#![forbid(unsafe_code)]

pub mod answer;
mod device_file;
mod figures;
mod interval;
mod matrix;
mod parameter;
mod probe;
mod refine;
mod score;
mod simulate;
mod start;
mod statistic;

pub use device_file::device_file;
pub use figures::PrintedFigures;
use interval::Intervals;
pub use interval::{Combination, Estimate, IDENTIFIED, Known};
use iodyno_emulate::spec::{Device, Kind};
use iodyno_units::Precondition;
use iodyno_workload::Spec;
pub use parameter::{Parameter, Unit, parameters};
pub use probe::{
    CONDITIONING, Family, HELD_OUT, Probe, limit_writes, precondition, probes, steady_probes,
};
use refine::{Point, Problem};
pub use score::{Prediction, median_error};
use simulate::Bench;
pub use statistic::{Figure, Observed, Statistic};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Number of operations of each simulated cell while the parameters are far from the solution.
const OPS_COARSE: u64 = 1500;
/// Number of operations of each simulated cell near the solution: for an SSD, which is slow to simulate, and for other
/// devices.
const OPS_FINE: (u64, u64) = (16000, 24000);
/// Maximum number of iterations far from the solution, near it, and after the discrepancy has been estimated.
const ITERATIONS: (usize, usize, usize) = (10, 4, 2);
/// Threshold of [`Fitted::scale`]. A fit above it is a misfit: no device of the family behaves as measured.
pub const MISFIT: f64 = 8.0;

/// Error of a fit: unusable input, an interruption, or a workload that can't be simulated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FitError {
    /// The start device or the measured cells can't be used.
    #[error("{0}")]
    Start(String),
    /// [`Start::stop`] was set.
    #[error("the fit was interrupted")]
    Interrupted,
    /// The emulator can't simulate a measured workload.
    #[error("{cell} can't be simulated: {why}")]
    Simulation {
        /// Name of the cell.
        cell: String,
        /// Error message of the emulator.
        why: String,
    },
}

/// Measured or published results of one workload. A fit uses them, or is scored by them.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name under which messages and results show this workload.
    pub name: String,
    /// Workload that was measured and will be simulated.
    pub spec: Spec,
    /// State of the emulated device before it runs the workload. [`Precondition::Workload`] means the state given in
    /// [`Start::target`].
    pub precondition: Precondition,
    /// Measured or published results.
    pub observed: Observed,
}

/// Whether all cells are published figures, rather than measured.
pub(crate) fn are_printed(cells: &[Measured]) -> bool {
    cells.iter().all(|cell| cell.observed.window_ns.is_none())
}

/// The device that a fit starts from, and the settings of the simulations.
#[derive(Clone, Debug)]
pub struct Start {
    /// Name of the emulated target whose device gives the structure and the first values, such as
    /// `model:nvme-tlc-3840g?state=sequential`.
    pub target: String,
    /// Capacity of the measured target, bytes; `None` keeps the capacity of the start device.
    pub capacity_bytes: Option<u64>,
    /// Seed of the random streams of all simulations.
    pub seed: u64,
    /// Set by the caller to stop the fit, which then fails with [`FitError::Interrupted`].
    pub stop: Arc<AtomicBool>,
}

/// Difference between the simulated and the measured value of one statistic.
#[derive(Clone, Copy, Debug)]
pub struct Residual {
    /// The compared statistic, with its measured value.
    pub of: Statistic,
    /// Natural logarithm of the simulated value divided by the measured one.
    pub log_ratio: f64,
}

/// A fitted device, the uncertainty of its parameters, and its prediction errors.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The emulated device with the fitted parameter values.
    pub device: Device,
    /// All fitted parameters, identified or not, with their intervals.
    pub estimates: Vec<Estimate>,
    /// Products of powers of parameters. The measurements determine each product, but not the parameters in it one by
    /// one.
    pub combinations: Vec<Combination>,
    /// Remaining differences between the fitted device and the measurement, one for each statistic.
    pub residuals: Vec<Residual>,
    /// Root mean square of the residuals, in standard errors; 1 is ideal. Excludes steady-state cells if they determine
    /// only the spare capacity (see [`fit`]).
    pub scale: f64,
    /// Predictions for the held-out cells, which the fit did not use.
    pub held_out: Vec<Prediction>,
}

impl Fitted {
    /// Whether [`Self::scale`] exceeds [`MISFIT`]. If so, no device of this family behaves as measured.
    pub fn is_misfit(&self) -> bool {
        self.scale > MISFIT
    }

    /// Whether the twin is not worth using: its median error for the mean latencies of held-out cells is above 10 %,
    /// and the nearest measured cells predict these latencies better. False with fewer than four such latencies.
    pub fn is_worthless(&self) -> bool {
        score::is_worthless(&self.held_out)
    }

    /// Estimate of the parameter `key`, such as `nand.read`; `None` if it was not fitted.
    pub fn estimate(&self, key: &str) -> Option<&Estimate> {
        self.estimates.iter().find(|estimate| estimate.parameter.key == key)
    }
}

/// The intervals are computed again if their search has met a point whose cost is below this fraction of the best one's.
const BETTER_POINT: f64 = 0.95;
/// A later structure replaces an earlier one only if its misfit is below this fraction of the earlier one's.
const BETTER: f64 = 0.8;

/// The best of several fits that started from different devices of the catalog.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Index of the chosen start in the list of starts.
    pub index: usize,
    /// Result of the full fit, which runs from the chosen start only.
    pub fitted: Fitted,
    /// For every other start that can be fitted: its index, and its misfit divided by the misfit of the chosen start.
    pub others: Vec<(usize, f64)>,
}

/// Fits each of `starts` roughly, then the best of them fully ([`fit`]). The starts differ in structure. A later start
/// is chosen only if it is clearly better than all earlier ones. Starts that can't be fitted are skipped if another
/// can.
///
/// # Errors
/// If no start can be fitted, the error of the first one.
pub fn fit_structures(
    starts: &[Start],
    cells: &[Measured],
    held_out: &[Measured],
) -> Result<Chosen, FitError> {
    let mut all: Vec<(usize, f64)> = Vec::new();
    if let [_, _, ..] = starts {
        for (index, start) in starts.iter().enumerate() {
            match near(start, cells) {
                // A misfit below 1 is chance: a structure with more parameters is no better for it.
                Ok(scale) => {
                    let scale = scale.max(1.0);
                    let is_best = all.first().is_none_or(|best| scale < best.1 * BETTER);
                    all.insert(if is_best { 0 } else { all.len() }, (index, scale));
                }
                Err(FitError::Interrupted) => return Err(FitError::Interrupted),
                Err(_) => {}
            }
        }
    }
    let (index, least) = all.first().copied().unwrap_or((0, 1.0));
    let fitted = fit(&starts[index], cells, held_out)?;
    let others = all.iter().skip(1).map(|(other, scale)| (*other, scale / least)).collect();
    Ok(Chosen { index, fitted, others })
}

/// Misfit of a structure near its best parameters, in standard errors.
fn near(start: &Start, cells: &[Measured]) -> Result<f64, FitError> {
    let bench = Bench::new(start, cells)?;
    let parameters = parameters(bench.device(), bench.is_steady(cells));
    let first = start::values(&parameters, bench.device(), cells);
    let coarse = Problem::new(&bench, cells, &parameters, &first, None, OPS_COARSE, start.seed)?;
    let near = coarse.search(coarse.point(&coarse.start)?, ITERATIONS.0)?;
    let slope = coarse.slope(&near)?;
    Ok(interval::scale(&coarse, &near, &slope).0)
}

/// Fits the device of `start` to `cells`, and predicts `held_out` with it. If some measured cells are in the steady
/// state of random writes and others are not, the steady-state cells determine only the spare capacity: they are the
/// noisiest, and depend on all parameters.
///
/// # Errors
/// See [`FitError`].
pub fn fit(start: &Start, cells: &[Measured], held_out: &[Measured]) -> Result<Fitted, FitError> {
    let bench = Bench::new(start, cells)?;
    let is_steady = |number: &usize| bench.is_steady(&cells[*number..=*number]);
    let (steady, others): (Vec<usize>, Vec<usize>) = (0..cells.len()).partition(is_steady);
    if are_printed(cells) || steady.is_empty() || others.is_empty() {
        let parameters = parameters(bench.device(), !steady.is_empty());
        let part = estimate(&bench, cells, &parameters, start.seed)?;
        return part.predicting(cells, held_out, start.seed);
    }
    let of = |numbers: &[usize]| numbers.iter().map(|n| cells[*n].clone()).collect::<Vec<_>>();
    let all = parameters(bench.device(), true);
    let (others_only, spare): (Vec<Parameter>, Vec<Parameter>) =
        all.into_iter().partition(|parameter| parameter.key != parameter::SPARE);
    let mut part = estimate(&bench, &of(&others), &others_only, start.seed)?.numbered(&others);
    if !spare.is_empty() {
        let second = estimate(&part.twin, &of(&steady), &spare, start.seed)?.numbered(&steady);
        part.twin = second.twin;
        part.estimates.extend(second.estimates);
        part.residuals.extend(second.residuals);
    }
    part.predicting(cells, held_out, start.seed)
}

/// Result of a fit before its predictions.
struct Part {
    twin: Bench,
    estimates: Vec<Estimate>,
    combinations: Vec<Combination>,
    residuals: Vec<Residual>,
    scale: f64,
}

impl Part {
    /// Replaces the cell index `i` of each residual by `numbers[i]`.
    fn numbered(mut self, numbers: &[usize]) -> Self {
        for residual in &mut self.residuals {
            residual.of.cell = numbers[residual.of.cell];
        }
        self
    }

    fn predicting(
        self,
        cells: &[Measured],
        held_out: &[Measured],
        seed: u64,
    ) -> Result<Fitted, FitError> {
        Ok(Fitted {
            device: self.twin.device().clone(),
            held_out: score::predict(&self.twin, cells, held_out, seed)?,
            estimates: self.estimates,
            combinations: self.combinations,
            residuals: self.residuals,
            scale: self.scale,
        })
    }
}

/// Start values, and the best point that short simulations find from them.
fn coarse(
    bench: &Bench,
    cells: &[Measured],
    parameters: &[Parameter],
    seed: u64,
) -> Result<(Vec<f64>, Point), FitError> {
    let mut best: Option<(f64, Vec<f64>, Point)> = None;
    for first in start::candidates(parameters, bench.device(), cells) {
        let coarse = Problem::new(bench, cells, parameters, &first, None, OPS_COARSE, seed)?;
        if coarse.statistics.is_empty() {
            return Err(FitError::Start(
                "no cell has enough operations to fit to: measure each for longer".to_owned(),
            ));
        }
        let near = coarse.search(coarse.point(&coarse.start)?, ITERATIONS.0)?;
        let cost = coarse.cost(&near);
        if best.as_ref().is_none_or(|best| cost < best.0) {
            best = Some((cost, first, near));
        }
    }
    let Some((_, first, near)) = best else { unreachable!("there is a start") };
    Ok((first, near))
}

/// Fits `parameters` of the bench's device to `cells`, without predictions.
fn estimate(
    bench: &Bench,
    cells: &[Measured],
    parameters: &[Parameter],
    seed: u64,
) -> Result<Part, FitError> {
    let device = bench.device();
    let (first, near) = coarse(bench, cells, parameters, seed)?;
    let is_slow = matches!(device.kind, Kind::Flash(_)) && !are_printed(cells);
    let ops = if is_slow { OPS_FINE.0 } else { OPS_FINE.1 };
    let mut fine = Problem::new(bench, cells, parameters, &first, Some(&near.at), ops, seed)?;
    let mut best = fine.refine(fine.point(&near.at)?, ITERATIONS.1)?;
    let mut slope = fine.slope(&best)?;
    let (_, degrees) = interval::scale(&fine, &best, &slope);
    if fine.estimate_discrepancy(&best, degrees) {
        best = fine.refine(fine.point(&best.at)?, ITERATIONS.2)?;
        slope = fine.slope(&best)?;
    }
    let of_device: Vec<f64> = parameters
        .iter()
        .zip(&first)
        .map(|(p, first)| p.of(device).unwrap_or(*first).ln())
        .collect();
    let mut found = interval::estimates(&fine, &best, &slope)?;
    if fine.cost(&found.better) < fine.cost(&best) * BETTER_POINT {
        best = fine.refine(found.better, ITERATIONS.2)?;
        slope = fine.slope(&best)?;
        found = interval::estimates(&fine, &best, &slope)?;
    }
    let Intervals { mut estimates, combinations, .. } = found;
    let (scale, _) = interval::scale(&fine, &best, &slope);
    let at = interval::like_device(&fine, &best, &mut estimates, &of_device, scale)?;
    let values: Vec<f64> = at.iter().map(|x| x.exp()).collect();
    let twin = bench.with(parameters, &values);
    // Values that exclude each other were moved.
    for estimate in &mut estimates {
        estimate.value = estimate.parameter.of(twin.device()).unwrap_or(estimate.value);
    }
    let residual =
        |(of, residual): (&Statistic, &f64)| Residual { of: *of, log_ratio: residual * of.error };
    let residuals = fine.statistics.iter().zip(&best.residuals).map(residual).collect();
    Ok(Part { twin, estimates, combinations, residuals, scale })
}
