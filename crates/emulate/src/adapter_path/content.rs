//! Content of the units in a RAID adapter's write cache, if the emulation stores content. The devices store the content
//! of all other units.
//!
//! If the caller of the library stores the bytes, the caller keeps a separate store for each volume's cache, and the
//! emulated cache stores no values. A value then exists only while an operation is in progress, as a name for bytes
//! ([`ContentEvent`]).

use super::{AdapterPath, pair, units};
use crate::adapters::Cache;
use crate::content_event::{ContentEvent, UNIT_BYTES, UnitBytes};
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{Origin, Request};
use iodyno_units::OpKind;
use std::ops::Range;

/// Returns whether an operation covers all of a unit.
fn is_whole(request: &Request, unit: u64) -> bool {
    let (from, to) = (request.at, request.at + u64::from(request.len));
    unit * UNIT_BYTES >= from && (unit + 1) * UNIT_BYTES <= to
}

/// Returns the 4 KiB units that a request covers completely.
pub(super) fn whole_units(request: &Request) -> Range<u64> {
    let (from, to) = (request.at, request.at + u64::from(request.len));
    let first = from.div_ceil(UNIT_BYTES);
    first..(to / UNIT_BYTES).max(first)
}

fn keeps_content(core: &mut Core) -> bool {
    pair(core).keeps_content
}

impl AdapterPath {
    /// Makes the adapters' caches store content from now on, if they don't already.
    #[expect(clippy::unused_self, reason = "all kinds of parts share this signature")]
    pub(crate) fn keep_content(&mut self, core: &mut Core) {
        if !keeps_content(core) {
            pair(core).keep_content();
        }
    }

