//! The path of a volume through its RAID adapters: adapter processors, links, write cache, and the destaging of the
//! volume's dirty data. The array or device behind the path is modelled elsewhere.
//!
//! ```text
//! read    processor ─▶ cache holds it ───────────────────────────▶ slot ─▶ host
//!                   └▶ array ─▶ processor, drawer ─▶ device ─▶ ┘
//! write   processor ─▶ slot ─▶ cache ─▶ partner's processor ─────────────▶ host
//!                                └ later: array ─▶ processor, drawer ─▶ device
//! ```
//!
//! A host sends operations to the adapter that serves the volume. A host with paths to both adapters sends every second
//! operation to the partner, which forwards it. An adapter completes trims itself and doesn't pass them on. The cache
//! holds units of 4 KiB: a partial write of a unit that is not cached reads the unit first (a fill).
//!
//! | module | what it holds |
//! |---|---|
//! | `content` | values of cached units, if the emulation stores content |
//! | `destage` | writing dirty data to the devices |
//! | `failover` | faults of adapters, and retries of a lost adapter's operations |
//! | `usage` | resources, phases |

mod content;
mod destage;
mod failover;
mod usage;

use destage::{destage, wake};
use failover::Holder;
pub(crate) use failover::{apply_fault, devices_changed, drain_caches};

use crate::adapters::{Adapter, Pair, PathUnits};
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{Request, State};
use crate::spec::{self, Preconditioned};
use iodyno_units::{IoError, Op, OpKind};
use std::collections::BTreeMap;
use std::ops::Range;
use usage::{Phase, Phases};

/// A volume's path through the RAID adapters to the array or device.
#[derive(Clone, Debug)]
pub(crate) struct AdapterPath {
    part: PartId,
    number: u32,
    capacity_bytes: u64,
    is_raid6: bool,
    phases: Phases,
    /// For each read in progress, by request index: the units that were in the cache when the read
    /// began, as pairs of unit number and value. Empty unless content is stored.
    held: BTreeMap<u32, Vec<(u64, u64)>>,
    /// For each partial write in progress, by request index: the units read to complete it.
    fills: BTreeMap<u32, Vec<Fill>>,
}

/// A unit that was read because a write covers only a part of it.
#[derive(Clone, Copy, Debug)]
struct Fill {
    unit: u64,
    /// Sequence number of the last write to the cache when the read of this unit began.
    since: u32,
    /// Value of the unit; meaningful only if content is stored.
    value: u64,
}

/// Returns the 4 KiB units that a request covers, fully or in part.
fn units(request: &Request) -> Range<u64> {
    request.units()
}

fn pair(core: &mut Core) -> &mut Pair {
    core.adapters.as_mut().expect("a path leads through adapters")
}

impl AdapterPath {
    pub(crate) fn new(
        spec: &spec::AdapterPath,
        part: PartId,
        before: &Preconditioned,
        core: &mut Core,
    ) -> Self {
        pair(core).add(spec, part, *before);
        Self {
            part,
            number: spec.number,
            capacity_bytes: spec.capacity_bytes,
            is_raid6: spec.is_raid6,
            phases: Phases::default(),
            held: BTreeMap::new(),
            fills: BTreeMap::new(),
        }
    }

