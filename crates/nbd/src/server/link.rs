//! State shared by a connection's thread and the threads that answer its requests later. Such a thread may carry out
//! the I/O of a hundred connections, so it never waits for a client or for a connection's thread. It sends as much of
//! the reply as the socket accepts, which saves a wake-up, and leaves the rest to the connection's thread.
//!
//! At most one thread sends at a time. Others append to the queue; the sender checks the queue again before it stops.
//! No thread sends, wakes another or takes the budget's lock while it holds the queue's lock.
//!
//! **Memory.** The connection's limits and the [`Budget`] bound deferred requests and queued replies. While a limit is
//! exceeded, the connection's thread reads no further request. If a buffer of more than [`KEEP_BYTES`] remains after a
//! send, the acceptor [trims](Link::trim) the queue within [`TRIM_AFTER`](memory_budget::TRIM_AFTER). The sender does
//! not trim, because each reply to a client that reads much would then need an allocation.

pub(super) mod memory_budget;

use super::counters::Counters;
use crate::syscalls::{self, Span, Waker};
use crate::wire::{Command, Kind, Replies};
use memory_budget::{Budget, STEP_BYTES};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Memory counted per request in addition to its payload, bytes.
const REQUEST_OVERHEAD_BYTES: usize = 128;
/// Maximum capacity of a reply buffer that is kept although unused, bytes.
const KEEP_BYTES: usize = 256 << 10;

/// State shared by a connection's thread and the threads that answer its requests later.
pub(crate) struct Link {
    /// Number of the connection, unique in the server.
    pub(crate) id: u64,
    pub(crate) socket: OwnedFd,
    pub(crate) replies: OnceLock<Replies>,
    /// Whether any thread may send to the socket. False with TLS.
    direct: bool,
    queue: Mutex<Queue>,
    waker: OnceLock<Waker>,
    /// Whether any request of the connection has been deferred.
    used: AtomicBool,
    /// Number of deferred requests that are unanswered. `pending_bytes` is the memory counted for them.
    pending: AtomicUsize,
    pending_bytes: AtomicUsize,
    /// Bytes of replies in the queue that are not sent yet.
    queued_bytes: AtomicUsize,
    /// Number of sends from the queue so far.
    sends: AtomicUsize,
    /// Whether the connection's thread waits and must be woken when the queue changes.
    asleep: AtomicBool,
    /// Whether the connection's thread waits for another thread's reply to a request.
    awaits_answer: AtomicBool,
    pub(crate) counters: Arc<Counters>,
    pub(crate) budget: Arc<Budget>,
    /// Whether the connection has a grant of memory from the budget.
    granted: AtomicBool,
    /// Memory of the connection's own thread, bytes: its unsent replies and the payload that it receives. Up to
    /// date only while the connection has or requests a grant.
    own_bytes: AtomicUsize,
    /// Whether the connection's thread is executing a request, and thus not waiting for its client.
    submits: AtomicBool,
    /// Bytes sent to and received from the socket. Counted only while the connection has a grant: the budget checks how
    /// much the value grows.
    moved_bytes: AtomicUsize,
    closed: AtomicBool,
}

/// Frees the unused memory of a buffer with more than [`KEEP_BYTES`] of capacity.
pub(super) fn trim(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEEP_BYTES {
        buffer.shrink_to_fit();
    }
}

#[derive(Default)]
struct Queue {
    /// Replies being sent. `head_sent` is the number of bytes sent so far.
    head: Vec<u8>,
    head_sent: usize,
    /// Replies to be sent after `head`.
    tail: Vec<u8>,
    /// Whether a thread is currently sending `head`.
    sending: bool,
    /// Time at which the latest send began.
    sent_at: Option<Instant>,
    /// Whether the socket was full, so that the connection's thread must send the rest.
    stuck: bool,
    /// Whether the connection has ended.
    closed: bool,
}

impl Queue {
    fn is_large(&self) -> bool {
        self.head.capacity() > KEEP_BYTES || self.tail.capacity() > KEEP_BYTES
    }
}

