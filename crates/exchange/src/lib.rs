//! Foreign formats: job files of fio, as workloads.
//!
//! **Invariant:** an option of a foreign file is honoured, noted or refused, and never dropped without a word.

pub mod fio;
