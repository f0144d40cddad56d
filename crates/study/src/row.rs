//! Our side of a row of a study: our value, its distance from the print, and the null model's value.

use crate::null::NullModel;
use crate::score::Score;

/// Our side of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Our value, in the row's unit; None where the samples do not support it.
    pub ours: Option<f64>,
    /// Its relative standard error, where one is known.
    pub standard_error: Option<f64>,
    /// Where it was measured in rounds: whether all its cells were steady.
    pub steady: Option<bool>,
    /// Its distance from the print; None where nothing is printed.
    pub score: Option<Score>,
    /// Whether the printed figure can't be right: it is not scored.
    pub flagged: bool,
    /// The null model's value.
    pub null: Option<Null>,
}

/// The null model's value for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Null {
    /// The kind of null model.
    pub model: NullModel,
    /// Its value, in the row's unit.
    pub value: f64,
    /// Its distance from the print; None where nothing is printed.
    pub score: Option<Score>,
}

/// The model nearer to the print, by the part outside the printed interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearer {
    /// Our model.
    Ours,
    /// The null model.
    Null,
    /// Both are equally near, mostly within the interval.
    Equal,
}

impl Nearer {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Null => "null",
            Self::Equal => "equal",
        }
    }
}

impl Row {
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
