//! The filler of one worker: prepares its buffers and stamps them before each write.

use core::cell::Cell;

use iodyno_units::Op;
use iodyno_units::mark::{MARK_BYTES, MARKED_BYTES, mark};
use iodyno_units::rng::{self, Generator, RngCore as _, below, random_words, splitmix64};
use iodyno_units::verifiable;

use crate::spec::{Content, Percent, Spec};

/// Size of the blocks that are made unique or duplicated, bytes.
const PIECE_BYTES: usize = 4096;
/// Number of distinct 4 KiB blocks from which duplicates are chosen.
const REPEATED_PIECES: u64 = 64;

/// Generates the content of one worker's writes.
#[derive(Debug)]
pub struct Filler {
    content: Content,
    seed: u64,
    unit_bytes: usize,
    /// Base key of this worker's random bytes. Adding a counter makes each buffer and each 4 KiB block different.
    key: u64,
    buffers: Cell<u64>,
    stamps: u64,
    compressible: Percent,
    repeats: Option<Repeats>,
}

/// Source of duplicate blocks for deduplicable content. All workers of a run have the same blocks.
#[derive(Debug)]
struct Repeats {
    rng: Generator,
    /// Threshold: a block is a duplicate if a random 64-bit number is below this.
    below: u64,
    pieces: Box<[u8]>,
    /// Content mark at the start of every duplicate block. It shows that a buffer still contains a duplicate, which
    /// the next unique write must replace.
    mark: [u8; MARK_BYTES],
}

impl Filler {
    /// Creates the filler of worker number `worker`, counted from 0.
    pub fn new(spec: &Spec, seed: u64, worker: u32) -> Self {
        let (compressible, dedupable) = match spec.content() {
            Content::Compressible { compressible, dedupable } => (compressible, dedupable),
            Content::Incompressible | Content::Verifiable | Content::Zeroes => {
                (Percent::ZERO, Percent::ZERO)
            }
        };
        let repeats = (dedupable > Percent::ZERO).then(|| {
            let mark = mark(rng::key(seed, "repeated", 0));
            let mut pieces = vec![0; REPEATED_PIECES as usize * PIECE_BYTES].into_boxed_slice();
            for (i, piece) in pieces.as_chunks_mut::<PIECE_BYTES>().0.iter_mut().enumerate() {
                fill_piece(piece, rng::key(seed, "repeated", 1 + i as u64), compressible);
                piece[..MARK_BYTES].copy_from_slice(&mark);
            }
            Repeats {
                rng: rng::stream(seed, "repeat", worker.into()),
                below: (dedupable.fraction() * 18_446_744_073_709_551_616.0) as u64,
                pieces,
                mark,
            }
        });
        Self {
            content: spec.content(),
            seed,
            unit_bytes: spec.verify_unit_bytes() as usize,
            key: rng::key(seed, "content", worker.into()),
            buffers: Cell::new(0),
            stamps: 0,
            compressible,
            repeats,
        }
    }

    /// Fills a buffer for writes, with different bytes in each call. Must be called once for each
    /// whole buffer, before the first [`stamp`](Self::stamp).
    pub fn prepare(&self, buffer: &mut [u8]) {
        if matches!(self.content, Content::Zeroes | Content::Verifiable) {
            // Verifiable content depends on the address, so it is generated for each write.
            buffer.fill(0);
            return;
        }
        let number = self.buffers.get();
        self.buffers.set(number + 1);
        let key = splitmix64(self.key ^ splitmix64(number));
        for (i, piece) in buffer.chunks_mut(PIECE_BYTES).enumerate() {
            fill_piece(piece, splitmix64(key.wrapping_add(i as u64)), self.compressible);
        }
    }

    /// Makes a prepared buffer, or the part of it to be written, unique for the write `op`.
    ///
    /// Verifiable content gets generation 1, with the seed as its writer. A caller that tracks the
    /// generations of its target calls [`verifiable::fill`] itself.
    #[inline]
    pub fn stamp(&mut self, buffer: &mut [u8], op: &Op) {
        match self.content {
            Content::Zeroes => {}
            Content::Verifiable => {
                let mut offset_bytes = op.offset_bytes;
                for unit in buffer.chunks_exact_mut(self.unit_bytes) {
                    verifiable::fill(unit, offset_bytes, self.seed, 1);
                    offset_bytes += unit.len() as u64;
                }
            }
            Content::Incompressible | Content::Compressible { .. } if self.repeats.is_none() => {
                for piece in buffer.chunks_mut(PIECE_BYTES) {
                    self.stamps += 1;
                    stamp_piece(piece, self.key.wrapping_add(self.stamps));
                }
            }
            Content::Incompressible | Content::Compressible { .. } => self.stamp_or_repeat(buffer),
        }
    }

    fn stamp_or_repeat(&mut self, buffer: &mut [u8]) {
        let Some(repeats) = &mut self.repeats else { return };
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            if repeats.rng.next_u64() < repeats.below {
                let from = below(&mut repeats.rng, REPEATED_PIECES) as usize * PIECE_BYTES;
                piece.copy_from_slice(&repeats.pieces[from..from + piece.len()]);
                continue;
            }
            self.stamps += 1;
            let key = self.key.wrapping_add(self.stamps);
            if piece.starts_with(&repeats.mark) {
                // A stamp alone would leave the rest of a repeated piece.
                fill_piece(piece, splitmix64(key), self.compressible);
            }
            stamp_piece(piece, key);
        }
    }
}

/// Writes iodyno's content mark at the start of a block. Eight of its bytes are unique to `number`, because
/// SplitMix64 is a bijection.
#[inline]
fn stamp_piece(piece: &mut [u8], number: u64) {
    if let Some(first) = piece.first_chunk_mut::<MARK_BYTES>() {
        *first = mark(splitmix64(number));
    }
}

