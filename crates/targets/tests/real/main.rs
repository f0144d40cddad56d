//! Guards and faults on real loop devices, mounts and swap. They need root, so they are ignored
//! by default: `cargo test -p iodyno-targets -- --ignored`. Only loop devices over files in a
//! temporary folder are written.

mod common;
mod faults;
mod guards;
mod purges;
mod writes;
