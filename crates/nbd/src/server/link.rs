//! State shared by a connection's thread and the threads that answer its requests later. Such a thread, which may carry
//! out the I/O of a hundred connections, must never wait for a client or for a connection's thread. So it writes the
//! reply to the socket itself if the socket takes it, which saves a wake-up, and leaves the rest to the connection's
//! thread.
//!
//! At most one thread sends at a time. Others append to the queue and leave; the sender checks the queue again before
//! it leaves. No thread sends, wakes another or takes the budget's lock while it holds the queue's lock.
//!
//! **Memory.** Deferred requests and queued answers are bounded by the connection's limits, and over all connections by
//! the [`Budget`]: the thread reads no further request while any of them is exceeded. Sent bytes no longer count, so
//! the server must not keep memory for them: if a buffer of more than [`KEEP_BYTES`] remains after a send, the acceptor
//! [trims](Link::trim) the queue within [`TRIM_AFTER`](memory_budget::TRIM_AFTER). The sender does not trim itself,
//! since a client that reads much would then need new memory for each answer.

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

/// Bytes counted per request in addition to its payload.
const REQUEST_OVERHEAD_BYTES: usize = 128;
/// Size up to which a buffer of replies is not trimmed.
const KEEP_BYTES: usize = 256 << 10;

/// State shared by a connection's thread and the threads that answer its requests later.
pub(crate) struct Link {
    /// Number of the connection, unique in the server.
    pub(crate) id: u64,
    pub(crate) socket: OwnedFd,
    pub(crate) replies: OnceLock<Replies>,
    /// Any thread may send, since there is no TLS.
    direct: bool,
    queue: Mutex<Queue>,
    waker: OnceLock<Waker>,
    /// At least one request was deferred.
    used: AtomicBool,
    /// Unanswered requests, and the bytes counted for them.
    pending: AtomicUsize,
    pending_bytes: AtomicUsize,
    /// Bytes of answers that are not sent yet.
    queued_bytes: AtomicUsize,
    /// Number of sends from the queue.
    sends: AtomicUsize,
    /// The connection's thread waits, and must be woken when the queue changes.
    asleep: AtomicBool,
    /// The connection's thread waits for an answer to a request.
    awaits_answer: AtomicBool,
    pub(crate) counters: Arc<Counters>,
    pub(crate) budget: Arc<Budget>,
    /// The budget gave this connection a grant.
    granted: AtomicBool,
    /// Bytes held by the connection's thread itself: its unsent replies, and the payload that it receives. Only
    /// maintained with a grant, or while one is requested.
    own_bytes: AtomicUsize,
    /// The connection's thread carries out a request, so it does not wait for its client.
    submits: AtomicBool,
    /// Bytes moved into and out of the socket. Only maintained with a grant; the budget compares differences.
    moved_bytes: AtomicUsize,
    closed: AtomicBool,
}

/// Frees the unused memory of a large buffer.
pub(super) fn trim(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEEP_BYTES {
        buffer.shrink_to_fit();
    }
}

#[derive(Default)]
struct Queue {
    /// The buffer being sent, and its bytes sent.
    head: Vec<u8>,
    head_sent: usize,
    /// The buffer to be sent next.
    tail: Vec<u8>,
    /// A thread is sending `head`.
    sending: bool,
    /// When the last send began.
    sent_at: Option<Instant>,
    /// The socket was full: the connection's thread sends the rest.
    stuck: bool,
    /// The connection has ended.
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

    /// Memory of deferred requests and queued answers, bytes.
    #[inline]
    pub(crate) fn owed_bytes(&self) -> usize {
        self.pending_bytes.load(SeqCst) + self.queued_bytes.load(SeqCst)
    }

