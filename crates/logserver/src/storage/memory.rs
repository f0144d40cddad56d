//! Memory as a log's storage. The log ends with the server.

use super::aligned::{ALIGN_BYTES, AlignedBuffer};
use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use std::io;
use std::sync::{PoisonError, RwLock};

/// Length of the sections of the storage that are locked separately, bytes. A write blocks only readers of
/// its sections.
const PIECE_BYTES: u64 = 1 << 20;

/// Storage for a log in memory, divided into separately locked sections.
#[derive(Debug)]
pub struct MemoryStorage {
    /// Sections of the storage, each empty until it is first written.
    pieces: Vec<RwLock<Vec<u8>>>,
    capacity_bytes: u64,
}

impl MemoryStorage {
    /// Creates zeroed storage. Memory of a section is allocated on its first write.
    pub fn new(capacity_bytes: u64) -> Self {
        let pieces = (0..capacity_bytes.div_ceil(PIECE_BYTES)).map(|_| RwLock::default()).collect();
        Self { pieces, capacity_bytes }
    }

    /// Splits a range at section boundaries. Returns each section with the start and the length of the range
    /// within it.
    fn parts(
        &self,
        offset_bytes: u64,
        len: usize,
    ) -> io::Result<impl Iterator<Item = (&RwLock<Vec<u8>>, usize, usize)>> {
        let end = offset_bytes + len as u64;
        if end > self.capacity_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = offset_bytes;
        Ok(core::iter::from_fn(move || {
            let within = at % PIECE_BYTES;
            let part = (PIECE_BYTES - within).min(end - at);
            let piece = self.pieces.get((at / PIECE_BYTES) as usize).filter(|_| part > 0)?;
            at += part;
            Some((piece, within as usize, part as usize))
        }))
    }
}

impl Storage for MemoryStorage {
    fn read_at(&self, offset_bytes: u64, mut to: &mut [u8]) -> io::Result<()> {
        for (piece, from, len) in self.parts(offset_bytes, to.len())? {
            let (part, rest) = to.split_at_mut(len);
            let piece = piece.read().unwrap_or_else(PoisonError::into_inner);
            match piece.get(from..from + len) {
                Some(bytes) => part.copy_from_slice(bytes),
                None => part.fill(0),
            }
            to = rest;
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, mut bytes: &[u8]) -> io::Result<()> {
        for (piece, from, len) in self.parts(offset_bytes, bytes.len())? {
            let (part, rest) = bytes.split_at(len);
            let mut piece = piece.write().unwrap_or_else(PoisonError::into_inner);
            if piece.is_empty() {
                piece.resize(PIECE_BYTES as usize, 0);
            }
            piece[from..from + len].copy_from_slice(part);
            bytes = rest;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(AlignedBuffer::new(bytes, ALIGN_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_across_pieces_is_read_again() {
        let memory = MemoryStorage::new(3 * PIECE_BYTES + 512);
        let written: Vec<u8> = (0..PIECE_BYTES as usize + 1024).map(|i| (i % 251) as u8).collect();
        memory.write_at(PIECE_BYTES - 512, &written).unwrap();
        let mut read = vec![9; written.len() + 1024];
        memory.read_at(PIECE_BYTES - 1024, &mut read).unwrap();
        assert_eq!(read[..512], [0; 512]);
        assert_eq!(read[512..512 + written.len()], written);
        assert_eq!(read[512 + written.len()..], [0; 512]);
        let behind = memory.read_at(3 * PIECE_BYTES, &mut [0; 1024]).unwrap_err();
        assert_eq!(behind.kind(), io::ErrorKind::UnexpectedEof);
        memory.write_at(3 * PIECE_BYTES, &[1; 512]).unwrap();
    }
}
