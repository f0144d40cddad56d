//! Layout of an array: converts between array addresses and sectors of members, and locates each stripe's parity.
//! [`plan`](crate::plan) turns requests into reads and writes.
//!
//! The formulas are those of Linux md: `raid5_compute_sector` (`drivers/md/raid5.c`) for RAID 5 and 6,
//! `__raid10_find_phys` (`raid10.c`) for RAID 10, and a single zone of equal members for RAID 0.
//!
//! | level | strips of a stripe | number of stripes |
//! |---|---|---|
//! | RAID 0 | a data strip on each member | strips per member |
//! | RAID 5 | P on one member, a data strip on each other member | strips per member |
//! | RAID 6 | P and Q on two members, a data strip on each other member | strips per member |
//! | RAID 10 | one data strip and its copy | strips per member × members / 2 |
//! | RAID 1 | one data strip as large as a member, copied to each member | 1 |
//! | JBOD | one data strip as large as a member | members |

use crate::level::{
    LayoutError, Level, MAX_MEMBER_SECTORS, MAX_MEMBERS, MAX_STRIP_SECTORS, Rotation,
};
use crate::member_set::MemberSet;
use std::ops::Range;

/// Layout of an array: level, members, strip size and rotation. Sectors at the end of a member that don't
/// fill a strip are unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    level: Level,
    rotation: Rotation,
    members: usize,
    strip_sectors: u64,
    /// Number of data strips per stripe.
    data: usize,
    stripes: u64,
}

/// Location of a sector on the members of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Index of the member in the array, from 0.
    pub member: usize,
    /// Index of the sector on the member, from 0.
    pub sector: u64,
}

/// Content of a strip within its stripe: data, P or Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Data, with the index of the strip among the stripe's data strips, from 0, in address order. Copies have the same
    /// index.
    Data(u8),
    /// Parity P: the xor of the data strips.
    P,
    /// Parity Q: the sum of the data strips in GF(2^8), each multiplied by a power of 2 ([`Stripe::exponent`]).
    Q,
}

/// Address of a sector as stripe, strip and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InStripe {
    /// Index of the stripe in the array, from 0.
    pub stripe: u64,
    /// Role of the strip that contains the sector.
    pub role: Role,
    /// Offset of the sector from the start of the strip, in sectors.
    pub offset: u64,
}

impl Layout {
    /// Creates a layout with md's default rotation. `member_sectors` has one size per member.
    /// `strip_sectors` is ignored for RAID 1 and JBOD, which have no strips.
    ///
    /// # Errors
    /// The [`LayoutError`] states which rule the array would violate.
    pub fn new(
        level: Level,
        member_sectors: &[u64],
        strip_sectors: u64,
    ) -> Result<Self, LayoutError> {
        let members = member_sectors.len();
        if members < level.least_members() {
            return Err(LayoutError::TooFewMembers { level, members });
        }
        if members > MAX_MEMBERS {
            return Err(LayoutError::TooManyMembers { members });
        }
        let first = member_sectors[0];
        let unequal = member_sectors.iter().position(|&sectors| sectors != first);
        if let Some(member) = unequal {
            let sectors = member_sectors[member];
            return Err(LayoutError::UnequalMembers { member, sectors, first });
        }
        let strip_sectors = if level.has_strips() { strip_sectors } else { first.max(1) };
        if strip_sectors == 0 {
            return Err(LayoutError::EmptyStrip { level });
        }
        if level.has_strips() && strip_sectors > MAX_STRIP_SECTORS {
            return Err(LayoutError::LargeStrip { strip_sectors });
        }
        if first < strip_sectors {
            return Err(LayoutError::SmallMember { member_sectors: first, strip_sectors });
        }
        if first > MAX_MEMBER_SECTORS {
            return Err(LayoutError::LargeMember { member_sectors: first });
        }
        let rows = first / strip_sectors;
        let (data, stripes) = match level {
            Level::Raid0 | Level::Raid5 | Level::Raid6 => (members - level.parities(), rows),
            Level::Raid10 => (1, rows * members as u64 / 2),
            Level::Raid1 => (1, 1),
            Level::Jbod => (1, members as u64),
        };
        Ok(Self { level, rotation: Rotation::default(), members, strip_sectors, data, stripes })
    }

    /// Returns the placement of parity in successive stripes. Has no effect on levels without parity.
    pub const fn rotation(&self) -> Rotation {
        self.rotation
    }

