//! Restores rows of a stripe for a resync, rebuild or scrub: reads the available data of the rows, recovers the rest,
//! and writes what is missing or inconsistent. A resync overwrites mirrored copies with the first readable copy, and
//! recomputes parity from the data. In a resync or rebuild, data that can't be recovered are zeroed, and reported as
//! lost until they are rewritten. A scrub rewrites only unreadable sectors, and leaves rows that it can't recover.

use super::{Array, Piece, Purpose, UNIT_SECTORS};
use crate::core::Core;
use iodyno_raid::{Access, MemberSet, Place, Role};
use std::collections::BTreeMap;
use std::ops::Range;

impl Array {
    /// Returns the locations of all strips of a stripe: data (with all copies), P and Q.
    pub(super) fn strips(&self, stripe: u64) -> Vec<(Role, Place)> {
        let of = self.layout.stripe(stripe);
        let copies = |strip| (0..self.layout.copies()).map(move |copy| (strip, copy));
        let data = (0..self.layout.data_strips()).flat_map(copies);
        let data = data.map(|(strip, copy)| (Role::Data(strip as u8), of.data(strip, copy)));
        let parities = [(Role::P, of.p()), (Role::Q, of.q())];
        let parities = parities.into_iter().filter_map(|(role, place)| Some((role, place?)));
        data.chain(parities).collect()
    }

    /// Plans reads of all data in a range of rows, avoiding the members `without`, and of the parity
    /// needed to recover the data on them. `all`: reads every parity strip or copy.
    pub(super) fn read_rows(
        &mut self,
        number: usize,
        offsets: &Range<u64>,
        without: MemberSet,
        all: bool,
    ) -> Result<(), ()> {
        let strips = self.strips(self.pieces[number].stripe);
        let has = |&&(_, place): &&(Role, Place)| !without.contains(place.member);
        let is_data = |&&(role, _): &&(Role, Place)| matches!(role, Role::Data(_));
        let mut reads: Vec<Access> = strips
            .iter()
            .filter(is_data)
            .filter(has)
            .map(|&(role, place)| access(role, place, offsets))
            .collect();
        if self.layout.copies() > 1 {
            reads.truncate(if all { usize::MAX } else { 1 });
            let found = !reads.is_empty();
            self.pieces[number].reads = reads;
            return if found { Ok(()) } else { Err(()) };
        }
        let gone = self.layout.data_strips() - reads.len();
        let parities: Vec<Access> = strips
            .iter()
            .filter(|strip| !is_data(strip))
            .filter(has)
            .map(|&(role, place)| access(role, place, offsets))
            .collect();
        let is_enough = parities.len() >= gone;
        let wanted = if all { parities.len() } else { gone };
        reads.extend(parities.into_iter().take(if is_enough { wanted } else { 0 }));
        self.pieces[number].reads = reads;
        if is_enough { Ok(()) } else { Err(()) }
    }

