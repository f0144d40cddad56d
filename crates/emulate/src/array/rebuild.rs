//! Schedules the restoration of rows: rebuilds of members and scrubs of all stripes. A spare, if available, replaces
//! a lost member.
//!
//! A rebuild writes a member from its first sector to its last at a set rate. During the rebuild, the member gets all
//! writes of the host; reads only use the part before the cursor. A power cut resets the cursor to its position at the
//! last flush. At the end a flush makes the member's data durable.

use super::{Array, Purpose};
use crate::core::Core;
use crate::request::{NIL, Origin, State};
use crate::spec::{SECTOR_BYTES, STRIP_BYTES};
use iodyno_raid::layout::InStripe;
use iodyno_raid::{Level, Place};

/// Number of sectors restored at a time on levels without parity: a strip of md's default size, so that disks are rebuilt
/// as fast as in arrays with parity. (For a mirror, md has up to 2 MiB in flight.)
const CHUNK_SECTORS: u64 = STRIP_BYTES / SECTOR_BYTES;

/// The rebuild of a member: its progress, and the piece that is running.
#[derive(Clone, Debug)]
pub(super) struct Rebuild {
    /// Sequence number of the rebuild within the array.
    pub number: u64,
    pub member: usize,
    /// Number of rebuilt sectors, from the start of the member.
    pub cursor: u64,
    /// Number of rebuilt sectors that are durable, so that a power cut preserves them.
    pub durable: u64,
    /// Index of the piece that is restoring the next sectors; `None` between two pieces.
    pub piece: Option<usize>,
    /// End of the sectors that the piece in progress restores.
    next: u64,
    /// Earliest start of the next piece, ns. Limits the rebuild rate.
    next_ns: u64,
    timer: u32,
}

impl Rebuild {
    fn new(number: u64, member: usize) -> Self {
        let (piece, timer) = (None, NIL);
        Self { number, member, cursor: 0, durable: 0, piece, next: 0, next_ns: 0, timer }
    }

    /// Processes a power failure: the rebuild returns to its last durable sector.
    pub(super) fn power_off(&mut self) {
        self.cursor = self.durable;
        (self.piece, self.timer) = (None, NIL);
    }
}

/// A scrub in progress: its position, and the piece that is running.
#[derive(Clone, Debug)]
pub(super) struct Scrub {
    /// Next row to check, in sectors: stripe times strip size, plus the sector within the strip.
    at: u64,
    piece: Option<usize>,
    next_ns: u64,
    timer: u32,
}

impl Array {
    /// Starts or continues a rebuild, if a member is missing.
    #[inline]
    pub(super) fn tend(&mut self, core: &mut Core) {
        if !self.missing.is_empty() {
            self.tend_missing(core);
        }
    }

    #[cold]
    fn tend_missing(&mut self, core: &mut Core) {
        if !self.is_powered || !self.is_redundant() || self.is_broken_branch() {
            return;
        }
        if self.rebuild.is_none() {
            let waiting = self.replaced.iter().next().or_else(|| self.take_spare());
            let Some(member) = waiting else { return };
            self.rebuilds += 1;
            self.rebuild = Some(Rebuild::new(self.rebuilds, member));
        }
        if let Some(rebuild) = &mut self.rebuild
            && rebuild.timer == NIL
            && rebuild.piece.is_none()
        {
            let next_ns = rebuild.next_ns.max(core.now);
            rebuild.timer = wake(core, self.part, next_ns);
        }
    }

    /// Replaces the first missing member by a spare. Returns the member's position; `None` without a
    /// spare or a missing member.
    fn take_spare(&mut self) -> Option<usize> {
        let member = self.missing.iter().next()?;
        let spare = if self.spares.is_empty() { None } else { Some(self.spares.remove(0)) }?;
        let former = std::mem::replace(&mut self.members[member], spare);
        self.former.push((former, member));
        self.replaced = self.replaced.with(member);
        Some(member)
    }

    /// Starts the next piece of a rebuild or a scrub, at its scheduled time.
    pub(super) fn woken(&mut self, core: &mut Core, slot: u32) {
        core.slab.remove(slot);
        if let Some(rebuild) = &mut self.rebuild
            && rebuild.timer == slot
        {
            rebuild.timer = NIL;
            self.rebuild_more(core);
        } else if let Some(scrub) = &mut self.scrub
            && scrub.timer == slot
        {
            scrub.timer = NIL;
            self.scrub_more(core);
        }
    }

    /// Returns the time that restoring `sectors` takes at the configured rebuild rate, ns.
    fn paced_ns(&self, sectors: u64) -> u64 {
        let bytes = (sectors * SECTOR_BYTES) as f64;
        (bytes * 1e9 / self.rebuild_bytes_per_s) as u64
    }

