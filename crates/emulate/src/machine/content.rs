//! Stores and returns the content of a machine's volumes, and reports the events that change content.

use super::Machine;
use crate::content_event::{ContentEvent, UNIT_BYTES};
use crate::part::Part;
use crate::values::FIRST_NAME;

impl Machine {
    /// Stores the content of writes from now on: for each 4 KiB unit, the token of its last write. Costs time
    /// and memory, but changes no event.
    pub fn keep_content(&mut self) {
        self.core.values.get_or_insert_default();
        self.parts.iter_mut().for_each(|part| part.keep_content(&mut self.core));
    }

    /// Stores content like [`Self::keep_content`], and reports content events from now on, so that the caller
    /// can store the bytes. Arrays then have no journal, and scrubs compare nothing.
    pub fn follow_content(&mut self) {
        self.keep_content();
        self.core.changes.get_or_insert_default();
        if let Some(values) = &mut self.core.values {
            values.next_name.get_or_insert(FIRST_NAME);
        }
        self.parts.iter_mut().for_each(Part::follow_content);
    }

    /// Appends to `into` the content events since the last call, in order. No-op unless [`Self::follow_content`] was
    /// called.
    #[inline]
    pub fn changes(&mut self, into: &mut Vec<ContentEvent>) {
        if let Some(changes) = &mut self.core.changes {
            into.append(changes);
        }
    }

    /// Returns the token that a read of the 4 KiB unit at `offset_bytes` would return now. `None` if the unit is
    /// lost, or has not been written since content storage was turned on. For a unit that a power cut has torn,
    /// returns its [`torn_value`](crate::torn_value).
    pub fn content(&self, volume: u32, offset_bytes: u64) -> Option<u64> {
        let root = self.system.volumes[volume as usize].root;
        self.parts[root.index()].unit_value(offset_bytes / UNIT_BYTES, &self.parts, &self.core)
    }

    /// Returns the values (tokens of writes; 0: never written) that the last collected completion returned, one for
    /// each 4 KiB unit. `None` unless the completion was a read and content is stored. Also `None` if the volume is a
    /// single device, whose reads return the content at the time of completion ([`Self::content`]).
    pub fn values_read(&self) -> Option<&[u64]> {
        self.core.values.as_ref()?.last.as_deref()
    }
}
