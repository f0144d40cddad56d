//! Tests of the translation layer as a whole.

mod amplification;
#[cfg(not(debug_assertions))]
mod cost;
mod driver;
mod mapping;
mod wear;
