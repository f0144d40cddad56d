//! A log's interface to its target: reads, writes, flushes, and read-ahead. Implementations are in other crates.

use std::io;

/// An address space that can be read, written and flushed. Offsets and lengths must be multiples of the log's block.
pub trait Storage: Send + Sync {
    /// Fills `to` from `offset_bytes` on.
    ///
    /// # Errors
    /// The target failed, or the range extends beyond its end ([`io::ErrorKind::UnexpectedEof`]).
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset_bytes`.
    ///
    /// # Errors
    /// The target failed.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// The target failed.
    fn flush(&self) -> io::Result<()>;

    /// Size of the target, bytes.
    fn capacity_bytes(&self) -> u64;

    /// Allocates memory suitable for reads and writes.
    fn buffer(&self, bytes: usize) -> Box<dyn Buffer>;
}

/// Reads parts of a target ahead of need.
pub trait ReadAhead: Send {
    /// Begins to read `bytes` bytes of the target, from `offset_bytes` on, into `buffer` from byte `into` on.
    fn begin(&mut self, offset_bytes: u64, bytes: usize, buffer: Box<dyn Buffer>, into: usize);

    /// Waits for the oldest read that was not taken yet; returns its buffer and result. None if all were taken.
    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)>;
}

/// Memory suitable for reads and writes of the target.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Buffer for T {}
