//! Limits of a server: what its clients may hold of it, and for how long.

use iodyno_msglog::Layout;
use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Time limit of TLS and of the hello, and of a last error to be taken.
    pub handshake: Duration,
    /// Bytes that are encoded for a client before it takes them: this and one chunk.
    pub send_bytes: usize,
    /// Bytes of the latest chunks that are kept in memory for subscribers.
    pub recent_bytes: usize,
    /// Time for connections to end in order when the server stops.
    pub stop: Duration,
    /// Time for a client to close its end behind an error.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshake: Duration::from_secs(10),
            send_bytes: 256 << 10,
            recent_bytes: 8 << 20,
            stop: Duration::from_secs(5),
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
