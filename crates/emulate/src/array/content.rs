//! Values of an array's pieces, where content is kept: what members return, what parity and recovery make of it, and
//! what members are given. The units of content are 4 KiB; an array whose strips are not of whole units keeps none.

use super::row::Row;
use super::{Array, Purpose, UNIT_SECTORS, units_of};
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use iodyno_raid::{Access, MemberSet, Plan, Role};
use iodyno_units::OpKind;
use std::collections::{BTreeMap, BTreeSet};

impl Array {
    /// Its members keep their content; it keeps the record of its rows.
    pub(crate) fn keep_content(&mut self) {
        if self.layout.strip_sectors().is_multiple_of(UNIT_SECTORS) {
            self.record.get_or_insert_default();
        }
    }

    /// A read begins, whose values its pieces find.
    pub(super) fn expect_values(&self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        if self.record.is_some()
            && request.kind == OpKind::Read
            && let Some(values) = &mut core.values
        {
            let end = (request.at + u64::from(request.len)).div_ceil(UNIT_BYTES);
            values.set(slot, vec![0; (end - request.at / UNIT_BYTES) as usize]);
        }
    }

    /// A member has returned what it holds.
    pub(super) fn receive(&mut self, core: &mut Core, number: usize, child: u32, member: usize) {
        let first = core.slab[child].at / UNIT_BYTES;
        if let Some(values) = core.values.as_mut().and_then(|values| values.take(child)) {
            let units = (first..).zip(values).map(|(unit, value)| ((member, unit), value));
            self.pieces[number].got.extend(units);
        }
    }

    /// What is known of a row by a piece's reads.
    pub(super) fn known(&self, number: usize, unit: u64) -> Row {
        let piece = &self.pieces[number];
        known(&self.layout, piece.stripe, unit, |member, unit| {
            piece.got.get(&(member, unit)).copied()
        })
    }

    /// A piece has read: what does it return, or write?
    pub(super) fn compute(&mut self, core: &mut Core, slot: u32) {
        let number = core.slab[slot].at as usize;
        let (kind, parent) = (core.slab[slot].kind, core.slab[slot].parent);
        if self.record.is_none() || kind == OpKind::Trim || core.values.is_none() {
            return;
        }
        let piece = &self.pieces[number];
        let (stripe, range) = (piece.stripe, piece.range.clone());
        if piece.purpose != Purpose::Operation || piece.mends {
            self.compute_restored(number);
            return;
        }
        let strip_units = self.layout.strip_sectors() / UNIT_SECTORS;
        let first = stripe * self.layout.data_strips() as u64 * strip_units;
        let touched = units_of(&self.layout, stripe, &range);
        let mut rows: BTreeSet<u64> = touched.clone().map(|u| (u - first) % strip_units).collect();
        rows.extend(piece.writes.iter().flat_map(units_in));
        let mut found = BTreeMap::new();
        let strips = self.layout.data_strips();
        for unit in rows {
            let mut row = self.known(number, unit);
            if kind == OpKind::Read {
                let is_wanted =
                    |strip: &usize| touched.contains(&(first + *strip as u64 * strip_units + unit));
                let wanted = || (0..strips).filter(is_wanted);
                let lacks = |row: &Row| wanted().any(|s| row.get(Role::Data(s as u8)).is_none());
                if lacks(&row) || !piece.unreadable.is_empty() {
                    let is_recovered = row.recover();
                    debug_assert!(is_recovered || !lacks(&row), "it was planned");
                    if is_recovered {
                        row.compute_parity();
                    }
                }
                for strip in wanted() {
                    let value = row.get(Role::Data(strip as u8)).unwrap_or(0);
                    let at = first + strip as u64 * strip_units + unit;
                    let index = at - core.slab[parent].at / UNIT_BYTES;
                    if let Some(values) = core.values.as_mut().and_then(|v| v.of_mut(parent)) {
                        values[index as usize] = value;
                    }
                }
            } else {
                let new = |strip: usize| {
                    let at = first + strip as u64 * strip_units + unit;
                    touched.contains(&at).then(|| Self::new_value(core, parent, at))
                };
                let new: Vec<Option<u64>> = (0..strips).map(new).collect();
                if !piece.unreadable.is_empty() {
                    row.recover();
                }
                row = row.written(&new);
            }
            found.insert(unit, row);
        }
        self.pieces[number].rows = found;
    }

