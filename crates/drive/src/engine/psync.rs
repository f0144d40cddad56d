//! pread and pwrite: one system call per I/O, one I/O at a time. The engine with the least overhead if the calling
//! thread does the target's work (page cache, tmpfs, zram, pmem), and the reference for depth 1.

use super::{About, Engine, Facts, FileMedium, Seat, Wait, negative_errno, range_ops};
use crate::memory::Buffers;
use iodyno_units::{Op, OpKind};
use std::io;
use std::os::fd::AsRawFd;

pub(super) const ABOUT: About = About { aliases: &["sync"], ..About::new("psync") };

/// Runs a worker with pread and pwrite on a file.
pub(super) fn run(file: &FileMedium, seat: impl Seat) -> io::Result<()> {
    let buffers = seat.buffers(file.memory_align_bytes as usize)?;
    seat.run(&mut PsyncEngine::new(file.clone(), &buffers), Some(&buffers), Facts::new());
    Ok(())
}

/// Engine with one pread or pwrite per operation, for one worker.
#[derive(Debug)]
pub struct PsyncEngine<'a> {
    medium: FileMedium,
    fd: i32,
    buffers: &'a Buffers,
    rw_flags: i32,
    queued: Option<(u32, Op)>,
    done: Option<(u32, i32)>,
}

impl<'a> PsyncEngine<'a> {
    /// Creates an engine on an open file. The worker has one buffer.
    pub fn new(medium: FileMedium, buffers: &'a Buffers) -> Self {
        let fd = medium.fd.as_raw_fd();
        let rw_flags = medium.rw_flags();
        Self { medium, fd, buffers, rw_flags, queued: None, done: None }
    }

    #[expect(
        clippy::inline_always,
        reason = "inlined: psync has one operation per loop turn, and a call would cost 10 % of it"
    )]
    #[inline(always)]
    fn carry_out(&self, slot: u32, op: &Op) -> i32 {
        let (len, offset) = (op.len_bytes as usize, op.offset_bytes as libc::off_t);
        let buffer = self.buffers.slot(slot);
        // SAFETY: the slot's buffer holds at least `len` bytes and nothing else accesses it until
        // the completion is drained; the descriptor is open as long as `medium` lives.
        let n = unsafe {
            match op.kind {
                OpKind::Read if self.rw_flags != 0 => {
                    let iov = libc::iovec { iov_base: buffer.cast(), iov_len: len };
                    libc::preadv2(self.fd, &raw const iov, 1, offset, self.rw_flags)
                }
                OpKind::Read => transfer(libc::SYS_pread64, self.fd, buffer, len, offset),
                OpKind::Write if op.fua || self.rw_flags != 0 => {
                    let iov = libc::iovec { iov_base: buffer.cast(), iov_len: len };
                    let durable = if op.fua { libc::RWF_DSYNC } else { 0 };
                    let flags = self.rw_flags | durable;
                    libc::pwritev2(self.fd, &raw const iov, 1, offset, flags)
                }
                OpKind::Write => transfer(libc::SYS_pwrite64, self.fd, buffer, len, offset),
                _ => return range_ops::carry_out(&self.medium, op),
            }
        };
        if n < 0 { negative_errno() } else { n as i32 }
    }
}

/// Reads or writes by a raw system call. The C library's pread and pwrite are cancellation points, which
/// costs about 30 ns per call in a process with threads.
///
/// # Safety
/// `buffer` is valid for `len` bytes.
#[inline]
unsafe fn transfer(
    number: libc::c_long,
    fd: i32,
    buffer: *mut u8,
    len: usize,
    offset: libc::off_t,
) -> isize {
    const { assert!(usize::BITS == 64, "on 32-bit systems the offset needs two registers") };
    // SAFETY: the caller's promise; the kernel checks everything else.
    unsafe { libc::syscall(number, fd, buffer, len, offset) as isize }
}

impl Engine for PsyncEngine<'_> {
    #[expect(
        clippy::inline_always,
        reason = "inlined: psync has one operation per loop turn, and a call would cost 10 % of it"
    )]
    #[inline(always)]
    fn queue(&mut self, slot: u32, op: &Op) {
        debug_assert!(self.queued.is_none(), "psync can have only one operation in flight");
        self.queued = Some((slot, *op));
    }

    #[expect(
        clippy::inline_always,
        reason = "inlined: psync has one operation per loop turn, and a call would cost 10 % of it"
    )]
    #[inline(always)]
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
}
