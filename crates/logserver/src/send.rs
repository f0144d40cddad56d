//! The sending side of a connection: one thread sends acknowledgements, streams and snapshots, and is the only one
//! that waits for the client to read. Requests are received in `receive.rs`.

use crate::memory::Charge;
use crate::shared::{Core, Ending, Inbox, Shared, Task, wait, wait_for};
use crate::slice::{Allowance, Slice};
use crate::snapshot::Snapshot;
use crate::stream::{Cursor, Progress};
use crate::wanted::{Order, Selection, Wanted};
use iodyno_msglog::Storage;
use iodyno_msglog::protocol::{ErrorCode, Reply, ServerError};
use iodyno_nbd::stream::Stream;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which the sending thread checks limits while a client does not read.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Maximum size of a send buffer that is kept while the connection is idle, bytes.
const KEPT_BYTES: usize = 4 << 10;
/// Maximum time that a request waits for memory for its filter before it is refused.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of a filter that is parsed immediately, bytes. Parsing a longer one is limited like a
/// costly scan.
const SHORT_FILTER_BYTES: usize = 4 << 10;

/// The stream or snapshot that a connection is currently sending.
enum Work<'a> {
    Cursor(Box<Cursor<'a>>),
    Snapshot(Box<Snapshot>),
}

impl Work<'_> {
    fn is_subscription(&self) -> bool {
        matches!(self, Self::Cursor(cursor) if !cursor.is_bounded())
    }
}

/// Sends replies to the client until the connection ends.
pub(crate) fn run(core: &Core, id: u64, stream: &Stream) {
    let storage = Arc::clone(&core.storage);
    let mut sender = Sender {
        core,
        id,
        stream,
        storage: &storage,
        out: Vec::new(),
        work: None,
        error: None,
        allowance: Allowance::new(),
    };
    sender.run();
    let has_error = sender.error.is_some();
    drop(sender);
    stream.end_sending();
    if has_error {
        stream.linger(core.limits.linger);
    }
}

struct Sender<'a> {
    core: &'a Core,
    id: u64,
    stream: &'a Stream,
    storage: &'a Arc<dyn Storage>,
    out: Vec<u8>,
    work: Option<Work<'a>>,
    /// Error to send before the connection is closed.
    error: Option<ServerError>,
    allowance: Allowance,
}

/// Result of encoding pending replies, apart from the messages of a stream or the values of a snapshot.
enum Owed {
    /// The replies are in the send buffer. The value is the next request to start, if any.
    Some(Option<Task>),
    /// The client has disconnected.
    Gone,
}

/// Reason why the sending thread woke up.
enum Woken {
    ToSend,
    /// The wait timed out.
    Idle,
    /// The connection has ended, with nothing left to send.
    Over,
}

