//! The queue thread of a ublk volume: it takes requests from the kernel, submits them to the machine, and
//! commits the completions in its mailbox.

use super::super::{Served, Waiter};
use super::Reply;
use super::abi::{self, Request};
use super::control::{DEPTH, Device};
use crate::served::{Attached, Client, Payload};
use io_uring::{IoUring, opcode, squeue, types};
use iodyno_units::{Op, OpKind};
use rustix::event::{EventfdFlags, eventfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

/// User data of io_uring entries for the mailbox's eventfd. Entries for requests have the request's tag
/// instead.
const WAKER: u64 = u64::MAX;

/// Mailbox for completed requests. Only the queue's thread may report them to the kernel, so other threads put them
/// here.
#[derive(Debug)]
pub(crate) struct Mailbox {
    done: Mutex<Vec<(u16, i32, Vec<u8>)>>,
    waker: OwnedFd,
}

impl Mailbox {
    pub(super) fn put(&self, tag: u16, result: i32, bytes: Vec<u8>) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let first = done.is_empty();
        done.push((tag, result, bytes));
        drop(done);
        if first {
            // It can't overflow, because it is read before the next signal.
            let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<(u16, i32, Vec<u8>)> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The request table shared with the kernel, mapped read-only, with one entry per tag.
struct Table {
    start: *const u8,
    bytes: usize,
}

// SAFETY: only the kernel writes this memory, and it does not write a request while it is read here.
unsafe impl Send for Table {}

impl Table {
    fn of(device: &File) -> io::Result<Self> {
        let bytes = usize::from(DEPTH) * abi::REQUEST_BYTES;
        // SAFETY: a new mapping, at an address chosen by the kernel.
        let start = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, device, 0)?
        };
        Ok(Self { start: start.cast(), bytes })
    }

    /// Reads the table entry of the request with this tag, which the kernel has handed to this queue.
    fn request(&self, tag: u16) -> Request {
        assert!(tag < DEPTH);
        let at = usize::from(tag) * abi::REQUEST_BYTES;
        // SAFETY: it lies in the mapping; the kernel changes it only when it passes the next request.
        let bytes =
            unsafe { self.start.add(at).cast::<[u8; abi::REQUEST_BYTES]>().read_volatile() };
        abi::request(&bytes)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned, and nothing points into it.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.bytes) };
    }
}

/// The request queue of a volume, with all resources that its thread needs.
pub(super) struct Queue {
    device: File,
    table: Table,
    live: Arc<Served>,
    volume: u32,
    worker: u32,
    attached: Attached,
    mailbox: Arc<Mailbox>,
}

impl Queue {
    pub(super) fn open(
        device: &Device,
        live: Arc<Served>,
        volume: u32,
        worker: u32,
    ) -> io::Result<Self> {
        let device = device.open()?;
        let table = Table::of(&device)?;
        let mailbox = Mailbox { done: Mutex::default(), waker: eventfd(0, EventfdFlags::CLOEXEC)? };
        let attached = live.attach(volume, None);
        Ok(Self { device, table, live, volume, worker, attached, mailbox: Arc::new(mailbox) })
    }

    /// Serves requests until the device is removed, when the kernel aborts the fetch commands of all tags.
    pub(super) fn serve(self) {
        let Ok(mut ring) = IoUring::new(2 * u32::from(DEPTH)) else { return };
        for tag in 0..DEPTH {
            push(&mut ring, &self.entry(abi::FETCH, tag, 0));
        }
        let waker = types::Fd(self.mailbox.waker.as_raw_fd());
        let listen = opcode::PollAdd::new(waker, libc::POLLIN as u32).build().user_data(WAKER);
        push(&mut ring, &listen);
        let mut left = DEPTH;
        let mut seen: Vec<(u64, i32)> = Vec::new();
        while left > 0 {
            if let Err(e) = ring.submit_and_wait(1)
                && e.kind() != io::ErrorKind::Interrupted
            {
                return;
            }
            seen.extend(ring.completion().map(|entry| (entry.user_data(), entry.result())));
            for (what, result) in seen.drain(..) {
                match (what, result) {
                    (WAKER, _) => {
                        let _ = rustix::io::read(&self.mailbox.waker, &mut [0; 8]);
                        push(&mut ring, &listen);
                    }
                    (tag, 0) => {
                        if let Err(errno) = self.begin(tag as u16) {
                            push(&mut ring, &self.entry(abi::COMMIT_AND_FETCH, tag as u16, -errno));
                        }
                    }
                    // The device is being removed.
                    _ => left -= 1,
                }
            }
            for (tag, result, bytes) in self.mailbox.take() {
                let result = self.give(tag, result, &bytes);
                push(&mut ring, &self.entry(abi::COMMIT_AND_FETCH, tag, result));
            }
        }
    }

    fn entry(&self, command: u32, tag: u16, result: i32) -> squeue::Entry {
        let fd = types::Fd(self.device.as_raw_fd());
        let bytes = abi::io_command(tag, result);
        opcode::UringCmd16::new(fd, command).cmd(bytes).build().user_data(u64::from(tag))
    }

    /// Submits the request with this tag to the emulated machine. On an error the caller must immediately answer
    /// the request with the returned errno.
    fn begin(&self, tag: u16) -> Result<(), i32> {
        let request = self.table.request(tag);
        let Request { offset_bytes, len_bytes, fua, .. } = request;
        let op = |kind| Op { offset_bytes, len_bytes, kind, fua };
        let reply = |len_bytes, bytes| {
            let to = Arc::clone(&self.mailbox);
            Waiter::Ublk(Reply { to, tag, bytes, len_bytes })
        };
        let submit = |op: &Op, payload: Payload<'_>, reply: Waiter| {
            let client = Client { attached: Some(&self.attached), waited_ns: 0 };
            self.live.submit_of(client, self.worker, self.volume, op, payload, reply);
        };
        match request.operation {
            abi::READ => {
                let bytes = vec![0; len_bytes as usize];
                submit(&op(OpKind::Read), Payload::ReadIntoSink, reply(len_bytes, bytes));
            }
            abi::WRITE => {
                let mut bytes = vec![0; len_bytes as usize];
                self.device
                    .read_exact_at(&mut bytes, abi::bytes_at(tag))
                    .map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
                let reply = reply(len_bytes, Vec::new());
                submit(&op(OpKind::Write), Payload::Write(&bytes), reply);
            }
            abi::FLUSH => submit(&Op::FLUSH, Payload::None, reply(0, Vec::new())),
            abi::DISCARD => submit(&op(OpKind::Trim), Payload::None, reply(len_bytes, Vec::new())),
            abi::WRITE_ZEROES => {
                submit(&op(OpKind::WriteZeroes), Payload::None, reply(len_bytes, Vec::new()));
            }
            _ => return Err(libc::EOPNOTSUPP),
        }
        Ok(())
    }

    /// Copies a read's data to the kernel; returns the result to report for the request.
    fn give(&self, tag: u16, result: i32, bytes: &[u8]) -> i32 {
        if result <= 0 || bytes.is_empty() {
            return result;
        }
        match self.device.write_all_at(bytes, abi::bytes_at(tag)) {
            Ok(()) => result,
            Err(e) => -e.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// Queues an io_uring entry. If a burst of commits has filled the submission queue, it first submits the
/// queue.
fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: entries point to nothing but files, which outlive the ring.
    while unsafe { ring.submission().push(entry) }.is_err() {
        if ring.submit().is_err() {
            return;
        }
    }
}