    /// Plans the reads and writes of a piece of work that restores rows of a stripe, and reports as lost the data that
    /// can't be recovered. Fails if the piece belongs to a rebuild that has been cancelled.
    pub(super) fn plan_restore(&mut self, number: usize) -> Result<(), ()> {
        let piece = &mut self.pieces[number];
        let stripe = piece.stripe;
        let purpose = if piece.mends { Purpose::Scrub } else { piece.purpose };
        if purpose == Purpose::Settle {
            let member = self.rebuild.as_ref().ok_or(())?.member as u16;
            let role = Role::Data(0);
            piece.writes.push(Access { member, role, sector: 0, offset: 0, sectors: 0 });
            return Ok(());
        }
        piece.lost = false;
        let without = loop {
            let piece = &self.pieces[number];
            let range = piece.offsets.clone();
            let untrusted = self.untrusted(stripe, &range);
            let without = piece.unreadable.iter().fold(untrusted, MemberSet::with);
            let several = range.end - range.start > UNIT_SECTORS && !piece.unreadable.is_empty();
            // A resync must know row by row what is unreadable.
            let is_coarse = several && purpose == Purpose::Resync;
            let reads_all = purpose == Purpose::Scrub;
            if !is_coarse && self.read_rows(number, &range, without, reads_all).is_ok() {
                break without;
            }
            let piece = &mut self.pieces[number];
            if !several {
                piece.lost = true;
                break without;
            }
            // Some of several rows may be readable: continues with the first row alone.
            piece.offsets.end = range.start + UNIT_SECTORS;
            piece.unreadable = MemberSet::NONE;
        };
        let piece = &self.pieces[number];
        let (range, unreadable, lost) = (piece.offsets.clone(), piece.unreadable, piece.lost);
        let rebuilt = self.rebuild.as_ref().map(|rebuild| rebuild.member);
        let first_read = piece.reads.first().map(|access| usize::from(access.member));
        let journalled: Vec<Role> = match purpose {
            Purpose::Resync => self.journalled(stripe, range.start / UNIT_SECTORS),
            _ => &[],
        }
        .iter()
        .map(|(role, _)| *role)
        .collect();
        let (absent, has_parity) = (self.absent(), self.has_parity());
        let is_written = |&&(role, Place { member, .. }): &&(Role, Place)| {
            let is_parity = !matches!(role, Role::Data(_));
            let is_journalled = journalled.contains(&role);
            let is_restored = match purpose {
                _ if lost => is_parity || is_journalled || without.contains(member),
                Purpose::Resync if has_parity => is_parity || is_journalled,
                Purpose::Resync => first_read != Some(member),
                Purpose::Rebuild => rebuilt == Some(member),
                _ => false,
            };
            !absent.contains(member) && (is_restored || unreadable.contains(member))
        };
        let is_left = lost && purpose == Purpose::Scrub;
        let strips = self.strips(stripe);
        let writes = strips.iter().filter(is_written).filter(|_| !is_left);
        let piece = &mut self.pieces[number];
        piece.writes = writes.map(|&(role, place)| access(role, place, &range)).collect();
        piece.computes = has_parity;
        // Lost data is reported before it is overwritten.
        let is_undefined = purpose == Purpose::Resync && has_parity && !self.journal;
        if (lost && !is_left) || is_undefined {
            let is_gone = |role| {
                let mut places = strips.iter().filter(|strip| strip.0 == role);
                places.all(|(_, place)| without.contains(place.member))
            };
            for strip in (0..self.layout.data_strips()).filter(|&s| is_gone(Role::Data(s as u8))) {
                self.report_lost(stripe, &range, strip);
            }
        }
        Ok(())
    }

    /// Computes the restored rows of a piece of work within one stripe.
    pub(super) fn compute_restored(&mut self, core: &mut Core, number: usize) {
        let Piece { purpose, stripe, offsets, lost, .. } = self.pieces[number].clone();
        if purpose == Purpose::Settle {
            return;
        }
        let mut found = BTreeMap::new();
        for unit in offsets.start / UNIT_SECTORS..offsets.end.div_ceil(UNIT_SECTORS) {
            let mut row = self.known(number, unit);
            if purpose == Purpose::Resync {
                for &(role, value) in self.journalled(stripe, unit) {
                    row.set(role, Some(core.copy(value)));
                }
            }
            // (Names can't be compared.)
            if purpose == Purpose::Scrub && !core.names_values() {
                let differs = self.layout.copies() > 1 && self.copies_differ(number, unit);
                let contradicts = row.contradicts(&mut |terms| core.combine(terms));
                self.counts.contradictions += u64::from(differs || contradicts);
            }
            if lost {
                row.zero_unknown();
            } else {
                let is_recovered = row.recover(&mut |terms| core.combine(terms));
                debug_assert!(is_recovered, "it was planned");
            }
            row.compute_parity(&mut |terms| core.combine(terms));
            found.insert(unit, row);
        }
        self.pieces[number].rows = found;
    }