impl Sender<'_> {
    fn run(&mut self) {
        loop {
            self.out.clear();
            let Owed::Some(task) = self.owed() else { return };
            if let Some(task) = task
                && self.error.is_none()
                && let Err(error) = self.begin(task)
            {
                self.error = Some(error);
            }
            let mut is_waiting = true;
            if self.error.is_none() {
                match self.advance() {
                    Ok(waits) => is_waiting = waits,
                    Err(error) => self.error = Some(error),
                }
            }
            if let Some(error) = &self.error {
                error.as_reply().encode(&mut self.out);
            }
            if self.send().is_err() || self.error.is_some() {
                return;
            }
            if !self.out.is_empty() {
                continue;
            }
            if !is_waiting {
                // A scan that found nothing to send would not notice a closed socket.
                if self.stream.is_gone() {
                    return;
                }
                continue;
            }
            match self.wait(self.out.capacity() > KEPT_BYTES) {
                Woken::ToSend => {}
                Woken::Idle => self.out = Vec::new(),
                Woken::Over => return,
            }
        }
    }

    /// Encodes pending replies, and takes the next queued request if the previous stream or snapshot is complete.
    fn owed(&mut self) -> Owed {
        let Self { core, id, out, work, error, .. } = self;
        let mut guard = core.lock();
        let shared = &mut *guard;
        let persisted = shared.log.persisted();
        let is_broken = shared.log.is_broken() || shared.failure.is_some();
        let Some(inbox) = shared.connections.get_mut(id) else { return Owed::Gone };
        if let Some(sequence) = inbox.take_acknowledged(persisted) {
            Reply::Persisted { sequence }.encode(out);
        }
        while let Some(Task::Frame(_)) = inbox.tasks.front()
            && let Some(Task::Frame(frame)) = inbox.tasks.pop_front()
        {
            out.extend_from_slice(&frame);
        }
        match &inbox.ending {
            Some(Ending::Gone) => return Owed::Gone,
            Some(Ending::Error(_)) if !inbox.acks.is_empty() && !is_broken => {
                return Owed::Some(None);
            }
            Some(Ending::Error(found)) => {
                *error = Some(found.clone());
                return Owed::Some(None);
            }
            _ if !inbox.acks.is_empty() && is_broken => {
                let why = shared.failure.clone().unwrap_or_default();
                let words = format!("no more messages can be persisted: {why}");
                *error = Some(ServerError::new(ErrorCode::Broken, 0, words));
                return Owed::Some(None);
            }
            Some(Ending::NoMoreRequests) if work.as_ref().is_some_and(Work::is_subscription) => {
                *work = None;
            }
            _ => {}
        }
        let is_request = matches!(inbox.tasks.front(), Some(Task::Read(..) | Task::Query(_)));
        if is_request && work.as_ref().is_some_and(Work::is_subscription) {
            let words = "this connection already has a subscription: use another connection";
            *error = Some(ServerError::new(ErrorCode::Busy, 0, words));
            return Owed::Some(None);
        }
        if matches!(inbox.tasks.front(), Some(Task::Status)) {
            inbox.take_task();
            let json = status(core, shared);
            Reply::Status { json: &json }.encode(out);
            return Owed::Some(None);
        }
        Owed::Some(if work.is_none() { inbox.take_task() } else { None })
    }

    /// Starts the stream or the snapshot that a client has requested.
    fn begin(&mut self, task: Task) -> Result<(), ServerError> {
        match task {
            Task::Read(start, end, selection) => {
                let wanted = self.parse(selection)?;
                let order = Order { start, end, wanted };
                let cursor = Cursor::open(self.storage, &self.core.lock(), order)?;
                Reply::Stream { first: cursor.next() }.encode(&mut self.out);
                self.work = Some(Work::Cursor(Box::new(cursor)));
            }
            Task::Query(selection) => {
                let wanted = self.parse(selection)?;
                let snapshot = Snapshot::take(self.core, &self.core.lock(), wanted)?;
                Reply::Snapshot { next: snapshot.next }.encode(&mut self.out);
                self.work = Some(Work::Snapshot(Box::new(snapshot)));
            }
            Task::Status | Task::Frame(_) => {}
        }
        Ok(())
    }

    /// Parses a request's filter, after waiting for the memory and the permission that it may need.
    fn parse(&self, selection: Selection) -> Result<Wanted, ServerError> {
        let (core, stream, id) = (self.core, self.stream, self.id);
        let goes_on = || {
            let is_over = |it: &Inbox| it.is_over();
            !stream.is_gone() && !core.lock().connections.get(&id).is_none_or(is_over)
        };
        let part = &core.memory.requests;
        let bytes = selection.parsed_bytes();
        let deadline = Instant::now() + MEMORY_PATIENCE;
        let charge = match bytes {
            0 => Some(Charge::none(part)),
            bytes => part.take_until(bytes, deadline, goes_on),
        };
        let charge = charge.ok_or_else(|| {
            let words = "other clients use up the server's memory for filters: use a shorter filter, or try again later";
            ServerError::new(ErrorCode::Memory, 0, words)
        })?;
        let mut pass = None;
        while selection.bytes() > SHORT_FILTER_BYTES && pass.is_none() && goes_on() {
            pass = core.gate.pass(LOOK_EVERY);
        }
        selection.parse(charge)
    }

    /// Encodes more of the current stream or snapshot. Returns true if nothing more is available to send for now.
    fn advance(&mut self) -> Result<bool, ServerError> {
        let Self { core, id, out, work, allowance, .. } = self;
        let mut slice = Slice::new(&core.gate, allowance);
        match work {
            None => Ok(true),
            Some(Work::Cursor(cursor)) => {
                out.reserve(core.layout.chunk_bytes as usize);
                match cursor.advance(core, out, &mut slice)? {
                    Progress::More => return Ok(false),
                    Progress::UpToDate if !waits_for_nothing(core, *id) => return Ok(true),
                    // A client that has ended its requests gets no further messages: it may be gone.
                    Progress::UpToDate | Progress::Ended => {}
                }
                Reply::StreamEnd { next: cursor.next() }.encode(out);
                *work = None;
                Ok(false)
            }
            Some(Work::Snapshot(snapshot)) => {
                if !snapshot.advance(core, out, &mut slice)? {
                    Reply::SnapshotEnd { count: snapshot.count }.encode(out);
                    *work = None;
                }
                Ok(false)
            }
        }
    }

    /// Sends the buffer. If the client does not read for a while, its stream or snapshot may have to release its
    /// memory.
    fn send(&mut self) -> std::io::Result<()> {
        let Self { core, stream, out, work, error, .. } = self;
        let limits = &core.limits;
        if error.is_some() {
            return stream.send(out, Some(Instant::now() + limits.handshake));
        }
        let mut given_up = None;
        stream.send_while(out, LOOK_EVERY.min(limits.stall), &mut |stalled| {
            let is_short = stalled >= limits.short_stall;
            match work {
                Some(Work::Cursor(cursor)) if is_short => cursor.rest(),
                Some(Work::Snapshot(snapshot)) => {
                    let is_wanted = is_short && core.memory.snapshots.is_wanted();
                    let no_memory = is_wanted.then(crate::snapshot::no_memory);
                    if let Some(found) = no_memory.or_else(|| snapshot.charge(core).err()) {
                        given_up = Some(found);
                        *work = None;
                    }
                }
                _ => {}
            }
            if is_short
                && core.memory.requests.is_wanted()
                && let Some(found) = drop_requests(core, self.id)
            {
                given_up = Some(found);
                *work = None;
            }
            stalled < limits.stall
        })?;
        *error = given_up;
        match &*error {
            None => Ok(()),
            // A client that reads again gets the error.
            Some(found) => {
                out.clear();
                found.as_reply().encode(out);
                stream.send(out, Some(Instant::now() + limits.handshake))
            }
        }
    }

    /// Waits until there is something to send. If `looks` is true, also returns after a timeout.
    fn wait(&self, looks: bool) -> Woken {
        let (core, work) = (self.core, self.work.as_ref());
        let mut guard = core.lock();
        loop {
            let shared = &mut *guard;
            let (persisted, durable) = (shared.log.persisted(), shared.log.durable_position());
            let is_broken = shared.log.is_broken() || shared.failure.is_some();
            let Some(inbox) = shared.connections.get_mut(&self.id) else { return Woken::Over };
            let follows_stream = match work {
                Some(Work::Cursor(cursor)) if cursor.position() < durable => return Woken::ToSend,
                Some(Work::Cursor(_)) => inbox.ending.is_none(),
                _ => false,
            };
            let has_due = inbox.acks.front().is_some_and(|(number, _)| *number < persisted);
            let has_failed = is_broken && !inbox.acks.is_empty();
            if has_due || has_failed {
                return Woken::ToSend;
            }
            let has_task = match inbox.tasks.front() {
                None => false,
                Some(Task::Frame(_) | Task::Status) => true,
                Some(Task::Read(..) | Task::Query(_)) => work.is_none_or(Work::is_subscription),
            };
            if has_task && !matches!(inbox.ending, Some(Ending::Error(_))) {
                return Woken::ToSend;
            }
            match &inbox.ending {
                Some(Ending::Gone) => return Woken::Over,
                Some(Ending::Error(_)) if inbox.acks.is_empty() => return Woken::ToSend,
                // The stream or snapshot ends here.
                Some(Ending::NoMoreRequests) if inbox.acks.is_empty() && work.is_some() => {
                    return Woken::ToSend;
                }
                Some(Ending::NoMoreRequests) if inbox.acks.is_empty() => return Woken::Over,
                _ => {}
            }
            inbox.follows = !inbox.acks.is_empty() || follows_stream;
            let wake = Arc::clone(&inbox.wake);
            let mut is_idle = false;
            if looks {
                (guard, is_idle) = wait_for(&wake, guard, core.limits.short_stall);
            } else {
                guard = wait(&wake, guard);
            }
            if let Some(inbox) = guard.connections.get_mut(&self.id) {
                inbox.follows = false;
            }
            if is_idle {
                return Woken::Idle;
            }
        }
    }
}

