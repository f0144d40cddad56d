//! Content that can be checked: each unit says where it belongs, which write it is of, and that
//! it is whole. `docs/formats/verifiable.md` is the layout's specification.
//!
//! What a check alone can't know is whether a unit is the *latest* that was written there: it
//! returns the generation, and whoever counts the writes compares.

use core::fmt;

use iodyno_units::rng::splitmix64;

use super::random_words;

/// How a unit begins; the last character is the layout's version.
const MAGIC: [u8; 8] = *b"iodynoV1";
const HEADER_BYTES: usize = 32;
const TRAILER_BYTES: usize = 8;
/// The least that a device writes as a whole, in bytes: where a torn unit breaks.
const SECTOR_BYTES: usize = 512;

/// Why a unit is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// All zeroes: never written, discarded, or lost.
    Unwritten,
    /// Something else than verifiable content of this version.
    Foreign {
        /// How it begins.
        first_bytes: [u8; 8],
    },
    /// Whole, but written with another seed: by another run.
    OtherSeed {
        /// The seed that it says.
        seed: u64,
    },
    /// Whole, but written for another address.
    Misdirected {
        /// The byte offset that it says.
        offset_bytes: u64,
    },
    /// The first part is of one write and the rest of another.
    Torn {
        /// Generation of the first part.
        head: u32,
        /// Generation of the rest.
        tail: u32,
        /// Where the rest starts, in bytes from the unit's start.
        at_byte: usize,
    },
    /// Some bytes differ from what was written.
    Damaged {
        /// The first that differs, from the unit's start.
        first_byte: usize,
        /// How many differ.
        bytes: usize,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwritten => f.write_str("all zeroes: never written, discarded or lost"),
            Self::Foreign { first_bytes } => {
                write!(f, "not verifiable content (it begins with ")?;
                for byte in first_bytes {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str(")")
            }
            Self::OtherSeed { seed } => write!(f, "written by another run, with seed {seed}"),
            Self::Misdirected { offset_bytes } => {
                write!(f, "misdirected: written for byte {offset_bytes}")
            }
            Self::Torn { head, tail, at_byte } => write!(
                f,
                "torn: generation {head} up to byte {at_byte} of the unit, generation {tail} after"
            ),
            Self::Damaged { first_byte, bytes } => write!(
                f,
                "damaged: {bytes} {} differ, the first is byte {first_byte} of the unit",
                if *bytes == 1 { "byte" } else { "bytes" }
            ),
        }
    }
}

impl core::error::Error for Corruption {}

