//! A log-linear histogram of nanoseconds: 128 buckets an octave, as in HdrHistogram and SPDK.
//!
//! Values under 256 ns are exact; above, a bucket's width is at most 1/128 of its lower bound, so
//! the middle of a bucket is within 0.4 % of any value in it. Minimum, maximum, count and sum are
//! exact. Values of 2^42 ns (73 minutes) and more fall into the last bucket.
//!
//! Merging adds counts: it is associative and commutative, and loses nothing.
//!
//! A histogram for recording has all its buckets, so that recording never allocates. A stored histogram (an interval of
//! an hour-long series, a run read from the notebook) may keep only the buckets from its first to its last non-empty
//! one: see [`Histogram::trim`].

mod compact;

use core::ops::Range;

/// Mantissa bits that select a bucket: 2^7 = 128 buckets per octave.
const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
/// Bits of a recordable value; larger values are clamped to just below 2^42 ns (73 minutes).
const VALUE_BITS: u32 = 42;
const BUCKETS: usize = (VALUE_BITS - SUB_BITS + 1) as usize * SUB;

/// Minimum number of samples beyond a percentile for it to be printed. A count of 10 such samples has a relative
/// standard error of about a third.
pub const EXCEEDANCES_MIN: f64 = 10.0;

/// Histogram of durations in ns with log-linear buckets. Takes about 36 KiB, or a few KiB once trimmed.
#[derive(Clone)]
pub struct Histogram {
    /// Counts of consecutive buckets, starting with bucket `first`; all buckets outside have count 0.
    counts: Box<[u64]>,
    first: usize,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// Compares the recorded counts, not the memory layout.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
            && self.sum_ns == other.sum_ns
            && self.min_ns == other.min_ns
            && self.max_ns == other.max_ns
            && self.in_use().eq(other.in_use())
    }
}

impl Eq for Histogram {}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min_ns", &self.min_ns)
            .field("mean_ns", &self.mean_ns())
            .field("max_ns", &self.max_ns)
            .finish_non_exhaustive()
    }
}

/// Index of the bucket that contains a value.
#[inline]
const fn bucket(value_ns: u64) -> usize {
    // Below 256 the shift is 0 and the bucket is the value itself.
    let shift = (value_ns | (2 * SUB as u64 - 1)).ilog2() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value_ns >> shift) as usize
}

/// Lowest value and width of a bucket, ns.
const fn bounds(bucket: usize) -> (u64, u64) {
    if bucket < 2 * SUB {
        return (bucket as u64, 1);
    }
    let shift = (bucket / SUB - 1) as u32;
    (((bucket - ((shift as usize) << SUB_BITS)) as u64) << shift, 1 << shift)
}

/// 1-based rank of quantile `q` (0 to 1) among `count` sorted values: ⌈q × count⌉, at least 1. Rounding
/// errors above a whole number are ignored (0.07 × 100 is 7).
pub(crate) fn nearest_rank(q: f64, count: u64) -> u64 {
    let exact = q.clamp(0.0, 1.0) * count as f64;
    ((exact * (1.0 - 4.0 * f64::EPSILON)).ceil() as u64).clamp(1, count.max(1))
}

/// Expected number of values beyond quantile `q` among `count`, on the side with fewer. Results within one
/// part in 10^9 of a whole number are rounded to it, because 1 − 0.999 is not exactly 0.001.
pub(crate) fn exceedances(q: f64, count: u64) -> f64 {
    let tail = (1.0 - q).min(q) * count as f64;
    let whole = tail.round();
    if (tail - whole).abs() <= 1e-9 * whole { whole } else { tail }
}

impl Histogram {
    /// Creates an empty histogram with all buckets allocated, so that recording never allocates.
    pub fn new() -> Self {
        Self::with_buckets(0, vec![0; BUCKETS])
    }

    /// Creates an empty histogram without buckets, for merged totals that stay in memory. Each merge allocates only the
    /// buckets that it needs.
    pub fn trimmed() -> Self {
        Self::with_buckets(0, Vec::new())
    }

