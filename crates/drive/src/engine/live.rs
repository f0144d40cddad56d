//! Emulated storage in real time, in this process: `live:` targets. Workers of all targets share one emulated
//! machine. A worker that waits for a completion advances the machine itself, so no thread has to be woken.
//!
//! The model includes the CPU time that the emulated host needs to issue an operation. The worker spins for that time,
//! so its timestamps include it too.

use super::{About, Engine, Facts, Seat, Wait};
use crate::memory::Buffers;
use iodyno_live::counts::Looks;
use iodyno_live::poller::{self, advance};
use iodyno_live::served::{Live, NEVER, Payload, Sink};
use iodyno_units::{IoError, Op, OpKind};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Mailbox through which a worker receives the completions of its operations.
#[derive(Debug, Default)]
pub struct Mailbox {
    count: AtomicUsize,
    done: Mutex<Vec<(u32, i32)>>,
    /// Data of completed reads from arrays; each entry has the number of the buffer to copy it to.
    read: Mutex<Vec<(u32, Vec<u8>)>>,
}

/// Receiver of one operation's completion: the mailbox of the worker that waits for it, and the number of the
/// operation's buffer.
#[derive(Debug)]
pub struct CompletionHandle {
    to: Arc<Mailbox>,
    slot: u32,
    len_bytes: u32,
    /// Data that a read returns on completion. Used only for arrays with stored content.
    bytes: Vec<u8>,
}

impl Sink for CompletionHandle {
    fn done(self, result: Result<(), IoError>) {
        let result = match result {
            Ok(()) => self.len_bytes as i32,
            Err(error) => -error.errno(),
        };
        if !self.bytes.is_empty() {
            held(&self.to.read).push((self.slot, self.bytes));
        }
        held(&self.to.done).push((self.slot, result));
        self.to.count.fetch_add(1, Ordering::Release);
    }

    fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) const ABOUT: About = About { queues: true, ..About::new("live") };

/// Runs a worker on an emulated volume. `first_worker` is the number of the target's first worker among all workers of
/// the emulated machine.
pub(super) fn run(
    live: &Arc<Live<CompletionHandle>>,
    volume: u32,
    first_worker: u32,
    seat: impl Seat,
) -> io::Result<()> {
    let buffers = seat.buffers(4096)?;
    let worker = first_worker + seat.number();
    let mut engine = LiveEngine::new(Arc::clone(live), volume, worker, &buffers);
    seat.run(&mut engine, Some(&buffers), Facts::new());
    Ok(())
}

/// The engine of one worker on real-time emulated storage.
#[derive(Debug)]
pub struct LiveEngine<'a> {
    live: Arc<Live<CompletionHandle>>,
    volume: u32,
    worker: u32,
    buffers: &'a Buffers,
    mailbox: Arc<Mailbox>,
    taken: Vec<(u32, i32)>,
    /// True if the volume is an array with stored content, so that reads return their data only on completion.
    reads_late: bool,
}

impl<'a> LiveEngine<'a> {
    /// Creates an engine on a volume for worker number `worker` of the emulated machine.
    pub fn new(
        live: Arc<Live<CompletionHandle>>,
        volume: u32,
        worker: u32,
        buffers: &'a Buffers,
    ) -> Self {
        let taken = Vec::with_capacity(buffers.slots() as usize);
        let mailbox = Arc::new(Mailbox {
            count: AtomicUsize::new(0),
            done: Mutex::new(Vec::with_capacity(buffers.slots() as usize)),
            read: Mutex::default(),
        });
        let reads_late = live
            .look(|machine, stores, _| !stores.is_empty() && !machine.system().is_device(volume));
        Self { live, volume, worker, buffers, mailbox, taken, reads_late }
    }

    fn wait(&self, until_ns: u64) {
        poller::wait(&self.live, until_ns, || self.mailbox.count.load(Ordering::Acquire) > 0);
    }
}

impl Engine for LiveEngine<'_> {
    fn queue(&mut self, slot: u32, op: &Op) {
        let len = op.len_bytes as usize;
        let mut bytes = Vec::new();
        let payload = match op.kind {
            OpKind::Read if self.reads_late => {
                bytes = vec![0; len];
                Payload::ReadIntoSink
            }
            // SAFETY: the slot is this engine's until its completion is drained.
            OpKind::Read => Payload::Read(unsafe { self.buffers.bytes(slot, len) }),
            // SAFETY: as above.
            OpKind::Write => Payload::Write(unsafe { self.buffers.bytes(slot, len) }),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => Payload::None,
        };
        let completion = CompletionHandle {
            to: Arc::clone(&self.mailbox),
            slot,
            len_bytes: op.len_bytes,
            bytes,
        };
        let issued_ns = self.live.submit(self.worker, self.volume, op, payload, completion);
        let mut looks = Looks::default();
        while advance(&self.live, &mut looks).1 < issued_ns {
            std::hint::spin_loop();
        }
    }

    fn lends_buffers(&self) -> bool {
        false
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        match wait {
            Wait::No => {
                advance(&self.live, &mut Looks::default());
            }
            Wait::One => self.wait(NEVER),
            Wait::AtMostNs(ns) => self.wait(self.live.now_ns() + ns),
        }
        Ok(())
    }

    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        if self.mailbox.count.swap(0, Ordering::Acquire) == 0 {
            return;
        }
        let mut mail = held(&self.mailbox.done);
        std::mem::swap(&mut self.taken, &mut mail);
        drop(mail);
        if self.reads_late {
            for (slot, bytes) in held(&self.mailbox.read).drain(..) {
                // SAFETY: the slot is this engine's until its completion is drained, in this call or the
                // next.
                unsafe { self.buffers.bytes(slot, bytes.len()) }.copy_from_slice(&bytes);
            }
        }
        for (slot, result) in self.taken.drain(..) {
            done(slot, result);
        }
    }
}
