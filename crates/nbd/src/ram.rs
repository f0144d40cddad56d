//! A RAM disk to serve: sparse, shared by all its connections.
//!
//! **Concurrent access to the same bytes.** After concurrent writes, each byte comes from one of them. There is no
//! lock: the memory is accessed only by relaxed atomic loads and stores of whole words, and by system calls that send
//! from it or receive into it.
//!
//! **Allocation** is tracked in chunks of 64 KiB, one bit each. A bit is set after the data is written, and cleared
//! before the memory is freed. Reads of only unallocated chunks return zeroes without access to the memory.
//!
//! A write of more than 16 KiB whose client disconnects in the middle may be applied in part, as on a disk that loses
//! power.

use crate::server::{Answer, Export, Io, Peer, Place, Session, Words};
use crate::wire::{CmdFlags, Command, Errno, Info, Kind, STATE_HOLE, STATE_ZERO};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Unit in which memory is allocated and freed, bytes.
const CHUNK_BYTES: u64 = 64 << 10;
/// Maximum number of extents in one block status reply. The client must query the rest of the range again.
const EXTENTS_MAX: usize = 4096;

/// A RAM disk as an export. All clones share the same content.
#[derive(Clone)]
pub struct Ram {
    disk: Arc<Disk>,
    info: Info,
}

struct Disk {
    memory: Memory,
    /// One bit per chunk: set if the chunk is allocated.
    allocated: Box<[AtomicU64]>,
}

/// A zeroed anonymous memory mapping of whole pages.
struct Memory {
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping consists of words that are only touched atomically.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(CHUNK_BYTES as usize);
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches no existing memory.
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
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave 0"))?;
        Ok(Self { start, len })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, is page-aligned and zeroed, and outlives self; it is only touched as
        // atomic words.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len / 8) }
    }

    /// Returns whole chunks of memory to the operating system. They then read as zeroes.
    fn discard(&self, offset: usize, len: usize) {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: the range is within the mapping. To a concurrent reader the words change to zero, as if stored.
        let done = unsafe {
            let at = self.start.as_ptr().cast::<u8>().add(offset);
            libc::madvise(at.cast(), len, libc::MADV_DONTNEED)
        };
        if done != 0 {
            // Locked memory can't be returned.
            Words::new(self.words(), offset, len).zero();
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: self owns the mapping, and no reference to it outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Ram {
    /// Creates a disk of zeroes. Memory is allocated when it is first written.
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        Self::with_info(Info::new(size_bytes))
    }

    /// Creates a disk of zeroes with the size, limits and features in `info`.
    pub fn with_info(info: Info) -> io::Result<Self> {
        info.check().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let len =
            usize::try_from(info.size_bytes).ok().filter(|len| *len <= isize::MAX as usize / 2);
        let len = len.ok_or(io::ErrorKind::OutOfMemory)?;
        let words = info.size_bytes.div_ceil(CHUNK_BYTES).div_ceil(64) as usize;
        let disk = Disk {
            memory: Memory::new(len)?,
            allocated: (0..words).map(|_| AtomicU64::new(0)).collect(),
        };
        Ok(Self { disk: Arc::new(disk), info })
    }

    /// Returns a read-only view of the same disk.
    #[must_use]
    pub fn read_only(&self) -> Self {
        let mut other = self.clone();
        other.info.read_only = true;
        other
    }

    /// Reads from the disk. Panics if the range is not within it.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        self.disk.words(offset_bytes, into.len() as u64).read(into);
    }

    /// Writes to the disk. Panics if the range is not within it.
    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        self.disk.words(offset_bytes, bytes.len() as u64).write(bytes);
        self.disk.allocate(offset_bytes, bytes.len() as u64);
    }

    /// Zeroes a range and frees the whole chunks in it. With `trims`, does not change partly covered chunks. Panics if
    /// the range is not within the disk.
    pub fn discard(&self, offset_bytes: u64, len_bytes: u64, trims: bool) {
        if trims {
            self.disk.punch(offset_bytes, len_bytes);
        } else {
            self.disk.zero(offset_bytes, len_bytes, false);
        }
    }

    /// Memory of all allocated chunks, bytes.
    pub fn allocated_bytes(&self) -> u64 {
        let bits =
            self.disk.allocated.iter().map(|w| u64::from(w.load(Ordering::Acquire).count_ones()));
        bits.sum::<u64>() * CHUNK_BYTES
    }
}

