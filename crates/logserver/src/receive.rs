//! The receiving side of a connection: one thread reads requests and appends messages. It leaves replies to the
//! sending thread (`send.rs`).

use crate::memory::Charge;
use crate::publishers::{Handle, NotAppended};
use crate::shared::{Core, Ending, Inbox, Task, wait};
use crate::wanted::{FREE_BYTES, Selection};
use iodyno_msglog::protocol::{
    self, ErrorCode, HELLO_BYTES_MAX, Malformed, Published, Reply, Request, ServerError, VERSION,
};
use iodyno_nbd::stream::Stream;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Initial size of a connection's receive buffer, bytes. Once the client has filled it, the size is
/// [`RECEIVE_BYTES`].
const SMALL_RECEIVE_BYTES: usize = HELLO_BYTES_MAX * 2;
const RECEIVE_BYTES: usize = 256 << 10;
/// Maximum number of messages that a connection appends to the log before it releases the lock.
const BATCH_MESSAGES: usize = 1024;
/// Maximum time that a request waits for memory before it is refused.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
/// Upper bound of a message frame's overhead beyond topic, key and body, bytes.
const FRAME_EXTRA_BYTES: usize = 64;
/// Upper bound of the length of a request without a message, bytes: a query with the longest topic and filter.
const REQUEST_BYTES_MAX: usize = 66 << 10;
/// Maximum number of queued requests per connection.
const TASKS_MAX: usize = 64;

/// Why a connection's receiving thread ends.
pub(crate) enum Stop {
    /// The client has closed its end of the connection after a complete frame.
    EndOfStream,
    /// The socket failed, or was closed within a frame.
    Socket,
    /// The server closes the connection after sending this error.
    Error(ServerError),
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Socket
    }
}

impl From<Malformed> for Stop {
    fn from(found: Malformed) -> Self {
        Self::Error(ServerError::new(ErrorCode::Malformed, 0, found.to_string()))
    }
}

impl From<ServerError> for Stop {
    fn from(error: ServerError) -> Self {
        Self::Error(error)
    }
}

/// Receive buffer of a connection, with the range of received bytes that are not parsed yet.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last receive filled the buffer, which suggests that much more is waiting.
    was_filled: bool,
    /// Reservation of memory for a large buffer; `None` for the initial small one.
    charge: Option<Charge>,
}

impl Input {
    pub(crate) fn new() -> Self {
        let bytes = vec![0; SMALL_RECEIVE_BYTES];
        Self { bytes, start: 0, end: 0, was_filled: false, charge: None }
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn is_large(&self) -> bool {
        self.bytes.len() > SMALL_RECEIVE_BYTES
    }

    /// Enlarges the buffer for the rest of an incomplete frame, up to `frame_bytes_max`. If the client sends
    /// much, the buffer becomes still larger.
    fn make_space(
        &mut self,
        core: &Core,
        frame_bytes_max: usize,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), Stop> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let begun = protocol::frame_bytes(self.filled()).unwrap_or(0).min(frame_bytes_max + 4);
        let large = if self.was_filled { RECEIVE_BYTES.max(begun) } else { begun };
        for wanted in [large, begun] {
            if self.bytes.len() >= wanted {
                return Ok(());
            }
            let charge = self.charge.get_or_insert_with(|| Charge::none(&core.memory.received));
            let bytes = wanted.saturating_sub(SMALL_RECEIVE_BYTES);
            let deadline = Instant::now() + MEMORY_PATIENCE;
            let is_needed = wanted == begun;
            if charge.resize(bytes) || (is_needed && charge.resize_until(bytes, deadline, &goes_on))
            {
                self.bytes.resize(wanted, 0);
                return Ok(());
            }
        }
        Err(no_memory("received data"))
    }

    /// Replaces a large buffer with the initial small one if it is empty.
    fn shrink(&mut self) {
        if self.start == self.end {
            *self = Self::new();
        }
    }

