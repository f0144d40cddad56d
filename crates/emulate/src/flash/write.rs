//! Host writes, which enter the buffer or wait for space in it; flushes and trims.

use super::{FlashDevice, HostInterface, UNIT_BYTES, unit_of};
use crate::bug_injection::InjectedBug;
use crate::content_event::ContentEvent;
use crate::core::Core;
use crate::ftl::FREE_BLOCKS;
use crate::request::{List, Origin, State};
use crate::server::ticks;
use crate::spec;
use iodyno_units::{IoError, Op, OpKind};
use std::collections::VecDeque;
use std::ops::Range;

/// The write buffer, and the requests that wait for it.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    pub(super) free: u32,
    pub(super) units: u32,
    pub(super) protected: bool,
    pub(super) waiting: List,
    pub(super) accept_ns: u64,
    pub(super) drain: VecDeque<u64>,
    /// Number of units that have entered the buffer since the start. Flushes compare it with `units_out`.
    pub(super) units_in: u64,
    pub(super) units_out: u64,
    pub(super) flushes: VecDeque<(u64, u32)>,
    /// Size in units of the aligned blocks that the buffer accepts as a whole, at least 1.
    block_units: u64,
}

impl WriteBuffer {
    /// Creates an empty buffer. Its capacity is at least `units_min`, the units of one program operation of each
    /// reclaim unit handle.
    pub(super) fn new(spec: &spec::Flash, units_min: u32) -> Self {
        let block_units = spec.power_cut.map_or(1, |cut| unit_of(cut.atomic_bytes.into()));
        // Makes room for a block in addition to data that is too little for a program operation.
        let units_min = u64::from(units_min) + block_units - 1;
        let spec = &spec.buffer;
        let units = unit_of(spec.bytes).max(units_min) as u32;
        Self {
            free: units,
            units,
            protected: spec.protected,
            waiting: List::default(),
            accept_ns: spec.accept_ns,
            drain: VecDeque::with_capacity(units as usize),
            units_in: 0,
            units_out: 0,
            flushes: VecDeque::new(),
            block_units,
        }
    }
}

impl FlashDevice {
    /// Processes the arrival of a write's data at the buffer.
    pub(super) fn enter_buffer(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        let (at, len) = (request.at, u64::from(request.len));
        let is_host = matches!(request.origin, Origin::Host { .. });
        if self.damage.is_some() && is_host && self.needs_damaged(at, len) {
            self.done(core, slot, Some(IoError::Io));
            return;
        }
        let request = &mut core.slab[slot];
        let units = (at + len - 1) / UNIT_BYTES - at / UNIT_BYTES + 1;
        request.pending = units as u32;
        let written = self.merging.as_ref().map_or(units, |m| units.next_multiple_of(m.units));
        self.note_parts(written);
        self.slc.note_write(core.now);
        self.housekeep(core, len);
        if self.buffer.waiting.is_empty() {
            self.fill_buffer(core, slot);
        }
        if core.slab[slot].pending > 0 {
            core.slab[slot].state = State::Waiting;
            self.buffer.waiting.push(&mut core.slab, slot);
        }
        self.pump(core);
    }

    /// Moves as many units of a write into the buffer as fit, in whole atomic blocks. Acknowledges the write when all
    /// are in it.
    fn fill_buffer(&mut self, core: &mut Core, slot: u32) {
        let request = core.slab[slot];
        let mut units = request.pending.min(self.buffer.free);
        let end = (request.at + u64::from(request.len) - 1) / UNIT_BYTES + 1;
        let first = end - u64::from(request.pending);
        let block = self.buffer.block_units;
        if block > 1 && units < request.pending {
            units = ((first + u64::from(units)) / block * block).saturating_sub(first) as u32;
        }
        for unit in first..first + u64::from(units) {
            self.buffer.drain.push_back(unit);
            self.ftl.prefetch(unit);
            if let Some(content) = &mut self.content {
                let token = core.value(slot, unit);
                content.accept(unit, token);
                if let Some(changes) = &mut core.changes {
                    let part = self.part;
                    let kept = self.buffer.protected;
                    changes.push(ContentEvent::Accepted { part, unit, token, kept });
                }
            }
        }
        let request = &mut core.slab[slot];
        request.pending -= units;
        self.buffer.free -= units;
        if let Some(merging) = &mut self.merging {
            merging.enter(self.buffer.units_in..self.buffer.units_in + u64::from(units));
        }
        if let Some(placing) = &mut self.placing {
            for at in 0..u64::from(units) {
                placing.enter(self.buffer.units_in + at, self.ftl.handle(first + at));
            }
        }
        if let Some(zones) = &mut self.zones {
            zones.enter(first..first + u64::from(units));
        }
        if let Some(commits) = &mut self.commits {
            commits.enter(self.buffer.units_in, first..first + u64::from(units));
        }
        self.buffer.units_in += u64::from(units);
        if request.pending > 0 {
            return;
        }
        self.phases.buffer_wait_ns += core.now - request.entered_ns;
        request.entered_ns = core.now;
        if request.fua && !self.buffer.protected {
            self.wait_for_programs(core, slot);
        } else {
            self.phases.accept_ns += self.buffer.accept_ns;
            request.entered_ns += self.buffer.accept_ns;
            let acknowledged = request.entered_ns + self.latency_ns();
            core.at(core.notified_ns(acknowledged, slot), slot, State::Done);
        }
    }

