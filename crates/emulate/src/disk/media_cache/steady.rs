//! Constructs the media cache of a disk that has been written at random for a long time.
//!
//! Time is counted in writes. The written part of the disk has B bands. The log covers the latest W writes: W is
//! limited by the size of the log, or by the number of entries in the map. A cleaned band waits B writes on average for
//! its next write. After W more writes, that write is the oldest in the log, and the band is cleaned again.
//!
//! So a fraction W / (W + B) of the bands has writes in the cache. The age of such a band's oldest write is uniform in
//! 0 to W, and the later writes follow at a mean distance of B. Such a band therefore has 1 + W / 2B writes in the
//! cache on average.

use super::MediaCache;
use iodyno_units::rng::{Generator, below, unit_open_closed};
use std::ops::Range;

/// Mean number of ranges in the cache, if its log covers the last `writes` writes to `bands` bands.
#[cfg(test)]
fn mean_entries(writes: f64, bands: f64) -> f64 {
    bands * writes / (writes + bands) * (1.0 + writes / (2.0 * bands))
}

/// Number of latest writes that the log covers, if the cache holds `entries` ranges: the inverse of the mean number of
/// entries, B W / (W + B) (1 + W / 2B).
fn writes_covered(entries: f64, bands: f64) -> f64 {
    let linear = bands - entries;
    libm::sqrt(linear * linear + 2.0 * entries * bands) - linear
}

impl MediaCache {
    /// Fills an empty cache to the state that it reaches under sustained random writes of aligned blocks of
    /// `block_bytes`, all in the range `part` of the disk. No-op if a block is as large as a band or the part has no
    /// whole block.
    pub(in crate::disk) fn fill(
        &mut self,
        part: &Range<u64>,
        block_bytes: u64,
        band_bytes: u64,
        random: &mut Generator,
    ) {
        if block_bytes == 0 || block_bytes >= band_bytes {
            return;
        }
        let blocks = part.start.div_ceil(block_bytes)..part.end / block_bytes;
        if blocks.is_empty() {
            return;
        }
        let first_band = blocks.start * block_bytes / band_bytes;
        let bands = (blocks.end * block_bytes).div_ceil(band_bytes) - first_band;
        let by_log = (self.capacity_bytes / block_bytes) as f64;
        let writes = by_log.min(writes_covered(self.entries_max as f64, bands as f64));
        let mut ages = Vec::new();
        for band in first_band..first_band + bands {
            if unit_open_closed(random) * (writes + bands as f64) > writes {
                continue;
            }
            let from = blocks.start.max((band * band_bytes).div_ceil(block_bytes));
            let to = blocks.end.min((band + 1) * band_bytes / block_bytes);
            let mut age = unit_open_closed(random) * writes;
            while age > 0.0 && from < to {
                ages.push((age, (from + below(random, to - from)) * block_bytes));
                age += libm::log(unit_open_closed(random)) * bands as f64;
            }
        }
        ages.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (age, offset) in ages {
            let position = (writes - age) as u64 * block_bytes;
            self.append_spaced(offset..offset + block_bytes, position);
        }
        // The number of ranges varies by chance: make the cache exactly full.
        while self.position(block_bytes).is_some() {
            let band = first_band + below(random, bands);
            let from = blocks.start.max((band * band_bytes).div_ceil(block_bytes));
            let to = blocks.end.min((band + 1) * band_bytes / block_bytes);
            let offset = (from + below(random, to.saturating_sub(from))) * block_bytes;
            self.append(offset..offset + block_bytes);
        }
    }

    /// Appends a piece at `position` or later, if there is space. Superseded data lies between it and the previous
    /// piece. No-op without space.
    fn append_spaced(&mut self, range: Range<u64>, position: u64) {
        let len = range.end - range.start;
        let at = position.max(self.tail);
        if at + len <= self.capacity_bytes && self.pieces.len() < self.entries_max {
            let log_bytes = at + len - self.tail;
            self.supersede(range.clone());
            self.push(range.start, len, at, log_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writes_that_the_log_covers_give_the_mean_number_of_ranges() {
        for (entries, bands) in [(182_000.0, 250_000.0), (1_000.0, 10.0), (10.0, 1_000.0)] {
            let again = mean_entries(writes_covered(entries, bands), bands);
            assert!((again / entries - 1.0).abs() < 1e-9, "{again} for {entries}");
        }
    }
}
