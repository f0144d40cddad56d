//! Blank check: finds out whether a target holds data other than blank space and iodyno's own content.
//!
//! A sector is blank if it is all zeroes, or all ones as in erased flash. A sector is iodyno's own if it begins with
//! one of these:
//!
//! - the tag of random content ([`iodyno_units::mark`]),
//! - a header of verifiable content that states this offset (covers 4 KiB),
//! - the pattern of a purge's test block (covers 4 KiB).
//!
//! All other content is foreign data, even if its format is unknown.
//!
//! A small target is read whole. A larger one is sampled: both ends, the usual offsets of backup superblocks, and
//! random windows of 64 KiB, one in each of N equal parts of the range. If time allows, further passes read other
//! windows. Contiguous data that covers at least two parts is always found. If a share *f* of all 64 KiB windows holds
//! data, *n* windows miss it with a probability of (1 − f)ⁿ.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use iodyno_units::human;
use iodyno_units::mark::{MARKED_BYTES, is_marked};
use iodyno_units::rng::{below, stream};
use serde::{Deserialize, Serialize};

use crate::aligned::AlignedBuf;

/// First bytes of every block of iodyno's verifiable content. A version digit and the block's offset follow.
const VERIFIABLE: &[u8; 7] = b"iodynoV";
/// First bytes of a test block, which a purge writes to verify itself.
pub(crate) const PURGE_PROOF: &[u8; 16] = b"iodyno purge 001";

/// Sector size: every sector read is classified as blank, iodyno's own or foreign.
const SECTOR_BYTES: usize = MARKED_BYTES;
/// Length of a block that begins with a single header: verifiable content, or a purge's test block.
const HEADED_BYTES: usize = 4096;
/// Length of a random sample, bytes. Its offset is a multiple of this length, and so of every logical block size.
const WINDOW_BYTES: u64 = 64 << 10;
/// Length of one read when a whole range is read.
const STRIDE_BYTES: u64 = 1 << 20;
/// A target of at most this size is read whole.
const WHOLE_BYTES: u64 = 64 << 20;
/// Length of the range that is read in full at each end of the target.
const END_BYTES: u64 = 4 << 20;
/// Number of bytes of foreign data that a message shows.
const SHOWN_BYTES: usize = 16;

const MIB: u64 = 1 << 20;
/// Offsets of backup superblocks: ext4 with blocks of 1, 2 and 4 KiB in groups 1, 3, 5, 7 and 9, and the mirrors of
/// btrfs.
const BACKUPS: [u64; 17] = [
    8 * MIB,
    24 * MIB,
    40 * MIB,
    56 * MIB,
    64 * MIB,
    72 * MIB,
    32 * MIB,
    96 * MIB,
    160 * MIB,
    224 * MIB,
    288 * MIB,
    128 * MIB,
    384 * MIB,
    640 * MIB,
    896 * MIB,
    1152 * MIB,
    256 << 30,
];

/// Limits on the extent and duration of sampling a target's content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Number of equal parts of the range; each pass reads one random sample from each part.
    pub(crate) parts: u64,
    /// Maximum number of passes over all parts.
    pub(crate) passes: u64,
    /// Time after which no further pass begins.
    pub(crate) enough: Duration,
    /// Time limit for reading each end of the target, and again for the samples between. A slower target is an
    /// error.
    pub(crate) at_most: Duration,
}

impl Depth {
    /// Limits for inspecting a local target. The inspection takes 1 to 2 s on a hard disk.
    pub(crate) const FULL: Self = Self {
        parts: 256,
        passes: 4,
        enough: Duration::from_millis(400),
        at_most: Duration::from_secs(8),
    };
    /// Limits for inspecting an NBD export, perhaps over a network.
    pub(crate) const REMOTE: Self = Self {
        parts: 64,
        passes: 4,
        enough: Duration::from_millis(200),
        at_most: Duration::from_secs(10),
    };
    /// Limits for sampling a target again through the descriptor that will write to it.
    pub(crate) const AGAIN: Self =
        Self { parts: 32, passes: 1, enough: Duration::ZERO, at_most: Duration::from_secs(4) };
}

/// Result of reading a target, wholly or in samples, to find data that iodyno did not write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Total bytes read from the target.
    pub looked_bytes: u64,
    /// Number of contiguous ranges read.
    pub places: u64,
    /// Number of ranges that hold content written by iodyno and nothing else except blank space.
    pub own: u64,
    /// Number of ranges that hold foreign data (neither blank nor written by iodyno).
    pub foreign: u64,
    /// Foreign data (neither blank nor written by iodyno) at the lowest offset; `None` if there was none.
    pub first_foreign: Option<Foreign>,
    /// True if the whole target was read; false if only samples were.
    pub whole: bool,
}

