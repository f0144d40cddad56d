//! io_uring, set up as the fastest load generators do (one ring per thread, registered file, buffers and ring, deferred
//! task work, one system call that both submits and waits). Each optional part is dropped individually if the kernel
//! refuses it; the results list the parts in effect.

use super::{About, Engine, EngineOptions, FileMedium, Seat, Wait, range_ops};
use crate::memory::{Buffers, Region};
use io_uring::squeue::EntryMarker as _;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use iodyno_units::{Op, OpKind};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

/// The kernel's limit on the size of one registered buffer, bytes.
const REGISTERED_BUFFER_BYTES_MAX: usize = 1 << 30;
/// Maximum number of entries of the submission queue. At a larger queue depth, a worker submits several
/// batches.
const SQ_ENTRIES_MAX: u32 = 256;

/// Timeout for cancelling the requests in flight, ns.
const CANCEL_NS: u32 = 50_000_000;

pub(super) const ABOUT: About = About {
    aliases: &["io_uring"],
    queues: true,
    blocks_on_ranges: true,
    is_wakeable: true,
    hint: |error| match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => {
            "; io_uring is disabled on this machine: use --engine libaio or psync"
        }
        _ => "",
    },
    ..About::new("uring")
};

/// Runs a worker with io_uring on a file or on an NVMe namespace.
pub(super) fn run(file: &FileMedium, seat: impl Seat) -> io::Result<()> {
    let buffers = seat.buffers(file.memory_align_bytes as usize)?;
    let mut set_up = UringSetup::new(file.clone(), &buffers, seat.options())?;
    let (mut engine, facts) = set_up.engine();
    seat.run(&mut engine, Some(&buffers), facts);
    Ok(())
}

/// An io_uring with its registered resources. Belongs to the worker's thread.
pub struct UringSetup<'a> {
    ring: IoUring,
    medium: FileMedium,
    buffers: &'a Buffers,
    fixed_file: bool,
    fixed_buffers: bool,
    facts: BTreeMap<String, String>,
}

impl std::fmt::Debug for UringSetup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringSetup").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// Optional set-up flags of io_uring, newest first, each with the kernel version that introduced it. If the
/// kernel refuses the flags, they are dropped in this order.
const FLAGS: [(&str, &str); 5] = [
    ("no_sqarray", "6.6"),
    ("defer_taskrun", "6.1"),
    ("single_issuer", "6.0"),
    ("coop_taskrun", "5.19"),
    ("cqsize", "5.5"),
];

fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    entries: u32,
    depth: u32,
    from: usize,
    poll: bool,
) -> io::Result<IoUring<S, C>> {
    let mut builder = IoUring::<S, C>::builder();
    for (name, _) in &FLAGS[from..] {
        match *name {
            "no_sqarray" => builder.setup_no_sqarray(),
            "defer_taskrun" => builder.setup_defer_taskrun(),
            "single_issuer" => builder.setup_single_issuer(),
            "coop_taskrun" => builder.setup_coop_taskrun(),
            _ => builder.setup_cqsize(depth.max(entries).next_power_of_two()),
        };
    }
    if poll {
        builder.setup_iopoll();
    }
    builder.build(entries)
}

/// Creates an io_uring with as many of the optional flags as the kernel accepts. Also returns the flags in effect.
pub(super) fn set_up<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    depth: u32,
    options: EngineOptions,
) -> io::Result<(IoUring<S, C>, BTreeMap<String, String>)> {
    let entries = depth.clamp(1, SQ_ENTRIES_MAX).next_power_of_two();
    let mut facts = BTreeMap::new();
    let mut from = if options.plain { FLAGS.len() } else { 0 };
    let ring = loop {
        match build(entries, depth, from, options.poll) {
            Ok(ring) => break ring,
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && from < FLAGS.len() => from += 1,
            Err(e) => return Err(e),
        }
    };
    let on: Vec<&str> = FLAGS[from..].iter().map(|f| f.0).collect();
    let off: Vec<String> =
        FLAGS[..from].iter().map(|(name, since)| format!("{name} (Linux {since})")).collect();
    facts.insert("uring.flags".to_owned(), join_or_none(&on));
    if from > 0 && !options.plain {
        facts.insert("uring.refused".to_owned(), off.join(" "));
    }
    facts.insert("uring.poll".to_owned(), yes_no(options.poll));
    Ok((ring, facts))
}

