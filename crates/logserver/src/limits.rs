//! Limits of a server: resources and times allowed to its clients.

use iodyno_msglog::Layout;
use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most authenticated connections at a time.
    pub connections: usize,
    /// Number of them reserved for Unix sockets.
    pub connections_local: usize,
    /// Most unauthenticated connections at a time, for TCP and Unix sockets each.
    pub handshakes: usize,
    /// Time limit of the TLS handshake and the hello, and for sending a last error.
    pub handshake: Duration,
    /// Memory that all clients share, beyond each connection's own allowance, bytes.
    pub memory_bytes: usize,
    /// Most bytes encoded for a client before it reads them, plus one chunk.
    pub send_bytes: usize,
    /// Most bytes of recent chunks kept in memory for subscribers.
    pub recent_bytes: usize,
    /// Most streams that read the target ahead, with threads and memory of their own; others read on demand.
    pub readers_ahead: usize,
    /// Time for connections to end in order when the server stops.
    pub stop: Duration,
    /// Idle time after which the log gets an end marker, a chunk stating that all before it is durable.
    pub idle: Duration,
    /// Time after which a client that reads nothing, or leaves a frame unfinished, is disconnected.
    pub stall: Duration,
    /// Shorter limit for a client that holds memory for which another one waits. Unused buffers are also released
    /// after this time.
    pub short_stall: Duration,
    /// Time for a client to close its end after an error was sent.
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
