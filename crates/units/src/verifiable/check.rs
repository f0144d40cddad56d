//! Checks one unit of verifiable content, and diagnoses any deviation from the expected content.

use super::{MAGIC_1, Mark, SECTOR_BYTES, WriteId, fill_version, is_whole, u32_at, u64_at};
use core::fmt;

/// A unit with a bad checksum counts as damaged, rather than foreign, if at least 1 in `OURS_MIN` of its
/// bytes match a write.
const OURS_MIN: usize = 4;

/// The write that produced a part of a torn unit; `None` if the part is all zeros.
pub type Part = Option<WriteId>;

/// Reason why a unit of verifiable content (a block with checksum and address) is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The unit is all zeroes. It was never written, or was discarded or lost.
    Zeroed,
    /// The unit holds other data: nothing identifies it as verifiable content.
    Foreign {
        /// First 8 bytes of the unit.
        first_bytes: [u8; 8],
    },
    /// The unit contains data that was written for another address.
    Misdirected {
        /// Header of the data that was written for another address.
        mark: Mark,
        /// Offset of this header within the unit, bytes; above 0 if content was shifted by whole sectors.
        at_byte: usize,
    },
    /// The unit's sectors come from different writes, or some are zeroes.
    Torn {
        /// Write that produced the first sectors; `None` if they are zeroes.
        head: Part,
        /// Write that produced the sector at `at_byte`, where the unit is torn; `None` if that sector is zeroes.
        tail: Part,
        /// Offset within the unit of the first sector that comes from another write, bytes.
        at_byte: usize,
    },
    /// Some bytes of the unit differ from those written.
    Damaged {
        /// Offset of the first differing byte within the unit.
        first_byte: usize,
        /// Number of bytes of the unit that differ from those written.
        bytes: usize,
    },
    /// The checked bytes were written in units of another length. They are the beginning of a longer unit, or intact
    /// shorter units have overwritten a part of them. The rest of the bytes can't be checked.
    OtherLength {
        /// Header of the longer unit, or of the latest of the shorter units.
        mark: Mark,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeroed => f.write_str("all zeroes: discarded, lost, or never written"),
            Self::Foreign { first_bytes } => {
                write!(f, "not verifiable content (it begins with ")?;
                for byte in first_bytes {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str(")")
            }
            Self::Misdirected { mark, at_byte: 0 } => {
                write!(f, "misdirected: written for byte {}", mark.offset_bytes)
            }
            Self::Misdirected { mark, at_byte } => write!(
                f,
                "misdirected: content for byte {} begins at byte {at_byte} of the unit",
                mark.offset_bytes
            ),
            Self::Torn { head, tail, at_byte } => {
                let words = |part: &Part| match part {
                    None => "zeroes".to_owned(),
                    Some(write) => format!("generation {}", write.generation),
                };
                let by = match (head, tail) {
                    (Some(a), Some(b)) if a.writer != b.writer => " of another run",
                    _ => "",
                };
                let (head, tail) = (words(head), words(tail));
                write!(f, "torn: {head} up to byte {at_byte} of the unit, then {tail}{by}")
            }
            Self::Damaged { first_byte, bytes } => write!(
                f,
                "damaged: {bytes} {} differ, the first is byte {first_byte} of the unit",
                if *bytes == 1 { "byte" } else { "bytes" }
            ),
            Self::OtherLength { mark } => write!(
                f,
                "the unit contains data that was written in units of {} bytes (generation {}): the rest can't be checked",
                mark.len_bytes, mark.generation
            ),
        }
    }
}

impl core::error::Error for Flaw {}