impl Link {
    pub(crate) fn new(
        id: u64,
        socket: OwnedFd,
        direct: bool,
        counters: Arc<Counters>,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            id,
            socket,
            replies: OnceLock::new(),
            direct,
            queue: Mutex::default(),
            waker: OnceLock::new(),
            used: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            pending_bytes: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            sends: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            awaits_answer: AtomicBool::new(false),
            counters,
            budget,
            granted: AtomicBool::new(false),
            own_bytes: AtomicUsize::new(0),
            submits: AtomicBool::new(false),
            moved_bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Memory of deferred requests and queued replies, bytes.
    #[inline]
    pub(crate) fn owed_bytes(&self) -> usize {
        self.pending_bytes.load(SeqCst) + self.queued_bytes.load(SeqCst)
    }

    /// Memory of all requests and replies of the connection, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.is_closed() {
            return self.pending_bytes.load(SeqCst);
        }
        self.owed_bytes() + self.own_bytes.load(SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Whether the connection has a grant of memory, so that the budget must be told of changes.
    #[inline]
    pub(crate) fn granted(&self) -> bool {
        self.granted.load(SeqCst)
    }

    pub(crate) fn set_granted(&self, granted: bool) {
        self.granted.store(granted, SeqCst);
    }

    /// Records the number of bytes that the connection's own thread occupies, including the request that it is about
    /// to read. Called before requesting a grant from the memory budget.
    pub(crate) fn set_own_bytes(&self, bytes: usize) {
        self.own_bytes.store(bytes, SeqCst);
    }

    /// Reduces the recorded memory of the connection's own thread to `bytes`, and returns the rest of the grant
    /// to the budget. No-op without a grant.
    #[inline]
    pub(crate) fn keep_own_bytes(&self, bytes: usize) {
        if self.granted() && bytes < self.own_bytes.swap(bytes, SeqCst) {
            // The client took or sent everything that this thread waited for.
            self.moved(STEP_BYTES);
            self.settle();
        }
    }

    /// Records that the connection's thread begins or ends the execution of a request. No-op without a grant.
    #[inline]
    pub(crate) fn set_submits(&self, submits: bool) {
        if submits && self.granted() || !submits && self.submits.load(SeqCst) {
            self.submits.store(submits, SeqCst);
        }
    }

    /// Adds bytes sent to or received from the socket to the count. No-op without a grant.
    #[inline]
    pub(crate) fn moved(&self, bytes: usize) {
        if self.granted() {
            self.moved_bytes.fetch_add(bytes, SeqCst);
        }
    }

    /// Bytes exchanged with the client, without those still in the socket's buffer. (A Unix socket accepts more
    /// only after the client has read most of the buffer, so counting those would make a slow client look
    /// stalled.) May be negative.
    pub(crate) fn moved_bytes(&self) -> isize {
        let untaken = syscalls::untaken_bytes(self.socket.as_fd()).unwrap_or(0);
        self.moved_bytes.load(SeqCst).wrapping_sub(untaken) as isize
    }

    /// Whether the connection waits for its client to read or send something. `own`: whether the connection's own
    /// thread can be waiting for the client, because it does not wait for memory.
    pub(crate) fn waits_for_client(&self, own: bool) -> bool {
        !self.is_closed()
            && !self.submits.load(SeqCst)
            && (self.queued_bytes.load(SeqCst) > 0 || own && self.own_bytes.load(SeqCst) > 0)
    }

    /// Tells the budget that memory was released. No-op without a grant.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.granted() {
            self.budget.settle(self);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Code under the lock can only panic half-way for lack of memory.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waker of the connection's thread; `None` before the first deferred request.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// Whether any request has been deferred. If not, the queue is empty and need not be checked.
    #[inline]
    pub(crate) fn used(&self) -> bool {
        self.used.load(SeqCst)
    }

    pub(crate) fn sends(&self) -> usize {
        self.sends.load(SeqCst)
    }

    /// Time at which the latest send began; `None` before the first send.
    pub(crate) fn last_send(&self) -> Option<Instant> {
        self.queue().sent_at
    }

    /// Whether a request is unanswered or a reply unsent.
    pub(crate) fn owes(&self) -> bool {
        self.pending.load(SeqCst) > 0 || self.queued_bytes.load(SeqCst) > 0
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(SeqCst)
    }

    /// Whether the connection has reached its limit of deferred requests or their memory, so that no further
    /// request may be read.
    #[inline]
    pub(crate) fn crowded(&self, requests_max: usize, bytes_max: usize) -> bool {
        self.used()
            && (self.pending.load(SeqCst) >= requests_max
                || self.pending_bytes.load(SeqCst) + self.queued_bytes.load(SeqCst) >= bytes_max)
    }

    /// Whether the queue has replies that no other thread is sending.
    pub(crate) fn has_queued(&self) -> bool {
        if !self.used() {
            return false;
        }
        let queue = self.queue();
        !queue.sending && (queue.head_sent < queue.head.len() || !queue.tail.is_empty())
    }

    /// Announces that the connection's thread is about to wait. `awaits_answer`: it waits for a reply from another
    /// thread. Returns true if there are replies to send, so that the thread need not wait.
    pub(crate) fn fall_asleep(&self, awaits_answer: bool) -> bool {
        self.asleep.store(true, SeqCst);
        self.awaits_answer.store(awaits_answer, SeqCst);
        self.has_queued()
    }

    pub(crate) fn woke_up(&self) {
        self.asleep.store(false, SeqCst);
        self.awaits_answer.store(false, SeqCst);
        if let Some(waker) = self.waker() {
            waker.reset();
        }
    }

    fn wake_if(&self, flag: &AtomicBool) {
        if flag.load(SeqCst)
            && flag.swap(false, SeqCst)
            && let Some(waker) = self.waker()
        {
            waker.wake();
        }
    }

    /// Sends queued replies until the socket is full. If several threads call it, only one sends. Once the socket is
    /// full, only the connection's thread (`own_thread`) sends. Returns `Err` if the connection is broken.
    pub(crate) fn send_queued(&self, own_thread: bool) -> io::Result<()> {
        debug_assert!(self.direct);
        let mut queue = self.queue();
        if queue.sending || queue.closed || (queue.stuck && !own_thread) {
            return Ok(());
        }
        queue.sending = true;
        queue.stuck = false;
        loop {
            if queue.head.is_empty() {
                let q = &mut *queue;
                std::mem::swap(&mut q.head, &mut q.tail);
                if q.head.is_empty() {
                    q.sending = false;
                    let large = q.is_large();
                    drop(queue);
                    self.ask_to_trim(large);
                    return Ok(());
                }
            }
            // Only the sender touches the head, so it can be taken out of the queue.
            let mut head = std::mem::take(&mut queue.head);
            let mut from = queue.head_sent;
            let begun = Instant::now();
            drop(queue);
            let span = Span::new(head[from..].as_ptr(), head.len() - from);
            // SAFETY: the span is the rest of a vector that this thread owns.
            let sent = unsafe { syscalls::send(self.socket.as_fd(), &[span]) };
            match sent {
                Ok(Some(n)) if from + n == head.len() => {
                    head.clear();
                    from = 0;
                }
                Ok(Some(n)) => from += n,
                Ok(None) | Err(_) => {}
            }
            if let Ok(Some(n)) = sent {
                self.moved(n);
                self.sent(n);
            }
            queue = self.queue();
            if queue.closed {
                queue.sending = false;
                return Ok(());
            }
            queue.head = head;
            queue.head_sent = from;
            match sent {
                Ok(Some(_)) => {
                    queue.sent_at = Some(begun);
                    self.sends.fetch_add(1, SeqCst);
                }
                Ok(None) => {
                    queue.sending = false;
                    queue.stuck = true;
                    let large = queue.is_large();
                    drop(queue);
                    self.ask_to_trim(large);
                    self.wake_if(&self.asleep);
                    return Ok(());
                }
                Err(e) => {
                    queue.sending = false;
                    queue.stuck = true;
                    drop(queue);
                    // The connection's thread gets the same error, and ends the connection.
                    self.wake_if(&self.asleep);
                    return Err(e);
                }
            }
        }
    }

    fn ask_to_trim(&self, large: bool) {
        if large {
            self.budget.ask_to_trim();
        }
    }

    /// Frees the memory of sent replies. Skips a buffer that is being sent; its sender requests another trim.
    pub(crate) fn trim(&self) {
        let mut queue = self.queue();
        let q = &mut *queue;
        if !q.sending && q.head.capacity() > KEEP_BYTES {
            q.head.drain(..q.head_sent);
            q.head_sent = 0;
        }
        trim(&mut q.head);
        trim(&mut q.tail);
    }

    /// Begins sending the replies of the connection's own thread. Returns false if other replies are queued or
    /// being sent; the thread must then queue its replies or wait.
    pub(crate) fn begin_own(&self) -> bool {
        if !self.used() {
            return true;
        }
        let mut queue = self.queue();
        let free = !queue.sending && queue.head_sent == queue.head.len() && queue.tail.is_empty();
        queue.sending |= free;
        free
    }

    /// Ends sending the replies of the connection's own thread, and sends replies queued in the meantime.
    pub(crate) fn end_own(&self) -> io::Result<()> {
        if !self.used() {
            return Ok(());
        }
        let more = {
            let mut queue = self.queue();
            queue.sending = false;
            !queue.tail.is_empty()
        };
        if more && self.direct { self.send_queued(true) } else { Ok(()) }
    }

    /// Moves the whole queue to `into`, for the connection's thread to send over TLS. The thread then calls
    /// [`Self::sent`].
    pub(crate) fn take_queued(&self, into: &mut Vec<u8>) {
        debug_assert!(into.is_empty());
        let mut queue = self.queue();
        std::mem::swap(&mut queue.tail, into);
    }

    /// Records that `bytes` of the queued replies were sent.
    pub(crate) fn sent(&self, bytes: usize) {
        let all = self.queued_bytes.fetch_sub(bytes, SeqCst) == bytes;
        if all {
            // A client that took everything is not slow, even if that was little.
            self.moved(STEP_BYTES);
        }
        self.settle();
        self.wake_if(&self.awaits_answer);
    }

    /// Ends the connection. Later replies are discarded.
    pub(crate) fn close(self: &Arc<Self>) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.head = Vec::new();
        queue.tail = Vec::new();
        queue.head_sent = 0;
        drop(queue);
        self.closed.store(true, SeqCst);
        self.budget.leave(self);
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Appends to the queue the reply to a deferred request, without sending it. `write` encodes the reply.
    pub(super) fn put(&self, command: &Command, write: impl FnOnce(Replies, &mut Vec<u8>) -> bool) {
        let replies = *self.replies.get().unwrap_or(&Replies::Simple);
        let mut queue = self.queue();
        let failed = if queue.closed {
            false
        } else {
            let before = queue.tail.len();
            let failed = write(replies, &mut queue.tail);
            let more = queue.tail.len() - before;
            self.queued_bytes.fetch_add(more, SeqCst);
            failed
        };
        drop(queue);
        if failed {
            self.counters.errors.fetch_add(1, SeqCst);
        }
        self.pending_bytes.fetch_sub(counted_bytes(command), SeqCst);
        self.pending.fetch_sub(1, SeqCst);
        self.settle();
        self.wake_if(&self.awaits_answer);
    }

    /// Counts a request as deferred. The first one creates the waker.
    pub(super) fn take(&self, command: &Command) {
        if !self.used() {
            // Without a waker the connection's thread polls at intervals.
            if let Ok(waker) = Waker::new() {
                let _ = self.waker.set(waker);
            }
            self.used.store(true, SeqCst);
        }
        self.pending.fetch_add(1, SeqCst);
        self.pending_bytes.fetch_add(counted_bytes(command), SeqCst);
    }

    /// Sends the queue; with TLS, wakes the connection's thread to send it.
    pub(super) fn push(&self) {
        if self.direct {
            // The connection's thread handles a broken connection.
            let _ = self.send_queued(false);
        } else {
            self.wake_if(&self.asleep);
        }
    }
}

/// Memory that a request is counted as using until its reply is sent, bytes.
pub(crate) fn counted_bytes(command: &Command) -> usize {
    let payload = matches!(command.kind, Kind::Read | Kind::Write);
    REQUEST_OVERHEAD_BYTES + if payload { command.len_bytes as usize } else { 0 }
}