impl Disk {
    fn words(&self, offset: u64, len: u64) -> Words<'_> {
        Words::new(self.memory.words(), offset as usize, len as usize)
    }

    fn is_allocated(&self, chunk: u64) -> bool {
        self.allocated[(chunk / 64) as usize].load(Ordering::Acquire) >> (chunk % 64) & 1 == 1
    }

    /// Marks the chunks of a range as allocated.
    fn allocate(&self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        for chunk in offset / CHUNK_BYTES..=(offset + len - 1) / CHUNK_BYTES {
            if !self.is_allocated(chunk) {
                let bit = 1 << (chunk % 64);
                self.allocated[(chunk / 64) as usize].fetch_or(bit, Ordering::AcqRel);
            }
        }
    }

    /// Whether no chunk in the range is allocated.
    fn is_hole(&self, offset: u64, len: u64) -> bool {
        let mut chunks = offset / CHUNK_BYTES..=(offset + len - 1) / CHUNK_BYTES;
        chunks.all(|chunk| !self.is_allocated(chunk))
    }

    /// Frees all chunks that lie completely within a range. Returns the byte range of these chunks.
    fn punch(&self, offset: u64, len: u64) -> std::ops::Range<u64> {
        let first = offset.next_multiple_of(CHUNK_BYTES);
        let end = (offset + len) / CHUNK_BYTES * CHUNK_BYTES;
        if first >= end {
            return offset..offset;
        }
        for chunk in first / CHUNK_BYTES..end / CHUNK_BYTES {
            let word = &self.allocated[(chunk / 64) as usize];
            if word.load(Ordering::Relaxed) >> (chunk % 64) & 1 == 1 {
                word.fetch_and(!(1 << (chunk % 64)), Ordering::AcqRel);
            }
        }
        self.memory.discard(first as usize, (end - first) as usize);
        first..end
    }

    /// Zeroes a range. Frees whole chunks unless `keep_allocated`.
    fn zero(&self, offset: u64, len: u64, keep_allocated: bool) {
        let end = offset + len;
        if keep_allocated {
            self.words(offset, len).zero();
            return self.allocate(offset, len);
        }
        let punched = self.punch(offset, len);
        for range in [offset..punched.start, punched.end..end] {
            // Zero the edges chunk by chunk; a hole is zero already.
            let mut at = range.start;
            while at < range.end {
                let next = range.end.min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
                if self.is_allocated(at / CHUNK_BYTES) {
                    self.words(at, next - at).zero();
                }
                at = next;
            }
        }
    }

    fn extents(&self, command: &Command) -> Vec<(u32, u32)> {
        let mut extents: Vec<(u32, u32)> = Vec::new();
        let mut at = command.offset_bytes;
        let end = at + u64::from(command.len_bytes);
        while at < end {
            let state =
                if self.is_allocated(at / CHUNK_BYTES) { 0 } else { STATE_HOLE | STATE_ZERO };
            let next = end.min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
            let len = (next - at) as u32;
            let full = extents.len() == EXTENTS_MAX;
            match extents.last_mut() {
                Some(last) if last.1 == state => last.0 += len,
                Some(_) if full => break,
                _ => extents.push((len, state)),
            }
            at = next;
        }
        extents
    }
}

impl Export for Ram {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(RamSession(Arc::clone(&self.disk))))
    }
}

struct RamSession(Arc<Disk>);

impl Session for RamSession {
    #[inline]
    fn submit(&mut self, io: Io<'_>) {
        let disk = &*self.0;
        let command = *io.command();
        let (offset, len) = (command.offset_bytes, u64::from(command.len_bytes));
        match command.kind {
            Kind::Read if len > 0 && disk.is_hole(offset, len) => io.answer(&Answer::Zeroes),
            Kind::Read => {
                // SAFETY: the words stay mapped as long as the disk, which this session holds.
                unsafe { io.lend(disk.words(offset, len)) }
            }
            Kind::Write => {
                if !io.placed() {
                    disk.words(offset, len).write(io.data());
                }
                disk.allocate(offset, len);
                io.answer(&Answer::Done);
            }
            Kind::WriteZeroes => {
                disk.zero(offset, len, command.flags.has(CmdFlags::NO_HOLE));
                io.answer(&Answer::Done);
            }
            Kind::Trim => {
                disk.punch(offset, len);
                io.answer(&Answer::Done);
            }
            Kind::BlockStatus => io.answer(&Answer::Extents(&disk.extents(&command))),
            Kind::Flush | Kind::Cache => io.answer(&Answer::Done),
            Kind::Disc => io.answer(&Answer::Failed(Errno::Inval)),
        }
    }

    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        let words = self.0.words(offset_bytes, u64::from(len_bytes));
        // SAFETY: the words stay mapped as long as the disk, which this session holds.
        Some(unsafe { Place::new(words) })
    }

    fn broken_off(&mut self, offset_bytes: u64, len_bytes: u32) {
        self.0.allocate(offset_bytes, u64::from(len_bytes));
    }
}
