//! Linux native asynchronous I/O by raw system calls. Serves hosts and containers where io_uring is disabled, and
//! targets whose io_uring requests the kernel would hand to worker threads.
//!
//! Completions are read without a system call, from a ring that the kernel maps into the process. The ring's magic
//! number is checked; its layout has been stable since Linux 2.6.

use super::{About, Engine, Facts, FileMedium, Seat, Wait, range_ops};
use crate::memory::Buffers;
use iodyno_units::{Op, OpKind};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FDSYNC: u16 = 3;
const AIO_RING_MAGIC: u32 = 0xA10A_10A1;

/// `struct iocb` of linux/aio_abi.h, little-endian field order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    reqprio: i16,
    fildes: u32,
    buf: u64,
    nbytes: u64,
    offset: i64,
    reserved2: u64,
    flags: u32,
    resfd: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct IoEvent {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// Head of the ring that the kernel maps at the context's address (fs/aio.c, `struct aio_ring`).
#[repr(C)]
struct AioRing {
    id: u32,
    nr: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

pub(super) const ABOUT: About =
    About { queues: true, blocks_on_ranges: true, is_wakeable: true, ..About::new("libaio") };

/// Runs a worker with the libaio engine on a file.
pub(super) fn run(file: &FileMedium, seat: impl Seat) -> io::Result<()> {
    let buffers = seat.buffers(file.memory_align_bytes as usize)?;
    let mut engine = LibaioEngine::new(file.clone(), &buffers)?;
    let reaps = if engine.reaps_in_user_space { "mapped ring" } else { "io_getevents" };
    let facts = Facts::from([("libaio.completions".to_owned(), reaps.to_owned())]);
    seat.run(&mut engine, Some(&buffers), facts);
    Ok(())
}

/// The libaio engine of one worker.
#[derive(Debug)]
pub struct LibaioEngine<'a> {
    medium: FileMedium,
    buffers: &'a Buffers,
    context: libc::c_ulong,
    iocbs: Box<[Iocb]>,
    pending: Vec<*mut Iocb>,
    events: Box<[IoEvent]>,
    taken: usize,
    /// Queued operations without an asynchronous form. The next iteration executes them synchronously.
    blocking: Vec<(u32, Op)>,
    at_once: Vec<(u32, i32)>,
    /// True if completions are read without a system call, from the ring that the kernel maps into this process.
    pub reaps_in_user_space: bool,
}

impl<'a> LibaioEngine<'a> {
    /// Creates an asynchronous I/O context with room for one operation per buffer. EAGAIN means that the system's
    /// limit (fs.aio-max-nr) is exhausted.
    pub fn new(medium: FileMedium, buffers: &'a Buffers) -> io::Result<Self> {
        let slots = buffers.slots() as usize;
        let mut context: libc::c_ulong = 0;
        // SAFETY: io_setup writes the new context's address to `context`.
        if unsafe { libc::syscall(libc::SYS_io_setup, slots, &raw mut context) } < 0 {
            let e = io::Error::last_os_error();
            return Err(match e.raw_os_error() {
                Some(libc::EAGAIN) => io::Error::other(
                    "the system's limit on asynchronous I/O is used up: raise the sysctl fs.aio-max-nr, or lower --depth",
                ),
                _ => e,
            });
        }
        let mut engine = Self {
            medium,
            buffers,
            context,
            iocbs: vec![Iocb::default(); slots].into(),
            pending: Vec::with_capacity(slots),
            events: vec![IoEvent::default(); slots].into(),
            taken: 0,
            blocking: Vec::with_capacity(slots),
            at_once: Vec::with_capacity(slots),
            reaps_in_user_space: false,
        };
        engine.reaps_in_user_space = engine.ring().magic == AIO_RING_MAGIC
            && engine.ring().incompat_features == 0
            && engine.ring().header_length as usize == size_of::<AioRing>();
        Ok(engine)
    }

    fn ring(&self) -> &AioRing {
        // SAFETY: the context is the address of a page that the kernel mapped into this process
        // and keeps until io_destroy; its head is an AioRing.
        unsafe { &*(self.context as *const AioRing) }
    }

    /// Removes all completions from the mapped ring and collects them.
    fn reap_ring(&mut self) {
        let ring = self.ring();
        let (nr, tail) = (ring.nr, ring.tail.load(Ordering::Acquire));
        let mut head = ring.head.load(Ordering::Relaxed);
        let first = (self.context as usize + size_of::<AioRing>()) as *const IoEvent;
        let mut taken = self.taken;
        while head != tail && taken < self.events.len() {
            // SAFETY: `head` is below `nr`, the number of events mapped after the header; the
            // kernel has finished this event, since `tail` is past it (acquired above).
            self.events[taken] = unsafe { first.add(head as usize).read() };
            taken += 1;
            head = if head + 1 == nr { 0 } else { head + 1 };
        }
        self.ring().head.store(head, Ordering::Release);
        self.taken = taken;
    }

    fn get_events(&mut self, min: usize, limit_ns: Option<u64>) -> io::Result<()> {
        let limit = limit_ns.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let events = &mut self.events[self.taken..];
        // SAFETY: `events` is writable for as many events as are requested; `limit` is null or a
        // valid timespec that outlives the call.
        let n = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                min,
                events.len(),
                events.as_mut_ptr(),
                limit,
            )
        };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.raw_os_error() == Some(libc::EINTR) { Ok(()) } else { Err(e) };
        }
        self.taken += n as usize;
        Ok(())
    }

    fn submit_pending(&mut self) -> io::Result<()> {
        let mut from = 0;
        while from < self.pending.len() {
            let rest = &mut self.pending[from..];
            // SAFETY: every pointer is to one of our iocbs, which live as long as the context, and
            // whose buffers stay the kernel's until their completion is drained.
            let n = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, rest.len(), rest.as_mut_ptr())
            };
            if n > 0 {
                from += n as usize;
                continue;
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EINTR) => {}
                // Temporarily out of resources: completions free some; submit the rest in the next iteration.
                Some(libc::EAGAIN) => break,
                // The first one can't be submitted: fail it, and continue with the rest.
                Some(errno) => {
                    // SAFETY: as above; the kernel did not take this one.
                    let slot = unsafe { (*self.pending[from]).data } as u32;
                    self.at_once.push((slot, -errno));
                    from += 1;
                }
                None => return Err(e),
            }
        }
        self.pending.drain(..from);
        Ok(())
    }
}

