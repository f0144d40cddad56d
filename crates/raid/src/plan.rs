//! Plans: the member reads and writes of a host's read or write of one stripe, with all members or
//! without some. It ends where bytes are computed ([`parity`](crate::parity)).
//!
//! A range of a stripe's data begins within one strip and ends within another. It cuts the strips
//! into up to three **rows**: ranges of offsets in each of which a strip is wanted whole or not at
//! all. A range that begins in the middle of strip 0 and ends a quarter into strip 2:
//!
//! ```text
//!  offsets        strip 0   strip 1   strip 2   strip 3
//!  0 to 1/4                  wanted    wanted             row 0
//!  1/4 to 1/2                wanted                       row 1
//!  1/2 to 1       wanted     wanted                       row 2
//! ```
//!
//! Each row of a write has a [`Method`]. With all data members, all rows have the same one, which
//! needs fewer member operations; a tie goes to read-modify-write. Where a data member is missing,
//! each row's method is forced: reconstruct-write where its strip is written, read-modify-write
//! where it is not, recovery where two are missing and one of them is written. Accesses of a
//! member that adjoin each other are one.
//!
//! # When the power is cut between the writes of a plan
//! The members' writes are not atomic together. Each of them may have taken effect, in part, or not
//! at all. Afterwards, within the plan's rows:
//! * each written strip holds old or new sectors, or both: undefined, as after any cut of a write;
//! * copies (RAID 1, 10) may differ until they are made equal: a read may give one, then the other;
//! * P and Q may contradict the data: strips that were not written are whole as long as no data
//!   member is missing, and undefined once their own member is (the write hole). A resync, which
//!   computes parity from the data, closes it before a member is lost;
//! * a data strip whose member is missing already is defined only through parity, and so is
//!   undefined at once, whether it was written or not. With RAID 6 and one data member missing this
//!   holds as well: P and Q may contradict each other.
//!
//! A full-stripe write has no strip that was not written, so only the last point costs more than
//! the write itself. With P (or with both P and Q) missing and all data members there, no more than
//! the written strips is undefined for good.

use crate::layout::{Layout, Place, Role, Stripe};
use crate::level::Level;
use crate::member_set::MemberSet;
use std::ops::Range;

/// One read or write of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The member.
    pub member: u16,
    /// What its strip holds.
    pub role: Role,
    /// The first sector on the member.
    pub sector: u64,
    /// The first sector within the strip.
    pub offset: u64,
    /// How many sectors.
    pub sectors: u64,
}

/// How a row's reads and writes belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No parity is read or written: data is read or written as it is.
    Direct,
    /// Reads the old data of what is written, and the parity; parity changes by their difference.
    ReadModifyWrite,
    /// Reads the data that is not written; parity is computed from all data. A full-stripe write
    /// is one that has nothing to read.
    ReconstructWrite,
    /// Reads all members that there are and as much parity as is needed, and recovers the missing
    /// data. A write then goes on as a reconstruct-write.
    Recover,
}

/// A range of offsets within a stripe's strips, and its method. Rows that are not accessed are left
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Sectors from the begin of each strip.
    pub offsets: Range<u64>,
    /// The method.
    pub method: Method,
}

/// A stripe that can't be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stripe {stripe} of a {level} is lost without its members {missing}")]
pub struct Lost {
    /// The level.
    pub level: Level,
    /// The stripe's number.
    pub stripe: u64,
    /// The members that are missing.
    pub missing: MemberSet,
}

/// The member operations of one host operation on one stripe: all reads come before any write.
/// A plan is made to be used again; its lists then keep their memory.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    reads: Vec<Access>,
    writes: Vec<Access>,
    rows: Vec<Row>,
}

/// Rows of a stripe as bits: row 0 is bit 0.
type RowSet = u8;

/// The rows into which a range cuts a stripe, and which of them each strip is wanted in.
struct Cut {
    /// Row n is `offsets[n]..offsets[n + 1]`; none is empty.
    offsets: [u64; 4],
    rows: usize,
    /// The first and the last strip of the range.
    strips: [usize; 2],
    /// The rows of the first strip, of the last, and of one between.
    wanted: [RowSet; 3],
}

impl Cut {
    fn new(layout: &Layout, range: &Range<u64>) -> Self {
        assert!(range.start < range.end && range.end <= layout.stripe_sectors(), "{range:?}");
        let size = layout.strip_sectors();
        let strips = [range.start / size, (range.end - 1) / size];
        let begin = range.start - strips[0] * size;
        let end = range.end - strips[1] * size;
        let (mut offsets, mut rows) = ([0; 4], 0);
        for offset in [begin.min(end), begin.max(end), size] {
            if offset > offsets[rows] {
                rows += 1;
                offsets[rows] = offset;
            }
        }
        let within = |from: u64, to: u64| {
            (0..rows)
                .filter(|&row| offsets[row] >= from && offsets[row + 1] <= to)
                .fold(0, |set, row| set | 1 << row)
        };
        let is_one = strips[0] == strips[1];
        let first = within(begin, if is_one { end } else { size });
        let last = if is_one { first } else { within(0, end) };
        let wanted = [first, last, within(0, size)];
        Self { offsets, rows, strips: strips.map(|strip| strip as usize), wanted }
    }