    /// Receives more bytes into the buffer. Returns false on timeout.
    fn receive(&mut self, stream: &Stream, deadline: Option<Instant>) -> Result<bool, Stop> {
        let space = &mut self.bytes[self.end..];
        let space_bytes = space.len();
        match stream.receive(space, deadline) {
            Ok(0) if self.end == 0 => Err(Stop::EndOfStream),
            Ok(0) => Err(Stop::Socket),
            Ok(received) => {
                self.end += received;
                self.was_filled = received == space_bytes;
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::TimedOut && deadline.is_some() => Ok(false),
            Err(_) => Err(Stop::Socket),
        }
    }
}

fn no_memory(what: &str) -> Stop {
    let words = format!("other clients use up the server's memory for {what}: connect again later");
    Stop::Error(ServerError::new(ErrorCode::Memory, 0, words))
}

/// Serves a connection's requests until the client or the server ends the connection, then closes it.
pub(crate) fn run(core: &Arc<Core>, id: u64, stream: &Stream, mut input: Input) {
    let mut reader = Reader { core, id, stream, publisher: None };
    let ending = match reader.requests(&mut input) {
        Ok(never) => match never {},
        Err(Stop::EndOfStream) => Ending::NoMoreRequests,
        Err(Stop::Socket) => Ending::Gone,
        Err(Stop::Error(error)) => Ending::Error(error),
    };
    drop(input);
    let mut shared = core.lock();
    if let Some(inbox) = shared.connections.get_mut(&id) {
        inbox.end(ending);
    }
    if let Some(handle) = reader.publisher {
        shared.publishers.leave(handle, id);
    }
}

/// Receives a connection's first frame, which must be a hello with the right access token.
pub(crate) fn hello(
    stream: &Stream,
    input: &mut Input,
    token: &[u8],
    deadline: Instant,
) -> Result<(), Stop> {
    let frame = loop {
        if let Some(frame) = protocol::frame(input.filled(), HELLO_BYTES_MAX)? {
            break frame;
        }
        // The buffer is limited to a hello.
        if !input.receive(stream, Some(deadline))? {
            return Err(Stop::Socket);
        }
    };
    let Request::Hello { version, token: given } = Request::decode(frame.kind, frame.fields)?
    else {
        let words = "the first frame of a connection must be a hello";
        return Err(ServerError::new(ErrorCode::Malformed, 0, words).into());
    };
    if version != VERSION {
        let words = format!("this server speaks version {VERSION}, not {version}");
        return Err(ServerError::new(ErrorCode::Version, 0, words).into());
    }
    if !is_equal(given, token) {
        let words = if given.is_empty() {
            "this server requires a token, but none was given"
        } else {
            "the token does not match the server's token"
        };
        return Err(ServerError::new(ErrorCode::Token, 0, words).into());
    }
    input.start += frame.taken;
    Ok(())
}

struct Reader<'a> {
    core: &'a Arc<Core>,
    id: u64,
    stream: &'a Stream,
    publisher: Option<Handle>,
}

