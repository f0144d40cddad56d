//! Explains an emulated system: what its devices promise, and for a workload where the time of an I/O goes and
//! what is the limit. Nothing is kept: the same system, workload and seed give the same figures again.
//!
//! | file | what it holds |
//! |---|---|
//! | `simulate` | one cell in virtual time, with what the machine's parts did in its window |
//! | `account` | from what the parts did to phases, shares and bounds |
//! | `limit` | which resource is the limit, and the sentence that says so |
//! | `device` | what a device's parameters promise |

mod account;
mod device;
mod limit;
mod simulate;

pub use account::{KindAccount, PhaseAccount, Share};
pub use device::Described;
pub use limit::{Limit, percent};
pub use simulate::{ExplainedCell, predictions, simulate};