    /// The rows in which a data strip is wanted.
    fn wanted(&self, strip: usize) -> RowSet {
        match strip {
            _ if strip == self.strips[0] => self.wanted[0],
            _ if strip == self.strips[1] => self.wanted[1],
            _ if (self.strips[0]..self.strips[1]).contains(&strip) => self.wanted[2],
            _ => 0,
        }
    }

    /// The data strips that are accessed, if those out of the range are in some rows.
    fn touched(&self, layout: &Layout, others: RowSet) -> Range<usize> {
        if others == 0 { self.strips[0]..self.strips[1] + 1 } else { 0..layout.data_strips() }
    }

    /// How many of some data strips are wanted in which rows: the first, the last if it is another,
    /// those between, and the rest.
    fn counts(&self, strips: usize) -> [(u32, RowSet); 4] {
        let touched = (self.strips[1] - self.strips[0] + 1) as u32;
        let [first, last, between] = self.wanted;
        let counts =
            [1, u32::from(touched > 1), touched.saturating_sub(2), strips as u32 - touched];
        [(counts[0], first), (counts[1], last), (counts[2], between), (counts[3], 0)]
    }

    /// The rows in which any strip is wanted.
    fn any(&self) -> RowSet {
        let between = self.strips[1] - self.strips[0] > 1;
        self.wanted[0] | self.wanted[1] | if between { self.wanted[2] } else { 0 }
    }

    /// Adds the accesses to a strip in some rows: one for each run of rows.
    fn push(&self, list: &mut Vec<Access>, place: Place, role: Role, mut rows: RowSet) {
        while rows != 0 {
            let first = rows.trailing_zeros();
            let end = first + (rows >> first).trailing_ones();
            let offset = self.offsets[first as usize];
            list.push(Access {
                member: place.member as u16,
                role,
                sector: place.sector + offset,
                offset,
                sectors: self.offsets[end as usize] - offset,
            });
            rows &= !0 << end;
        }
    }
}

/// Accesses that a set of rows takes: its runs.
fn runs(rows: RowSet) -> u32 {
    (rows & !(rows << 1)).count_ones()
}

/// The rows of a write by their method.
#[derive(Clone, Copy, Default)]
struct Methods {
    modify: RowSet,
    reconstruct: RowSet,
    recover: RowSet,
}

impl Methods {
    /// The rows in which a data strip is read that is written in others.
    fn reads(self, written: RowSet) -> RowSet {
        written & self.modify | !written & self.reconstruct | self.recover
    }

    fn of(self, row: RowSet) -> Method {
        match row {
            _ if row & self.modify != 0 => Method::ReadModifyWrite,
            _ if row & self.reconstruct != 0 => Method::ReconstructWrite,
            _ if row & self.recover != 0 => Method::Recover,
            _ => Method::Direct,
        }
    }
}

impl Plan {
    /// An empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// The reads, data first, in the order of strips. All must be done before any write.
    pub fn reads(&self) -> &[Access] {
        &self.reads
    }

    /// The writes, data first, in the order of strips; they may be done in any order.
    pub fn writes(&self) -> &[Access] {
        &self.writes
    }

    /// The rows in ascending order, at most three.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Plans a host's read of a range of a stripe's data. Of copies the one numbered `copy` (modulo
    /// their number) is read, or the next that is not missing.
    ///
    /// # Errors
    /// If data of the stripe, of the range or not, can't be had without the missing members.
    ///
    /// # Panics
    /// If the range is empty or goes beyond the stripe.
    pub fn read(
        &mut self,
        layout: &Layout,
        stripe: u64,
        range: Range<u64>,
        missing: MemberSet,
        copy: usize,
    ) -> Result<(), Lost> {
        let (cut, stripe) = self.begin(layout, stripe, &range, missing)?;
        let copies = layout.copies();
        if copies > 1 {
            let turns = (0..copies).map(|turn| stripe.data(0, (copy + turn) % copies));
            let present = turns.into_iter().find(|place| !missing.contains(place.member));
            let place = present.expect("a stripe that survives has a copy");
            cut.push(&mut self.reads, place, Role::Data(0), cut.wanted(0));
            self.describe(&cut, Methods::default());
            return Ok(());
        }
        let place = |strip| (strip, stripe.data(strip, 0));
        let is_missing = |place: Place| missing.contains(place.member);
        let (mut recover, mut gone) = (0, 0);
        if !missing.is_empty() {
            for (strip, _) in (0..layout.data_strips()).map(place).filter(|&(_, p)| is_missing(p)) {
                recover |= cut.wanted(strip);
                gone += 1;
            }
        }
        for (strip, place) in cut.touched(layout, recover).map(place) {
            if !is_missing(place) {
                let rows = cut.wanted(strip) | recover;
                cut.push(&mut self.reads, place, Role::Data(strip as u8), rows);
            }
        }
        for (place, role) in parities(&stripe, missing).take(gone) {
            cut.push(&mut self.reads, place, role, recover);
        }
        self.describe(&cut, Methods { recover, ..Methods::default() });
        Ok(())
    }

