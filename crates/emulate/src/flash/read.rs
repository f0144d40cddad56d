//! Page reads: context, die, channel, delivery.

use super::{Doing, FlashDevice, Front, UNIT_BYTES};
use crate::core::Core;
use crate::ftl::{Ftl, Residence};
use crate::request::{NIL, Request, State, Work};
use crate::server::PerByte;
use iodyno_units::rng::{below, splitmix64};
use std::ops::Range;

/// Most lanes of a controller.
pub(crate) const LANES_MAX: usize = 8;

/// By lane: the read of the page that the next unit may lie in too, and units in it.
struct OpenPages([(u32, u32); LANES_MAX]);

impl Default for OpenPages {
    fn default() -> Self {
        Self([(NIL, 0); LANES_MAX])
    }
}

/// The driver thread copies one page; gives when that ends.
#[inline(always)]
fn copy_out(core: &mut Core, thread: usize, cost: PerByte, slot: u32) -> u64 {
    let ticks = cost.ticks(core.slab[slot].len);
    core.cores[core.threads[thread].core].take(core.now, ticks)
}

impl FlashDevice {
    /// The request becomes its page reads: one a flash page that holds something of it.
    #[inline(always)]
    pub(super) fn fork_reads(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        let first = request.at / UNIT_BYTES;
        if first == (request.at + u64::from(request.len) - 1) / UNIT_BYTES {
            request.pending = 0;
            self.read_alone(core, slot, first);
        } else {
            self.fork_many(core, slot);
        }
    }

    /// The same for a request of several units.
    #[inline(never)]
    fn fork_many(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        let (at, len) = (request.at, u64::from(request.len));
        // The parent waits for itself too, so that it can't be done before all are forked.
        request.pending = 1;
        request.state = State::Waiting;
        let mut rest = at / UNIT_BYTES..(at + len - 1) / UNIT_BYTES + 1;
        let mut open = OpenPages::default();
        let mut unwritten = 0;
        while !rest.is_empty() {
            let end = rest.end.min(Ftl::chunk_end(rest.start));
            let units = rest.start..end;
            unwritten += if self.ftl.sequential(rest.start) {
                self.read_open(core, &mut open);
                self.fork_in_order(core, slot, units)
            } else {
                self.fork_scattered(core, slot, units, &mut open)
            };
            rest.start = end;
        }
        self.read_open(core, &mut open);
        if unwritten > 0 {
            // The controller answers by itself: nothing is in the cells.
            let child = core.add(self.volume);
            core.slab[child].parent = slot;
            core.slab[child].len = unwritten;
            core.slab[slot].pending += 1;
            core.slab[child].entered_ns = core.now;
            core.slab[child].state = State::Waiting;
            core.slab[child].work = Work::Nothing;
            self.take_context(core, child);
        }
        child_ended(core, slot);
    }

    /// Units that were written in order: side by side in the pages of dies that take turns. Gives how many bytes
    /// of them were not written.
    fn fork_in_order(&mut self, core: &mut Core, slot: u32, mut units: Range<u64>) -> u32 {
        let (per_page, dies) = (u64::from(self.units_per_page), self.dies.len() as u64);
        let full = self.ftl.is_full();
        let mut unwritten = 0;
        while !units.is_empty() {
            let page = units.start / per_page;
            let end = units.end.min((page + 1) * per_page);
            let mut bytes = bytes_within(&core.slab[slot], units.start..end);
            if !full {
                let missing = (units.start..end).filter(|&unit| !self.ftl.holds(unit));
                let missing: u32 =
                    missing.map(|unit| bytes_within(&core.slab[slot], unit..unit + 1)).sum();
                unwritten += missing;
                bytes -= missing;
            }
            if bytes > 0 {
                let die = (page % dies) as u16;
                let child = self.child(core, slot, units.start, bytes, die);
                self.read_page(core, child);
            }
            units.start = end;
        }
        unwritten
    }

