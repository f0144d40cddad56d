//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod device_states;
mod emulated_systems;
mod fill;
mod ranks;
mod request;
mod written_key;
