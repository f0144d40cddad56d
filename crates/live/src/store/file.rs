//! A volume's bytes in a sparse file, at the same offsets, so that the file can be mounted through a loop device. A
//! checksum file lies next to it.
//!
//! Every write is in the page cache before it returns, so a killed server loses nothing. A crash of the host may lose
//! data unless `sync` was called. If only the checksum of a unit reached the disk, the unit then reads as corrupt. Each
//! mebibyte has a lock, under which a unit's data and sums change together.
//!
//! # Writes that the host refuses or cuts short
//! - Each 512-byte sector has the old or the new content, and the unit's sum is set to match. A corrupt unit that was
//!   not changed stays corrupt. The unit in which the write ended always gets a matching sum, because the store can't
//!   tell whether the rest of this unit was corrupt.
//! - If the sums can't be written either, the unit is *doubtful*. This server accepts it with the old or the new sum
//!   or, if the write ended within it, with any content. The right sum is written before the generation is closed. If
//!   the server is killed earlier, the unit may read as corrupt.

mod repair;

use super::error::{OpenError, ReadError, WriteError};
use super::generation::Generations;
use super::guard::Guard;
use super::host::{Faults, Host, HostFile};
use super::new_files::{Made, lock_plain, remove_made};
use super::sums::{self, ENTRY_BYTES, Entry, Sums};
use super::units::{Part, Run, Soundness, UNIT, UNIT_BYTES, covered, ends, sum};
use repair::{Doubt, write_generations};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

const STRIPE_UNITS: u64 = 256;
const STRIPE_BYTES: u64 = STRIPE_UNITS * UNIT_BYTES;
const LOCKS: u64 = 256;
const ENTRIES: usize = STRIPE_UNITS as usize * ENTRY_BYTES;

const READING: &str = "reading the volume's file";
const WRITING: &str = "writing the volume's file";
const READING_SUMS: &str = "reading the volume's checksums";
const WRITING_SUMS: &str = "writing the volume's checksums";

/// A volume's data file and checksum file.
#[derive(Debug)]
pub(super) struct File {
    data: Host,
    sums: Sums,
    sums_path: PathBuf,
    capacity_bytes: u64,
    locks: Box<[RwLock<()>]>,
    /// Generations of writes (periods between flushes) that are closed or in doubt, as last written to the checksum
    /// file.
    generations: Mutex<Generations>,
    /// Generations of writes (periods between flushes) that are closed or in doubt, as read when the file was opened.
    opened: Generations,
    /// Whether the previous server of the file shut down cleanly; true if there was none.
    pub(super) was_ended: bool,
    /// Number of the current generation of writes, which began with the last flush and ends with the next.
    generation: AtomicU64,
    /// Whether anything was written in the current generation.
    is_dirty: AtomicBool,
    /// Units whose content may not match their checksum after a failed write, each with the content that it may have.
    doubtful: Mutex<BTreeMap<u64, Doubt>>,
    /// Length of `doubtful`, readable without its lock.
    doubts: AtomicUsize,
    /// Held while a generation is closed, so that only one thread does so at a time.
    closing: Mutex<()>,
    made: Mutex<Made>,
}

impl Drop for File {
    /// Releases the file lock explicitly. Closing the file might not, because a child process between fork and
    /// exec has a copy of the descriptor.
    fn drop(&mut self) {
        let _ = self.data.file().unlock();
    }
}