/// Registers the memory of all buffers with the ring. On failure, the results will state the reason.
///
/// # Safety
/// The region must outlive the ring, or be unregistered before it is dropped.
pub(super) unsafe fn register_buffers(
    submitter: &io_uring::Submitter<'_>,
    region: &Region,
    facts: &mut BTreeMap<String, String>,
) -> bool {
    if region.len() > REGISTERED_BUFFER_BYTES_MAX {
        let why = "the buffers are larger than the limit of 1 GiB".to_owned();
        facts.insert("uring.registered_buffers.refused".to_owned(), why);
        return false;
    }
    let iov = libc::iovec { iov_base: region.start().cast(), iov_len: region.len() };
    // SAFETY: the caller's promise.
    match unsafe { submitter.register_buffers(&[iov]) } {
        Ok(()) => true,
        Err(e) => {
            let hint = if e.raw_os_error() == Some(libc::ENOMEM) {
                " (the limit on locked memory, ulimit -l, is too low)"
            } else {
                ""
            };
            let why = format!("{e}{hint}");
            facts.insert("uring.registered_buffers.refused".to_owned(), why);
            false
        }
    }
}

impl<'a> UringSetup<'a> {
    /// Sets up an io_uring for one worker on one file. Fails only if a ring without optional flags also fails.
    pub fn new(
        medium: FileMedium,
        buffers: &'a Buffers,
        options: EngineOptions,
    ) -> io::Result<Self> {
        let (ring, facts) = set_up(buffers.slots(), options)?;
        let mut setup =
            Self { ring, medium, buffers, fixed_file: false, fixed_buffers: false, facts };
        if !options.plain {
            setup.register();
        }
        let fixed_file = yes_no(setup.fixed_file);
        let fixed_buffers = yes_no(setup.fixed_buffers);
        setup.facts.insert("uring.registered_file".to_owned(), fixed_file);
        setup.facts.insert("uring.registered_buffers".to_owned(), fixed_buffers);
        Ok(setup)
    }

    /// Registers the file and the buffers with the ring. Continues without either if the kernel refuses it.
    fn register(&mut self) {
        match self.ring.submitter().register_files(&[self.medium.fd.as_raw_fd()]) {
            Ok(()) => self.fixed_file = true,
            Err(e) => {
                self.facts.insert("uring.registered_file.refused".to_owned(), e.to_string());
            }
        }
        // SAFETY: the region outlives the ring: both belong to this set-up, which borrows the
        // buffers, and dropping the ring unregisters them.
        self.fixed_buffers = unsafe {
            register_buffers(&self.ring.submitter(), self.buffers.region(), &mut self.facts)
        };
    }

    /// Creates the engine that uses this ring. Also returns the io_uring options in effect.
    pub fn engine(&mut self) -> (UringEngine<'_, FileRequests<'_>>, BTreeMap<String, String>) {
        let mut facts = self.facts.clone();
        let (mut submitter, sq, cq) = self.ring.split();
        if self.fixed_file {
            // Saves the look-up of the ring's descriptor in each system call (Linux 5.18).
            let registered = submitter.register_ring_fd().is_ok();
            facts.insert("uring.registered_ring".to_owned(), yes_no(registered));
        }
        let requests = FileRequests {
            medium: &self.medium,
            buffers: self.buffers,
            fd: self.medium.fd.as_raw_fd(),
            fixed_file: self.fixed_file,
            fixed_buffers: self.fixed_buffers,
            rw_flags: self.medium.rw_flags(),
        };
        let engine = UringEngine::new(submitter, sq, cq, requests, self.buffers.slots());
        (engine, facts)
    }
}

/// Unregisters the ring's resources. The kernel releases a closed ring only after some time; a device opened
/// exclusively would then still be busy for the next run.
impl Drop for UringSetup<'_> {
    fn drop(&mut self) {
        let submitter = self.ring.submitter();
        if self.fixed_file {
            let _ = submitter.unregister_files();
        }
        if self.fixed_buffers {
            let _ = submitter.unregister_buffers();
        }
    }
}

pub(super) fn yes_no(b: bool) -> String {
    (if b { "yes" } else { "no" }).to_owned()
}

