//! Fuzzes a server with a RAM disk with client bytes: `cargo +nightly fuzz run live`.
#![no_main]
#[path = "../bodies.rs"]
mod bodies;
thread_local!(static LIVE: bodies::Live = bodies::Live::new());
libfuzzer_sys::fuzz_target!(|data: &[u8]| LIVE.with(|live| live.play(data)));
