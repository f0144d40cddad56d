//! Sizing: finds the smallest systems of the catalog that meet a demand, by simulation in virtual time. Also
//! determines the number of devices that a system can use fully.
//!
//! | module | contents |
//! |---|---|
//! | `demand` | requirements on a system |
//! | `log_demand` | the demand of a message log: its messages as writes and reads, and its publishers' buffers |
//! | `candidate` | the systems to search |
//! | `search` | the next trial: the fewest arrays, the highest rate. Pure |
//! | `simulate` | a trial: one simulation |
//! | `lab` | simulations, several in parallel |
//! | `row` | a sized candidate |
//! | `sizing` | the search over all candidates |
//! | `detail` | what-ifs, cache and sequential rates of the best candidate |
//! | `decisive` | assumed parameters of the bottleneck |
//! | `textbook` | the textbook formula |
//! | `price` | prices |
//! | `cloud` | the cheapest cloud volumes, by a formula |
//! | `saturate` | number of devices that a system can use fully |
//! | `words` | confirmation, limits, life and assumptions in words |
//! | `tables` | the tables of the answer, for `terminal` and `page` |
//! | `terminal`, `json`, `page` | the answer as text, as a document for programs, and as a page |
//!
//! **Invariants:** every recommendation was simulated, and follows from the files and the demand alone. This crate
//! prints and writes nothing.

#![forbid(unsafe_code)]

pub mod candidate;
pub mod cloud;
mod decisive;
pub mod demand;
pub mod detail;
pub mod json;
mod lab;
pub mod log_demand;
pub mod page;
pub mod price;
pub mod row;
pub mod saturate;
pub mod search;
pub mod simulate;
pub mod sizing;
mod tables;
pub mod terminal;
pub mod textbook;
mod words;

pub use candidate::{Candidate, Choice, candidates};
pub use demand::{Demand, Limit, Loss, Tail};
pub use log_demand::LogDemand;
pub use price::Prices;
pub use sizing::{Sizing, size};
