//! All tests of this crate that use its public interface, in one program: it is linked once.

#[path = "../../emulate/tests/common/mod.rs"]
mod common;
mod power_loss;
mod record;
mod refused;
mod served;
