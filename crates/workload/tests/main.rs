//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod applications;
mod bad_files;
mod catalog;
mod counted;
mod streams;
