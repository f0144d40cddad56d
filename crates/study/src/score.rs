//! The score of one of our values: its distance from a printed one.
//!
//! There are two distances: the plain relative error, and the part of it outside the printed interval: the
//! rounding interval of a figure, or a tenth on the right side of a one-sided one. A figure that the paper rounds
//! to 44 000 can't decide between 43 500 and 44 500.

use crate::published::{Figure, Relation};

/// The distance of our value from a printed figure, relative to that figure; positive if ours is
/// larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The whole relative error.
    pub error: f64,
    /// The part of the error outside the printed interval. A one-sided figure's interval reaches from its rounding on
    /// the wrong side to a tenth of the value on the right side.
    pub outside: f64,
}

/// Width of a one-sided figure's interval on its right side, relative to the value. "Just under 500 000" is not met by
/// 61 000.
const ONE_SIDED_SHARE: f64 = 0.1;

/// Scores a value, which is in the figure's own unit.
pub fn score(ours: f64, printed: &Figure) -> Score {
    let difference = ours - printed.value;
    let is_on_right_side = match printed.relation {
        Relation::Equal | Relation::About => false,
        Relation::AtLeast => difference > 0.0,
        Relation::AtMost => difference < 0.0,
    };
    let tenth = ONE_SIDED_SHARE * printed.value;
    let allowed = if is_on_right_side { tenth } else { printed.rounding() };
    let beyond = (difference.abs() - allowed).max(0.0);
    Score {
        error: difference / printed.value,
        outside: beyond.copysign(difference) / printed.value,
    }
}
