//! Values of 4 KiB units in transit between components, if the emulation stores content: those that a request writes,
//! and those that a read of an array returned. A device stores one value per unit. A request has no entry here if the
//! value of all its units is the request's token.
//!
//! A value has 8 bytes, which parity arithmetic uses as if they were the unit's bytes. The value 0 means a unit of
//! zeroes, or one that was never written.
//!
//! If the library's caller stores the bytes, a value in an array is a name for the bytes of one unit. Each step that
//! computes such a value is reported as a content event, so that the caller can repeat the step with the bytes.

use iodyno_raid::gf;
use std::collections::{BTreeMap, VecDeque};

/// Values of units on their way between components.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// For each request, by index: the values of its units, in address order.
    of: BTreeMap<u32, Vec<u64>>,
    /// Completed reads of hosts that have not been collected: number of the completion, and the values.
    read: VecDeque<(u64, Vec<u64>)>,
    /// Values that the last collected completion returned; `None` unless it was a read with values.
    pub last: Option<Vec<u64>>,
    /// The next unused content identifier; `None` if the library's caller does not store content.
    pub next_name: Option<u64>,
}

impl Values {
    /// Sets the values of all units of a request.
    pub(crate) fn set(&mut self, slot: u32, values: Vec<u64>) {
        self.of.insert(slot, values);
    }

    /// Returns the value of a request's unit; `index` counts from the request's first unit. `None` if the request has
    /// no values.
    pub(crate) fn of(&self, slot: u32, index: u64) -> Option<u64> {
        self.of.get(&slot).map(|values| values[index as usize])
    }

    /// Returns the values of a request as a mutable reference; `None` if it has none.
    pub(crate) fn of_mut(&mut self, slot: u32) -> Option<&mut Vec<u64>> {
        self.of.get_mut(&slot)
    }

    pub(crate) fn take(&mut self, slot: u32) -> Option<Vec<u64>> {
        if self.of.is_empty() { None } else { self.of.remove(&slot) }
    }

    /// Removes and returns the values of all requests.
    pub(crate) fn take_all(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.of).into_values().flatten().collect()
    }

    /// Moves the values of a host's read to the completed reads. `number` is the number of the completion.
    pub(crate) fn completed(&mut self, slot: u32, number: u64, failed: bool) {
        if let Some(values) = self.take(slot)
            && !failed
        {
            self.read.push_back((number, values));
        }
    }

    /// Makes the values of completion `number` available in `last`.
    pub(crate) fn collected(&mut self, number: u64) {
        let is_next = self.read.front().is_some_and(|read| read.0 == number);
        self.last = if is_next { self.read.pop_front().map(|read| read.1) } else { None };
    }

    /// Drops all values after a power failure.
    pub(crate) fn power_cut(&mut self) {
        *self = Self { next_name: self.next_name, ..Self::default() };
    }
}

/// The first name (identifier of content). Chosen so that names differ from hosts' tokens and from 0.
pub(crate) const FIRST_NAME: u64 = 1 << 63;

/// Multiplies each value by its factor and returns the sum, in GF(2^8).
pub(crate) fn combine(terms: &[(u8, u64)]) -> u64 {
    let times = |&(factor, value): &(u8, u64)| match factor {
        1 => value,
        _ => u64::from_le_bytes(value.to_le_bytes().map(|byte| gf::mul(byte, factor))),
    };
    terms.iter().map(times).fold(0, |sum, value| sum ^ value)
}
