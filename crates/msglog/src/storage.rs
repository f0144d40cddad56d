//! What a log needs of its target: the trait, and what opens and reads use of it. Its implementations are elsewhere.

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

/// Memory for reads and writes.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Buffer for T {}