    fn cache<'a>(&self, core: &'a mut Core) -> Option<&'a mut Cache> {
        pair(core).cache(self.number)
    }

    fn value(&self, core: &mut Core, unit: u64) -> u64 {
        held_value(core, self.part, self.number, unit)
    }

    /// Stores a unit's value in the cache or, if the caller of the library stores the bytes, reports the unit to the
    /// caller.
    fn put(&self, core: &mut Core, unit: u64, value: u64) {
        if !core.names_values() {
            let number = self.number;
            if let Some(cache) = self.cache(core) {
                cache.set_value(number, unit, value);
            }
            return;
        }
        let part = self.part;
        let token = core.give(part, unit, UnitBytes::WHOLE, value);
        core.tell(ContentEvent::Accepted { part, unit, token, kept: true });
        core.tell(ContentEvent::Ended { part, token, failed: false });
    }

    /// Reports to the library's caller the units that the cache has dropped, including those of other paths that share
    /// the cache.
    pub(super) fn forget(&self, core: &mut Core) {
        let group = pair(core).group_of(self.number);
        forget(core, group);
    }

    /// Sets the value of one unit in the result of the read `slot`.
    fn give(core: &mut Core, slot: u32, unit: u64, value: u64) {
        let Request { at, len, token, origin, .. } = core.slab[slot];
        if core.names_values() && matches!(origin, Origin::Host { .. }) {
            core.tell(ContentEvent::Returned { token, unit, name: value });
            return;
        }
        let value = core.copy(value);
        let first = at / UNIT_BYTES;
        let Some(values) = &mut core.values else { return };
        if values.of_mut(slot).is_none() {
            let end = (at + u64::from(len)).div_ceil(UNIT_BYTES);
            values.set(slot, vec![0; (end - first) as usize]);
        }
        if let Some(values) = values.of_mut(slot) {
            values[(unit - first) as usize] = value;
        }
    }

    /// Fills the result of a read whose units are all in the cache.
    pub(super) fn return_held(&self, core: &mut Core, slot: u32) {
        if !keeps_content(core) {
            return;
        }
        for unit in units(&core.slab[slot]) {
            let value = self.value(core, unit);
            Self::give(core, slot, unit, value);
            core.free(value);
        }
    }

    /// Saves the cached values of a read's units before the read goes to the devices, because a
    /// concurrent destage may change the devices' content.
    pub(super) fn remember_held(&mut self, core: &mut Core, slot: u32) {
        if !keeps_content(core) {
            return;
        }
        let (number, mut held) = (self.number, Vec::new());
        for unit in units(&core.slab[slot]) {
            if self.cache(core).is_some_and(|cache| cache.holds(number, unit..unit + 1)) {
                held.push((unit, self.value(core, unit)));
            }
        }
        self.held.insert(slot, held);
    }

    /// Frees the cached values that [`Self::remember_held`] has saved.
    pub(super) fn forget_held(&mut self, core: &mut Core, slot: u32) {
        for (_, value) in self.held.remove(&slot).unwrap_or_default() {
            core.free(value);
        }
    }

    /// Fills the result of a read with the data from the devices, except for the units that were cached when the read
    /// began: these get the values saved at that time.
    pub(super) fn return_read(&mut self, core: &mut Core, slot: u32, child: u32) {
        if !keeps_content(core) {
            self.keep_returned(core, slot, &[]);
            return;
        }
        let returned = take(core, child);
        for (index, unit) in units(&core.slab[slot]).enumerate() {
            let held = self.held.get(&slot).and_then(|held| held.iter().find(|h| h.0 == unit));
            let value = held.map(|held| held.1).or_else(|| returned.get(index).copied());
            Self::give(core, slot, unit, value.unwrap_or(0));
        }
        self.keep_returned(core, slot, &returned);
        self.forget_held(core, slot);
        free_all(core, returned);
    }

    /// Adds the units of a host's read to the cache, if the adapters cache reads and no unit was
    /// written during the read.
    fn keep_returned(&self, core: &mut Core, slot: u32, returned: &[u64]) {
        let (request, number) = (&core.slab[slot], self.number);
        let (first, since) = (request.at / UNIT_BYTES, request.next);
        let whole = whole_units(request);
        let keeps = pair(core).keeps_reads;
        if keeps
            && self.cache(core).is_some_and(|c| !c.is_written_since(number, whole.clone(), since))
        {
            // (Empty unless content is kept.)
            let values = returned.get((whole.start - first) as usize..).unwrap_or(&[]);
            self.keep_read(core, whole, values);
        }
    }

    /// Adds clean units to the cache, after a read from the devices.
    pub(super) fn keep_read(&self, core: &mut Core, units: Range<u64>, values: &[u64]) {
        let number = self.number;
        for (unit, &value) in units.clone().zip(values) {
            if self.cache(core).is_some_and(|cache| !cache.holds(number, unit..unit + 1)) {
                self.put(core, unit, value);
            }
        }
        if let Some(cache) = self.cache(core) {
            cache.used(number, units);
        }
        self.forget(core);
    }

    /// Caches the units of a host's write as dirty.
    pub(super) fn keep_written(&self, core: &mut Core, slot: u32) {
        let touched = units(&core.slab[slot]);
        if keeps_content(core) {
            for unit in touched.clone() {
                self.put_written(core, slot, unit);
            }
        }
        let (number, whole) = (self.number, whole_units(&core.slab[slot]));
        let pair = pair(core);
        pair.paths[number as usize].lost.remove(whole);
        if let Some(cache) = pair.cache(number) {
            cache.write(number, touched);
        }
        self.forget(core);
    }

    /// Returns the value that a unit has before a partial write: from the cache, or from the read that completes the
    /// write (the fill).
    fn rest_of(&self, core: &mut Core, slot: u32, unit: u64) -> u64 {
        let number = self.number;
        if self.cache(core).is_some_and(|cache| cache.holds(number, unit..unit + 1)) {
            return self.value(core, unit);
        }
        let filled = self.fills.get(&slot).into_iter().flatten().find(|fill| fill.unit == unit);
        filled.map_or(0, |fill| core.copy(fill.value))
    }

    /// Frees the values of the units that were read to complete a partial write.
    pub(super) fn forget_fills(&mut self, core: &mut Core, slot: u32) {
        for fill in self.fills.remove(&slot).unwrap_or_default() {
            core.free(fill.value);
        }
    }

    fn put_written(&self, core: &mut Core, slot: u32, unit: u64) {
        let request = core.slab[slot];
        let is_whole = is_whole(&request, unit);
        let given = core.values.as_ref().and_then(|v| v.of(slot, unit - request.at / UNIT_BYTES));
        if request.kind == OpKind::WriteZeroes && is_whole {
            self.put(core, unit, 0);
        } else if let Some(given) = given.filter(|_| is_whole || !core.names_values()) {
            self.put(core, unit, given);
        } else if core.names_values() && (given.is_some() || request.kind == OpKind::WriteZeroes) {
            let onto = self.rest_of(core, slot, unit);
            let name = core.lay(onto, given.unwrap_or(0), request.part_of(unit));
            self.put(core, unit, name);
            core.free(onto);
            core.free(name);
        } else if core.names_values() {
            let onto = if is_whole { 0 } else { self.rest_of(core, slot, unit) };
            let (token, name) = (request.token, core.new_name());
            core.tell(ContentEvent::Taken { token, unit, onto, name });
            self.put(core, unit, name);
            core.free(onto);
            core.free(name);
        } else {
            self.put(core, unit, request.token);
        }
    }

    /// Drops the clean units that have become stale because a write went directly to the devices.
    pub(super) fn pass_by(&self, core: &mut Core, units: Range<u64>) {
        let number = self.number;
        if let Some(cache) = self.cache(core) {
            cache.pass_by(number, units);
            self.forget(core);
        }
    }

    /// Passes the content of a host's write, which bypasses the cache, to the array or device.
    pub(super) fn give_passed(&self, core: &mut Core, slot: u32, child: u32) {
        if !keeps_content(core)
            || !matches!(core.slab[slot].kind, OpKind::Write | OpKind::WriteZeroes)
        {
            return;
        }
        let given = core.values.as_mut().and_then(|values| values.of_mut(slot).cloned());
        if let Some(values) = given {
            give_child(core, self.number, child, values);
            return;
        }
        if !core.names_values() || !pair(core).paths[self.number as usize].is_device {
            return;
        }
        let Request { kind, part, at, len, token: from, .. } = core.slab[child];
        if kind == OpKind::WriteZeroes {
            let token = core.new_name();
            core.slab[child].token = token;
            let (offset_bytes, len_bytes, trim) = (at, len, false);
            core.tell(ContentEvent::Cleared { part, offset_bytes, len_bytes, trim, token });
            return;
        }
        let mut tokens = Vec::new();
        for unit in units(&core.slab[child]) {
            let token = core.new_name();
            tokens.push(token);
            core.tell(ContentEvent::Passed { part, unit, token, from, of: unit });
        }
        if let Some(values) = &mut core.values {
            values.set(child, tokens);
        }
    }

    pub(super) fn free_destaged(core: &mut Core, slot: u32) {
        let values = take(core, slot);
        free_all(core, values);
    }

    /// Returns the value that a read of a unit would return; `below` returns the value on the array
    /// or device. `None` if the unit is lost, or has not been written since content storage was
    /// turned on.
    pub(crate) fn unit_value(
        &self,
        unit: u64,
        core: &Core,
        below: impl FnOnce(PartId) -> Option<u64>,
    ) -> Option<u64> {
        let pair = core.adapters.as_ref()?;
        let path = &pair.paths[self.number as usize];
        let cache = pair.groups[pair.group_of(self.number)].cache.as_ref();
        if let Some(cache) = cache.filter(|cache| cache.holds(self.number, unit..unit + 1)) {
            return Some(cache.value(self.number, unit)).filter(|&value| value != 0);
        }
        if path.lost.contains(unit) {
            return None;
        }
        below(path.child)
    }
}

