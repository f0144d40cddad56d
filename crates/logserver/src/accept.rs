//! Accepts connections. Each starts with a handshake in its own thread, with a deadline, and counts as a connection
//! once the client has presented the access token.

use crate::handshakes::Handshake;
use crate::receive::{self, Input, Stop};
use crate::shared::{Core, Ending, Inbox};
use crate::{receive::message_bytes_max, send};
use iodyno_msglog::protocol::{ErrorCode, Reply, ServerError, VERSION, Welcome};
use iodyno_nbd::Endpoint;
use iodyno_nbd::server::Listener;
use iodyno_nbd::stream::Stream;
use iodyno_nbd::tls::ServerTls;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the accepting thread checks whether the server is shutting down.
const ACCEPT_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Pause after a failed accept, for instance when file descriptors or memory have run out.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// Interval at which the accepting thread returns unused heap memory to the operating system.
const TRIM_EVERY: Duration = Duration::from_secs(2);

/// State of the thread that accepts connections.
pub(crate) struct Acceptor {
    pub(crate) core: Arc<Core>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) token: Arc<[u8]>,
    pub(crate) next_id: AtomicU64,
}

impl Acceptor {
    pub(crate) fn run(&self, listeners: &[Listener]) {
        let mut trimmed = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            if trimmed.elapsed() >= TRIM_EVERY {
                self.core.memory.trim();
                trimmed = Instant::now();
            }
            let mut sockets: Vec<PollFd<'_>> = listeners
                .iter()
                .map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN))
                .collect();
            if !matches!(poll(&mut sockets, Some(&ACCEPT_EVERY)), Ok(1..)) {
                continue;
            }
            for listener in listeners {
                let is_local = matches!(listener.endpoint(), Endpoint::Unix(_));
                match listener.accept() {
                    Some(Ok((socket, _))) => self.take(socket, is_local),
                    Some(Err(_)) => thread::sleep(REFUSED_PAUSE),
                    None => {}
                }
            }
        }
        self.core.handshakes.end();
    }

    /// Starts a thread for an accepted connection. On failure only this connection is closed.
    fn take(&self, socket: OwnedFd, is_local: bool) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let Ok(handshake) = self.core.handshakes.begin(id, &socket, is_local) else { return };
        let tls = self.tls.clone().filter(|_| !is_local);
        let (core, token) = (Arc::clone(&self.core), Arc::clone(&self.token));
        let run = move || {
            let shaken = shake_hands(&core, &handshake, socket, tls.as_ref(), &token);
            let Some((stream, input)) = shaken else { return };
            match enter(&core, id, &stream, is_local) {
                Ok(()) => drop(handshake),
                Err(error) => return refuse(&core, &stream, &error),
            }
            run(&core, id, &stream, input);
        };
        let _ = thread::Builder::new().name("log-receive".to_owned()).spawn(run);
    }
}

/// Performs the TLS handshake, if any, and receives the client's hello. `None` if the client is gone or was
/// refused.
fn shake_hands(
    core: &Core,
    handshake: &Handshake,
    socket: OwnedFd,
    tls: Option<&ServerTls>,
    token: &[u8],
) -> Option<(Arc<Stream>, Input)> {
    let deadline = Instant::now() + core.limits.handshake;
    let mut first = [PollFd::new(&socket, PollFlags::IN)];
    let within = core.limits.handshake;
    let within = Timespec { tv_sec: within.as_secs() as _, tv_nsec: within.subsec_nanos() as _ };
    if !matches!(poll(&mut first, Some(&within)), Ok(1..)) {
        return None;
    }
    handshake.has_sent();
    let stream = Arc::new(Stream::accept(socket, tls, deadline).ok()?);
    let mut input = Input::new();
    match receive::hello(&stream, &mut input, token, deadline) {
        Ok(()) => Some((stream, input)),
        Err(Stop::Error(error)) => {
            refuse(core, &stream, &error);
            None
        }
        Err(Stop::EndOfStream | Stop::Socket) => None,
    }
}

