//! A byte buffer that starts at a page boundary, as O_DIRECT requires. Needs no unsafe code: it allocates more than
//! requested and exposes the aligned part.

use core::ops::{Deref, DerefMut};

/// Alignment of a buffer, bytes: the largest page size of any kernel, which satisfies O_DIRECT everywhere.
pub(crate) const BUFFER_ALIGN_BYTES: usize = 64 * 1024;

/// Buffer of `len` bytes whose address is a multiple of [`BUFFER_ALIGN_BYTES`].
pub(crate) struct AlignedBuf {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    pub(crate) fn zeroed(len: usize) -> Self {
        let memory = vec![0; len + BUFFER_ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(BUFFER_ALIGN_BYTES);
        Self { memory, start, len }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
