//! Faults of a system's adapters, and what becomes of the operations that a lost adapter had: the host sends them again,
//! to the partner, when that has taken over.

use super::{AdapterPath, destage, pair};
use crate::core::Core;
use crate::fault::AdapterFault;
use crate::part_id::PartId;
use crate::request::State;
use std::collections::BTreeSet;

/// Applies a fault of adapters.
pub(crate) fn apply_fault(core: &mut Core, fault: AdapterFault) {
    let now_ns = core.now;
    match fault {
        AdapterFault::Lose { adapter } => lose(core, adapter as usize),
        AdapterFault::Replace { adapter } => {
            lose(core, adapter as usize);
            pair(core).replace(adapter as usize, now_ns);
        }
        AdapterFault::Clear { adapter } => pair(core).restore(adapter as usize, now_ns),
        AdapterFault::BatteryFails { adapter } => {
            pair(core).fail_battery(adapter as usize, now_ns);
        }
        AdapterFault::LinkDown { link } => pair(core).set_link(link as usize, true, now_ns),
        AdapterFault::LinkUp { link } => pair(core).set_link(link as usize, false, now_ns),
    }
    wake_all(core);
}

/// The caches hold nothing from now on, and write to devices what they hold.
pub(crate) fn drain_caches(core: &mut Core) {
    if let Some(pair) = &mut core.adapters {
        pair.is_caching = false;
        wake_all(core);
    }
}

/// Some writes may not wait any more, and some data may not stay in the caches.
fn wake_all(core: &mut Core) {
    let now_ns = core.now;
    for group in 0..pair(core).groups.len() {
        destage(core, group);
        while let Some(next) = {
            let full = &mut core.adapters.as_mut().expect("there are adapters").groups[group].full;
            full.pop(&core.slab)
        } {
            core.at(now_ns, next, State::Transferred);
        }
    }
}

/// An adapter is lost: the operations that it had begin again. Those that wait for a device do so when that has ended.
fn lose(core: &mut Core, adapter: usize) {
    if pair(core).adapters[adapter].is_lost() {
        return;
    }
    let paths: BTreeSet<PartId> = pair(core).paths.iter().map(|path| path.part).collect();
    let was_there = |core: &Core, slot: u32| {
        let request = &core.slab[slot];
        let is_operation = paths.contains(&request.part) && !request.internal;
        is_operation && usize::from(request.die) == adapter
    };
    let mut again = BTreeSet::new();
    for slot in 0..core.slab.len() as u32 {
        let has_event = matches!(
            core.slab[slot].state,
            State::Admitted | State::Processed | State::Transferred | State::Done
        );
        if has_event && was_there(core, slot) {
            again.insert(slot);
        }
    }
    core.queue.retain(|slot| !again.contains(&slot));
    let shared = core.adapters.as_mut().expect("there are adapters");
    while let Some(slot) = shared.adapters[adapter].waiting.pop(&core.slab) {
        again.insert(slot);
    }
    for group in &mut shared.groups {
        let mut stay = Vec::new();
        while let Some(slot) = group.full.pop(&core.slab) {
            if usize::from(core.slab[slot].die) == adapter {
                again.insert(slot);
            } else {
                stay.push(slot);
            }
        }
        stay.into_iter().for_each(|slot| group.full.push(&mut core.slab, slot));
    }
    let now_ns = core.now;
    pair(core).lose(adapter, now_ns);
    for slot in again {
        core.slab[slot].failed = false;
        core.at(core.now, slot, State::Issued);
    }
}

impl AdapterPath {
    /// Whether the adapter that had an operation was lost meanwhile: then it begins again.
    pub(super) fn begins_again(&mut self, core: &mut Core, slot: u32) -> bool {
        let (adapter, losses) = (core.slab[slot].die, core.slab[slot].pending);
        if pair(core).adapters[usize::from(adapter)].losses == losses {
            return false;
        }
        self.forget_held(core, slot);
        core.slab[slot].failed = false;
        core.at(core.now, slot, State::Issued);
        true
    }
}
