//! Content of an array, if the emulation stores content: values read from members, computed from parity, and written
//! to members. The unit of content is 4 KiB. An array whose strip size is not a multiple of 4 KiB stores no content.

use super::row::Row;
use super::{Array, Purpose, UNIT_SECTORS, units_of};
use crate::content_event::{ContentEvent, UNIT_BYTES, UnitBytes};
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{NIL, Origin};
use crate::spec::SECTOR_BYTES;
use crate::values::combine;
use iodyno_raid::{Access, MemberSet, Plan, Role};
use iodyno_units::OpKind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

impl Array {
    /// Starts to record the rows that a power cut may leave inconsistent. The members, not the array,
    /// store the content.
    pub(crate) fn keep_content(&mut self) {
        if self.layout.strip_sectors().is_multiple_of(UNIT_SECTORS) {
            self.record.get_or_insert_default();
        }
    }

    /// Leaves the storage of the content to the caller of the library. A journal then works only if it is in the
    /// memory of RAID adapters.
    pub(crate) fn follow_content(&mut self) {
        assert!(self.record.is_some(), "strips must be whole units of 4 KiB");
        self.journal &= self.path.is_some();
    }

    /// Allocates the values of a read, which its pieces (one per stripe) then fill in.
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

    /// Stores the values that a member's read has returned, in the piece (work within one stripe) that sent the read.
    pub(super) fn receive(&mut self, core: &mut Core, number: usize, child: u32, member: usize) {
        let first = core.slab[child].at / UNIT_BYTES;
        if let Some(values) = core.values.as_mut().and_then(|values| values.take(child)) {
            let units = (first..).zip(values).map(|(unit, value)| ((member, unit), value));
            self.pieces[number].got.extend(units);
        }
    }

    /// Returns the values of one row that a piece of work within one stripe has already read.
    pub(super) fn known(&self, number: usize, unit: u64) -> Row {
        let piece = &self.pieces[number];
        known(&self.layout, piece.stripe, unit, |member, unit| {
            piece.got.get(&(member, unit)).copied()
        })
    }

    /// Computes the values that a piece of work within one stripe returns or writes, after its reads have completed.
    pub(super) fn compute(&mut self, core: &mut Core, slot: u32) {
        let number = core.slab[slot].at as usize;
        let (kind, parent) = (core.slab[slot].kind, core.slab[slot].parent);
        if self.record.is_none() || kind == OpKind::Trim || core.values.is_none() {
            return;
        }
        let names = core.names_values();
        let first_name = if names { core.new_name() } else { 0 };
        let piece = &self.pieces[number];
        if piece.purpose != Purpose::Operation || piece.mends {
            self.compute_restored(core, number);
        } else if kind == OpKind::Read {
            self.compute_read(core, number, parent);
        } else if self.has_parity() || !names {
            self.compute_write(core, number, parent);
        }
        if names {
            self.pieces[number].names = first_name..core.new_name();
            self.name_returned(core, number, parent);
        }
    }

    /// Creates new identifiers for the data that a read returns to another array or path, because the identifiers of
    /// the piece (the read's part within one stripe) are freed when the piece ends.
    fn name_returned(&self, core: &mut Core, number: usize, parent: u32) {
        let piece = &self.pieces[number];
        let of_host = parent == NIL || matches!(core.slab[parent].origin, Origin::Host { .. });
        if of_host || core.slab[parent].kind != OpKind::Read || piece.mends {
            return;
        }
        let (touched, first) = (self.touched(number).0, core.slab[parent].at / UNIT_BYTES);
        for unit in touched {
            let index = unit - first;
            let name = core.values.as_ref().and_then(|values| values.of(parent, index));
            let name = core.copy(name.unwrap_or(0));
            if let Some(values) = core.values.as_mut().and_then(|values| values.of_mut(parent)) {
                values[index as usize] = name;
            }
        }
    }

    /// Returns the array's units that a piece of an operation accesses, the first unit of the piece's stripe, and the
    /// rows of the stripe that the piece accesses.
    fn touched(&self, number: usize) -> (Range<u64>, u64, BTreeSet<u64>) {
        let piece = &self.pieces[number];
        let strip_units = self.layout.strip_sectors() / UNIT_SECTORS;
        let first = piece.stripe * self.layout.data_strips() as u64 * strip_units;
        let touched = units_of(&self.layout, piece.stripe, &piece.range);
        let mut rows: BTreeSet<u64> = touched.clone().map(|u| (u - first) % strip_units).collect();
        rows.extend(piece.writes.iter().flat_map(units_in));
        (touched, first, rows)
    }