    /// Admits waiting writes, as long as the buffer has space.
    pub(super) fn admit_waiting(&mut self, core: &mut Core) {
        while self.buffer.free > 0
            && let Some(slot) = self.buffer.waiting.first()
        {
            if core.slab[slot].pending <= self.buffer.free {
                self.buffer.waiting.pop(&core.slab);
            }
            let free = self.buffer.free;
            self.fill_buffer(core, slot);
            if self.buffer.free == free {
                break;
            }
        }
    }

    /// Stalls the controller each time the host has written the configured number of bytes, to emulate housekeeping.
    /// The link and the NAND continue. On a memory channel the driver thread's core stalls instead.
    fn housekeep(&mut self, core: &mut Core, len: u64) {
        let Some(stall) = self.stall else { return };
        if self.stall_left > len {
            self.stall_left -= len;
            return;
        }
        let beyond = len - self.stall_left;
        let stalls = 1 + beyond / stall.every_bytes;
        self.stall_left = stall.every_bytes - beyond % stall.every_bytes;
        self.counts.stalls += stalls;
        let cost = ticks(stall.for_ns * stalls);
        match &mut self.front {
            HostInterface::Link { processor, .. } => {
                processor.take(core.now, cost);
            }
            HostInterface::Channel { thread, .. } => {
                let on = core.threads[*thread].core;
                core.cores[on].take(core.now, cost);
            }
        }
    }

    /// Applies a write or trim to the map at once, with the copies that it requires. No other operation may be in
    /// progress.
    pub(crate) fn age(&mut self, op: &Op) {
        let (at, end) = (op.offset_bytes, op.offset_bytes + u64::from(op.len_bytes));
        match op.kind {
            OpKind::Write => {
                let units = at / UNIT_BYTES..end.div_ceil(UNIT_BYTES);
                let units = match &self.merging {
                    None => units,
                    Some(merging) => merging.whole(units),
                };
                let units = units.start..units.end.min(self.logical_units);
                self.note_parts(units.end - units.start);
                units.for_each(|unit| self.ftl.write_untimed(unit));
            }
            OpKind::Trim | OpKind::WriteZeroes => {
                let start = at.div_ceil(UNIT_BYTES);
                self.ftl.trim(start..(end / UNIT_BYTES).max(start));
            }
            OpKind::Read | OpKind::Flush => {}
        }
    }

    /// Ends the aging by [`Self::age`]: garbage collection continues from the new state.
    pub(crate) fn aged(&mut self) {
        self.gc.erases_seen = self.ftl.counters().erases;
        self.gc.collecting = self.ftl.free_blocks() <= FREE_BLOCKS && self.ftl.victim().is_some();
        (self.gc.paced, self.gc.pace) = (false, 0);
    }

    /// Processes a flush, which makes all acknowledged writes durable.
    pub(super) fn flush(&mut self, core: &mut Core, slot: u32) {
        let hasty = self.injected_bug == InjectedBug::HastyFlush;
        if self.buffer.protected || self.buffer.units_out == self.buffer.units_in || hasty {
            let end = core.now + self.buffer.accept_ns + self.latency_ns();
            core.at(end, slot, State::Done);
        } else {
            self.wait_for_programs(core, slot);
        }
    }

