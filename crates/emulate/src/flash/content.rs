//! Content of a flash device, if the emulation stores content: for each 4 KiB unit, the token of its last write. A
//! value is in the buffer until its program operation ends, then in flash. Flash and a protected buffer keep their
//! values in a power cut.
//!
//! If every page is in the map, flash stores values by slot: a program operation stores them in its slots, a copy
//! moves the value of its source, an erase removes the values of a whole block, and reads follow the map. Thus a
//! wrong map, or a block erased too soon, returns wrong content. If only a sample of pages is in the map, most units
//! have no slot, and values are stored by unit number.

use super::FlashDevice;
use super::stored_runs::{Stored, StoredRuns};
use crate::content_event::ContentEvent;
use crate::core::Core;
use crate::ftl::{Ftl, Residence};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Values stored in the flash cells, by physical or logical location.
#[derive(Clone, Debug)]
enum Cells {
    /// By physical location (slot), if every page is in the map. Slots programmed before the emulator began to keep
    /// content have no entry.
    Placed(BTreeMap<u32, Stored>),
    /// By logical unit, if only a sample of pages is in the map.
    Unplaced(StoredRuns),
}

/// The values in the buffer and in the flash of a device.
#[derive(Clone, Debug)]
pub(super) struct Content {
    cells: Cells,
    buffer: BTreeMap<u64, Stored>,
    /// Values of the units that wait to be programmed, in the order of programming; `None` for units accepted before
    /// the emulator began to keep content.
    waiting: VecDeque<Option<Stored>>,
    sequence: u64,
}

impl Content {
    /// Creates the content store of a device that has `waiting` units in its buffer. `exact`: every page is in the map,
    /// so flash stores values by slot.
    fn new(exact: bool, waiting: usize) -> Self {
        let cells = if exact {
            Cells::Placed(BTreeMap::new())
        } else {
            Cells::Unplaced(StoredRuns::default())
        };
        let waiting = std::iter::repeat_n(None, waiting).collect();
        Self { cells, buffer: BTreeMap::new(), waiting, sequence: 0 }
    }

    pub(super) fn accept(&mut self, unit: u64, value: u64) {
        self.sequence += 1;
        let stored = Stored { unit, value, sequence: self.sequence, moved: false };
        self.buffer.insert(unit, stored);
        self.waiting.push_back(Some(stored));
    }

    /// Removes and returns the waiting value at a position in the order of programming; `None` if the value is not
    /// stored.
    pub(super) fn take_at(&mut self, index: usize) -> Option<Stored> {
        self.waiting.remove(index).flatten()
    }

    /// Removes the waiting value at a position in the order of programming, because it will not be programmed.
    pub(super) fn forget(&mut self, index: usize, unit: u64) {
        self.waiting.remove(index);
        self.buffer.remove(&unit);
    }

    /// Returns the value of a unit in flash, to be programmed again; `None` if no value is stored.
    pub(super) fn moved(&self, unit: u64, ftl: &Ftl) -> Option<Stored> {
        self.in_flash(unit, ftl).map(|stored| Stored { moved: true, ..stored })
    }

    fn in_flash(&self, unit: u64, ftl: &Ftl) -> Option<Stored> {
        match &self.cells {
            Cells::Unplaced(cells) => cells.get(unit),
            Cells::Placed(cells) => match ftl.find(unit) {
                Residence::Slot(slot) => cells.get(&slot).copied(),
                Residence::Unwritten | Residence::NotRepresented => None,
            },
        }
    }

    /// Stores a programmed value, in its physical slot if values are stored by slot. Returns whether it is
    /// the newest value in flash. Always true with a slot, because the map decides which slot is current.
    fn programmed(&mut self, stored: Stored, slot: Option<u32>) -> bool {
        let Stored { unit, sequence, .. } = stored;
        if self.buffer.get(&unit).is_some_and(|b| b.sequence == sequence) {
            self.buffer.remove(&unit);
        }
        match (&mut self.cells, slot) {
            (Cells::Placed(cells), Some(slot)) => {
                cells.insert(slot, stored);
                true
            }
            (Cells::Placed(_), None) => {
                unreachable!("content is stored by slot, so a slot must be given")
            }
            // Program operations may end in another order than they began: keep the newest.
            (Cells::Unplaced(cells), _) => {
                let is_newest = cells.get(unit).is_none_or(|held| held.sequence <= sequence);
                if is_newest {
                    cells.insert(stored);
                }
                is_newest
            }
        }
    }

    /// Returns the value in a physical slot, read for a copy; `None` if no value is stored.
    pub(super) fn sensed(&self, slot: u32) -> Option<Stored> {
        match &self.cells {
            Cells::Placed(cells) => cells.get(&slot).copied(),
            Cells::Unplaced(_) => None,
        }
    }