/// Checks one unit that was read from `offset_bytes`, and returns its header. If the unit begins with a shorter unit,
/// the whole unit is checked as a row of units of that length, and the first header is returned.
///
/// # Errors
/// The flaw that was found. If several shorter units are flawed, the first flaw other than [`Flaw::Zeroed`] and
/// [`Flaw::Foreign`], or else the first flaw.
///
/// # Panics
/// If the unit's length is 0 or not a multiple of 512 bytes.
pub fn check(unit: &[u8], offset_bytes: u64) -> Result<Mark, Flaw> {
    assert!(!unit.is_empty() && unit.len().is_multiple_of(SECTOR_BYTES), "{} bytes", unit.len());
    let Some(mark) = Mark::read(unit) else { return Err(diagnose(unit, offset_bytes)) };
    let len_bytes = mark.len_bytes as usize;
    if len_bytes == unit.len() {
        if !is_whole(unit) {
            return Err(diagnose(unit, offset_bytes));
        }
        if mark.offset_bytes != offset_bytes {
            return Err(Flaw::Misdirected { mark, at_byte: 0 });
        }
        return Ok(mark);
    }
    if len_bytes < unit.len()
        && len_bytes >= SECTOR_BYTES
        && len_bytes.is_multiple_of(SECTOR_BYTES)
        && unit.len().is_multiple_of(len_bytes)
        && (is_whole(&unit[..len_bytes])
            || (1..unit.len() / len_bytes).any(|i| Mark::read(&unit[i * len_bytes..]).is_some()))
    {
        let shorter = unit.chunks_exact(len_bytes).enumerate();
        let flaws = shorter
            .filter_map(|(i, unit)| check(unit, offset_bytes + (i * len_bytes) as u64).err());
        let bears_none = |flaw: &Flaw| matches!(flaw, Flaw::Zeroed | Flaw::Foreign { .. });
        return flaws.min_by_key(bears_none).map_or(Ok(mark), Err);
    }
    let is_longer = len_bytes > unit.len() && len_bytes.is_multiple_of(SECTOR_BYTES);
    if is_longer && mark.offset_bytes == offset_bytes {
        return Err(Flaw::OtherLength { mark });
    }
    Err(diagnose(unit, offset_bytes))
}

/// Determines the flaw of a unit that has no valid header or a wrong checksum.
#[cold]
fn diagnose(unit: &[u8], offset_bytes: u64) -> Flaw {
    if unit.iter().all(|&byte| byte == 0) {
        return Flaw::Zeroed;
    }
    let mut first_bytes = [0; 8];
    first_bytes.copy_from_slice(&unit[..8]);
    if let Some(mark) = latest_shorter(unit, offset_bytes) {
        return Flaw::OtherLength { mark };
    }
    let writes = possible_writes(unit, offset_bytes);
    if writes.is_empty() {
        return shifted(unit, offset_bytes).unwrap_or(Flaw::Foreign { first_bytes });
    }
    let expected: Vec<Vec<u8>> =
        writes.iter().map(|w| w.content(unit.len(), offset_bytes)).collect();
    // The write of each sector: Some(None) for zeroes, None if no candidate matches.
    let sectors: Vec<Option<Part>> = unit
        .chunks_exact(SECTOR_BYTES)
        .enumerate()
        .map(|(i, sector)| {
            let at = i * SECTOR_BYTES;
            if sector.iter().all(|&byte| byte == 0) {
                return Some(None);
            }
            let same = |e: &Vec<u8>| e[at..at + SECTOR_BYTES] == *sector;
            let of = expected.iter().position(same)?;
            let Write { writer, generation, .. } = writes[of];
            Some(Some(WriteId { writer, generation }))
        })
        .collect();
    if let Some(parts) = sectors.iter().copied().collect::<Option<Vec<Part>>>() {
        let change = parts.iter().position(|part| *part != parts[0]);
        // If all sectors came from one write, the checksum in the last one would be right.
        if let Some(change) = change {
            let (head, tail) = (parts[0], parts[change]);
            return Flaw::Torn { head, tail, at_byte: change * SECTOR_BYTES };
        }
    }
    let is_ours = sectors.iter().flatten().any(Option::is_some);
    let differing = |expected: &Vec<u8>| {
        let mut wrong = unit.iter().zip(expected).enumerate().filter(|(_, (a, b))| a != b);
        let (first, _) = wrong.next()?;
        Some((1 + wrong.count(), first))
    };
    let fewest = expected.iter().filter_map(differing).min();
    match fewest {
        Some((bytes, first_byte)) if is_ours || bytes <= unit.len() - unit.len() / OURS_MIN => {
            Flaw::Damaged { first_byte, bytes }
        }
        _ => shifted(unit, offset_bytes).unwrap_or(Flaw::Foreign { first_bytes }),
    }
}