/// Writes one unit: header, body, trailer.
///
/// # Panics
/// If the unit is no multiple of 512 bytes.
pub fn fill_verifiable(unit: &mut [u8], offset_bytes: u64, generation: u32, seed: u64) {
    assert!(!unit.is_empty() && unit.len().is_multiple_of(SECTOR_BYTES), "{} bytes", unit.len());
    let len = unit.len();
    unit[..8].copy_from_slice(&MAGIC);
    unit[8..16].copy_from_slice(&offset_bytes.to_le_bytes());
    unit[16..24].copy_from_slice(&seed.to_le_bytes());
    unit[24..28].copy_from_slice(&generation.to_le_bytes());
    unit[28..32].copy_from_slice(&(len as u32).to_le_bytes());
    let key = splitmix64(splitmix64(seed ^ splitmix64(offset_bytes)) ^ u64::from(generation));
    random_words(&mut unit[HEADER_BYTES..len - TRAILER_BYTES], key);
    unit[len - 8..len - 4].copy_from_slice(&generation.to_le_bytes());
    let checksum = crc32c(&unit[..len - 4]);
    unit[len - 4..].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks one unit that was read from `offset_bytes`, and returns its generation.
///
/// # Errors
/// What is wrong with it.
///
/// # Panics
/// If the unit is no multiple of 512 bytes.
pub fn check_verifiable(unit: &[u8], offset_bytes: u64, seed: u64) -> Result<u32, Corruption> {
    assert!(!unit.is_empty() && unit.len().is_multiple_of(SECTOR_BYTES), "{} bytes", unit.len());
    let len = unit.len();
    let head = Head::read(unit);
    if crc32c(&unit[..len - 4]) != u32_at(unit, len - 4) {
        return Err(diagnose(unit, &head, offset_bytes, seed));
    }
    if head.magic != MAGIC || head.len_bytes as usize != len {
        return Err(Corruption::Foreign { first_bytes: head.magic });
    }
    if head.seed != seed {
        return Err(Corruption::OtherSeed { seed: head.seed });
    }
    if head.offset_bytes != offset_bytes {
        return Err(Corruption::Misdirected { offset_bytes: head.offset_bytes });
    }
    Ok(head.generation)
}

/// Why the checksum is wrong.
#[cold]
fn diagnose(unit: &[u8], head: &Head, offset_bytes: u64, seed: u64) -> Corruption {
    if unit.iter().all(|&byte| byte == 0) {
        return Corruption::Unwritten;
    }
    // A damaged magic number does not make a unit foreign if the rest of its header is ours.
    if head.magic != MAGIC && (head.offset_bytes, head.seed) != (offset_bytes, seed) {
        return Corruption::Foreign { first_bytes: head.magic };
    }
    // The generation stands at both ends: one of them may be what is damaged.
    let tail = u32_at(unit, unit.len() - 8);
    let [as_head, as_tail] = [head.generation, tail].map(|generation| {
        let mut expected = vec![0; unit.len()];
        fill_verifiable(&mut expected, offset_bytes, generation, seed);
        expected
    });
    let differing = |expected: &[u8], from: usize| {
        let pairs = unit.iter().zip(expected).enumerate().skip(from);
        let mut wrong = pairs.filter(|(_, (a, b))| a != b).map(|(at, _)| at);
        wrong.next().map(|first| (first, 1 + wrong.count()))
    };
    let (by_head, by_tail) = (differing(&as_head, 0), differing(&as_tail, 0));
    if let Some((first, _)) = by_head
        && head.generation != tail
        && first >= SECTOR_BYTES
    {
        let at_byte = first / SECTOR_BYTES * SECTOR_BYTES;
        if differing(&as_tail, at_byte).is_none() {
            return Corruption::Torn { head: head.generation, tail, at_byte };
        }
    }
    let fewest = [by_head, by_tail].into_iter().flatten().min_by_key(|(_, bytes)| *bytes);
    // A wrong checksum over bytes that are all right can't be: the checksum is one of them.
    let (first_byte, bytes) = fewest.unwrap_or((0, 0));
    Corruption::Damaged { first_byte, bytes }
}

/// The header of a unit, as it was read.
struct Head {
    magic: [u8; 8],
    offset_bytes: u64,
    seed: u64,
    generation: u32,
    len_bytes: u32,
}

impl Head {
    fn read(unit: &[u8]) -> Self {
        Self {
            magic: u64_at(unit, 0).to_le_bytes(),
            offset_bytes: u64_at(unit, 8),
            seed: u64_at(unit, 16),
            generation: u32_at(unit, 24),
            len_bytes: u32_at(unit, 28),
        }
    }
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

/// CRC-32C (Castagnoli), as iSCSI has it.
fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(len: usize, offset_bytes: u64, generation: u32, seed: u64) -> Vec<u8> {
        let mut unit = vec![0xAA; len];
        fill_verifiable(&mut unit, offset_bytes, generation, seed);
        unit
    }

    /// The layout is a format: what one version wrote another must read.
    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        let unit = unit(512, 0x1234_5000, 7, 42);
        assert_eq!(&unit[..8], b"iodynoV1");
        assert_eq!(unit[8..16], 0x1234_5000_u64.to_le_bytes());
        assert_eq!(unit[16..24], 42_u64.to_le_bytes());
        assert_eq!(unit[24..32], [7, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(unit[504..508], [7, 0, 0, 0]);
        let found = (u64_at(&unit, 32), u32_at(&unit, 508));
        assert_eq!(found, PINNED, "{found:#x?}");
    }
    const PINNED: (u64, u32) = (0xc085_2a2c_8a75_70f7, 0x29db_8bfa);

    #[test]
    fn whole_units_pass_and_say_their_generation() {
        for len in [512, 4096, 12 * 512] {
            assert_eq!(check_verifiable(&unit(len, 8192, 9, 3), 8192, 3), Ok(9));
        }
    }

    #[test]
    fn every_flipped_bit_is_found_at_its_byte() {
        let whole = unit(512, 8192, 9, 3);
        for bit in 0..512 * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                check_verifiable(&flipped, 8192, 3),
                Err(Corruption::Damaged { first_byte: bit / 8, bytes: 1 })
            );
        }
    }

    #[test]
    fn each_way_to_be_wrong_is_told_from_the_others() {
        let found = |unit: &[u8]| check_verifiable(unit, 8192, 3).unwrap_err();
        assert_eq!(found(&[0; 4096]), Corruption::Unwritten);
        let first_bytes = [0xEB; 8];
        assert_eq!(found(&[0xEB; 4096]), Corruption::Foreign { first_bytes });
        let elsewhere = unit(4096, 12_288, 9, 3);
        assert_eq!(found(&elsewhere), Corruption::Misdirected { offset_bytes: 12_288 });
        assert_eq!(found(&unit(4096, 8192, 9, 4)), Corruption::OtherSeed { seed: 4 });
        let (old, new) = (unit(4096, 8192, 8, 3), unit(4096, 8192, 9, 3));
        let torn = [&new[..1536], &old[1536..]].concat();
        assert_eq!(found(&torn), Corruption::Torn { head: 9, tail: 8, at_byte: 1536 });
        // A sector in the middle that was not written: both ends are of the new write.
        let hole = [&new[..1024], &old[1024..1536], &new[1536..]].concat();
        assert!(matches!(
            found(&hole),
            Corruption::Damaged { first_byte: 1024..=1026, bytes: 490..=512 }
        ));
        // Half a unit read for the whole: its own length says so.
        assert!(check_verifiable(&new[..2048], 8192, 3).is_err());
    }
}