fn join_or_none(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// Builds submission queue entries for a registered file or a plain descriptor. The io_uring crate has
/// separate types for the two and no common trait.
trait OnFile {
    fn read(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry;
    fn read_fixed(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry;
    fn write(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry;
    fn write_fixed(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry;
    fn datasync(self) -> squeue::Entry;
}

macro_rules! on_file {
    ($file:ty) => {
        impl OnFile for $file {
            #[inline]
            fn read(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry {
                opcode::Read::new(self, buffer, len).offset(at).rw_flags(flags).build()
            }
            #[inline]
            fn read_fixed(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry {
                opcode::ReadFixed::new(self, buffer, len, 0).offset(at).rw_flags(flags).build()
            }
            #[inline]
            fn write(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry {
                opcode::Write::new(self, buffer, len).offset(at).rw_flags(flags).build()
            }
            #[inline]
            fn write_fixed(self, buffer: *mut u8, len: u32, at: u64, flags: i32) -> squeue::Entry {
                opcode::WriteFixed::new(self, buffer, len, 0).offset(at).rw_flags(flags).build()
            }
            #[inline]
            fn datasync(self) -> squeue::Entry {
                opcode::Fsync::new(self).flags(types::FsyncFlags::DATASYNC).build()
            }
        }
    };
}
on_file!(types::Fixed);
on_file!(types::Fd);

/// Reason why no request was built for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRequest {
    /// The operation fails with this negative error number.
    Failed(i32),
    /// The operation has no asynchronous form, so the engine executes it synchronously.
    Blocking,
}

/// Builds io_uring requests for operations.
pub trait Requests {
    /// Type of the ring's submission queue entries: 64 bytes, or 128 for NVMe commands.
    type Sqe: squeue::EntryMarker;
    /// Type of the ring's completion queue entries: 16 bytes, or 32 for NVMe commands.
    type Cqe: cqueue::EntryMarker;

    /// Builds the request for an operation; `slot` is the number of its buffer.
    fn request(&mut self, slot: u32, op: &Op) -> Result<Self::Sqe, NoRequest>;

    /// Executes an operation without an asynchronous form. Returns the length of its range in bytes, or the
    /// negative error number.
    fn carry_out(&self, _: &Op) -> i32 {
        -libc::EOPNOTSUPP
    }

    /// Converts the result of a completion to bytes transferred or a negative error number.
    fn result(&self, slot: u32, result: i32) -> i32;
}

/// Builds requests for a file or a block device.
pub struct FileRequests<'a> {
    medium: &'a FileMedium,
    buffers: &'a Buffers,
    fd: i32,
    fixed_file: bool,
    fixed_buffers: bool,
    /// `RWF_` flags that every read and write has.
    rw_flags: i32,
}

impl FileRequests<'_> {
    #[inline]
    fn entry_on<F: OnFile>(&self, file: F, slot: u32, op: &Op) -> squeue::Entry {
        let buffer = self.buffers.slot(slot);
        let durable = if op.fua { libc::RWF_DSYNC } else { 0 };
        let (read_flags, flags) = (self.rw_flags, self.rw_flags | durable);
        let (len, at) = (op.len_bytes, op.offset_bytes);
        match (op.kind, self.fixed_buffers) {
            (OpKind::Read, true) => file.read_fixed(buffer, len, at, read_flags),
            (OpKind::Read, false) => file.read(buffer, len, at, read_flags),
            (OpKind::Write, true) => file.write_fixed(buffer, len, at, flags),
            (OpKind::Write, false) => file.write(buffer, len, at, flags),
            _ => file.datasync(),
        }
    }
}

impl Requests for FileRequests<'_> {
    type Sqe = squeue::Entry;
    type Cqe = cqueue::Entry;

    #[inline]
    fn request(&mut self, slot: u32, op: &Op) -> Result<squeue::Entry, NoRequest> {
        if matches!(op.kind, OpKind::Trim | OpKind::WriteZeroes) {
            return Err(NoRequest::Blocking);
        }
        Ok(if self.fixed_file {
            self.entry_on(types::Fixed(0), slot, op)
        } else {
            self.entry_on(types::Fd(self.fd), slot, op)
        })
    }

    fn carry_out(&self, op: &Op) -> i32 {
        range_ops::carry_out(self.medium, op)
    }

    #[inline]
    fn result(&self, _: u32, result: i32) -> i32 {
        result
    }
}

/// The io_uring engine of one worker. `R` builds its requests.
pub struct UringEngine<'a, R: Requests> {
    submitter: io_uring::Submitter<'a>,
    sq: io_uring::SubmissionQueue<'a, R::Sqe>,
    cq: io_uring::CompletionQueue<'a, R::Cqe>,
    requests: R,
    /// Number of submission queue entries that the kernel has not consumed yet.
    queued: u32,
    /// Completions to return: those read from the ring, and those of operations executed synchronously.
    ready: Vec<(u32, i32)>,
    /// Queued operations without an asynchronous form. The next iteration executes them synchronously.
    blocking: Vec<(u32, Op)>,
}

impl<R: Requests> std::fmt::Debug for UringEngine<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringEngine").field("queued", &self.queued).finish_non_exhaustive()
    }
}

impl<'a, R: Requests> UringEngine<'a, R> {
    /// Creates an engine on the queues of a ring, for `slots` operations in flight.
    pub(super) fn new(
        submitter: io_uring::Submitter<'a>,
        sq: io_uring::SubmissionQueue<'a, R::Sqe>,
        cq: io_uring::CompletionQueue<'a, R::Cqe>,
        requests: R,
        slots: u32,
    ) -> Self {
        let ready = Vec::with_capacity(slots as usize);
        let blocking = Vec::with_capacity(slots as usize);
        Self { submitter, sq, cq, requests, queued: 0, ready, blocking }
    }

    fn enter(&mut self, want: u32) -> io::Result<()> {
        // GETEVENTS even without waiting: deferred task work runs only then.
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: the entries were built from this worker's buffers and descriptor, which outlive
        // their completions: the worker drains every slot before it ends, and where it gives a target up
        // or panics, its thread keeps the engine and the buffers.
        let taken =
            unsafe { self.submitter.enter::<libc::sigset_t>(self.queued, want, flags, None) };
        self.settle(taken)
    }

    /// Reduces the number of queued entries by the number that the kernel has consumed.
    fn settle(&mut self, taken: io::Result<usize>) -> io::Result<()> {
        match taken {
            Ok(_) => {}
            // Temporarily out of resources, or nothing completed in time: process completions first,
            // then submit the rest in the next iteration.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME)
                ) => {}
            Err(e) => return Err(e),
        }
        // Updates the queue's head, which the next entries would otherwise find full.
        self.sq.sync();
        self.queued = self.sq.len() as u32;
        Ok(())
    }
}

