//! The path of a volume through its system's RAID adapters: what their processors, links and write cache do to each of
//! its operations, and the destaging of what the cache holds of it. It ends where the array behind it, or the device,
//! receives an operation.
//!
//! ```text
//! read    processor ─▶ cache holds it ───────────────────────────▶ slot ─▶ host
//!                   └▶ array ─▶ processor, drawer ─▶ device ─▶ ┘
//! write   processor ─▶ slot ─▶ cache ─▶ partner's processor ─────────────▶ host
//!                                └ later: array ─▶ processor, drawer ─▶ device
//! ```
//!
//! A host sends each operation to the adapter on which the volume is optimized. Trims end at the adapter.

mod usage;

use crate::adapters::{Adapter, Pair, PathUnits, UNPLACED};
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{Origin, Request, State};
use crate::spec::{self, Preconditioned};
use iodyno_units::{IoError, Op, OpKind};
use std::ops::Range;
use usage::{Phase, Phases};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct AdapterPath {
    part: PartId,
    number: u32,
    capacity_bytes: u64,
    is_raid6: bool,
    phases: Phases,
}

/// The units that a request touches.
fn units(request: &Request) -> Range<u64> {
    request.at / UNIT_BYTES..(request.at + u64::from(request.len)).div_ceil(UNIT_BYTES)
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
        let units = spec.capacity_bytes / UNIT_BYTES;
        let stripe_units = (spec.stripe_bytes / UNIT_BYTES).max(1);
        let (before, child, is_device) = (*before, spec.child, spec.is_device);
        pair(core).add(PathUnits { units, stripe_units, before, next: 0, part, child, is_device });
        Self {
            part,
            number: spec.number,
            capacity_bytes: spec.capacity_bytes,
            is_raid6: spec.is_raid6,
            phases: Phases::default(),
        }
    }

    /// The adapter that serves this path.
    fn adapter<'a>(&self, core: &'a mut Core) -> &'a mut Adapter {
        let pair = pair(core);
        let at = pair.serves(self.number);
        &mut pair.adapters[at]
    }

    /// Processes the event of a request of this path.
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => self.arrive(core, slot),
            State::Admitted => self.begin(core, slot),
            State::Processed => self.processed(core, slot),
            State::Transferred => self.received(core, slot),
            State::Done => self.done(core, slot),
            state => unreachable!("a path has no event in {state:?}"),
        }
    }

    /// A host's driver sends a command, if the adapter takes one more.
    fn arrive(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        request.entered_ns = core.now;
        let end = request.at + u64::from(request.len);
        if end > self.capacity_bytes && request.kind != OpKind::Flush {
            core.complete(slot, Some(IoError::OutOfRange));
            return;
        }
        request.state = State::Waiting;
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let at = pair.serves(self.number);
        let adapter = &mut pair.adapters[at];
        if adapter.commands == pair.commands_max {
            adapter.waiting.push(&mut core.slab, slot);
            return;
        }
        adapter.commands += 1;
        self.begin(core, slot);
    }

    /// The adapter's processor takes the command.
    fn begin(&mut self, core: &mut Core, slot: u32) {
        self.phases.end(core, slot, Phase::Commands);
        let kind = core.slab[slot].kind;
        let costs = pair(core).costs;
        let now_ns = core.now;
        let is_raid6 = self.is_raid6;
        let adapter = self.adapter(core);
        let mut cost_ticks = if kind == OpKind::Read { costs.read } else { costs.write };
        if is_raid6 {
            cost_ticks += costs.raid6;
        }
        if matches!(kind, OpKind::Write | OpKind::WriteZeroes) && adapter.cache.is_some() {
            cost_ticks += costs.cache_write;
        }
        let end_ns = adapter.processor.take(now_ns, cost_ticks);
        core.at(end_ns, slot, State::Processed);
    }

    /// The processor has taken the command.
    fn processed(&mut self, core: &mut Core, slot: u32) {
        self.phases.end(core, slot, Phase::Processor);
        let (kind, len) = (core.slab[slot].kind, core.slab[slot].len);
        let touched = units(&core.slab[slot]);
        let (number, now_ns) = (self.number, core.now);
        let from_host = pair(core).costs.from_host;
        let adapter = self.adapter(core);
        match kind {
            OpKind::Read => {
                if adapter.cache.as_ref().is_some_and(|cache| cache.holds(number, touched)) {
                    self.deliver(core, slot);
                } else {
                    self.pass_on(core, slot);
                }
            }
            OpKind::Write | OpKind::WriteZeroes => {
                let len = if kind == OpKind::Write { len } else { 0 };
                let end_ns = adapter.from_host.take(now_ns, from_host.ticks(len));
                core.at(end_ns, slot, State::Transferred);
            }
            // What the cache holds is durable.
            OpKind::Flush if adapter.cache.is_none() => self.pass_on(core, slot),
            OpKind::Flush | OpKind::Trim => answer(core, slot, now_ns),
        }
    }

    /// Asks the array, or the device, for what the host asked for.
    fn pass_on(&self, core: &mut Core, slot: u32) {
        let op = core.slab[slot].op();
        core.slab[slot].state = State::Waiting;
        ask(core, slot, self.number, &op);
    }

    /// A write's data are in the adapter: it goes to the cache, when that has space, or to the devices.
    fn received(&mut self, core: &mut Core, slot: u32) {
        let now_ns = core.now;
        let (len, touched) = (core.slab[slot].len, units(&core.slab[slot]));
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let at = pair.serves(self.number);
        let costs = pair.costs;
        let is_full = pair.space_units(at) == 0;
        let Some(cache) = &mut pair.adapters[at].cache else {
            self.phases.end(core, slot, Phase::FromHost);
            self.pass_on(core, slot);
            return;
        };
        if is_full {
            core.slab[slot].state = State::Waiting;
            pair.adapters[at].full.push(&mut core.slab, slot);
            destage(core, at);
            return;
        }
        cache.write(self.number, touched);
        let mut end_ns = now_ns;
        if pair.adapters.len() > 1 {
            let sent_ns = pair.adapters[at].mirror.take(now_ns, costs.mirror.ticks(len));
            // The partner's processor takes these before the commands that wait there.
            let partner = &mut pair.adapters[1 - at];
            partner.processor.take(now_ns, costs.cache_mirror);
            let held_ns = partner.mirrored.take(now_ns, costs.cache_mirror);
            end_ns = sent_ns.max(held_ns) + costs.mirror_latency_ns;
        }
        self.phases.end(core, slot, Phase::FromHost);
        answer(core, slot, end_ns);
        wake(core, at);
        destage(core, at);
    }

    /// The array or the device has ended what it was asked for.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        failure: Option<IoError>,
    ) {
        if core.slab[parent].internal {
            self.destaged(core, parent, failure.is_some());
            return;
        }
        self.phases.end(core, parent, Phase::Devices);
        core.slab[parent].failed = failure.is_some();
        if failure.is_none() && core.slab[parent].kind == OpKind::Read {
            let touched = units(&core.slab[parent]);
            let (number, keeps) = (self.number, pair(core).keeps_reads);
            if keeps && let Some(cache) = &mut self.adapter(core).cache {
                cache.used(number, touched);
            }
            self.deliver(core, parent);
        } else {
            answer(core, parent, core.now);
        }
    }

    /// A destage has ended: writes that wait for space go on.
    fn destaged(&self, core: &mut Core, slot: u32, failed: bool) {
        let (token, touched) = (core.slab[slot].token, units(&core.slab[slot]));
        core.slab.remove(slot);
        let number = self.number;
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let at = pair.serves(number);
        let adapter = &mut pair.adapters[at];
        adapter.destages -= 1;
        let cache = adapter.cache.as_mut().expect("it destages");
        if token == UNPLACED {
            cache.destaged_unplaced(touched.end - touched.start);
        } else {
            cache.destaged(number, touched, failed);
        }
        if !failed {
            wake(core, at);
            destage(core, at);
        } else if adapter.destages == 0 {
            // There will be no space: those that wait for it fail with what refuses their predecessors. The next write
            // tries again.
            let mut full = std::mem::take(&mut adapter.full);
            while let Some(next) = full.pop(&core.slab) {
                core.slab[next].failed = true;
                core.at(core.now, next, State::Done);
            }
        }
    }

    /// A read's data go to the host.
    fn deliver(&mut self, core: &mut Core, slot: u32) {
        let (now_ns, len) = (core.now, core.slab[slot].len);
        let to_host = pair(core).costs.to_host;
        let end_ns = self.adapter(core).to_host.take(now_ns, to_host.ticks(len));
        answer(core, slot, end_ns);
    }

    fn done(&mut self, core: &mut Core, slot: u32) {
        self.phases.end(core, slot, Phase::Answer);
        let failed = core.slab[slot].failed;
        let pair = core.adapters.as_mut().expect("a path leads through adapters");
        let at = pair.serves(self.number);
        let adapter = &mut pair.adapters[at];
        match adapter.waiting.pop(&core.slab) {
            Some(next) => core.at(core.now, next, State::Admitted),
            None => adapter.commands -= 1,
        }
        core.complete(slot, failed.then_some(IoError::Io));
    }

    /// The power fails.
    #[expect(clippy::unused_self, reason = "every kind of part has this method")]
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        let now_ns = core.now;
        pair(core).power_off(now_ns);
    }

    /// Its content is not kept yet.
    #[expect(clippy::unused_self, reason = "every kind of part has this method")]
    pub(crate) fn keep_content(&mut self) {}

    /// None: its content is not kept yet.
    pub(crate) fn unit_value(_: u64) -> Option<u64> {
        None
    }
}

