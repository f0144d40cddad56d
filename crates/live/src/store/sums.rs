//! The file of checksums next to a volume's file, `IMAGE.sums`: two CRC-32C and a generation for each 4 KiB unit.
//!
//! ```text
//! 0      "iodyno sums\n" + 4 zero bytes
//! 16     version, unit bytes: u32 each
//! 24     capacity of the volume: u64
//! 32     CRC-32C of the 32 bytes before: u32
//! 512    the generations (see `generation.rs`), twice: here and at 1024
//! 4096   for each unit: the checksum of its data, and the previous checksum: u32 each;
//!        and the generation in which the two were written: u64
//! ```
//!
//! All numbers are little-endian; a checksum of 0 means none. **The entry is written before the data**, in one write of
//! 16 bytes. A server that is killed between the two writes leaves data that matches the previous checksum. That
//! checksum counts only while its generation is open, so data from before a flush is never accepted. A unit without a
//! checksum (in a pre-existing image, or deallocated) is accepted as it is. The file is sparse: unwritten units take no
//! space.
//!
//! Version 1 had entries of 8 bytes, without a generation. It is converted when opened, into a new file that replaces
//! the old one once it is complete.

use super::error::OpenError;
use super::generation::{Generations, SLOTS};
use super::host::{Faults, Host, HostFile};
use super::new_files::{Made, open_plain};
use super::units::UNIT_BYTES;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const MAGIC: &[u8; 16] = b"iodyno sums\n\0\0\0\0";
const VERSION: u32 = 2;
const HEADER_BYTES: u64 = 4096;
const FIXED_BYTES: usize = 36;
pub(super) const ENTRY_BYTES: usize = 16;
/// Length of an entry in a checksum file of format version 1, bytes.
const ENTRY_1_BYTES: usize = 8;

/// Entry of one 4 KiB unit in a checksum file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Checksum of the unit's present content; 0: none.
    pub sum: u32,
    /// Checksum of the unit's previous content; 0: none, or the previous content was certainly overwritten.
    pub former: u32,
    /// Number of the generation (the period between two flushes) in which the entry was written.
    pub generation: u64,
}

/// The open checksum file of a volume.
#[derive(Debug)]
pub(super) struct Sums {
    host: Host,
}

fn fixed(version: u32, capacity_bytes: u64) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend(version.to_le_bytes());
    header.extend((UNIT_BYTES as u32).to_le_bytes());
    header.extend(capacity_bytes.to_le_bytes());
    header.extend(crc_fast::crc32_iscsi(&header).to_le_bytes());
    header
}

/// Encodes the header of a checksum file, its first 4 KiB.
fn header(capacity_bytes: u64, generations: &Generations) -> Vec<u8> {
    let mut header = fixed(VERSION, capacity_bytes);
    header.resize(HEADER_BYTES as usize, 0);
    for at in SLOTS {
        header[at as usize..at as usize + 512].copy_from_slice(&generations.slot());
    }
    header
}

impl Sums {
    /// Opens or creates the checksum file of a volume, and returns the generations stored in it. If the data file is
    /// new, an existing checksum file belongs to an earlier data file and is discarded.
    pub(super) fn open(
        path: &Path,
        capacity_bytes: u64,
        image_is_new: bool,
        faults: Faults,
        made: &mut Made,
    ) -> Result<(Self, Generations), OpenError> {
        let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
        let refuse = |why: String| OpenError::Sums { path: path.to_owned(), why };
        let mut file = open_plain(path, made)?;
        let len_bytes = file.metadata().map_err(|e| failed("reading its metadata", e))?.len();
        let units = capacity_bytes.div_ceil(UNIT_BYTES);
        let wanted_bytes = HEADER_BYTES + units * ENTRY_BYTES as u64;
        let mut generations = Generations::default();
        if len_bytes > 0 {
            let mut found = vec![0; len_bytes.min(HEADER_BYTES) as usize];
            file.read_exact_at(&mut found, 0).map_err(|e| failed("reading it", e))?;
            if found.len() < FIXED_BYTES || !found.starts_with(MAGIC) {
                return Err(refuse("it is not a checksum file of iodyno".to_owned()));
            }
            if !image_is_new {
                let version = u32::from_le_bytes([found[16], found[17], found[18], found[19]]);
                if ![1, VERSION].contains(&version) {
                    return Err(refuse("this version of iodyno does not know its format".into()));
                }
                let wanted = fixed(version, capacity_bytes);
                if found[24..32] != wanted[24..32] {
                    return Err(refuse("it belongs to a volume with a different size".to_owned()));
                }
                // A server that was killed while creating the file may have left only the header.
                let lengths = match version {
                    1 => [FIXED_BYTES as u64, HEADER_BYTES + units * ENTRY_1_BYTES as u64],
                    _ => [HEADER_BYTES, wanted_bytes],
                };
                if found[..FIXED_BYTES] != wanted || !lengths.contains(&len_bytes) {
                    return Err(refuse("it is damaged".to_owned()));
                }
                if version == 1 {
                    file = convert(path, &file, capacity_bytes, wanted_bytes, made)?;
                    generations = Generations::converted();
                } else {
                    generations = Generations::read(&found).ok_or_else(|| {
                        refuse("it is damaged: it has no valid generation".into())
                    })?;
                }
            }
        }
        if image_is_new || len_bytes == 0 {
            file.set_len(0).map_err(|e| failed("emptying it", e))?;
            let header = header(capacity_bytes, &generations);
            file.write_all_at(&header, 0).map_err(|e| failed("writing its header", e))?;
        }
        file.set_len(wanted_bytes).map_err(|e| failed("setting its size", e))?;
        Ok((Self { host: Host::new(file, HostFile::Sums, faults) }, generations))
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Offset of a unit's entry in the checksum file, bytes.
    pub(super) fn offset_bytes(unit: u64) -> u64 {
        HEADER_BYTES + unit * ENTRY_BYTES as u64
    }

    /// Reads `count` checksum entries into `buffer`, starting with the entry of `unit`.
    #[inline]
    pub(super) fn read<'a>(
        &self,
        unit: u64,
        count: usize,
        buffer: &'a mut [u8],
    ) -> io::Result<&'a mut [u8]> {
        let entries = &mut buffer[..count * ENTRY_BYTES];
        self.host.read(entries, Self::offset_bytes(unit))?;
        Ok(entries)
    }

    #[inline]
    pub(super) fn write(&self, unit: u64, entries: &[u8]) -> io::Result<()> {
        self.host.write(entries, Self::offset_bytes(unit))
    }
}

