//! What the threads of a server share: the log, and for each connection what it waits for. One lock guards all of it, and no
//! thread does I/O while it holds it.

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

/// Entries of a connection's list of messages to be acknowledged. Beyond it, its last entries are merged.
const ACKS_MAX: usize = 1024;

/// A chunk's memory.
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

/// What a client requested of its connection's writer.
#[derive(Debug)]
pub(crate) enum Task {
    /// Send this frame.
    Frame(Vec<u8>),
    /// Stream messages.
    Read(Start, End, Selection),
    /// Send the current values.
    Query(Selection),
    /// Send the server's state.
    Status,
}

/// How a connection ends.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The client sends no more: what it waits for is sent.
    NoMoreRequests,
    /// When what was appended is persisted, this is sent.
    Error(ServerError),
    /// The client is gone.
    Gone,
}

/// A connection, as other threads see it.
pub(crate) struct Inbox {
    pub(crate) stream: Arc<Stream>,
    /// Of a Unix socket.
    pub(crate) is_local: bool,
    /// Its writer waits here.
    pub(crate) wake: Arc<Condvar>,
    pub(crate) tasks: VecDeque<Task>,
    /// Bytes of the texts of tasks.
    pub(crate) task_bytes: usize,
    /// Numbers of appended messages, with their sequences: each is acknowledged when it is persisted.
    pub(crate) acks: VecDeque<(u64, u64)>,
    /// Its writer waits for messages to be persisted.
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

    /// The next task, which is taken.
    pub(crate) fn take_task(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front();
        if let Some(Task::Read(_, _, selection) | Task::Query(selection)) = &task {
            self.task_bytes -= selection.bytes();
        }
        task
    }

    /// Nothing more is taken of the client.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.ending, Some(Ending::Gone | Ending::Error(_)))
    }

    /// The client is to know when this message is persisted, and with it all before.
    pub(crate) fn acknowledge(&mut self, number: u64, sequence: u64) {
        if self.acks.len() >= ACKS_MAX
            && let Some(last) = self.acks.back_mut()
        {
            *last = (number.max(last.0), sequence.max(last.1));
            return;
        }
        self.acks.push_back((number, sequence));
    }

    /// Takes the highest sequence of the messages that are persisted.
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

    /// The first ending counts, but one that is gone takes nothing more.
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

/// What is behind the lock.
pub(crate) struct Shared {
    pub(crate) log: Log<ChunkBuffer>,
    /// The latest persisted chunks, for subscribers that are close behind.
    pub(crate) recent: VecDeque<(u64, Arc<ChunkBuffer>)>,
    pub(crate) publishers: Publishers,
    pub(crate) connections: BTreeMap<u64, Inbox>,
    /// Time of the latest message, ns since 1970.
    pub(crate) time_ns: u64,
    /// Why nothing more is persisted.
    pub(crate) failure: Option<String>,
    /// No more connections are taken.
    pub(crate) is_stopping: bool,
    /// The committer ends when nothing waits.
    pub(crate) is_ending: bool,
}

/// See the file.
pub(crate) struct Core {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    pub(crate) durability: iodyno_msglog::Durability,
    /// Places that were found damaged, and are skipped.
    pub(crate) damages: Vec<Damage>,
    shared: Mutex<Shared>,
    /// What clients hold beyond what each has of its own.
    pub(crate) memory: Memory,
    /// Where costly scans pass.
    pub(crate) gate: Gate,
    pub(crate) handshakes: Arc<Handshakes>,
    /// [`iodyno_msglog::State::superseded_bytes`].
    pub(crate) superseded_bytes: AtomicU64,
    /// Counts the streams that read the target ahead.
    pub(crate) readers: Arc<()>,
    /// The committer waits here.
    pub(crate) work: Condvar,
    /// Connections that can't append now wait here.
    pub(crate) space: Condvar,
    /// A connection has ended.
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

/// Waits at a condition, for a time.
pub(crate) fn wait_for<'a>(
    at: &Condvar,
    shared: MutexGuard<'a, Shared>,
    time: Duration,
) -> (MutexGuard<'a, Shared>, bool) {
    let waited = at.wait_timeout(shared, time).unwrap_or_else(PoisonError::into_inner);
    (waited.0, waited.1.timed_out())
}

/// Waits at a condition.
pub(crate) fn wait<'a>(at: &Condvar, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
    at.wait(shared).unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The time of a message that arrives now: times in the log never fall.
    pub(crate) fn now_ns(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos() as u64);
        self.time_ns = self.time_ns.max(now);
        self.time_ns
    }

    /// Passes on what has become durable, and keeps the latest of it.
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

    /// A persisted chunk that is still in memory.
    pub(crate) fn recent(&self, position: u64) -> Option<Arc<ChunkBuffer>> {
        let at = self.recent.binary_search_by_key(&position, |(at, _)| *at).ok()?;
        Some(Arc::clone(&self.recent[at].1))
    }

    /// Wakes the writers that wait for messages to be persisted.
    pub(crate) fn wake_followers(&self) {
        for inbox in self.connections.values().filter(|inbox| inbox.follows) {
            inbox.wake.notify_all();
        }
    }

    /// Nothing more can be persisted.
    pub(crate) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        for inbox in self.connections.values() {
            inbox.wake.notify_all();
        }
    }
}