/// Path of the checksum file of a volume's data file at `path`.
pub(super) fn sums_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".sums");
    name.into()
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl File {
    /// Opens or creates the data file and the checksum file. On failure, files created by this call are removed.
    pub(super) fn open(
        path: &Path,
        capacity_bytes: u64,
        faults: Faults,
    ) -> Result<Self, OpenError> {
        let mut made = Made::default();
        let data = lock_plain(path, &mut made)?;
        let (sums, generations, was_ended) =
            match open_sums(path, &data, capacity_bytes, faults.clone(), &mut made) {
                Ok(opened) => opened,
                Err(why) => {
                    // The lock is held until the files are removed, so no other server has them.
                    made.remove();
                    let _ = data.unlock();
                    return Err(why);
                }
            };
        let locks = (0..LOCKS).map(|_| RwLock::new(())).collect();
        Ok(Self {
            data: Host::new(data, HostFile::Data, faults),
            sums,
            sums_path: sums_path(path),
            capacity_bytes,
            locks,
            generation: AtomicU64::new(generations.closed + 1),
            opened: generations.clone(),
            was_ended,
            generations: Mutex::new(generations),
            is_dirty: AtomicBool::new(false),
            doubtful: Mutex::default(),
            doubts: AtomicUsize::new(0),
            closing: Mutex::default(),
            made: Mutex::new(made),
        })
    }

    /// Removes the files that opening created, unless the data file has content. `sums_alone`: opening created only
    /// the checksum file, which is always removed.
    pub(super) fn remove_made(&self, sums_alone: bool) {
        if sums_alone || self.data.seek(SeekFrom::Data(0)) == Err(Errno::NXIO) {
            held(&self.made).remove();
        }
    }

    /// Removes the volume's checksum file.
    pub(super) fn remove_sums(&self) {
        remove_made(&self.sums_path, self.sums.host().file());
    }

    fn lock(&self, unit: u64) -> &RwLock<()> {
        &self.locks[(unit / STRIPE_UNITS % LOCKS) as usize]
    }

    /// Length of a range of units in the data file, bytes: less than 4 KiB per unit if the volume ends within the last
    /// unit.
    fn bytes_of(&self, units: &Range<u64>) -> usize {
        let end = (units.end * UNIT_BYTES).min(self.capacity_bytes);
        (end - units.start * UNIT_BYTES) as usize
    }

    /// The checksums of which a unit's content must match one, and their number: 0 to 2. If it is 0, any content is
    /// accepted.
    fn sums_of(&self, unit: u64, entry: Entry) -> ([u32; 2], usize) {
        let sums = [entry.sum, entry.former];
        if sums == [0, 0] {
            return (sums, 0);
        }
        match self.doubt_of(unit) {
            None => {}
            Some(Doubt::Torn) => return (sums, 0),
            Some(Doubt::Either(sums)) => return (sums, 2),
        }
        let is_in_doubt =
            entry.generation <= self.opened.closed && self.opened.is_in_doubt(entry.generation);
        (sums, if entry.former != 0 && is_in_doubt { 2 } else { 1 })
    }

    fn read_unit(&self, unit: u64, into: &mut [u8; UNIT]) -> io::Result<()> {
        let len = self.bytes_of(&(unit..unit + 1));
        into[len..].fill(0);
        self.data.read(&mut into[..len], unit * UNIT_BYTES)
    }

    /// Reads a whole unit, and verifies it with the function `passes(unit, data, checksums)`.
    fn read_sound(
        &self,
        unit: u64,
        into: &mut [u8; UNIT],
        passes: impl Fn(u64, &[u8], &[u32]) -> bool,
    ) -> Result<(), ReadError> {
        let mut entry = [0; ENTRY_BYTES];
        self.sums.read(unit, 1, &mut entry).map_err(|e| ReadError::io(READING_SUMS, &e))?;
        self.read_unit(unit, into).map_err(|e| ReadError::io(READING, &e))?;
        let (sums, count) = self.sums_of(unit, sums::entry(&entry, 0));
        if passes(unit, into, &sums[..count]) { Ok(()) } else { Err(ReadError::Corrupt { unit }) }
    }

    pub(super) fn read(
        &self,
        offset_bytes: u64,
        into: &mut [u8],
        guard: &Guard,
    ) -> Result<(), ReadError> {
        if guard.lets_all_pass() {
            let read = self.data.read(into, offset_bytes);
            return read.map_err(|e| ReadError::io(READING, &e));
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
            let read = self.data.read(into, whole.start * UNIT_BYTES);
            read.map_err(|e| ReadError::io(READING, &e))?;
            for (i, unit) in whole.clone().enumerate() {
                let (sums, known) = self.sums_of(unit, sums::entry(entries, i));
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
            self.write_units(&whole, &data[from..from + count * UNIT])?;
            guard.lift(&whole);
        }
        for part in ends(offset, data.len() as u64) {
            self.change_part(part, guard, |bytes| bytes.copy_from_slice(&data[part.range()]))?;
        }
        Ok(())
    }

    /// Performs a read-modify-write of a part of a unit. The caller holds the unit's lock.
    fn change_part(
        &self,
        part: Part,
        guard: &Guard,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), WriteError> {
        let mut bytes = [0; UNIT];
        self.read_sound(part.unit, &mut bytes, |u, b, s| guard.passes_always(u, b, s))?;
        change(&mut bytes[part.from..part.to]);
        self.write_units(&(part.unit..part.unit + 1), &bytes)?;
        guard.lift(&(part.unit..part.unit + 1));
        Ok(())
    }

    /// Writes a part of a corrupt unit, which stays corrupt. Injected corruption is not in the stored bytes, so their
    /// checksum is updated with them. If the stored bytes themselves do not match their checksum, the checksum is not
    /// changed.
    #[cold]
    pub(super) fn write_beneath(&self, part: Part, data: &[u8]) -> Result<(), WriteError> {
        let lock = self.lock(part.unit).write();
        let _lock = lock.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; UNIT];
        let is_own = |_, bytes: &[u8], sums: &[u32]| sums.is_empty() || sums.contains(&sum(bytes));
        match self.read_sound(part.unit, &mut bytes, is_own) {
            Ok(()) => {
                bytes[part.from..part.to].copy_from_slice(data);
                self.write_units(&(part.unit..part.unit + 1), &bytes)
            }
            Err(ReadError::Corrupt { .. }) => {
                let written = self.data.write(data, part.offset_bytes());
                written.map_err(|e| WriteError::io(WRITING, &e))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Writes whole units within one lock stripe. The caller holds the stripe's lock.
    fn write_units(&self, units: &Range<u64>, data: &[u8]) -> Result<(), WriteError> {
        let generation = self.begin_write().map_err(|e| WriteError::io(WRITING_SUMS, &e))?;
        let mut buffer = [0; ENTRIES];
        let count = (units.end - units.start) as usize;
        let entries = self.sums.read(units.start, count, &mut buffer);
        let entries = entries.map_err(|e| WriteError::io(READING_SUMS, &e))?;
        for (i, unit) in units.clone().enumerate() {
            let entry = sums::entry(entries, i);
            let mut former = entry.sum;
            let (sums, known) = self.sums_of(unit, entry);
            if known != 1 {
                let mut bytes = [0; UNIT];
                self.read_unit(unit, &mut bytes).map_err(|e| WriteError::io(READING, &e))?;
                let found = sum(&bytes);
                // A corrupt unit must not become valid by a write that does not happen.
                if known == 0 || sums[..known].contains(&found) {
                    former = found;
                }
            }
            let sum = sum(&data[i * UNIT..(i + 1) * UNIT]);
            sums::set_entry(entries, i, Entry { sum, former, generation });
        }
        let len = self.bytes_of(units);
        let written = match self.sums.write(units.start, entries) {
            Ok(()) => {
                let written = self.data.write_counted(&data[..len], units.start * UNIT_BYTES);
                written.map_err(|r| (r.written_bytes, WriteError::io(WRITING, &r.error)))
            }
            Err(e) => Err((0, WriteError::io(WRITING_SUMS, &e))),
        };
        if let Err((written_bytes, why)) = written {
            self.resume(units, written_bytes, entries);
            return Err(why);
        }
        if self.doubts.load(Ordering::Relaxed) > 0 {
            self.trust(units);
        }
        Ok(())
    }

    /// Zeroes a part of a 4 KiB unit.
    pub(super) fn zero_part(&self, part: Part, guard: &Guard) -> Result<(), WriteError> {
        let lock = self.lock(part.unit).write();
        let _lock = lock.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; UNIT];
        self.read_sound(part.unit, &mut bytes, |u, b, s| guard.passes_always(u, b, s))?;
        if bytes[part.from..part.to].iter().all(|&b| b == 0) {
            return Ok(());
        }
        bytes[part.from..part.to].fill(0);
        self.write_units(&(part.unit..part.unit + 1), &bytes)?;
        guard.lift(&(part.unit..part.unit + 1));
        Ok(())
    }

    /// Deallocates units, which become holes without checksums.
    pub(super) fn drop_units(&self, units: &Range<u64>) -> Result<(), WriteError> {
        let stripes = units.start / STRIPE_UNITS..units.end.div_ceil(STRIPE_UNITS);
        if stripes.end.saturating_sub(stripes.start) > 16 {
            // Locks are taken in order, and no other thread waits for one while it holds another, so they can't
            // deadlock.
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
        // Without sums any data is accepted, so the sums are removed first.
        let (at, len) = (Sums::offset_bytes(units.start), count * ENTRY_BYTES as u64);
        self.sums.host().punch(at, len).map_err(|e| WriteError::io(WRITING_SUMS, &e))?;
        let len = self.bytes_of(units) as u64;
        let punched = self.data.punch(units.start * UNIT_BYTES, len);
        punched.map_err(|e| WriteError::io(WRITING, &e))?;
        if self.doubts.load(Ordering::Relaxed) > 0 {
            self.trust(units);
        }
        Ok(())
    }

    /// Finds the run of units from `unit` up to at most `end` that are either all a hole or all data.
    pub(super) fn run(&self, unit: u64, end: u64) -> Run {
        self.data.run(unit, end)
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

    pub(super) fn sync(&self, ended: bool) -> Result<(), WriteError> {
        self.data.sync().map_err(|e| WriteError::io("syncing the volume's file", &e))?;
        self.close_generation(ended)?;
        self.sums.host().sync().map_err(|e| WriteError::io("syncing the volume's checksums", &e))
    }
}

/// Opens the checksum file of a locked data file. If the data file is new, sets its size last, so that a killed server
/// does not leave a full-sized data file with checksums of an earlier one.
fn open_sums(
    path: &Path,
    data: &std::fs::File,
    capacity_bytes: u64,
    faults: Faults,
    made: &mut Made,
) -> Result<(Sums, Generations, bool), OpenError> {
    let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
    let too_large = || OpenError::TooLarge { path: path.to_owned(), wanted_bytes: capacity_bytes };
    let found_bytes = data.metadata().map_err(|e| failed("reading its metadata", e))?.len();
    let is_new = found_bytes == 0;
    if !is_new && found_bytes != capacity_bytes {
        let (path, wanted_bytes) = (path.to_owned(), capacity_bytes);
        return Err(OpenError::Size { path, found_bytes, wanted_bytes });
    }
    // Seeking beyond the largest file of a file system fails.
    if is_new && seek(data, SeekFrom::Start(capacity_bytes)).is_err() {
        return Err(too_large());
    }
    let (sums, mut generations) =
        Sums::open(&sums_path(path), capacity_bytes, is_new, faults, made)?;
    let was_ended = generations.is_ended();
    generations.open();
    write_generations(&sums, &generations)
        .and_then(|()| sums.host().sync())
        .map_err(|e| failed("writing the header of its checksum file", e))?;
    if is_new {
        data.set_len(capacity_bytes).map_err(|source| match source.kind() {
            io::ErrorKind::FileTooLarge => too_large(),
            _ => failed("setting its size", source),
        })?;
    }
    Ok((sums, generations, was_ended))
}

/// Splits a range at the boundaries of lock stripes. Returns the volume offset of each section, and its byte
/// range relative to the start of the whole range.
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

#[cfg(test)]
mod tests {
    use super::*;

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
