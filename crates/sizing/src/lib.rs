//! The smallest systems of the catalog that meet a demand, found by simulation in virtual time; and how many devices a
//! system can use fully.
//!
//! | module | contents |
//! |---|---|
//! | `demand` | what a system must do |
//! | `log_demand` | the same of a message log: its rate of messages as writes and reads, and its publishers' room |
//! | `candidate` | the kinds of systems that are searched |
//! | `search` | what is tried next: the fewest arrays, the highest rate. Pure |
//! | `simulate` | a trial: one cell |
//! | `lab` | cells, several at once |
//! | `row` | a candidate that was sized |
//! | `sizing` | the search over all candidates |
//! | `detail` | what-ifs, cache and sequential rates of the best one |
//! | `decisive` | the assumed parameters of what binds first |
//! | `textbook` | the textbook's formula |
//! | `price` | prices |
//! | `saturate` | how many devices a system can use fully |
//! | `words` | confirmation, limits, life and assumptions in words |
//! | `terminal`, `json`, `page` | the answer as text, as a document for programs, and as a page |
//!
//! **Invariants:** what is answered was simulated, and follows from the files and the demand alone. Nothing is printed
//! or written here.

#![forbid(unsafe_code)]

pub mod candidate;
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
pub mod terminal;
pub mod textbook;
mod words;

pub use candidate::{Candidate, Choice, candidates};
pub use demand::{Demand, Limit, Loss, Tail};
pub use log_demand::LogDemand;
pub use price::Prices;
pub use sizing::{Sizing, size};
