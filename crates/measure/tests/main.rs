//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod judging;
mod layers;
mod limits;
mod simulated;
mod stationarity;
mod stored;
