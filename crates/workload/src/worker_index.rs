//! The position of a worker among the workers that divide some work, and the worker's share of the work.

/// Index of a worker, and the number of workers that divide a rate, a range or a number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerIndex {
    /// Index of the worker among those that divide the work, from 0.
    pub index: u32,
    /// Number of workers that divide the work; greater than `index`.
    pub of: u32,
}

impl WorkerIndex {
    /// The only worker: index 0 of 1.
    pub const ALONE: Self = Self { index: 0, of: 1 };

    /// Returns this worker's part of `total`. The parts of all workers add up to `total` and differ by at most 1.
    pub const fn share_of(self, total: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        total / of + (index < total % of) as u64
    }
}