/// A write that may have produced the unit or some of its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    version: u8,
    writer: u64,
    generation: u32,
}

impl Write {
    fn content(&self, len: usize, offset_bytes: u64) -> Vec<u8> {
        let mut unit = vec![0; len];
        fill_version(&mut unit, offset_bytes, self.writer, self.generation, self.version);
        unit
    }
}

/// Lists the writes identified in the header and at the ends of the sectors. If the header is for this address, all
/// identifiers are trusted. Otherwise, only identifiers that occur at least twice are trusted, because random bytes
/// hardly repeat.
fn possible_writes(unit: &[u8], offset_bytes: u64) -> Vec<Write> {
    let head = Mark::of_version(unit, if unit.starts_with(&MAGIC_1) { 1 } else { 2 });
    let has_header = head.offset_bytes == offset_bytes
        || Mark::read(unit).is_some_and(|mark| mark.offset_bytes == offset_bytes);
    let of_head = Write { version: head.version, writer: head.writer, generation: head.generation };
    let mut writes = Vec::new();
    if has_header {
        writes.push(of_head);
    }
    if head.version == 1 {
        // The generation is repeated at the end.
        let generation = u32_at(unit, unit.len() - 8);
        if has_header && generation != head.generation {
            writes.push(Write { generation, ..of_head });
        }
        return writes;
    }
    let mut named: Vec<Write> = unit
        .chunks_exact(SECTOR_BYTES)
        .map(|sector| Write {
            version: 2,
            writer: u64_at(sector, 496),
            generation: u32_at(sector, 504),
        })
        .filter(|write| write.writer != 0)
        .collect();
    // A single sector is trusted if the header is ours.
    if !has_header {
        named.push(of_head);
        let all = named.clone();
        named.retain(|write| all.iter().filter(|other| *other == write).count() > 1);
    }
    for write in named {
        if !writes.contains(&write) {
            writes.push(write);
        }
    }
    writes
}

/// Finds intact shorter units at their proper addresses within the unit. Returns the header of the latest one; `None`
/// if there is none.
fn latest_shorter(unit: &[u8], offset_bytes: u64) -> Option<Mark> {
    let at = (0..unit.len()).step_by(SECTOR_BYTES);
    let marks = at.filter_map(|at| {
        let mark = Mark::read(&unit[at..])?;
        let len_bytes = mark.len_bytes as usize;
        let fits = len_bytes.is_multiple_of(SECTOR_BYTES)
            && (SECTOR_BYTES..unit.len()).contains(&len_bytes)
            && at + len_bytes <= unit.len();
        let is_here = mark.offset_bytes == offset_bytes + at as u64;
        (fits && is_here && is_whole(&unit[at..at + len_bytes])).then_some(mark)
    });
    // In version 1 the writer is a seed, not a time: such units count as the oldest.
    let rank = |m: &Mark| (m.version, if m.version == 1 { 0 } else { m.writer }, m.generation);
    marks.max_by_key(rank)
}

/// Searches the start of each sector for a header for another address, left by a misdirected or shifted
/// write.
fn shifted(unit: &[u8], offset_bytes: u64) -> Option<Flaw> {
    unit.chunks_exact(SECTOR_BYTES).enumerate().find_map(|(i, sector)| {
        let at_byte = i * SECTOR_BYTES;
        let mark = Mark::read(sector)?;
        let is_elsewhere = mark.offset_bytes != offset_bytes + at_byte as u64;
        is_elsewhere.then_some(Flaw::Misdirected { mark, at_byte })
    })
}
