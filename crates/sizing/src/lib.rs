//! Sizing: the smallest systems from the catalog that meet a demand, found by simulation in virtual time; and the
//! number of devices that a system can use fully.
//!
//! | module | contents |
//! |---|---|
//! | `demand` | requirements on a system |
//! | `log_demand` | the demand of a message log: its messages as writes and reads, and its publishers' buffers |
//! | `candidate` | the kinds of systems to search |
//! | `search` | the next trial: the fewest arrays, the highest rate. Pure |
//! | `simulate` | a trial: one cell |
//! | `lab` | cells, several in parallel |
//! | `row` | a sized candidate |
//! | `sizing` | the search over all candidates |
//! | `detail` | what-ifs, cache and sequential rates of the best candidate |
//! | `decisive` | the assumed parameters of the binding resource |
//! | `textbook` | the textbook's formula |
//! | `price` | prices |
//! | `cloud` | the cheapest cloud volumes, by closed form |
//! | `saturate` | number of devices that a system can use fully |
//! | `words` | confirmation, limits, life and assumptions in words |
//! | `tables` | the tables of the answer, for `terminal` and `page` |
//! | `terminal`, `json`, `page` | the answer as text, as a document for programs, and as a page |
//!
//! **Invariants:** every recommendation was simulated, and follows from the files and the demand alone. Nothing is printed or
//! written here.

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
