//! A time slice of a scan. A scan that finds nothing to send stops after some milliseconds, so that its thread can
//! check whether the client is gone, other replies are due, or the server ends. A connection whose scans take many
//! slices waits for one of the [`Gate`]'s few permits.

use crate::gate::{Gate, Pass};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum duration of a time slice. The next constant, [`WAIT`], limits the wait for permission to scan.
const TIME: Duration = Duration::from_millis(20);
const WAIT: Duration = Duration::from_millis(100);
/// Maximum number of evaluation steps per time slice; see [`iodyno_msglog::Effort`].
const STEPS: u64 = 2 << 20;
/// Burst allowance: maximum number of evaluation steps that a connection can save up to scan without
/// permission. It is refilled by [`STEPS_OF_MS`] per millisecond, which is 1 % of a CPU.
const FREE_STEPS: u64 = 1 << 20;
const STEPS_OF_MS: u64 = 2500;
/// Steps of costly work after which a thread offers its processor to others, about 0.1 ms. Otherwise a publisher's
/// thread, or the publisher itself, could wait for the scheduler's whole time slice of some ms.
const STEPS_TO_YIELD: u64 = 10_000;

/// Budget of evaluation steps that a connection may take without permission for a costly scan (a token
/// bucket).
#[derive(Debug)]
pub(crate) struct Allowance {
    steps: u64,
    at: Instant,
}

impl Allowance {
    pub(crate) fn new() -> Self {
        Self { steps: FREE_STEPS, at: Instant::now() }
    }

    fn refill(&mut self, now: Instant) {
        let ms = now.saturating_duration_since(self.at).as_millis() as u64;
        if ms > 0 {
            self.steps = FREE_STEPS.min(self.steps + ms.saturating_mul(STEPS_OF_MS));
            self.at = now;
        }
    }
}

/// Error: the time slice is used up, or permission to scan was not available in time.
#[derive(Debug)]
pub(crate) struct Over;

/// A time slice of a connection's scan in progress.
pub(crate) struct Slice<'a> {
    gate: &'a Gate,
    allowance: &'a mut Allowance,
    began: Instant,
    steps: u64,
    /// Steps since the thread last offered its processor to others.
    unyielded: u64,
}

impl<'a> Slice<'a> {
    pub(crate) fn new(gate: &'a Gate, allowance: &'a mut Allowance) -> Self {
        let began = Instant::now();
        allowance.refill(began);
        Self { gate, allowance, began, steps: 0, unyielded: 0 }
    }

    /// Allows the next part of the scan, or ends the slice. If the connection's own budget is used up, waits for
    /// permission to scan and returns it.
    pub(crate) fn next(&self) -> Result<Option<Pass<'a>>, Over> {
        if self.is_spent() || self.began.elapsed() >= TIME {
            return Err(Over);
        }
        if self.allowance.steps > 0 { Ok(None) } else { self.gate.pass(WAIT).map(Some).ok_or(Over) }
    }

    /// Charges evaluation steps to the slice. Returns true if the slice has no steps left.
    pub(crate) fn spends(&mut self, steps: u64) -> bool {
        self.steps += steps;
        self.allowance.steps = self.allowance.steps.saturating_sub(steps);
        self.unyielded += steps;
        if self.unyielded >= STEPS_TO_YIELD && self.allowance.steps == 0 {
            self.unyielded = 0;
            thread::yield_now();
        }
        self.is_spent()
    }

    fn is_spent(&self) -> bool {
        self.steps >= STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_work_needs_a_place_and_ends() {
        let (gate, mut allowance) = (Gate::new(), Allowance::new());
        let mut slice = Slice::new(&gate, &mut allowance);
        assert!(matches!(slice.next(), Ok(None)) && !slice.spends(FREE_STEPS));
        // Unless the steps above took 20 ms.
        assert!(matches!(slice.next(), Ok(Some(_)) | Err(Over)));
        assert!(slice.spends(STEPS) && slice.next().is_err());
        let places: Vec<_> = std::iter::from_fn(|| gate.pass(Duration::ZERO)).collect();
        allowance.at = Instant::now() + Duration::from_secs(60);
        assert!(!places.is_empty() && Slice::new(&gate, &mut allowance).next().is_err());
        // After a time some steps are free again.
        allowance.refill(allowance.at + Duration::from_millis(2));
        assert_eq!(allowance.steps, 2 * STEPS_OF_MS);
    }
}
