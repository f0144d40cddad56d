//! An existing disk image below a volume in memory: reads return the image's bytes wherever the volume was not written.
//! The image is a raw file or an export of another NBD server, and is never written to.

use super::error::{OpenError, ReadError};
use super::host::{Host, HostFile, NO_FAULTS};
use super::units::{Run, UNIT, UNIT_BYTES};
use iodyno_nbd::client::{Blocking, ClientError, Uri};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Timeout for a reply of the NBD server that exports the image.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a read request to the image's NBD server, bytes; every server accepts this size.
const REQUEST_BYTES: usize = 1 << 20;
const READING: &str = "reading the image";

#[derive(Debug)]
enum Source {
    File(Host),
    Export(Mutex<Box<Blocking>>),
}

/// An open disk image, and the set of its units that clients have discarded.
#[derive(Debug)]
pub struct Image {
    source: Source,
    size_bytes: u64,
    /// Units that clients have discarded, as ranges: start → end. Adjacent ranges are merged.
    dropped: RwLock<BTreeMap<u64, u64>>,
}

impl Image {
    /// Opens a plain file as a raw disk image, and locks it so that no other server writes to it.
    ///
    /// # Errors
    /// The path is not a plain file, the file is empty, another server has it open, or a system call fails.
    pub fn file(path: &Path) -> Result<Self, OpenError> {
        let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
        // Checked before opening: opening a device can have side effects.
        let metadata = std::fs::metadata(path).map_err(|e| failed("reading its metadata", e))?;
        if !metadata.is_file() {
            let what = "a folder, a device, a pipe or a socket";
            return Err(OpenError::NotAnImage { path: path.to_owned(), what });
        }
        let file = File::open(path).map_err(|e| failed("opening it", e))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: path.to_owned() });
            }
            Err(TryLockError::Error(e)) => return Err(failed("locking it", e)),
        }
        let size_bytes = file.metadata().map_err(|e| failed("reading its metadata", e))?.len();
        if size_bytes == 0 {
            return Err(OpenError::NotAnImage { path: path.to_owned(), what: "an empty file" });
        }
        Ok(Self::of(Source::File(Host::new(file, HostFile::Data, NO_FAULTS)), size_bytes))
    }

    /// Opens an export of another NBD server as an image.
    ///
    /// # Errors
    /// The export does not exist, or can't be reached.
    pub fn export(uri: &Uri) -> Result<Self, ClientError> {
        let client = Blocking::connect(uri)?.with_patience(ANSWER_TIMEOUT);
        let size_bytes = client.info().size_bytes;
        Ok(Self::of(Source::Export(Mutex::new(Box::new(client))), size_bytes))
    }

    fn of(source: Source, size_bytes: u64) -> Self {
        Self { source, size_bytes, dropped: RwLock::default() }
    }

    /// Size of the image, bytes. Reads beyond it return zeroes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads from the image. Discarded units and bytes beyond the image's end read as zeroes.
    ///
    /// # Errors
    /// Reading the file fails, or the NBD server fails.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let len = self.size_bytes.saturating_sub(offset_bytes).min(into.len() as u64) as usize;
        into[len..].fill(0);
        let read = match &self.source {
            Source::File(file) => file.read(&mut into[..len], offset_bytes),
            Source::Export(client) => {
                let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
                let pieces = into[..len].chunks_mut(REQUEST_BYTES).zip(0..);
                pieces.into_iter().try_for_each(|(piece, number): (_, u64)| {
                    client.read(offset_bytes + number * REQUEST_BYTES as u64, piece)
                })
            }
        };
        read.map_err(|e| ReadError::io(READING, &e))?;
        let end_bytes = offset_bytes + len as u64;
        let units = offset_bytes / UNIT_BYTES..end_bytes.div_ceil(UNIT_BYTES);
        for gone in self.dropped_in(&units) {
            let from = (gone.start * UNIT_BYTES).max(offset_bytes) - offset_bytes;
            let to = (gone.end * UNIT_BYTES).min(end_bytes).saturating_sub(offset_bytes);
            into[from as usize..(to.max(from)) as usize].fill(0);
        }
        Ok(())
    }

    /// Reads one 4 KiB unit of the image.
    pub(super) fn read_unit(&self, unit: u64, into: &mut [u8; UNIT]) -> Result<(), ReadError> {
        self.read(unit * UNIT_BYTES, into)
    }

    /// Ranges of discarded units that intersect `units`.
    fn dropped_in(&self, units: &Range<u64>) -> Vec<Range<u64>> {
        let dropped = self.dropped.read().unwrap_or_else(PoisonError::into_inner);
        let before = dropped.range(..units.start).next_back().filter(|r| *r.1 > units.start);
        let all = before.into_iter().chain(dropped.range(units.clone()));
        all.map(|(&start, &end)| start..end).collect()
    }

    /// Discards units of the image. From now on they read as zeroes.
    pub(super) fn drop_units(&self, units: &Range<u64>) {
        if units.is_empty() {
            return;
        }
        let mut dropped = self.dropped.write().unwrap_or_else(PoisonError::into_inner);
        let Range { mut start, mut end } = units.clone();
        // Merged with all ranges that touch it.
        while let Some((&first, &last)) = dropped.range(..=end).next_back()
            && last >= start
        {
            (start, end) = (start.min(first), end.max(last));
            dropped.remove(&first);
        }
        dropped.insert(start, end);
    }

    /// Finds the run of units from `unit` up to at most `end` that are either all data or all without data. An
    /// NBD export counts as data throughout.
    pub(super) fn run(&self, unit: u64, end: u64) -> Run {
        let dropped = self.dropped_in(&(unit..end));
        let end = match dropped.first() {
            Some(gone) if gone.start <= unit => return Run { data: false, end: gone.end.min(end) },
            Some(gone) => gone.start,
            None => end,
        };
        let units = self.size_bytes.div_ceil(UNIT_BYTES);
        match &self.source {
            _ if unit >= units => Run { data: false, end },
            Source::File(file) => file.run(unit, end.min(units)),
            Source::Export(_) => Run { data: true, end: end.min(units) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};
    use std::io::Write as _;

    /// Discarded units, and everything beyond the image's end, read as zeroes and count as holes.
    #[test]
    fn dropped_units_show_zeroes() {
        const UNITS: u64 = 40;
        let mut random = stream(1, "image", 0);
        for history in 0..50 {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![7; UNIT * UNITS as usize - 100]).unwrap();
            let image = Image::file(file.path()).unwrap();
            let mut plain = vec![7; UNIT * UNITS as usize];
            plain[UNIT * UNITS as usize - 100..].fill(0);
            for _ in 0..12 {
                let from = below(&mut random, UNITS);
                let to = from + below(&mut random, 8).min(UNITS - from);
                image.drop_units(&(from..to));
                plain[from as usize * UNIT..to as usize * UNIT].fill(0);
                let at = below(&mut random, plain.len() as u64);
                let mut read = vec![1; below(&mut random, plain.len() as u64 - at) as usize];
                image.read(at, &mut read).unwrap();
                assert!(read == plain[at as usize..at as usize + read.len()], "{history}");
            }
            let mut at = 0;
            while at < UNITS {
                let run = image.run(at, UNITS);
                assert!(run.end > at);
                let bytes = &plain[at as usize * UNIT..run.end as usize * UNIT];
                assert!(bytes.iter().all(|&b| b == 0) != run.data, "{history}: {at} {run:?}");
                at = run.end;
            }
            let ranges = image.dropped_in(&(0..UNITS));
            assert!(ranges.windows(2).all(|w| w[0].end < w[1].start), "{ranges:?}");
        }
    }
}
