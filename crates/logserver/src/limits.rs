//! Limits of a server: the resources and times that it allows its clients.

use iodyno_msglog::Layout;
use std::time::Duration;

/// Limits on the resources and times that a server allows its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of authenticated connections.
    pub connections: usize,
    /// Number of authenticated connections that are reserved for Unix sockets.
    pub connections_local: usize,
    /// Maximum number of unauthenticated connections, for TCP and Unix sockets each.
    pub handshakes: usize,
    /// Time limit for the TLS handshake and the hello together, and for sending an error at the end.
    pub handshake: Duration,
    /// Memory that all clients share, beyond each connection's own allowance, bytes.
    pub memory_bytes: usize,
    /// Maximum size of replies encoded for a client ahead of sending, bytes; one more chunk may be added.
    pub send_bytes: usize,
    /// Maximum size of recent chunks kept in memory for subscribers, bytes.
    pub recent_bytes: usize,
    /// Maximum number of streams with read-ahead, which takes threads and memory; other streams read on demand.
    pub readers_ahead: usize,
    /// Time for connections to end by themselves when the server stops.
    pub stop: Duration,
    /// Idle time after which the log gets an end marker, a chunk that states that everything before it is durable.
    pub idle: Duration,
    /// Time after which a client that reads nothing, or leaves a frame unfinished, is disconnected.
    pub stall: Duration,
    /// Time limit like `stall` for a client that occupies memory for which another client waits. Unused buffers are
    /// also released after this time.
    pub short_stall: Duration,
    /// Time for a client to close its end of the connection after an error was sent.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_local: 64,
            handshakes: 256,
            handshake: Duration::from_secs(5),
            memory_bytes: 1 << 30,
            send_bytes: 256 << 10,
            recent_bytes: 8 << 20,
            readers_ahead: 16,
            stop: Duration::from_secs(2),
            idle: Duration::from_secs(1),
            stall: Duration::from_secs(300),
            short_stall: Duration::from_secs(1),
            linger: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// Number of recent chunks kept in memory, 4 or more.
    pub(crate) fn recent_chunks(&self, layout: &Layout) -> usize {
        (self.recent_bytes / layout.chunk_bytes as usize).max(4)
    }
}
