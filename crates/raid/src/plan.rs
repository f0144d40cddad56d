//! Plans: the member reads and writes of a host's read or write within one stripe of a complete or degraded array.
//! [`parity`](crate::parity) computes the bytes.
//!
//! The ends of the accessed range cut a stripe's strips into up to three **rows**. A row is an interval of offsets
//! within a strip. Within a row, each strip is either entirely in the accessed range (wanted) or not at all. Example: a
//! range that begins in the middle of strip 0 and ends a quarter into strip 2:
//!
//! ```text
//! offsets        strip 0   strip 1   strip 2   strip 3
//! 0 to 1/4                  wanted    wanted             row 0
//! 1/4 to 1/2                wanted                       row 1
//! 1/2 to 1       wanted     wanted                       row 2
//! ```
//!
//! Each row of a write has a [`Method`]. If no data member is missing, all rows use the method that needs fewer
//! member operations; a tie goes to read-modify-write. If data members are missing, each row has only one possible
//! method: reconstruct-write if all missing strips are written, read-modify-write if none is, recovery otherwise.
//!
//! # Power cuts between the writes of a plan
//! The writes to members are not atomic together. A power cut may leave each of them complete, partial or not begun.
//! Afterwards, within the plan's rows:
//! - Each written strip has old sectors, new sectors, or both.
//! - Copies (RAID 1, 10) may differ until they are resynced. Reads may return either copy.
//! - P and Q may contradict the data until a resync computes them from the data. If a data member is lost before
//!   that, even its unwritten strips become undefined (the write hole).
//! - A data strip whose member is already missing exists only through parity. It becomes undefined at once, whether
//!   it was written or not. This is so even in RAID 6 with one data member missing, because P and Q may contradict
//!   each other.
//!
//! A full-stripe write replaces all data strips, so a power cut during it damages only data that the write replaces. If
//! the missing members hold only parity of the stripe, only the written strips are damaged.

use crate::layout::{Layout, Place, Role, Stripe};
use crate::level::Level;
use crate::member_set::MemberSet;
use std::ops::Range;

/// One read or write on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the member in the array, from 0.
    pub member: u16,
    /// Role of the accessed strip: data, P or Q.
    pub role: Role,
    /// First sector, counted from the start of the member.
    pub sector: u64,
    /// First sector, counted from the start of the strip.
    pub offset: u64,
    /// Length of the access, in sectors.
    pub sectors: u64,
}

/// Method of reading or writing the data and parity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads or writes data only, no parity.
    Direct,
    /// Reads the old content of the written strips and of parity, and updates parity by the change.
    ReadModifyWrite,
    /// Reads the unwritten data, and computes parity from all data. A full-stripe write needs no reads.
    ReconstructWrite,
    /// Reads all present data and the necessary parity, and recovers the missing data. A write then continues
    /// as a reconstruct-write.
    Recover,
}

/// A row: a range of offsets within all strips of a stripe, with its method. The plan omits rows that are not
/// accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Range of sectors, counted from the start of each strip.
    pub offsets: Range<u64>,
    /// Determines which strips are read, and how parity is computed.
    pub method: Method,
}

/// Error: the data of a stripe can't be recovered, because too many members are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stripe {stripe} of a {level} array is lost, because its members {missing} are missing")]
pub struct Lost {
    /// RAID level, which determines how many members may be missing.
    pub level: Level,
    /// Index of the lost stripe, from 0.
    pub stripe: u64,
    /// Missing members. Their number exceeds the redundancy of the level.
    pub missing: MemberSet,
}

/// The member operations of one host operation on one stripe. All reads must complete before the writes begin. A plan
/// can be reused, which avoids allocations.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    reads: Vec<Access>,
    writes: Vec<Access>,
    rows: Vec<Row>,
}

/// A set of rows of a stripe as a bit mask: row 0 is bit 0.
type RowSet = u8;

/// Division of a stripe into rows at the ends of a range, and for each strip the rows that are in the range.
struct Cut {
    /// Bounds of the rows: row n is `offsets[n]..offsets[n + 1]`, never empty.
    offsets: [u64; 4],
    rows: usize,
    /// First and last strip that the range covers in full or in part.
    strips: [usize; 2],
    /// Rows in the range: of the first strip, of the last strip, and of each strip in between.
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