    /// Memory held by the connection's requests and replies, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.is_closed() {
            return self.pending_bytes.load(SeqCst);
        }
        self.owed_bytes() + self.own_bytes.load(SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// True if the budget gave a grant, and so has to be notified of changes.
    #[inline]
    pub(crate) fn granted(&self) -> bool {
        self.granted.load(SeqCst)
    }

    pub(crate) fn set_granted(&self, granted: bool) {
        self.granted.store(granted, SeqCst);
    }

    /// Sets the bytes that the connection's thread holds, including the request that it is about to read. Called before
    /// asking the budget.
    pub(crate) fn set_own_bytes(&self, bytes: usize) {
        self.own_bytes.store(bytes, SeqCst);
    }

    /// Reduces the bytes that the connection's thread holds, and returns the rest of its grant to the budget. No-op
    /// without a grant.
    #[inline]
    pub(crate) fn keep_own_bytes(&self, bytes: usize) {
        if self.granted() && bytes < self.own_bytes.swap(bytes, SeqCst) {
            // The client took or sent everything that this waited for.
            self.moved(STEP_BYTES);
            self.settle();
        }
    }

    /// Marks begin or end of a request that the connection's thread carries out. Only maintained with a grant.
    #[inline]
    pub(crate) fn set_submits(&self, submits: bool) {
        if submits && self.granted() || !submits && self.submits.load(SeqCst) {
            self.submits.store(submits, SeqCst);
        }
    }

    /// Counts bytes moved into or out of the socket.
    #[inline]
    pub(crate) fn moved(&self, bytes: usize) {
        if self.granted() {
            self.moved_bytes.fetch_add(bytes, SeqCst);
        }
    }

    /// Moved bytes, without those still in the socket: a Unix socket takes more only when its client has taken most of
    /// its content, so a slow client would look like a stalled one. Can be negative.
    pub(crate) fn moved_bytes(&self) -> isize {
        let untaken = syscalls::untaken_bytes(self.socket.as_fd()).unwrap_or(0);
        self.moved_bytes.load(SeqCst).wrapping_sub(untaken) as isize
    }

    /// True if the connection waits for its client to take or send something. `own`: the connection's own thread waits
    /// for nothing else.
    pub(crate) fn waits_for_client(&self, own: bool) -> bool {
        !self.is_closed()
            && !self.submits.load(SeqCst)
            && (self.queued_bytes.load(SeqCst) > 0 || own && self.own_bytes.load(SeqCst) > 0)
    }

    /// Reports to the budget that memory was released.
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

    /// The waker; `None` before the first deferred request.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// True once any request was deferred. Until then nothing here has to be checked.
    #[inline]
    pub(crate) fn used(&self) -> bool {
        self.used.load(SeqCst)
    }

    pub(crate) fn sends(&self) -> usize {
        self.sends.load(SeqCst)
    }

    /// Start of the last send.
    pub(crate) fn last_send(&self) -> Option<Instant> {
        self.queue().sent_at
    }

    /// True if a request is unanswered, or an answer unsent.
    pub(crate) fn owes(&self) -> bool {
        self.pending.load(SeqCst) > 0 || self.queued_bytes.load(SeqCst) > 0
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(SeqCst)
    }

    /// True if no further request may be read now.
    #[inline]
    pub(crate) fn crowded(&self, requests_max: usize, bytes_max: usize) -> bool {
        self.used()
            && (self.pending.load(SeqCst) >= requests_max
                || self.pending_bytes.load(SeqCst) + self.queued_bytes.load(SeqCst) >= bytes_max)
    }

    /// True if the connection's thread has something to send.
    pub(crate) fn has_queued(&self) -> bool {
        if !self.used() {
            return false;
        }
        let queue = self.queue();
        !queue.sending && (queue.head_sent < queue.head.len() || !queue.tail.is_empty())
    }

    /// Announces that the connection's thread is about to wait; `awaits_answer` if for an answer to a request. True if
    /// it need not wait, since there is something to send.
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

    /// Sends the queue as far as the socket takes it. Of all threads that call it, one sends. `Err` if the connection
    /// is broken.
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

    /// Frees the memory of sent replies. Skips a head that is being sent; its sender requests a trim again.
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

    /// Begins a send of the connection's own replies. False while other replies are queued or being sent; the
    /// connection must then queue its own, or wait.
    pub(crate) fn begin_own(&self) -> bool {
        if !self.used() {
            return true;
        }
        let mut queue = self.queue();
        let free = !queue.sending && queue.head_sent == queue.head.len() && queue.tail.is_empty();
        queue.sending |= free;
        free
    }

    /// Ends a send of the connection's own replies.
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

    /// Takes the whole queue for the connection's thread to send; only with TLS. The thread then calls [`Self::sent`].
    pub(crate) fn take_queued(&self, into: &mut Vec<u8>) {
        debug_assert!(into.is_empty());
        let mut queue = self.queue();
        std::mem::swap(&mut queue.tail, into);
    }

    /// Counts sent bytes that were taken from the queue.
    pub(crate) fn sent(&self, bytes: usize) {
        let all = self.queued_bytes.fetch_sub(bytes, SeqCst) == bytes;
        if all {
            // A client that took everything is not slow, even if that was little.
            self.moved(STEP_BYTES);
        }
        self.settle();
        self.wake_if(&self.awaits_answer);
    }

    /// Ends the connection: later answers are discarded.
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

    /// Appends an answer to the queue without sending it.
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

    /// Counts a deferred request.
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

    /// Sends the queue, or has the connection's thread send it.
    pub(super) fn push(&self) {
        if self.direct {
            // The connection's thread handles a broken connection.
            let _ = self.send_queued(false);
        } else {
            self.wake_if(&self.asleep);
        }
    }
}

/// Memory that a request takes until its answer is sent, bytes.
pub(crate) fn counted_bytes(command: &Command) -> usize {
    let payload = matches!(command.kind, Kind::Read | Kind::Write);
    REQUEST_OVERHEAD_BYTES + if payload { command.len_bytes as usize } else { 0 }
}
