//! A volume's bytes in a sparse file, offset for offset, so that it can be mounted through a loop
//! device; its sums lie beside it.
//!
//! Every write goes to the page cache before it returns: a server that is killed loses nothing.
//! (A host that crashes may: `sync` is for that. It may also leave units whose sums came to the disk
//! and whose data did not: they read as corrupt.) Locks are striped by mebibyte; a unit's data and sums
//! change under one.

use super::error::{OpenError, ReadError, WriteError};
use super::guard::Guard;
use super::settled::Settled;
use super::sums::{self, ENTRY_BYTES, Sums, open_plain};
use super::units::{Part, UNIT, UNIT_BYTES, covered, ends, sum};
use super::{Run, Soundness};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File as SystemFile, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

const STRIPE_UNITS: u64 = 256;
const STRIPE_BYTES: u64 = STRIPE_UNITS * UNIT_BYTES;
const LOCKS: u64 = 256;
const ENTRIES: usize = STRIPE_UNITS as usize * ENTRY_BYTES;

const READING: &str = "reading the volume's file";
const WRITING: &str = "writing the volume's file";
const READING_SUMS: &str = "reading the volume's sums";
const WRITING_SUMS: &str = "writing the volume's sums";

/// See the module.
#[derive(Debug)]
pub(super) struct File {
    data: SystemFile,
    sums: Sums,
    settled: Settled,
    capacity_bytes: u64,
    locks: Box<[RwLock<()>]>,
}

impl Drop for File {
    /// A process that is just being started has a copy of the descriptor until it runs its program: the
    /// lock is given up, not left to the last copy.
    fn drop(&mut self) {
        let _ = self.data.unlock();
    }
}

/// Where the sums of a volume's file are.
pub(super) fn sums_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".sums");
    name.into()
}