    fn with_buckets(first: usize, counts: Vec<u64>) -> Self {
        let counts = counts.into_boxed_slice();
        Self { counts, first, count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Frees the empty buckets at both ends. A later value outside the remaining buckets reallocates every bucket.
    pub fn trim(&mut self) {
        let Range { start, end } = self.used();
        if end - start < self.counts.len() {
            self.counts = self.counts[start..end].into();
            self.first += start;
        }
    }

    /// Moves all counts into a new trimmed histogram. The original becomes empty but keeps its buckets allocated.
    #[must_use]
    pub fn take_trimmed(&mut self) -> Self {
        let used = self.used();
        let mut taken =
            Self::with_buckets(self.first + used.start, self.counts[used.clone()].to_vec());
        (taken.count, taken.sum_ns) = (self.count, self.sum_ns);
        (taken.min_ns, taken.max_ns) = (self.min_ns, self.max_ns);
        self.counts[used].fill(0);
        (self.count, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
        taken
    }

    /// Range of bucket indices from the bucket of the smallest value to that of the largest.
    fn used(&self) -> Range<usize> {
        if self.count == 0 {
            return 0..0;
        }
        let place = |value_ns: u64| bucket(value_ns.min((1 << VALUE_BITS) - 1)) - self.first;
        place(self.min_ns)..place(self.max_ns) + 1
    }

    /// Records `n` equal values that lie outside the allocated buckets of a trimmed histogram.
    #[cold]
    #[inline(never)]
    fn record_beyond(&mut self, value_ns: u64, n: u64) {
        self.untrim();
        self.record_n(value_ns, n);
    }

    /// Allocates the missing buckets from index `low` up to but not including `end`.
    fn widen(&mut self, low: usize, end: usize) {
        let have = self.first + self.counts.len();
        if low >= self.first && end <= have {
            return;
        }
        let is_empty = self.counts.is_empty();
        let first = if is_empty { low } else { low.min(self.first) };
        let mut counts = vec![0; end.max(have) - first];
        if !is_empty {
            counts[self.first - first..have - first].copy_from_slice(&self.counts);
        }
        self.counts = counts.into_boxed_slice();
        self.first = first;
    }

    /// Reallocates all buckets of a trimmed histogram.
    fn untrim(&mut self) {
        let mut counts = vec![0; BUCKETS];
        counts[self.first..self.first + self.counts.len()].copy_from_slice(&self.counts);
        self.counts = counts.into_boxed_slice();
        self.first = 0;
    }

    /// Index and count of each non-empty bucket, lowest first.
    fn in_use(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (self.first..).zip(self.counts.iter().copied()).filter(|&(_, n)| n > 0)
    }

    /// Records one value. Allocates only if the histogram was trimmed.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Records `n` equal values; 0 changes nothing.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let index = bucket(value_ns.min((1 << VALUE_BITS) - 1));
        // An index below `first` wraps to a huge one.
        let Some(count) = self.counts.get_mut(index.wrapping_sub(self.first)) else {
            return self.record_beyond(value_ns, n);
        };
        *count += n;
        self.count += n;
        self.sum_ns += u128::from(value_ns) * u128::from(n);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Replaces the sum of all values, ns. Use it if values were recorded rounded, but their exact sum is known. The
    /// sum is clamped to the range that minimum and maximum permit.
    pub fn set_sum_ns(&mut self, sum_ns: u128) {
        let all = |ns: u64| u128::from(ns) * u128::from(self.count);
        if self.count > 0 {
            self.sum_ns = sum_ns.clamp(all(self.min_ns), all(self.max_ns));
        }
    }

    /// Adds another histogram's counts. Allocates buckets only if this histogram was trimmed.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.widen(other.first, other.first + other.counts.len());
        let mine = &mut self.counts[other.first - self.first..];
        for (mine, theirs) in mine.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Clears all counts, but keeps the buckets allocated.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.counts.fill(0);
            self.count = 0;
            self.sum_ns = 0;
            self.min_ns = u64::MAX;
            self.max_ns = 0;
        }
    }

    /// Heap memory of the buckets, bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values, ns: exact, not estimated from the buckets.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Smallest value, ns; None when empty.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// Largest value, ns; None when empty.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// Arithmetic mean, ns; None when empty. Exact, because it uses the sum of the values and not the buckets.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Standard deviation, ns, computed from the middles of the buckets, clamped to the exact minimum and maximum; None
    /// when empty. 0 if all values are equal.
    pub fn stddev_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let (min, max) = (self.min_ns as f64, self.max_ns as f64);
        let square = |b: Bucket| (b.middle_ns().clamp(min, max) - mean).powi(2) * b.count as f64;
        let squares: f64 = self.buckets().map(square).sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// Value at quantile `q` (0 to 1), ns: the middle of the bucket with the ⌈q × count⌉-th smallest value,
    /// clamped to the exact minimum and maximum. None when empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let bucket = self.bucket_of_rank(nearest_rank(q, self.count))?;
        Some((bucket.low_ns + bucket.width_ns / 2).clamp(self.min_ns, self.max_ns))
    }

