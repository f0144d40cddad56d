//! A file or block device as a log's storage.

use super::aligned::{ALIGN_BYTES, AlignedBuffer};
use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use iodyno_targets::Opened;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Storage on an open file or block device.
#[derive(Debug)]
pub struct FileStorage {
    file: File,
    capacity_bytes: u64,
    memory_align_bytes: usize,
    /// The open target, which keeps the exclusive open of a device or the lock on a file until dropped.
    _opened: Opened,
}

impl FileStorage {
    /// Creates storage on an open target, which stays claimed until the storage is dropped.
    ///
    /// # Errors
    /// The target's descriptor can't be duplicated.
    pub fn new(opened: Opened) -> io::Result<Self> {
        let file = File::from(opened.fd.try_clone()?);
        let memory_align_bytes = ALIGN_BYTES.max(opened.mem_align_bytes as usize);
        Ok(Self {
            file,
            capacity_bytes: opened.capacity_bytes,
            memory_align_bytes,
            _opened: opened,
        })
    }
}

impl Storage for FileStorage {
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
        Box::new(AlignedBuffer::new(bytes, self.memory_align_bytes))
    }
}