    /// Stores the value of a copy in its new physical slot.
    fn copied(&mut self, stored: Option<Stored>, slot: u32) {
        if let Cells::Placed(cells) = &mut self.cells {
            match stored {
                Some(stored) => cells.insert(slot, stored),
                None => cells.remove(&slot),
            };
        }
    }

    /// Removes the values of erased physical slots.
    pub(super) fn erased(&mut self, slots: std::ops::Range<u32>) {
        if let Cells::Placed(cells) = &mut self.cells {
            let gone: Vec<u32> = cells.range(slots).map(|(&slot, _)| slot).collect();
            for slot in gone {
                cells.remove(&slot);
            }
        }
    }

    /// Removes trimmed units from flash, if values are stored by unit; otherwise the map does this. Returns
    /// the trimmed units with newer values in the buffer, in ascending order.
    pub(super) fn trim(&mut self, units: &Range<u64>) -> Vec<u64> {
        if let Cells::Unplaced(cells) = &mut self.cells {
            cells.remove(units);
        }
        self.buffer.range(units.clone()).map(|(&unit, _)| unit).collect()
    }

    /// Drops from the buffer the values that are being programmed, as an injected bug.
    pub(super) fn forget_programs(&mut self) {
        let waits = |s: &Stored| self.waiting.iter().flatten().any(|w| w.sequence == s.sequence);
        self.buffer.retain(|_, stored| waits(stored));
    }

    /// Processes a power failure. Values being programmed are still in the buffer. A buffer that is not `protected`
    /// loses its values. Returns the units that must be programmed again, oldest first.
    pub(super) fn power_cut(&mut self, protected: bool) -> Vec<u64> {
        self.waiting.clear();
        if !protected {
            self.buffer.clear();
            return Vec::new();
        }
        let mut kept: Vec<Stored> = self.buffer.values().copied().collect();
        kept.sort_by_key(|s| s.sequence);
        self.waiting.extend(kept.iter().map(|&s| Some(s)));
        kept.into_iter().map(|s| s.unit).collect()
    }
}

impl FlashDevice {
    /// Stores the content of writes from now on.
    pub(crate) fn keep_content(&mut self) {
        if self.content.is_none() {
            self.content = Some(Content::new(self.represent == 1, self.buffer.drain.len()));
            self.ftl.record_erased();
        }
    }

    /// Returns the token that a read of a 4 KiB unit would return; `None` if the unit has not been written
    /// since content storage was turned on.
    pub(crate) fn unit_value(&self, unit: u64) -> Option<u64> {
        let content = self.content.as_ref()?;
        let buffered = content.buffer.get(&unit).copied();
        let stored = buffered.or_else(|| content.in_flash(unit, &self.ftl));
        stored.map(|s| s.value)
    }

    /// Returns the token that a read of a 4 KiB unit would return after a power failure without protection.
    pub(super) fn durable_value(&self, unit: u64) -> Option<u64> {
        self.content.as_ref()?.in_flash(unit, &self.ftl).map(|stored| stored.value)
    }

    /// Stores a host's unit after its program operation and the update of the map. `slot` is its physical location, if
    /// values are stored by location.
    pub(super) fn land(&mut self, core: &mut Core, stored: Stored, slot: Option<u32>) {
        let Some(content) = &mut self.content else { return };
        let newest = content.programmed(stored, slot);
        let Stored { unit, value: token, moved, .. } = stored;
        let read_there = slot.is_none_or(|slot| self.ftl.find(unit) == Residence::Slot(slot));
        if newest && read_there && !moved {
            core.tell(ContentEvent::Landed { part: self.part, unit, token });
        }
    }

    /// Stores a copy that was programmed into the physical slot `slot`.
    pub(super) fn land_copy(&mut self, stored: Option<Stored>, slot: u32) {
        if let Some(content) = &mut self.content {
            content.copied(stored, slot);
        }
    }

    /// Erases the victim while copies of its data are still in flight, as an injected bug.
    #[cold]
    pub(super) fn erase_early(&mut self) {
        if let (Some(content), Some(slots)) = (&mut self.content, self.ftl.collected()) {
            content.erased(slots);
        }
    }

    /// Removes the stored values of blocks that the map has erased.
    pub(super) fn take_erased(&mut self) {
        if let Some(content) = &mut self.content {
            for slots in self.ftl.take_erased() {
                content.erased(slots);
            }
        }
    }

    /// Checks that every unit is in the physical slot to which the map points, and that the slot contains
    /// no other unit.
    pub(super) fn check_content(&self) -> Result<(), String> {
        let Some(Content { cells: Cells::Placed(cells), .. }) = &self.content else {
            return Ok(());
        };
        for (&slot, stored) in cells {
            let Some(page) = self.ftl.page_in(slot) else { continue };
            if u64::from(page.index()) != stored.unit {
                return Err(format!(
                    "the map has unit {} in slot {slot}, which holds unit {}",
                    page.index(),
                    stored.unit
                ));
            }
        }
        Ok(())
    }
}