    /// The adapter that serves this path.
    fn adapter<'a>(&self, core: &'a mut Core) -> &'a mut Adapter {
        let pair = pair(core);
        let at = pair.serves(self.number);
        &mut pair.adapters[at]
    }

    /// Processes a request's next event, according to the request's state.
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => self.arrive(core, slot),
            State::Admitted => self.begin(core, slot),
            State::Forwarded => self.process(core, slot),
            State::Processed => self.processed(core, slot),
            State::Transferred => self.received(core, slot),
            State::Done => self.done(core, slot),
            state => unreachable!("unexpected event of an adapter path in state {state:?}"),
        }
    }

    /// Accepts a command from the host, or queues it if all command slots of the adapter are in use.
    fn arrive(&mut self, core: &mut Core, slot: u32) {
        if !self.fills.is_empty() {
            self.forget_fills(core, slot);
        }
        let request = &mut core.slab[slot];
        request.entered_ns = core.now;
        let end = request.at + u64::from(request.len);
        if end > self.capacity_bytes && request.kind != OpKind::Flush {
            core.complete(slot, Some(IoError::OutOfRange));
            return;
        }
        request.state = State::Waiting;
        let now_ns = core.now;
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let group = &pair.groups[pair.group_of(self.number)];
        if !group.is_up {
            core.complete(slot, Some(IoError::Gone));
            return;
        }
        let ready_ns = pair.paths[self.number as usize].ready_ns;
        if now_ns < ready_ns {
            core.at(ready_ns, slot, State::Issued);
            return;
        }
        if let Some(cache) = pair.cache(self.number) {
            cache.prefetch(self.number, &units(&core.slab[slot]));
        }
        let at = pair.host_sends_to(self.number);
        Holder::now(pair, at, pair.serves(self.number)).keep(&mut core.slab[slot]);
        let adapter = &mut pair.adapters[at];
        if adapter.commands == pair.commands_max {
            adapter.waiting.push(&mut core.slab, slot);
            return;
        }
        adapter.commands += 1;
        self.begin(core, slot);
    }

    /// Processes a command, or forwards it to the adapter that serves the path.
    fn begin(&mut self, core: &mut Core, slot: u32) {
        self.phases.end(core, slot, Phase::Commands);
        let (now_ns, at) = (core.now, Holder::of(&core.slab[slot]).at);
        let pair = pair(core);
        if at == pair.serves(self.number) {
            self.process(core, slot);
            return;
        }
        let forward = pair.costs.forward;
        let end_ns = pair.adapters[at].processor.take(now_ns, forward);
        core.at(end_ns, slot, State::Forwarded);
    }

    /// Starts the processing of a command by the adapter that serves the path.
    fn process(&mut self, core: &mut Core, slot: u32) {
        let kind = core.slab[slot].kind;
        let (costs, is_caching) = (pair(core).costs, pair(core).is_caching);
        let now_ns = core.now;
        let is_raid6 = self.is_raid6;
        let adapter = self.adapter(core);
        let mut cost_ticks = if kind == OpKind::Read { costs.read } else { costs.write };
        if is_raid6 {
            cost_ticks += costs.raid6;
        }
        if matches!(kind, OpKind::Write | OpKind::WriteZeroes) && is_caching {
            cost_ticks += costs.cache_write;
        }
        let end_ns = adapter.processor.take(now_ns, cost_ticks);
        core.at(end_ns, slot, State::Processed);
        // The lines prefetched at the request's arrival are evicted if it had to wait for the adapter.
        let touched = units(&core.slab[slot]);
        if let Some(cache) = pair(core).cache(self.number) {
            cache.prefetch(self.number, &touched);
        }
    }

    /// Continues a command after the adapter's processor has finished with it.
    fn processed(&mut self, core: &mut Core, slot: u32) {
        self.phases.end(core, slot, Phase::Processor);
        let (kind, len) = (core.slab[slot].kind, core.slab[slot].len);
        let touched = units(&core.slab[slot]);
        let (number, now_ns) = (self.number, core.now);
        let pair = pair(core);
        let (from_host, has_cache) = (pair.costs.from_host, pair.cache(number).is_some());
        match kind {
            OpKind::Read => {
                let since = pair.cache(number).map_or(0, |cache| cache.now());
                if pair.cache(number).is_some_and(|cache| cache.holds(number, touched.clone())) {
                    self.return_held(core, slot);
                    self.deliver(core, slot);
                } else if pair.paths[number as usize].lost.first_in(touched).is_some() {
                    core.slab[slot].failed = true;
                    answer(core, slot, now_ns);
                } else {
                    self.remember_held(core, slot);
                    core.slab[slot].next = since;
                    self.pass_on(core, slot);
                }
            }
            OpKind::Write | OpKind::WriteZeroes => {
                let len = if kind == OpKind::Write { len } else { 0 };
                let slot_of_host = &mut Self::adapter_of_host(core, slot).from_host;
                let end_ns = slot_of_host.take(now_ns, from_host.ticks(len));
                let end_ns = self.forwarded_ns(core, slot, len, end_ns);
                core.at(end_ns, slot, State::Transferred);
            }
            // With a cache, acknowledged data is already durable.
            OpKind::Flush if !has_cache => self.pass_on(core, slot),
            OpKind::Flush | OpKind::Trim => answer(core, slot, now_ns),
        }
    }

    /// Passes a host's operation to the array or device.
    fn pass_on(&self, core: &mut Core, slot: u32) {
        let op = core.slab[slot].op();
        core.slab[slot].state = State::Waiting;
        let child = ask(core, slot, self.number, &op);
        self.give_passed(core, slot, child);
    }

    /// Processes the arrival of a write's data: caches it if there is space, or passes it to the devices.
    fn received(&mut self, core: &mut Core, slot: u32) {
        let (now_ns, number) = (core.now, self.number);
        let (len, touched) = (core.slab[slot].len, units(&core.slab[slot]));
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let (at, group) = (pair.serves(number), pair.group_of(number));
        let (costs, is_caching) = (pair.costs, pair.is_caching);
        let (has_space, is_up) = (pair.space_units(group) > 0, pair.groups[group].is_up);
        let refuses = pair.paths[number as usize].refuses;
        if !is_up || refuses {
            core.slab[slot].failed = true;
            answer(core, slot, now_ns);
            self.retry_one(core);
            wake(core, group);
            return;
        }
        let Some(cache) = &mut pair.groups[group].cache else {
            self.phases.end(core, slot, Phase::FromHost);
            self.pass_on(core, slot);
            return;
        };
        let must_wait = if is_caching {
            !has_space
        } else {
            // (A destage in progress may still overwrite data that is now lost.)
            cache.is_dirty(number, touched.clone()) || pair.groups[group].void_destages > 0
        };
        if must_wait {
            core.slab[slot].state = State::Waiting;
            pair.groups[group].full.push(&mut core.slab, slot);
            destage(core, group);
            return;
        }
        if !is_caching {
            self.phases.end(core, slot, Phase::FromHost);
            self.write_past(core, slot);
            wake(core, group);
            return;
        }
        if let Some(lacks) = self.lacks(core, slot) {
            self.fill(core, slot, lacks);
            return;
        }
        self.keep_written(core, slot);
        if !self.fills.is_empty() {
            self.forget_fills(core, slot);
        }
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let mut end_ns = now_ns;
        if pair.is_mirrored {
            let sent_ns = pair.adapters[at].mirror.take(now_ns, costs.mirror.ticks(len));
            // The partner's processor handles mirrored writes before its waiting commands.
            let partner = &mut pair.adapters[1 - at];
            partner.processor.take(now_ns, costs.cache_mirror);
            let held_ns = partner.mirrored.take(now_ns, costs.cache_mirror);
            end_ns = sent_ns.max(held_ns) + costs.mirror_latency_ns;
        }
        self.phases.end(core, slot, Phase::FromHost);
        answer(core, slot, end_ns);
        wake(core, group);
        destage(core, group);
    }

    /// Writes through to the devices, because the cache must not hold dirty data now.
    fn write_past(&self, core: &mut Core, slot: u32) {
        // As with the cache, acknowledged data must survive a power cut.
        core.slab[slot].fua = true;
        self.pass_on(core, slot);
    }

    /// Returns a unit that a write covers only in part, and that is neither cached nor read yet; `None` if there is
    /// none.
    fn lacks(&self, core: &mut Core, slot: u32) -> Option<u64> {
        let request = &core.slab[slot];
        let (from, to) = (request.at, request.at + u64::from(request.len));
        let ends = [from / UNIT_BYTES, (to - 1) / UNIT_BYTES];
        let is_part = |unit: u64| unit * UNIT_BYTES < from || (unit + 1) * UNIT_BYTES > to;
        let cache = pair(core).cache(self.number)?;
        let is_filled = |unit: u64| {
            let mut fills = self.fills.get(&slot).into_iter().flatten();
            fills.any(|fill| {
                let is_old = cache.is_written_since(self.number, unit..unit + 1, fill.since);
                fill.unit == unit && !is_old
            })
        };
        let has = |unit: u64| cache.holds(self.number, unit..unit + 1) || is_filled(unit);
        ends.into_iter().find(|&unit| is_part(unit) && !has(unit))
    }

    /// Reads a unit from the array or device because a write covers only a part of it.
    fn fill(&mut self, core: &mut Core, slot: u32, unit: u64) {
        let (now, paths) =
            (pair(core).cache(self.number).map_or(0, |c| c.now()), &pair(core).paths);
        if paths[self.number as usize].lost.contains(unit) {
            self.not_filled(core, slot);
            return;
        }
        let request = &mut core.slab[slot];
        request.state = State::Waiting;
        request.next = now;
        let (offset_bytes, len_bytes) = (unit * UNIT_BYTES, UNIT_BYTES as u32);
        let op = Op { offset_bytes, len_bytes, kind: OpKind::Read, fua: false };
        ask(core, slot, self.number, &op);
    }

    /// Processes the completion of an operation that the path sent to the array or device.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        child: u32,
        failure: Option<IoError>,
    ) {
        if core.slab[parent].internal {
            self.destaged(core, parent, failure.is_some());
            return;
        }
        let (kind, touched) = (core.slab[parent].kind, units(&core.slab[parent]));
        let is_fill = kind != OpKind::Read && core.slab[child].kind == OpKind::Read;
        if matches!(kind, OpKind::Write | OpKind::WriteZeroes) && !is_fill {
            // Reads that overlapped with the write may have returned old data.
            self.pass_by(core, touched);
        }
        if self.begins_again(core, parent) {
            return;
        }
        if is_fill {
            self.filled(core, parent, child, failure.is_some());
            return;
        }
        self.phases.end(core, parent, Phase::Devices);
        core.slab[parent].failed = failure.is_some();
        if core.slab[parent].failed {
            self.forget_held(core, parent);
        } else if kind == OpKind::Read {
            self.return_read(core, parent, child);
            self.deliver(core, parent);
            return;
        }
        if matches!(kind, OpKind::Write | OpKind::WriteZeroes) && failure.is_none() {
            let whole = content::whole_units(&core.slab[parent]);
            pair(core).paths[self.number as usize].lost.remove(whole);
        }
        answer(core, parent, core.now);
    }

    /// Processes the completion of a read that fetched the rest of a partially written unit.
    fn filled(&mut self, core: &mut Core, slot: u32, child: u32, failed: bool) {
        if failed {
            self.not_filled(core, slot);
            return;
        }
        let (unit, since) = (core.slab[child].at / UNIT_BYTES, core.slab[slot].next);
        let values = core.values.as_mut().and_then(|values| values.take(child));
        let value = values.and_then(|values| values.first().copied()).unwrap_or(0);
        let fills = self.fills.entry(slot).or_default();
        let old = fills.iter().position(|fill| fill.unit == unit).map(|at| fills.swap_remove(at));
        fills.push(Fill { unit, since, value });
        if let Some(old) = old {
            core.free(old.value);
        }
        core.at(core.now, slot, State::Transferred);
    }

    /// Fails a partial write because the rest of a unit can't be read, and resumes the next write that
    /// waits for cache space.
    fn not_filled(&mut self, core: &mut Core, slot: u32) {
        self.forget_fills(core, slot);
        core.slab[slot].failed = true;
        answer(core, slot, core.now);
        let group = pair(core).group_of(self.number);
        wake(core, group);
    }

    /// Sends a read's data to the host.
    fn deliver(&mut self, core: &mut Core, slot: u32) {
        let (now_ns, len) = (core.now, core.slab[slot].len);
        let to_host = pair(core).costs.to_host;
        let end_ns = Self::adapter_of_host(core, slot).to_host.take(now_ns, to_host.ticks(len));
        let end_ns = self.forwarded_ns(core, slot, len, end_ns);
        answer(core, slot, end_ns);
    }

    /// The adapter to which the host sent an operation.
    fn adapter_of_host(core: &mut Core, slot: u32) -> &mut Adapter {
        let at = Holder::of(&core.slab[slot]).at;
        &mut pair(core).adapters[at]
    }

    /// Returns the time at which an operation's data has reached the adapter that serves the path. The data crosses
    /// the PCIe slot of the host's adapter until `end_ns` and, if the operation is forwarded, also the link between
    /// the adapters.
    fn forwarded_ns(&self, core: &mut Core, slot: u32, len: u32, end_ns: u64) -> u64 {
        let (now_ns, at) = (core.now, Holder::of(&core.slab[slot]).at);
        let is_read = core.slab[slot].kind == OpKind::Read;
        let pair = pair(core);
        let server = pair.serves(self.number);
        if at == server {
            return end_ns;
        }
        let from = if is_read { server } else { at };
        let link = pair.costs.mirror.ticks(len);
        let sent_ns = pair.adapters[from].mirror.take(now_ns, link);
        end_ns.max(sent_ns) + pair.costs.mirror_latency_ns
    }

    fn done(&mut self, core: &mut Core, slot: u32) {
        self.phases.end(core, slot, Phase::Answer);
        let (failed, at) = (core.slab[slot].failed, Holder::of(&core.slab[slot]).at);
        end_command(core, at);
        core.complete(slot, failed.then_some(IoError::Io));
    }

    /// Processes a power failure: drops the state of operations in progress. An adapter without a working battery loses
    /// its cache content.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        let now_ns = core.now;
        self.held.clear();
        self.fills.clear();
        pair(core).power_off(now_ns);
        self.forget(core);
    }
}

