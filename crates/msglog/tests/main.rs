//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod common;
mod crafted;
mod damage;
mod filter;
mod group_commit;
mod load;
mod power_cuts;
mod protocol;
mod reading;
mod rules;
mod unreadable;
