//! Resynchronises an array: in all rows that hold data, recomputes the parity, or overwrites all other copies with the
//! first copy. Members are files or arrays.

use super::array_bytes::is_unreadable;
use crate::store::{Store, UNIT_BYTES};
use iodyno_emulate::spec::SECTOR_BYTES;
use iodyno_raid::layout::{InStripe, Role};
use iodyno_raid::{Layout, MemberSet, Place, Simd, gf};
use std::ops::Range;

const UNIT: usize = UNIT_BYTES as usize;
const UNIT_SECTORS: u64 = UNIT_BYTES / SECTOR_BYTES;
/// Maximum number of extents that one query of a member returns.
const EXTENTS_MAX: usize = 4096;

pub(super) type Page = [u8; UNIT];

/// Access to the content of an array's member, which is a device or another array.
pub(super) trait Member {
    fn read(&self, unit: u64) -> Result<Page, String>;

    /// Writes a unit. If the member is an array, its copies and parity are updated, too.
    fn write(&self, unit: u64, page: &Page) -> Result<(), String>;

    /// Ranges of units that contain data, in ascending order.
    fn data(&self) -> Result<Vec<Range<u64>>, String>;

    /// Whether the last server that used the member shut down cleanly.
    fn was_ended(&self) -> bool;
}

impl Member for &Store {
    fn read(&self, unit: u64) -> Result<Page, String> {
        let mut page = [0; UNIT];
        Store::read(self, unit * UNIT_BYTES, &mut page).map_err(|e| e.to_string())?;
        if is_unreadable(&page) {
            return Err(format!("unit {unit} was rebuilt from data that could not be read"));
        }
        Ok(page)
    }

    fn write(&self, unit: u64, page: &Page) -> Result<(), String> {
        self.write_now(unit * UNIT_BYTES, page).map_err(|e| e.to_string())
    }

    fn data(&self) -> Result<Vec<Range<u64>>, String> {
        let (mut at, mut runs) = (0, Vec::new());
        let end = self.capacity_bytes();
        while at < end {
            let extents = self.extents(at, end - at, EXTENTS_MAX).map_err(|e| e.to_string())?;
            for extent in extents {
                let to = at + extent.len_bytes;
                if extent.data {
                    runs.push(at / UNIT_BYTES..to / UNIT_BYTES);
                }
                at = to;
            }
        }
        Ok(runs)
    }

    fn was_ended(&self) -> bool {
        Store::was_ended(self)
    }
}

/// An array that is itself a member of another array. Its parity and copies must be consistent.
pub(super) struct Branch<'a> {
    pub(super) layout: Layout,
    pub(super) missing: MemberSet,
    pub(super) members: Vec<Box<dyn Member + 'a>>,
}

/// Location of a unit's data in the stripes of an array.
struct Located {
    stripe: u64,
    /// Index of the data strip in its stripe.
    strip: usize,
    /// Offset in the strip, 512-byte sectors.
    offset: u64,
}

impl Branch<'_> {
    /// Converts a unit number of the array to its location in the stripes.
    fn locate(&self, unit: u64) -> Located {
        let at = self.layout.locate(unit * UNIT_SECTORS);
        let Role::Data(strip) = at.role else { unreachable!("a unit of an array is data") };
        Located { stripe: at.stripe, strip: usize::from(strip), offset: at.offset }
    }

    /// Present members with a copy of a unit, each with the unit's number on that member.
    fn places(&self, at: &Located) -> Vec<(usize, u64)> {
        let Located { stripe, strip, offset } = *at;
        let of = self.layout.stripe(stripe);
        let places = (0..self.layout.copies()).map(|copy| of.data(strip, copy));
        let unit = |place: Place| (place.member, (place.sector + offset) / UNIT_SECTORS);
        places.map(unit).filter(|at| !self.missing.contains(at.0)).collect()
    }
}