    /// The value that an operation gives a unit: of zeroes where it zeroes all of it.
    fn new_value(core: &Core, parent: u32, unit: u64) -> u64 {
        let request = &core.slab[parent];
        let (from, to) = (request.at, request.at + u64::from(request.len));
        let is_whole = unit * UNIT_BYTES >= from && (unit + 1) * UNIT_BYTES <= to;
        if request.kind == OpKind::WriteZeroes && is_whole {
            return 0;
        }
        core.value(parent, unit)
    }

    /// A member is asked on behalf of a piece: the values of what it writes.
    pub(super) fn give_values(&self, core: &mut Core, number: usize, child: u32, access: &Access) {
        let rows = &self.pieces[number].rows;
        if core.slab[child].kind != OpKind::Write || rows.is_empty() {
            return;
        }
        let value = |unit| {
            let value = rows.get(&unit).and_then(|row: &Row| row.get(access.role));
            debug_assert!(value.is_some(), "{access:?}: what is written was not computed");
            value.unwrap_or(0)
        };
        let given: Vec<u64> = units_in(access).map(value).collect();
        if let Some(values) = &mut core.values {
            values.set(child, given);
        }
    }

    /// The value of a unit by what the members hold now (`held`); None: nothing was written there, or it is lost.
    /// While a piece writes the unit's rows, it may be neither old nor new.
    pub(crate) fn unit_value(
        &self,
        unit: u64,
        held: impl Fn(PartId, u64) -> Option<u64>,
    ) -> Option<u64> {
        let sector = unit * UNIT_SECTORS;
        self.record.as_ref()?;
        if sector + UNIT_SECTORS > self.layout.sectors() || self.bad.contains(unit) {
            return None;
        }
        let at = self.layout.locate(sector);
        let begin = at.stripe * self.layout.stripe_sectors();
        let range = sector - begin..sector - begin + UNIT_SECTORS;
        let missing: MemberSet = self.untrusted(at.stripe, &self.offsets(&range));
        let mut plan = Plan::new();
        plan.read(&self.layout, at.stripe, range, missing, 0).ok()?;
        let is_read = |member, unit| {
            let reads = |access: &Access| {
                usize::from(access.member) == member && access.sector / UNIT_SECTORS == unit
            };
            let value = || held(self.members[member], unit).unwrap_or(0);
            plan.reads().iter().any(reads).then(value)
        };
        let mut row = known(&self.layout, at.stripe, at.offset / UNIT_SECTORS, is_read);
        if row.get(at.role).is_none() {
            row.recover();
        }
        row.get(at.role).filter(|&value| value != 0)
    }
}

/// Units within a strip that an access touches.
pub(super) fn units_in(access: &Access) -> std::ops::Range<u64> {
    access.offset / UNIT_SECTORS..(access.offset + access.sectors).div_ceil(UNIT_SECTORS)
}

/// What is known of a row (a unit within a strip), where `got` gives what is known of a member's unit.
fn known(
    layout: &iodyno_raid::Layout,
    stripe: u64,
    unit: u64,
    got: impl Fn(usize, u64) -> Option<u64>,
) -> Row {
    let stripe = layout.stripe(stripe);
    let mut row = Row::new(&stripe, layout.data_strips());
    let value = |place: iodyno_raid::Place| got(place.member, place.sector / UNIT_SECTORS + unit);
    for strip in 0..layout.data_strips() {
        let copy = (0..layout.copies()).find_map(|copy| value(stripe.data(strip, copy)));
        row.set(Role::Data(strip as u8), copy);
    }
    row.set(Role::P, stripe.p().and_then(value));
    row.set(Role::Q, stripe.q().and_then(value));
    row
}
