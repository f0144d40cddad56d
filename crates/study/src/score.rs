//! The score of one of our values: its distance from a printed one.
//!
//! There are two distances: the plain relative error, and the part of it outside the printed interval: the
//! rounding interval of a figure, or the right side of a one-sided one. A figure that the paper rounds to 44
//! 000 can't decide between 43 500 and 44 500, and "over 3 GB/s" sets no upper limit.

use crate::published::{Figure, Relation};

/// The distance from a printed figure, relative to it: positive where ours is larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The whole distance; 0 on the right side of a one-sided figure.
    pub error: f64,
    /// The part of it outside the printed interval.
    pub outside: f64,
}

/// Scores a value, which is in the figure's own unit.
pub fn score(ours: f64, printed: &Figure) -> Score {
    let difference = match printed.relation {
        Relation::Equal | Relation::About => ours - printed.value,
        Relation::AtLeast => (ours - printed.value).min(0.0),
        Relation::AtMost => (ours - printed.value).max(0.0),
    };
    let beyond = (difference.abs() - printed.rounding()).max(0.0);
    Score {
        error: difference / printed.value,
        outside: beyond.copysign(difference) / printed.value,
    }
}