/// Foreign data (neither blank nor written by iodyno): its offset and first bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Offset of the foreign data in the target, bytes.
    pub offset_bytes: u64,
    /// First bytes of the foreign data in hexadecimal, such as `4d 5a 90 00`.
    pub hex: String,
}

impl Sampled {
    /// Describes how much of the target was read, as a clause for messages.
    pub fn scope(&self) -> String {
        if self.whole {
            "the whole target was read".to_owned()
        } else {
            format!("{} were read at {} positions", human::size(self.looked_bytes), self.places)
        }
    }

    /// Describes the data that iodyno did not write, as a sentence without its full stop. `None` if all data is
    /// iodyno's or blank.
    pub fn findings(&self) -> Option<String> {
        let first = self.first_foreign.as_ref()?;
        let mut text = format!(
            "{} of {} sampled positions hold data that iodyno did not write, the first at \
             byte {} (beginning with {}",
            self.foreign, self.places, first.offset_bytes, first.hex
        );
        if let Some(readable) = readable(&first.hex) {
            let _ = write!(text, ", \"{readable}\"");
        }
        text.push(')');
        Some(text)
    }
}

/// Decodes hexadecimal bytes as text; `None` unless they begin with at least four printable ASCII characters.
fn readable(hex: &str) -> Option<String> {
    let bytes = hex.split(' ').filter_map(|byte| u8::from_str_radix(byte, 16).ok());
    let text: String = bytes
        .map(char::from)
        .take_while(|c| (c.is_ascii_graphic() || *c == ' ') && !matches!(c, '"' | '\\'))
        .collect();
    (text.trim().len() >= 4).then_some(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sector {
    Blank,
    Own,
    Foreign,
}

/// Length of iodyno's content that begins with this sector, according to the sector's header; 0 without a
/// header.
fn own_bytes(sector: &[u8], offset_bytes: u64) -> usize {
    let is_verifiable = sector.starts_with(VERIFIABLE)
        && sector.get(7).is_some_and(u8::is_ascii_digit)
        && sector.get(8..16) == Some(&offset_bytes.to_le_bytes()[..]);
    if is_marked(sector) {
        MARKED_BYTES
    } else if is_verifiable || sector.starts_with(PURGE_PROOF) {
        HEADED_BYTES
    } else {
        0
    }
}

fn is_blank(sector: &[u8]) -> bool {
    // Comparing slices costs a call, so check the first byte first.
    match sector.first() {
        Some(0) => sector == &[0; SECTOR_BYTES][..sector.len()],
        Some(0xFF) => sector == &[0xFF; SECTOR_BYTES][..sector.len()],
        _ => false,
    }
}

/// Classifies the bytes from index `from` on, and returns the index of the first foreign sector (0 if none). Earlier
/// bytes are searched only for headers whose content extends beyond `from`.
fn judge(bytes: &[u8], offset_bytes: u64, from: usize) -> (Sector, usize) {
    let mut verdict = Sector::Blank;
    let mut own_until = 0;
    for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
        let at = i * SECTOR_BYTES;
        if is_blank(sector) {
            continue;
        }
        own_until = own_until.max(at + own_bytes(sector, offset_bytes + at as u64));
        if at < from {
            continue;
        }
        if at >= own_until {
            return (Sector::Foreign, at);
        }
        verdict = Sector::Own;
    }
    (verdict, 0)
}

/// Reads samples of a target. Counts those that hold iodyno's own data, and those that hold foreign data.
struct Sampler<'a> {
    read: &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    /// Buffer for one sample, preceded by the 64 KiB before it on the target.
    buffer: AlignedBuf,
    found: Sampled,
}

