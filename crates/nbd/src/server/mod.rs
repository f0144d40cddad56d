//! The NBD server: listens, gives each connection a thread, and ends connections in an orderly way.
//!
//! * A connection's failure, including a panic in its session, ends that connection only.
//! * Negotiation has a deadline, and the number of connections a limit. At the limit the server ends the oldest
//!   connection that is still negotiating, so that half-open ones do not lock good clients out.
//! * A Unix socket is accessible to its owner only (0600). A dead server's socket file is replaced, a live server's is
//!   not. The server removes its own socket file when it stops, if the path still leads to it.
//! * The memory for payloads and replies of all connections together has a limit, at which requests wait.
//! * Without TLS, TCP sockets listen on loopback only, unless [`ServerConfig::insist_on_plain`] is set.

mod answer;
mod connection;
mod counters;
mod deferred_reply;
mod export;
mod link;
mod listen;
mod send_queue;

pub use answer::{Answer, Words};
pub use counters::{Counters, Snapshot};
pub use deferred_reply::{Batch, DeferredReply};
pub use export::{Export, Io, Peer, Place, Session};
pub use listen::{Endpoint, ListenError, Listener, OwnersSocket};

use crate::syscalls::{self, Waker};
use crate::tls::ServerTls;
use crate::wire::{Directory, Info, NAME_MAX};
use connection::{End, Start};
use link::Link;
use link::memory_budget::{Budget, TRIM_AFTER};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limits on a server's connections and memory, and its timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections. At the limit, a new client replaces the oldest connection that is still
    /// negotiating. If none is negotiating, the new client is turned away.
    pub connections: u32,
    /// Timeout for a client's negotiation, including TLS.
    pub handshake: Duration,
    /// Maximum number of deferred requests per connection.
    pub requests: usize,
    /// Maximum payload bytes of a connection's deferred requests and unsent replies. A single request (up to 32 MiB)
    /// may exceed the limit.
    pub in_flight_bytes: usize,
    /// Maximum memory for payloads and replies of all connections together, bytes. [`Self::own_bytes`] of each
    /// connection do not count. A request that does not fit waits until others are answered.
    pub memory_bytes: usize,
    /// Memory for payloads and replies that each connection may use at any time, bytes.
    pub own_bytes: usize,
    /// Time after which a stalled connection may be ended. While other connections wait for memory, the server
    /// ends a connection that uses more than [`Self::own_bytes`] and whose client has transferred less than 256
    /// KiB in this time.
    pub stall: Duration,
    /// Maximum time to finish unanswered requests after the client disconnects or the server stops.
    pub farewell: Duration,
    /// Stack size of each connection's thread, bytes.
    pub stack_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshake: Duration::from_secs(10),
            requests: 4096,
            in_flight_bytes: 64 << 20,
            memory_bytes: 256 << 20,
            own_bytes: 256 << 10,
            stall: Duration::from_secs(10),
            farewell: Duration::from_secs(5),
            stack_bytes: 512 << 10,
        }
    }
}

/// Exports of a server, keyed by name. They can be added and removed while the server runs; open connections
/// are not affected.
#[derive(Default)]
pub struct Exports(RwLock<BTreeMap<String, Arc<dyn Export>>>);

impl Exports {
    /// Adds an export under a name; the empty name is the default export. Returns the export that previously had
    /// the name. Panics if the name has more than 4,096 bytes or contains NUL.
    pub fn insert(&self, name: &str, export: Arc<dyn Export>) -> Option<Arc<dyn Export>> {
        assert!(name.len() <= NAME_MAX && !name.contains('\0'), "not a valid export name");
        let mut map = self.0.write().unwrap_or_else(PoisonError::into_inner);
        map.insert(name.to_owned(), export)
    }

    /// Removes an export, so that new connections can't open it. Returns the export; `None` if there was none with this
    /// name.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn Export>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn Export>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl Directory for Exports {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        let all: Vec<_> = {
            let map = self.0.read().unwrap_or_else(PoisonError::into_inner);
            map.iter().map(|(name, export)| (name.clone(), Arc::clone(export))).collect()
        };
        for (name, export) in all {
            let description = export.info().description;
            each(&name, if description.len() <= NAME_MAX { &description } else { "" });
        }
    }

    fn info(&self, name: &str) -> Option<Info> {
        self.get(name).map(|export| export.info()).filter(|info| info.check().is_ok())
    }
}

/// Whether a connection is still negotiating, and since when.
pub(crate) struct Phase {
    since: Instant,
    agreed: AtomicBool,
}

impl Phase {
    pub(crate) fn agreed(&self) {
        self.agreed.store(true, Ordering::Relaxed);
    }
}

