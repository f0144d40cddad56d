//! The server: recovers nothing itself, but takes a recovered log and its storage, listens, and ends in order.

use crate::limits::Limits;
use crate::publishers::Publishers;
use crate::shared::{Core, Ending, Inbox, Shared};
use crate::{commit, receive, send};
use iodyno_msglog::protocol::{ErrorCode, ServerError};
use iodyno_msglog::recovery::begin_epoch;
use iodyno_msglog::{Log, LogOptions, Recovered, Storage};
use iodyno_nbd::Endpoint;
use iodyno_nbd::server::{ListenError, Listener};
use iodyno_nbd::stream::Stream;
use iodyno_nbd::tls::ServerTls;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The interval at which the acceptor checks whether it shall end.
const ACCEPT_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// A pause after the system refused a connection: it has no descriptors or memory left.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// How a log is served.
#[derive(Debug)]
pub struct ServerOptions {
    /// Where to listen.
    pub endpoints: Vec<Endpoint>,
    /// TCP clients must use TLS.
    pub tls: Option<ServerTls>,
    /// TCP without TLS may be reached from other machines.
    pub insist_on_plain: bool,
    /// What clients must show; empty for nothing.
    pub token: Vec<u8>,
    /// How the log is written.
    pub log: LogOptions,
    /// Limits.
    pub limits: Limits,
}

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// It can't listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The target does not take the record that the log is opened for writing.
    #[error("the log can't be opened for writing: {0}")]
    Begin(io::Error),
    /// A thread can't be made.
    #[error("a thread can't be made: {0}")]
    Thread(#[from] io::Error),
}

/// A server that runs.
pub struct Server {
    core: Arc<Core>,
    stop: Arc<AtomicBool>,
    endpoints: Vec<Endpoint>,
    acceptor: JoinHandle<()>,
    committer: JoinHandle<()>,
}

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl Server {
    /// Serves a log that recovery has read. `publisher_max` is the highest number of a publisher in its records.
    ///
    /// # Errors
    /// It can't listen, or make threads.
    pub fn start(
        storage: Arc<dyn Storage>,
        recovered: Recovered,
        publisher_max: u64,
        options: ServerOptions,
    ) -> Result<Self, StartError> {
        let ServerOptions { endpoints, tls, insist_on_plain, token, log, limits } = options;
        let plain_anywhere = tls.is_some() || insist_on_plain;
        let listeners: Vec<Listener> = endpoints
            .iter()
            .map(|endpoint| Listener::open(endpoint, plain_anywhere))
            .collect::<Result<_, _>>()?;
        let endpoints = listeners.iter().map(|it| it.endpoint().clone()).collect();
        begin_epoch(&*storage, &recovered).map_err(StartError::Begin)?;
        let Recovered { layout, tail, state, damages, .. } = recovered;
        let publishers = Publishers::new(&state, publisher_max, layout.segment_bytes);
        let time_ns = tail.time_ns;
        let shared = Shared {
            log: Log::new(layout, log, tail, state),
            recent: VecDeque::new(),
            publishers,
            connections: BTreeMap::new(),
            time_ns,
            failure: None,
            is_ending: false,
        };
        let core = Arc::new(Core::new(storage, limits, damages, log.commit.durability, shared));
        let committer = {
            let core = Arc::clone(&core);
            thread::Builder::new()
                .name("log-commit".to_owned())
                .spawn(move || commit::run(&core))?
        };
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = {
            let acceptor = Acceptor {
                core: Arc::clone(&core),
                stop: Arc::clone(&stop),
                tls,
                token: token.into(),
                next_id: AtomicU64::new(1),
                handshakes: Arc::default(),
            };
            let run = move || acceptor.run(&listeners);
            thread::Builder::new().name("log-accept".to_owned()).spawn(run)?
        };
        Ok(Self { core, stop, endpoints, acceptor, committer })
    }

    /// Where it listens; with the ports that the system chose.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Why nothing more is persisted, if that is so. What is persisted is still served.
    pub fn failure(&self) -> Option<String> {
        self.core.lock().failure.clone()
    }

    /// Ends: takes no more connections and messages, persists what was appended, and tells its clients.
    ///
    /// # Errors
    /// Why what was appended could not be persisted.
    pub fn stop(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.acceptor.join();
        let deadline = Instant::now() + self.core.limits.stop;
        let mut shared = self.core.lock();
        for inbox in shared.connections.values_mut() {
            inbox.end(Ending::Error(ServerError::new(ErrorCode::Stops, 0, "the server stops")));
        }
        self.core.space.notify_all();
        while !shared.connections.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for inbox in shared.connections.values_mut() {
                    inbox.end(Ending::Gone);
                    inbox.stream.shut();
                }
                self.core.space.notify_all();
            }
            let wait = left.max(Duration::from_millis(10));
            let waited = self.core.departure.wait_timeout(shared, wait);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        shared.is_ending = true;
        drop(shared);
        self.core.work.notify_all();
        let _ = self.committer.join();
        let failure = self.core.lock().failure.take();
        failure.map_or(Ok(()), Err)
    }
}

/// Takes connections.
struct Acceptor {
    core: Arc<Core>,
    stop: Arc<AtomicBool>,
    tls: Option<ServerTls>,
    token: Arc<[u8]>,
    next_id: AtomicU64,
    /// Connections that shake hands: they count as connections, and are not in the list yet.
    handshakes: Arc<AtomicU64>,
}

impl Acceptor {
    fn run(&self, listeners: &[Listener]) {
        while !self.stop.load(Ordering::Relaxed) {
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
    }

    /// Starts a connection's threads. A failure ends this connection alone.
    fn take(&self, socket: OwnedFd, is_local: bool) {
        let connections = self.core.lock().connections.len() as u64;
        let is_full = connections + self.handshakes.load(Ordering::Relaxed)
            >= self.core.limits.connections as u64;
        let tls = self.tls.clone().filter(|_| !is_local);
        if is_full {
            // Without TLS: at the limit there is no time for handshakes.
            if tls.is_none() {
                refuse(&self.core, socket);
            }
            return;
        }
        self.handshakes.fetch_add(1, Ordering::Relaxed);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (core, token) = (Arc::clone(&self.core), Arc::clone(&self.token));
        let counted = Counted(Arc::clone(&self.handshakes));
        let run = move || {
            let deadline = Instant::now() + core.limits.handshake;
            let Ok(stream) = Stream::accept(socket, tls.as_ref(), deadline) else { return };
            let stream = Arc::new(stream);
            core.lock().connections.insert(id, Inbox::new(Arc::clone(&stream)));
            drop(counted);
            let writer = {
                let (core, stream) = (Arc::clone(&core), Arc::clone(&stream));
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
            let _ended = Gone { core: &core, id };
            receive::run(&core, id, &stream, &token);
        };
        let _ = thread::Builder::new().name("log-receive".to_owned()).spawn(run);
    }
}

/// Tells a client that there are too many.
fn refuse(core: &Core, socket: OwnedFd) {
    let deadline = Instant::now() + Duration::from_millis(10);
    let Ok(stream) = Stream::accept(socket, None, deadline) else { return };
    let words =
        format!("the server has {} connections, and takes no more", core.limits.connections);
    let mut frame = Vec::new();
    ServerError::new(ErrorCode::Connections, 0, words).as_reply().encode(&mut frame);
    let _ = stream.send(&frame, Some(deadline));
    stream.end_sending();
}

/// Counts a handshake until it is dropped.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Removes a connection when its writer has ended, also by a panic.
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

/// Tells the writer when the reader has ended, also by a panic.
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
