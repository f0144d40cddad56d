//! Memory for direct I/O: it begins at a multiple of what the target requires.

/// Enough for targets that state nothing.
pub(super) const ALIGN_BYTES: usize = 4096;

/// Zeroed bytes at an aligned address.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` bytes at a multiple of `align_bytes`, which is a power of two.
    pub fn new(len: usize, align_bytes: usize) -> Self {
        let memory = vec![0; len + align_bytes];
        let start = memory.as_ptr().align_offset(align_bytes);
        Self { memory, start, len }
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
