//! Names: numbers that identify the content of a unit. If the library's caller stores the bytes, the values of units
//! are names. The creation of a name is always reported as a content event.

use crate::content_event::{ContentEvent, UnitBytes};
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{Origin, Request, State};
use crate::values::combine;
use iodyno_units::OpKind;

impl Core {
    /// Returns whether values are names: identifiers of bytes that the library's caller stores. Otherwise values are
    /// the tokens of writes.
    pub(crate) fn names_values(&self) -> bool {
        self.values.as_ref().is_some_and(|values| values.next_name.is_some())
    }

    /// Returns a new, unused name: an identifier for the content of a unit.
    pub(crate) fn new_name(&mut self) -> u64 {
        let next = self.values.as_mut().and_then(|values| values.next_name.as_mut());
        let next = next.expect("values are names");
        *next += 1;
        *next - 1
    }

    /// Returns a second name for the content of `value`, to be freed separately. If values are not names,
    /// returns `value` itself.
    pub(crate) fn copy(&mut self, value: u64) -> u64 {
        if value == 0 || !self.names_values() { value } else { self.combine(&[(1, value)]) }
    }

    /// Frees a name: an identifier of a unit's content. No-op if values are not names.
    pub(crate) fn free(&mut self, name: u64) {
        if name != 0 && self.names_values() {
            self.tell(ContentEvent::Freed { name, count: 1 });
        }
    }

    /// Ends the values of a request: reports the end of a device's write, or frees the names that a read returned and
    /// no other request has taken over.
    pub(crate) fn end_values(&mut self, slot: u32, failed: bool) {
        let Some(values) = &mut self.values else { return };
        let tokens = values.take(slot).unwrap_or_default();
        if !self.names_values() {
            return;
        }
        let Request { kind, part, token, .. } = self.slab[slot];
        let tokens = match kind {
            // (Read results that nobody collected.)
            OpKind::Read | OpKind::Flush => {
                for name in tokens {
                    self.free(name);
                }
                return;
            }
            // An array's bytes are in its members.
            _ if part.index() >= self.devices => return,
            OpKind::Write => tokens,
            OpKind::WriteZeroes | OpKind::Trim => vec![token],
        };
        for token in tokens {
            self.tell(ContentEvent::Ended { part, token, failed });
        }
    }

    /// Processes a power failure: reports that all writes between components have failed, and frees the names of all
    /// values in transit.
    pub(crate) fn end_given(&mut self) {
        for slot in 0..self.slab.len() as u32 {
            let request = &self.slab[slot];
            if request.state != State::Free && matches!(request.origin, Origin::Parent(_)) {
                self.end_values(slot, true);
            }
        }
        let names = self.values.as_mut().map(|values| values.take_all()).unwrap_or_default();
        for name in names {
            self.free(name);
        }
    }

    /// Multiplies each value by its factor and returns the sum, in GF(2^8): a new name if values are names.
    pub(crate) fn combine(&mut self, terms: &[(u8, u64)]) -> u64 {
        if !self.names_values() {
            return combine(terms);
        }
        let name = self.new_name();
        for &(factor, term) in terms.iter().filter(|(_, term)| *term != 0) {
            self.tell(ContentEvent::Added { name, factor, term });
        }
        name
    }

    /// Returns a new name for the content of `onto`, with the range `part_bytes` replaced by the same range of
    /// `over`.
    pub(crate) fn lay(&mut self, onto: u64, over: u64, part_bytes: UnitBytes) -> u64 {
        let name = self.new_name();
        self.tell(ContentEvent::Laid { name, onto, over, part_bytes });
        name
    }

    /// Passes the content of a name to a device, as a separate write to a unit. Returns the write's token.
    pub(crate) fn give(
        &mut self,
        part: PartId,
        unit: u64,
        part_bytes: UnitBytes,
        name: u64,
    ) -> u64 {
        let token = self.new_name();
        self.tell(ContentEvent::Given { part, unit, part_bytes, token, name });
        token
    }

    /// Returns the value that a component returns for a unit with content `value`: a new name for the content or, if
    /// values are not names, `value` itself.
    pub(crate) fn fetch(&mut self, part: PartId, unit: u64, value: Option<u64>) -> u64 {
        if !self.names_values() {
            return value.unwrap_or(0);
        }
        let name = self.new_name();
        self.tell(ContentEvent::Fetched { part, unit, name });
        name
    }
}