    /// Plans a host's write of a range of a stripe's data. Missing members are not written.
    ///
    /// # Errors
    /// If data of the stripe, of the range or not, can't be had without the missing members.
    ///
    /// # Panics
    /// If the range is empty or goes beyond the stripe.
    pub fn write(
        &mut self,
        layout: &Layout,
        stripe: u64,
        range: Range<u64>,
        missing: MemberSet,
    ) -> Result<(), Lost> {
        let (cut, stripe) = self.begin(layout, stripe, &range, missing)?;
        let methods = Self::methods(layout, &stripe, &cut, missing);
        for strip in cut.touched(layout, methods.reads(0)) {
            let (role, written) = (Role::Data(strip as u8), cut.wanted(strip));
            for place in (0..layout.copies()).map(|copy| stripe.data(strip, copy)) {
                if !missing.contains(place.member) {
                    cut.push(&mut self.reads, place, role, methods.reads(written));
                    cut.push(&mut self.writes, place, role, written);
                }
            }
        }
        for (place, role) in parities(&stripe, missing) {
            cut.push(&mut self.reads, place, role, methods.modify | methods.recover);
            cut.push(&mut self.writes, place, role, cut.any());
        }
        self.describe(&cut, methods);
        Ok(())
    }

    /// The method of each row of a write.
    fn methods(layout: &Layout, stripe: &Stripe<'_>, cut: &Cut, missing: MemberSet) -> Methods {
        let (rows, mut methods) = (cut.any(), Methods::default());
        let parities = parities(stripe, missing).count() as u32;
        if parities == 0 {
            return methods;
        }
        let is_gone = |strip: &usize| missing.contains(stripe.data(*strip, 0).member);
        let gone = || (0..layout.data_strips()).filter(is_gone);
        if missing.is_empty() || gone().next().is_none() {
            let modify = Methods { modify: rows, ..methods };
            let reconstruct = Methods { reconstruct: rows, ..methods };
            let counts = cut.counts(layout.data_strips());
            let reads = |methods: Methods| -> u32 {
                counts.iter().map(|&(count, written)| count * runs(methods.reads(written))).sum()
            };
            let is_cheaper = reads(reconstruct) < reads(modify) + parities * runs(rows);
            return if is_cheaper { reconstruct } else { modify };
        }
        // In which rows some of the missing strips are written, and in which all of them.
        let some = gone().fold(0, |set, strip| set | cut.wanted(strip));
        let all = gone().fold(rows, |set, strip| set & cut.wanted(strip));
        methods.modify = rows & !some;
        methods.reconstruct = all;
        methods.recover = some & !all;
        methods
    }

    /// Empties the plan, and cuts the range.
    fn begin<'a>(
        &mut self,
        layout: &'a Layout,
        number: u64,
        range: &Range<u64>,
        missing: MemberSet,
    ) -> Result<(Cut, Stripe<'a>), Lost> {
        self.reads.clear();
        self.writes.clear();
        self.rows.clear();
        let stripe = layout.stripe(number);
        if !missing.is_empty() && !stripe.survives(missing) {
            return Err(Lost { level: layout.level(), stripe: number, missing });
        }
        Ok((Cut::new(layout, range), stripe))
    }

    fn describe(&mut self, cut: &Cut, methods: Methods) {
        for row in (0..cut.rows).filter(|&row| cut.any() >> row & 1 == 1) {
            let offsets = cut.offsets[row]..cut.offsets[row + 1];
            self.rows.push(Row { offsets, method: methods.of(1 << row) });
        }
    }
}

/// The parity strips of a stripe that are not missing.
fn parities(stripe: &Stripe<'_>, missing: MemberSet) -> impl Iterator<Item = (Place, Role)> {
    [(stripe.p(), Role::P), (stripe.q(), Role::Q)]
        .into_iter()
        .filter_map(move |(place, role)| Some((place?, role)))
        .filter(move |(place, _)| !missing.contains(place.member))
}