    /// Returns the rows of a data strip that are in the range.
    fn wanted(&self, strip: usize) -> RowSet {
        match strip {
            _ if strip == self.strips[0] => self.wanted[0],
            _ if strip == self.strips[1] => self.wanted[1],
            _ if (self.strips[0]..self.strips[1]).contains(&strip) => self.wanted[2],
            _ => 0,
        }
    }

    /// Returns the data strips that are accessed: those in the range, or all if strips outside of the range are
    /// accessed too, in the rows `others`.
    fn touched(&self, layout: &Layout, others: RowSet) -> Range<usize> {
        if others == 0 { self.strips[0]..self.strips[1] + 1 } else { 0..layout.data_strips() }
    }

    /// Divides the first `strips` data strips into four groups: the range's first strip, its last strip if that is
    /// another one, the strips between them, and the strips outside of the range. Returns for each group the number of
    /// its strips and the rows that are in the range.
    fn counts(&self, strips: usize) -> [(u32, RowSet); 4] {
        let touched = (self.strips[1] - self.strips[0] + 1) as u32;
        let [first, last, between] = self.wanted;
        let counts =
            [1, u32::from(touched > 1), touched.saturating_sub(2), strips as u32 - touched];
        [(counts[0], first), (counts[1], last), (counts[2], between), (counts[3], 0)]
    }

    /// Returns the rows that are in the range in at least one strip.
    fn any(&self) -> RowSet {
        let between = self.strips[1] - self.strips[0] > 1;
        self.wanted[0] | self.wanted[1] | if between { self.wanted[2] } else { 0 }
    }

    /// Appends accesses to one strip to `list`: one per run of adjoining rows in `rows`.
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

/// Returns the number of accesses for a set of rows: one per run of adjoining rows.
fn runs(rows: RowSet) -> u32 {
    (rows & !(rows << 1)).count_ones()
}

/// The rows of a write, grouped by method. Rows in no group are written directly.
#[derive(Clone, Copy, Default)]
struct Methods {
    modify: RowSet,
    reconstruct: RowSet,
    recover: RowSet,
}

impl Methods {
    /// Returns the rows in which a data strip must be read. `written`: the rows in which it is written.
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
    /// Creates an empty plan, which [`Self::read`] or [`Self::write`] fills.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the reads: data in the order of strips, then parity. All must complete before any write begins.
    pub fn reads(&self) -> &[Access] {
        &self.reads
    }

    /// Returns the writes: data in the order of strips, then parity. They may be executed in any order.
    pub fn writes(&self) -> &[Access] {
        &self.writes
    }

    /// Returns the accessed rows in ascending order, at most three.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Plans a host's read of a range of a stripe's data. On mirrored levels it reads copy number `copy` (modulo the
    /// number of copies), or the next copy whose member is present.
    ///
    /// # Errors
    /// Part of the stripe's data, inside or outside of the range, is unrecoverable without the missing members.
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
    /// Part of the stripe's data, inside or outside of the range, is unrecoverable without the missing members.
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

    /// Chooses the method of each row of a write.
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
        // Rows in which at least one missing strip is written, and those in which all are.
        let some = gone().fold(0, |set, strip| set | cut.wanted(strip));
        let all = gone().fold(rows, |set, strip| set & cut.wanted(strip));
        methods.modify = rows & !some;
        methods.reconstruct = all;
        methods.recover = some & !all;
        methods
    }

    /// Clears the plan and divides the stripe into rows at the ends of the range.
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

/// Returns the locations and roles of a stripe's parity strips, except those on missing members.
fn parities(stripe: &Stripe<'_>, missing: MemberSet) -> impl Iterator<Item = (Place, Role)> {
    [(stripe.p(), Role::P), (stripe.q(), Role::Q)]
        .into_iter()
        .filter_map(move |(place, role)| Some((place?, role)))
        .filter(move |(place, _)| !missing.contains(place.member))
}