    /// Computes the values that a read returns, and those that are rewritten to unreadable sectors.
    fn compute_read(&mut self, core: &mut Core, number: usize, parent: u32) {
        let (touched, first, rows) = self.touched(number);
        let strip_units = self.layout.strip_sectors() / UNIT_SECTORS;
        let mut found = BTreeMap::new();
        let address = |strip: usize, unit: u64| first + strip as u64 * strip_units + unit;
        for unit in rows {
            let mut row = self.known(number, unit);
            let strips = 0..self.layout.data_strips();
            let wanted = || strips.clone().filter(|&strip| touched.contains(&address(strip, unit)));
            let lacks = wanted().any(|strip| row.get(Role::Data(strip as u8)).is_none());
            if lacks || !self.pieces[number].unreadable.is_empty() {
                let is_recovered = row.recover(&mut |terms| core.combine(terms));
                debug_assert!(is_recovered || !lacks, "it was planned");
                if is_recovered {
                    row.compute_parity(&mut |terms| core.combine(terms));
                }
            }
            for strip in wanted() {
                let value = row.get(Role::Data(strip as u8)).unwrap_or(0);
                let (token, unit) = (core.slab[parent].token, address(strip, unit));
                let index = unit - core.slab[parent].at / UNIT_BYTES;
                let of_host = matches!(core.slab[parent].origin, Origin::Host { .. });
                if core.names_values() && of_host {
                    core.tell(ContentEvent::Returned { token, unit, name: value });
                } else if let Some(v) = core.values.as_mut().and_then(|v| v.of_mut(parent)) {
                    v[index as usize] = value;
                }
            }
            found.insert(unit, row);
        }
        self.pieces[number].rows = found;
    }

    /// Computes the values that a write sends to members.
    fn compute_write(&mut self, core: &mut Core, number: usize, parent: u32) {
        let (touched, first, rows) = self.touched(number);
        let strip_units = self.layout.strip_sectors() / UNIT_SECTORS;
        let mut found = BTreeMap::new();
        for unit in rows {
            let address = |strip: usize| first + strip as u64 * strip_units + unit;
            let strips = 0..self.layout.data_strips();
            let changed: Vec<bool> =
                strips.clone().map(|strip| touched.contains(&address(strip))).collect();
            let is_part = |strip: usize| changed[strip] && !is_whole(core, parent, address(strip));
            let mut row = self.known(number, unit);
            if core.names_values() && strips.clone().any(is_part) {
                if self.is_of_arrays {
                    let row = self.write_sectors(core, number, parent, unit);
                    found.insert(unit, row);
                    continue;
                }
                // A partial write needs the bytes of the rest of the unit, whatever sectors were read.
                row = self.fetch_row(core, number, unit);
                row.recover(&mut |terms| core.combine(terms));
            }
            if !self.pieces[number].unreadable.is_empty() {
                row.recover(&mut |terms| core.combine(terms));
            }
            let new: Vec<Option<u64>> = strips
                .map(|strip| {
                    let old = row.get(Role::Data(strip as u8));
                    changed[strip].then(|| new_value(core, parent, address(strip), old))
                })
                .collect();
            row = row.written(&new, &mut |terms| core.combine(terms));
            found.insert(unit, row);
        }
        self.pieces[number].rows = found;
    }

