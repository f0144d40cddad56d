//! Fuzzes the server's machines with client bytes: `cargo +nightly fuzz run server`.
#![no_main]
#[path = "../bodies.rs"]
mod bodies;
libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::server(data));
