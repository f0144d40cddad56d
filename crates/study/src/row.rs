//! Our results for a row of a study: our value, its distance from the printed figure, and the null
//! model's value.

use crate::null::NullModel;
use crate::score::Score;
use iodyno_page::Tone;

/// Our results for a row of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Our value, in the row's unit; None if the samples do not support it.
    pub ours: Option<f64>,
    /// Relative standard error of `ours`; None if unknown.
    pub standard_error: Option<f64>,
    /// Whether all cells were steady or stationary; None if one of them was not tested for it.
    pub steady: Option<bool>,
    /// Distance from the printed figure; None if there is none.
    pub score: Option<Score>,
    /// Whether the printed figure is flagged and left out of the error statistics.
    pub flagged: bool,
    /// The null model's value; None if there is no null model.
    pub null: Option<Null>,
}

/// The null model's prediction for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Null {
    /// The rule by which the value was predicted.
    pub model: NullModel,
    /// Value in the row's unit.
    pub value: f64,
    /// Distance from the printed figure; None if there is none.
    pub score: Option<Score>,
}

/// Which model is nearer to the printed figure, judged by the part of its error outside the printed
/// interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearer {
    /// Our model is nearer.
    Ours,
    /// The null model is nearer.
    Null,
    /// Both are equally near, mostly within the interval.
    Equal,
}

impl Nearer {
    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Null => "null",
            Self::Equal => "equal",
        }
    }
}

impl Row {
    /// Tone of the part of the error outside the printed interval; `flagged` for a figure that
    /// can't be right.
    pub(crate) fn tone(&self, flagged: Tone) -> Tone {
        match self.nearer() {
            _ if self.flagged => flagged,
            _ if self.score.is_some_and(|score| score.outside.abs() <= 0.0) => Tone::Good,
            Some(Nearer::Null) => Tone::Warning,
            _ => Tone::Plain,
        }
    }

    /// The nearer model, where both have a value for a printed figure that is not flagged.
    pub fn nearer(&self) -> Option<Nearer> {
        let (ours, null) = (self.score?.outside.abs(), self.null?.score?.outside.abs());
        (!self.flagged).then_some(match ours.total_cmp(&null) {
            core::cmp::Ordering::Less => Nearer::Ours,
            core::cmp::Ordering::Equal => Nearer::Equal,
            core::cmp::Ordering::Greater => Nearer::Null,
        })
    }
}
