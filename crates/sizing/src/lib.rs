//! Sizing: finds the smallest systems of the catalog that meet a demand, by simulation in virtual time. Also determines
//! the number of devices that a system can use fully.
//!
//! | module | task |
//! |---|---|
//! | `demand` | defines the requirements on a system |
//! | `log_demand` | converts a message rate to a demand, and sizes the publishers' buffers |
//! | `candidate` | lists the systems to search |
//! | `search` | chooses the number of arrays, or the rate, of the next trial |
//! | `simulate` | simulates one trial |
//! | `shortfall` | decides whether a trial met the demand, and if not, why |
//! | `bottleneck` | determines the resource that limits a trial |
//! | `lab` | runs several simulations in parallel, and counts them |
//! | `row` | holds the result for one candidate |
//! | `sizing` | searches all candidates |
//! | `detail` | simulates failures, cache settings and sequential load of the best candidate |
//! | `decisive` | finds assumed parameters of the bottleneck |
//! | `textbook` | computes the textbook formula, for comparison |
//! | `price` | reads a price file, and prices systems |
//! | `cloud` | finds the cheapest cloud volumes, by a formula |
//! | `saturate` | determines the number of devices that a system can use fully |
//! | `words` | describes confirmation, limits, life and assumptions |
//! | `outcome` | describes trials that did not meet the demand |
//! | `tables` | builds the tables of the answer, for `terminal` and `page` |
//! | `terminal`, `json`, `page` | format the answer |
//!
//! **Invariants:** every recommendation was simulated, and follows from the files and the demand alone. This crate
//! prints and writes nothing.

#![forbid(unsafe_code)]

pub mod bottleneck;
pub mod candidate;
pub mod cloud;
mod decisive;
pub mod demand;
pub mod detail;
pub mod json;
mod lab;
pub mod log_demand;
mod outcome;
pub mod page;
pub mod price;
pub mod row;
pub mod saturate;
pub mod search;
mod shortfall;
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