    /// Units that were written out of order: those that were written at once lie in pages together, in lanes.
    /// Gives how many bytes of them were not written.
    fn fork_scattered(
        &mut self,
        core: &mut Core,
        slot: u32,
        units: Range<u64>,
        open: &mut OpenPages,
    ) -> u32 {
        let mut unwritten = 0;
        for unit in units {
            let bytes = bytes_within(&core.slab[slot], unit..unit + 1);
            if !self.ftl.holds(unit) {
                unwritten += bytes;
                continue;
            }
            let lane = unit as usize % self.lanes as usize;
            let (child, count) = open.0[lane];
            if child != NIL && count < self.units_per_page && self.written_together(unit) {
                core.slab[child].len += bytes;
                open.0[lane].1 += 1;
                continue;
            }
            if child != NIL {
                self.read_page(core, child);
            }
            let die = self.scattered_die(unit);
            open.0[lane] = (self.child(core, slot, unit, bytes, die), 1);
        }
        unwritten
    }

    /// No neighbour follows to what is open.
    fn read_open(&mut self, core: &mut Core, open: &mut OpenPages) {
        for (child, _) in std::mem::take(open).0 {
            if child != NIL {
                self.read_page(core, child);
            }
        }
    }

    /// A page read for a host's read.
    #[inline(always)]
    fn child(&self, core: &mut Core, parent: u32, unit: u64, len: u32, die: u16) -> u32 {
        let child = core.add(self.volume);
        core.slab[parent].pending += 1;
        let request = &mut core.slab[child];
        request.parent = parent;
        request.at = unit;
        request.len = len;
        request.die = die;
        child
    }

    /// A request of one page is its own page read.
    #[inline(always)]
    fn read_alone(&mut self, core: &mut Core, slot: u32, unit: u64) {
        if let Some(die) = self.place(unit) {
            core.slab[slot].die = die;
            self.read_page(core, slot);
        } else {
            core.slab[slot].work = Work::Nothing;
            self.take_context(core, slot);
        }
    }

    /// On which die a unit lies. None: nowhere.
    #[inline(always)]
    pub(super) fn place(&self, unit: u64) -> Option<u16> {
        if !self.ftl.holds(unit) {
            return None;
        }
        if self.ftl.sequential(unit) {
            let page = unit / u64::from(self.units_per_page);
            return Some((page % self.dies.len() as u64) as u16);
        }
        Some(self.scattered_die(unit))
    }

    /// The same for one that was written out of order.
    #[inline(always)]
    fn scattered_die(&self, unit: u64) -> u16 {
        if self.represent == 1
            && let Residence::Slot(slot) = self.ftl.find(unit)
        {
            return self.die_of_slot(slot);
        }
        let hash = splitmix64(unit ^ self.key);
        ((u128::from(hash) * self.dies.len() as u128) >> 64) as u16
    }

    /// Whether a unit lies in the flash page of its neighbour before it in the same lane.
    fn written_together(&self, unit: u64) -> bool {
        let block = u64::from(self.written_units);
        let before = unit - u64::from(self.lanes);
        unit / block == before / block && splitmix64(unit ^ !self.key) >= self.split
    }