    fn copies_differ(&self, number: usize, unit: u64) -> bool {
        let piece = &self.pieces[number];
        let of = self.layout.stripe(piece.stripe);
        let places = (0..self.layout.copies()).map(|copy| of.data(0, copy));
        let at = |place: Place| (place.member, place.sector / UNIT_SECTORS + unit);
        let mut values = places.filter_map(|place| piece.got.get(&at(place)));
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// Advances a piece of work to the next rows that it restores. Returns whether rows are left.
    pub(super) fn continues(&mut self, number: usize, failed: bool) -> bool {
        let is_current = self.rebuild.as_ref().is_some_and(|r| r.piece == Some(number));
        let steps_by_unit = self.journal;
        let piece = &mut self.pieces[number];
        let goes_on = match piece.purpose {
            Purpose::Operation => piece.mends,
            Purpose::Settle => false,
            Purpose::Rebuild => is_current,
            Purpose::Resync | Purpose::Scrub => true,
        };
        let from = piece.offsets.end;
        if failed || !goes_on || (from >= piece.limit && !piece.mends) {
            return false;
        }
        piece.unreadable = MemberSet::NONE;
        piece.mends &= from < piece.limit;
        let step = match piece.purpose {
            Purpose::Operation => UNIT_SECTORS,
            Purpose::Resync if steps_by_unit => UNIT_SECTORS,
            _ => piece.limit,
        };
        piece.offsets = from..piece.limit.min(from + step);
        true
    }

    /// Makes a piece of an operation restore its rows one by one first, if unreadable sectors on several members
    /// prevent the recovery of all rows together. Returns whether the piece does so, which is at most once.
    pub(super) fn begins_to_mend(&mut self, number: usize) -> bool {
        let piece = &self.pieces[number];
        if piece.purpose != Purpose::Operation || piece.unreadable.is_empty() || piece.mended {
            return false;
        }
        let offsets = self.offsets(&piece.range);
        let piece = &mut self.pieces[number];
        let from = offsets.start / UNIT_SECTORS * UNIT_SECTORS;
        piece.limit = offsets.end.next_multiple_of(UNIT_SECTORS);
        piece.offsets = from..piece.limit.min(from + UNIT_SECTORS);
        piece.unreadable = MemberSet::NONE;
        (piece.mends, piece.mended) = (true, true);
        true
    }

    /// Starts to restore rows of a stripe. Returns the number of the new piece of work.
    pub(super) fn restore(
        &mut self,
        core: &mut Core,
        stripe: u64,
        rows: Range<u64>,
        purpose: Purpose,
    ) -> usize {
        let by_unit = self.journal && purpose == Purpose::Resync;
        let end = if by_unit { rows.end.min(rows.start + UNIT_SECTORS) } else { rows.end };
        let slot = self.new_piece(core, stripe, rows.clone(), purpose);
        // An array behind a cache gets no flushes from hosts.
        core.slab[slot].fua = self.path.is_some() && self.journal;
        let number = core.slab[slot].at as usize;
        let piece = &mut self.pieces[number];
        (piece.offsets, piece.limit) = (rows.start..end, rows.end);
        core.at(core.now, slot, crate::request::State::Issued);
        number
    }

    /// Starts a resync of rows that may be inconsistent after a power failure.
    pub(super) fn resync(&mut self, core: &mut Core, stripe: u64, rows: Range<u64>) {
        self.resyncs += 1;
        self.counts.resynced_units += (rows.end - rows.start) / UNIT_SECTORS;
        self.restore(core, stripe, rows, Purpose::Resync);
    }
}

/// Creates an access to a member at `offsets` within one strip.
fn access(role: Role, place: Place, offsets: &Range<u64>) -> Access {
    Access {
        member: place.member as u16,
        role,
        sector: place.sector + offsets.start,
        offset: offsets.start,
        sectors: offsets.end - offsets.start,
    }
}
