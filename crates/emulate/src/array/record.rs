//! The record of rows that a power cut may leave inconsistent: parity that contradicts the data, or copies that
//! differ. It is stored on the members, like md's write-intent bitmap, but its updates take no time. It exists only
//! if the emulation stores content.
//!
//! A row enters the record before it is written. It leaves the record when a flush succeeds, if the flush began after
//! the row's last write. A row that entered for a FUA write also leaves when that write ends.
//!
//! A journal in non-volatile memory also stores the written values, which are written again when the power returns.
//! Its size is unlimited.
//!
//! Without a journal, the parity of a recorded row may be inconsistent after a power cut. If a member is missing, the
//! row's data on this member is then reported as lost, not reconstructed (the write hole).

use super::content::units_in;
use super::{Array, Phase, Purpose, UNIT_SECTORS, units_of};
use crate::core::Core;
use iodyno_raid::Role;
use iodyno_units::OpKind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A row (one unit per member of a stripe) that a power cut may leave inconsistent.
#[derive(Clone, Debug, Default)]
struct Dirty {
    is_written: bool,
    /// Sequence number of the row's last write.
    sequence: u64,
    /// Whether the row's write is FUA and the row was not in the record before. The completion of this write then
    /// removes the row from the record.
    is_forced: bool,
    /// Values written to the row, by role of the strip. Empty without a journal.
    journal: Vec<(Role, u64)>,
}

/// A flush in progress, with the writes and the rebuild progress that it makes durable.
#[derive(Clone, Debug)]
struct Flush {
    slot: u32,
    sequence: u64,
    /// Sequence number and cursor of the rebuild that was in progress when the flush began; `None`
    /// without a rebuild.
    rebuilt: Option<(u64, u64)>,
}

/// The rows of an array that a power cut may leave inconsistent.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Rows by number: stripe times units per strip, plus the unit within the strip.
    rows: BTreeMap<u64, Dirty>,
    sequence: u64,
    flushes: Vec<Flush>,
    /// Lost units that have been rewritten with data that is not durable yet.
    healed: BTreeSet<u64>,
}

impl Array {
    fn strip_units(&self) -> u64 {
        self.layout.strip_sectors() / UNIT_SECTORS
    }

    /// Returns whether lost units have been rewritten with data that is not durable yet.
    pub(super) fn heals(&self) -> bool {
        self.record.as_ref().is_some_and(|record| !record.healed.is_empty())
    }

    /// Returns whether a power cut could leave a row inconsistent. False unless content is stored.
    pub(crate) fn has_unflushed_rows(&self) -> bool {
        self.record.as_ref().is_some_and(|record| !record.rows.is_empty())
    }

    fn keeps_record(&self) -> bool {
        self.record.is_some() && self.is_redundant()
    }

    /// Returns the units that the piece of work `number` writes, counted from the start of a strip.
    fn written_units(&self, number: usize) -> BTreeSet<u64> {
        self.pieces[number].writes.iter().flat_map(units_in).collect()
    }

    /// Records the rows that a piece of work within one stripe is about to write.
    pub(super) fn record_writes(&mut self, core: &mut Core, slot: u32) {
        let (request, number) = (core.slab[slot], core.slab[slot].at as usize);
        let piece = &self.pieces[number];
        let piece_purpose = piece.purpose;
        let changes = match piece_purpose {
            Purpose::Operation => request.kind != OpKind::Read && !piece.mends,
            Purpose::Resync => true,
            Purpose::Rebuild | Purpose::Settle | Purpose::Scrub => piece.lost,
        };
        if !changes || !self.keeps_record() {
            return;
        }
        let (units, stripe) = (self.written_units(number), piece.stripe);
        let first = stripe * self.strip_units();
        let journal = self.journal && self.has_parity();
        let is_trim = request.kind == OpKind::Trim;
        // After this write, the old values of missing or not yet rebuilt members are stale.
        let (strips, missing) = (self.strips(stripe), self.missing);
        let is_old =
            |role| strips.iter().any(|(of, place)| *of == role && missing.contains(place.member));
        let Some(record) = &mut self.record else { return };
        let mut dropped = Vec::new();
        for unit in units {
            let is_new = !record.rows.contains_key(&(first + unit));
            let dirty = record.rows.entry(first + unit).or_default();
            dirty.is_written = true;
            dirty.is_forced = (is_new || piece_purpose == Purpose::Resync) && request.fua;
            dropped.extend(dirty.journal.extract_if(.., |(role, _)| is_old(*role)));
            let piece = &self.pieces[number];
            for access in piece.writes.iter().filter(|_| journal) {
                let row = piece.rows.get(&unit);
                let value =
                    if is_trim { Some(0) } else { row.and_then(|row| row.get(access.role)) };
                let sectors = access.offset..access.offset + access.sectors;
                let touches =
                    sectors.start < (unit + 1) * UNIT_SECTORS && sectors.end > unit * UNIT_SECTORS;
                if let Some(value) = value.filter(|_| touches) {
                    let is_same = |of: &mut (Role, u64)| of.0 == access.role;
                    dropped.extend(dirty.journal.extract_if(.., is_same));
                    dirty.journal.push((access.role, core.copy(value)));
                }
            }
        }
        drop_journal(core, dropped);
    }