impl Reader<'_> {
    /// Whether the connection is alive and not about to be closed.
    fn goes_on(&self) -> bool {
        let is_over = || self.core.lock().connections.get(&self.id).is_none_or(Inbox::is_over);
        !self.stream.is_gone() && !is_over()
    }

    /// Queues a reply for the connection's sending thread.
    fn send(&self, reply: &Reply<'_>) -> Result<(), Stop> {
        let mut frame = Vec::new();
        reply.encode(&mut frame);
        self.task(Task::Frame(frame))
    }

    fn task(&self, task: Task) -> Result<(), Stop> {
        let mut shared = self.core.lock();
        let inbox = shared.connections.get_mut(&self.id).filter(|inbox| !inbox.is_over());
        let Some(inbox) = inbox else { return Err(Stop::Socket) };
        if inbox.tasks.len() >= TASKS_MAX {
            let words =
                format!("{TASKS_MAX} requests are already waiting: read their answers first");
            return Err(ServerError::new(ErrorCode::Busy, 0, words).into());
        }
        if let Task::Read(_, _, selection) | Task::Query(selection) = &task {
            inbox.task_bytes += selection.bytes();
        }
        inbox.tasks.push_back(task);
        inbox.wake.notify_all();
        Ok(())
    }

    /// Creates the topic and filter of a request that is to be queued. Memory for them is reserved if the
    /// connection's queued requests have become large.
    fn selection(&self, topic: &str, filter: &str) -> Result<Selection, Stop> {
        let bytes = topic.len() + filter.len();
        let waiting = self.core.lock().connections.get(&self.id).map_or(0, |it| it.task_bytes);
        if waiting + bytes <= FREE_BYTES {
            return Ok(Selection::new(topic, filter, None));
        }
        let deadline = Instant::now() + MEMORY_PATIENCE;
        let part = &self.core.memory.requests;
        let charge = part.take_until(bytes, deadline, || self.goes_on());
        let charge = charge.ok_or_else(|| no_memory("requests"))?;
        Ok(Selection::new(topic, filter, Some(charge)))
    }

    /// Waits until the client sends more data, or a timeout expires.
    fn receive(&self, input: &mut Input, frame_bytes_max: usize) -> Result<(), Stop> {
        let limits = &self.core.limits;
        input.make_space(self.core, frame_bytes_max, || self.goes_on())?;
        let now = Instant::now();
        if input.filled().is_empty() {
            // Between frames a client may be silent without limit.
            if input.is_large() {
                if input.receive(self.stream, Some(now + limits.short_stall))? {
                    return Ok(());
                }
                input.shrink();
            }
            return input.receive(self.stream, None).map(drop);
        }
        let deadline = now + limits.stall;
        let mut next = if input.is_large() { now + limits.short_stall } else { deadline };
        while !input.receive(self.stream, Some(next))? {
            if next >= deadline {
                return Err(Stop::Socket);
            }
            if self.core.memory.received.is_wanted() {
                return Err(no_memory("received data"));
            }
            next = deadline.min(next + limits.short_stall);
        }
        Ok(())
    }

    fn requests(&mut self, input: &mut Input) -> Result<std::convert::Infallible, Stop> {
        let bytes_max = (message_bytes_max(self.core) + FRAME_EXTRA_BYTES).max(REQUEST_BYTES_MAX);
        loop {
            // Messages received together are appended under one lock.
            let (mut taken, mut stop) = (0, Ok(()));
            let mut other = None;
            let mut batch = Vec::new();
            let filled = &input.bytes[input.start..input.end];
            while other.is_none() && batch.len() < BATCH_MESSAGES {
                let request = match protocol::frame(&filled[taken..], bytes_max) {
                    Ok(None) => break,
                    Ok(Some(frame)) => {
                        taken += frame.taken;
                        Request::decode(frame.kind, frame.fields)
                    }
                    Err(malformed) => Err(malformed),
                };
                match request {
                    Ok(Request::Publish(message)) => batch.push(message),
                    Ok(request) => other = Some(request),
                    Err(malformed) => {
                        stop = Err(Stop::from(malformed));
                        break;
                    }
                }
            }
            if !batch.is_empty() {
                self.publish(&batch)?;
            }
            stop?;
            match other {
                Some(request) => self.request(&request)?,
                None if taken == 0 => {
                    self.receive(input, bytes_max)?;
                    continue;
                }
                None => {}
            }
            input.start += taken;
        }
    }

    fn request(&mut self, request: &Request<'_>) -> Result<(), Stop> {
        match *request {
            Request::Hello { .. } => {
                let words = "a connection can have only one hello";
                Err(ServerError::new(ErrorCode::Malformed, 0, words).into())
            }
            Request::OpenPublisher { name } => self.open_publisher(name),
            Request::Publish(message) => self.publish(&[message]),
            Request::Read { start, end, topic, filter } => {
                self.task(Task::Read(start, end, self.selection(topic, filter)?))
            }
            Request::Query { topic, filter } => {
                self.task(Task::Query(self.selection(topic, filter)?))
            }
            Request::Status => self.task(Task::Status),
        }
    }

    fn open_publisher(&mut self, name: &str) -> Result<(), Stop> {
        if self.publisher.is_some() {
            let words = "a connection can have only one publisher: use a separate connection for each publisher";
            return Err(ServerError::new(ErrorCode::Malformed, 0, words).into());
        }
        let mut guard = self.core.lock();
        let shared = &mut *guard;
        let (handle, before) = shared.publishers.open(name, self.id)?;
        self.publisher = Some(handle);
        if let Some(inbox) = before.and_then(|before| shared.connections.get_mut(&before))
            && let NotAppended::Error(error) = crate::publishers::replaced()
        {
            inbox.end(Ending::Error(error));
        }
        let number = if let Handle::Named(number) = handle { number } else { 0 };
        // A replaced publisher's connection may be waiting for space: it must look again.
        self.core.space.notify_all();
        // Messages of the publisher's previous connection must be persisted first, or new messages could reuse their
        // sequence numbers.
        let (sequence, message) = guard.publishers.appended(handle).unwrap_or_default();
        while message >= guard.log.persisted() && !guard.log.is_broken() {
            if guard.connections.get(&self.id).is_none_or(Inbox::is_over) {
                return Err(Stop::Socket);
            }
            guard = wait(&self.core.space, guard);
        }
        let shared = &mut *guard;
        let persisted = shared.log.state().publisher(number).map_or(0, |it| it.sequence);
        debug_assert!(persisted == sequence || shared.log.is_broken());
        drop(guard);
        self.send(&Reply::Publisher { number, persisted })
    }

    fn publish(&mut self, batch: &[Published<'_>]) -> Result<(), Stop> {
        let Some(handle) = &mut self.publisher else {
            let words = "open a publisher before you send messages";
            return Err(ServerError::new(ErrorCode::Malformed, 0, words).into());
        };
        let core = self.core;
        let chunk_bytes = core.layout.chunk_bytes as usize;
        let mut buffers = || crate::shared::ChunkBuffer(core.storage.buffer(chunk_bytes));
        let mut guard = core.lock();
        if guard.connections.get(&self.id).is_none_or(Inbox::is_over) {
            return Err(Stop::Socket);
        }
        let time_ns = guard.now_ns();
        let mut last = None;
        for message in batch {
            loop {
                let shared = &mut *guard;
                let appended = shared.publishers.append(
                    &mut shared.log,
                    handle,
                    self.id,
                    message,
                    time_ns,
                    &mut buffers,
                );
                let result = match appended {
                    Ok(appended) => {
                        last = Some(appended);
                        break;
                    }
                    Err(NotAppended::Error(error)) => Err(Stop::Error(error)),
                    Err(NotAppended::Busy) => Ok(()),
                };
                if let (Some((number, sequence)), Some(inbox)) =
                    (last.take(), shared.connections.get_mut(&self.id))
                {
                    inbox.acknowledge(number, sequence);
                    inbox.wake.notify_all();
                }
                core.work.notify_one();
                result?;
                if guard.connections.get(&self.id).is_none_or(Inbox::is_over) {
                    return Err(Stop::Socket);
                }
                guard = wait(&core.space, guard);
            }
        }
        if let (Some((number, sequence)), Some(inbox)) = (last, guard.connections.get_mut(&self.id))
        {
            let was_idle = inbox.acks.is_empty();
            inbox.acknowledge(number, sequence);
            // The writer may be waiting for an earlier message; once woken it checks this one too.
            if was_idle {
                inbox.wake.notify_all();
            }
        }
        core.work.notify_one();
        Ok(())
    }
}

/// Maximum total length of a message's topic, key and body, bytes, as given by the log's chunk size.
pub(crate) fn message_bytes_max(core: &Core) -> usize {
    core.layout.space_bytes() - iodyno_msglog::message::RECORD_HEADER_BYTES
}

/// Compares two access tokens in constant time, so that timing does not reveal the first difference.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