    /// Bucket that contains the `rank`-th smallest value, counted from 1. None if there are fewer values.
    pub fn bucket_of_rank(&self, rank: u64) -> Option<Bucket> {
        if rank == 0 {
            return None;
        }
        let mut seen = 0;
        self.buckets().find(|b| {
            seen += b.count;
            seen >= rank
        })
    }

    /// Like [`Self::quantile_ns`], but None if fewer than [`EXCEEDANCES_MIN`] samples lie beyond the quantile,
    /// which is too few for a reliable estimate.
    pub fn supported_quantile_ns(&self, q: f64) -> Option<u64> {
        if self.supports(q) { self.quantile_ns(q) } else { None }
    }

    /// Whether quantile `q` may be printed: at least [`EXCEEDANCES_MIN`] samples are expected on each side of it.
    pub fn supports(&self, q: f64) -> bool {
        exceedances(q, self.count) >= EXCEEDANCES_MIN
    }

    /// Non-empty buckets, lowest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.in_use().map(|(i, n)| {
            let (low_ns, width_ns) = bounds(i);
            Bucket { low_ns, width_ns, count: n }
        })
    }
}

/// A non-empty bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value of the bucket, ns.
    pub low_ns: u64,
    /// Width of the bucket, ns; at least 1.
    pub width_ns: u64,
    pub count: u64,
}

