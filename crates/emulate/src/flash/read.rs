//! Page reads: each allocates a read context, reads the die, transfers the page over the channel, and delivers it to
//! the host.

use super::{Doing, FlashDevice, HostInterface, UNIT_BYTES};
use crate::core::Core;
use crate::request::{NIL, State, Work};
use crate::server::PerByte;
use iodyno_units::rng::below;

/// Token of a page read that is complete and waits for the other page of its frame.
const ARRIVED: u64 = u64::MAX;

/// Makes the driver thread copy the data of one page read to the host. Returns the end of the copy, ns.
#[inline(always)]
fn copy_out(core: &mut Core, thread: usize, cost: PerByte, slot: u32) -> u64 {
    let ticks = cost.ticks(core.slab[slot].len);
    core.cores[core.threads[thread].core].take(core.now, ticks)
}

impl FlashDevice {
    #[inline(always)]
    pub(super) fn read_page(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].entered_ns = core.now;
        self.take_context(core, slot);
    }

    /// Allocates a read context, or queues the page read until one is free.
    #[inline(always)]
    pub(super) fn take_context(&mut self, core: &mut Core, slot: u32) {
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

    /// Reads a page on its die, or queues the page read until the die is free.
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
            let suspend_ns = self.suspension_ns(suspend_ns);
            let die = &mut self.dies[index];
            let slow = &mut self.slow[index];
            // A program operation whose data is still being transferred can be suspended only once it has begun.
            let from_ns = slow.begins_ns.max(core.now);
            let left_ns = slow.ends_ns - from_ns;
            // An operation that ends sooner than a suspension takes is not suspended.
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
        self.dies[index].reads.push(&mut core.slab, slot);
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
        let internal = request.internal;
        core.at(core.now + delay_ns + self.sense_ns(internal), slot, State::Sensed);
    }

    /// Transfers a page over the channel after it has been read into the die's register.
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

    /// Frees the die after its page has been transferred to the controller.
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

    /// Sends a page to the host, or waits for the other page of its frame.
    #[inline(always)]
    pub(super) fn out(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        if request.parent != NIL && request.token != 0 {
            self.out_of_frame(core, slot);
        } else if self.send(core, slot) {
            self.free_context(core);
        }
    }

    /// Sends both pages of a frame once both are in the controller. The first one keeps its read context
    /// until then.
    #[inline(never)]
    fn out_of_frame(&mut self, core: &mut Core, slot: u32) {
        let other = (core.slab[slot].token - 1) as u32;
        if core.slab[other].token != ARRIVED {
            core.slab[slot].token = ARRIVED;
            core.slab[slot].state = State::Waiting;
            return;
        }
        // The first page has waited for the other one's die.
        self.phases.die_wait_ns += core.now - core.slab[other].entered_ns;
        core.slab[other].entered_ns = core.now;
        for page in [other, slot] {
            if self.send(core, page) {
                self.free_context(core);
            }
        }
    }

    /// Sends a page. Returns whether its read context is free; otherwise the context is freed when the driver
    /// thread has copied the page.
    #[inline(always)]
    fn send(&mut self, core: &mut Core, slot: u32) -> bool {
        match &mut self.front {
            HostInterface::Channel { thread, ready, poll, polling, read_copy, .. } => {
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
            HostInterface::Link { up, read, latency_ns, .. } => {
                let end = up.take(core.now, read.ticks(core.slab[slot].len)) + *latency_ns;
                self.deliver(core, slot, end);
                true
            }
        }
    }

    /// Schedules a page's arrival at the host, at `end_ns` plus the controller's latency. Pages arrive in the
    /// order in which they are sent.
    #[inline(always)]
    fn deliver(&mut self, core: &mut Core, slot: u32, end_ns: u64) {
        let end_ns = end_ns + self.read_latency_ns;
        if core.slab[slot].parent == NIL {
            core.at(core.notified_ns(end_ns, slot), slot, State::Delivered);
        } else {
            self.deliver_part(core, slot, end_ns);
        }
    }

    /// Schedules the arrival of one of several pages of a read.
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

    /// Processes a scheduled poll of the driver thread.
    pub(super) fn poll(&mut self, core: &mut Core, slot: u32) {
        if let HostInterface::Channel { polling, .. } = &mut self.front {
            *polling = false;
        }
        core.slab[slot].state = State::Waiting;
        self.take_ready(core);
    }

    /// Makes the driver thread copy all ready pages, and frees their read contexts.
    #[inline(always)]
    pub(super) fn take_ready(&mut self, core: &mut Core) {
        loop {
            let HostInterface::Channel { thread, ready, read_copy, .. } = &mut self.front else {
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
            // An unwritten page needs its context for no time.
            if !self.send(core, next) {
                return;
            }
        }
        self.contexts.drop(core.now);
    }

    /// Completes a read whose data has reached the host.
    #[inline(always)]
    pub(super) fn delivered(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        self.phases.deliver_ns += core.now - request.entered_ns;
        let failed = request.failed;
        self.done(core, slot, failed.then_some(iodyno_units::IoError::Io));
    }
}

/// Counts down the outstanding steps of a read (one per page, and one for splitting it), and completes it
/// after the last.
#[inline(always)]
pub(super) fn child_ended(core: &mut Core, parent: u32) {
    let request = &mut core.slab[parent];
    request.pending -= 1;
    if request.pending == 0 {
        let end_ns = request.entered_ns;
        core.at(core.notified_ns(end_ns, parent), parent, State::Delivered);
    }
}

/// Returns whether a host waits for a page read, either for its data or for the stripe that rebuilds a
/// page. Only these reads suspend program and erase operations.
#[inline(always)]
fn for_host(core: &Core, slot: u32) -> bool {
    let request = &core.slab[slot];
    !request.internal || !core.slab[request.parent].internal
}
