//! What a read cache has done; `read_cache` counts it.

/// What a read cache has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheCounts {
    /// Reads that it served.
    pub hits: u64,
    /// Reads that went to the backing.
    pub misses: u64,
    /// Units that it admitted, of reads and of writes.
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

    /// The share of reads that it served; 0 without reads.
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
