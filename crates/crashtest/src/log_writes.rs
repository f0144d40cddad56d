//! Reads logs of block device writes by Linux's dm-log-writes or QEMU's `blklogwrites`. The device becomes a recorded
//! folder with one file.
//!
//! Format: `drivers/md/dm-log-writes.c`. A super block takes the first sector. Each entry takes a sector, and a
//! write's data follow its entry. Entries are in the order of completion, so a flush makes all earlier entries
//! durable.

use crate::change::{Change, Made, NodeId};
use crate::history::{Event, History};
use crate::tree::{ROOT, Tree};
use iodyno_units::log_writes::{DISCARD, FLUSH, FUA, MAGIC, MARK, VERSION};
use std::sync::Arc;

/// Name of the file that holds the device's content.
pub const DISK: &str = "disk";

const SECTOR_BYTES_MIN: u64 = 512;
const SECTOR_BYTES_MAX: u64 = 4096;
/// Length of an entry in the log without its padding, bytes.
const ENTRY_BYTES: u64 = 32;
/// Maximum size of a logged device, bytes.
const DEVICE_BYTES_MAX: u64 = 1 << 50;

/// Whether a file begins with the magic number of a dm-log-writes log.
#[must_use]
pub fn is_log(bytes: &[u8]) -> bool {
    number(bytes, 0) == Ok(MAGIC)
}

/// Parses a log of dm-log-writes. The initial content of the device is the file [`DISK`] of `start`. If that file is
/// missing or too short, it is extended with zeros to the end of the last write or discard. Discarded sectors read as
/// zeros. A mark counts as a line of output.
///
/// # Errors
/// The bytes are not a dm-log-writes log, or end within an entry; the message names the entry.
pub fn of_bytes(bytes: &[u8], mut start: Tree) -> Result<History, String> {
    if !is_log(bytes) {
        return Err("not a log of dm-log-writes".to_owned());
    }
    let version = number(bytes, 8)?;
    if version != VERSION {
        return Err(format!(
            "the log has version {version}, but this program reads version {VERSION}"
        ));
    }
    let entries = number(bytes, 16)?;
    let sector_bytes = number(bytes, 24)? & u64::from(u32::MAX);
    let is_sector = (SECTOR_BYTES_MIN..=SECTOR_BYTES_MAX).contains(&sector_bytes);
    if !is_sector || !sector_bytes.is_power_of_two() {
        return Err(format!(
            "the log has sectors of {sector_bytes} bytes; the size must be 512, 1024, 2048 or 4096"
        ));
    }
    let has_disk = start.lookup(ROOT, DISK.as_bytes());
    let node = has_disk.unwrap_or(ROOT + 1);
    let mut log = Log { bytes, at: sector_bytes, sector_bytes, node, events: Vec::new(), end: 0 };
    for entry in 0..entries {
        log.entry().map_err(|why| format!("entry {entry} of {entries}: {why}"))?;
    }
    if has_disk.is_none() {
        let (directory, name) = (ROOT, DISK.into());
        start.apply(&Change::Make { directory, name, node, made: Made::File, mode: 0o600 });
    }
    if log.end > start.size_bytes(node) {
        start.apply(&Change::Resize { node, size_bytes: log.end });
    }
    Ok(History { start, events: log.events })
}

struct Log<'a> {
    bytes: &'a [u8],
    /// Offset of the next entry in the log, bytes.
    at: u64,
    sector_bytes: u64,
    node: NodeId,
    events: Vec<Event>,
    /// End of the written or discarded range that lies last on the device, bytes.
    end: u64,
}

impl Log<'_> {
    fn entry(&mut self) -> Result<(), String> {
        let [sector, sectors, flags, data_bytes] =
            [0, 8, 16, 24].map(|field| number(self.bytes, self.at + field));
        let (sector, sectors, flags, data_bytes) = (sector?, sectors?, flags?, data_bytes?);
        let node = self.node;
        let (Some(offset), Some(len_bytes)) =
            (self.device_bytes(sector), self.device_bytes(sectors))
        else {
            return Err(format!(
                "{sectors} sectors at sector {sector} end beyond the largest possible device"
            ));
        };
        let header = self.at;
        self.at += self.sector_bytes;
        if flags & FLUSH != 0 {
            self.events.push(Event::Sync { node, data_only: true });
        }
        if flags & MARK != 0 {
            // The text of a mark is in the sector of its entry.
            let room = self.sector_bytes - ENTRY_BYTES;
            let text = slice(self.bytes, header + ENTRY_BYTES, data_bytes.min(room))?;
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            self.events.push(Event::Output([text, b"\n"].concat()));
        }
        if len_bytes == 0 {
            return Ok(());
        }
        self.end = self.end.max(offset + len_bytes);
        let change = if flags & DISCARD != 0 {
            Change::Zero { node, offset, len_bytes }
        } else {
            let data = Arc::from(slice(self.bytes, self.at, len_bytes)?);
            self.at += len_bytes;
            Change::Write { node, offset, data }
        };
        self.events.push(Event::Change(change));
        if flags & FUA != 0 {
            self.events.push(Event::SyncRange { node, offset, len_bytes });
        }
        Ok(())
    }

    /// Converts a number of sectors to bytes; `None` above [`DEVICE_BYTES_MAX`].
    fn device_bytes(&self, sectors: u64) -> Option<u64> {
        sectors.checked_mul(self.sector_bytes).filter(|bytes| *bytes <= DEVICE_BYTES_MAX)
    }
}

