//! Records for each 1 MiB chunk of the address space whether it was last written sequentially. Sequentially written
//! data is on successive dies, and a device can read ahead in it.
//!
//! The record is a score from 0 to 255 per chunk. A page that is written directly after its predecessor subtracts 1;
//! any other page adds 4. A chunk with a score of 128 or more counts as scattered. So a sequentially written chunk
//! becomes scattered when an eighth of its pages are rewritten out of order, and sequential again when at most about
//! half of its pages are rewritten in order. A random write of more than four pages lowers the score, so a chunk with
//! only such writes counts as sequential.

use std::sync::Arc;

/// Log2 of the number of 4 KiB pages per chunk: a chunk is 1 MiB.
const PAGES_LOG2: u32 = 8;
const OUT_OF_ORDER: u8 = 4;
const SCATTERED_FROM: u8 = 128;
/// Maximum length, in pages, of a random write that can mark its chunk as scattered. Longer random writes leave it
/// marked as sequential.
pub(super) const SCATTERED_PAGES_MAX: u32 = OUT_OF_ORDER as u32;
/// Log2 of the number of concurrent sequential streams that can be detected, each in its own chunk.
const STREAMS_LOG2: u32 = 6;

/// Returns the end (exclusive) of the chunk that contains `lpn`.
#[inline]
pub(super) fn end_of(lpn: u64) -> u64 {
    ((lpn >> PAGES_LOG2) + 1) << PAGES_LOG2
}

#[derive(Clone, Debug)]
pub(super) struct Sequentiality {
    /// Sequentiality score of each chunk. Shared with copies of the device until one of them changes it
    /// (copy-on-write).
    scores: Arc<Vec<u8>>,
    /// Number of chunks that count as sequential. If 0, no look-up is needed.
    in_order: usize,
    /// Number of chunks below the highest score. If 0, as on a device that was written at random, a non-sequential
    /// write changes nothing. The look-up, which would miss the CPU cache, is then skipped.
    mendable: usize,
    /// End of the latest write of each sequential stream, by a hash of its chunk.
    ends: [u64; 1 << STREAMS_LOG2],
}

impl Sequentiality {
    pub(super) fn new(logical_pages: u64) -> Self {
        let chunks = logical_pages.div_ceil(1 << PAGES_LOG2) as usize;
        Self {
            scores: Arc::new(vec![0; chunks]),
            in_order: chunks,
            mendable: chunks,
            ends: [u64::MAX; 1 << STREAMS_LOG2],
        }
    }

    /// Marks all chunks that overlap a range as not sequential.
    pub(super) fn scatter(&mut self, lpns: &std::ops::Range<u64>) {
        if !lpns.is_empty() {
            let first = (lpns.start >> PAGES_LOG2) as usize;
            let last = ((lpns.end - 1) >> PAGES_LOG2) as usize;
            Arc::make_mut(&mut self.scores)[first..=last].fill(u8::MAX);
            self.in_order = self.scores.iter().filter(|&&s| s < SCATTERED_FROM).count();
            self.mendable = self.scores.iter().filter(|&&s| s < u8::MAX).count();
        }
    }

    #[inline]
    fn stream(lpn: u64) -> usize {
        ((lpn >> PAGES_LOG2).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - STREAMS_LOG2)) as usize
    }

    #[inline]
    pub(super) fn write(&mut self, lpn: u64) {
        let in_order = self.ends[Self::stream(lpn.wrapping_sub(1))] == lpn;
        self.ends[Self::stream(lpn)] = lpn + 1;
        if self.mendable == 0 && !in_order {
            return;
        }
        let score = &mut Arc::make_mut(&mut self.scores)[(lpn >> PAGES_LOG2) as usize];
        let (more, less) = (score.saturating_add(OUT_OF_ORDER), score.saturating_sub(1));
        let next = if in_order { less } else { more };
        self.in_order += usize::from(next < SCATTERED_FROM);
        self.in_order -= usize::from(*score < SCATTERED_FROM);
        self.mendable += usize::from(next < u8::MAX);
        self.mendable -= usize::from(*score < u8::MAX);
        *score = next;
    }

    #[inline]
    pub(super) fn sequential(&self, lpn: u64) -> bool {
        self.in_order > 0 && self.scores[(lpn >> PAGES_LOG2) as usize] < SCATTERED_FROM
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.scores.capacity()
    }

    pub(super) fn scores(&self) -> &[u8] {
        &self.scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    const PAGES: u64 = 64 * 256;

    fn sequential(chunks: &Sequentiality) -> usize {
        (0..64).filter(|chunk| chunks.sequential(chunk * 256)).count()
    }

    #[test]
    fn an_eighth_out_of_order_scatters_and_one_pass_in_order_mends() {
        let mut chunks = Sequentiality::new(PAGES);
        for i in 0..32 {
            assert!(chunks.sequential(300), "{i}");
            chunks.write(256 + i * 101 % 256);
        }
        assert!(!chunks.sequential(300));
        assert_eq!(sequential(&chunks), 63);
        chunks.scatter(&(0..PAGES));
        assert_eq!(sequential(&chunks), 0);
        for lpn in 512..768 {
            chunks.write(lpn);
        }
        assert_eq!(sequential(&chunks), 1);
        assert!(chunks.sequential(512));
    }

    /// Checks that several concurrent sequential streams are detected, at any distance from each other.
    #[test]
    fn interleaved_streams_are_in_order() {
        let mut chunks = Sequentiality::new(PAGES);
        chunks.scatter(&(0..PAGES));
        for i in 0..PAGES / 16 {
            for writer in 0..16 {
                chunks.write(writer * PAGES / 16 + i);
            }
        }
        assert!(sequential(&chunks) > 56, "{}", sequential(&chunks));
    }

    #[test]
    fn short_random_writes_scatter_and_long_ones_do_not() {
        let mut rng = stream(1, "test", 0);
        for (length, scattered) in [(1, true), (2, true), (8, false), (32, false)] {
            let mut chunks = Sequentiality::new(PAGES);
            for _ in 0..8 * PAGES / length {
                let start = below(&mut rng, PAGES / length) * length;
                (start..start + length).for_each(|lpn| chunks.write(lpn));
            }
            let count = sequential(&chunks);
            assert_eq!(count, if scattered { 0 } else { 64 }, "{length}");
        }
    }
}
