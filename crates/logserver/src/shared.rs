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

/// Maximum number of entries in a connection's list of due acknowledgements; further ones are merged with the last.
const ACKS_MAX: usize = 1024;

/// Buffer for a chunk, suitable for the log's storage.
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

/// A request, queued for the connection's sending thread.
#[derive(Debug)]
pub(crate) enum Task {
    /// Send this frame.
    Frame(Vec<u8>),
    /// Send a stream of messages.
    Read(Start, End, Selection),
    /// Send the current values.
    Query(Selection),
    /// Send the server's state.
    Status,
}

/// How a connection is to end.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The client sends no more requests; replies that are still due are sent.
    NoMoreRequests,
    /// The server sends this error once all appended messages are persisted.
    Error(ServerError),
    /// The client is gone.
    Gone,
}

/// State of a connection that other threads access.
pub(crate) struct Inbox {
    pub(crate) stream: Arc<Stream>,
    /// Whether the stream is a Unix socket.
    pub(crate) is_local: bool,
    /// Wakes the connection's sending thread.
    pub(crate) wake: Arc<Condvar>,
    pub(crate) tasks: VecDeque<Task>,
    /// Total length of the topics and filters of `tasks`, bytes.
    pub(crate) task_bytes: usize,
    /// Number and sequence of each appended message that must be acknowledged once it is persisted.
    pub(crate) acks: VecDeque<(u64, u64)>,
    /// Whether the connection's writer waits for messages to be persisted.
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

    /// Takes the next task from the queue.
    pub(crate) fn take_task(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front();
        if let Some(Task::Read(_, _, selection) | Task::Query(selection)) = &task {
            self.task_bytes -= selection.bytes();
        }
        task
    }

    /// Whether no more requests of the client are accepted.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.ending, Some(Ending::Gone | Ending::Error(_)))
    }

    /// Queues an acknowledgement of a message and all before it, due once they are persisted.
    pub(crate) fn acknowledge(&mut self, number: u64, sequence: u64) {
        if self.acks.len() >= ACKS_MAX
            && let Some(last) = self.acks.back_mut()
        {
            *last = (number.max(last.0), sequence.max(last.1));
            return;
        }
        self.acks.push_back((number, sequence));
    }

    /// Takes the acknowledgements of messages with numbers below `persisted`, and returns their highest sequence.
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

/// State of the server that the lock guards.
pub(crate) struct Shared {
    pub(crate) log: Log<ChunkBuffer>,
    /// The latest persisted chunks by position, for subscribers that are nearly up to date.
    pub(crate) recent: VecDeque<(u64, Arc<ChunkBuffer>)>,
    pub(crate) publishers: Publishers,
    pub(crate) connections: BTreeMap<u64, Inbox>,
    /// Time of the latest message, ns since 1970.
    pub(crate) time_ns: u64,
    /// Reason why nothing more can be persisted; None if there was no failure.
    pub(crate) failure: Option<String>,
    /// Whether the server accepts no more connections.
    pub(crate) is_stopping: bool,
    /// Whether the committer must end once no chunk waits.
    pub(crate) is_ending: bool,
}

/// Everything that the threads of a server share.
pub(crate) struct Core {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    pub(crate) durability: iodyno_msglog::Durability,
    /// Damaged ranges of the log; streams skip them.
    pub(crate) damages: Vec<Damage>,
    shared: Mutex<Shared>,
    /// Memory that clients share beyond each connection's own allowance.
    pub(crate) memory: Memory,
    /// Limits the number of costly scans at a time.
    pub(crate) gate: Gate,
    pub(crate) handshakes: Arc<Handshakes>,
    /// Copy of [`iodyno_msglog::State::superseded_bytes`], readable without the lock.
    pub(crate) superseded_bytes: AtomicU64,
    /// Counts the streams with read-ahead, by references to it.
    pub(crate) readers: Arc<()>,
    /// Wakes the committer.
    pub(crate) work: Condvar,
    /// Wakes connections that wait to append.
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

/// Waits until `at` is signalled, at most `time`. True if the wait timed out.
pub(crate) fn wait_for<'a>(
    at: &Condvar,
    shared: MutexGuard<'a, Shared>,
    time: Duration,
) -> (MutexGuard<'a, Shared>, bool) {
    let waited = at.wait_timeout(shared, time).unwrap_or_else(PoisonError::into_inner);
    (waited.0, waited.1.timed_out())
}

/// Waits until `at` is signalled.
pub(crate) fn wait<'a>(at: &Condvar, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
    at.wait(shared).unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Returns the time for a message that arrives now, ns since 1970. Times in the log never decrease.
    pub(crate) fn now_ns(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos() as u64);
        self.time_ns = self.time_ns.max(now);
        self.time_ns
    }

    /// Makes newly durable chunks available to subscribers, and keeps the latest in memory. False if there are none.
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

    /// Returns the persisted chunk at a position, if it is still in memory.
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

    /// Marks the log as failed: nothing more can be persisted.
    pub(crate) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        for inbox in self.connections.values() {
            inbox.wake.notify_all();
        }
    }
}
