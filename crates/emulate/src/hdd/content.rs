//! Content of a disk, if the emulation stores content: for each 4 KiB unit its value, the token of the unit's last
//! write. The disk's journal tells whether a value is in the volatile buffer, in transfer to the medium, or on the
//! medium. Only the values on the medium survive a power cut. On a real disk, a write that a power cut interrupts may
//! leave some sectors with new data and others with old data. Here all sectors keep the old data.

use crate::content_event::UNIT_BYTES;
use crate::disk::WriteRange;
use std::collections::BTreeMap;
use std::ops::Range;

/// Values of a disk's units: in the buffer, in transfer to the medium (`moving`), or on the medium.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// For each unit in the buffer: its value, and the sequence number of its write.
    buffer: BTreeMap<u64, (u64, u64)>,
    moving: BTreeMap<u64, u64>,
    medium: BTreeMap<u64, u64>,
}

/// Returns the units that a range of bytes covers in full or in part.
pub(super) fn units(offset_bytes: u64, len_bytes: u64) -> Range<u64> {
    offset_bytes / UNIT_BYTES..(offset_bytes + len_bytes).div_ceil(UNIT_BYTES)
}

/// Returns the units whose value a write or zeroing changes. Zeroing a part of a unit keeps the unit's value, the token
/// of its last write.
pub(super) fn written_units(offset_bytes: u64, len_bytes: u64, is_write: bool) -> Range<u64> {
    if is_write {
        return units(offset_bytes, len_bytes);
    }
    offset_bytes.div_ceil(UNIT_BYTES)..(offset_bytes + len_bytes) / UNIT_BYTES
}

impl Content {
    /// Records a unit of an acknowledged write whose data is only in the buffer. `seq`: the write's sequence number.
    pub(super) fn accepted(&mut self, unit: u64, value: u64, seq: u64) {
        self.buffer.insert(unit, (value, seq));
    }

    /// Records that the heads begin to write a range from the buffer to the medium.
    pub(super) fn taken(&mut self, range: WriteRange) {
        for unit in units(range.offset_bytes, range.len_bytes) {
            if let Some((value, _)) = self.buffer.remove(&unit) {
                self.moving.insert(unit, value);
            }
        }
    }

    /// Records that the range being destaged has reached the medium. Calls `tell` with the number and value of
    /// each unit.
    pub(super) fn landed(&mut self, mut tell: impl FnMut(u64, u64)) {
        for (&unit, &value) in &self.moving {
            tell(unit, value);
        }
        self.medium.append(&mut self.moving);
    }

    /// Records that a write with sequence number `seq` has bypassed the buffer and put `value` (`None`: zeroes) on the
    /// medium. Drops an older value of the unit from the buffer. Returns whether the buffer has a newer one.
    pub(super) fn written(&mut self, unit: u64, value: Option<u64>, seq: u64) -> bool {
        if self.buffer.get(&unit).is_some_and(|b| b.1 < seq) {
            self.buffer.remove(&unit);
        }
        match value {
            Some(value) => self.medium.insert(unit, value),
            None => self.medium.remove(&unit),
        };
        self.buffer.contains_key(&unit)
    }

    /// Returns the value that a read of the unit would return; `None`: never written.
    pub(super) fn get(&self, unit: u64) -> Option<u64> {
        let buffered = self.buffer.get(&unit).map(|b| b.0);
        buffered.or_else(|| self.moving.get(&unit).or(self.medium.get(&unit)).copied())
    }

    /// Drops the values that are not on the medium yet.
    pub(super) fn power_cut(&mut self) {
        self.buffer.clear();
        self.moving.clear();
    }
}
