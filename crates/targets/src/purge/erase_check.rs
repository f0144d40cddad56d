//! Verifies a purge: a unique pattern is written to blocks spread over the target, and the blocks are read back after
//! the purge. A block that still holds its pattern was not purged.
//!
//! The pattern differs for each purge and contains the block's address, so it can't be confused with the pattern of an
//! earlier purge. Before the purge, each pattern is read back once, bypassing the page cache where possible: a pattern
//! that was never stored would be missing after any purge. Sampling gives an upper bound of the share of blocks that
//! were not purged. It can't exclude that a few blocks remain.

use rustix::io::Errno;

use iodyno_nbd::CmdFlags;
use iodyno_nbd::client::Blocking;
use iodyno_units::rng::{RngCore as _, below, stream};

use super::Verified;
use crate::aligned::AlignedBuf;
use crate::blank::PURGE_PROOF as MAGIC;
use crate::error::errno_of;
use crate::inspect::Kind;
use crate::ioctl;
use crate::open::Opened;

/// Number of sampled blocks. If none of 64 still contains its pattern, then at most 5 % of all blocks do,
/// with 95 % confidence (1 − 0.05^(1/64)).
const SAMPLES: u64 = 64;
const BLOCK_BYTES: u64 = 4096;

/// Reads and writes single blocks of a target.
pub(super) trait Blocks {
    fn write(&mut self, at_bytes: u64, from: &[u8]) -> Result<(), Errno>;
    fn read(&mut self, at_bytes: u64, to: &mut [u8]) -> Result<(), Errno>;
    /// Makes written blocks durable, and drops cached copies.
    fn settle(&mut self);
}

/// Reads and writes blocks of an open file or device for the erase check.
pub(super) struct OpenedBlocks<'a>(pub(super) &'a Opened);

impl Blocks for OpenedBlocks<'_> {
    fn write(&mut self, at_bytes: u64, from: &[u8]) -> Result<(), Errno> {
        match rustix::io::pwrite(&self.0.fd, from, at_bytes)? {
            n if n == from.len() => Ok(()),
            _ => Err(Errno::IO),
        }
    }

    fn read(&mut self, at_bytes: u64, to: &mut [u8]) -> Result<(), Errno> {
        let len = to.len();
        match rustix::io::pread(&self.0.fd, to, at_bytes)? {
            n if n == len => Ok(()),
            _ => Err(Errno::IO),
        }
    }

    fn settle(&mut self) {
        // Failures here show up when the blocks are read.
        let _ = rustix::fs::fdatasync(&self.0.fd);
        if self.0.inspection.kind == Kind::Block {
            let _ = ioctl::block_flush_buffers(&self.0.fd);
        } else if !self.0.direct {
            let _ = rustix::fs::fadvise(&self.0.fd, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

/// Reads and writes blocks of an NBD export for the erase check, over the export's open connection.
pub(super) struct ExportBlocks<'a>(pub(super) &'a mut Blocking);

impl Blocks for ExportBlocks<'_> {
    fn write(&mut self, at_bytes: u64, from: &[u8]) -> Result<(), Errno> {
        self.0.write(at_bytes, from, CmdFlags::NONE).map_err(|error| errno_of(&error))
    }

    fn read(&mut self, at_bytes: u64, to: &mut [u8]) -> Result<(), Errno> {
        self.0.read(at_bytes, to).map_err(|error| errno_of(&error))
    }

    fn settle(&mut self) {
        if self.0.info().flush {
            let _ = self.0.command(iodyno_nbd::Kind::Flush, CmdFlags::NONE, 0, 0);
        }
    }
}

/// Verifies an erase by sampled blocks, to which a pattern was written before the erase.
#[derive(Debug)]
pub(super) struct EraseCheck {
    nonce: u64,
    block_bytes: usize,
    /// Number of blocks chosen to be sampled.
    wanted: usize,
    /// Offsets of the blocks whose pattern could be written and read back.
    places: Vec<u64>,
}

/// Counts of sampled blocks, by their content after the erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Findings {
    kept: u32,
    zero: u32,
    changed: u32,
    unreadable: u32,
}

impl EraseCheck {
    /// Writes the pattern to sampled blocks of the first `range_bytes`. Records the offsets of the blocks from which
    /// the pattern could be read back.
    pub(super) fn write(
        blocks: &mut dyn Blocks,
        range_bytes: u64,
        align_bytes: u64,
        nonce: u64,
    ) -> Self {
        let block_bytes = BLOCK_BYTES.max(align_bytes.next_power_of_two());
        let places = spread(range_bytes / block_bytes, nonce);
        let mut check = Self {
            nonce,
            block_bytes: block_bytes as usize,
            wanted: places.len(),
            places: Vec::new(),
        };
        let mut buffer = AlignedBuf::zeroed(check.block_bytes);
        let mut places: Vec<u64> = places.iter().map(|block| block * block_bytes).collect();
        places.retain(|&at| {
            check.pattern(at, &mut buffer);
            blocks.write(at, &buffer).is_ok()
        });
        blocks.settle();
        places.retain(|&at| check.read_block(blocks, at, &mut buffer) == Some(Seen::Pattern));
        check.places = places;
        check
    }

