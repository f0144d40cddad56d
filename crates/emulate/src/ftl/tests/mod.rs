//! The translation layer as a whole.

mod amplification;
mod cost;
mod driver;
mod mapping;
mod wear;
