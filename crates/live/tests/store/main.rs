//! Tests of the store with real machines, real kills and many threads.

#[path = "../../../emulate/tests/common/mod.rs"]
mod common;

mod corrupt;
mod direct;
#[cfg(feature = "host-faults")]
mod errors;
#[cfg(feature = "host-faults")]
mod failing;
mod file;
mod follow;
mod host;
mod kill;
mod rig;
