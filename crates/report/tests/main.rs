//! All tests of this crate that use its public interface, in one program: it is linked once.

mod compare;
mod devices;
mod exchange;
mod json;
mod large;
mod page;
mod samples;
mod terminal;
mod verdicts;
