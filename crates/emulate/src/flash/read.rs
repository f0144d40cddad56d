//! Page reads: context, die, channel, delivery.

use super::{Doing, FlashDevice, Front, UNIT_BYTES};
use crate::core::Core;
use crate::ftl::Residence;
use crate::request::{NIL, State, Work};
use crate::server::PerByte;
use iodyno_units::rng::{below, splitmix64};

/// The driver thread copies one page.
#[inline(always)]
fn copy_out(core: &mut Core, thread: usize, cost: PerByte, latency_ns: u64, slot: u32) {
    let ticks = cost.ticks(core.slab[slot].len);
    let end = core.cores[core.threads[thread].core].take(core.now, ticks) + latency_ns;
    let end = if core.slab[slot].parent == NIL { core.heard_ns(end, slot) } else { end };
    core.at(end, slot, State::Delivered);
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
        let (at, len) = (core.slab[slot].at, u64::from(core.slab[slot].len));
        let (first, last) = (at / UNIT_BYTES, (at + len - 1) / UNIT_BYTES);
        // The parent waits for itself too, so that it can't be done before all are forked.
        core.slab[slot].pending = 1;
        core.slab[slot].state = State::Waiting;
        // Open page of each lane: its request, units in it, and which page it is.
        let mut open = [(NIL, 0_u32, 0_u64); 8];
        let mut unwritten = 0;
        for unit in first..=last {
            let from = at.max(unit * UNIT_BYTES);
            let bytes = ((at + len).min((unit + 1) * UNIT_BYTES) - from) as u32;
            let Some((die, page)) = self.place(unit) else {
                unwritten += bytes;
                continue;
            };
            let lane = if page.is_some() { 0 } else { unit as usize % self.lanes as usize };
            let (child, units, of) = open[lane];
            let joins = child != NIL
                && units < self.units_per_page
                && match page {
                    Some(page) => of == page,
                    None => of == u64::MAX && self.written_together(unit),
                };
            if joins {
                core.slab[child].len += bytes;
                open[lane].1 += 1;
                continue;
            }
            for (child, _, _) in open.iter_mut().filter(|o| page.is_some() && o.0 != NIL) {
                let ready = std::mem::replace(child, NIL);
                self.read_page(core, ready);
            }
            if child != NIL && page.is_none() {
                self.read_page(core, child);
            }
            let child = core.add(self.volume);
            let request = &mut core.slab[child];
            request.parent = slot;
            request.at = unit;
            request.len = bytes;
            request.die = die;
            core.slab[slot].pending += 1;
            open[lane] = (child, 1, page.unwrap_or(u64::MAX));
        }
        for (child, _, _) in open {
            if child != NIL {
                self.read_page(core, child);
            }
        }
        if unwritten > 0 {
            // The controller answers by itself: nothing is in the cells.
            let child = core.add(self.volume);
            core.slab[child].parent = slot;
            core.slab[child].len = unwritten;
            core.slab[slot].pending += 1;
            core.slab[child].entered_ns = core.now;
            core.slab[child].work = Work::Nothing;
            self.take_context(core, child);
        }
        self.child_ended(core, slot);
    }

    /// A request of one page is its own page read.
    #[inline(always)]
    fn read_alone(&mut self, core: &mut Core, slot: u32, unit: u64) {
        if let Some((die, _)) = self.place(unit) {
            core.slab[slot].die = die;
            self.read_page(core, slot);
        } else {
            core.slab[slot].work = Work::Nothing;
            self.take_context(core, slot);
        }
    }

    /// Where a unit lies: its die, and its flash page where it was written in order. None: nowhere.
    #[inline(always)]
    pub(super) fn place(&self, unit: u64) -> Option<(u16, Option<u64>)> {
        let dies = self.dies.len() as u64;
        if !self.ftl.holds(unit) {
            return None;
        }
        if self.ftl.sequential(unit) {
            let page = unit / u64::from(self.units_per_page);
            return Some(((page % dies) as u16, Some(page)));
        }
        let die = if self.represent == 1
            && let Residence::Slot(slot) = self.ftl.find(unit)
        {
            u64::from(self.die_of_slot(slot))
        } else {
            let hash = splitmix64(unit ^ self.key);
            ((u128::from(hash) * u128::from(dies)) >> 64) as u64
        };
        Some((die as u16, None))
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
        let request = &mut core.slab[slot];
        if !request.internal {
            self.phases.context_ns += core.now - request.entered_ns;
            self.phases.page_reads += 1;
        }
        request.entered_ns = core.now;
        if request.work == Work::Nothing {
            self.out(core, slot);
            return;
        }
        self.sense(core, slot);
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
        {
            let slow = &mut self.slow[index];
            let left_ns = slow.ends_ns - core.now;
            // Not worth while for what ends as soon.
            if left_ns > suspend_ns {
                die.suspended = true;
                slow.left_ns = left_ns;
                slow.was = die.doing;
                die.busy_ns += core.now - die.since_ns;
                self.begin_sense(core, slot, suspend_ns);
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
        match &mut self.front {
            Front::Channel { thread, ready, poll, polling, read_copy, .. } => {
                let poll_ns = core.threads[*thread].poll_ns;
                if poll_ns == 0 {
                    copy_out(core, *thread, *read_copy, self.read_latency_ns, slot);
                    self.free_context(core);
                    return;
                }
                core.slab[slot].state = State::Waiting;
                ready.push(&mut core.slab, slot);
                if !*polling {
                    *polling = true;
                    let wait_ns = 1 + below(&mut core.poll_rng, poll_ns);
                    core.at(core.now + wait_ns, *poll, State::Poll);
                }
            }
            Front::Link { up, read, latency_ns, .. } => {
                let end = up.take(core.now, read.ticks(core.slab[slot].len))
                    + *latency_ns
                    + self.read_latency_ns;
                let end =
                    if core.slab[slot].parent == NIL { core.heard_ns(end, slot) } else { end };
                core.at(end, slot, State::Delivered);
                self.free_context(core);
            }
        }
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
            copy_out(core, *thread, *read_copy, self.read_latency_ns, slot);
            self.free_context(core);
        }
    }

    #[inline(always)]
    fn free_context(&mut self, core: &mut Core) {
        match self.context_waiting.pop(&core.slab) {
            Some(next) => self.enter_die(core, next),
            None => self.contexts.drop(core.now),
        }
    }

    /// One page's data are with the host.
    #[inline(always)]
    pub(super) fn delivered(&mut self, core: &mut Core, slot: u32) {
        self.phases.deliver_ns += core.now - core.slab[slot].entered_ns;
        let (parent, failed) = (core.slab[slot].parent, core.slab[slot].failed);
        if parent == NIL {
            self.done(core, slot, failed.then_some(crate::machine::Failure::Medium));
            return;
        }
        core.slab[parent].failed |= failed;
        core.slab.remove(slot);
        self.child_ended(core, parent);
    }

    /// One of a read's pages, or the forking itself, has ended.
    #[inline(always)]
    fn child_ended(&mut self, core: &mut Core, parent: u32) {
        let request = &mut core.slab[parent];
        request.pending -= 1;
        if request.pending == 0 {
            let failed = request.failed;
            self.done(core, parent, failed.then_some(crate::machine::Failure::Medium));
        }
    }
}
