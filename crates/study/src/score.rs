//! How far a value of ours lies from a printed one.
//!
//! Two distances are told: the plain relative error, and the part of it that lies outside what was
//! printed: the rounding interval of a figure, the wrong side of a one-sided one. A figure that the
//! paper rounds to 44 000 says nothing between 43 500 and 44 500, and one that is "over 3 GB/s" says
//! nothing above.

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
