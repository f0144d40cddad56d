//! Scores simulated values by their distance from the published ones.
//!
//! The score has two parts: the plain relative error, and the part of this error outside the published interval. The
//! published interval is the rounding interval, such as 43 500 to 44 500 for a value printed as 44 000. If the
//! published value is a bound, the interval extends by a tenth of the bound on the side that satisfies the bound.

use crate::published::{Figure, Relation};

/// Errors of a simulated value, as fractions of the published value; positive if the simulated value is larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Difference between the simulated and the published value, as a fraction of the published value.
    pub error: f64,
    /// Part of `error` that exceeds the rounding of the published value. If the published value is a bound, satisfying
    /// it by up to a tenth is no error.
    pub outside: f64,
}

/// Maximum distance by which a value may satisfy a published bound without an error, as a fraction of the
/// bound. For example, 61 000 does not satisfy "just under 500 000".
const ONE_SIDED_SHARE: f64 = 0.1;

/// Computes the error of a simulated value, which must be in the unit of the published value.
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