    /// Returns the same layout with another parity rotation. Has no effect on levels without parity.
    #[must_use]
    pub fn rotated(self, rotation: Rotation) -> Self {
        Self { rotation, ..self }
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the number of members, including missing ones.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the strip size in sectors. On levels without strips, returns the member size.
    pub fn strip_sectors(&self) -> u64 {
        self.strip_sectors
    }

    /// Number of stripes. Sectors of a member that don't fill a strip are unused.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Number of data strips per stripe, not counting copies and parity.
    pub fn data_strips(&self) -> usize {
        self.data
    }

    /// Returns the number of data sectors per stripe, not counting copies.
    pub fn stripe_sectors(&self) -> u64 {
        self.data as u64 * self.strip_sectors
    }

    /// Returns the number of copies of each data strip, including the original; 1 on levels without mirroring.
    pub fn copies(&self) -> usize {
        self.level.copies(self.members)
    }

    /// Data capacity of the array in sectors, not counting copies and parity.
    pub fn sectors(&self) -> u64 {
        self.stripes * self.stripe_sectors()
    }

    /// Returns the stripe, data strip and offset of an array address.
    ///
    /// # Panics
    /// If the address is beyond the array's end.
    pub fn locate(&self, address: u64) -> InStripe {
        let strip = address / self.strip_sectors;
        let (stripe, index) = (strip / self.data as u64, strip % self.data as u64);
        assert!(stripe < self.stripes, "sector {address} is beyond the array's end");
        InStripe { stripe, role: Role::Data(index as u8), offset: address % self.strip_sectors }
    }

    /// Returns the array address of a sector within a stripe; `None` for parity.
    pub fn address(&self, at: InStripe) -> Option<u64> {
        let Role::Data(index) = at.role else { return None };
        let strip = at.stripe * self.data as u64 + u64::from(index);
        Some(strip * self.strip_sectors + at.offset)
    }

    /// Returns the member and sector of an array address. On mirrored levels, returns the place of the first copy.
    ///
    /// # Panics
    /// If the address is beyond the array's end.
    pub fn place(&self, address: u64) -> Place {
        let InStripe { stripe, role, offset } = self.locate(address);
        let Role::Data(index) = role else { unreachable!("an address is of data") };
        let Place { member, sector } = self.stripe(stripe).data(usize::from(index), 0);
        Place { member, sector: sector + offset }
    }

    /// Returns the stripe, role and offset of a sector of a member; `None` if the sector is unused.
    pub fn contents(&self, place: Place) -> Option<InStripe> {
        let Place { member, sector } = place;
        let (row, offset) = (sector / self.strip_sectors, sector % self.strip_sectors);
        if member >= self.members {
            return None;
        }
        let stripe = match self.level {
            Level::Raid0 | Level::Raid5 | Level::Raid6 => row,
            Level::Raid1 if row == 0 => 0,
            Level::Jbod if row == 0 => member as u64,
            Level::Raid1 | Level::Jbod => return None,
            Level::Raid10 => {
                let slot = row.checked_mul(self.members as u64)?.checked_add(member as u64)?;
                slot / 2
            }
        };
        (stripe < self.stripes).then(|| InStripe {
            stripe,
            role: self.stripe(stripe).role(member),
            offset,
        })
    }

    /// Returns stripe `number` of the array, counted from 0.
    ///
    /// # Panics
    /// If the array has no such stripe.
    pub fn stripe(&self, number: u64) -> Stripe<'_> {
        assert!(number < self.stripes, "stripe {number} is beyond the array's end");
        let turn = (number % self.members as u64) as usize;
        let p = if self.rotation.is_left() { self.members - 1 - turn } else { turn };
        Stripe { layout: self, number, p }
    }

    /// Splits a range of array addresses at stripe boundaries. Yields the index of each stripe, and the part of the
    /// range in the stripe, counted from the start of the stripe's data.
    ///
    /// # Panics
    /// If the range goes beyond the array's end.
    pub fn split(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
        assert!(range.end <= self.sectors(), "sector {} is beyond the array's end", range.end);
        let size = self.stripe_sectors();
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (stripe, begin) = (at / size, at % size);
            let end = size.min(begin + range.end.saturating_sub(at));
            at += end - begin;
            (begin < end).then_some((stripe, begin..end))
        })
    }

    /// Returns whether all data survives the loss of any one member.
    pub fn is_redundant(&self) -> bool {
        self.copies() > 1 || self.level.parities() > 0
    }

    /// Whether all data survives the loss of the members in `missing`.
    pub fn survives(&self, missing: MemberSet) -> bool {
        // The placement of strips repeats after as many stripes as there are members.
        let different = self.stripes.min(self.members as u64);
        missing.is_empty() || (0..different).all(|n| self.stripe(n).survives(missing))
    }
}

