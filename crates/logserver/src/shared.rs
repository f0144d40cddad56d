//! State shared by the threads of a server: the log, and each connection's queue. One lock guards it, and no thread
//! does I/O while it holds the lock.

use crate::gate::Gate;
use crate::handshakes::Handshakes;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::publishers::Publishers;
use crate::wanted::Selection;
use iodyno_msglog::protocol::{End, ServerError, Start};
use iodyno_msglog::storage::Buffer;
use iodyno_msglog::{Damage, Layout, Log, Persisted, Storage};
use iodyno_nbd::stream::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of entries in a connection's queue of acknowledgements; beyond it, new ones are merged into
/// the last.
const ACKS_MAX: usize = 1024;

/// Buffer for one chunk, suitable for I/O on the log's storage.
pub(crate) struct ChunkBuffer(pub(crate) Box<dyn Buffer>);

impl AsRef<[u8]> for ChunkBuffer {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl AsMut<[u8]> for ChunkBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        (*self.0).as_mut()
    }
}

/// A client's request or a finished reply, queued for the connection's sending thread.
#[derive(Debug)]
pub(crate) enum Task {
    /// Send an encoded reply.
    Frame(Vec<u8>),
    /// Send a stream of the selected messages.
    Read(Start, End, Selection),
    /// Send a snapshot of the selected current values.
    Query(Selection),
    /// Send the server's status.
    Status,
}

/// Way in which a connection is about to end.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The client sends no more requests. Outstanding replies are still sent.
    NoMoreRequests,
    /// The server sends this error after all appended messages are persisted, then closes the connection.
    Error(ServerError),
    /// The client has disconnected. Nothing more is sent.
    Gone,
}

/// State of a connection that is shared between threads.
pub(crate) struct Inbox {
    pub(crate) stream: Arc<Stream>,
    /// Whether the connection uses a Unix socket.
    pub(crate) is_local: bool,
    /// Signalled to wake the connection's sending thread.
    pub(crate) wake: Arc<Condvar>,
    pub(crate) tasks: VecDeque<Task>,
    /// Total length of the topics and filters in the queued `tasks`, bytes.
    pub(crate) task_bytes: usize,
    /// Messages to acknowledge once they are persisted: number in the log, and sequence number.
    pub(crate) acks: VecDeque<(u64, u64)>,
    /// Whether the connection's sending thread must be woken when messages become persisted.
    pub(crate) follows: bool,
    pub(crate) ending: Option<Ending>,
}

impl Inbox {
    pub(crate) fn new(stream: Arc<Stream>, is_local: bool) -> Self {
        Self {
            stream,
            is_local,
            wake: Arc::default(),
            tasks: VecDeque::new(),
            task_bytes: 0,
            acks: VecDeque::new(),
            follows: false,
            ending: None,
        }
    }

    /// Removes and returns the next queued task.
    pub(crate) fn take_task(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front();
        if let Some(Task::Read(_, _, selection) | Task::Query(selection)) = &task {
            self.task_bytes -= selection.bytes();
        }
        task
    }

    /// Whether the connection is being closed, so that no more requests are accepted.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.ending, Some(Ending::Gone | Ending::Error(_)))
    }

    /// Queues an acknowledgement of a message and all earlier ones, to be sent once they are persisted.
    pub(crate) fn acknowledge(&mut self, number: u64, sequence: u64) {
        if self.acks.len() >= ACKS_MAX
            && let Some(last) = self.acks.back_mut()
        {
            *last = (number.max(last.0), sequence.max(last.1));
            return;
        }
        self.acks.push_back((number, sequence));
    }

    /// Removes the acknowledgements of messages below number `persisted`, and returns the highest sequence number
    /// of them.
    pub(crate) fn take_acknowledged(&mut self, persisted: u64) -> Option<u64> {
        let mut sequence = None;
        while let Some(&(number, last)) =
            self.acks.front().filter(|(number, _)| *number < persisted)
        {
            debug_assert!(number < persisted);
            sequence = sequence.max(Some(last));
            self.acks.pop_front();
        }
        sequence
    }

    /// Sets how the connection ends. [`Ending::Gone`] replaces any earlier ending, and an error replaces
    /// [`Ending::NoMoreRequests`].
    pub(crate) fn end(&mut self, ending: Ending) {
        let replaces = matches!(
            (&self.ending, &ending),
            (None, _) | (_, Ending::Gone) | (Some(Ending::NoMoreRequests), Ending::Error(_))
        );
        if replaces {
            self.ending = Some(ending);
        }
        self.wake.notify_all();
    }
}