    /// Returns the sectors of a strip that one piece restores, from `offset` on: the whole strip on levels with parity,
    /// else up to [`CHUNK_SECTORS`].
    fn chunk(&self, offset: u64) -> std::ops::Range<u64> {
        let strip = self.layout.strip_sectors();
        offset..if self.has_parity() { strip } else { strip.min(offset + CHUNK_SECTORS) }
    }

    fn rebuild_more(&mut self, core: &mut Core) {
        let Some(rebuild) = &self.rebuild else { return };
        let (member, sector) = (rebuild.member, rebuild.cursor);
        let at = self.layout.contents(Place { member, sector });
        let (piece, next, after_ns) = if let Some(InStripe { stripe, offset, .. }) = at {
            let rows = self.chunk(offset);
            let sectors = rows.end - rows.start;
            let piece = self.restore(core, stripe, rows, Purpose::Rebuild);
            (piece, sector + sectors, self.paced_ns(sectors))
        } else {
            (self.restore(core, 0, 0..0, Purpose::Settle), sector, 0)
        };
        if let Some(rebuild) = &mut self.rebuild {
            (rebuild.piece, rebuild.next) = (Some(piece), next);
            rebuild.next_ns = core.now + after_ns;
        }
    }

    /// Processes the end of a piece of a resync, rebuild or scrub.
    pub(super) fn restored(&mut self, core: &mut Core, number: usize, failed: bool) {
        let purpose = self.pieces[number].purpose;
        match (&mut self.rebuild, &mut self.scrub) {
            _ if purpose == Purpose::Resync => self.resyncs -= 1,
            (_, Some(scrub)) if scrub.piece == Some(number) => {
                scrub.piece = None;
                let next_ns = scrub.next_ns.max(core.now);
                scrub.timer = wake(core, self.part, next_ns);
            }
            (Some(rebuild), _) if rebuild.piece == Some(number) => {
                rebuild.piece = None;
                if purpose == Purpose::Settle && !failed {
                    let member = rebuild.member;
                    self.missing = self.missing.without(member);
                    self.replaced = self.replaced.without(member);
                    self.rebuild = None;
                    self.counts.rebuilt_members += 1;
                } else if !failed {
                    self.counts.rebuilt_bytes += (rebuild.next - rebuild.cursor) * SECTOR_BYTES;
                    rebuild.cursor = rebuild.next;
                }
            }
            _ => {}
        }
        self.tend(core);
    }

    /// Starts a scrub, unless one is in progress.
    pub(crate) fn scrub(&mut self, core: &mut Core) {
        let is_possible = self.is_redundant() && self.is_powered && self.scrub.is_none();
        if is_possible {
            self.scrub = Some(Scrub { at: 0, piece: None, next_ns: core.now, timer: NIL });
            self.scrub_more(core);
        }
    }

    fn scrub_more(&mut self, core: &mut Core) {
        let Some(scrub) = &self.scrub else { return };
        let strip = self.layout.strip_sectors();
        let (stripe, offset, at) = (scrub.at / strip, scrub.at % strip, scrub.at);
        if stripe >= self.layout.stripes() {
            self.scrub = None;
            self.counts.scrubs += 1;
            return;
        }
        let rows = self.chunk(offset);
        let sectors = rows.end - rows.start;
        let piece = self.restore(core, stripe, rows, Purpose::Scrub);
        let next_ns = core.now + self.paced_ns(sectors);
        let (at, timer) = (at + sectors, NIL);
        self.scrub = Some(Scrub { at, piece: Some(piece), next_ns, timer });
    }

    /// Returns the rebuilt fraction of the member being rebuilt, 0 to 1; `None` without a rebuild.
    pub(super) fn share_rebuilt(&self) -> Option<f64> {
        let rebuild = self.rebuild.as_ref()?;
        let (strip, stripes) = (self.layout.strip_sectors(), self.layout.stripes());
        let sectors = match self.layout.level() {
            Level::Raid10 => stripes * 2 * strip / self.layout.members() as u64,
            _ => stripes * strip,
        };
        Some(rebuild.cursor as f64 / sectors as f64)
    }
}

/// Creates an internal request of `part` whose event is due at `at_ns`. Returns its index.
fn wake(core: &mut Core, part: crate::part_id::PartId, at_ns: u64) -> u32 {
    let slot = core.add(part);
    let request = &mut core.slab[slot];
    (request.internal, request.origin) = (true, Origin::Own);
    core.at(at_ns, slot, State::Wake);
    slot
}
