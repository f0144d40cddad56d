//! What a log needs of its target: to read, write and flush it, and to read ahead. The implementations are elsewhere.

use std::io;

/// An address space that can be read, written and flushed. Offsets and lengths are multiples of the log's block.
pub trait Storage: Send + Sync {
    /// Fills `to` from `offset_bytes` on.
    ///
    /// # Errors
    /// What the target answers, or [`io::ErrorKind::UnexpectedEof`] behind its end.
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset_bytes`.
    ///
    /// # Errors
    /// What the target answers.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// What the target answers.
    fn flush(&self) -> io::Result<()>;

    /// Bytes of it.
    fn capacity_bytes(&self) -> u64;

    /// Memory that it can read into and write from.
    fn buffer(&self, bytes: usize) -> Box<dyn Buffer>;
}

/// Reads parts of a target before they are needed.
pub trait ReadAhead: Send {
    /// Begins to read `bytes` bytes from `offset_bytes` on into a buffer, from its byte `into` on.
    fn begin(&mut self, offset_bytes: u64, bytes: usize, buffer: Box<dyn Buffer>, into: usize);

    /// The buffer of the oldest read that was begun and not taken, and how the read ended; waits for it. None: all were
    /// taken.
    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)>;
}

/// Memory for reads and writes.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Buffer for T {}