    /// Computes the values that a write sends to members which are arrays, for a row with partially
    /// written units. Members' values, and values derived from them, are valid only for the sectors
    /// that were read.
    fn write_sectors(&self, core: &mut Core, number: usize, parent: u32, unit: u64) -> Row {
        let (piece, strips) = (&self.pieces[number], self.layout.data_strips());
        let strip_units = self.layout.strip_sectors() / UNIT_SECTORS;
        let first = (piece.stripe * strips as u64) * strip_units + unit;
        let begin = unit * UNIT_SECTORS;
        let in_unit = |at: u64| at.saturating_sub(begin).min(UNIT_SECTORS);
        let written: Vec<Range<u64>> = (0..strips as u64)
            .map(|strip| {
                let of_strip = strip * self.layout.strip_sectors();
                let at = |sector: u64| in_unit(sector.saturating_sub(of_strip));
                at(piece.range.start)..at(piece.range.end)
            })
            .collect();
        let reads: Vec<(&Access, Range<u64>)> = (piece.reads.iter())
            .map(|read| (read, in_unit(read.offset)..in_unit(read.offset + read.sectors)))
            .collect();
        let all = written.iter().chain(reads.iter().map(|read| &read.1));
        let mut borders: BTreeSet<u64> = all.flat_map(|part| [part.start, part.end]).collect();
        borders.retain(|&border| border <= UNIT_SECTORS);
        let borders: Vec<u64> = borders.into_iter().collect();
        let new: Vec<Option<u64>> = (0..strips as u64)
            .map(|strip| {
                let address = first + strip * strip_units;
                let is_written = !written[strip as usize].is_empty();
                is_written.then(|| bytes_of_write(core, parent, address))
            })
            .collect();
        let mut row =
            Row::new(&self.layout.stripe(piece.stripe), strips, self.layout.level().parities());
        for part in borders.windows(2).map(|pair| pair[0]..pair[1]) {
            let is_in = |of: &Range<u64>| of.start <= part.start && part.end <= of.end;
            let new: Vec<Option<u64>> =
                new.iter().zip(&written).map(|(new, of)| new.filter(|_| is_in(of))).collect();
            if new.iter().all(Option::is_none) {
                continue;
            }
            let mut of_part =
                Row::new(&self.layout.stripe(piece.stripe), strips, self.layout.level().parities());
            for (read, _) in reads.iter().filter(|read| is_in(&read.1)) {
                let at =
                    (usize::from(read.member), (read.sector - read.offset) / UNIT_SECTORS + unit);
                of_part.set(read.role, piece.got.get(&at).copied());
            }
            if !piece.unreadable.is_empty() {
                of_part.recover(&mut |terms| core.combine(terms));
            }
            let of_part = of_part.written(&new, &mut |terms| core.combine(terms));
            let bytes = |sectors: u64| (sectors * SECTOR_BYTES) as u16;
            let part_bytes = UnitBytes { start: bytes(part.start), end: bytes(part.end) };
            for (role, _) in self.strips(piece.stripe) {
                let laid = match (row.get(role), of_part.get(role)) {
                    (None, over) => over,
                    (onto, None) => onto,
                    (Some(onto), Some(over)) if onto == over => Some(onto),
                    (Some(onto), Some(over)) => Some(core.lay(onto, over, part_bytes)),
                };
                row.set(role, laid);
            }
        }
        row
    }

    /// Returns a row's values as the members with valid data store them now.
    fn fetch_row(&self, core: &mut Core, number: usize, unit: u64) -> Row {
        let piece = &self.pieces[number];
        let offsets = unit * UNIT_SECTORS..(unit + 1) * UNIT_SECTORS;
        let untrusted = self.untrusted(piece.stripe, &offsets);
        let without = piece.unreadable.iter().fold(untrusted, MemberSet::with);
        let mut row = self.known(number, unit);
        for (role, place) in self.strips(piece.stripe) {
            let at = place.sector / UNIT_SECTORS + unit;
            let is_got = piece.got.contains_key(&(place.member, at));
            if !is_got && !without.contains(place.member) {
                row.set(role, Some(core.fetch(self.members[place.member], at, None)));
            }
        }
        row
    }

    /// Passes to a member's write the values that a piece of work within one stripe has computed.
    pub(super) fn give_values(&mut self, core: &mut Core, slot: u32, child: u32, access: &Access) {
        let names = core.names_values();
        let kind = core.slab[child].kind;
        let is_device = core.slab[child].part.index() < core.devices;
        if names && matches!(kind, OpKind::Trim | OpKind::WriteZeroes) {
            if !is_device {
                return;
            }
            let token = core.new_name();
            let request = &mut core.slab[child];
            request.token = token;
            let (part, offset_bytes, len_bytes) = (request.part, request.at, request.len);
            let trim = kind == OpKind::Trim;
            core.tell(ContentEvent::Cleared { part, offset_bytes, len_bytes, trim, token });
            return;
        }
        let number = core.slab[slot].at as usize;
        let piece = &self.pieces[number];
        let rows = &piece.rows;
        if kind != OpKind::Write || self.record.is_none() || (rows.is_empty() && !names) {
            return;
        }
        let (part, first) = (core.slab[child].part, core.slab[child].at / UNIT_BYTES);
        let (mut given, mut made) = (Vec::new(), Vec::new());
        for (at, unit) in (first..).zip(units_in(access)) {
            let value = rows.get(&unit).and_then(|row: &Row| row.get(access.role));
            debug_assert!(value.is_some() || rows.is_empty(), "{access:?} was not computed");
            if !names {
                given.push(value.unwrap_or(0));
                continue;
            }
            let parent = core.slab[slot].parent;
            let of = || {
                let Role::Data(strip) = access.role else { unreachable!("no parity") };
                let strips = piece.stripe * self.layout.data_strips() as u64 + u64::from(strip);
                strips * (self.layout.strip_sectors() / UNIT_SECTORS) + unit
            };
            let name = value.or_else(|| given_name(core, parent, of()));
            if !is_device {
                // (Names last as long as the piece; tokens last as long as the device's write.)
                let name = name.unwrap_or_else(|| {
                    made.push(bytes_of_write(core, parent, of()));
                    made[made.len() - 1]
                });
                given.push(name);
                continue;
            }
            if let Some(name) = name {
                let part_bytes = core.slab[child].part_of(at);
                given.push(core.give(part, at, part_bytes, name));
                continue;
            }
            let (token, from) = (core.new_name(), core.slab[parent].token);
            given.push(token);
            core.tell(ContentEvent::Passed { part, unit: at, token, from, of: of() });
        }
        if let Some(values) = &mut core.values {
            values.set(child, given);
        }
        self.pieces[number].given.append(&mut made);
    }

