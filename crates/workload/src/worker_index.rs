//! The number of a worker among others, and its share of their work.

/// A worker among those that divide something: a rate, a range, a number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerIndex {
    /// Number of the worker, from 0.
    pub index: u32,
    /// Number of workers, above `index`.
    pub of: u32,
}

impl WorkerIndex {
    /// The only worker.
    pub const ALONE: Self = Self { index: 0, of: 1 };

    /// The worker's share of `total`. The shares of all workers differ by at most 1, and add up to `total`.
    pub const fn share_of(self, total: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        total / of + (index < total % of) as u64
    }
}
