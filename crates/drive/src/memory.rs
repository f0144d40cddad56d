//! Memory that the engines read into and write from: page-aligned anonymous mappings, on huge pages if the
//! kernel grants them. `Region` is also the storage of a `ram:` target.

use std::io;
use std::ptr::NonNull;

/// Minimum size of a region that uses huge pages, bytes. For smaller regions they would waste memory.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An anonymous memory mapping, zeroed and page-aligned, unmapped on drop.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    huge: bool,
}

// SAFETY: a Region is plain memory; its users, who get raw pointers only, decide which bytes each
// may access.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes, rounded up to whole pages; bytes beyond `len` are unused. Pages are allocated on
    /// first access.
    pub fn new(len: usize) -> io::Result<Self> {
        let asked = len.max(1);
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = asked.checked_next_multiple_of(4096).ok_or_else(too_large)?;
        // A huge page needs an aligned start, which the kernel gives to mappings of that size.
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches nothing of
        // ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut huge = false;
        if len >= HUGE_PAGE_BYTES {
            // SAFETY: the range is the mapping just made.
            huge = unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) } == 0;
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave 0"))?;
        Ok(Self { start, len: asked, huge })
    }

    /// Address of the region's first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Length of the region, bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// True if the kernel accepted the request for huge pages.
    pub fn asked_for_huge_pages(&self) -> bool {
        self.huge
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is our own mapping, and no reference to it outlives the Region.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One worker's I/O buffers, one per operation in flight. All are parts of one region, which is registered with the
/// kernel as a whole.
#[derive(Debug)]
pub struct Buffers {
    region: Region,
    stride: usize,
    slots: u32,
}

impl Buffers {
    /// Allocates `slots` buffers of `len` bytes, each aligned to `align`, a power of two (at least 4096 is used).
    pub fn new(slots: u32, len: usize, align: usize) -> io::Result<Self> {
        let stride = len.max(1).next_multiple_of(align.max(4096));
        let bytes = stride.checked_mul(slots as usize).ok_or_else(|| {
            io::Error::other("the buffers for this depth and block size are too large")
        })?;
        Ok(Self { region: Region::new(bytes)?, stride, slots })
    }

    /// Address of the first byte of buffer number `slot`.
    #[inline]
    pub fn slot(&self, slot: u32) -> *mut u8 {
        debug_assert!(slot < self.slots);
        // SAFETY: the slot lies within the region, by construction.
        unsafe { self.region.start().add(self.stride * slot as usize) }
    }

    /// The first `len` bytes of buffer number `slot`.
    ///
    /// # Safety
    /// No operation on that buffer may be in flight, and no other slice of it may be alive.
    #[inline]
    #[allow(clippy::mut_from_ref)] // The memory is a mapping, not a field; see Safety.
    pub unsafe fn bytes(&self, slot: u32, len: usize) -> &mut [u8] {
        debug_assert!(len <= self.stride);
        // SAFETY: in bounds; the caller promises exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.slot(slot), len) }
    }

    /// The region that contains all buffers, for registration with the kernel.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Number of buffers, and so the maximum number of operations in flight.
    pub fn slots(&self) -> u32 {
        self.slots
    }
}