/// Ends a host's command on an adapter. The first waiting operation, if any, takes over its
/// command slot.
fn end_command(core: &mut Core, at: usize) {
    let pair = core.adapters.as_mut().expect("a path leads through adapters");
    let adapter = &mut pair.adapters[at];
    match adapter.waiting.pop(&core.slab) {
        Some(next) => core.at(core.now, next, State::Admitted),
        None => adapter.commands -= 1,
    }
}

/// Completes an operation that the adapter finishes at `end_ns`. The host's driver sees the
/// completion after the adapter's latency.
fn answer(core: &mut Core, slot: u32, end_ns: u64) {
    let latency_ns = pair(core).latency_ns;
    let end_ns = core.notified_ns(end_ns + latency_ns, slot);
    core.at(end_ns, slot, State::Done);
}

/// Sends an operation to the array or device behind a path. Returns the index of the new request.
fn ask(core: &mut Core, slot: u32, path: u32, op: &Op) -> u32 {
    let (now_ns, token) = (core.now, core.slab[slot].token);
    let pair = pair(core);
    let PathUnits { child, is_device, .. } = pair.paths[path as usize];
    let at_ns = if is_device { pair.device(now_ns, path, child, op) } else { now_ns };
    core.ask_at(at_ns, child, slot, op, token)
}