fn slice(bytes: &[u8], at: u64, len_bytes: u64) -> Result<&[u8], String> {
    let end = at.checked_add(len_bytes).filter(|end| *end <= bytes.len() as u64);
    match end {
        Some(end) => Ok(&bytes[at as usize..end as usize]),
        None => Err(format!("the log is cut off at byte {}", bytes.len())),
    }
}

fn number(bytes: &[u8], at: u64) -> Result<u64, String> {
    let field = slice(bytes, at, 8)?;
    Ok(field.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a log. An entry has a first sector, a number of sectors, flags, and data that follow it. The data of a
    /// mark are in the entry's own sector.
    fn log(entries: &[(u64, u64, u64, &[u8])]) -> Vec<u8> {
        let sector = |fields: &[u64]| {
            let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
            bytes.resize(512, 0);
            bytes
        };
        let mut bytes = sector(&[MAGIC, VERSION, entries.len() as u64, 512]);
        for (first, sectors, flags, data) in entries {
            let mut entry = sector(&[*first, *sectors, *flags, data.len() as u64]);
            if flags & MARK != 0 {
                entry[32..32 + data.len()].copy_from_slice(data);
            } else {
                entry.extend_from_slice(data);
            }
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn entries_become_events_in_order() {
        let data = [7; 1024];
        let bytes = log(&[
            (0, 2, 0, &data),
            (0, 0, FLUSH, &[]),
            (0, 0, MARK, b"stored"),
            (8, 2, FLUSH | FUA, &data),
            (1, 1, DISCARD, &[]),
        ]);
        let history = of_bytes(&bytes, Tree::default()).unwrap();
        let node = history.start.lookup(ROOT, b"disk").unwrap();
        assert_eq!(history.start.size_bytes(node), 10 * 512);
        let write = |offset| {
            let data = Arc::from(&data[..]);
            Event::Change(Change::Write { node, offset, data })
        };
        let flush = Event::Sync { node, data_only: true };
        let expected = [
            write(0),
            flush.clone(),
            Event::Output(b"stored\n".to_vec()),
            flush,
            write(4096),
            Event::SyncRange { node, offset: 4096, len_bytes: 1024 },
            Event::Change(Change::Zero { node, offset: 512, len_bytes: 512 }),
        ];
        assert_eq!(history.events, expected);
    }

    #[test]
    fn a_device_keeps_its_first_content_and_size() {
        let mut start = Tree::default();
        let make = of_bytes(&log(&[(4, 1, 0, &[1; 512])]), Tree::default()).unwrap();
        start.clone_from(&make.start);
        let node = start.lookup(ROOT, b"disk").unwrap();
        start.apply(&Change::Write { node, offset: 8192, data: Arc::from(&b"end"[..]) });
        let history = of_bytes(&log(&[(0, 1, 0, &[1; 512])]), start).unwrap();
        assert_eq!(history.start.read(node, 8192, 9), b"end");
        assert_eq!(history.start.size_bytes(node), 8195);
    }

    #[test]
    fn what_is_not_a_whole_log_is_refused() {
        let whole = log(&[(0, 0, FLUSH, &[]), (0, 1, 0, &[1; 512])]);
        for length in 0..whole.len() {
            let refused = of_bytes(&whole[..length], Tree::default()).is_err();
            // The padding of the super block is not read.
            assert_eq!(refused, length < whole.len(), "{length} bytes");
        }
        // Any other number in any field: an error or a run, soon.
        for at in (0..1024).step_by(4) {
            for value in [0, 1, 8, 0x7fff_ffff, u32::MAX] {
                let mut other = whole.clone();
                other[at..at + 4].copy_from_slice(&value.to_le_bytes());
                if let Ok(history) = of_bytes(&other, Tree::default()) {
                    assert!(history.events.len() < 8);
                }
            }
        }
        let of = |entries: &[(u64, u64, u64, &[u8])]| of_bytes(&log(entries), Tree::default());
        for (first, sectors) in [(u64::MAX, 1), (1, u64::MAX), (1 << 50, 1), (0, 1 << 40)] {
            assert!(of(&[(first, sectors, 0, &[])]).unwrap_err().starts_with("entry 0 of 1"));
        }
        let mut other = whole.clone();
        other[8] = 2;
        assert!(of_bytes(&other, Tree::default()).unwrap_err().contains("version 2"));
        other.clone_from(&whole);
        other[24..26].fill(0xff);
        assert!(of_bytes(&other, Tree::default()).unwrap_err().contains("sectors of 65535 bytes"));
    }
}