    #[inline(always)]
    fn read_page(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].entered_ns = core.now;
        self.take_context(core, slot);
    }

    /// A read context, or the wait for one.
    #[inline(always)]
    fn take_context(&mut self, core: &mut Core, slot: u32) {
        if self.contexts.used() == self.contexts_max {
            core.slab[slot].state = State::Waiting;
            self.context_waiting.push(&mut core.slab, slot);
            return;
        }
        self.contexts.add(core.now);
        self.enter_die(core, slot);
    }

    #[inline(always)]
    fn enter_die(&mut self, core: &mut Core, slot: u32) {
        self.has_context(core, slot);
        if core.slab[slot].work == Work::Nothing {
            self.out(core, slot);
        } else {
            self.sense(core, slot);
        }
    }

    #[inline(always)]
    fn has_context(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        if !request.internal {
            self.phases.context_ns += core.now - request.entered_ns;
            self.phases.page_reads += 1;
        }
        request.entered_ns = core.now;
    }

    /// The die reads the page now, or when it can.
    #[inline(always)]
    pub(super) fn sense(&mut self, core: &mut Core, slot: u32) {
        let index = core.slab[slot].die as usize;
        let die = &mut self.dies[index];
        if die.doing == Doing::Nothing {
            self.begin_sense(core, slot, 0);
            return;
        }
        if let Some(suspend_ns) = self.suspend_ns
            && matches!(die.doing, Doing::Programming | Doing::Erasing)
            && for_host(core, slot)
        {
            let slow = &mut self.slow[index];
            // A program whose data are still on their way is suspended when it has begun.
            let from_ns = slow.begins_ns.max(core.now);
            let left_ns = slow.ends_ns - from_ns;
            // Not worth while for what ends as soon.
            if left_ns > suspend_ns {
                die.suspended = true;
                slow.left_ns = left_ns;
                slow.was = die.doing;
                die.busy_ns += core.now - die.since_ns;
                self.begin_sense(core, slot, from_ns - core.now + suspend_ns);
                return;
            }
        }
        core.slab[slot].state = State::Waiting;
        die.reads.push(&mut core.slab, slot);
    }

    #[inline(always)]
    pub(super) fn begin_sense(&mut self, core: &mut Core, slot: u32, delay_ns: u64) {
        let die = &mut self.dies[core.slab[slot].die as usize];
        die.doing = Doing::Reading;
        die.since_ns = core.now;
        let request = &mut core.slab[slot];
        if request.internal {
            self.counts.copy_senses += 1;
        } else {
            self.counts.senses += 1;
            self.phases.die_wait_ns += core.now + delay_ns - request.entered_ns;
        }
        request.entered_ns = core.now + delay_ns;
        core.at(core.now + delay_ns + self.read_ns, slot, State::Sensed);
    }

    /// The page is in the die's register: over the channel.
    #[inline(always)]
    pub(super) fn sensed(&mut self, core: &mut Core, slot: u32) {
        if !core.slab[slot].internal {
            self.phases.sense_ns += core.now - core.slab[slot].entered_ns;
            if self.damage.is_some() && self.recover(core, slot) {
                return;
            }
        }
        let request = &core.slab[slot];
        let units = u64::from(request.len).div_ceil(UNIT_BYTES);
        let channel = self.dies[request.die as usize].channel as usize;
        let end = self.channels[channel].take(core.now, units * self.unit_ticks);
        core.slab[slot].entered_ns = core.now;
        core.at(end, slot, State::Transferred);
    }

    /// The die is free, and the data are in the controller.
    #[inline(always)]
    pub(super) fn transferred(&mut self, core: &mut Core, slot: u32) {
        let die = core.slab[slot].die as usize;
        self.release(core, die);
        if core.slab[slot].internal {
            self.copy_read(core, slot);
            return;
        }
        self.phases.channel_ns += core.now - core.slab[slot].entered_ns;
        core.slab[slot].entered_ns = core.now;
        self.out(core, slot);
    }

    /// To the host.
    #[inline(always)]
    pub(super) fn out(&mut self, core: &mut Core, slot: u32) {
        if self.send(core, slot) {
            self.free_context(core);
        }
    }

    /// The same; gives whether its context is free. (Otherwise it is when the driver thread has copied it.)
    #[inline(always)]
    fn send(&mut self, core: &mut Core, slot: u32) -> bool {
        match &mut self.front {
            Front::Channel { thread, ready, poll, polling, read_copy, .. } => {
                let poll_ns = core.threads[*thread].poll_ns;
                if poll_ns == 0 {
                    let end = copy_out(core, *thread, *read_copy, slot);
                    self.deliver(core, slot, end);
                    return true;
                }
                core.slab[slot].state = State::Waiting;
                ready.push(&mut core.slab, slot);
                if !*polling {
                    *polling = true;
                    let wait_ns = 1 + below(&mut core.poll_rng, poll_ns);
                    core.at(core.now + wait_ns, *poll, State::Poll);
                }
                false
            }
            Front::Link { up, read, latency_ns, .. } => {
                let end = up.take(core.now, read.ticks(core.slab[slot].len)) + *latency_ns;
                self.deliver(core, slot, end);
                true
            }
        }
    }

    /// A page's data come to the host, at `end_ns` but for the controller's latency. (One after the
    /// other: the last page that sets out is the last to arrive.)
    #[inline(always)]
    fn deliver(&mut self, core: &mut Core, slot: u32, end_ns: u64) {
        let end_ns = end_ns + self.read_latency_ns;
        if core.slab[slot].parent == NIL {
            core.at(core.heard_ns(end_ns, slot), slot, State::Delivered);
        } else {
            self.deliver_part(core, slot, end_ns);
        }
    }

    /// The same of one page of several.
    #[inline(never)]
    fn deliver_part(&mut self, core: &mut Core, slot: u32, end_ns: u64) {
        let request = &core.slab[slot];
        let (parent, failed) = (request.parent, request.failed);
        self.phases.deliver_ns += end_ns - request.entered_ns;
        core.slab.remove(slot);
        let request = &mut core.slab[parent];
        request.failed |= failed;
        request.entered_ns = end_ns;
        child_ended(core, parent);
    }

    /// The driver thread looks, for it is time.
    pub(super) fn poll(&mut self, core: &mut Core, slot: u32) {
        if let Front::Channel { polling, .. } = &mut self.front {
            *polling = false;
        }
        core.slab[slot].state = State::Waiting;
        self.take_ready(core);
    }

    /// The driver thread copies what is ready; the contexts of those pages are free.
    #[inline(always)]
    pub(super) fn take_ready(&mut self, core: &mut Core) {
        loop {
            let Front::Channel { thread, ready, read_copy, .. } = &mut self.front else {
                return;
            };
            let Some(slot) = ready.pop(&core.slab) else { return };
            let end = copy_out(core, *thread, *read_copy, slot);
            self.deliver(core, slot, end);
            self.free_context(core);
        }
    }

    #[inline(always)]
    fn free_context(&mut self, core: &mut Core) {
        while let Some(next) = self.context_waiting.pop(&core.slab) {
            self.has_context(core, next);
            if core.slab[next].work != Work::Nothing {
                self.sense(core, next);
                return;
            }
            // Nothing is in the cells: it needs its context for no time.
            if !self.send(core, next) {
                return;
            }
        }
        self.contexts.drop(core.now);
    }

    /// A read's data are with the host.
    #[inline(always)]
    pub(super) fn delivered(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        self.phases.deliver_ns += core.now - request.entered_ns;
        let failed = request.failed;
        self.done(core, slot, failed.then_some(crate::machine::Failure::Medium));
    }
}

/// One of a read's pages, or the forking itself, has ended.
#[inline(always)]
fn child_ended(core: &mut Core, parent: u32) {
    let request = &mut core.slab[parent];
    request.pending -= 1;
    if request.pending == 0 {
        let end_ns = request.entered_ns;
        core.at(core.heard_ns(end_ns, parent), parent, State::Delivered);
    }
}

/// Whether a host waits for a page read: it is one of a host's read, or of the stripe that rebuilds one. The device's
/// own reads suspend nothing.
#[inline(always)]
fn for_host(core: &Core, slot: u32) -> bool {
    let request = &core.slab[slot];
    !request.internal || !core.slab[request.parent].internal
}

/// How many bytes of a request lie in a range of units.
#[inline(always)]
fn bytes_within(request: &Request, units: Range<u64>) -> u32 {
    let from = request.at.max(units.start * UNIT_BYTES);
    let to = (request.at + u64::from(request.len)).min(units.end * UNIT_BYTES);
    (to - from) as u32
}
