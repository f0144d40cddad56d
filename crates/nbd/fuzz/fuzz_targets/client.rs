//! Fuzzes the client's machines with server bytes: `cargo +nightly fuzz run client`.
#![no_main]
#[path = "../bodies.rs"]
mod bodies;
libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::client(data));
