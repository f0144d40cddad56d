//! A disk in memory with a volatile cache. Reads return the latest writes; after a power cut, flushed data and any
//! subset of the unflushed sectors.

use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use iodyno_units::rng::{Generator, below};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Size of a sector, bytes. A torn write keeps or loses whole sectors.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Number of Linux's error for a failed read.
const EIO: i32 = 5;

#[derive(Clone, Debug, Default)]
struct Content {
    durable: Vec<u8>,
    /// Content as reads return it.
    cached: Vec<u8>,
    /// Writes that completed since the last flush.
    pending: Vec<(u64, Vec<u8>)>,
    /// Numbers of sectors that can't be read.
    unreadable: Vec<usize>,
    reads: u64,
    /// Numbers of the reads that fail, from 1.
    failing_reads: Range<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Disk {
    content: Mutex<Content>,
    /// Whether the disk acknowledges flushes without emptying its cache.
    pub(crate) ignores_flushes: bool,
    /// Number of bytes read through all clones together.
    read_bytes: Arc<AtomicU64>,
}

impl Clone for Disk {
    fn clone(&self) -> Self {
        let content = Mutex::new(self.content().clone());
        let read_bytes = Arc::clone(&self.read_bytes);
        Self { content, ignores_flushes: self.ignores_flushes, read_bytes }
    }
}

impl Disk {
    pub(crate) fn new(bytes: usize) -> Self {
        Self::of(vec![0; bytes])
    }

    pub(crate) fn of(image: Vec<u8>) -> Self {
        let content = Content { cached: image.clone(), durable: image, ..Content::default() };
        Self { content: Mutex::new(content), ..Self::default() }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of writes since the last flush.
    pub(crate) fn pending(&self) -> usize {
        self.content().pending.len()
    }

    /// Makes the first `count` writes since the last flush durable.
    pub(crate) fn flush_first(&self, count: usize) {
        let content = &mut *self.content();
        if self.ignores_flushes {
            return;
        }
        for (offset, bytes) in content.pending.drain(..count) {
            content.durable[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Makes some sectors of a write durable.
    pub(crate) fn write_some(&self, offset_bytes: u64, bytes: &[u8], rng: &mut Generator) {
        let kind = below(rng, 3);
        for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            if kind == 0 || (kind == 1 && below(rng, 2) == 0) {
                let _ = self.write_at(offset_bytes + (i * SECTOR_BYTES) as u64, sector);
            }
        }
    }

    /// Cuts the power: any sectors of each write since the last flush may remain.
    pub(crate) fn cut_power(&self, rng: &mut Generator) {
        let pending = {
            let content = &mut *self.content();
            content.cached.clone_from(&content.durable);
            std::mem::take(&mut content.pending)
        };
        for (offset, bytes) in pending {
            self.write_some(offset, &bytes, rng);
        }
        let content = &mut *self.content();
        content.pending.clear();
        content.durable.clone_from(&content.cached);
    }

    pub(crate) fn image(&self) -> Vec<u8> {
        self.content().cached.clone()
    }

    pub(crate) fn make_unreadable(&self, sector: usize) {
        self.content().unreadable.push(sector);
    }

    /// Makes these reads fail, counted from 1 over the disk's life.
    pub(crate) fn fail_reads(&self, numbers: Range<u64>) {
        self.content().failing_reads = numbers;
    }

    /// Returns the number of bytes read since the last call, through all clones.
    pub(crate) fn take_read_bytes(&self) -> u64 {
        self.read_bytes.swap(0, Ordering::Relaxed)
    }

    /// Number of reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.content().reads
    }
}

impl Storage for Disk {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        let content = &mut *self.content();
        content.reads += 1;
        self.read_bytes.fetch_add(to.len() as u64, Ordering::Relaxed);
        assert!(offset_bytes.is_multiple_of(512) && to.len().is_multiple_of(512), "not aligned");
        let from = content.cached.get(offset_bytes as usize..).unwrap_or_default();
        let from = from.get(..to.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let first = offset_bytes as usize / SECTOR_BYTES;
        let sectors = first..first + to.len() / SECTOR_BYTES;
        let is_failing = content.failing_reads.contains(&content.reads);
        if is_failing || content.unreadable.iter().any(|sector| sectors.contains(sector)) {
            // As a disk may: what came before the error.
            to.fill(0xEE);
            return Err(io::Error::from_raw_os_error(EIO));
        }
        to.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let content = &mut *self.content();
        let to = content.cached.get_mut(offset_bytes as usize..).unwrap_or_default();
        let to = to.get_mut(..bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        to.copy_from_slice(bytes);
        content.pending.push((offset_bytes, bytes.to_vec()));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.flush_first(self.pending());
        Ok(())
    }

    fn capacity_bytes(&self) -> u64 {
        self.content().cached.len() as u64
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(vec![0; bytes])
    }
}
