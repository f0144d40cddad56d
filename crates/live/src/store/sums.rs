//! The file of sums beside a volume's file, `IMAGE.sums`: for each 4 KiB unit two CRC-32C.
//!
//! ```text
//! 0      "iodyno sums\n" + 4 zero bytes
//! 16     version, unit bytes: u32 each
//! 24     capacity of the volume: u64
//! 32     CRC-32C of the 32 bytes before: u32
//! 4096   of each unit: the sum of its data, and the sum that went before it: u32 each
//! ```
//!
//! All numbers are little-endian; a sum of 0 is none. **The entry is written before the data**, in
//! one write of 8 bytes: a server that is killed between the two leaves data to which the second
//! sum belongs. A unit with no sum at all (in an image that was there before, or dropped) is taken
//! as it is. The file is sparse: what was never written takes no room.

use super::error::OpenError;
use super::units::UNIT_BYTES;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const MAGIC: &[u8; 16] = b"iodyno sums\n\0\0\0\0";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 4096;
pub(super) const ENTRY_BYTES: usize = 8;

/// The sums of one unit: of its data, and of what was there before.
pub(super) type Entry = [u32; 2];

/// See the module.
#[derive(Debug)]
pub(super) struct Sums {
    file: File,
}

fn header(capacity_bytes: u64) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend((UNIT_BYTES as u32).to_le_bytes());
    header.extend(capacity_bytes.to_le_bytes());
    header.extend(crc_fast::crc32_iscsi(&header).to_le_bytes());
    header
}

/// Opens for reading and writing what is a plain file, or made.
pub(super) fn open_plain(path: &Path) -> Result<File, OpenError> {
    let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
    // Asked before it is opened: opening a device can have effects.
    match std::fs::symlink_metadata(path) {
        Ok(m) if !m.is_file() => {
            let what = if m.is_symlink() {
                "a symbolic link"
            } else if m.is_dir() {
                "a folder"
            } else {
                "a device, pipe or socket"
            };
            return Err(OpenError::NotAFile { path: path.to_owned(), what });
        }
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(failed("looking at it", e)),
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| failed("opening it", e.into()))?;
    let file = File::from(file);
    if !file.metadata().map_err(|e| failed("looking at it", e))?.is_file() {
        return Err(OpenError::NotAFile { path: path.to_owned(), what: "something else by now" });
    }
    Ok(file)
}

impl Sums {
    /// Opens or makes the sums of a volume's file; where that is new, whatever sums there are
    /// belong to a former one, and go.
    pub(super) fn open(
        path: &Path,
        capacity_bytes: u64,
        image_is_new: bool,
    ) -> Result<Self, OpenError> {
        let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
        let refuse = |why: String| OpenError::Sums { path: path.to_owned(), why };
        let file = open_plain(path)?;
        let len_bytes = file.metadata().map_err(|e| failed("looking at it", e))?.len();
        let wanted = header(capacity_bytes);
        let units = capacity_bytes.div_ceil(UNIT_BYTES);
        let wanted_bytes = HEADER_BYTES + units * ENTRY_BYTES as u64;
        if len_bytes > 0 {
            let mut found = vec![0; wanted.len()];
            if len_bytes < wanted.len() as u64 || {
                file.read_exact_at(&mut found, 0).map_err(|e| failed("reading it", e))?;
                !found.starts_with(MAGIC)
            } {
                return Err(refuse("it is not a file of iodyno's sums".to_owned()));
            }
            if !image_is_new {
                if found[16..20] != wanted[16..20] {
                    return Err(refuse("its version is not the one that this iodyno reads".into()));
                }
                if found[24..32] != wanted[24..32] {
                    return Err(refuse("it belongs to a volume of another size".to_owned()));
                }
                // A server that was killed as it made the file may have left the header alone.
                if found != wanted || ![wanted.len() as u64, wanted_bytes].contains(&len_bytes) {
                    return Err(refuse("it is damaged".to_owned()));
                }
            }
        }
        if image_is_new || len_bytes == 0 {
            file.set_len(0).map_err(|e| failed("emptying it", e))?;
            file.write_all_at(&wanted, 0).map_err(|e| failed("writing its header", e))?;
        }
        file.set_len(wanted_bytes).map_err(|e| failed("giving it its size", e))?;
        Ok(Self { file })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Where the entry of a unit is.
    pub(super) fn offset_bytes(unit: u64) -> u64 {
        HEADER_BYTES + unit * ENTRY_BYTES as u64
    }

    /// The entries of so many units, one after the other, in `buffer`.
    pub(super) fn read<'a>(
        &self,
        unit: u64,
        count: usize,
        buffer: &'a mut [u8],
    ) -> io::Result<&'a mut [u8]> {
        let entries = &mut buffer[..count * ENTRY_BYTES];
        self.file.read_exact_at(entries, Self::offset_bytes(unit))?;
        Ok(entries)
    }

    pub(super) fn write(&self, unit: u64, entries: &[u8]) -> io::Result<()> {
        self.file.write_all_at(entries, Self::offset_bytes(unit))
    }
}

/// Entry number `i` of some.
pub(super) fn entry(entries: &[u8], i: usize) -> Entry {
    let at = i * ENTRY_BYTES;
    let sum = |at: usize| u32::from_le_bytes(entries[at..at + 4].try_into().expect("four bytes"));
    [sum(at), sum(at + 4)]
}

/// Sets entry number `i` of some.
pub(super) fn set_entry(entries: &mut [u8], i: usize, [new, old]: Entry) {
    let at = i * ENTRY_BYTES;
    entries[at..at + 4].copy_from_slice(&new.to_le_bytes());
    entries[at + 4..at + 8].copy_from_slice(&old.to_le_bytes());
}
