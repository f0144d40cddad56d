//! All tests of this crate that use its public interface, in one program: it is linked once.

mod applications;
mod bad_files;
mod catalog;
mod counted;
mod streams;
