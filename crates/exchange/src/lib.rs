//! Foreign formats: job files of fio, as workloads; recorded I/O, as traces.
//!
//! **Invariant:** an option or a line of a foreign file is honoured, noted or refused, and never dropped without a word.

pub mod fio;
pub mod trace;
