//! What clients send, to the server's machines: `cargo +nightly fuzz run server`.
#![no_main]
#[path = "../bodies.rs"]
mod bodies;
libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::server(data));
