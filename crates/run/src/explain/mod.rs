//! Explanation of an emulated system: the properties of its devices, and for a workload the latency breakdown and
//! the limit. Nothing is stored: the same system, workload and seed give the same figures again.
//!
//! | file | contents |
//! |---|---|
//! | `simulate` | one cell in virtual time, with the counters of the machine's parts in its window |
//! | `account` | from the counters of the parts to phases, shares and bounds |
//! | `limit` | which resource is the limit, and the sentence that states it |
//! | `device` | the properties that follow from a device's parameters |

mod account;
mod device;
mod limit;
mod simulate;

pub use account::{KindAccount, LevelAccount, PhaseAccount, Share, shares};
pub use device::{Described, limit_in_words};
pub use limit::{Limit, percent};
pub use simulate::{ExplainedCell, predictions, simulate};
