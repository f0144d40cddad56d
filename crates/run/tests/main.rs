//! All tests of this crate that use its public interface, in one program: it is linked once.

mod fill;
mod ranks;
mod request;
mod written_key;
