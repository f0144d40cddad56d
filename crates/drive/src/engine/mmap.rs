//! Loads and stores on a mapping of the target, as by a program that maps its data. On DAX file systems and persistent
//! memory the mapping has MAP_SYNC, so that a flushed store is durable.
//!
//! A mapping has no error returns: a medium error or a truncated file raises SIGBUS. The engine installs a handler that
//! puts a page of zeroes under the faulting address and records the fault. The operation then counts as failed, and the
//! process survives.

use super::{About, Engine, Facts, FileMedium, Seat, Wait, negative_errno, range_ops};
use crate::memory::Buffers;
use iodyno_units::{Op, OpKind};
use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Once;

const PAGE: usize = 4096;

thread_local! {
    /// True after this thread received a SIGBUS. Set by the signal handler.
    static FAULTED: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo; mmap is a plain system call here, and the page that
    // is replaced is the one that can't be accessed. No allocation, no lock.
    unsafe {
        let page = (*info).si_addr() as usize & !(PAGE - 1);
        let mapped = libc::mmap(
            page as *mut libc::c_void,
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        );
        if mapped == libc::MAP_FAILED {
            libc::abort();
        }
    }
    // A const-initialised thread local without a destructor: a plain memory access.
    FAULTED.with(|f| f.set(true));
}

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero sigaction is valid; the handler does only what a handler may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

pub(super) const ABOUT: About = About { maps: true, ..About::new("mmap") };

/// Runs a worker on a file mapped into memory.
pub(super) fn run(file: &FileMedium, seat: impl Seat) -> io::Result<()> {
    if file.uncached {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "mmap leaves the data that it accesses in the page cache: leave uncached=yes out, or use another engine",
        ));
    }
    let buffers = seat.buffers(file.memory_align_bytes as usize)?;
    let mut engine = MmapEngine::new(file.clone(), &buffers)?;
    let sync = engine.map_sync() == Some(true);
    let flag = if sync { "MAP_SYNC" } else { "MAP_SHARED" };
    let facts = Facts::from([("mmap.flags".to_owned(), flag.to_owned())]);
    seat.run(&mut engine, Some(&buffers), facts);
    Ok(())
}

/// Loads and stores on a mapping of the target, for one worker.
#[derive(Debug)]
pub struct MmapEngine<'a> {
    medium: FileMedium,
    buffers: &'a Buffers,
    start: *mut u8,
    len: usize,
    protection: i32,
    flags: i32,
    queued: Option<(u32, Op)>,
    done: Option<(u32, i32)>,
}

impl<'a> MmapEngine<'a> {
    /// Creates the engine and maps the whole target into memory.
    pub fn new(medium: FileMedium, buffers: &'a Buffers) -> io::Result<Self> {
        install_handler();
        let len = medium.capacity_bytes as usize;
        let protection =
            if medium.writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let map = |flags| {
            // SAFETY: a new mapping at an address of the kernel's choice, of an open descriptor.
            unsafe {
                libc::mmap(std::ptr::null_mut(), len, protection, flags, medium.fd.as_raw_fd(), 0)
            }
        };
        let mut flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
        let mut start = map(flags);
        if start == libc::MAP_FAILED {
            flags = libc::MAP_SHARED;
            start = map(flags);
        }
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: advice on our own mapping. Random, so that the kernel reads only what is accessed.
        unsafe { libc::madvise(start, len, libc::MADV_RANDOM) };
        Ok(Self {
            medium,
            buffers,
            start: start.cast(),
            len,
            protection,
            flags,
            queued: None,
            done: None,
        })
    }

    fn sync(&self, offset: usize, len: usize) -> i32 {
        let from = offset & !(PAGE - 1);
        // SAFETY: the range lies in our mapping, from a page's start.
        let r =
            unsafe { libc::msync(self.start.add(from).cast(), offset + len - from, libc::MS_SYNC) };
        if r < 0 { negative_errno() } else { 0 }
    }

    /// Maps the target's own pages again after the SIGBUS handler replaced them with zero pages, so that the next
    /// access fails again.
    #[cold]
    fn map_again(&self, offset: usize, len: usize) {
        let from = offset & !(PAGE - 1);
        let to = (offset + len).next_multiple_of(PAGE);
        // SAFETY: the range lies in our own mapping, which ends at a page's end; what is mapped
        // there is the same part of the same target as before.
        unsafe {
            libc::mmap(
                self.start.add(from).cast(),
                to - from,
                self.protection,
                self.flags | libc::MAP_FIXED,
                self.medium.fd.as_raw_fd(),
                from as libc::off_t,
            );
        }
    }

    fn carry_out(&self, slot: u32, op: &Op) -> i32 {
        let (offset, len) = (op.offset_bytes as usize, op.len_bytes as usize);
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return -libc::EINVAL;
        }
        match op.kind {
            OpKind::Flush => return self.sync(0, self.len),
            OpKind::Trim | OpKind::WriteZeroes => return range_ops::carry_out(&self.medium, op),
            OpKind::Write if !self.medium.writable => return -libc::EBADF,
            OpKind::Read | OpKind::Write => {}
        }
        FAULTED.with(|f| f.set(false));
        // SAFETY: both ranges are in bounds (checked above; a buffer holds any block of the
        // workload) and in different mappings. A page that the file no longer has raises SIGBUS,
        // which the handler turns into zeroes and a note.
        unsafe {
            let at = self.start.add(offset);
            if op.kind == OpKind::Read {
                std::ptr::copy_nonoverlapping(at, self.buffers.slot(slot), len);
            } else {
                std::ptr::copy_nonoverlapping(self.buffers.slot(slot), at, len);
            }
        }
        if FAULTED.with(Cell::get) {
            self.map_again(offset, len);
            return -libc::EIO;
        }
        if op.kind == OpKind::Write && op.fua {
            let r = self.sync(offset, len);
            if r < 0 {
                return r;
            }
        }
        len as i32
    }
}

impl Engine for MmapEngine<'_> {
    #[inline]
    fn queue(&mut self, slot: u32, op: &Op) {
        self.queued = Some((slot, *op));
    }

    #[inline]
    fn turn(&mut self, _: Wait) -> io::Result<()> {
        if let Some((slot, op)) = self.queued.take() {
            self.done = Some((slot, self.carry_out(slot, &op)));
        }
        Ok(())
    }

    #[inline]
    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        if let Some((slot, result)) = self.done.take() {
            done(slot, result);
        }
    }

    fn batch_max(&self) -> u32 {
        1
    }

    fn map_sync(&self) -> Option<bool> {
        Some(self.flags & libc::MAP_SYNC != 0)
    }
}

impl Drop for MmapEngine<'_> {
    fn drop(&mut self) {
        // SAFETY: our own mapping; nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
