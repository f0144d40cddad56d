//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod browser;
mod charts;
mod charts_of_any_data;
mod drawn;
mod files;
mod gallery;
mod html;
#[path = "browser/sample.rs"]
mod sample;
