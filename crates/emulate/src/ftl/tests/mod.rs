//! Tests of the translation layer as a whole.

mod amplification;
mod driver;
mod mapping;
mod placement;
mod untimed;
mod wear;
