//! Log of a volume's writes and their data, in the format of dm-log-writes (`drivers/md/dm-log-writes.c`). `iodyno
//! crashtest --from` reads the log, and derives the contents that a device with a volatile write cache could have after
//! a power cut.
//!
//! In the log, a flush comes after the writes that completed before it began. Those that complete during it follow,
//! unless a write with FUA or another flush completes first. Writes still in flight at the end come last. A power cut
//! ends the log.
//!
//! The log's unit is a sector. A write that covers a sector partly is logged with the sector's other bytes as they are
//! when the write completes.

use crate::store::remove_made;
use iodyno_units::log_writes::{DISCARD, FLUSH, FUA, MAGIC, VERSION};
use iodyno_units::{Op, OpKind};
use std::collections::{HashMap, VecDeque};
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
    /// Number of writes in flight that cover a sector partly.
    partial_in_flight: usize,
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
    /// Bytes of the first sector before the write's range.
    before: Vec<u8>,
    /// Bytes of the last sector after the write's range.
    after: Vec<u8>,
}

impl Logged {
    /// `read` reads the volume's content. Returns `None` if it fails.
    fn new(op: Op, bytes: Vec<u8>, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<Self> {
        let end_bytes = op.offset_bytes + u64::from(op.len_bytes);
        let before = vec![0; (op.offset_bytes % SECTOR_BYTES) as usize];
        let after = vec![0; (end_bytes.next_multiple_of(SECTOR_BYTES) - end_bytes) as usize];
        let mut logged = Self { op, bytes, before, after };
        let edges = logged.edges().into_iter();
        let has_read = edges.filter(|of| !of.1.is_empty()).all(|(at, bytes)| read(at, bytes));
        has_read.then_some(logged)
    }

    fn is_partial(&self) -> bool {
        !self.before.is_empty() || !self.after.is_empty()
    }

    /// The bytes before and after the write's range, each with its offset in the volume.
    fn edges(&mut self) -> [(u64, &mut Vec<u8>); 2] {
        let Op { offset_bytes, len_bytes, .. } = self.op;
        let begin_bytes = offset_bytes - self.before.len() as u64;
        let end_bytes = offset_bytes + u64::from(len_bytes);
        [(begin_bytes, &mut self.before), (end_bytes, &mut self.after)]
    }

    /// Updates the bytes before and after the write's range: another write completed.
    fn follow(&mut self, other: &Self) {
        let (begin, len) = (other.op.offset_bytes, u64::from(other.op.len_bytes));
        for (at, edge) in self.edges() {
            let from = at.max(begin);
            let to = (at + edge.len() as u64).min(begin + len);
            if from >= to {
                continue;
            }
            let into = &mut edge[(from - at) as usize..(to - at) as usize];
            match other.bytes.get((from - begin) as usize..(to - begin) as usize) {
                Some(bytes) => into.copy_from_slice(bytes),
                None => into.fill(0),
            }
        }
    }
}

/// The whole sectors in the range of a discard; `None` if there are none.
fn whole_sectors(op: &Op) -> Option<Op> {
    let from = op.offset_bytes.next_multiple_of(SECTOR_BYTES);
    let end = (op.offset_bytes + u64::from(op.len_bytes)) / SECTOR_BYTES * SECTOR_BYTES;
    (from < end).then(|| Op { offset_bytes: from, len_bytes: (end - from) as u32, ..*op })
}

impl DataLog {
    /// Size of the log's sectors, bytes.
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
            partial_in_flight: 0,
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

    /// Records that an operation was submitted. `data`: the bytes of a write. `read`: reads the volume's content at an
    /// offset, and returns whether it succeeded.
    pub(crate) fn submitted(
        &mut self,
        token: u64,
        op: &Op,
        data: Option<&[u8]>,
        read: impl Fn(u64, &mut [u8]) -> bool,
    ) {
        if self.has_ended || self.failed.is_some() {
            return;
        }
        let (op, bytes) = match (op.kind, data) {
            (OpKind::Read, _) => return,
            (OpKind::Flush, _) => {
                return self.flushes.push((token, std::mem::take(&mut self.complete)));
            }
            (OpKind::Write, Some(bytes)) => (*op, bytes.to_vec()),
            (OpKind::Write, None) => {
                self.failed = Some(io::Error::other(
                    "a write has no bytes to log: log a volume that stores its data",
                ));
                return;
            }
            (OpKind::WriteZeroes, _) => (*op, Vec::new()),
            (OpKind::Trim, _) => {
                let Some(op) = whole_sectors(op) else { return };
                (op, Vec::new())
            }
        };
        let Some(logged) = Logged::new(op, bytes, read) else {
            self.failed = Some(io::Error::other(format!(
                "the {SECTOR_BYTES}-byte sectors around a write of {} bytes at {} can't be read: write whole sectors",
                op.len_bytes, op.offset_bytes
            )));
            return;
        };
        self.partial_in_flight += usize::from(logged.is_partial());
        self.in_flight.insert(token, logged);
    }

