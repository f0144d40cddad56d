//! The server's counters, for metrics. Connections add their counts once per batch, not per request.

use crate::wire::Kind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a running server. They never decrease, except `connections`.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) violations: AtomicU64,
    pub(crate) requests: [AtomicU64; Kind::COUNT],
    pub(crate) refused: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

/// Values of the server's counters, read at nearly the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of open connections, including those that still negotiate.
    pub connections: u64,
    /// Connections accepted since the server started, except those closed because of a limit.
    pub accepted: u64,
    /// Connections closed immediately because a limit was reached.
    pub turned_away: u64,
    /// Connections that ended during the negotiation, unless the client ended it by the option ABORT.
    pub handshakes_failed: u64,
    /// Connections that ended because the client broke the protocol.
    pub violations: u64,
    /// Requests submitted to an export, indexed by [`Kind`].
    pub requests: [u64; Kind::COUNT],
    /// Requests refused because of their range, alignment or flags, or because the export is read-only.
    pub refused: u64,
    /// Requests that an export answered with an error.
    pub errors: u64,
    /// Bytes of reads submitted to an export.
    pub read_bytes: u64,
    /// Bytes of writes submitted to an export.
    pub written_bytes: u64,
}

impl Counters {
    /// Reads the counters one after another, so their values do not all belong to exactly the same instant.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            connections: self.connections.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            turned_away: self.turned_away.load(Relaxed),
            handshakes_failed: self.handshakes_failed.load(Relaxed),
            violations: self.violations.load(Relaxed),
            requests: std::array::from_fn(|i| self.requests[i].load(Relaxed)),
            refused: self.refused.load(Relaxed),
            errors: self.errors.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
        }
    }
}

/// Counts of one connection that have not been added to the server's counters yet.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: [u64; Kind::COUNT],
    pub(crate) refused: u64,
    pub(crate) errors: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl Tally {
    pub(crate) fn hand_in(&mut self, to: &Counters) {
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Relaxed);
            }
        };
        for (counter, n) in to.requests.iter().zip(self.requests) {
            add(counter, n);
        }
        add(&to.refused, self.refused);
        add(&to.errors, self.errors);
        add(&to.read_bytes, self.read_bytes);
        add(&to.written_bytes, self.written_bytes);
        *self = Self::default();
    }
}
