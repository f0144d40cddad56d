//! The clock of a served machine: converts between simulated and real time. If this computer simulates too slowly, the
//! simulated time is held back, so that the machine does not lag behind its own clock.

use super::{Inner, Live, Now, Sink};
use std::sync::atomic::{AtomicU64, Ordering};

/// Fraction of the elapsed time up to which the time held back is that of single interruptions, such as a preemption.
pub(crate) const HELD_BACK_SHARE: f64 = 0.01;

/// Start, speed and delay of the simulated time.
#[derive(Debug)]
pub(super) struct Clock {
    now: Now,
    begin_ns: u64,
    /// Time by which the simulated time was held back, ns of real time.
    held_back_ns: AtomicU64,
    dilation: Option<f64>,
}

impl Clock {
    /// Starts the simulated time now. `dilation`: factor by which it is stretched; `None`: 1.
    pub(super) fn new(now: Now, dilation: Option<f64>) -> Self {
        Self { now, begin_ns: now(), held_back_ns: AtomicU64::new(0), dilation }
    }

    fn held_back_ns(&self) -> u64 {
        self.held_back_ns.load(Ordering::Relaxed)
    }
}

impl<S: Sink> Live<S> {
    /// Factor by which simulated times are multiplied in real time; `None`: 1.
    pub fn dilation(&self) -> Option<f64> {
        self.clock.dilation
    }

    /// Time by which the simulated time was held back since the start because this computer simulates too slowly, ns of
    /// real time.
    pub fn held_back_ns(&self) -> u64 {
        self.clock.held_back_ns()
    }

    /// Whether the simulated time was held back for a relevant part of the time since the start.
    pub fn is_held_back(&self) -> bool {
        let elapsed_ns = self.now_ns().saturating_sub(self.clock.begin_ns);
        self.held_back_ns() as f64 > HELD_BACK_SHARE * elapsed_ns as f64
    }

    /// Converts a reading of the real clock to simulated time, ns.
    pub(crate) fn machine_ns(&self, real_ns: u64) -> u64 {
        let begin_ns = self.clock.begin_ns.saturating_add(self.clock.held_back_ns());
        let passed = real_ns.saturating_sub(begin_ns);
        self.clock.dilation.map_or(passed, |k| (passed as f64 / k) as u64)
    }

    /// Converts a simulated time to a reading of the real clock, ns.
    pub fn real_ns(&self, machine_ns: u64) -> u64 {
        let passed = self.clock.dilation.map_or(machine_ns, |k| (machine_ns as f64 * k) as u64);
        let begin_ns = self.clock.begin_ns.saturating_add(self.clock.held_back_ns());
        begin_ns.saturating_add(passed)
    }

    /// Current time of the real clock, ns.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        (self.clock.now)()
    }

    /// Simulated time of an input at real time `now_ns`: not earlier than the machine's time or the last input, ns.
    pub(super) fn input_ns(&self, inner: &Inner<S>, now_ns: u64) -> u64 {
        self.machine_ns(now_ns).max(inner.machine.now_ns()).max(inner.submitted_ns)
    }

    /// Holds the simulated time back to before the machine's next event, at simulated time `next_ns`. Inputs then enter
    /// the machine after all events that precede them, as in a replay. Call it under the lock.
    pub(super) fn hold_back(&self, next_ns: u64) {
        let lag_ns = self.now_ns().saturating_sub(self.real_ns(next_ns));
        // Rounding must not bring the event's time back.
        let margin_ns = self.clock.dilation.map_or(1, |k| 1 + k.ceil() as u64);
        self.clock.held_back_ns.fetch_add(lag_ns.saturating_add(margin_ns), Ordering::Relaxed);
    }
}