    /// Registers a request that completes when all units now in the buffer have been programmed.
    fn wait_for_programs(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].state = State::Waiting;
        self.buffer.flushes.push_back((self.buffer.units_in, slot));
        self.pump(core);
    }

    /// Returns a sequence number below which all units that entered the buffer have been programmed. A plain
    /// count would not suffice, because program operations end in any order.
    fn durable_before(&self) -> u64 {
        if self.injected_bug == InjectedBug::CountingFlush {
            return self.buffer.units_out;
        }
        let under_way = self.batches.iter().filter(|batch| !batch.units.is_empty());
        under_way.map(|batch| batch.first).fold(self.begun(), u64::min)
    }

    /// Returns the sequence number below which no unit waits in the buffer.
    pub(super) fn begun(&self) -> u64 {
        let in_order = self.buffer.units_in - self.buffer.drain.len() as u64;
        match (&self.merging, &self.placing) {
            (None, None) => in_order,
            (Some(merging), _) => merging.oldest().unwrap_or(self.buffer.units_in),
            (None, Some(placing)) => placing.oldest().unwrap_or(self.buffer.units_in),
        }
    }

    /// Completes the flushes and FUA writes whose program operations have ended.
    pub(super) fn end_flushes(&mut self, core: &mut Core) {
        if self.buffer.flushes.is_empty() {
            return;
        }
        let durable = self.durable_before();
        while let Some(&(units, slot)) = self.buffer.flushes.front()
            && units <= durable
        {
            self.buffer.flushes.pop_front();
            match core.slab[slot].kind {
                OpKind::Trim | OpKind::WriteZeroes => self.forget(core, slot),
                OpKind::Write => {
                    let request = &mut core.slab[slot];
                    self.phases.force_ns += core.now - request.entered_ns;
                    request.entered_ns = core.now;
                }
                OpKind::Read | OpKind::Flush => {}
            }
            let end = core.now + self.latency_ns();
            core.at(end, slot, State::Done);
        }
    }

    /// Processes a trim or write of zeroes. If data of the range is in the buffer, the request waits until all earlier
    /// writes have left the buffer.
    pub(super) fn trim(&mut self, core: &mut Core, slot: u32) {
        if self.zones.is_some() {
            return self.manage_zone(core, slot);
        }
        let request = &core.slab[slot];
        let is_host = matches!(request.origin, Origin::Host { .. });
        let (at, len) = (request.at, u64::from(request.len));
        if self.damage.is_some()
            && is_host
            && request.kind == OpKind::WriteZeroes
            && self.needs_damaged(at, len)
        {
            self.done(core, slot, Some(IoError::Io));
            return;
        }
        let end = (at + len).div_ceil(UNIT_BYTES);
        if self.buffers_any(&(at / UNIT_BYTES..end)) || self.keeps_order() {
            self.wait_for_programs(core, slot);
            return;
        }
        self.forget(core, slot);
        let end = core.now + self.buffer.accept_ns + self.latency_ns();
        core.at(end, slot, State::Done);
    }

    /// Returns whether earlier data must be durable before a trim takes effect.
    fn keeps_order(&self) -> bool {
        self.commits.as_ref().is_some_and(|commits| commits.is_ordered())
            && self.buffer.units_out < self.buffer.units_in
    }

    /// Returns whether data of a range is in the buffer, in a program operation in progress, or not durable yet.
    pub(super) fn buffers_any(&self, units: &Range<u64>) -> bool {
        self.buffer.units_out < self.buffer.units_in
            && (self.commits.as_ref().is_some_and(|commits| commits.holds_any(units))
                || self.buffer.drain.iter().any(|unit| units.contains(unit))
                || self
                    .batches
                    .iter()
                    .any(|batch| batch.units.iter().any(|unit| units.contains(unit))))
    }

    /// Trims the units that are entirely within the request's range.
    pub(super) fn forget(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        let (at, len, token) = (request.at, u64::from(request.len), request.token);
        let start = at.div_ceil(UNIT_BYTES);
        let units = start..((at + len) / UNIT_BYTES).max(start);
        if let Some(content) = &mut self.content {
            let (part, mut unit) = (self.part, units.start);
            // A range may be long and the buffer is small: reports the units between as one range each.
            for newer in content.trim(&units).into_iter().chain([units.end]) {
                let count = newer.saturating_sub(unit);
                if count > 0 {
                    core.tell(ContentEvent::Dropped { part, unit, count, token, overtaken: false });
                }
                // A protected buffer keeps the newer value, which remains valid.
                if newer < units.end && !self.buffer.protected {
                    let (unit, count) = (newer, 1);
                    core.tell(ContentEvent::Dropped { part, unit, count, token, overtaken: true });
                }
                unit = newer + 1;
            }
        }
        if let Some(damage) = &mut self.damage {
            damage.trim(units.clone());
        }
        if self.slc.is_by_fill() {
            let held = units.clone().filter(|&unit| self.ftl.holds(unit)).count() as u64;
            self.stored_units = self.stored_units.saturating_sub(held);
            self.slc.held_units = self.slc.held_units.min(self.stored_units);
        }
        if self.merging.is_some() {
            self.trim_moved(&units);
        }
        self.ftl.trim(units);
    }
}