struct Member {
    link: Arc<Link>,
    phase: Arc<Phase>,
}

/// Open connections of the server, keyed by their number.
#[derive(Default)]
struct Members {
    map: Mutex<HashMap<u64, Member>>,
    left: Condvar,
}

impl Members {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Member>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that removes a connection from the list when its thread ends, even by a panic.
struct Membership {
    id: u64,
    members: Arc<Members>,
    counters: Arc<Counters>,
    link: Arc<Link>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.link.close();
        self.counters.connections.fetch_sub(1, Ordering::Relaxed);
        self.members.lock().remove(&self.id);
        self.members.left.notify_all();
    }
}

/// Callback for a connection that ends because of a protocol violation, a timeout, or an error of the socket or TLS.
/// Receives the client's address and the reason. Called on the connection's thread.
pub type Log = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Configuration of an NBD server: limits, encryption and logging.
#[derive(Clone, Default)]
pub struct ServerConfig {
    pub limits: Limits,
    /// Certificates. `Some` makes TLS mandatory, `None` disables it.
    pub tls: Option<ServerTls>,
    /// Whether to allow listening without TLS on addresses other than loopback.
    pub insist_on_plain: bool,
    /// Callback for connections that end because of an error; `None` to ignore them.
    pub log: Option<Log>,
}

/// A running server. Dropping it stops the server.
pub struct Server {
    exports: Arc<Exports>,
    counters: Arc<Counters>,
    members: Arc<Members>,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    endpoints: Vec<Endpoint>,
    acceptor: Option<JoinHandle<()>>,
    farewell: Duration,
}

impl Server {
    /// Starts a server that listens on all endpoints.
    ///
    /// Raises this process's soft limit of open files, if it is too low for the connections.
    pub fn start(
        exports: Arc<Exports>,
        endpoints: &[Endpoint],
        config: ServerConfig,
    ) -> Result<Self, ListenError> {
        let limits = config.limits;
        // Each connection needs two files, the socket and the waker; the rest of the process needs some as well.
        syscalls::raise_file_limit(2 * u64::from(limits.connections) + 256);
        let plain_anywhere = config.tls.is_some() || config.insist_on_plain;
        let listeners: Result<Vec<Listener>, ListenError> =
            endpoints.iter().map(|e| Listener::open(e, plain_anywhere)).collect();
        let listeners = listeners?;
        let waker = Arc::new(Waker::new().map_err(|e| ListenError::new("an eventfd", &e))?);
        let endpoints = listeners.iter().map(|l| l.endpoint().clone()).collect();
        let counters = Arc::<Counters>::default();
        let members = Arc::<Members>::default();
        let stopping = Arc::<AtomicBool>::default();
        let acceptor = Acceptor {
            exports: Arc::clone(&exports),
            counters: Arc::clone(&counters),
            members: Arc::clone(&members),
            stopping: Arc::clone(&stopping),
            waker: Arc::clone(&waker),
            budget: Arc::new(Budget::new(&limits, Arc::clone(&waker))),
            config,
            next_id: AtomicU64::new(0),
        };
        let acceptor = thread::Builder::new()
            .name("nbd-accept".into())
            .spawn(move || acceptor.run(&listeners))
            .map_err(|e| ListenError::new("a thread", &e))?;
        Ok(Self {
            exports,
            counters,
            members,
            stopping,
            waker,
            endpoints,
            acceptor: Some(acceptor),
            farewell: limits.farewell,
        })
    }

    /// Addresses on which the server listens. Port 0 is replaced by the port that the operating system chose.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Exports of the server. They can be added and removed while it runs.
    pub fn exports(&self) -> &Arc<Exports> {
        &self.exports
    }

    pub fn counters(&self) -> Snapshot {
        self.counters.snapshot()
    }

    /// Stops the server: closes the listeners, reads no more requests, answers pending ones (within the farewell time),
    /// closes all connections, and waits for their threads. Threads that are still busy in a session after twice the
    /// farewell time are abandoned.
    pub fn stop(mut self) {
        self.stop_now();
    }

    fn stop_now(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
        // The acceptor drops its listeners, and with them their socket files.
        let _ = acceptor.join();
        for member in self.members.lock().values() {
            // The thread's receive returns, and it finds that the server is stopping.
            let _ = rustix::net::shutdown(&member.link.socket, rustix::net::Shutdown::Read);
        }
        if self.wait_for_members(self.farewell) {
            return;
        }
        for member in self.members.lock().values() {
            let _ = rustix::net::shutdown(&member.link.socket, rustix::net::Shutdown::Both);
        }
        self.wait_for_members(self.farewell);
    }