impl File {
    pub(super) fn open(path: &Path, capacity_bytes: u64) -> Result<Self, OpenError> {
        let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
        let data = open_plain(path)?;
        match data.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: path.to_owned() });
            }
            Err(TryLockError::Error(e)) => return Err(failed("locking it", e)),
        }
        let found_bytes = data.metadata().map_err(|e| failed("looking at it", e))?.len();
        if found_bytes != 0 && found_bytes != capacity_bytes {
            let (path, wanted_bytes) = (path.to_owned(), capacity_bytes);
            return Err(OpenError::Size { path, found_bytes, wanted_bytes });
        }
        let sums = Sums::open(&sums_path(path), capacity_bytes, found_bytes == 0)?;
        if found_bytes == 0 {
            data.set_len(capacity_bytes).map_err(|e| failed("giving it its size", e))?;
        }
        let settled = Settled::new(capacity_bytes.div_ceil(UNIT_BYTES));
        let locks = (0..LOCKS).map(|_| RwLock::new(())).collect();
        Ok(Self { data, sums, settled, capacity_bytes, locks })
    }

    fn lock(&self, unit: u64) -> &RwLock<()> {
        &self.locks[(unit / STRIPE_UNITS % LOCKS) as usize]
    }

    /// Bytes of the units in the file: the last one may be cut short.
    fn bytes_of(&self, units: &Range<u64>) -> usize {
        let end = (units.end * UNIT_BYTES).min(self.capacity_bytes);
        (end - units.start * UNIT_BYTES) as usize
    }

    /// The sums that a unit's data may have; none: any.
    fn sums_of(&self, unit: u64, entries: &[u8], i: usize) -> ([u32; 2], usize) {
        let entry = sums::entry(entries, i);
        match entry {
            [0, 0] => (entry, 0),
            [_, 0] => (entry, 1),
            _ if self.settled.get(unit) => (entry, 1),
            _ => (entry, 2),
        }
    }

    fn read_unit(&self, unit: u64, into: &mut [u8; UNIT]) -> io::Result<()> {
        let len = self.bytes_of(&(unit..unit + 1));
        into[len..].fill(0);
        self.data.read_exact_at(&mut into[..len], unit * UNIT_BYTES)
    }

    /// A unit that passes, whole.
    fn read_sound(
        &self,
        unit: u64,
        into: &mut [u8; UNIT],
        passes: impl Fn(u64, &[u8], &[u32]) -> bool,
    ) -> Result<(), ReadError> {
        let mut entry = [0; ENTRY_BYTES];
        self.sums.read(unit, 1, &mut entry).map_err(|e| ReadError::io(READING_SUMS, &e))?;
        self.read_unit(unit, into).map_err(|e| ReadError::io(READING, &e))?;
        let (sums, count) = self.sums_of(unit, &entry, 0);
        if passes(unit, into, &sums[..count]) { Ok(()) } else { Err(ReadError::Corrupt { unit }) }
    }

    pub(super) fn read(
        &self,
        offset_bytes: u64,
        into: &mut [u8],
        guard: &Guard,
    ) -> Result<(), ReadError> {
        if guard.lets_all_pass() {
            return self
                .data
                .read_exact_at(into, offset_bytes)
                .map_err(|e| ReadError::io(READING, &e));
        }
        for (at, piece) in stripes(offset_bytes, into.len()) {
            self.read_stripe(at, &mut into[piece], guard)?;
        }
        Ok(())
    }

    fn read_stripe(&self, offset: u64, into: &mut [u8], guard: &Guard) -> Result<(), ReadError> {
        let lock = self.lock(offset / UNIT_BYTES).read();
        let _lock = lock.unwrap_or_else(PoisonError::into_inner);
        let whole = covered(offset, into.len() as u64);
        if !whole.is_empty() {
            let from = (whole.start * UNIT_BYTES - offset) as usize;
            let count = (whole.end - whole.start) as usize;
            let into = &mut into[from..from + count * UNIT];
            let mut buffer = [0; ENTRIES];
            let entries = self.sums.read(whole.start, count, &mut buffer);
            let entries = entries.map_err(|e| ReadError::io(READING_SUMS, &e))?;
            self.data
                .read_exact_at(into, whole.start * UNIT_BYTES)
                .map_err(|e| ReadError::io(READING, &e))?;
            for (i, unit) in whole.clone().enumerate() {
                let (sums, known) = self.sums_of(unit, entries, i);
                if !guard.passes(unit, &into[i * UNIT..(i + 1) * UNIT], &sums[..known]) {
                    return Err(ReadError::Corrupt { unit });
                }
            }
        }
        for part in ends(offset, into.len() as u64) {
            let mut bytes = [0; UNIT];
            self.read_sound(part.unit, &mut bytes, |u, b, s| guard.passes(u, b, s))?;
            into[part.range()].copy_from_slice(&bytes[part.from..part.to]);
        }
        Ok(())
    }

    pub(super) fn write(
        &self,
        offset_bytes: u64,
        data: &[u8],
        guard: &Guard,
    ) -> Result<(), WriteError> {
        for (at, piece) in stripes(offset_bytes, data.len()) {
            self.write_stripe(at, &data[piece], guard)?;
        }
        Ok(())
    }

    fn write_stripe(&self, offset: u64, data: &[u8], guard: &Guard) -> Result<(), WriteError> {
        let lock = self.lock(offset / UNIT_BYTES).write();
        let _lock = lock.unwrap_or_else(PoisonError::into_inner);
        let whole = covered(offset, data.len() as u64);
        if !whole.is_empty() {
            let from = (whole.start * UNIT_BYTES - offset) as usize;
            let count = (whole.end - whole.start) as usize;
            self.write_units(&whole, &data[from..from + count * UNIT], guard)?;
        }
        for part in ends(offset, data.len() as u64) {
            self.change_part(part, guard, |bytes| bytes.copy_from_slice(&data[part.range()]))?;
        }
        Ok(())
    }

    /// Reads a unit, changes a part of it, and writes it, under its lock.
    fn change_part(
        &self,
        part: Part,
        guard: &Guard,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), WriteError> {
        let mut bytes = [0; UNIT];
        self.read_sound(part.unit, &mut bytes, |u, b, s| guard.passes_always(u, b, s))?;
        change(&mut bytes[part.from..part.to]);
        self.write_units(&(part.unit..part.unit + 1), &bytes, guard)
    }

    /// Whole units of one stripe, under its lock.
    fn write_units(
        &self,
        units: &Range<u64>,
        data: &[u8],
        guard: &Guard,
    ) -> Result<(), WriteError> {
        let mut buffer = [0; ENTRIES];
        let count = (units.end - units.start) as usize;
        let entries = self.sums.read(units.start, count, &mut buffer);
        let entries = entries.map_err(|e| WriteError::io(READING_SUMS, &e))?;
        for (i, unit) in units.clone().enumerate() {
            let mut old = sums::entry(entries, i)[0];
            if !self.settled.get(unit) {
                let mut bytes = [0; UNIT];
                self.read_unit(unit, &mut bytes).map_err(|e| WriteError::io(READING, &e))?;
                let found = sum(&bytes);
                let (sums, known) = self.sums_of(unit, entries, i);
                // What is corrupt must not become sound by a write that does not happen.
                if known == 0 || sums[..known].contains(&found) {
                    old = found;
                }
            }
            sums::set_entry(entries, i, [sum(&data[i * UNIT..(i + 1) * UNIT]), old]);
        }
        self.settled.set(units.clone(), false);
        self.sums.write(units.start, entries).map_err(|e| WriteError::io(WRITING_SUMS, &e))?;
        let data = &data[..self.bytes_of(units)];
        self.data
            .write_all_at(data, units.start * UNIT_BYTES)
            .map_err(|e| WriteError::io(WRITING, &e))?;
        self.settled.set(units.clone(), true);
        guard.lift(units);
        Ok(())
    }

    /// Zeroes over a part of a unit.
    pub(super) fn zero_part(&self, part: Part, guard: &Guard) -> Result<(), WriteError> {
        let lock = self.lock(part.unit).write();
        let _lock = lock.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; UNIT];
        self.read_sound(part.unit, &mut bytes, |u, b, s| guard.passes_always(u, b, s))?;
        if bytes[part.from..part.to].iter().all(|&b| b == 0) {
            return Ok(());
        }
        bytes[part.from..part.to].fill(0);
        self.write_units(&(part.unit..part.unit + 1), &bytes, guard)
    }

    /// These units are given up: holes, without sums.
    pub(super) fn drop_units(&self, units: &Range<u64>) -> Result<(), WriteError> {
        let stripes = units.start / STRIPE_UNITS..units.end.div_ceil(STRIPE_UNITS);
        if stripes.end.saturating_sub(stripes.start) > 16 {
            // Nobody who holds one lock waits for another: taken in order, they can't be stuck.
            let locks =
                self.locks.iter().map(|l| l.write().unwrap_or_else(PoisonError::into_inner));
            let _locks: Vec<_> = locks.collect();
            return self.drop_locked(units);
        }
        for stripe in stripes {
            let (start, end) = (stripe * STRIPE_UNITS, (stripe + 1) * STRIPE_UNITS);
            let lock = self.lock(start).write();
            let _lock = lock.unwrap_or_else(PoisonError::into_inner);
            self.drop_locked(&(start.max(units.start)..end.min(units.end)))?;
        }
        Ok(())
    }

    fn drop_locked(&self, units: &Range<u64>) -> Result<(), WriteError> {
        let count = units.end - units.start;
        self.settled.set(units.clone(), false);
        // Without sums any data pass, so they go first.
        let (at, len) = (Sums::offset_bytes(units.start), count * ENTRY_BYTES as u64);
        punch(self.sums.file(), at, len).map_err(|e| WriteError::io(WRITING_SUMS, &e))?;
        let len = self.bytes_of(units) as u64;
        punch(&self.data, units.start * UNIT_BYTES, len).map_err(|e| WriteError::io(WRITING, &e))
    }

    /// The run of units from `unit` on, up to `end`, that all lie in a hole, or all not.
    pub(super) fn run(&self, unit: u64, end: u64) -> Run {
        let offset = unit * UNIT_BYTES;
        let (data, until) = match seek(&self.data, SeekFrom::Data(offset)) {
            Ok(at) if at / UNIT_BYTES > unit => (false, at / UNIT_BYTES),
            Ok(_) => {
                let hole = seek(&self.data, SeekFrom::Hole(offset));
                (true, hole.map_or(end, |at| at.div_ceil(UNIT_BYTES).max(unit + 1)))
            }
            Err(Errno::NXIO) => (false, end),
            // A file system that does not know.
            Err(_) => (true, end),
        };
        Run { data, end: until.min(end) }
    }

    pub(super) fn verify(&self, unit: u64, guard: &Guard) -> Result<Soundness, ReadError> {
        let lock = self.lock(unit).read();
        let _lock = lock.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; UNIT];
        let known = std::cell::Cell::new(false);
        let passes = |unit, bytes: &[u8], sums: &[u32]| {
            known.set(!sums.is_empty());
            guard.passes_always(unit, bytes, sums)
        };
        match self.read_sound(unit, &mut bytes, passes) {
            Ok(()) if known.get() => Ok(Soundness::Sound),
            Ok(()) => Ok(Soundness::Unknown),
            Err(ReadError::Corrupt { .. }) => Ok(Soundness::Corrupt),
            Err(e) => Err(e),
        }
    }

    pub(super) fn sync(&self) -> Result<(), WriteError> {
        self.data.sync_data().map_err(|e| WriteError::io("syncing the volume's file", &e))?;
        self.sums.file().sync_data().map_err(|e| WriteError::io("syncing the volume's sums", &e))
    }
}

