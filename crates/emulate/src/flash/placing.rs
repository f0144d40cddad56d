//! The write buffer of a device with several reclaim unit handles: a program operation contains data of one handle.

use super::FlashDevice;
use crate::ftl::Handle;
use std::collections::VecDeque;

/// The units that wait in the buffer, by reclaim unit handle.
#[derive(Clone, Debug)]
pub(super) struct Placing {
    /// Sequence number and handle of each unit, in the order of arrival. The numbers have gaps, where units of another
    /// handle were programmed first.
    waiting: VecDeque<(u64, Handle)>,
    /// Number of waiting units of each handle.
    counts: Vec<u32>,
}

impl Placing {
    pub(super) fn new(handles: Handle) -> Self {
        Self { waiting: VecDeque::new(), counts: vec![0; usize::from(handles)] }
    }

    /// Records that a unit has entered the buffer, with the sequence number `number`.
    pub(super) fn enter(&mut self, number: u64, handle: Handle) {
        self.waiting.push_back((number, handle));
        self.counts[usize::from(handle)] += 1;
    }

    /// Processes a power cut: forgets all units. Those that are kept must be entered again.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.counts.fill(0);
    }

    /// Returns the sequence number of the oldest waiting unit; `None` if no unit waits.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.waiting.front().map(|of| of.0)
    }

    /// Returns the handle of the oldest unit whose handle has at least `units` waiting units, enough for a full program
    /// operation. `None` if no handle has that number.
    fn full(&self, units: u32) -> Option<Handle> {
        let mut of_units = self.waiting.iter().map(|of| of.1);
        of_units.find(|&handle| self.counts[usize::from(handle)] >= units)
    }

    /// Removes the first unit of `handle` at or after the position `from`. Returns its position; `None` if no such unit
    /// waits.
    fn take(&mut self, handle: Handle, from: usize) -> Option<usize> {
        let at = from + self.waiting.iter().skip(from).position(|of| of.1 == handle)?;
        self.waiting.remove(at);
        self.counts[usize::from(handle)] -= 1;
        Some(at)
    }
}

impl FlashDevice {
    /// Returns the handle of the next program operation and the number of its units; `None` if no unit waits. If no
    /// handle has enough units to fill an operation, the result is all units of the oldest unit's handle.
    pub(super) fn next_program(&self) -> Option<(Handle, u32)> {
        let Some(placing) = &self.placing else {
            let waiting = self.buffer.drain.len() as u32;
            return (waiting > 0).then_some((0, waiting.min(self.program_units)));
        };
        let handle = placing.full(self.program_units).or(placing.waiting.front().map(|of| of.1))?;
        Some((handle, placing.counts[usize::from(handle)].min(self.program_units)))
    }

    /// Removes the first unit of `handle` at or after the position `from`, and sets `from` to the unit's position.
    /// Returns the unit. The unit's content stays at this position among the waiting values.
    pub(super) fn take_placed(&mut self, handle: Handle, from: &mut usize) -> u64 {
        let placing = self.placing.as_mut().expect("several handles");
        *from = placing.take(handle, *from).expect("as many as were counted");
        self.buffer.drain.remove(*from).expect("as many as wait")
    }
}
