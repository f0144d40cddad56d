//! A log's interface to its target: reads, writes, flushes, and read-ahead. Implementations are in other crates.

use std::io;

/// An address space that can be read, written and flushed. Offsets and lengths must be multiples of the log's block.
pub trait Storage: Send + Sync {
    /// Fills `to` from `offset_bytes` on.
    ///
    /// # Errors
    /// Error of the target, or [`io::ErrorKind::UnexpectedEof`] beyond its end.
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset_bytes`.
    ///
    /// # Errors
    /// Error of the target.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// Error of the target.
    fn flush(&self) -> io::Result<()>;

    /// Size of the target, bytes.
    fn capacity_bytes(&self) -> u64;

    /// Allocates memory suitable for reads and writes.
    fn buffer(&self, bytes: usize) -> Box<dyn Buffer>;
}

/// Reads parts of a target ahead of need.
pub trait ReadAhead: Send {
    /// Begins to read `bytes` bytes from `offset_bytes` on, into `buffer` from its byte `into` on.
    fn begin(&mut self, offset_bytes: u64, bytes: usize, buffer: Box<dyn Buffer>, into: usize);

    /// Waits for the oldest read not taken yet; returns its buffer and result. None if all were taken.
    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)>;
}

/// Memory for reads and writes.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Buffer for T {}