/// Converts a checksum file from format version 1 to the current version, and replaces it.
fn convert(
    path: &Path,
    old: &File,
    capacity_bytes: u64,
    wanted_bytes: u64,
    made: &mut Made,
) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = Path::new(&name);
    let failed = |source| OpenError::Io {
        path: beside.to_owned(),
        doing: "converting the version 1 checksums into this file",
        source,
    };
    let file = open_plain(beside, made)?;
    let mut start = [0; MAGIC.len()];
    let len_bytes = file.metadata().map_err(failed)?.len();
    if len_bytes > 0 && (file.read_exact_at(&mut start, 0).is_err() || start != *MAGIC) {
        let why = "it is not a checksum file of iodyno".to_owned();
        return Err(OpenError::Sums { path: beside.to_owned(), why });
    }
    file.set_len(0).map_err(failed)?;
    let generations = Generations::converted();
    file.write_all_at(&header(capacity_bytes, &generations), 0).map_err(failed)?;
    let len_bytes = old.metadata().map_err(failed)?.len();
    let mut buffer = vec![0; 1 << 16];
    let mut at = HEADER_BYTES;
    while at < len_bytes {
        match seek(old, SeekFrom::Data(at)) {
            // Whole entries: they begin at multiples of 8 bytes.
            Ok(data) => at = at.max(data / ENTRY_1_BYTES as u64 * ENTRY_1_BYTES as u64),
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => {}
        }
        let len = (len_bytes - at).min(buffer.len() as u64) as usize;
        old.read_exact_at(&mut buffer[..len], at).map_err(failed)?;
        let mut entries = Vec::with_capacity(2 * len);
        for old in buffer[..len].chunks_exact(ENTRY_1_BYTES) {
            entries.extend_from_slice(old);
            let generation = u64::from(old != [0; ENTRY_1_BYTES]);
            entries.extend(generation.to_le_bytes());
        }
        let unit = (at - HEADER_BYTES) / ENTRY_1_BYTES as u64;
        file.write_all_at(&entries, Sums::offset_bytes(unit)).map_err(failed)?;
        at += len as u64;
    }
    // The file gets its name only once it is complete.
    file.set_len(wanted_bytes).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    std::fs::rename(beside, path).map_err(failed)?;
    made.forget(beside);
    Ok(file)
}

/// Decodes the checksum entry with index `i` in a buffer.
#[inline]
pub(super) fn entry(entries: &[u8], i: usize) -> Entry {
    let (words, _) = entries[i * ENTRY_BYTES..].as_chunks::<4>();
    let [sum, former, low, high] = [words[0], words[1], words[2], words[3]].map(u32::from_le_bytes);
    Entry { sum, former, generation: u64::from(high) << 32 | u64::from(low) }
}

/// Encodes a checksum entry at index `i` in a buffer.
#[inline]
pub(super) fn set_entry(entries: &mut [u8], i: usize, entry: Entry) {
    let at = i * ENTRY_BYTES;
    entries[at..at + 4].copy_from_slice(&entry.sum.to_le_bytes());
    entries[at + 4..at + 8].copy_from_slice(&entry.former.to_le_bytes());
    entries[at + 8..at + 16].copy_from_slice(&entry.generation.to_le_bytes());
}
