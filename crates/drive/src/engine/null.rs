//! The null engine: every operation completes immediately and moves nothing. It measures the generator
//! itself.

use super::{About, Engine, Facts, Seat, Wait};
use iodyno_units::Op;
use std::io;

pub(super) const ABOUT: About = About { queues: true, in_process: true, ..About::new("null") };

/// Runs a worker on the null engine, without buffers.
pub(super) fn run(seat: impl Seat) {
    let mut engine = NullEngine::new(seat.slots());
    seat.run(&mut engine, None, Facts::new());
}

/// Engine without storage, for one worker.
#[derive(Debug)]
pub struct NullEngine {
    done: Vec<(u32, i32)>,
}

impl NullEngine {
    /// Creates an engine for at most `slots` operations in flight.
    pub fn new(slots: u32) -> Self {
        Self { done: Vec::with_capacity(slots as usize) }
    }
}

impl Engine for NullEngine {
    #[inline]
    fn queue(&mut self, slot: u32, op: &Op) {
        // Within the capacity: the worker never has more operations in flight than slots.
        self.done.push((slot, op.len_bytes as i32));
    }

    #[inline]
    fn turn(&mut self, _: Wait) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        for &(slot, result) in &self.done {
            done(slot, result);
        }
        self.done.clear();
    }
}
