//! Usage of a flash device: its counters, resources and phase times.

use super::{FlashDevice, HostInterface, UNIT_BYTES};
use crate::core::Core;
use crate::store::{Keeps, Store};
use crate::usage::{Of, Phase, Resource};

impl FlashDevice {
    /// Returns two sizes in bytes: dirty data in the write buffer, and the buffer's capacity.
    pub(crate) fn buffered_bytes(&self) -> (u64, u64) {
        let bytes = |units: u32| u64::from(units) * UNIT_BYTES;
        (bytes(self.buffer.units - self.buffer.free), bytes(self.buffer.units))
    }

    /// Calls `take` with the fill level of the write buffer and of the SLC cache.
    pub(crate) fn stores(&self, take: &mut dyn FnMut(Store)) {
        let (held_bytes, capacity_bytes) = self.buffered_bytes();
        let passed_bytes = self.buffer.units_in * UNIT_BYTES;
        let (name, keeps) = ("SSD's write buffer", Keeps::Dirty);
        let choice_bytes = 0;
        take(Store { name, keeps, held_bytes, capacity_bytes, passed_bytes, choice_bytes });
        let held_bytes = self.slc.held_units * UNIT_BYTES;
        let capacity_bytes = self.slc.units * UNIT_BYTES;
        let name = "SLC cache";
        take(Store { name, keeps, held_bytes, capacity_bytes, passed_bytes, choice_bytes });
    }

    /// Returns the number of erases since the start as a fraction of the rated erases of all blocks.
    pub(crate) fn worn(&self) -> f64 {
        let blocks = self.raw_units as f64 / self.gc.pages_per_erase as f64;
        self.counts.erases as f64 / (blocks * f64::from(self.cycles.max(1)))
    }

    /// Returns the device's resources with their busy time since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        let now = core.now;
        let part = Some(self.part);
        let one = |name, count: usize, busy_ns| Resource {
            name,
            part,
            count: count as u32,
            held: false,
            busy_ns,
        };
        let mut all = Vec::new();
        match &self.front {
            HostInterface::Channel { thread, .. } => {
                let on = core.threads[*thread].core;
                all.push(one("driver thread", 1, core.cores[on].busy_ns(now)));
            }
            HostInterface::Link { down, up, full_duplex, processor, .. } => {
                all.push(one("controller", 1, processor.busy_ns(now)));
                if *full_duplex {
                    all.push(one("link, host to device", 1, down.busy_ns(now)));
                    all.push(one("link, device to host", 1, up.busy_ns(now)));
                } else {
                    all.push(one("link", 1, up.busy_ns(now)));
                }
            }
        }
        if self.contexts_max != u32::MAX {
            let contexts = self.contexts_max as usize;
            let area_ns = self.contexts.area_ns(now);
            all.push(Resource { held: true, ..one("read contexts", contexts, area_ns) });
        }
        let channels = self.channels.iter().map(|c| c.busy_ns(now)).sum();
        all.push(one("flash channels", self.channels.len(), channels));
        let dies = self
            .dies
            .iter()
            .map(|d| {
                let busy = d.doing != super::Doing::Nothing;
                d.busy_ns + if busy { now - d.since_ns } else { 0 }
            })
            .sum();
        all.push(one("flash dies", self.dies.len(), dies));
        let programs = self.programs_max as usize;
        let area_ns = self.programs.area_ns(now);
        all.push(Resource { held: true, ..one("programs at once", programs, area_ns) });
        all
    }

    /// Checks that no page is lost between buffer, program operations and flash.
    pub(crate) fn check(&self) -> Result<(), String> {
        let programming: usize = self.batches.iter().map(|b| b.units.len()).sum();
        let held = u64::from(self.buffer.units - self.buffer.free);
        let known = (self.buffer.drain.len() + programming) as u64;
        if held != known || self.buffer.units_in - self.buffer.units_out != held {
            return Err(format!(
                "the buffer counts {held} pages, but {known} wait or are being programmed; {} entered it, {} left",
                self.buffer.units_in, self.buffer.units_out
            ));
        }
        if self.contexts.used() > self.contexts_max || self.programs.used() > self.programs_max {
            return Err("more reads or programs in progress than allowed".to_owned());
        }
        self.check_content()?;
        self.ftl.check()
    }

    /// Returns the time that the device's operations have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let p = &self.phases;
        let phase = |name, of, total_ns| {
            let count = match of {
                Of::Read => p.reads,
                Of::PageRead => p.page_reads,
                Of::Write => p.writes,
            };
            Phase { name, of, total_ns, count }
        };
        let front = match &self.front {
            HostInterface::Channel { .. } => "driver thread takes the command",
            HostInterface::Link { .. } => "queue, link and controller",
        };
        let deliver = match &self.front {
            HostInterface::Channel { .. } => "driver thread sees and copies the data",
            HostInterface::Link { .. } => "link, and host software",
        };
        let answer = match &self.front {
            HostInterface::Channel { .. } => "host software",
            HostInterface::Link { .. } => deliver,
        };
        vec![
            phase(front, Of::Read, p.front_ns),
            phase("waits for a read context", Of::PageRead, p.context_ns),
            phase("waits for the die", Of::PageRead, p.die_wait_ns),
            phase("die reads the page", Of::PageRead, p.sense_ns),
            phase("flash channel", Of::PageRead, p.channel_ns),
            phase(deliver, Of::PageRead, p.deliver_ns),
            phase(front, Of::Write, p.write_front_ns),
            phase("waits for room in the buffer", Of::Write, p.buffer_wait_ns),
            phase("buffer accepts", Of::Write, p.accept_ns),
            phase("programs of a forced write (FUA)", Of::Write, p.force_ns),
            phase(answer, Of::Write, p.answer_ns),
        ]
    }
}
