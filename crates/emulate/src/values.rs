//! Values of 4 KiB units on their way between parts, where content is kept: those that a request writes, and those
//! that a read of an array has returned. A device stores a value for each unit; a request whose units all have the
//! value of its token has no entry here.
//!
//! A value is 8 bytes, and arithmetic of parity takes them as the bytes of the unit. 0 is a unit that was never
//! written, and a unit of zeroes.
//!
//! Where the owner follows content, it has the bytes, and a value that an array works with is a name for those of one
//! unit. Each step that makes such a value is a content event, and the owner does the same with bytes.

use iodyno_raid::gf;
use std::collections::{BTreeMap, VecDeque};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// By slot: the values of its units, in order.
    of: BTreeMap<u32, Vec<u64>>,
    /// Of completed reads of hosts that are not collected: the number of the completion, and the values.
    read: VecDeque<(u64, Vec<u64>)>,
    /// Of the completion that was collected last.
    pub last: Option<Vec<u64>>,
    /// Where values are names: the next.
    pub next_name: Option<u64>,
}

impl Values {
    /// The values of a request's units.
    pub(crate) fn set(&mut self, slot: u32, values: Vec<u64>) {
        self.of.insert(slot, values);
    }

    /// The value of a request's unit, by its number in the request.
    pub(crate) fn of(&self, slot: u32, index: u64) -> Option<u64> {
        self.of.get(&slot).map(|values| values[index as usize])
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, slot: u32) -> Option<&mut Vec<u64>> {
        self.of.get_mut(&slot)
    }

    pub(crate) fn take(&mut self, slot: u32) -> Option<Vec<u64>> {
        if self.of.is_empty() { None } else { self.of.remove(&slot) }
    }

    /// Those of all requests.
    pub(crate) fn take_all(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.of).into_values().flatten().collect()
    }

    /// The request of a host in `slot` ends as completion `number`.
    pub(crate) fn completed(&mut self, slot: u32, number: u64, failed: bool) {
        if let Some(values) = self.take(slot)
            && !failed
        {
            self.read.push_back((number, values));
        }
    }

    /// Completion `number` is collected.
    pub(crate) fn collected(&mut self, number: u64) {
        let is_next = self.read.front().is_some_and(|read| read.0 == number);
        self.last = if is_next { self.read.pop_front().map(|read| read.1) } else { None };
    }

    /// The power fails: no request survives.
    pub(crate) fn power_cut(&mut self) {
        *self = Self { next_name: self.next_name, ..Self::default() };
    }
}

/// Names of values are not tokens of hosts, nor 0.
pub(crate) const FIRST_NAME: u64 = 1 << 63;

/// The sum of values in GF(2^8), each multiplied by its factor.
pub(crate) fn combine(terms: &[(u8, u64)]) -> u64 {
    let times = |&(factor, value): &(u8, u64)| match factor {
        1 => value,
        _ => u64::from_le_bytes(value.to_le_bytes().map(|byte| gf::mul(byte, factor))),
    };
    terms.iter().map(times).fold(0, |sum, value| sum ^ value)
}
