//! Limits of a log server on the resources that clients may use, and timeouts.

use iodyno_msglog::Layout;
use std::time::Duration;

/// Limits on the resources that clients may use, and timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of authenticated connections.
    pub connections: usize,
    /// Number of authenticated connections, out of [`Self::connections`], that are reserved for Unix sockets.
    pub connections_local: usize,
    /// Maximum number of unauthenticated connections. Applies separately to TCP and Unix sockets.
    pub handshakes: usize,
    /// Timeout for the TLS handshake and the client's hello together, and for sending a final error to an accepted client.
    pub handshake: Duration,
    /// Memory limit for all clients together, beyond a small fixed amount per connection, bytes.
    pub memory_bytes: usize,
    /// Size of a client's encoded replies at which they are sent before more are encoded, bytes. A single chunk may
    /// exceed this size.
    pub send_bytes: usize,
    /// Maximum total size of the recent chunks cached in memory for subscribers, bytes.
    pub recent_bytes: usize,
    /// Maximum number of streams with read-ahead threads and buffers; other streams read on demand.
    pub readers_ahead: usize,
    /// Time after which a stopping server disconnects the clients that are still connected.
    pub stop: Duration,
    /// Idle time after which an end marker is appended to the log: an empty chunk that declares all earlier chunks
    /// durable.
    pub idle: Duration,
    /// Time without progress after which a client is disconnected, because it does not read or leaves a frame
    /// incomplete.
    pub stall: Duration,
    /// Replaces [`Self::stall`] for a client that occupies memory while another client waits for memory. Also the idle
    /// time after which large buffers are released.
    pub short_stall: Duration,
    /// Time limit for sending a refused client the error, and for any client to close the connection after a final error.
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
    /// Maximum number of recent chunks cached in memory for subscribers, at least 4.
    pub(crate) fn recent_chunks(&self, layout: &Layout) -> usize {
        (self.recent_bytes / layout.chunk_bytes as usize).max(4)
    }
}
