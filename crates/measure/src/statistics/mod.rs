//! Conclusions from measured figures: whether a series is steady, how uncertain a mean or a percentile is, whether
//! one configuration differs from another, and at which load a target works best.
//!
//! All functions are pure and compute in `f64` without rounding, so that an old run can be judged again. The random
//! draws of a bootstrap are reproducible from its seed. Shares are fractions (0.02 is 2 %), never percentages.
//!
//! Which file to use depends on the *unit of inference*:
//! - Intervals within a cell are correlated. [`batch`] computes a mean, [`quantile`] a percentile, and [`drift`] a
//!   trend. [`steps`] ends a cell at a steady state as fio does.
//! - Rounds of a method are judged by [`steady`].
//! - Between configurations only whole runs count: use [`repeats`] and [`compare`].

#![allow(clippy::many_single_char_names, reason = "formulas are written as in their sources")]
#![cfg_attr(
    test,
    allow(clippy::needless_for_each, clippy::float_cmp, reason = "exact results are asserted")
)]

pub mod batch;
pub mod change;
pub mod compare;
pub mod describe;
pub mod discovery;
pub mod distribution;
pub mod drift;
pub mod knee;
pub mod levels;
pub mod little;
pub mod oscillation;
mod partition;
pub mod quantile;
pub mod rank;
pub mod repeats;
pub mod scaling;
pub mod slope;
pub mod stalls;
pub mod steady;
pub mod steps;
pub mod within;

#[cfg(test)]
mod noise;

pub use describe::ConfidenceInterval;

/// Error for input that allows no conclusion. The text names the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput(String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Returns an error if a value is infinite or NaN.
fn all_finite(what: &str, values: &[f64]) -> Result<(), BadInput> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(i) => Err(BadInput(format!(
            "{what}: value {} of {} is {}; leave out values that were not measured",
            i + 1,
            values.len(),
            values[i]
        ))),
    }
}
