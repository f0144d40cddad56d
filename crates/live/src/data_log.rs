//! Log of a volume's writes and their data, in the format of dm-log-writes (`drivers/md/dm-log-writes.c`). `iodyno
//! crashtest --from` reads the log, and derives the contents that a device with a volatile write cache could have after
//! a power cut.
//!
//! In the log, a flush comes after the writes that completed before it began. Those that complete during it follow,
//! unless a write with FUA or another flush completes first. Writes still in flight at the end come last. A power cut
//! ends the log.

use crate::store::remove_made;
use iodyno_units::log_writes::{DISCARD, FLUSH, FUA, MAGIC, VERSION};
use iodyno_units::{Op, OpKind};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::path::Path;

const SECTOR_BYTES: u64 = 512;
/// Offset of the entry count in the super block, bytes.
const ENTRIES_AT: u64 = 16;

/// Writer of a file that logs all writes of a volume, in the format of dm-log-writes.
#[derive(Debug)]
pub struct DataLog {
    to: BufWriter<File>,
    path: String,
    entries: u64,
    /// Writes, discards and writes of zeroes in flight, by token.
    in_flight: HashMap<u64, Logged>,
    /// Flushes in flight, oldest first: the token of each, and the writes that it makes durable.
    flushes: Vec<(u64, Vec<Logged>)>,
    /// Completed writes that no flush in flight makes durable. Empty while no flush is in flight, so that memory is
    /// bounded by the writes that complete during a flush.
    complete: Vec<Logged>,
    has_ended: bool,
    failed: Option<io::Error>,
}

/// A logged operation: a write, a discard, or a write of zeroes.
#[derive(Debug)]
struct Logged {
    op: Op,
    /// Data of the write; empty for a discard or a write of zeroes.
    bytes: Vec<u8>,
}

impl DataLog {
    /// Size and alignment of the operations that can be logged, bytes.
    pub const BLOCK_BYTES: u32 = SECTOR_BYTES as u32;
    /// Magic number at the start of a log file.
    pub const FIRST: &[u8] = &MAGIC.to_le_bytes();

