//! Faults of adapters, and failover: the host retries a lost adapter's operations once the partner has taken over.

use super::{AdapterPath, content, destage, end_command, pair, units};
use crate::adapters::{Pair, UNPLACED};
use crate::core::Core;
use crate::fault::AdapterFault;
use crate::part_id::PartId;
use crate::request::{Request, State};
use std::collections::BTreeSet;

/// The adapters that process a host's operation. Stored in fields of the operation's request that adapter paths don't
/// use otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    /// The adapter to which the host sent the operation, which occupies one of that adapter's command slots.
    pub(super) at: usize,
    /// The adapter that served the path when the operation began.
    server: usize,
    /// Number of times that the adapters `at` and `server` had been lost when the operation began.
    losses: [u16; 2],
}

impl Holder {
    pub(super) fn now(pair: &Pair, at: usize, server: usize) -> Self {
        let losses = |adapter: usize| pair.adapters[adapter].losses as u16;
        Self { at, server, losses: [losses(at), losses(server)] }
    }

    pub(super) fn of(request: &Request) -> Self {
        let (at, server) = (usize::from(request.die & 0xFF), usize::from(request.die >> 8));
        let losses = [request.pending as u16, (request.pending >> 16) as u16];
        Self { at, server, losses }
    }

    pub(super) fn keep(self, request: &mut Request) {
        request.die = (self.at | self.server << 8) as u16;
        request.pending = u32::from(self.losses[0]) | u32::from(self.losses[1]) << 16;
    }
}

/// Applies an adapter fault, such as a lost adapter, a failed battery or a link that is down.
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
        AdapterFault::Access { volume, on, from } => {
            if pair(core).state().access_is_fixed(from).is_none() {
                change_access(core, volume, on);
            }
        }
    }
    for group in 0..pair(core).groups.len() {
        content::forget(core, group);
    }
    wake_all(core);
}

/// Changes the adapter on which a path is optimized; `None`: the primary.
fn change_access(core: &mut Core, path: u32, on: Option<u32>) {
    let (now_ns, part) = (core.now, pair(core).paths[path as usize].part);
    let requests = (0..core.slab.len() as u32).map(|slot| &core.slab[slot]);
    let unplaced = requests.filter(|request| {
        let is_destage = request.state != State::Free && request.internal;
        is_destage && request.part == part && request.token == UNPLACED
    });
    let unplaced_units = unplaced.map(|request| units(request).count() as u64).sum();
    pair(core).set_access(path, on.map(|on| on as usize), unplaced_units, now_ns);
}

/// Turns off write caching and starts to destage all dirty data.
pub(crate) fn drain_caches(core: &mut Core) {
    if let Some(pair) = &mut core.adapters {
        pair.is_caching = false;
        wake_all(core);
    }
}

/// Retries the destage of data that devices refused earlier. Called when the state of a device has changed.
pub(crate) fn devices_changed(core: &mut Core) {
    if let Some(pair) = &mut core.adapters {
        pair.retry();
        wake_all(core);
    }
}

/// Starts destages and resumes all waiting writes, after a change of the adapters or devices.
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

/// Processes the loss of an adapter. The host retries the adapter's operations immediately. An operation that waits
/// for a device is retried when the device has completed it.
fn lose(core: &mut Core, adapter: usize) {
    if pair(core).adapters[adapter].is_lost() {
        return;
    }
    let paths: BTreeSet<PartId> = pair(core).paths.iter().map(|path| path.part).collect();
    let was_there = |core: &Core, slot: u32| {
        let request = &core.slab[slot];
        let is_operation = paths.contains(&request.part) && !request.internal;
        let Holder { at, server, .. } = Holder::of(request);
        is_operation && (at == adapter || server == adapter)
    };
    let mut again = BTreeSet::new();
    for slot in 0..core.slab.len() as u32 {
        let has_event = matches!(
            core.slab[slot].state,
            State::Admitted
                | State::Forwarded
                | State::Processed
                | State::Transferred
                | State::Done
        );
        if has_event && was_there(core, slot) {
            again.insert(slot);
        }
    }
    core.queue.retain(|slot| !again.contains(&slot));
    let shared = core.adapters.as_mut().expect("there are adapters");
    let mut waiting = BTreeSet::new();
    while let Some(slot) = shared.adapters[adapter].waiting.pop(&core.slab) {
        waiting.insert(slot);
    }
    for group in &mut shared.groups {
        let mut stay = Vec::new();
        while let Some(slot) = group.full.pop(&core.slab) {
            let Holder { at, server, .. } = Holder::of(&core.slab[slot]);
            if at == adapter || server == adapter {
                again.insert(slot);
            } else {
                stay.push(slot);
            }
        }
        for slot in stay {
            group.full.push(&mut core.slab, slot);
        }
    }
    let now_ns = core.now;
    pair(core).lose(adapter, now_ns);
    for slot in again {
        let at = Holder::of(&core.slab[slot]).at;
        if at != adapter {
            end_command(core, at);
        }
        begin_again(core, slot);
    }
    for slot in waiting {
        begin_again(core, slot);
    }
}

/// Restarts an operation, as if the host had sent it again now.
fn begin_again(core: &mut Core, slot: u32) {
    core.slab[slot].failed = false;
    core.at(core.now, slot, State::Issued);
}

impl AdapterPath {
    /// Restarts an operation if one of its adapters was lost since the operation began. Returns whether it was
    /// restarted.
    pub(super) fn begins_again(&mut self, core: &mut Core, slot: u32) -> bool {
        let had = Holder::of(&core.slab[slot]);
        let now = Holder::now(pair(core), had.at, had.server);
        if had == now {
            return false;
        }
        self.forget_held(core, slot);
        self.forget_fills(core, slot);
        if had.losses[0] == now.losses[0] {
            end_command(core, had.at);
        }
        begin_again(core, slot);
        true
    }
}
