//! What a flash device holds, where bytes are kept: each 4 KiB unit as the value that its last
//! write brought. A value is in the buffer until its program ends, then in flash; a power cut
//! leaves what each of the two keeps.

use std::collections::{BTreeMap, VecDeque};

/// One unit's value, and the order in which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub unit: u64,
    pub value: u64,
    pub sequence: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Content {
    flash: BTreeMap<u64, (u64, u64)>,
    buffer: BTreeMap<u64, (u64, u64)>,
    /// In step with the units that wait to be programmed.
    waiting: VecDeque<Stored>,
    sequence: u64,
}

impl Content {
    /// A unit enters the buffer.
    pub(super) fn accept(&mut self, unit: u64, value: u64) {
        self.sequence += 1;
        self.buffer.insert(unit, (value, self.sequence));
        self.waiting.push_back(Stored { unit, value, sequence: self.sequence });
    }

    /// The oldest that waits goes to a program.
    pub(super) fn take(&mut self) -> Option<Stored> {
        self.waiting.pop_front()
    }

    /// It is programmed. Programs may end in another order than they began: the newest stays. Gives
    /// whether this is it.
    pub(super) fn programmed(&mut self, stored: Stored) -> bool {
        let Stored { unit, value, sequence } = stored;
        let newest = self.flash.entry(unit).or_insert((value, sequence));
        let landed = newest.1 <= sequence;
        if landed {
            *newest = (value, sequence);
        }
        if self.buffer.get(&unit).is_some_and(|b| b.1 == sequence) {
            self.buffer.remove(&unit);
        }
        landed
    }

    /// What a read of the unit gives.
    pub(super) fn get(&self, unit: u64) -> Option<u64> {
        self.buffer.get(&unit).or(self.flash.get(&unit)).map(|v| v.0)
    }

    /// The unit holds nothing any more. (What waits in the buffer came later.) Gives whether
    /// something does.
    pub(super) fn trim(&mut self, unit: u64) -> bool {
        self.flash.remove(&unit);
        self.buffer.contains_key(&unit)
    }

    /// The power fails. What was on its way to flash is in the buffer still; gives, oldest first,
    /// the units that must be programmed again.
    pub(super) fn power_cut(&mut self, protected: bool) -> Vec<u64> {
        self.waiting.clear();
        if !protected {
            self.buffer.clear();
            return Vec::new();
        }
        let mut kept: Vec<Stored> = self
            .buffer
            .iter()
            .map(|(&unit, &(value, sequence))| Stored { unit, value, sequence })
            .collect();
        kept.sort_by_key(|s| s.sequence);
        self.waiting.extend(kept.iter().copied());
        kept.into_iter().map(|s| s.unit).collect()
    }
}