/// One stripe of an array. Its methods locate its strips on the members.
#[derive(Clone, Copy, Debug)]
pub struct Stripe<'a> {
    layout: &'a Layout,
    number: u64,
    /// The member that contains P, on levels with parity.
    p: usize,
}

impl Stripe<'_> {
    /// Index of the stripe in the array, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the location of a data strip's first sector. `copy` 0 is the original.
    pub fn data(&self, strip: usize, copy: usize) -> Place {
        let Layout { members, strip_sectors, .. } = *self.layout;
        debug_assert!(strip < self.layout.data && copy < self.layout.copies());
        match self.layout.level {
            Level::Raid0 => self.at(strip),
            Level::Raid1 => Place { member: copy, sector: 0 },
            Level::Jbod => Place { member: self.number as usize, sector: 0 },
            Level::Raid10 => {
                let (slot, members) = (self.number * 2 + copy as u64, members as u64);
                Place { member: (slot % members) as usize, sector: slot / members * strip_sectors }
            }
            Level::Raid5 | Level::Raid6 => {
                let parities = self.layout.level.parities();
                if self.layout.rotation.is_symmetric() {
                    let member = self.p + parities + strip;
                    return self.at(if member < members { member } else { member - members });
                }
                let before = match strip {
                    // P is on the last member, and Q on the first.
                    _ if self.p + parities > members => 1,
                    _ if strip >= self.p => parities,
                    _ => 0,
                };
                self.at(strip + before)
            }
        }
    }

    /// Returns the location of the first sector of P; `None` without parity.
    pub fn p(&self) -> Option<Place> {
        (self.layout.level.parities() > 0).then(|| self.at(self.p))
    }

    /// Returns the location of the first sector of Q; `None` except on RAID 6.
    pub fn q(&self) -> Option<Place> {
        (self.layout.level == Level::Raid6).then(|| self.at((self.p + 1) % self.layout.members))
    }

    /// In Q, each data strip has a coefficient 2^e. Returns the exponent e of a strip, below [`Layout::data_strips`]:
    /// as in md, the distance of the strip's member from the member after Q. With symmetric rotations e equals `strip`;
    /// with asymmetric ones it may differ. On levels without Q, returns `strip`.
    pub fn exponent(&self, strip: usize) -> usize {
        let members = self.layout.members;
        if self.layout.level != Level::Raid6 {
            return strip;
        }
        (self.data(strip, 0).member + 2 * members - self.p - 2) % members
    }

    /// Whether all data of the stripe survives the loss of the members in `missing`.
    pub fn survives(&self, missing: MemberSet) -> bool {
        let lacks = |copy| missing.contains(self.data(0, copy).member);
        match self.layout.level {
            Level::Raid0 => missing.is_empty(),
            Level::Raid5 | Level::Raid6 => missing.len() <= self.layout.level.parities(),
            Level::Raid1 | Level::Raid10 | Level::Jbod => {
                missing.is_empty() || !(0..self.layout.copies()).all(lacks)
            }
        }
    }

    /// Returns the role of a member's strip in this stripe. The member must have a strip in the stripe.
    fn role(&self, member: usize) -> Role {
        let (members, parities) = (self.layout.members, self.layout.level.parities());
        let after = (member + members - self.p) % members;
        match (self.layout.level, after) {
            (Level::Raid1 | Level::Raid10 | Level::Jbod, _) => Role::Data(0),
            (Level::Raid0, _) => Role::Data(member as u8),
            (_, 0) => Role::P,
            (Level::Raid6, 1) => Role::Q,
            _ if self.layout.rotation.is_symmetric() => Role::Data((after - parities) as u8),
            _ => {
                let parity = |n| (self.p + n) % members;
                let before = (0..parities).filter(|&n| parity(n) < member).count();
                Role::Data((member - before) as u8)
            }
        }
    }

    /// Returns the location of a member's strip, for levels on which stripe N is the N-th strip of each member.
    fn at(&self, member: usize) -> Place {
        Place { member, sector: self.number * self.layout.strip_sectors }
    }
}
