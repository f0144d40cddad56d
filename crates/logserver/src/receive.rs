//! What a connection receives: one thread reads its requests, appends its messages, and leaves the rest to the thread that
//! sends (`send.rs`).

use crate::publishers::{Handle, NotAppended};
use crate::shared::{Core, Ending, Task, wait};
use crate::wanted::{Order, Wanted};
use iodyno_msglog::protocol::{
    self, ErrorCode, HELLO_BYTES_MAX, Malformed, Published, Reply, Request, ServerError, VERSION,
    Welcome,
};
use iodyno_nbd::stream::Stream;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 256 << 10;
/// Bytes of a frame beside its message.
const FRAME_EXTRA_BYTES: usize = 64;
/// The longest request that carries no message: a query with the longest topic and filter.
const REQUEST_BYTES_MAX: usize = 66 << 10;
/// Requests that a connection may have waiting.
const TASKS_MAX: usize = 64;

/// Why a connection's reader ends.
enum Stop {
    /// The client has sent all.
    EndOfStream,
    /// The socket failed.
    Socket,
    /// The client is told.
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

/// What was received, and how far it was looked at.
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn new() -> Self {
        Self { bytes: vec![0; HELLO_BYTES_MAX * 2], start: 0, end: 0 }
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Receives more, with space for so many bytes, and for the frame that has begun, of `frame_bytes_max` at most.
    fn receive(
        &mut self,
        stream: &Stream,
        (space_bytes, frame_bytes_max): (usize, usize),
        deadline: Option<Instant>,
    ) -> Result<(), Stop> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let begun = protocol::frame_bytes(self.filled()).unwrap_or(0).min(frame_bytes_max + 4);
        let needed = begun.max(space_bytes);
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        match stream.receive(&mut self.bytes[self.end..], deadline)? {
            0 if self.end == 0 => Err(Stop::EndOfStream),
            0 => Err(Stop::Socket),
            received => {
                self.end += received;
                Ok(())
            }
        }
    }
}

/// Reads requests until the client or the server ends the connection, then ends it.
pub(crate) fn run(core: &Arc<Core>, id: u64, stream: &Stream, token: &[u8]) {
    let mut reader = Reader { core, id, publisher: None };
    let ending = match reader.run(stream, token) {
        Stop::EndOfStream => Ending::NoMoreRequests,
        Stop::Socket => Ending::Gone,
        Stop::Error(error) => Ending::Error(error),
    };
    let mut shared = core.lock();
    if let Some(inbox) = shared.connections.get_mut(&id) {
        inbox.end(ending);
    }
    if let Some(handle) = reader.publisher {
        shared.publishers.leave(handle, id);
    }
}

struct Reader<'a> {
    core: &'a Arc<Core>,
    id: u64,
    publisher: Option<Handle>,
}

