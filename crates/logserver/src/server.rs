//! The server: takes a recovered log and its storage, listens, and shuts down cleanly. Recovery is in `open.rs`.

use crate::accept::Acceptor;
use crate::commit;
use crate::limits::Limits;
use crate::memory;
use crate::publishers::Publishers;
use crate::shared::{Core, Ending, Shared};
use crate::writes_first::WritesFirst;
use iodyno_msglog::protocol::{ErrorCode, ServerError};
use iodyno_msglog::recovery::begin_epoch;
use iodyno_msglog::{Log, LogOptions, Recovered, Storage};
use iodyno_nbd::Endpoint;
use iodyno_nbd::server::{ListenError, Listener};
use iodyno_nbd::tls::ServerTls;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum total size of chunks in the write queue, bytes.
const QUEUE_BYTES: usize = 64 << 20;
/// Time to wait, when the server stops, for threads of forcibly closed connections to end.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// Options of a log server: addresses, access control, log options and limits.
#[derive(Debug)]
pub struct ServerOptions {
    /// Addresses on which the server listens.
    pub endpoints: Vec<Endpoint>,
    /// TLS settings; `None`: TCP without TLS.
    pub tls: Option<ServerTls>,
    /// Whether to allow TCP without TLS on addresses that other hosts can reach.
    pub insist_on_plain: bool,
    /// Access token that clients must present; empty: none is required.
    pub token: Vec<u8>,
    /// Options for writing and retaining the log.
    pub log: LogOptions,
    /// Limits on the resources that clients use, and timeouts.
    pub limits: Limits,
}

/// Reason why a server could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Listening on one of the addresses failed.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The new epoch, which marks the log as open for writing, could not be written.
    #[error("the log can't be opened for writing: {0}")]
    Begin(io::Error),
    /// A thread can't be created.
    #[error("a thread can't be started: {0}")]
    Thread(#[from] io::Error),
}

/// A running message log server.
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
    /// Starts to serve a recovered log. `publisher_max` is the highest publisher number in its records.
    ///
    /// # Errors
    /// The server can't listen, can't write the new epoch to the log, or can't create a thread.
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
        // The limit on memory also limits the number of chunks, but to 4 or more.
        let chunks_max = (QUEUE_BYTES / layout.chunk_bytes as usize).max(4);
        let queue_chunks_max = log.queue_chunks_max.min(chunks_max);
        let log = LogOptions { queue_chunks_max, ..log };
        let publishers = Publishers::new(&state, publisher_max, layout.segment_bytes);
        let time_ns = tail.time_ns;
        let shared = Shared {
            log: Log::new(layout, log, tail, state),
            recent: VecDeque::new(),
            publishers,
            connections: BTreeMap::new(),
            time_ns,
            failure: None,
            is_stopping: false,
            is_ending: false,
        };
        raise_file_limit(&limits);
        memory::keep_little();
        let storage: Arc<dyn Storage> = Arc::new(WritesFirst::new(storage));
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
            };
            let run = move || acceptor.run(&listeners);
            thread::Builder::new().name("log-accept".to_owned()).spawn(run)?
        };
        Ok(Self { core, stop, endpoints, acceptor, committer })
    }

    /// Addresses on which the server listens. Where port 0 was requested, they have the port that the system chose.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Reason why nothing more can be persisted; `None` while the log works. [`Server::stop`] reports it to
    /// clients.
    pub fn failure(&self) -> Option<String> {
        self.core.lock().failure.clone()
    }

    /// Stops the server: refuses new connections and messages, persists the messages already appended, and
    /// notifies the clients. Clients that do not read are disconnected after [`Limits::stop`].
    ///
    /// # Errors
    /// Some appended messages could not be persisted. The error gives the reason.
    pub fn stop(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.acceptor.join();
        let deadline = Instant::now() + self.core.limits.stop;
        let mut shared = self.core.lock();
        shared.is_stopping = true;
        let error = match &shared.failure {
            None => ServerError::new(ErrorCode::Stops, 0, "the server is shutting down"),
            Some(why) => {
                let words =
                    format!("no more messages can be persisted, and the server shuts down: {why}");
                ServerError::new(ErrorCode::Broken, 0, words)
            }
        };
        for inbox in shared.connections.values_mut() {
            inbox.end(Ending::Error(error.clone()));
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
            // A connection that is blocked in the target is left behind.
            let last = deadline + LAST_WAIT;
            if Instant::now() >= last {
                break;
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

/// Raises this process's limit on open files, up to its hard limit, as far as the connection limit requires.
fn raise_file_limit(limits: &Limits) {
    // A handshake has two descriptors, and TCP and Unix sockets each have a limit of their own.
    let wanted = (limits.connections + 4 * limits.handshakes + 256) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|now| now < wanted) {
        let current = Some(maximum.map_or(wanted, |max| max.min(wanted)));
        // If this is refused, accepting fails once descriptors run out.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}