    /// Creates the log file. Never overwrites an existing file.
    ///
    /// # Errors
    /// The file exists, or can't be created.
    pub fn create(path: &Path) -> Result<Self, String> {
        let named = path.display().to_string();
        let file = File::create_new(path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("`{named}` already exists: remove it, or choose another name")
            }
            _ => format!("`{named}` can't be created: {e}"),
        })?;
        let mut log = Self {
            to: BufWriter::new(file),
            path: named,
            entries: 0,
            in_flight: HashMap::new(),
            flushes: Vec::new(),
            complete: Vec::new(),
            has_ended: false,
            failed: None,
        };
        match log.sector([MAGIC, VERSION, 0, SECTOR_BYTES]).and_then(|()| log.to.flush()) {
            Ok(()) => Ok(log),
            Err(e) => {
                remove_made(path, log.to.get_ref());
                Err(format!("`{}` can't be written: {e}", log.path))
            }
        }
    }

    /// Message about the error that ended the log early; `None` while logging continues.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.failed.as_ref()?;
        Some(format!("writing to `{}` failed, and the log ends there: {failed}", self.path))
    }

    /// Records that an operation was submitted. `data`: the bytes of a write.
    pub(crate) fn submitted(&mut self, token: u64, op: &Op, data: Option<&[u8]>) {
        if self.has_ended || self.failed.is_some() {
            return;
        }
        let is_aligned = (op.offset_bytes | u64::from(op.len_bytes)).is_multiple_of(SECTOR_BYTES);
        match op.kind {
            OpKind::Read => {}
            OpKind::Flush => self.flushes.push((token, std::mem::take(&mut self.complete))),
            _ if !is_aligned => {
                self.failed = Some(io::Error::other(format!(
                    "a write of {} bytes at {} is not aligned to its sectors of {SECTOR_BYTES} bytes",
                    op.len_bytes, op.offset_bytes
                )));
            }
            OpKind::Write => {
                let Some(bytes) = data else {
                    self.failed = Some(io::Error::other(
                        "a write has no bytes to log: log a volume that stores its data",
                    ));
                    return;
                };
                self.in_flight.insert(token, Logged { op: *op, bytes: bytes.to_vec() });
            }
            OpKind::Trim | OpKind::WriteZeroes => {
                self.in_flight.insert(token, Logged { op: *op, bytes: Vec::new() });
            }
        }
    }

    /// Records that an operation completed. A failed write is logged, because it may have reached the device. A failed
    /// flush is not, because it made nothing durable.
    pub(crate) fn completed(&mut self, token: u64, has_failed: bool) {
        if self.has_ended {
            return;
        }
        if let Some(write) = self.in_flight.remove(&token) {
            if !write.op.fua || has_failed {
                self.complete.push(write);
                self.write_uncovered();
                return;
            }
            // Before it come the writes that it may overwrite.
            self.write_covered(self.flushes.len());
            let earlier = std::mem::take(&mut self.complete);
            self.write_plain(&earlier);
            self.write(&write, FUA);
        } else if let Some(at) = self.flushes.iter().position(|(flush, _)| *flush == token) {
            if has_failed {
                let (_, covered) = self.flushes.remove(at);
                let next = self.flushes.get_mut(at).map_or(&mut self.complete, |(_, of)| of);
                next.splice(..0, covered);
            } else {
                self.write_covered(at + 1);
                self.flushes.remove(at);
                self.entry([0, 0, FLUSH, 0], |_| Ok(()));
            }
            self.write_uncovered();
        }
    }

    /// If no flush is in flight, appends the completed writes to the log.
    fn write_uncovered(&mut self) {
        if self.flushes.is_empty() {
            let complete = std::mem::take(&mut self.complete);
            self.write_plain(&complete);
        }
    }

    /// Appends to the log the writes that the `count` oldest flushes make durable.
    fn write_covered(&mut self, count: usize) {
        let covered: Vec<Logged> =
            self.flushes[..count].iter_mut().flat_map(|(_, of)| std::mem::take(of)).collect();
        self.write_plain(&covered);
    }

    fn write_plain(&mut self, writes: &[Logged]) {
        for write in writes {
            self.write(write, 0);
        }
    }

    fn write(&mut self, write: &Logged, flags: u64) {
        let Logged { op, bytes } = write;
        let sectors = u64::from(op.len_bytes) / SECTOR_BYTES;
        let flags = if op.kind == OpKind::Trim { flags | DISCARD } else { flags };
        self.entry([op.offset_bytes / SECTOR_BYTES, sectors, flags, 0], |to| match op.kind {
            OpKind::Trim => Ok(()),
            OpKind::WriteZeroes => {
                io::copy(&mut io::repeat(0).take(u64::from(op.len_bytes)), to).map(drop)
            }
            _ => to.write_all(bytes),
        });
    }

    fn entry(
        &mut self,
        fields: [u64; 4],
        data: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) {
        if self.failed.is_some() {
            return;
        }
        match self.sector(fields).and_then(|()| data(&mut self.to)) {
            Ok(()) => self.entries += 1,
            Err(e) => self.failed = Some(e),
        }
    }

    fn sector(&mut self, fields: [u64; 4]) -> io::Result<()> {
        let mut sector = [0; SECTOR_BYTES as usize];
        for (to, field) in sector.chunks_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        self.to.write_all(&sector)
    }

    /// Writes buffered entries and the entry count to the file, so that they survive a kill of this process. The
    /// entries before a failure are kept.
    pub(crate) fn flush(&mut self) {
        if let Err(e) = self.write_count() {
            self.failed.get_or_insert(e);
        }
    }

    fn write_count(&mut self) -> io::Result<()> {
        self.to.seek(SeekFrom::Start(ENTRIES_AT))?;
        self.to.write_all(&self.entries.to_le_bytes())?;
        self.to.seek(SeekFrom::End(0))?;
        self.to.flush()
    }

    /// Appends all writes that no flush made durable, and ends the log. Later operations are ignored.
    pub(crate) fn end(&mut self) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.write_covered(self.flushes.len());
        let mut left = std::mem::take(&mut self.complete);
        let mut open: Vec<(u64, Logged)> = self.in_flight.drain().collect();
        open.sort_by_key(|(token, _)| *token);
        left.extend(open.into_iter().map(|(_, write)| write));
        self.write_plain(&left);
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First sector and flags of each entry of a log.
    fn entries(path: &Path) -> Vec<(u64, u64)> {
        let bytes = std::fs::read(path).unwrap();
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut at = 512;
        let found = (0..field(16)).map(|_| {
            let (sector, sectors, flags) = (field(at), field(at + 8), field(at + 16));
            at += 512 * if flags & DISCARD == 0 { 1 + sectors as usize } else { 1 };
            (sector, flags)
        });
        let found = found.collect();
        assert_eq!(at, bytes.len(), "nothing follows the last entry");
        found
    }

    /// Runs steps such as `w3` and `W3`: lower case begins an operation, upper case ends it, and the number is its
    /// token and sector. `w` is a write, `u` a write with FUA, `t` a trim, `z` a write of zeroes, `f` a flush. `!`
    /// before an end makes the operation fail.
    fn logged(steps: &str) -> Vec<(u64, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = DataLog::create(&path).unwrap();
        for step in steps.split(' ') {
            let (has_failed, step) = (step.starts_with('!'), step.trim_start_matches('!'));
            let (kind, number) = step.split_at(1);
            let token = number.parse().unwrap();
            let op = match kind.to_ascii_lowercase().as_str() {
                "f" => Op::FLUSH,
                letter => Op {
                    offset_bytes: token * 512,
                    len_bytes: 512,
                    kind: match letter {
                        "t" => OpKind::Trim,
                        "z" => OpKind::WriteZeroes,
                        _ => OpKind::Write,
                    },
                    fua: letter == "u",
                },
            };
            if kind.starts_with(char::is_uppercase) {
                log.completed(token, has_failed);
            } else {
                let bytes = [token as u8; 512];
                let is_write = op.kind == OpKind::Write;
                log.submitted(token, &op, is_write.then_some(&bytes[..]));
            }
        }
        log.end();
        assert_eq!(log.failure(), None);
        entries(&path)
    }

    #[test]
    fn a_flush_covers_what_was_complete_when_it_began() {
        let f = (0, FLUSH);
        for (steps, expected) in [
            ("w1 W1 f9 F9 w2", vec![(1, 0), f, (2, 0)]),
            // Incomplete when the flush began.
            ("w1 f9 W1 F9", vec![f, (1, 0)]),
            ("w1 w2 W2 f9 W1 F9 f8 F8", vec![(2, 0), f, (1, 0), f]),
            // The second flush ends first, and covers what both do.
            ("w1 W1 f8 w2 W2 f9 F9 F8", vec![(1, 0), (2, 0), f, f]),
            ("w1 W1 f8 w2 W2 f9 F8 F9", vec![(1, 0), f, (2, 0), f]),
            // A failed flush covers nothing; a failed write may be there.
            ("w1 W1 f8 !F8 w2 W2", vec![(1, 0), (2, 0)]),
            ("w1 W1 f8 f9 !F8 w2 W2 F9", vec![(1, 0), f, (2, 0)]),
            ("w1 !W1 u2 !U2 f9", vec![(1, 0), (2, 0)]),
            ("w1 W1 f9 w2 W2 u3 U3 F9", vec![(1, 0), (2, 0), (3, FUA), f]),
            ("t1 T1 z2 Z2 f9 F9", vec![(1, DISCARD), (2, 0), f]),
        ] {
            assert_eq!(logged(steps), expected, "{steps}");
        }
    }

    /// An operation that can't be logged ends the log; the entries before it are kept.
    #[test]
    fn a_failure_keeps_the_entries_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = DataLog::create(&path).unwrap();
        let mut write = |token: u64, offset_bytes, len_bytes: u32| {
            let op = Op { offset_bytes, len_bytes, kind: OpKind::Write, fua: false };
            log.submitted(token, &op, Some(&vec![1; len_bytes as usize]));
            log.completed(token, false);
        };
        write(1, 512, 512);
        write(2, 100, 300);
        write(3, 1024, 512);
        log.end();
        assert!(log.failure().unwrap().contains("300 bytes at 100"));
        assert_eq!(entries(&path), [(1, 0)]);
    }

    #[test]
    fn bytes_stay_in_memory_only_during_a_flush() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = DataLog::create(&path).unwrap();
        let write = |log: &mut DataLog, token: u64| {
            let op = Op { offset_bytes: 0, len_bytes: 512, kind: OpKind::Write, fua: false };
            log.submitted(token, &op, Some(&[1; 512]));
            log.completed(token, false);
            log.complete.len()
        };
        for (first, has_failed) in [(0, false), (1000, true)] {
            for token in first..first + 100 {
                assert_eq!(write(&mut log, token), 0, "no flush is in flight");
            }
            log.submitted(first + 100, &Op::FLUSH, None);
            assert_eq!(write(&mut log, first + 101), 1, "a flush is in flight");
            log.completed(first + 100, has_failed);
            assert!(log.complete.is_empty() && log.in_flight.is_empty());
        }
        // A kill of this process keeps them, too.
        log.flush();
        assert_eq!(entries(&path).len(), 2 * 101 + 1);
    }

    #[test]
    fn a_write_within_a_sector_ends_the_log_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = DataLog::create(&path).unwrap();
        let op = Op { offset_bytes: 100, len_bytes: 512, kind: OpKind::Write, fua: false };
        log.submitted(1, &op, Some(&[1; 512]));
        log.end();
        assert!(log.failure().unwrap().contains("512 bytes at 100"));
        assert!(DataLog::create(&path).unwrap_err().contains("already exists"));
    }
}
