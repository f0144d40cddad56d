//! Results for a row of a study: the simulated value, its error, and the baseline (null model).

use crate::null::NullModel;
use crate::score::Score;
use iodyno_page::Tone;

/// Results for one row of `Study::rows`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Simulated value, in the row's unit; None if there are too few samples.
    pub ours: Option<f64>,
    /// Relative standard error of the simulated value; None if unknown.
    pub standard_error: Option<f64>,
    /// Whether all cells of the row were in the steady state or, if they represent longer runs, stationary. None if a
    /// cell was not tested.
    pub steady: Option<bool>,
    /// Error of the simulated value; None if there is no simulated or no published value.
    pub score: Option<Score>,
    /// Whether the published value is excluded from the error statistics, for example because it can't be right.
    pub flagged: bool,
    /// Prediction of the null model (a prediction without a device model); None if no rule applies.
    pub null: Option<Null>,
}

/// Prediction of the null model (a prediction without a device model) for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Null {
    pub model: NullModel,
    /// Predicted value, in the row's unit.
    pub value: f64,
    /// Error of the predicted value; None if no value was published.
    pub score: Option<Score>,
}

/// Model that is closer to the published value. A deviation within the rounding interval of that value counts as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearer {
    /// The simulated value is closer to the published value than the prediction of the null model is.
    Ours,
    /// The null model (a prediction without a device model) is closer to the published value than the simulation is.
    Null,
    /// The simulation and the null model are equally close to the published value, mostly because both are within its
    /// rounding interval.
    Equal,
}

impl Nearer {
    /// Name of the result in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Null => "null",
            Self::Equal => "equal",
        }
    }
}

impl Row {
    /// Display tone for the part of the error outside the rounding interval. `flagged` is the tone for published
    /// values that can't be right.
    pub(crate) fn tone(&self, flagged: Tone) -> Tone {
        match self.nearer() {
            _ if self.flagged => flagged,
            _ if self.score.is_some_and(|score| score.outside.abs() <= 0.0) => Tone::Good,
            Some(Nearer::Null) => Tone::Warning,
            _ => Tone::Plain,
        }
    }

    /// Model that is closer to the published value. None if the published, the simulated or the predicted value is
    /// missing, or if the published value is flagged.
    pub fn nearer(&self) -> Option<Nearer> {
        let (ours, null) = (self.score?.outside.abs(), self.null?.score?.outside.abs());
        (!self.flagged).then_some(match ours.total_cmp(&null) {
            core::cmp::Ordering::Less => Nearer::Ours,
            core::cmp::Ordering::Equal => Nearer::Equal,
            core::cmp::Ordering::Greater => Nearer::Null,
        })
    }
}