/// Server state that the central lock protects.
pub(crate) struct Shared {
    pub(crate) log: Log<ChunkBuffer>,
    /// Cache of the latest persisted chunks with their positions, for subscribers that are almost up to date.
    pub(crate) recent: VecDeque<(u64, Arc<ChunkBuffer>)>,
    pub(crate) publishers: Publishers,
    pub(crate) connections: BTreeMap<u64, Inbox>,
    /// Publication time of the latest message, ns since 1970.
    pub(crate) time_ns: u64,
    /// Reason why nothing more can be persisted; `None` while the log works.
    pub(crate) failure: Option<String>,
    /// Whether the server is stopping and accepts no more connections.
    pub(crate) is_stopping: bool,
    /// Whether the committing thread must end once no chunk is left to write.
    pub(crate) is_ending: bool,
}

/// State that all threads of a server share.
pub(crate) struct Core {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    pub(crate) durability: iodyno_msglog::Durability,
    /// Damaged ranges of the log, which streams skip.
    pub(crate) damages: Vec<Damage>,
    shared: Mutex<Shared>,
    /// Accounting of the memory that clients share, beyond a small fixed amount per connection.
    pub(crate) memory: Memory,
    /// Limits the number of concurrent costly scans.
    pub(crate) gate: Gate,
    pub(crate) handshakes: Arc<Handshakes>,
    /// Copy of [`iodyno_msglog::State::superseded_bytes`], readable without the lock.
    pub(crate) superseded_bytes: AtomicU64,
    /// Counter of the streams with read-ahead: each has a reference to it.
    pub(crate) readers: Arc<()>,
    /// Signalled to wake the committing thread.
    pub(crate) work: Condvar,
    /// Signalled when space in the log becomes free; connections that want to append wait on it.
    pub(crate) space: Condvar,
    /// Signalled when a connection has ended.
    pub(crate) departure: Condvar,
}

impl Core {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        limits: Limits,
        damages: Vec<Damage>,
        durability: iodyno_msglog::Durability,
        shared: Shared,
    ) -> Self {
        Self {
            storage,
            layout: *shared.log.layout(),
            limits,
            durability,
            damages,
            superseded_bytes: AtomicU64::new(shared.log.state().superseded_bytes()),
            shared: Mutex::new(shared),
            memory: Memory::new(limits.memory_bytes),
            gate: Gate::new(),
            handshakes: Arc::new(Handshakes::new(limits.handshakes)),
            readers: Arc::default(),
            work: Condvar::new(),
            space: Condvar::new(),
            departure: Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the condition variable `at` is signalled, for at most `time`. Returns true on timeout.
pub(crate) fn wait_for<'a>(
    at: &Condvar,
    shared: MutexGuard<'a, Shared>,
    time: Duration,
) -> (MutexGuard<'a, Shared>, bool) {
    let waited = at.wait_timeout(shared, time).unwrap_or_else(PoisonError::into_inner);
    (waited.0, waited.1.timed_out())
}

/// Waits until the condition variable `at` is signalled.
pub(crate) fn wait<'a>(at: &Condvar, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
    at.wait(shared).unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Returns the publication time for a message that arrives now, ns since 1970. Times in the log never
    /// decrease.
    pub(crate) fn now_ns(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos() as u64);
        self.time_ns = self.time_ns.max(now);
        self.time_ns
    }

    /// Publishes newly durable chunks to subscribers, and caches the latest in memory. Returns false if there are
    /// none.
    pub(crate) fn take_persisted(&mut self, core: &Core) -> bool {
        let chunks_max = core.limits.recent_chunks(&core.layout);
        let mut is_any = false;
        while let Some(Persisted { header, buffer }) = self.log.next_persisted() {
            self.recent.push_back((header.position, buffer));
            while self.recent.len() > chunks_max {
                if let Some((_, buffer)) = self.recent.pop_front() {
                    self.log.recycle(buffer);
                }
            }
            is_any = true;
        }
        core.superseded_bytes.store(self.log.state().superseded_bytes(), Ordering::Relaxed);
        is_any
    }

    /// Returns the persisted chunk at a position of the log if it is cached in memory.
    pub(crate) fn recent(&self, position: u64) -> Option<Arc<ChunkBuffer>> {
        let at = self.recent.binary_search_by_key(&position, |(at, _)| *at).ok()?;
        Some(Arc::clone(&self.recent[at].1))
    }

    /// Wakes the sending threads that wait for messages to be persisted.
    pub(crate) fn wake_followers(&self) {
        for inbox in self.connections.values().filter(|inbox| inbox.follows) {
            inbox.wake.notify_all();
        }
    }

    /// Marks the log as failed, so that nothing more is persisted.
    pub(crate) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        for inbox in self.connections.values() {
            inbox.wake.notify_all();
        }
    }
}