    /// Waits until all connections have ended, but not longer than `at_most`. Returns true if they have.
    fn wait_for_members(&self, at_most: Duration) -> bool {
        let map = self.members.lock();
        let (map, _) = self
            .members
            .left
            .wait_timeout_while(map, at_most, |map| !map.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        map.is_empty()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_now();
    }
}

struct Acceptor {
    exports: Arc<Exports>,
    counters: Arc<Counters>,
    members: Arc<Members>,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    budget: Arc<Budget>,
    config: ServerConfig,
    next_id: AtomicU64,
}

impl Acceptor {
    fn run(&self, listeners: &[Listener]) {
        let mut trim_at = None;
        while !self.stopping.load(Ordering::SeqCst) {
            if listen::wait(listeners, &self.waker, trim_at).is_err() {
                // The server can't repair this; try again.
                thread::sleep(Duration::from_millis(50));
            }
            trim_at = self.trim(trim_at);
            for listener in listeners {
                while let Some(accepted) = listener.accept() {
                    let Ok((socket, address)) = accepted else {
                        // Out of files or memory: connections wait in the queue.
                        self.end_oldest_handshake();
                        thread::sleep(Duration::from_millis(20));
                        break;
                    };
                    self.welcome(socket, address);
                }
            }
        }
    }

    /// Trims the buffers of all connections if that was requested and the time `at` has come. Returns the time of the
    /// next trim; `None` if none is due.
    fn trim(&self, at: Option<Instant>) -> Option<Instant> {
        self.waker.reset();
        if !self.budget.has_to_trim() {
            return None;
        }
        let Some(at) = at else { return Some(Instant::now() + TRIM_AFTER) };
        if Instant::now() < at {
            return Some(at);
        }
        self.budget.begin_to_trim();
        let links: Vec<_> = self.members.lock().values().map(|m| Arc::clone(&m.link)).collect();
        for link in links {
            link.trim();
        }
        None
    }

    /// Ends the connection that has been negotiating for the longest time. Returns false if none is negotiating.
    fn end_oldest_handshake(&self) -> bool {
        let members = self.members.lock();
        let negotiating = members.values().filter(|m| !m.phase.agreed.load(Ordering::Relaxed));
        let oldest = negotiating.min_by_key(|m| m.phase.since);
        oldest.is_some_and(|m| {
            rustix::net::shutdown(&m.link.socket, rustix::net::Shutdown::Both).is_ok()
        })
    }

    fn welcome(&self, socket: OwnedFd, address: String) {
        let limits = self.config.limits;
        if self.budget.is_overdrawn() {
            // Otherwise clients that left requests behind could reconnect and add more.
            self.counters.turned_away.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.members.lock().len() >= limits.connections as usize {
            // A thread takes a moment to end; admit a client that connects in between.
            let made = self.end_oldest_handshake();
            let far_over = self.members.lock().len() >= limits.connections as usize + 64;
            if !made || far_over {
                self.counters.turned_away.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let direct = self.config.tls.is_none();
        let (counters, budget) = (Arc::clone(&self.counters), Arc::clone(&self.budget));
        let link = Arc::new(Link::new(id, socket, direct, counters, budget));
        let phase = Arc::new(Phase { since: Instant::now(), agreed: AtomicBool::new(false) });
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        let member = Member { link: Arc::clone(&link), phase: Arc::clone(&phase) };
        self.members.lock().insert(id, member);
        let membership = Membership {
            id,
            members: Arc::clone(&self.members),
            counters: Arc::clone(&self.counters),
            link: Arc::clone(&link),
        };
        let start = Start {
            link,
            exports: Arc::clone(&self.exports),
            tls: self.config.tls.clone(),
            limits,
            address,
            stopping: Arc::clone(&self.stopping),
            phase: Arc::clone(&phase),
        };
        let counters = Arc::clone(&self.counters);
        let log = self.config.log.clone();
        // If no thread can be created, the closure is dropped, and with it the membership.
        let _ = thread::Builder::new().name("nbd".into()).stack_size(limits.stack_bytes).spawn(
            move || {
                let _membership = membership;
                let end = connection::run(&start);
                if matches!(end, End::Violation(_)) {
                    counters.violations.fetch_add(1, Ordering::Relaxed);
                }
                if !phase.agreed.load(Ordering::Relaxed) && !matches!(end, End::Left) {
                    counters.handshakes_failed.fetch_add(1, Ordering::Relaxed);
                }
                if let (Some(log), Some(why)) = (log, end.why()) {
                    log(&start.address, &why);
                }
            },
        );
    }
}
