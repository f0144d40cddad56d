//! Limits of a server: what its clients may hold of it, and for how long.

use iodyno_msglog::Layout;
use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time that have shown their token.
    pub connections: usize,
    /// How many of them are kept for Unix sockets.
    pub connections_local: usize,
    /// Connections at a time that have not, over TCP and over Unix sockets each.
    pub handshakes: usize,
    /// Time limit of TLS and of the hello, and of a last error to be taken.
    pub handshake: Duration,
    /// Memory that clients may hold together, beyond what each connection has of its own, bytes.
    pub memory_bytes: usize,
    /// Bytes that are encoded for a client before it takes them: this and one chunk.
    pub send_bytes: usize,
    /// Bytes of the latest chunks that are kept in memory for subscribers.
    pub recent_bytes: usize,
    /// Streams that read the target ahead, by threads and memory of their own; others read when they need it.
    pub readers_ahead: usize,
    /// Time for connections to end in order when the server stops.
    pub stop: Duration,
    /// A log to which nothing comes for so long gets a chunk that says that all of it is durable.
    pub idle: Duration,
    /// A client that takes nothing of what is sent to it for so long, or that leaves a frame unfinished, is disconnected.
    pub stall: Duration,
    /// The same, for a client that holds memory for which another one waits. A buffer that is not used for so long is given back.
    pub short_stall: Duration,
    /// Time for a client to close its end behind an error.
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
    /// Chunks that are kept in memory: 4 or more.
    pub(crate) fn recent_chunks(&self, layout: &Layout) -> usize {
        (self.recent_bytes / layout.chunk_bytes as usize).max(4)
    }
}