impl Member for Branch<'_> {
    fn read(&self, unit: u64) -> Result<Page, String> {
        let places = self.places(&self.locate(unit));
        let &(member, unit) = places.first().ok_or("a member is missing")?;
        self.members[member].read(unit)
    }

    fn write(&self, unit: u64, page: &Page) -> Result<(), String> {
        let at = self.locate(unit);
        for (member, unit) in self.places(&at) {
            self.members[member].write(unit, page)?;
        }
        if self.layout.level().parities() > 0 {
            let (layout, members) = (&self.layout, &self.members);
            let mut resync = Resync { layout, members, simd: Simd::best(), written_units: 0 };
            let Located { stripe, offset, .. } = at;
            resync.parity_of(stripe, (stripe * layout.strip_sectors() + offset) / UNIT_SECTORS)?;
        }
        Ok(())
    }

    fn data(&self) -> Result<Vec<Range<u64>>, String> {
        let mut runs = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            if self.missing.contains(number) {
                continue;
            }
            for unit in member.data()?.into_iter().flatten() {
                let at = Place { member: number, sector: unit * UNIT_SECTORS };
                let Some(InStripe { stripe, role: Role::Data(strip), offset }) =
                    self.layout.contents(at)
                else {
                    continue;
                };
                let begin = stripe * self.layout.stripe_sectors();
                let sector = begin + u64::from(strip) * self.layout.strip_sectors() + offset;
                let of_array = sector / UNIT_SECTORS;
                match runs.last_mut() {
                    Some(Range { end, .. }) if *end == of_array => *end += 1,
                    _ => runs.push(of_array..of_array + 1),
                }
            }
        }
        // (Runs of several copies overlap.)
        runs.sort_unstable_by_key(|run| run.start);
        Ok(runs)
    }

    fn was_ended(&self) -> bool {
        self.members.iter().all(|member| member.was_ended())
    }
}

/// Makes parity and copies consistent in all rows that contain data, and counts the rewritten units.
pub(super) struct Resync<'a> {
    pub(super) layout: &'a Layout,
    pub(super) members: &'a [Box<dyn Member + 'a>],
    pub(super) simd: Simd,
    pub(super) written_units: u64,
}

impl Resync<'_> {
    fn read(&self, member: usize, unit: u64) -> Result<Page, String> {
        self.members[member].read(unit).map_err(|e| format!("member {member}: {e}"))
    }

    /// Writes `page` to a member's unit unless the unit already has this content.
    fn make(&mut self, member: usize, unit: u64, page: &Page) -> Result<(), String> {
        // (An unreadable unit is written, too.)
        if self.read(member, unit).is_ok_and(|found| found == *page) {
            return Ok(());
        }
        self.written_units += 1;
        let written = self.members[member].write(unit, page);
        written.map_err(|e| format!("member {member}: {e}"))
    }

    /// Recomputes the parity of each row in which a member holds data.
    pub(super) fn parity(&mut self) -> Result<(), String> {
        let layout = self.layout;
        let mut runs = Vec::new();
        for member in 0..layout.members() {
            runs.extend(self.members[member].data()?);
        }
        runs.sort_unstable_by_key(|run| run.start);
        let (strip_units, mut next) = (layout.strip_sectors() / UNIT_SECTORS, 0);
        for unit in runs.into_iter().flatten() {
            // Runs of several members overlap.
            if unit < next || unit / strip_units >= layout.stripes() {
                continue;
            }
            next = unit + 1;
            self.parity_of(unit / strip_units, unit)?;
        }
        Ok(())
    }

    /// Recomputes the parity of one row of `stripe`; `unit` is the unit number on every member.
    fn parity_of(&mut self, stripe: u64, unit: u64) -> Result<(), String> {
        let of = self.layout.stripe(stripe);
        let (mut p, mut q) = ([0; UNIT], [0; UNIT]);
        for strip in 0..self.layout.data_strips() {
            let data = self.read(of.data(strip, 0).member, unit)?;
            self.simd.xor_into(&mut p, &data);
            self.simd.mul_into(&mut q, &data, gf::power_of_2(of.exponent(strip)));
        }
        for (place, page) in [(of.p(), &p), (of.q(), &q)] {
            let Some(place) = place else { continue };
            self.make(place.member, unit, page)?;
        }
        Ok(())
    }

    /// Overwrites all other copies of a member's data with the first copy.
    pub(super) fn copies_of(&mut self, member: usize, missing: MemberSet) -> Result<(), String> {
        for unit in self.members[member].data()?.into_iter().flatten() {
            let at = Place { member, sector: unit * UNIT_SECTORS };
            let Some(InStripe { stripe, role: Role::Data(strip), offset }) =
                self.layout.contents(at)
            else {
                continue;
            };
            let of = self.layout.stripe(stripe);
            let copies = (0..self.layout.copies()).map(|copy| of.data(usize::from(strip), copy));
            let mut copies = copies.filter(|place| !missing.contains(place.member));
            let unit_of = |place: Place| (place.sector + offset) / UNIT_SECTORS;
            let Some(first) = copies.next() else { continue };
            let page = self.read(first.member, unit_of(first))?;
            for place in copies {
                self.make(place.member, unit_of(place), &page)?;
            }
        }
        Ok(())
    }
}
