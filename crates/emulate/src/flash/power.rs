//! Effects of a power failure on a flash device: on its buffer, its unfinished program operations and its map.

use super::{Batch, Die, FlashDevice, HostInterface, SLOW};
use crate::bug_injection::InjectedBug;
use crate::content_event::ContentEvent;
use crate::core::Core;
use crate::request::{List, NIL, State};
use std::collections::VecDeque;

impl FlashDevice {
    /// Processes a power failure, after all requests were dropped. A protected buffer keeps all accepted
    /// data, including that of unfinished program operations, and writes it when the power returns; a volatile one
    /// loses it. The map keeps its state after the last completed program operation.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        match &mut self.front {
            HostInterface::Channel { ready, poll, polling, .. } => {
                *ready = List::EMPTY;
                *polling = false;
                *poll = core.add(self.part);
                core.slab[*poll].state = State::Waiting;
            }
            HostInterface::Link { down, up, outstanding, waiting, processor, .. } => {
                for server in [down, up, processor] {
                    server.reset(core.now);
                }
                *outstanding = 0;
                *waiting = List::EMPTY;
            }
        }
        for die in &mut self.dies {
            *die = Die { busy_ns: die.busy_ns, channel: die.channel, ..Die::default() };
        }
        self.slow.fill(SLOW);
        for channel in &mut self.channels {
            channel.reset(core.now);
        }
        self.contexts.clear(core.now);
        self.context_waiting = List::EMPTY;
        self.programs.clear(core.now);
        self.unprocessed = List::EMPTY;
        self.copies_ready = List::EMPTY;
        self.copies_reading = 0;
        self.gc.copied_from = u32::MAX;
        self.gc.copy_units = 0;
        self.slc.power_off();
        self.buffer.waiting = List::EMPTY;
        self.buffer.flushes.clear();
        self.gc.copy_credit = 0;

        let waiting = std::mem::take(&mut self.buffer.drain);
        let mut kept: VecDeque<u64> = VecDeque::with_capacity(self.buffer.units as usize);
        let mut abandoned: Vec<u32> = Vec::new();
        for batch in std::mem::take(&mut self.batches) {
            let Batch { units, host, copies, filler, committed, .. } = batch;
            if !committed {
                abandoned.extend(host.iter().map(|h| h.1).filter(|&place| place != NIL));
                abandoned.extend(copies.iter().map(|c| c.1));
                abandoned.extend(filler);
            }
            kept.extend(units);
        }
        self.batches_free.clear();
        if let Some(commits) = &mut self.commits {
            abandoned.extend(commits.power_off());
        }
        kept.extend(waiting);
        let keeps = self.buffer.protected && self.injected_bug != InjectedBug::ForgetfulBuffer;
        if let Some(content) = &mut self.content {
            if self.injected_bug == InjectedBug::ForgetfulProgram {
                content.forget_programs();
            }
            kept = content.power_cut(keeps).into();
        }
        if !keeps {
            kept.clear();
        }
        self.buffer.free = self.buffer.units - kept.len() as u32;
        self.buffer.units_in = self.buffer.units_out + kept.len() as u64;
        self.buffer.drain = kept;
        if let Some(merging) = &mut self.merging {
            merging.power_off(self.buffer.units_out..self.buffer.units_in);
        }
        if let Some(placing) = &mut self.placing {
            placing.clear();
            for (&unit, number) in self.buffer.drain.iter().zip(self.buffer.units_out..) {
                placing.enter(number, self.ftl.handle(unit));
            }
        }
        if let Some(zones) = &mut self.zones {
            zones.power_off(self.buffer.drain.iter().copied());
        }
        core.tell(ContentEvent::PowerCut { part: self.part });
        self.ftl.power_cut(abandoned);
        self.gc.collecting = false;
    }

    /// Processes the return of power: writes the content of a protected buffer to flash.
    pub(crate) fn power_on(&mut self, core: &mut Core) {
        self.pump(core);
    }
}
