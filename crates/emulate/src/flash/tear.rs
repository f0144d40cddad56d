//! Torn writes on a flash device whose device file has power-cut settings. If a power cut interrupts a write, the first
//! N blocks of the write survive; N is drawn at random. With a protected buffer, the interrupted writes are those whose
//! data was still arriving. A volatile buffer loses its content, so only the program operations in progress are torn.

use super::commits::Programmed;
use super::{FlashDevice, UNIT_BYTES};
use crate::content_event::{ContentEvent, torn_value};
use crate::core::Core;
use crate::request::{NIL, Origin, State};
use crate::spec::{Flash, PowerCut};
use iodyno_units::OpKind;
use iodyno_units::rng::{Generator, below, stream};

/// Size of an atomic block, and the random numbers that decide where writes are torn.
#[derive(Clone, Debug)]
pub(super) struct Tear {
    atomic_bytes: u64,
    rng: Generator,
}

impl Tear {
    /// Creates the state of device `number`; `None` if the device's file has no power-cut settings.
    pub(super) fn of(spec: &Flash, seed: u64, number: u64) -> Option<Box<Self>> {
        let PowerCut { atomic_bytes, .. } = spec.power_cut?;
        let rng = stream(seed, "power cut", number);
        Some(Box::new(Self { atomic_bytes: atomic_bytes.into(), rng }))
    }

    /// Draws where an interrupted write of the bytes from `from` to `to` ends: at `from`, at `to`, or at a block border
    /// between them.
    fn draw_end(&mut self, from: u64, to: u64) -> u64 {
        let first = from / self.atomic_bytes;
        let blocks = to.div_ceil(self.atomic_bytes) - first;
        ((first + below(&mut self.rng, blocks + 1)) * self.atomic_bytes).clamp(from, to)
    }
}

impl FlashDevice {
    /// Decides which parts of interrupted writes survive a power failure, before all requests are dropped.
    pub(crate) fn tear(&mut self, core: &mut Core) {
        let Some(mut tear) = self.tear.take() else { return };
        if self.buffer.protected {
            self.tear_arriving(core, &mut tear);
        } else {
            self.tear_programs(core, &mut tear);
        }
        self.tear = Some(tear);
    }

    /// Accepts the first blocks of each write that is on its way to a protected buffer.
    fn tear_arriving(&mut self, core: &mut Core, tear: &mut Tear) {
        // Oldest first: writes that wait for space have arrived before the others.
        let mut arriving: Vec<(bool, u64, u32)> = Vec::new();
        for slot in 0..core.slab.len() as u32 {
            let request = &core.slab[slot];
            let is_write = request.part == self.part
                && request.kind == OpKind::Write
                && !matches!(request.origin, Origin::Own);
            let waits = request.state == State::Waiting && request.pending > 0;
            if is_write && (waits || request.state == State::Admitted) {
                arriving.push((!waits, request.entered_ns, slot));
            }
        }
        arriving.sort_unstable();
        for (_, _, slot) in arriving {
            let request = core.slab[slot];
            let end = request.at + u64::from(request.len);
            let from = if request.state == State::Waiting {
                let left = u64::from(request.pending) * UNIT_BYTES;
                request.at.max(end.next_multiple_of(UNIT_BYTES) - left)
            } else {
                request.at
            };
            let to = tear.draw_end(from, end);
            let mut at = from;
            while at < to {
                // A block survives only if the buffer has space for all of it.
                let block_bytes = tear.atomic_bytes.max(UNIT_BYTES);
                let block_end = to.min((at / block_bytes + 1) * block_bytes);
                let units = at / UNIT_BYTES..block_end.div_ceil(UNIT_BYTES);
                if units.end - units.start > u64::from(self.buffer.free) {
                    break;
                }
                for unit in units {
                    self.accept_torn(core, slot, unit, end, to);
                }
                at = block_end;
            }
        }
    }

    /// Accepts a unit of a torn write into the protected buffer: the new data up to the byte `to`, exclusive, and the old
    /// data after it. `end`: end of the whole write.
    fn accept_torn(&mut self, core: &mut Core, slot: u32, unit: u64, end: u64, to: u64) {
        let (part, token) = (self.part, core.value(slot, unit));
        let unit_end = (unit + 1) * UNIT_BYTES;
        let before = self.unit_value(unit);
        self.buffer.drain.push_back(unit);
        self.buffer.free -= 1;
        self.buffer.units_in += 1;
        let Some(content) = &mut self.content else { return };
        if end.min(unit_end) <= to {
            content.accept(unit, token);
            core.tell(ContentEvent::Accepted { part, unit, token, kept: true });
        } else {
            let until = (to - unit * UNIT_BYTES) as u16;
            content.accept(unit, torn_value(before.unwrap_or(0), token, until));
            core.tell(ContentEvent::Torn { part, unit, token, until });
        }
    }

    /// Ends each program operation in progress after its first blocks, which become durable as if it had ended.
    fn tear_programs(&mut self, core: &mut Core, tear: &mut Tear) {
        let mut running: Vec<usize> = (0..self.batches.len())
            .filter(|&number| !self.batches[number].units.is_empty())
            .collect();
        running.sort_unstable_by_key(|&number| self.batches[number].first);
        for number in running {
            let mut batch = std::mem::take(&mut self.batches[number]);
            let mut written = tear.draw_end(0, batch.units.len() as u64 * UNIT_BYTES);
            for (index, &unit) in batch.units.iter().enumerate() {
                let until = written.min(UNIT_BYTES);
                written -= until;
                let Some(commits) = &mut self.commits else { break };
                let number = batch.first + index as u64;
                if until == 0 || (until < UNIT_BYTES && !commits.is_next(number)) {
                    break;
                }
                let host = (batch.host[index].0, std::mem::replace(&mut batch.host[index].1, NIL));
                let stored = batch.stored.get(index).copied().flatten();
                let mut unit = Programmed { unit, host, stored };
                if until < UNIT_BYTES {
                    self.commit_torn(core, &mut unit, until as u16);
                    break;
                }
                let mut durable = Vec::new();
                commits.programmed(number, unit, &mut durable);
                self.commit_durable(core, &durable);
            }
            self.batches[number] = batch;
        }
    }

    /// Makes the first `until` bytes of a unit durable. The rest keeps its durable content.
    fn commit_torn(&mut self, core: &mut Core, torn: &mut Programmed, until: u16) {
        let token = torn.stored.map(|stored| stored.value);
        if let (Some(content), Some(stored)) = (&self.content, &mut torn.stored) {
            let before = content.moved(torn.unit, &self.ftl).map_or(0, |stored| stored.value);
            stored.value = torn_value(before, stored.value, until);
            // No event that the whole unit has landed.
            stored.moved = true;
        }
        self.commit_durable(core, &[*torn]);
        let (part, unit) = (self.part, torn.unit);
        let is_current =
            torn.stored.is_some_and(|stored| self.durable_value(unit) == Some(stored.value));
        if let Some(token) = token.filter(|_| is_current) {
            core.tell(ContentEvent::Torn { part, unit, token, until });
        }
    }
}
