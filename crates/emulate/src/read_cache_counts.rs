//! Counters of a read cache: hits, misses and admissions.

/// Hits, misses and admissions of a read cache since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheCounts {
    /// Number of reads served from the cache.
    pub hits: u64,
    /// Number of reads served from the backing (the device or array that is cached).
    pub misses: u64,
    /// Number of 4 KiB units added to the cache, by reads and by writes.
    pub admitted_units: u64,
}

impl ReadCacheCounts {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            admitted_units: self.admitted_units - before.admitted_units,
        }
    }

    /// The fraction of reads served from the cache; 0 without reads.
    pub fn hit_ratio(self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

impl std::ops::Add for ReadCacheCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            admitted_units: self.admitted_units + other.admitted_units,
        }
    }
}
