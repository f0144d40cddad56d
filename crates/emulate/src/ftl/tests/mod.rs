//! The translation layer as a whole, driven without time: every program completes at once.

mod amplification;
mod cost;
mod driver;
mod mapping;
mod wear;
