//! Scores simulated values by their distance from the published ones.
//!
//! The score has two parts: the plain relative error, and the part of this error outside the published interval. The
//! interval is the rounding interval (43 500 to 44 500 for a value printed as 44 000) or, for a published bound, a
//! tenth beyond the bound on its valid side.

use crate::published::{Figure, Relation};

/// Distance of a simulated value from the published one, as a fraction of the published value; positive if
/// the simulated value is larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Difference between the simulated and the published value, as a fraction of the published value.
    pub error: f64,
    /// Part of the relative error outside the interval of the true value: the rounding interval or, for a published
    /// bound, up to a tenth beyond the bound on the valid side.
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