impl<R: Requests> Engine for UringEngine<'_, R> {
    const HANDS_OVER: bool = true;

    #[inline]
    fn queue(&mut self, slot: u32, op: &Op) {
        let mut entry = match self.requests.request(slot, op) {
            Ok(entry) => entry,
            Err(NoRequest::Failed(result)) => {
                self.ready.push((slot, result));
                return;
            }
            Err(NoRequest::Blocking) => {
                self.blocking.push((slot, *op));
                return;
            }
        };
        entry.set_user_data(u64::from(slot));
        // SAFETY: buffer and descriptor stay valid until the completion is drained.
        while unsafe { self.sq.push(&entry) }.is_err() {
            // Queue full: let the kernel take the queued entries first.
            self.sq.sync();
            if self.enter(0).is_err() {
                self.ready.push((slot, -libc::EIO));
                return;
            }
        }
        self.queued += 1;
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.sq.sync();
        // Without GETEVENTS: the following iteration takes completions.
        // SAFETY: as in `enter`.
        let taken = unsafe { self.submitter.enter::<libc::sigset_t>(self.queued, 0, 0, None) };
        self.settle(taken)?;
        Ok(true)
    }

    #[inline]
    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.sq.sync();
        if !self.blocking.is_empty() {
            // Other queued operations must not wait for these.
            self.enter(0)?;
            for (slot, op) in self.blocking.drain(..) {
                self.ready.push((slot, self.requests.carry_out(&op)));
            }
        }
        let want = u32::from(self.ready.is_empty());
        match wait {
            Wait::No => self.enter(0)?,
            Wait::One => self.enter(want)?,
            Wait::AtMostNs(ns) => {
                let limit = types::Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                let args = types::SubmitArgs::new().timespec(&limit);
                let taken = self.submitter.submit_with_args(want as usize, &args);
                self.settle(taken)?;
            }
        }
        self.cq.sync();
        // Within the capacity: never more than one completion per slot.
        for entry in self.cq.by_ref() {
            let entry: cqueue::Entry = entry.into();
            let slot = entry.user_data() as u32;
            self.ready.push((slot, self.requests.result(slot, entry.result())));
        }
        self.cq.sync();
        Ok(())
    }

    fn cancel(&mut self) {
        // A request that waits for a device can't be cancelled, but one in a kernel worker's queue can.
        let limit = types::Timespec::new().nsec(CANCEL_NS);
        let _ = self.submitter.register_sync_cancel(Some(limit), types::CancelBuilder::any());
    }

    #[inline]
    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        for &(slot, result) in &self.ready {
            done(slot, result);
        }
        self.ready.clear();
    }
}
