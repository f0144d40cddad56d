//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod document;
mod facts;
mod golden;
mod history;
mod kill;
mod many_cells;
mod progress;
mod refusals;
mod round_trip;
