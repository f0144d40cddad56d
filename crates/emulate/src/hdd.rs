//! A disk as a component of the machine: passes requests to the disk model, wakes the model on schedule, returns its
//! completions, and tracks the disk's content if the emulation stores content.

mod content;

use crate::content_event::ContentEvent;
use crate::core::Core;
use crate::disk::{Disk, DiskSpec, Phases as DiskPhases, Step};
use crate::part_id::PartId;
use crate::request::State;
use crate::spec::Preconditioned;
use crate::store::Store;
use crate::usage::{Of, Phase, Resource};
use content::Content;
use iodyno_units::IoError;
use iodyno_units::OpKind;
use iodyno_units::rng::{Generator, stream};

/// A rotating disk as a component of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Hdd {
    part: PartId,
    disk: Disk,
    /// Time of the earliest wake-up in the event queue, ns; `u64::MAX`: none.
    pending_ns: u64,
    done: Vec<u32>,
    content: Option<Content>,
}

impl Hdd {
    /// Creates a disk. Its media cache, if it has one, is full if the disk was written at random before, else empty.
    pub(crate) fn new(
        spec: &DiskSpec,
        before: &Preconditioned,
        seed: u64,
        part: PartId,
    ) -> Result<Self, String> {
        spec.check().map_err(|(field, message)| format!("{field}: {message}"))?;
        let number = u64::from(part.0);
        let mut disk = Disk::new(spec, seed, number);
        if let Some(block_bytes) = before.how.random_block_bytes() {
            let filled_bytes = (spec.capacity_bytes as f64 * before.fill) as u64;
            let part = before.how.rewritten(spec.capacity_bytes);
            let part = part.start..part.end.min(filled_bytes);
            disk.fill_media_cache(&part, block_bytes, &mut stream(seed, "media cache", number));
        }
        Ok(Self { part, disk, pending_ns: u64::MAX, done: Vec::new(), content: None })
    }

    /// Processes a request's next event (its arrival or completion), or a wake-up of the disk.
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => {
                let request = &core.slab[slot];
                let end = request.at + u64::from(request.len);
                if request.kind != OpKind::Flush && end > self.disk.capacity_bytes() {
                    core.complete(slot, Some(IoError::OutOfRange));
                    return;
                }
                let op = request.op();
                core.slab[slot].state = State::Waiting;
                // Internal events of this instant come before the request.
                self.wake(core);
                self.disk.submit(core.now, slot, op);
                self.follow(core);
            }
            State::Done => {
                core.complete(slot, None);
                return;
            }
            State::Wake => {
                core.slab.remove(slot);
                if self.pending_ns == core.now {
                    self.pending_ns = u64::MAX;
                }
            }
            state => unreachable!("unexpected event of a disk in state {state:?}"),
        }
        self.wake(core);
        self.plan(core);
    }

    /// Processes the disk's internal events that are due now.
    fn wake(&mut self, core: &mut Core) {
        while self.disk.wake_at() <= core.now {
            self.disk.wake(core.now, &mut self.done);
            self.follow(core);
        }
        for slot in self.done.drain(..) {
            let notified_ns = core.notified_ns(core.now, slot);
            core.at(notified_ns, slot, State::Done);
        }
    }

    /// Schedules the disk's next wake-up. A later one that is already scheduled remains as a no-op.
    fn plan(&mut self, core: &mut Core) {
        let wake_ns = self.disk.wake_at();
        if wake_ns >= self.pending_ns {
            return;
        }
        self.pending_ns = wake_ns;
        let slot = core.add(self.part);
        core.at(wake_ns, slot, State::Wake);
    }

    /// Stores the content of writes from now on.
    pub(crate) fn keep_content(&mut self) {
        self.disk.keep_journal();
        self.content.get_or_insert_default();
    }

    /// Returns the token that a read of a 4 KiB unit would return; `None` if the unit has not been written
    /// since content storage was turned on.
    pub(crate) fn unit_value(&self, unit: u64) -> Option<u64> {
        self.content.as_ref()?.get(unit)
    }

    /// Updates the stored content from the disk's journal. Must run before the requests in the journal are removed.
    fn follow(&mut self, core: &mut Core) {
        let Some(content) = &mut self.content else { return };
        let part = self.part;
        for step in self.disk.take_journal() {
            match step {
                Step::Accepted { id, seq } => {
                    let r = &core.slab[id];
                    for unit in content::units(r.at, u64::from(r.len)) {
                        let token = core.value(id, unit);
                        content.accepted(unit, token, seq);
                        core.tell(ContentEvent::Accepted { part, unit, token, kept: false });
                    }
                }
                Step::Taken(range) => content.taken(range),
                Step::Landed => content.landed(|unit, token| {
                    core.tell(ContentEvent::Landed { part, unit, token });
                }),
                Step::Written { id, seq } => {
                    let r = &core.slab[id];
                    let (token, is_write) = (r.token, r.kind == OpKind::Write);
                    for unit in content::written_units(r.at, u64::from(r.len), is_write) {
                        let value = is_write.then(|| core.value(id, unit));
                        let overtaken = content.written(unit, value, seq);
                        core.tell(match value {
                            Some(token) => ContentEvent::Written { part, unit, token, overtaken },
                            None => {
                                ContentEvent::Dropped { part, unit, count: 1, token, overtaken }
                            }
                        });
                    }
                }
            }
        }
    }

    /// Processes a power failure: the volatile buffer loses its content.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        self.disk.power_cut();
        if let Some(content) = &mut self.content {
            content.power_cut();
        }
        core.tell(ContentEvent::PowerCut { part: self.part });
        self.pending_ns = u64::MAX;
    }

    /// Calls `take` with the fill level of the write cache, the media cache, and a hybrid disk's NAND.
    pub(crate) fn stores(&self, take: &mut dyn FnMut(Store)) {
        self.disk.stores(take);
    }

    /// Fills the write cache up to a fraction of its size. No-op if content is stored.
    pub(crate) fn fill_write_cache(&mut self, share: f64, random: &mut Generator) {
        if self.content.is_none() {
            self.disk.fill_write_cache(share, random);
        }
    }

    /// Returns the disk's resources with their busy time since the start.
    pub(crate) fn resources(&self, _: &Core) -> Vec<Resource> {
        let usage = self.disk.usage();
        let part = Some(self.part);
        let one = |name, busy_ns| Resource { name, part, count: 1, held: false, busy_ns };
        let mut all = vec![
            one("controller", usage.command_ns),
            one("link", usage.link_ns),
            one("heads", usage.heads_ns()),
        ];
        if self.disk.is_shingled() {
            all.push(one("heads, cleaning bands", usage.cleaning_ns));
        }
        all
    }

    /// Returns the time that the disk's operations have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let mut all = Vec::new();
        for (kind, of) in [(OpKind::Read, Of::Read), (OpKind::Write, Of::Write)] {
            let p: DiskPhases = self.disk.phases(kind);
            let phase = |name, total_ns| Phase { name, of, total_ns, count: p.count };
            all.extend([
                phase("waits in the queue", p.queue_ns),
                phase("command", p.command_ns),
                phase("seek", p.seek_ns),
                phase("rotation", p.rotation_ns),
                phase("transfer from or to the platters", p.transfer_ns),
                phase("link", p.link_ns),
                phase("cache", p.cache_ns),
            ]);
        }
        all
    }
}