    /// Frees the content identifiers that a piece of an operation has created. Called when the piece ends or is
    /// planned again.
    pub(super) fn free_names(&mut self, core: &mut Core, number: usize) {
        if !core.names_values() {
            return;
        }
        let piece = &mut self.pieces[number];
        let names = std::mem::take(&mut piece.names);
        for name in std::mem::take(&mut piece.given) {
            core.tell(ContentEvent::Freed { name, count: 1 });
        }
        for name in std::mem::take(&mut piece.got).into_values() {
            core.tell(ContentEvent::Freed { name, count: 1 });
        }
        if !names.is_empty() {
            let count = names.end - names.start;
            core.tell(ContentEvent::Freed { name: names.start, count });
        }
    }

    /// Returns a unit's value, computed from the members' current content, which `held` returns.
    /// `None` if the unit is lost or was never written. During a write of the unit's row, the value may
    /// be neither old nor new.
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
            row.recover(&mut combine);
        }
        row.get(at.role).filter(|&value| value != 0)
    }
}

/// Returns the identifier of a unit's new bytes in a write that another array or path sent; `None`
/// for a host's write.
fn given_name(core: &Core, slot: u32, unit: u64) -> Option<u64> {
    core.values.as_ref()?.of(slot, unit - core.slab[slot].at / UNIT_BYTES)
}

/// Returns whether an operation covers all of a unit.
fn is_whole(core: &Core, slot: u32, unit: u64) -> bool {
    let request = &core.slab[slot];
    let (from, to) = (request.at, request.at + u64::from(request.len));
    unit * UNIT_BYTES >= from && (unit + 1) * UNIT_BYTES <= to
}

/// Returns the value of a unit after a write; 0 if the whole unit is zeroed.
fn new_value(core: &mut Core, parent: u32, unit: u64, old: Option<u64>) -> u64 {
    let whole = is_whole(core, parent, unit);
    if core.slab[parent].kind == OpKind::WriteZeroes && whole {
        return 0;
    }
    if !core.names_values() {
        return core.value(parent, unit);
    }
    debug_assert!(whole || old.is_some(), "the rest of the unit is known");
    let over = given_name(core, parent, unit);
    if whole {
        return over.unwrap_or_else(|| bytes_of_write(core, parent, unit));
    }
    let onto = old.unwrap_or(0);
    let is_zeroes = core.slab[parent].kind == OpKind::WriteZeroes;
    if let Some(over) = over.or(is_zeroes.then_some(0)) {
        let part_bytes = core.slab[parent].part_of(unit);
        return core.lay(onto, over, part_bytes);
    }
    let (token, name) = (core.slab[parent].token, core.new_name());
    core.tell(ContentEvent::Taken { token, unit, onto, name });
    name
}

/// Returns an identifier for the bytes that a write puts into a unit. Only the range that the
/// write covers is valid.
fn bytes_of_write(core: &mut Core, parent: u32, unit: u64) -> u64 {
    if let Some(name) = given_name(core, parent, unit) {
        return name;
    }
    if core.slab[parent].kind == OpKind::WriteZeroes {
        return 0;
    }
    let (token, name) = (core.slab[parent].token, core.new_name());
    core.tell(ContentEvent::Taken { token, unit, onto: 0, name });
    name
}

/// Returns the units, counted from the start of the strip, that an access to a member covers in full or in part.
pub(super) fn units_in(access: &Access) -> std::ops::Range<u64> {
    access.offset / UNIT_SECTORS..(access.offset + access.sectors).div_ceil(UNIT_SECTORS)
}

/// Returns the known values of a row (one unit of each strip of a stripe). `got` returns the value of a member's unit,
/// if it is known.
fn known(
    layout: &iodyno_raid::Layout,
    stripe: u64,
    unit: u64,
    got: impl Fn(usize, u64) -> Option<u64>,
) -> Row {
    let stripe = layout.stripe(stripe);
    let mut row = Row::new(&stripe, layout.data_strips(), layout.level().parities());
    let value = |place: iodyno_raid::Place| got(place.member, place.sector / UNIT_SECTORS + unit);
    for strip in 0..layout.data_strips() {
        let copy = (0..layout.copies()).find_map(|copy| value(stripe.data(strip, copy)));
        row.set(Role::Data(strip as u8), copy);
    }
    row.set(Role::P, stripe.p().and_then(value));
    row.set(Role::Q, stripe.q().and_then(value));
    row
}