impl Bucket {
    pub fn middle_ns(&self) -> f64 {
        self.low_ns as f64 + (self.width_ns - 1) as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_range_without_gap_or_overlap() {
        let mut next = 0;
        for i in 0..BUCKETS {
            let (low, width) = bounds(i);
            assert_eq!(low, next, "bucket {i}");
            assert_eq!(bucket(low), i);
            assert_eq!(bucket(low + width - 1), i);
            next = low + width;
        }
        assert_eq!(next, 1 << VALUE_BITS);
    }

    proptest! {
        /// Compares the histogram's quantiles with those of a sorted list.
        #[test]
        fn quantiles_agree_with_a_sorted_list(
            mut values in prop::collection::vec(0_u64..1 << 36, 1..400),
            q in 0.0_f64..=1.0,
        ) {
            let mut h = Histogram::new();
            for &v in &values { h.record(v); }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let ours = h.quantile_ns(q).unwrap() as f64;
            prop_assert!((ours - exact).abs() <= exact / 256.0 + 0.5, "{ours} for {exact}");
            prop_assert_eq!(h.min_ns(), values.first().copied());
            prop_assert_eq!(h.max_ns(), values.last().copied());
            prop_assert_eq!(h.sum_ns(), values.iter().map(|&v| u128::from(v)).sum::<u128>());
        }

        /// Merging is associative and commutative, and gives the same as recording all values into one histogram.
        #[test]
        fn merging_is_recording(parts in prop::collection::vec(
            prop::collection::vec(0_u64..1 << 45, 0..40), 0..6)) {
            let mut whole = Histogram::new();
            let (mut left, mut right) = (Histogram::new(), Histogram::new());
            for part in &parts {
                let mut h = Histogram::new();
                for &v in part { h.record(v); whole.record(v); }
                left.merge(&h);
                let mut turned = h.clone();
                turned.merge(&right);
                right = turned;
            }
            prop_assert!(left == whole && right == whole);
            prop_assert!(Histogram::from_bytes(&whole.to_bytes()).unwrap() == whole);
            let json = serde_json::to_string(&whole).unwrap();
            prop_assert!(serde_json::from_str::<Histogram>(&json).unwrap() == whole);
        }

        /// Results do not depend on the number of allocated buckets.
        #[test]
        fn trimming_changes_nothing(
            before in prop::collection::vec(0_u64..1 << 45, 0..40),
            after in prop::collection::vec(0_u64..1 << 45, 0..3),
            q in 0.0_f64..=1.0,
        ) {
            let of = |values: &[u64]| {
                let mut h = Histogram::new();
                for &v in values { h.record(v); }
                h
            };
            let (mut whole, mut trimmed) = (of(&before), of(&before));
            trimmed.trim();
            prop_assert!(whole == trimmed);
            prop_assert_eq!(whole.quantile_ns(q), trimmed.quantile_ns(q));
            let mut emptied = of(&before);
            let taken = emptied.take_trimmed();
            prop_assert!(taken == whole && taken.heap_bytes() == trimmed.heap_bytes());
            let (ends, first) = (trimmed.counts.first(), trimmed.counts.last());
            prop_assert!(ends.is_none_or(|n| *n > 0) && first.is_none_or(|n| *n > 0));
            prop_assert!(emptied == Histogram::new() && emptied.counts.iter().all(|n| *n == 0));
            prop_assert_eq!(emptied.heap_bytes(), Histogram::new().heap_bytes());
            let mut other = of(&after);
            other.trim();
            let (mut left, mut right) = (trimmed.clone(), other.clone());
            left.merge(&other);
            right.merge(&trimmed);
            for &v in &after { whole.record(v); trimmed.record(v); }
            prop_assert!(whole == trimmed && left == whole && right == whole);
            prop_assert_eq!(whole.to_bytes(), left.to_bytes());
            prop_assert!(Histogram::from_bytes(&left.to_bytes()).unwrap() == right);
        }

        /// Arbitrary bytes are either parsed or rejected, without a panic.
        #[test]
        fn foreign_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(h) = Histogram::from_bytes(&bytes) {
                let _ = h.quantile_ns(0.5);
            }
        }
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let mut h = Histogram::new();
        for v in 0..9_999 {
            h.record(v);
        }
        assert_eq!(h.supported_quantile_ns(0.999), None);
        h.record(1);
        assert!(h.supported_quantile_ns(0.999).is_some());
        assert_eq!(h.supported_quantile_ns(0.9999), None);
        assert_eq!(Histogram::new().supported_quantile_ns(0.5), None);
    }

    /// The middle of their bucket is not the value.
    #[test]
    fn equal_values_do_not_deviate() {
        let mut h = Histogram::new();
        h.record_n(1_000_001, 100);
        assert_eq!(h.stddev_ns(), Some(0.0));
        h.record_n(3_000_001, 100);
        assert!((h.stddev_ns().unwrap() / 1e6 - 1.0).abs() < 1.0 / 128.0, "{:?}", h.stddev_ns());
        assert_eq!(Histogram::new().stddev_ns(), None);
    }

    #[test]
    fn rounding_moves_no_rank() {
        for n in [100, 1_000, 1_000_000_000] {
            for percent in 1..=100 {
                let q = percent as f64 / 100.0;
                assert_eq!(nearest_rank(q, n), percent * n / 100, "{q} of {n}");
            }
        }
        assert_eq!((nearest_rank(0.0, 7), nearest_rank(0.5, 7), nearest_rank(1.0, 7)), (1, 4, 7));
    }
}
