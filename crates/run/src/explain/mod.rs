//! Explains an emulated system: the properties of its devices, and for a workload the latency breakdown and the
//! limiting resource. Nothing is stored, since the same system, workload and seed always give the same results.
//!
//! | file | task |
//! |---|---|
//! | `simulate` | simulates one cell, and counts the activity of the machine's parts in its window |
//! | `account` | computes phases, utilisations and saturation rates from the counters |
//! | `limit` | finds the limiting resource, and names it in a sentence |
//! | `device` | derives properties from a device's parameters |

mod account;
mod device;
mod limit;
mod simulate;

pub use account::{KindAccount, LevelAccount, PhaseAccount, Share, shares};
pub use device::{Described, limit_in_words};
pub use limit::{Limit, percent};
pub use simulate::{ExplainedCell, predictions, simulate};