impl Sampler<'_> {
    fn window(&mut self, at_bytes: u64, len_bytes: u64) -> io::Result<()> {
        let lead = WINDOW_BYTES as usize;
        let len = lead + len_bytes as usize;
        (self.read)(at_bytes, &mut self.buffer[lead..len])?;
        self.found.looked_bytes += len_bytes;
        self.found.places += 1;
        let (mut sector, mut from) = judge(&self.buffer[lead..len], at_bytes, 0);
        from += lead;
        if sector == Sector::Foreign && from - lead < HEADED_BYTES && at_bytes >= WINDOW_BYTES {
            // The sector may be covered by a header before the window.
            (self.read)(at_bytes - WINDOW_BYTES, &mut self.buffer[..lead])?;
            (sector, from) = judge(&self.buffer[..len], at_bytes - WINDOW_BYTES, lead);
        }
        match sector {
            Sector::Blank => {}
            Sector::Own => self.found.own += 1,
            Sector::Foreign => {
                self.found.foreign += 1;
                let offset_bytes = at_bytes + (from - lead) as u64;
                let former = self.found.first_foreign.as_ref();
                if former.is_none_or(|former| offset_bytes < former.offset_bytes) {
                    let bytes = self.buffer[from..len].iter().take(SHOWN_BYTES);
                    let hex: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
                    self.found.first_foreign = Some(Foreign { offset_bytes, hex: hex.join(" ") });
                }
            }
        }
        Ok(())
    }

    /// Reads and classifies a whole range. Returns false if the time limit stopped it.
    fn stretch(&mut self, from_bytes: u64, to_bytes: u64, until: Instant) -> io::Result<bool> {
        let mut at = from_bytes;
        while at < to_bytes {
            if Instant::now() > until {
                return Ok(false);
            }
            let len = STRIDE_BYTES.min(to_bytes - at);
            self.window(at, len)?;
            at += len;
        }
        Ok(true)
    }
}

/// Samples the content of `ranges` of a target of `size_bytes`. Ranges are pairs of start and length, in
/// ascending order. `read` fills a buffer from an offset; both are multiples of 64 KiB except at the target's
/// end. `seed` chooses the offsets of random samples.
///
/// # Errors
/// The error of `read`, and [`io::ErrorKind::TimedOut`] if time ran out before the end of the first pass.
pub(crate) fn sample(
    size_bytes: u64,
    ranges: &[(u64, u64)],
    depth: Depth,
    seed: u64,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Sampled> {
    let mut sampler = Sampler {
        read,
        buffer: AlignedBuf::zeroed((WINDOW_BYTES + STRIDE_BYTES.min(size_bytes)) as usize),
        found: Sampled::default(),
    };
    if size_bytes <= WHOLE_BYTES
        && sampler.stretch(0, size_bytes, Instant::now() + depth.at_most)?
    {
        sampler.found.whole = true;
        return Ok(sampler.found);
    }
    let tail = size_bytes.saturating_sub(END_BYTES) / WINDOW_BYTES * WINDOW_BYTES;
    // A part that could not be read in time may hold anything.
    let too_slow = || {
        io::Error::new(
            io::ErrorKind::TimedOut,
            "the target is too slow for its content to be checked",
        )
    };
    for (from, to) in [(0, END_BYTES.min(size_bytes)), (tail, size_bytes)] {
        if !sampler.stretch(from, to, Instant::now() + depth.at_most)? {
            return Err(too_slow());
        }
    }
    let started = Instant::now();
    let window_at = |at: u64| {
        let start = at / WINDOW_BYTES * WINDOW_BYTES;
        (start, WINDOW_BYTES.min(size_bytes - start))
    };
    // XFS usually has four groups, each with a superblock at its start.
    let quarters = (1..4).map(|i| (size_bytes / 4096).div_ceil(4) * i * 4096);
    for at in BACKUPS.into_iter().chain(quarters).filter(|&at| at < tail) {
        let (start, len) = window_at(at);
        if started.elapsed() > depth.at_most {
            return Err(too_slow());
        }
        sampler.window(start, len)?;
    }
    let total: u64 = ranges.iter().map(|(_, len)| len).sum();
    let mut random = stream(seed, "blank", 0);
    'passes: for pass in 0..depth.passes {
        if pass > 0 && (sampler.found.foreign > 0 || started.elapsed() > depth.enough) {
            break;
        }
        let edge = |i: u64| (u128::from(total) * u128::from(i) / u128::from(depth.parts)) as u64;
        let (mut range, mut before) = (0, 0);
        for part in 0..depth.parts {
            if started.elapsed() > depth.at_most {
                if pass == 0 {
                    return Err(too_slow());
                }
                break 'passes;
            }
            let place = edge(part) + below(&mut random, edge(part + 1) - edge(part));
            while range < ranges.len() && place - before >= ranges[range].1 {
                before += ranges[range].1;
                range += 1;
            }
            let Some(&(start, _)) = ranges.get(range) else { break };
            let (start, len) = window_at((start + place - before).min(size_bytes - 1));
            sampler.window(start, len)?;
        }
    }
    Ok(sampler.found)
}

/// A random seed, so that each sampling reads different offsets.
pub(crate) fn any_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
#[path = "blank_tests.rs"]
mod tests;
