//! A file with O_DIRECT as a log's storage, using only pwrite and fdatasync.

use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Alignment of offsets, lengths and memory addresses, bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// A buffer in memory aligned for O_DIRECT.
#[derive(Debug)]
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        Self { bytes, start, len }
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl AsMut<[u8]> for Aligned {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

/// A file of fixed size, opened with O_DIRECT.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    capacity_bytes: u64,
}

impl DirectFile {
    /// Opens a file of `capacity_bytes`. With `is_written`, all its blocks have been written before; the file is
    /// prepared once per folder and reused. Otherwise the file is new and sparse.
    pub(crate) fn open(path: &Path, capacity_bytes: u64, is_written: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.custom_flags(libc::O_DIRECT).open(path)?;
        let opened = Self { file, capacity_bytes };
        if !is_written {
            opened.file.set_len(0)?;
            opened.file.set_len(capacity_bytes)?;
        } else if opened.file.metadata()?.len() != capacity_bytes {
            let zeroes = Aligned::new(1 << 20);
            for at in (0..capacity_bytes).step_by(1 << 20) {
                opened.file.write_all_at(zeroes.as_ref(), at)?;
            }
        }
        opened.file.sync_all()?;
        Ok(opened)
    }
}

impl Storage for DirectFile {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, offset_bytes)
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset_bytes)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(Aligned::new(bytes))
    }
}
