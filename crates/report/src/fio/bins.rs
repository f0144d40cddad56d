//! Converts histograms to fio's latency bins, 64 per power of two, up to 2^34 ns. Counts convert exactly, because two
//! of iodyno's buckets form one of fio's bins.

use iodyno_measure::Histogram;

/// Number of leading bits of a latency, after the first 1 bit, that determine its bin within a power of two.
const BITS: u32 = 6;
/// Number of bins in fio's latency histograms since 2019: 29 groups of 64.
const COUNT: usize = 29 << BITS;
/// Largest coarseness of fio's histogram logs: 2^6 bins per column, that is one column per power of two.
pub const COARSENESS_MAX: u8 = 6;

/// Index of fio's bin for a latency. Latencies of 2^34 ns and more fall into the last bin.
fn index(ns: u64) -> usize {
    // Below 128 the shift is 0 and the bin is the value itself.
    let shift = (ns | ((2 << BITS) - 1)).ilog2() - BITS;
    (((shift as usize) << BITS) + (ns >> shift) as usize).min(COUNT - 1)
}

/// Converts a histogram to the columns of fio's histogram log. Each column sums 2^`coarseness` bins.
pub(super) fn columns(histogram: &Histogram, coarseness: u8) -> Vec<u64> {
    let coarseness = coarseness.min(COARSENESS_MAX);
    let mut counts = vec![0; COUNT >> coarseness];
    for bucket in histogram.buckets() {
        counts[index(bucket.low_ns) >> coarseness] += bucket.count;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lower (inclusive) and upper (exclusive) bound of a bin, in ns, by fio's manual: the first 128 bins are 1
    /// ns wide; after them, the width doubles every 64 bins.
    fn bounds(bin: usize) -> (u64, u64) {
        if bin < 128 {
            return (bin as u64, bin as u64 + 1);
        }
        let width = 1_u64 << (bin / 64 - 1);
        let low = 64 * width + (bin % 64) as u64 * width;
        (low, low + width)
    }

    #[test]
    fn bins_tile_the_range_and_ours_nest_in_them() {
        let mut next = 0;
        for bin in 0..COUNT {
            let (low, end) = bounds(bin);
            assert_eq!(low, next);
            assert_eq!((index(low), index(end - 1)), (bin, bin));
            next = end;
        }
        assert_eq!((next, COUNT), (1 << 34, 1856));
        assert_eq!(index(u64::MAX), COUNT - 1);
        let mut ns = 1;
        while ns < 1 << 34 {
            let mut one = Histogram::new();
            one.record(ns);
            let bucket = one.buckets().next().unwrap();
            let last = bucket.low_ns + bucket.width_ns - 1;
            assert_eq!((index(bucket.low_ns), index(last)), (index(ns), index(ns)));
            ns += ns / 100 + 1;
        }
    }

    #[test]
    fn columns_keep_every_count() {
        let mut h = Histogram::new();
        for i in 0..40_u64 {
            h.record_n(3_u64.pow(i as u32 % 25) + i, i + 1);
        }
        let fine = columns(&h, 0);
        assert_eq!(fine.iter().sum::<u64>(), h.count());
        for coarseness in 0..=COARSENESS_MAX {
            let coarse = columns(&h, coarseness);
            let sums: Vec<u64> = fine.chunks(1 << coarseness).map(|c| c.iter().sum()).collect();
            assert_eq!(coarse, sums);
            assert_eq!(coarse.len(), 1856 >> coarseness);
        }
    }
}