    /// Records that an operation completed. A failed write is logged, because it may have reached the device. A failed
    /// flush is not, because it made nothing durable.
    pub(crate) fn completed(&mut self, token: u64, has_failed: bool) {
        if self.has_ended {
            return;
        }
        if let Some(write) = self.in_flight.remove(&token) {
            self.partial_in_flight -= usize::from(write.is_partial());
            if self.partial_in_flight > 0 && !has_failed {
                self.in_flight.values_mut().for_each(|other| other.follow(&write));
            }
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
        let Logged { op, bytes, before, after } = write;
        let end_bytes = op.offset_bytes + u64::from(op.len_bytes);
        let first = op.offset_bytes / SECTOR_BYTES;
        let sectors = end_bytes.div_ceil(SECTOR_BYTES) - first;
        let flags = if op.kind == OpKind::Trim { flags | DISCARD } else { flags };
        self.entry([first, sectors, flags, 0], |to| {
            if op.kind == OpKind::Trim {
                return Ok(());
            }
            to.write_all(before)?;
            if op.kind == OpKind::WriteZeroes {
                io::copy(&mut io::repeat(0).take(u64::from(op.len_bytes)), to)?;
            }
            to.write_all(bytes)?;
            to.write_all(after)
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
        let left = std::mem::take(&mut self.complete);
        self.write_plain(&left);
        let mut open: Vec<(u64, Logged)> = self.in_flight.drain().collect();
        open.sort_by_key(|(token, _)| *token);
        let mut open = open.into_iter().map(|(_, write)| write).collect::<VecDeque<_>>();
        while let Some(write) = open.pop_front() {
            if self.partial_in_flight > 0 {
                for other in &mut open {
                    other.follow(&write);
                }
            }
            self.write(&write, 0);
        }
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First sector and flags of each entry of a log.
    fn entries(path: &Path) -> Vec<(u64, u64)> {
        entries_and_data(path).into_iter().map(|(sector, flags, _)| (sector, flags)).collect()
    }

    /// Content of a volume of 2 KiB after all writes of a log.
    fn replayed(path: &Path) -> Vec<u8> {
        let mut content = vec![0; 2048];
        for (sector, _, data) in entries_and_data(path) {
            content[sector as usize * 512..][..data.len()].copy_from_slice(&data);
        }
        content
    }

    /// First sector, flags and data of each entry of a log.
    fn entries_and_data(path: &Path) -> Vec<(u64, u64, Vec<u8>)> {
        let bytes = std::fs::read(path).unwrap();
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut at = 512;
        let found = (0..field(16)).map(|_| {
            let (sector, sectors, flags) = (field(at), field(at + 8), field(at + 16));
            let data = if flags & DISCARD == 0 { 512 * sectors as usize } else { 0 };
            at += 512 + data;
            (sector, flags, bytes[at - data..at].to_vec())
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
                log.submitted(token, &op, is_write.then_some(&bytes[..]), |_, _| false);
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
            log.submitted(token, &op, Some(&vec![1; len_bytes as usize]), |_, _| false);
            log.completed(token, false);
        };
        write(1, 512, 512);
        write(2, 100, 300);
        write(3, 1024, 512);
        log.end();
        assert!(log.failure().unwrap().contains("300 bytes at 100"));
        assert_eq!(entries(&path), [(1, 0)]);
        assert!(DataLog::create(&path).unwrap_err().contains("already exists"));
    }

    /// Replaying the log gives the volume's content, whatever parts of sectors were written, and in whatever order the
    /// writes complete.
    #[test]
    fn writes_within_sectors_are_logged_with_the_rest_of_their_sectors() {
        let mut random = iodyno_units::rng::stream(1, "partial sectors", 0);
        let mut below = |n: u64| iodyno_units::rng::below(&mut random, n);
        for left in [0, 2].repeat(50) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let mut log = DataLog::create(&path).unwrap();
            let mut content = vec![0; 2048];
            let mut open: Vec<(u64, Op)> = Vec::new();
            let apply = |content: &mut [u8], (token, op): (u64, Op)| {
                let fill = if op.kind == OpKind::Write { token as u8 } else { 0 };
                content[op.offset_bytes as usize..][..op.len_bytes as usize].fill(fill);
            };
            for token in 1..60 {
                let offset_bytes = below(2000);
                let len_bytes = 1 + below((2048 - offset_bytes).min(700)) as u32;
                let kind = if below(4) == 0 { OpKind::WriteZeroes } else { OpKind::Write };
                let op = Op { offset_bytes, len_bytes, kind, fua: below(8) == 0 };
                let bytes = vec![token as u8; len_bytes as usize];
                let data = (kind == OpKind::Write).then_some(&bytes[..]);
                let read = |at, into: &mut [u8]| (&content[at as usize..]).read_exact(into).is_ok();
                log.submitted(token, &op, data, read);
                open.push((token, op));
                while open.len() as u64 > left + below(4) {
                    let done = open.swap_remove(below(open.len() as u64) as usize);
                    apply(&mut content, done);
                    log.completed(done.0, false);
                }
            }
            open.sort_by_key(|of| of.0);
            for of in open {
                apply(&mut content, of);
            }
            log.end();
            assert_eq!(log.failure(), None);
            assert!(replayed(&path) == content);
        }
    }

    #[test]
    fn bytes_stay_in_memory_only_during_a_flush() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = DataLog::create(&path).unwrap();
        let write = |log: &mut DataLog, token: u64| {
            let op = Op { offset_bytes: 0, len_bytes: 512, kind: OpKind::Write, fua: false };
            log.submitted(token, &op, Some(&[1; 512]), |_, _| false);
            log.completed(token, false);
            log.complete.len()
        };
        for (first, has_failed) in [(0, false), (1000, true)] {
            for token in first..first + 100 {
                assert_eq!(write(&mut log, token), 0, "no flush is in flight");
            }
            log.submitted(first + 100, &Op::FLUSH, None, |_, _| false);
            assert_eq!(write(&mut log, first + 101), 1, "a flush is in flight");
            log.completed(first + 100, has_failed);
            assert!(log.complete.is_empty() && log.in_flight.is_empty());
        }
        // A kill of this process keeps them, too.
        log.flush();
        assert_eq!(entries(&path).len(), 2 * 101 + 1);
    }
}
