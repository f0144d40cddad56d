//! Determines which resource limits a simulated system, by the rule of `explain` (`iodyno_run::explain::Limit`): a
//! saturated resource, first those that do work, then those that are only occupied while others work, such as read
//! contexts. If no resource is saturated, none limits the rate.
//!
//! The cores that issue the operations are not part of the storage. They count only if they are saturated and the
//! storage is not.

use crate::simulate::Measured;
use iodyno_run::explain::{Share, percent};

/// Utilisation from which a resource counts as saturated, as in `explain`.
const SATURATED: f64 = 0.9;
/// Name of the cores of the host that issue the operations.
const GENERATOR: &str = "generator cores";

/// The resource that limits a simulated system, or the busiest one.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck<'a> {
    /// The resource, with its utilisation.
    pub share: &'a Share,
    /// Whether the resource is saturated. If not, it does not limit the rate.
    pub is_saturated: bool,
}

impl Bottleneck<'_> {
    /// Name and utilisation, such as `controller, 98 %`.
    pub(crate) fn words(&self) -> String {
        format!("{}, {}", self.share.name, percent(self.share.busy))
    }
}

impl Measured {
    /// The storage's resource that limits the rate; if none is saturated, the busiest one. `None` if all were idle.
    pub fn binds(&self) -> Option<Bottleneck<'_>> {
        bottleneck(&self.shares)
    }
}

/// The bottleneck among `shares`, which are sorted by utilisation, highest first.
fn bottleneck(shares: &[Share]) -> Option<Bottleneck<'_>> {
    let storage = || shares.iter().filter(|share| share.name != GENERATOR);
    let saturated = || storage().filter(|share| share.busy >= SATURATED);
    let generator = || shares.iter().find(|s| s.name == GENERATOR && s.busy >= SATURATED);
    let limit = saturated()
        .find(|share| !share.held)
        .or_else(|| saturated().next())
        .or_else(generator)
        .map(|share| Bottleneck { share, is_saturated: true });
    let busiest = || storage().next().filter(|share| share.busy > 0.0);
    limit.or_else(|| busiest().map(|share| Bottleneck { share, is_saturated: false }))
}
