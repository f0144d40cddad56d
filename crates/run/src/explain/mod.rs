//! Explains an emulated system: the properties of its devices, and for a workload the latency breakdown and the
//! limiting resource. Nothing is stored, since the same system, workload and seed always give the same results.
//!
//! | file | task |
//! |---|---|
//! | `simulate` | simulates one cell, and counts the activity of the machine's parts in its window |
//! | `volumes` | accounts for the volumes of each name |
//! | `account` | computes the time of operations by phase from the counters |
//! | `shares` | computes utilisations and saturation rates from the counters |
//! | `limit` | finds the limiting resource, and names it in a sentence |
//! | `device`, `array` | derive properties from the parameters of devices and arrays |

mod account;
mod array;
mod device;
mod limit;
mod shares;
mod simulate;
mod volumes;

pub use account::{KindAccount, LevelAccount, PhaseAccount};
pub use array::{DescribedArray, arrays};
pub use device::{Described, limit_in_words};
pub use limit::{Limit, percent};
pub use shares::{Share, shares};
pub use simulate::{ExplainedCell, predictions, simulate};
pub use volumes::VolumesAccount;
