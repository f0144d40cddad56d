//! Explains an emulated system: the properties of its devices, and for a workload the latency breakdown and the
//! limiting resource. Nothing is stored, since the same system, workload and seed always give the same results.
//!
//! | file | contents |
//! |---|---|
//! | `simulate` | one cell in virtual time, with the counters of the machine's parts in its window |
//! | `account` | phases, utilizations and saturation rates, computed from the counters |
//! | `limit` | the limiting resource, and a sentence that names it |
//! | `device` | the properties that follow from a device's parameters |

mod account;
mod device;
mod limit;
mod simulate;

pub use account::{KindAccount, LevelAccount, PhaseAccount, Share, shares};
pub use device::{Described, limit_in_words};
pub use limit::{Limit, percent};
pub use simulate::{ExplainedCell, predictions, simulate};
