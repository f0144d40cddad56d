//! Verifiable content: units of bytes that contain their address, their writer, the generation of the write, and a
//! checksum. `docs/formats/verifiable.md` is the layout's specification.
//!
//! The module is in this crate because the crates that write the content (`workload`, `drive`) and the one that only
//! recognises it on a device (`targets`) may not import each other. A check reads a single unit. Only a caller that
//! counts the writes knows whether the unit holds the *latest* write to its address.

mod check;

pub use check::{Flaw, Part, check};

use crate::rng::{random_words, splitmix64};

/// Sector size, bytes: the smallest atomic write of a device. A unit can tear only at a multiple of it.
pub const SECTOR_BYTES: usize = 512;
/// Magic number at the start of a unit in layout version 2.
const MAGIC_2: [u8; 8] = *b"iodynoV2";
/// Magic number of layout version 1, which is still read but no longer written.
const MAGIC_1: [u8; 8] = *b"iodynoV1";
const HEADER_BYTES: usize = 32;

/// Identifies one write to a unit of verifiable content. Later writes compare as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId {
    /// Run that wrote the unit; see [`Mark::writer`].
    pub writer: u64,
    /// Sequence number of the write among this writer's writes to the unit, from 1; see [`Mark::generation`].
    pub generation: u32,
}

/// Header of a unit of verifiable content. A unit is a block with its own header and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Version of the layout, 1 or 2.
    pub version: u8,
    /// Offset of the unit from the start of the target, bytes.
    pub offset_bytes: u64,
    /// Identifier of the run that wrote the unit. In version 2, the run's start time, ns since 1970, plus the index of
    /// the target in the run. In version 1, the run's seed.
    pub writer: u64,
    /// Number of times that this writer has written this unit, including this write: 1 for the first.
    pub generation: u32,
    /// Length of the whole unit including the header, bytes.
    pub len_bytes: u32,
}

impl Mark {
    /// Parses the header at the start of `bytes`; `None` if there is none. A valid header does not prove that the
    /// unit is intact; use [`check`].
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let version = match bytes.first_chunk::<8>() {
            Some(&MAGIC_2) => 2,
            Some(&MAGIC_1) => 1,
            _ => return None,
        };
        Some(Self::of_version(bytes, version))
    }

    /// Parses a header of the given layout version without checking its magic number.
    fn of_version(bytes: &[u8], version: u8) -> Self {
        Self {
            version,
            offset_bytes: u64_at(bytes, 8),
            writer: u64_at(bytes, 16),
            generation: u32_at(bytes, 24),
            len_bytes: u32_at(bytes, 28),
        }
    }
}

/// Fills a buffer with the verifiable content of one unit: header, body, identifiers at the ends of sectors,
/// and checksum.
///
/// # Panics
/// If the unit's length is 0 or not a multiple of 512 bytes.
pub fn fill(unit: &mut [u8], offset_bytes: u64, writer: u64, generation: u32) {
    fill_version(unit, offset_bytes, writer, generation, 2);
}

fn fill_version(unit: &mut [u8], offset_bytes: u64, writer: u64, generation: u32, version: u8) {
    assert!(!unit.is_empty() && unit.len().is_multiple_of(SECTOR_BYTES), "{} bytes", unit.len());
    let len = unit.len();
    unit[..8].copy_from_slice(if version == 1 { &MAGIC_1 } else { &MAGIC_2 });
    unit[8..16].copy_from_slice(&offset_bytes.to_le_bytes());
    unit[16..24].copy_from_slice(&writer.to_le_bytes());
    unit[24..28].copy_from_slice(&generation.to_le_bytes());
    unit[28..32].copy_from_slice(&(len as u32).to_le_bytes());
    let key = splitmix64(splitmix64(writer ^ splitmix64(offset_bytes)) ^ u64::from(generation));
    random_words(&mut unit[HEADER_BYTES..len - 8], key);
    if version == 1 {
        unit[len - 8..len - 4].copy_from_slice(&generation.to_le_bytes());
    } else {
        for sector in unit.chunks_exact_mut(SECTOR_BYTES) {
            sector[496..504].copy_from_slice(&writer.to_le_bytes());
            sector[504..508].copy_from_slice(&generation.to_le_bytes());
        }
    }
    let checksum = crc32c(&unit[..len - 4]);
    unit[len - 4..].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether `bytes`, read from `offset_bytes` of a target, begin with an intact unit that iodyno wrote at this
/// offset. Does not allocate, and computes a checksum only if there is a header.
pub fn is_written_here(bytes: &[u8], offset_bytes: u64) -> bool {
    Mark::read(bytes).is_some_and(|mark| {
        let unit = bytes.get(..mark.len_bytes as usize);
        unit.is_some_and(|unit| mark.offset_bytes == offset_bytes && is_whole(unit))
    })
}

/// Whether the checksum at the end of a unit matches its content.
fn is_whole(unit: &[u8]) -> bool {
    let len = unit.len();
    len >= SECTOR_BYTES
        && len.is_multiple_of(SECTOR_BYTES)
        && crc32c(&unit[..len - 4]) == u32_at(unit, len - 4)
}

fn u32_at(unit: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&unit[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(unit: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&unit[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// CRC-32C (Castagnoli), as in iSCSI.
fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests;
