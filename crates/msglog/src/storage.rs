//! Interface of a log to its target: reads, writes, flushes and read-ahead. Implementations are in other crates.

use std::io;
use std::sync::Arc;

/// Storage for a log: an address range that can be read, written and flushed. Offsets and lengths must be
/// multiples of the log's block size.
pub trait Storage: Send + Sync {
    /// Reads from `offset_bytes` until `to` is full.
    ///
    /// # Errors
    /// The target failed, or the range exceeds its end ([`io::ErrorKind::UnexpectedEof`]).
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

    /// Allocates a buffer suitable for reads and writes of the target.
    fn buffer(&self, bytes: usize) -> Box<dyn Buffer>;
}

/// A failed read of a target.
#[derive(Clone, Debug)]
pub struct ReadFailure {
    /// Offset of the unreadable block on the target, bytes.
    pub offset_bytes: u64,
    /// Error that the target returned.
    pub error: Arc<io::Error>,
}

impl PartialEq for ReadFailure {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.offset_bytes, it.error.kind(), it.error.raw_os_error());
        key(self) == key(other)
    }
}

impl Eq for ReadFailure {}

/// Asynchronous reads of a target, for read-ahead.
pub trait ReadAhead: Send {
    /// Starts to read `bytes` bytes at `offset_bytes` of the target into `buffer`, starting at index `into` of the
    /// buffer.
    fn begin(&mut self, offset_bytes: u64, bytes: usize, buffer: Box<dyn Buffer>, into: usize);

    /// Waits for the oldest outstanding read, and returns its buffer and result. `None` if no read is
    /// outstanding.
    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)>;
}

/// Memory buffer suitable for reads and writes of the target.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Buffer for T {}