/// A range cut at the ends of stripes: where each piece begins on the volume, and its place in the
/// range.
fn stripes(offset_bytes: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = offset_bytes + len as u64;
    let mut at = offset_bytes;
    std::iter::from_fn(move || {
        let to = ((at / STRIPE_BYTES + 1) * STRIPE_BYTES).min(end);
        (at < end).then(|| {
            let from = std::mem::replace(&mut at, to);
            (from, (from - offset_bytes) as usize..(to - offset_bytes) as usize)
        })
    })
}

/// Makes a hole, or, where the file system has none, zeroes what is not zero.
fn punch(file: &SystemFile, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, flags, offset_bytes, len_bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeroes(file, offset_bytes, len_bytes),
        Err(e) => Err(e.into()),
    }
}

fn write_zeroes(file: &SystemFile, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; len_bytes.min(STRIPE_BYTES) as usize];
    let end = offset_bytes + len_bytes;
    let mut at = offset_bytes;
    while at < end {
        match seek(file, SeekFrom::Data(at)) {
            Ok(data) => at = at.max(data),
            Err(Errno::NXIO) => break,
            Err(_) => {}
        }
        if at >= end {
            break;
        }
        let len = (end - at).min(zeroes.len() as u64);
        file.write_all_at(&zeroes[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a file system has no holes, the range alone is zeroed, and nothing beyond the end is made.
    #[test]
    fn zeroes_are_written_where_there_is_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&vec![7; 3 << 20], 1 << 20).unwrap();
        write_zeroes(&file, (1 << 20) + 5, (6 << 20) - 5).unwrap();
        let mut bytes = vec![1; 8 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let not_zero: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] != 0).collect();
        assert_eq!(not_zero, (1 << 20..(1 << 20) + 5).collect::<Vec<_>>());
        assert_eq!(file.metadata().unwrap().len(), 8 << 20);
    }

    #[test]
    fn stripes_tile_a_range() {
        for (offset, len) in [(0, 10), (5, 4 << 20), (STRIPE_BYTES - 1, 2), (4096, 4096), (7, 0)] {
            let mut at = 0;
            for (from, piece) in stripes(offset, len) {
                assert_eq!((from, piece.start), (offset + at as u64, at));
                let last = offset + piece.end as u64 - 1;
                assert_eq!(from / STRIPE_BYTES, last / STRIPE_BYTES);
                at = piece.end;
            }
            assert_eq!(at, len);
        }
    }
}