/// Whether the client sends no more requests, and all its messages have been acknowledged.
fn waits_for_nothing(core: &Core, id: u64) -> bool {
    let shared = core.lock();
    shared.connections.get(&id).is_none_or(|inbox| {
        matches!(inbox.ending, Some(Ending::NoMoreRequests)) && inbox.acks.is_empty()
    })
}

/// If the client's queued requests occupy memory of the shared pool: drops them, accepts no more, and returns the error
/// that ends the connection. Otherwise returns `None`.
fn drop_requests(core: &Core, id: u64) -> Option<ServerError> {
    let mut shared = core.lock();
    let inbox = shared.connections.get_mut(&id)?;
    if inbox.task_bytes <= crate::wanted::FREE_BYTES {
        return None;
    }
    while inbox.take_task().is_some() {}
    let words = "the server's memory for requests is used up: read the answers first";
    let error = ServerError::new(ErrorCode::Memory, 0, words);
    inbox.end(Ending::Error(error.clone()));
    Some(error)
}

/// Formats the server's status as JSON.
fn status(core: &Core, shared: &Shared) -> String {
    let log = &shared.log;
    json!({
        "log": format!("{:016x}", core.layout.log_id),
        "durability": core.durability.name(),
        "next_message": log.next_message(),
        "persisted_next_message": log.persisted(),
        "position_bytes": log.durable_position(),
        "oldest_position_bytes": log.oldest_position(),
        "capacity_bytes": core.layout.slots() * core.layout.segment_bytes,
        "segment_bytes": core.layout.segment_bytes,
        "chunk_bytes": core.layout.chunk_bytes,
        "chunks_waiting": log.chunks_waiting(),
        "values": log.state().len(),
        "value_bytes": log.state().value_bytes(),
        "publishers": shared.publishers.len(),
        "connections": shared.connections.len(),
        "handshakes": core.handshakes.len(),
        "memory_bytes": core.limits.memory_bytes,
        "memory_used_bytes": core.memory.used_bytes(),
        "damages": core.damages.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "failure": shared.failure,
    })
    .to_string()
}