/// Fills a block: random bytes with the content mark in each sector, then zeroes for its compressible fraction.
fn fill_piece(piece: &mut [u8], key: u64, compressible: Percent) {
    let zeroes = compressible.of(piece.len() as u64) as usize / 8 * 8;
    let (random, zero) = piece.split_at_mut(piece.len() - zeroes);
    random_words(random, key);
    for sector in random.chunks_mut(MARKED_BYTES) {
        match sector.first_chunk_mut::<MARK_BYTES>() {
            Some(start) => *start = mark(u64::from_le_bytes(start[..8].try_into().expect("eight"))),
            None => sector.fill(0),
        }
    }
    zero.fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::OpKind;
    use iodyno_units::mark::is_marked;
    use std::collections::HashSet;

    const WRITE: Op = Op { offset_bytes: 0, len_bytes: 65_536, kind: OpKind::Write, fua: false };

    fn filler(content: &str, worker: u32) -> Filler {
        let spec = Spec::from_toml("schema = 1\nblock = \"64KiB\"\nmix = { write = 1 }").unwrap();
        Filler::new(&spec.with_content(content.parse().unwrap()).unwrap(), 11, worker)
    }

    /// Content of `writes` consecutive writes of 64 KiB, which use `buffers` buffers in turn.
    fn written(content: &str, worker: u32, buffers: usize, writes: usize) -> Vec<u8> {
        let mut filler = filler(content, worker);
        let mut pool = vec![vec![0; 65_536]; buffers];
        for buffer in &mut pool {
            filler.prepare(buffer);
        }
        let mut all = Vec::new();
        for i in 0..writes {
            let buffer = &mut pool[i % buffers];
            filler.stamp(buffer, &WRITE);
            all.extend_from_slice(buffer);
        }
        all
    }

    /// Compressed size as a fraction of the content, with LZ4 and with deflate.
    /// Each 64 KiB write is compressed alone.
    fn ratios(written: &[u8]) -> [f64; 2] {
        let (mut lz4, mut deflate) = (0, 0);
        for write in written.chunks(65_536) {
            lz4 += lz4_flex::compress(write).len();
            deflate += miniz_oxide::deflate::compress_to_vec(write, 6).len();
        }
        [lz4, deflate].map(|bytes| bytes as f64 / written.len() as f64)
    }

    #[test]
    fn compressors_find_the_requested_share() {
        for (content, left) in [
            ("incompressible", 1.0),
            ("compressible=25%", 0.75),
            ("compressible=50%", 0.5),
            ("compressible=90%", 0.1),
            ("dedupable=50%", 1.0),
            ("compressible=50%,dedupable=20%", 0.5),
        ] {
            for ratio in ratios(&written(content, 0, 4, 10)) {
                // Headers, and the few pieces that one write contains twice, are within 3 %.
                assert!((ratio - left).abs() < 0.03, "{content}: {ratio:.3} left, not {left}");
            }
        }
        assert_eq!(written("zeroes", 0, 2, 4), vec![0; 4 * 65_536]);
    }

    #[test]
    fn no_piece_is_written_twice_unless_requested() {
        for content in ["incompressible", "compressible=95%"] {
            let mut seen = HashSet::new();
            for worker in 0..3 {
                for piece in written(content, worker, 2, 60).chunks(PIECE_BYTES) {
                    assert!(seen.insert(piece.to_vec()), "{content}");
                }
            }
        }
    }

    /// Every sector is marked as iodyno's content or is zero. The 4 KiB blocks of a write count from the write's
    /// start, even if its size is not a multiple of 4 KiB.
    #[test]
    fn every_sector_is_marked_or_zero() {
        let contents = ["incompressible", "compressible=95%", "compressible=50%", "dedupable=30%"];
        for content in contents {
            for sector in written(content, 1, 2, 60).chunks(MARKED_BYTES) {
                assert!(is_marked(sector) || sector.iter().all(|&b| b == 0), "{content}");
            }
            let mut filler = filler(content, 0);
            let mut buffer = vec![0; 65_536];
            filler.prepare(&mut buffer);
            let op = Op { len_bytes: 6144, ..WRITE };
            for _ in 0..100 {
                filler.stamp(&mut buffer[..6144], &op);
                assert!(is_marked(&buffer) && is_marked(&buffer[4096..]), "{content}");
            }
        }
    }

    #[test]
    fn the_dedupable_share_repeats_over_all_workers() {
        let mut counts = std::collections::HashMap::new();
        for worker in 0..4 {
            for piece in written("dedupable=30%", worker, 1, 100).chunks(PIECE_BYTES) {
                *counts.entry(piece.to_vec()).or_insert(0) += 1;
            }
        }
        let repeated: Vec<u32> = counts.values().copied().filter(|&count| count > 1).collect();
        assert_eq!(repeated.len() as u64, REPEATED_PIECES);
        let share = f64::from(repeated.iter().sum::<u32>()) / 6400.0;
        // Five standard deviations of a binomial: 0.029.
        assert!((share - 0.3).abs() < 0.029, "{share}");
    }

    #[test]
    fn buffers_and_runs_are_reproducible() {
        assert_eq!(written("dedupable=30%", 2, 3, 20), written("dedupable=30%", 2, 3, 20));
        // Other buffers and workers have other bytes; of 65,536 independent draws, 256 agree.
        let alike = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        let [first, second] = [0, 1].map(|worker| written("incompressible", worker, 2, 2));
        assert!(alike(&first, &second) < 1000);
        assert!(alike(&first[..65_536], &first[65_536..]) < 500);
    }
}