    /// Updates the record of inconsistent rows when all writes of a piece of work within one stripe have ended.
    pub(super) fn record_end(&mut self, core: &mut Core, slot: u32, failed: bool) {
        let (kind, number) = (core.slab[slot].kind, core.slab[slot].at as usize);
        let piece = &self.pieces[number];
        if piece.phase != Phase::Writes || kind == OpKind::Read || piece.mends {
            return;
        }
        let (stripe, range) = (piece.stripe, piece.range.clone());
        // (A device may ignore a trim.)
        if piece.purpose == Purpose::Operation && !failed && kind != OpKind::Trim {
            self.heal(stripe, &range);
        }
        if !self.keeps_record() {
            return;
        }
        let mut units = self.written_units(number);
        let piece = &self.pieces[number];
        if piece.purpose == Purpose::Resync {
            units.extend(piece.offsets.start / UNIT_SECTORS..piece.offsets.end / UNIT_SECTORS);
        }
        let first = stripe * self.strip_units();
        let Some(record) = &mut self.record else { return };
        record.sequence += 1;
        for row in units.into_iter().map(|unit| first + unit) {
            let Some(dirty) = record.rows.get_mut(&row).filter(|dirty| dirty.is_written) else {
                continue;
            };
            if dirty.is_forced && !failed {
                if let Some(dirty) = record.rows.remove(&row) {
                    drop_journal(core, dirty.journal);
                }
                continue;
            }
            (dirty.is_written, dirty.sequence) = (false, record.sequence);
        }
    }

    /// Removes from the lost units those that a write of `range` has completely replaced.
    fn heal(&mut self, stripe: u64, range: &Range<u64>) {
        if self.bad.is_empty() {
            return;
        }
        let begin = stripe * self.layout.stripe_sectors();
        let (start, end) = (begin + range.start, begin + range.end);
        let mut units = start.div_ceil(UNIT_SECTORS)..end / UNIT_SECTORS;
        while let Some(unit) = self.bad.first_in(units.clone()) {
            self.bad.remove(unit..unit + 1);
            units.start = unit + 1;
            if let Some(record) = &mut self.record {
                record.healed.insert(unit);
            }
        }
    }

    /// Marks the data at `offsets` of a strip as lost, so that reads of it fail.
    pub(super) fn report_lost(&mut self, stripe: u64, offsets: &Range<u64>, strip: usize) {
        let size = self.layout.strip_sectors();
        let range = strip as u64 * size + offsets.start..strip as u64 * size + offsets.end;
        let units = units_of(&self.layout, stripe, &range);
        self.counts.lost_units += units.end - units.start;
        self.bad.add(units);
    }

    /// Returns the journal's values for one row; empty without a journal.
    pub(super) fn journalled(&self, stripe: u64, unit: u64) -> &[(Role, u64)] {
        let row = stripe * self.strip_units() + unit;
        let rows = self.record.as_ref().and_then(|record| record.rows.get(&row));
        rows.map_or(&[], |dirty| &dirty.journal[..])
    }

    /// Records the start of the flush `slot`, and the writes and rebuilt sectors that it will make durable.
    pub(super) fn flush_begins(&mut self, slot: u32) {
        let rebuilt = self.rebuild.as_ref().map(|rebuild| (rebuild.number, rebuild.cursor));
        if let Some(record) = &mut self.record {
            let sequence = record.sequence;
            record.flushes.push(Flush { slot, sequence, rebuilt });
        }
    }

    /// Removes from the record the rows that a flush has made durable.
    pub(super) fn is_flushed(&mut self, core: &mut Core, slot: u32, failed: bool) {
        let Some(record) = &mut self.record else { return };
        let Some(at) = record.flushes.iter().position(|flush| flush.slot == slot) else { return };
        let flush = record.flushes.swap_remove(at);
        if failed {
            return;
        }
        let mut dropped = Vec::new();
        record.rows.retain(|_, dirty| {
            let stays = dirty.is_written || dirty.sequence > flush.sequence;
            if !stays {
                dropped.append(&mut dirty.journal);
            }
            stays
        });
        drop_journal(core, dropped);
        let (layout, rows) = (self.layout, &record.rows);
        record.healed.retain(|unit| {
            let at = layout.locate(unit * UNIT_SECTORS);
            let units = layout.strip_sectors() / UNIT_SECTORS;
            rows.contains_key(&(at.stripe * units + at.offset / UNIT_SECTORS))
        });
        if let (Some(rebuild), Some((number, to))) = (&mut self.rebuild, flush.rebuilt)
            && rebuild.number == number
        {
            rebuild.durable = rebuild.durable.max(to.min(rebuild.cursor));
        }
    }

    /// Processes a power failure: drops flushes in progress. Lost units that were rewritten are lost
    /// again unless the new data was durable or is in a journal.
    pub(super) fn record_power_off(&mut self) {
        let Some(record) = &mut self.record else { return };
        record.flushes.clear();
        let healed = std::mem::take(&mut record.healed);
        let is_kept = self.journal && self.layout.level().parities() > 0;
        for unit in healed.into_iter().filter(|_| !is_kept) {
            self.bad.add(unit..unit + 1);
        }
    }

    /// Returns the runs of rows to resync when the power returns, as stripe and sectors within a strip. Flushes don't
    /// remove these rows from the record before they are resynced.
    pub(super) fn begin_resync(&mut self) -> Vec<(u64, Range<u64>)> {
        let (units, mut runs) = (self.strip_units(), Vec::<(u64, Range<u64>)>::new());
        let Some(record) = &mut self.record else { return runs };
        for (row, dirty) in &mut record.rows {
            dirty.is_written = true;
            let (stripe, from) = (row / units, row % units * UNIT_SECTORS);
            match runs.last_mut() {
                Some((last, run)) if *last == stripe && run.end == from => run.end += UNIT_SECTORS,
                _ => runs.push((stripe, from..from + UNIT_SECTORS)),
            }
        }
        runs
    }
}

/// Frees values that were removed from a journal.
fn drop_journal(core: &mut Core, values: Vec<(Role, u64)>) {
    for (_, value) in values {
        core.free(value);
    }
}