    /// Fills a block with the pattern: magic number, nonce, address, then random numbers derived from nonce and
    /// address.
    fn pattern(&self, at_bytes: u64, block: &mut [u8]) {
        let mut random = stream(self.nonce, "purge witness", at_bytes);
        for piece in block.chunks_mut(8) {
            let number = random.next_u64().to_le_bytes();
            piece.copy_from_slice(&number[..piece.len()]);
        }
        block[..16].copy_from_slice(MAGIC);
        block[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        block[24..32].copy_from_slice(&at_bytes.to_le_bytes());
    }

    fn read_block(
        &self,
        blocks: &mut dyn Blocks,
        at_bytes: u64,
        buffer: &mut [u8],
    ) -> Option<Seen> {
        blocks.read(at_bytes, buffer).ok()?;
        let mut expected = vec![0; buffer.len()];
        self.pattern(at_bytes, &mut expected);
        // Even one surviving sector means that content survived.
        let half = buffer.chunks(512).zip(expected.chunks(512)).any(|(a, b)| a == b);
        Some(match (half, buffer.iter().all(|&byte| byte == 0)) {
            (true, _) => Seen::Pattern,
            (false, true) => Seen::Zeroes,
            (false, false) => Seen::Other,
        })
    }

    /// Reads the sampled blocks after the erase. Returns the verdict, and the findings as a sentence.
    pub(super) fn verify(&self, blocks: &mut dyn Blocks) -> (Verified, String) {
        blocks.settle();
        let mut findings = Findings::default();
        let mut buffer = AlignedBuf::zeroed(self.block_bytes);
        for &at in &self.places {
            match self.read_block(blocks, at, &mut buffer) {
                Some(Seen::Pattern) => findings.kept += 1,
                Some(Seen::Zeroes) => findings.zero += 1,
                Some(Seen::Other) => findings.changed += 1,
                None => findings.unreadable += 1,
            }
        }
        findings.judge(self.wanted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Pattern,
    Zeroes,
    Other,
}

impl Findings {
    /// Derives the verdict. The verdict is unknown if most of the `wanted` blocks could not be written before the
    /// purge, as in zones that must be written in order: the remaining blocks are too few to prove an erase.
    fn judge(self, wanted: usize) -> (Verified, String) {
        let all = self.kept + self.zero + self.changed + self.unreadable;
        let few = all == 0 || 2 * (all as usize) < wanted;
        let mut words = Vec::new();
        for (count, what) in [
            (self.kept, "still hold their old data"),
            (self.zero, "read as zeroes"),
            (self.changed, "read as other data"),
            (self.unreadable, "could not be read"),
        ] {
            if count > 0 {
                words.push(format!("{count} {what}"));
            }
        }
        let verified = if self.kept > 0 {
            Verified::No
        } else if few || self.unreadable > 0 {
            Verified::Unknown
        } else {
            Verified::Yes
        };
        let text = if all == 0 {
            "No block could be sampled before the purge, so nothing could be compared after it."
                .to_owned()
        } else if few {
            format!(
                "Only {all} of {wanted} blocks could be written with a test pattern before the \
                 purge, too few to prove an erase; of these {}.",
                words.join(", ")
            )
        } else {
            format!("Of {all} sampled blocks {}.", words.join(", "))
        };
        (verified, text)
    }
}

/// Indices of the blocks to sample: the first, the last, and a random one from each equal part between, or all if there
/// are few. Ascending, without duplicates.
fn spread(blocks: u64, nonce: u64) -> Vec<u64> {
    if blocks <= SAMPLES {
        return (0..blocks).collect();
    }
    let mut random = stream(nonce, "purge sample", 0);
    let inner = SAMPLES - 2;
    let edge = |i: u64| 1 + (u128::from(blocks - 2) * u128::from(i) / u128::from(inner)) as u64;
    let between = (0..inner).map(|i| edge(i) + below(&mut random, edge(i + 1) - edge(i)));
    let mut places: Vec<u64> = core::iter::once(0).chain(between).collect();
    places.push(blocks - 1);
    places
}

#[cfg(test)]
#[path = "erase_check_tests.rs"]
mod tests;