impl Reader<'_> {
    fn run(&mut self, stream: &Stream, token: &[u8]) -> Stop {
        let mut input = Input::new();
        match self.hello(stream, &mut input, token).and_then(|()| self.requests(stream, &mut input))
        {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    fn hello(&self, stream: &Stream, input: &mut Input, token: &[u8]) -> Result<(), Stop> {
        let deadline = Some(Instant::now() + self.core.limits.handshake);
        loop {
            let Some(frame) = protocol::frame(input.filled(), HELLO_BYTES_MAX)? else {
                input.receive(stream, (0, HELLO_BYTES_MAX), deadline)?;
                continue;
            };
            let Request::Hello { version, token: given } =
                Request::decode(frame.kind, frame.fields)?
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
                    "this server requires a token, and none was given"
                } else {
                    "the token is not the server's"
                };
                return Err(ServerError::new(ErrorCode::Token, 0, words).into());
            }
            input.start += frame.taken;
            break;
        }
        let next = self.core.lock().log.persisted();
        self.send(&Reply::Welcome(Welcome {
            version: VERSION,
            log_id: self.core.layout.log_id,
            durability: self.core.durability,
            message_bytes_max: message_bytes_max(self.core) as u32,
            next,
        }))
    }

    /// Queues a frame for the writer.
    fn send(&self, reply: &Reply<'_>) -> Result<(), Stop> {
        let mut frame = Vec::new();
        reply.encode(&mut frame);
        self.task(Task::Frame(frame))
    }

    fn task(&self, task: Task) -> Result<(), Stop> {
        let mut shared = self.core.lock();
        let Some(inbox) = shared.connections.get_mut(&self.id) else { return Err(Stop::Socket) };
        if inbox.tasks.len() >= TASKS_MAX {
            let words = format!("{TASKS_MAX} requests wait already: read the answers");
            return Err(ServerError::new(ErrorCode::Busy, 0, words).into());
        }
        inbox.tasks.push_back(task);
        inbox.wake.notify_all();
        Ok(())
    }

    fn requests(
        &mut self,
        stream: &Stream,
        input: &mut Input,
    ) -> Result<std::convert::Infallible, Stop> {
        let bytes_max = (message_bytes_max(self.core) + FRAME_EXTRA_BYTES).max(REQUEST_BYTES_MAX);
        loop {
            // Messages that were received together are appended under one lock.
            let (mut taken, mut stop) = (0, Ok(()));
            let mut other = None;
            let mut batch = Vec::new();
            let filled = &input.bytes[input.start..input.end];
            while other.is_none() {
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
                    // Between frames a client may be silent for ever, within one it may not.
                    let stall = self.core.limits.stall;
                    let is_within = !input.filled().is_empty();
                    let deadline = is_within.then(|| Instant::now() + stall);
                    input.receive(stream, (RECEIVE_BYTES, bytes_max), deadline)?;
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
                let words = "a connection has one hello";
                Err(ServerError::new(ErrorCode::Malformed, 0, words).into())
            }
            Request::OpenPublisher { name } => self.open_publisher(name),
            Request::Publish(message) => self.publish(&[message]),
            Request::Read { start, end, topic, filter } => {
                let wanted = Wanted::new(topic, filter)?;
                self.task(Task::Read(Order { start, end, wanted }))
            }
            Request::Query { topic, filter } => self.task(Task::Query(Wanted::new(topic, filter)?)),
            Request::Status => self.task(Task::Status),
        }
    }

    fn open_publisher(&mut self, name: &str) -> Result<(), Stop> {
        if self.publisher.is_some() {
            let words = "a connection has one publisher: use another connection for each";
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
        // One that waits for space, and is replaced, must look again.
        self.core.space.notify_all();
        // What an earlier connection appended is persisted first: or new messages would take the sequences of those.
        let (sequence, message) = guard.publishers.appended(handle).unwrap_or_default();
        while message >= guard.log.persisted() && !guard.log.is_broken() {
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
            let words = "messages came before the publisher was opened";
            return Err(ServerError::new(ErrorCode::Malformed, 0, words).into());
        };
        let core = self.core;
        let chunk_bytes = core.layout.chunk_bytes as usize;
        let mut buffers = || crate::shared::ChunkBuffer(core.storage.buffer(chunk_bytes));
        let mut guard = core.lock();
        if let Some(Ending::Gone | Ending::Error(_)) =
            guard.connections.get(&self.id).and_then(|it| it.ending.as_ref())
        {
            return Err(Stop::Socket);
        }
        let time_ns = guard.now_ns();
        let mut last = None;
        for message in batch {
            loop {
                let shared = &mut *guard;
                let publisher = (&mut *handle, self.id);
                let appended = shared.publishers.append(
                    &mut shared.log,
                    publisher,
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
                let ending = guard.connections.get(&self.id).and_then(|it| it.ending.as_ref());
                if let Some(Ending::Gone | Ending::Error(_)) = ending {
                    return Err(Stop::Socket);
                }
                guard = wait(&core.space, guard);
            }
        }
        if let (Some((number, sequence)), Some(inbox)) = (last, guard.connections.get_mut(&self.id))
        {
            let was_idle = inbox.acks.is_empty();
            inbox.acknowledge(number, sequence);
            // A writer that waits for an earlier message looks at this one, too, when it is woken.
            if was_idle {
                inbox.wake.notify_all();
            }
        }
        core.work.notify_one();
        Ok(())
    }
}

/// Bytes of topic, key and body together, at most.
fn message_bytes_max(core: &Core) -> usize {
    core.layout.space_bytes() - iodyno_msglog::message::RECORD_HEADER_BYTES
}

/// Compares in a time that does not depend on where they differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
