//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod compare;
mod devices;
mod exchange;
mod json;
mod large;
mod page;
mod samples;
mod terminal;
mod verdicts;
