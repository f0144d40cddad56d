//! Buffers for direct I/O, aligned as the target requires. Large ones use huge pages, because a read into 4 KiB pages
//! has one segment per page: disks limit the number of segments, and virtual disks take longer for each.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::{NonNull, null_mut};

/// Buffer alignment for targets that report none, bytes.
pub(super) const ALIGN_BYTES: usize = 4096;
/// Size of a huge page, bytes. The kernel aligns mappings of whole huge pages to it.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Minimum length of a buffer that is allocated in huge pages, bytes.
const LARGE_BYTES: usize = 1 << 20;

/// Zero-initialised buffer with an aligned address, for direct I/O.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Memory,
    start: usize,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Small(Vec<u8>),
    Large(Mapping),
}

impl AlignedBuffer {
    /// Allocates `len` zero bytes at an address that is a multiple of `align_bytes`, a power of two.
    pub fn new(len: usize, align_bytes: usize) -> Self {
        let is_large = len >= LARGE_BYTES && align_bytes <= ALIGN_BYTES;
        if let Some(mapping) = is_large.then(|| Mapping::new(len)).flatten() {
            return Self { memory: Memory::Large(mapping), start: 0, len };
        }
        let memory = vec![0; len + align_bytes];
        let start = memory.as_ptr().align_offset(align_bytes);
        Self { memory: Memory::Small(memory), start, len }
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        let memory = match &self.memory {
            Memory::Small(memory) => memory,
            Memory::Large(mapping) => mapping.bytes(),
        };
        &memory[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        let memory = match &mut self.memory {
            Memory::Small(memory) => memory,
            Memory::Large(mapping) => mapping.bytes_mut(),
        };
        &mut memory[self.start..self.start + self.len]
    }
}

/// An anonymous memory mapping whose length is a multiple of the huge page size, unmapped when dropped. Huge
/// pages are used if the kernel provides them.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that has one owner.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` zero bytes. `None` if the kernel refuses.
    fn new(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches nothing of ours.
        let start = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let start = NonNull::new(start.ok()?)?;
        // SAFETY: the range is the mapping just made. Without huge pages it works too, but slower.
        let _ = unsafe { madvise(start.as_ptr(), len, Advice::LinuxHugepage) };
        Some(Self { start: start.cast(), len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the range is our own mapping, zeroed or written by us, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is our own mapping, and no reference to it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_buffers_are_aligned_zeroed_and_their_own() {
        for len in [512, LARGE_BYTES - 512, LARGE_BYTES, HUGE_PAGE_BYTES + 4096] {
            let mut buffers: Vec<AlignedBuffer> =
                (0..3).map(|_| AlignedBuffer::new(len, 4096)).collect();
            for (i, buffer) in buffers.iter_mut().enumerate() {
                assert_eq!(
                    (buffer.as_ref().len(), buffer.as_ref().as_ptr().align_offset(4096)),
                    (len, 0)
                );
                assert!(buffer.as_ref().iter().all(|byte| *byte == 0));
                buffer.as_mut().fill(i as u8 + 1);
            }
            for (i, buffer) in buffers.iter().enumerate() {
                assert!(buffer.as_ref().iter().all(|byte| *byte == i as u8 + 1));
            }
        }
    }
}