impl Engine for LibaioEngine<'_> {
    const HANDS_OVER: bool = true;

    #[inline]
    fn queue(&mut self, slot: u32, op: &Op) {
        let opcode = match op.kind {
            OpKind::Read => IOCB_CMD_PREAD,
            OpKind::Write => IOCB_CMD_PWRITE,
            OpKind::Flush => IOCB_CMD_FDSYNC,
            OpKind::Trim | OpKind::WriteZeroes => {
                self.blocking.push((slot, *op));
                return;
            }
        };
        let iocb = &mut self.iocbs[slot as usize];
        *iocb = Iocb {
            data: u64::from(slot),
            rw_flags: match op.kind {
                OpKind::Flush => 0,
                _ if op.fua => self.medium.rw_flags() | libc::RWF_DSYNC,
                _ => self.medium.rw_flags(),
            },
            opcode,
            fildes: self.medium.fd.as_raw_fd() as u32,
            buf: if opcode == IOCB_CMD_FDSYNC { 0 } else { self.buffers.slot(slot) as u64 },
            nbytes: u64::from(op.len_bytes),
            offset: op.offset_bytes as i64,
            ..Iocb::default()
        };
        self.pending.push(iocb);
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.submit_pending()?;
        Ok(true)
    }

    #[inline]
    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.submit_pending()?;
        }
        for (slot, op) in self.blocking.drain(..) {
            self.at_once.push((slot, range_ops::carry_out(&self.medium, &op)));
        }
        if self.reaps_in_user_space {
            self.reap_ring();
        }
        if self.taken > 0 || !self.at_once.is_empty() {
            return Ok(());
        }
        match wait {
            Wait::No if self.reaps_in_user_space => Ok(()),
            Wait::No => self.get_events(0, Some(0)),
            Wait::One => self.get_events(1, None),
            Wait::AtMostNs(ns) => self.get_events(1, Some(ns)),
        }
    }

    #[inline]
    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        for (slot, result) in self.at_once.drain(..) {
            done(slot, result);
        }
        for event in &self.events[..self.taken] {
            done(event.data as u32, event.res as i32);
        }
        self.taken = 0;
    }
}

impl Drop for LibaioEngine<'_> {
    fn drop(&mut self) {
        // SAFETY: destroys our own context; the call waits for what is still in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
