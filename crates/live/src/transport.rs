//! Latency of a frontend's transport, for compensation: measured when a server starts, and tracked while it serves if
//! a frontend can observe it.
//!
//! A round trip consists of the request's way to the server's thread and the answer's way to the client. Each takes
//! much longer if the receiver sleeps and must be woken, so no single value suits both a load generator that spins
//! and a guest that sleeps. The estimate of the client's part adapts: it converges to the median time from sending an
//! answer to its receipt.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bound of the transport latency that is compensated, ns. A longer measured latency means a busy host or a slow
/// client.
pub const TRANSPORT_MAX_NS: u64 = 100_000;
/// Smallest step by which one answer changes the latency estimate, ns. Larger estimates change by
/// 1/[`STEP_PART`] of their value. About 200 answers move an estimate from 2 to 40 µs.
const STEP_MIN_NS: u64 = 50;
const STEP_PART: u64 = 64;

/// Latencies of the transport between clients and server, such as NBD, ns of real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// Time from a request to its answer if the server's thread is awake, without simulated latency, ns.
    pub round_trip_ns: u64,
    /// Time from sending an answer to its receipt by the client, ns. It is included in the round-trip time.
    pub taking_ns: u64,
    /// Additional latency if the request has to wake the server's thread, ns.
    pub waking_ns: u64,
}

/// Running estimate of the transport's latencies. It adapts to the current client.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    fixed_ns: u64,
    taking_ns: AtomicU64,
    waking_ns: u64,
    follows: bool,
}

impl Followed {
    /// Starts the estimate from measured latencies; `None` turns compensation off.
    pub(crate) fn new(measured: Option<Transport>) -> Self {
        let Some(measured) = measured else { return Self::default() };
        let taking_ns = measured.taking_ns.min(measured.round_trip_ns);
        Self {
            fixed_ns: measured.round_trip_ns - taking_ns,
            taking_ns: AtomicU64::new(taking_ns),
            waking_ns: measured.waking_ns,
            follows: true,
        }
    }

    /// Estimated round trip of the transport, ns. Completions are delivered this much before their simulated
    /// time.
    #[inline]
    pub(crate) fn ahead_ns(&self) -> u64 {
        self.fixed_ns + self.taking_ns.load(Ordering::Relaxed)
    }

    /// Current estimate of the transport's latencies; `None` if they are not compensated.
    pub(crate) fn now(&self) -> Option<Transport> {
        let (taking_ns, waking_ns) = (self.taking_ns.load(Ordering::Relaxed), self.waking_ns);
        let round_trip_ns = self.fixed_ns + taking_ns;
        self.follows.then_some(Transport { round_trip_ns, taking_ns, waking_ns })
    }

    pub(crate) fn waking_ns(&self) -> u64 {
        self.waking_ns
    }

    /// Updates the estimate: a client received an answer `after_ns` after it was sent. A concurrent update may be
    /// lost, which is harmless.
    pub(crate) fn taken(&self, after_ns: u64) {
        if !self.follows || after_ns > TRANSPORT_MAX_NS {
            return;
        }
        let old_ns = self.taking_ns.load(Ordering::Relaxed);
        let step_ns = (old_ns / STEP_PART).max(STEP_MIN_NS);
        let new_ns = if after_ns > old_ns {
            (old_ns + step_ns).min(after_ns)
        } else {
            old_ns.saturating_sub(step_ns).max(after_ns)
        };
        self.taking_ns.store(new_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Transport =
        Transport { round_trip_ns: 8_000, taking_ns: 2_000, waking_ns: 30_000 };

    #[test]
    fn the_estimate_follows_the_median_of_the_present_client() {
        let followed = Followed::new(Some(MEASURED));
        assert_eq!((followed.ahead_ns(), followed.now()), (8_000, Some(MEASURED)));
        // A client that sleeps: 30 to 49 µs, and now and then a delay that is not the transport's.
        let sleeper = |i: u64| if i % 10 == 9 { 5_000_000 } else { 30_000 + i * 7_919 % 20_000 };
        for i in 0..600 {
            followed.taken(sleeper(i));
        }
        assert!((42_000..50_000).contains(&followed.ahead_ns()), "{followed:?}");
        assert_eq!(followed.now().map(|t| t.waking_ns), Some(30_000));
        // A client that spins.
        (0..600).for_each(|i| followed.taken(900 + i % 200));
        assert!((6_900..7_100).contains(&followed.ahead_ns()), "{followed:?}");
    }

    #[test]
    fn without_compensation_nothing_is_followed() {
        let followed = Followed::new(None);
        (0..600).for_each(|_| followed.taken(40_000));
        assert_eq!((followed.ahead_ns(), followed.waking_ns(), followed.now()), (0, 0, None));
    }
}