/// The host's driver receives the answer at `end_ns`, or soon after.
fn answer(core: &mut Core, slot: u32, end_ns: u64) {
    let latency_ns = pair(core).latency_ns;
    let end_ns = core.notified_ns(end_ns + latency_ns, slot);
    core.at(end_ns, slot, State::Done);
}

/// Asks the array or the device behind a path.
fn ask(core: &mut Core, slot: u32, path: u32, op: &Op) {
    let (now_ns, token) = (core.now, core.slab[slot].token);
    let pair = pair(core);
    let PathUnits { child, is_device, .. } = pair.paths[path as usize];
    let at_ns = if is_device { pair.device(now_ns, path, child, op) } else { now_ns };
    core.ask_at(at_ns, child, slot, op, token);
}

/// The first of the writes that wait for space in a cache goes on, if there is some; when it has taken its own, the next.
fn wake(core: &mut Core, at: usize) {
    let pair = core.adapters.as_mut().expect("a path leads through adapters");
    if pair.space_units(at) > 0
        && let Some(next) = pair.adapters[at].full.pop(&core.slab)
    {
        core.at(core.now, next, State::Transferred);
    }
}

/// An adapter writes to devices what its cache holds, as fast as its fill asks for.
fn destage(core: &mut Core, at: usize) {
    while let Some((path, units, token)) = pair(core).next_destage(at) {
        let part = pair(core).paths[path as usize].part;
        let op = Op {
            offset_bytes: units.start * UNIT_BYTES,
            len_bytes: ((units.end - units.start) * UNIT_BYTES) as u32,
            kind: OpKind::Write,
            fua: false,
        };
        let slot = core.add(part);
        let request = &mut core.slab[slot];
        (request.internal, request.origin, request.state) = (true, Origin::Own, State::Waiting);
        (request.at, request.len, request.token) = (op.offset_bytes, op.len_bytes, token);
        ask(core, slot, path, &op);
    }
}
