//! Writing to the array, or the device, what the write cache holds: as fast as its fill asks for. It ends where hosts' writes
//! wait for space, and go on.

use super::{AdapterPath, ask, content, pair, units};
use crate::adapters::{RETRIED, UNPLACED};
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::request::{Origin, State};
use iodyno_units::{Op, OpKind};
use std::ops::Range;

impl AdapterPath {
    /// A destage has ended: writes that wait for space go on.
    pub(super) fn destaged(&self, core: &mut Core, slot: u32, failed: bool) {
        Self::free_destaged(core, slot);
        let (token, touched) = (core.slab[slot].token, units(&core.slab[slot]));
        core.slab.remove(slot);
        let number = self.number;
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let at = pair.group_of(number);
        let (group, path) = (&mut pair.groups[at], &mut pair.paths[number as usize]);
        group.destages -= 1;
        path.destages -= 1;
        let cache = group.cache.as_mut().expect("it destages");
        if path.void_destages > 0 {
            path.void_destages -= 1;
            group.void_destages -= 1;
        } else if token == UNPLACED {
            cache.destaged_unplaced(touched.end - touched.start);
        } else {
            cache.destaged(number, touched, failed);
        }
        // What its device refuses does not take the space of others.
        pair.paths[number as usize].is_retried &= token != RETRIED;
        let has_refused = std::mem::replace(&mut pair.paths[number as usize].refuses, failed);
        if has_refused && !failed {
            pair.retry();
        }
        self.forget(core);
        wake(core, at);
        destage(core, at);
    }

    /// A device that refused what the cache holds is asked for one unit again.
    pub(super) fn retry_one(&self, core: &mut Core) {
        let (pair, number) = (pair(core), self.number);
        let group = pair.group_of(number);
        if pair.paths[number as usize].is_retried || pair.groups[group].void_destages > 0 {
            return;
        }
        let Some(unit) = pair.cache(number).and_then(|cache| cache.take_refused(number)) else {
            return;
        };
        let path = &mut pair.paths[number as usize];
        path.is_retried = true;
        path.destages += 1;
        pair.groups[group].destages += 1;
        begin(core, number, unit..unit + 1, RETRIED);
    }
}

/// The first of the writes that wait for space in a cache goes on, if there is some; when it has taken its own, the next.
pub(super) fn wake(core: &mut Core, group: usize) {
    let pair = core.adapters.as_mut().expect("a path leads through adapters");
    if (pair.space_units(group) > 0 || !pair.is_caching)
        && let Some(next) = pair.groups[group].full.pop(&core.slab)
    {
        if let Some(later) = pair.groups[group].full.first() {
            pair.prefetch(group, &core.slab[later]);
        }
        core.at(core.now, next, State::Transferred);
    }
}

/// A group's cache writes to devices what it holds, as fast as its fill asks for. Devices must not hold it in volatile
/// memory.
pub(super) fn destage(core: &mut Core, group: usize) {
    while let Some((path, units, token)) = pair(core).next_destage(group) {
        begin(core, path, units, token);
    }
}

/// A destage begins.
fn begin(core: &mut Core, path: u32, units: Range<u64>, token: u64) {
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
