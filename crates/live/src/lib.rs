//! The room where emulated volumes have real bytes and real time: the machine of `emulate` decides
//! when, this room holds what.
//!
//! * [`store`]: the bytes of one volume, in memory or in a file, checked.

pub mod store;