/// Registers a connection whose handshake is complete, and queues the welcome as its first frame to send.
fn enter(core: &Core, id: u64, stream: &Arc<Stream>, is_local: bool) -> Result<(), ServerError> {
    let limits = &core.limits;
    let mut shared = core.lock();
    if shared.is_stopping {
        return Err(ServerError::new(ErrorCode::Stops, 0, "the server is shutting down"));
    }
    let remote = shared.connections.values().filter(|inbox| !inbox.is_local).count();
    let is_full = shared.connections.len() >= limits.connections
        || (!is_local && remote >= limits.connections.saturating_sub(limits.connections_local));
    if is_full {
        let words = format!(
            "the server's limit of {} connections is reached ({} of them are reserved for Unix sockets)",
            limits.connections, limits.connections_local
        );
        return Err(ServerError::new(ErrorCode::Connections, 0, words));
    }
    let mut inbox = Inbox::new(Arc::clone(stream), is_local);
    let mut frame = Vec::new();
    Reply::Welcome(Welcome {
        version: VERSION,
        log_id: core.layout.log_id,
        durability: core.durability,
        message_bytes_max: message_bytes_max(core) as u32,
        next: shared.log.persisted(),
    })
    .encode(&mut frame);
    inbox.tasks.push_back(crate::shared::Task::Frame(frame));
    shared.connections.insert(id, inbox);
    Ok(())
}

/// Sends a client the error for which its connection is refused.
fn refuse(core: &Core, stream: &Stream, error: &ServerError) {
    let mut frame = Vec::new();
    error.as_reply().encode(&mut frame);
    let _ = stream.send(&frame, Some(Instant::now() + core.limits.linger));
    stream.end_sending();
    stream.linger(core.limits.linger);
}

/// Serves a connection: starts its sending thread, and receives requests on the current thread.
fn run(core: &Arc<Core>, id: u64, stream: &Arc<Stream>, input: Input) {
    let writer = {
        let (core, stream) = (Arc::clone(core), Arc::clone(stream));
        let run = move || {
            let _ended = Ended { core: &core, id, stream: &stream };
            send::run(&core, id, &stream);
        };
        thread::Builder::new().name("log-send".to_owned()).spawn(run)
    };
    if writer.is_err() {
        core.lock().connections.remove(&id);
        return;
    }
    let _ended = Gone { core, id };
    receive::run(core, id, stream, input);
}

/// Guard that removes a connection when its sending thread ends, even by a panic.
struct Ended<'a> {
    core: &'a Core,
    id: u64,
    stream: &'a Stream,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.stream.shut();
        self.core.lock().connections.remove(&self.id);
        self.core.departure.notify_all();
        self.core.space.notify_all();
    }
}

/// Guard that ends the connection's sending thread if the receiving thread panics.
struct Gone<'a> {
    core: &'a Core,
    id: u64,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(inbox) = self.core.lock().connections.get_mut(&self.id)
        {
            inbox.end(Ending::Gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::storage::MemoryStorage;
    use crate::{Found, Limits, Server, ServerOptions};
    use iodyno_msglog::client::{ClientError, Connection};
    use iodyno_msglog::protocol::ErrorCode;
    use iodyno_msglog::{Layout, LogOptions, recovery};
    use iodyno_nbd::Endpoint;
    use iodyno_nbd::stream::Stream;
    use std::sync::Arc;
    use std::time::Duration;

    /// Clients over TCP can't use up the connections that are reserved for Unix sockets.
    #[test]
    fn connections_are_reserved_for_unix_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Arc::new(MemoryStorage::new(16 << 20));
        let layout = Layout::new(7, 16 << 20, 1 << 20, 64 << 10, 4096).unwrap();
        recovery::create(&*storage, &layout).unwrap();
        let Found { recovered, publisher_max, .. } = Found::of_new(layout);
        let tcp = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
        let options = ServerOptions {
            endpoints: vec![tcp, Endpoint::Unix(dir.path().join("s"))],
            tls: None,
            insist_on_plain: false,
            token: Vec::new(),
            log: LogOptions::default(),
            limits: Limits { connections: 3, connections_local: 1, ..Limits::default() },
        };
        let server = Server::start(storage, recovered, publisher_max, options).unwrap();
        let [tcp, unix] = server.endpoints() else { panic!("two endpoints") };
        let connect = |endpoint| {
            let stream = Stream::connect(endpoint, None, Duration::from_secs(60)).unwrap();
            Connection::begin(stream, b"")
        };
        let is_refused = |endpoint| match connect(endpoint) {
            Err(ClientError::Server(error)) => error.code == ErrorCode::Connections,
            result => panic!("{result:?}"),
        };
        let _two = [connect(tcp).unwrap(), connect(tcp).unwrap()];
        assert!(is_refused(tcp));
        let _local = connect(unix).unwrap();
        assert!(is_refused(unix) && is_refused(tcp));
        server.stop().unwrap();
    }
}
