//! Destaging: writes dirty data to the array or device, at a rate that depends on the fill of the cache, and resumes
//! host writes that wait for space.

use super::{AdapterPath, ask, content, pair, units};
use crate::adapters::{RETRIED, UNPLACED};
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::request::{Origin, State};
use iodyno_units::{Op, OpKind};
use std::ops::Range;

impl AdapterPath {
    /// Processes the end of a destage, and resumes writes that wait for space.
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
        // Data that a device refuses must not occupy the space of other paths.
        pair.paths[number as usize].is_retried &= token != RETRIED;
        let has_refused = std::mem::replace(&mut pair.paths[number as usize].refuses, failed);
        if has_refused && !failed {
            pair.retry();
        }
        self.forget(core);
        wake(core, at);
        destage(core, at);
    }

    /// Starts the retry of one refused unit, unless a retry on this path is in progress.
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

/// Resumes the first write that waits for space in a group's cache. When that write has been
/// cached, it resumes the next one.
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

/// Starts the destages that the fill level of a group's cache requires. They are FUA writes, so
/// devices can't leave the data in volatile memory.
pub(super) fn destage(core: &mut Core, group: usize) {
    while let Some((path, units, token)) = pair(core).next_destage(group) {
        begin(core, path, units, token);
    }
}

/// Starts the destage of a range of a path's units.
fn begin(core: &mut Core, path: u32, units: Range<u64>, token: u64) {
    let part = pair(core).paths[path as usize].part;
    let op = Op {
        offset_bytes: units.start * UNIT_BYTES,
        len_bytes: u32::try_from((units.end - units.start) * UNIT_BYTES).expect("it is bounded"),
        kind: OpKind::Write,
        fua: true,
    };
    let slot = core.add(part);
    let request = &mut core.slab[slot];
    (request.internal, request.origin, request.state) = (true, Origin::Own, State::Waiting);
    (request.at, request.len, request.token) = (op.offset_bytes, op.len_bytes, token);
    let child = ask(core, slot, path, &op);
    content::give_destaged(core, part, path, slot, child);
}
