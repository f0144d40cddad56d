//! The doors through which a served machine is reached.

pub mod nbd;
