//! The latest progress report of each rank. A rank writes its own report, and sends it with its heartbeats.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Latest progress reports of all ranks (the processes of a run), shared by the two threads of each rank.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    /// Latest progress report of each rank, encoded; empty if the rank has sent none.
    said: Arc<[Mutex<Vec<u8>>]>,
    /// Number of jobs of the current batch that rank 0 has handed out. Used only at rank 0.
    handed_out: Arc<AtomicU64>,
}

impl Board {
    pub(crate) fn new(size: u32) -> Self {
        let said = (0..size).map(|_| Mutex::default()).collect();
        Self { said, handed_out: Arc::default() }
    }

    pub(crate) fn write(&self, rank: u32, words: Vec<u8>) {
        *self.said[rank as usize].lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    pub(crate) fn read(&self, rank: u32) -> Vec<u8> {
        self.said[rank as usize].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_handed_out(&self, jobs: u64) {
        self.handed_out.store(jobs, Ordering::Relaxed);
    }

    pub(crate) fn handed_out(&self) -> u64 {
        self.handed_out.load(Ordering::Relaxed)
    }
}
