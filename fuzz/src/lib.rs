//! Fuzz targets for everything that reads bytes of strangers. Each target is a function here and one line in
//! `fuzz_targets`, with seeds in `seeds`; it panics when an invariant does not hold.
//!
//! | compiler | command, in the root of the repository | what it does |
//! |---|---|---|
//! | nightly, with cargo-fuzz | `cargo +nightly fuzz run log_recovery fuzz/corpus/log_recovery fuzz/seeds/log_recovery`, after `mkdir -p fuzz/corpus/log_recovery` | libFuzzer, guided by coverage |
//! | stable | `cargo run -p iodyno-fuzz --bin log_recovery -- --seconds 60 --seed 1` | random mutations of the seeds, without coverage |

pub mod exchange;
pub mod fault_words;
mod input;
pub mod log_recovery;
pub mod nbd;
pub mod notebook;
pub mod stable;

/// The entry point of a target: its function, and the folder of its seeds.
#[macro_export]
macro_rules! target {
    ($function:path, $seeds:literal) => {
        #[cfg(fuzzing)]
        ::libfuzzer_sys::fuzz_target!(|data: &[u8]| {
            $function(data);
        });

        #[cfg(not(fuzzing))]
        fn main() -> ::std::result::Result<(), ::std::boxed::Box<dyn ::std::error::Error>> {
            let function = |data: &[u8]| {
                $function(data);
            };
            $crate::stable::main(&function, $seeds)
        }
    };
}
