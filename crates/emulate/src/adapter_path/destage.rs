//! Writing to the array, or the device, what the write cache holds: as fast as its fill asks for. It ends where hosts' writes
//! wait for space, and go on.

use super::{AdapterPath, ask, content, pair, units};
use crate::adapters::UNPLACED;
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::request::{Origin, State};
use iodyno_units::{Op, OpKind};

impl AdapterPath {
    /// A destage has ended: writes that wait for space go on.
    pub(super) fn destaged(&self, core: &mut Core, slot: u32, failed: bool) {
        Self::free_destaged(core, slot);
        let (token, touched) = (core.slab[slot].token, units(&core.slab[slot]));
        core.slab.remove(slot);
        let number = self.number;
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let at = pair.group_of(number);
        let group = &mut pair.groups[at];
        group.destages -= 1;
        let cache = group.cache.as_mut().expect("it destages");
        if group.void_destages > 0 {
            group.void_destages -= 1;
        } else if token == UNPLACED {
            cache.destaged_unplaced(touched.end - touched.start);
        } else {
            cache.destaged(number, touched, failed);
        }
        self.forget(core);
        if !failed {
            wake(core, at);
            destage(core, at);
            return;
        }
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let group = &mut pair.groups[at];
        if group.destages == 0 {
            // There will be no space: those that wait for it fail with what refuses their predecessors. The next write
            // tries again.
            let mut full = std::mem::take(&mut group.full);
            while let Some(next) = full.pop(&core.slab) {
                core.slab[next].failed = true;
                core.at(core.now, next, State::Done);
            }
        }
    }
}

/// The first of the writes that wait for space in a cache goes on, if there is some; when it has taken its own, the next.
pub(super) fn wake(core: &mut Core, group: usize) {
    let pair = core.adapters.as_mut().expect("a path leads through adapters");
    if (pair.space_units(group) > 0 || !pair.is_caching)
        && let Some(next) = pair.groups[group].full.pop(&core.slab)
    {
        core.at(core.now, next, State::Transferred);
    }
}

/// A group's cache writes to devices what it holds, as fast as its fill asks for. Devices must not hold it in volatile
/// memory.
pub(super) fn destage(core: &mut Core, group: usize) {
    while let Some((path, units, token)) = pair(core).next_destage(group) {
        let part = pair(core).paths[path as usize].part;
        let op = Op {
            offset_bytes: units.start * UNIT_BYTES,
            len_bytes: ((units.end - units.start) * UNIT_BYTES) as u32,
            kind: OpKind::Write,
            fua: true,
        };
        let slot = core.add(part);
        let request = &mut core.slab[slot];
        (request.internal, request.origin, request.state) = (true, Origin::Own, State::Waiting);
        (request.at, request.len, request.token) = (op.offset_bytes, op.len_bytes, token);
        let child = ask(core, slot, path, &op);
        content::give_destaged(core, (part, path), slot, child);
    }
}