/// Reports to the library's caller the units that a group's cache has dropped. Must be called before the cache receives
/// new content, because that may include the same units.
pub(super) fn forget(core: &mut Core, group: usize) {
    if !keeps_content(core) {
        return;
    }
    let cache = pair(core).groups[group].cache.as_mut();
    let places = cache.map(Cache::take_forgotten).unwrap_or_default();
    if !core.names_values() {
        return;
    }
    for place in places {
        let (part, unit) = (pair(core).paths[place.path() as usize].part, place.unit());
        let (token, offset_bytes) = (core.new_name(), unit * UNIT_BYTES);
        let len_bytes = UNIT_BYTES as u32;
        core.tell(ContentEvent::Cleared { part, offset_bytes, len_bytes, trim: true, token });
        let overtaken = false;
        core.tell(ContentEvent::Dropped { part, unit, count: 1, token, overtaken });
        core.tell(ContentEvent::Ended { part, token, failed: false });
    }
}

/// Removes and returns the values of a request's units. Empty if the request has none.
fn take(core: &mut Core, slot: u32) -> Vec<u64> {
    core.values.as_mut().and_then(|values| values.take(slot)).unwrap_or_default()
}

pub(super) fn free_all(core: &mut Core, values: Vec<u64>) {
    for value in values {
        core.free(value);
    }
}

/// Returns the value of a path's unit in the cache.
fn held_value(core: &mut Core, part: PartId, path: u32, unit: u64) -> u64 {
    if core.names_values() {
        return core.fetch(part, unit, None);
    }
    pair(core).cache(path).map_or(0, |cache| cache.value(path, unit))
}

/// Passes the cached values of a destage to the array or device behind its path.
pub(super) fn give_destaged(core: &mut Core, part: PartId, path: u32, slot: u32, child: u32) {
    if !keeps_content(core) {
        return;
    }
    let units = units(&core.slab[slot]);
    let values: Vec<u64> = units.map(|unit| held_value(core, part, path, unit)).collect();
    if core.names_values()
        && let Some(of_core) = &mut core.values
    {
        of_core.set(slot, values.clone());
    }
    give_child(core, path, child, values);
}

/// Passes the values of units to the request `child` that writes them to the array or device. A
/// device receives each unit as a separate write with a new token.
fn give_child(core: &mut Core, path: u32, child: u32, mut values: Vec<u64>) {
    if core.names_values() && pair(core).paths[path as usize].is_device {
        let (part, first) = (core.slab[child].part, core.slab[child].at / UNIT_BYTES);
        for (unit, value) in (first..).zip(&mut values) {
            let part_bytes = core.slab[child].part_of(unit);
            *value = core.give(part, unit, part_bytes, *value);
        }
    }
    if let Some(of_core) = &mut core.values {
        of_core.set(child, values);
    }
}
