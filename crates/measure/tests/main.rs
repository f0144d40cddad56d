//! All tests of this crate that use its public interface, in one program: it is linked once.

mod judging;
mod layers;
mod limits;
mod simulated;
mod stationarity;
mod stored;
