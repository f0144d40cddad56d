//! Fits the parameters of an emulated device to measured cells. The result, a twin of the user's device, predicts cells
//! that were not measured. Each parameter has an interval, or is declared unidentified; the fit is scored by cells that it has
//! not seen.
//!
//! The model is the emulator itself: `refine.rs` simulates the measured cells and moves the parameters until the latencies
//! agree. `interval.rs` derives what the cells determine, and what they do not.

#![forbid(unsafe_code)]

pub mod answer;
mod device_file;
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
pub use interval::{Combination, Estimate, IDENTIFIED, Known};
use iodyno_emulate::spec::{Device, Kind};
use iodyno_measure::Cell;
use iodyno_workload::Spec;
pub use parameter::{Parameter, Unit, parameters};
pub use probe::{Family, HELD_OUT, Probe, limit_writes, probes};
use refine::Problem;
pub use score::{Prediction, median_error};
use simulate::Bench;
pub use statistic::{Figure, Statistic, statistics};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Operations of a simulated cell while the parameters are far from their values.
const OPS_COARSE: u64 = 1500;
/// Operations of a simulated cell in the last iterations: of an SSD, whose machine has many parts, and of others.
const OPS_FINE: (u64, u64) = (8000, 24000);
/// Iterations far from and near the solution.
const ITERATIONS: (usize, usize) = (10, 4);
/// Ratio of residuals and standard errors above which no device of the family behaves as measured.
pub const MISFIT: f64 = 8.0;

/// Reason why nothing can be fitted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FitError {
    /// The device to start from, or the cells, can't be used.
    #[error("{0}")]
    Start(String),
    /// The fit was stopped.
    #[error("the fit was interrupted")]
    Interrupted,
    /// A cell can't be simulated on the device.
    #[error("{cell} can't be simulated: {why}")]
    Simulation {
        /// Name of the cell.
        cell: String,
        /// The reason.
        why: String,
    },
}

/// A measured cell.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name of the cell.
    pub name: String,
    /// Its workload.
    pub spec: Spec,
    /// Its results.
    pub cell: Cell,
}

/// What a fit starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// Emulated target whose device has the structure and the first values, such as
    /// `model:nvme-tlc-3840g?state=sequential`.
    pub target: String,
    /// Capacity of the measured target, bytes; `None`: as the device to start from.
    pub capacity_bytes: Option<u64>,
    /// Seed of the simulations.
    pub seed: u64,
    /// Set from outside to stop the fit.
    pub stop: Arc<AtomicBool>,
}

/// Difference of a simulated and a measured statistic.
#[derive(Clone, Copy, Debug)]
pub struct Residual {
    /// The measured statistic.
    pub of: Statistic,
    /// Logarithm of the simulated over the measured value.
    pub log_ratio: f64,
}

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The device with all fitted parameters.
    pub device: Device,
    /// The parameters with their intervals.
    pub estimates: Vec<Estimate>,
    /// Products of parameters that the cells determine although they do not determine each factor.
    pub combinations: Vec<Combination>,
    /// Difference of each statistic.
    pub residuals: Vec<Residual>,
    /// Size of the residuals in standard errors.
    pub scale: f64,
    /// Predictions of the cells that were not used.
    pub held_out: Vec<Prediction>,
}

impl Fitted {
    /// Whether the residuals are far larger than chance explains, so that the device is not of this family.
    pub fn is_misfit(&self) -> bool {
        self.scale > MISFIT
    }

    /// Estimate of the parameter `key`; `None` if it is not fitted.
    pub fn estimate(&self, key: &str) -> Option<&Estimate> {
        self.estimates.iter().find(|estimate| estimate.parameter.key == key)
    }
}

/// Share of the misfit of an earlier structure below which a later one is preferred.
const BETTER: f64 = 0.8;

/// The structure that agrees best with the measurements, of several.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Index of its start.
    pub index: usize,
    /// The fit from that start.
    pub fitted: Fitted,
    /// Index of each other start that can be fitted, with its misfit as a multiple of that of the chosen one.
    pub others: Vec<(usize, f64)>,
}

/// Fits the one of `starts`, devices with different structures, that agrees best, by [`fit`]; a later start must agree
/// clearly better than an earlier one. Starts that can't be fitted are left out while another can.
///
/// # Errors
/// Those of the first start if none can be fitted.
pub fn fit_structures(
    starts: &[Start],
    cells: &[Measured],
    held_out: &[Measured],
) -> Result<Chosen, FitError> {
    let mut all: Vec<(usize, f64)> = Vec::new();
    if let [_, _, ..] = starts {
        for (index, start) in starts.iter().enumerate() {
            match near(start, cells) {
                Ok(scale) => {
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
    let bench = Bench::new(start)?;
    let parameters = parameters(bench.device());
    let first = start::values(&parameters, bench.device(), cells);
    let coarse = Problem::new(&bench, cells, &parameters, &first, None, OPS_COARSE, start.seed)?;
    let near = coarse.search(coarse.point(&coarse.start)?, ITERATIONS.0)?;
    let slope = coarse.slope(&near)?;
    Ok(interval::scale(&coarse, &near, &slope).0)
}

/// Fits the device of `start` to `cells`, and predicts `held_out` with it.
///
/// # Errors
/// See [`FitError`].
pub fn fit(start: &Start, cells: &[Measured], held_out: &[Measured]) -> Result<Fitted, FitError> {
    let bench = Bench::new(start)?;
    let device = bench.device();
    let parameters = parameters(device);
    let first = start::values(&parameters, device, cells);
    let coarse = Problem::new(&bench, cells, &parameters, &first, None, OPS_COARSE, start.seed)?;
    if coarse.statistics.is_empty() {
        return Err(FitError::Start(
            "no cell has enough operations to fit to: measure each for longer".to_owned(),
        ));
    }
    let near = coarse.search(coarse.point(&coarse.start)?, ITERATIONS.0)?;
    let ops = if matches!(device.kind, Kind::Flash(_)) { OPS_FINE.0 } else { OPS_FINE.1 };
    let fine = Problem::new(&bench, cells, &parameters, &first, Some(&near.at), ops, start.seed)?;
    let best = fine.refine(fine.point(&near.at)?, ITERATIONS.1)?;
    let slope = fine.slope(&best)?;
    let of_device: Vec<f64> = parameters
        .iter()
        .zip(&first)
        .map(|(p, first)| p.of(device).unwrap_or(*first).ln())
        .collect();
    let (mut estimates, combinations) = interval::estimates(&fine, &best, &slope)?;
    let (scale, _) = interval::scale(&fine, &best, &slope);
    let at = interval::like_device(&fine, &best, &mut estimates, &of_device, scale)?;
    let values: Vec<f64> = at.iter().map(|x| x.exp()).collect();
    let twin = bench.with(&parameters, &values);
    // Values that exclude each other were moved.
    for estimate in &mut estimates {
        estimate.value = estimate.parameter.of(twin.device()).unwrap_or(estimate.value);
    }
    let residual =
        |(of, residual): (&Statistic, &f64)| Residual { of: *of, log_ratio: residual * of.error };
    Ok(Fitted {
        device: twin.device().clone(),
        estimates,
        combinations,
        residuals: fine.statistics.iter().zip(&best.residuals).map(residual).collect(),
        scale,
        held_out: score::predict(&twin, cells, held_out, start.seed)?,
    })
}
