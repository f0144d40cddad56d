//! All tests of this crate that use its public interface, in one program: it is linked once.

mod layout;
mod parity;
mod plan;
