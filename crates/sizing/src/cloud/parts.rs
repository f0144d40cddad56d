//! Computes into which I/Os striping splits an operation.

use iodyno_emulate::spec::STRIP_BYTES;
use std::collections::BTreeMap;

/// Maximum number of positions of an operation that are examined. If there are more, they are spread evenly.
const POSITIONS_MAX: u64 = 512;

/// Sizes of I/Os in bytes, each with their mean number per operation.
type Sizes = Vec<(f64, f64)>;

/// I/Os of an operation on all volumes, as the mean over all positions of the operation.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// I/Os of up to one strip.
    split: Sizes,
    /// I/Os after merging those of one volume, which follow each other.
    merged: Sizes,
}

impl Parts {
    /// Computes the I/Os of an operation of `bytes` bytes, at a multiple of `align_bytes`, on `volumes` volumes.
    pub(super) fn of(bytes: u64, align_bytes: u64, volumes: u32) -> Self {
        if volumes == 1 {
            let whole = vec![(bytes as f64, 1.0)];
            return Self { split: whole.clone(), merged: whole };
        }
        // All positions within a strip; the volumes are alike.
        let positions = (STRIP_BYTES / align_bytes.max(1)).max(1);
        let step = positions.div_ceil(POSITIONS_MAX);
        let starts = (0..positions).step_by(step as usize).map(|position| position * align_bytes);
        let each = 1.0 / positions.div_ceil(step) as f64;
        let (mut split, mut merged) = (BTreeMap::new(), BTreeMap::new());
        for start in starts {
            let mut on_volumes = vec![0; volumes as usize];
            let (mut at, end) = (start, start + bytes);
            while at < end {
                let strip = at / STRIP_BYTES;
                let part = end.min((strip + 1) * STRIP_BYTES) - at;
                *split.entry(part).or_insert(0.0) += each;
                on_volumes[(strip % u64::from(volumes)) as usize] += part;
                at += part;
            }
            for part in on_volumes.into_iter().filter(|part| *part > 0) {
                *merged.entry(part).or_insert(0.0) += each;
            }
        }
        let sizes =
            |of: BTreeMap<u64, f64>| of.into_iter().map(|(size, n)| (size as f64, n)).collect();
        Self { split: sizes(split), merged: sizes(merged) }
    }

    /// Cost of an operation whose I/Os are each charged `cost` of their bytes.
    pub(super) fn split(&self, cost: impl Fn(f64) -> f64) -> f64 {
        self.split.iter().map(|&(bytes, number)| number * cost(bytes)).sum()
    }

    /// Same as [`Self::split`] if I/Os of one volume that follow each other are charged as one.
    pub(super) fn merged(&self, cost: impl Fn(f64) -> f64) -> f64 {
        self.merged.iter().map(|&(bytes, number)| number * cost(bytes)).sum()
    }
}
