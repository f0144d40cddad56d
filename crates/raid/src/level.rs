//! RAID levels, rotations of parity, and the rules that an array must meet.

use std::fmt;

/// Maximum number of members of an array, limited by the size of a [`MemberSet`](crate::MemberSet).
pub const MAX_MEMBERS: usize = 64;

/// Maximum size of a member in sectors. Ensures that array addresses don't overflow.
pub const MAX_MEMBER_SECTORS: u64 = 1 << 56;

/// Maximum size of a strip in sectors, 1 GiB, on levels with strips. An access to a whole strip then has a 32-bit size
/// in bytes.
pub const MAX_STRIP_SECTORS: u64 = 1 << 21;

/// RAID level of an array, or JBOD (concatenation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Striping over all members, without redundancy.
    Raid0,
    /// Every member has a copy of all data.
    Raid1,
    /// Each stripe has one parity strip, P.
    Raid5,
    /// Each stripe has two parity strips, P and Q.
    Raid6,
    /// Two copies of each strip, on neighbouring members: md's `near 2`. The number of members may
    /// be odd.
    Raid10,
    /// Members concatenated, without redundancy: md's `linear`.
    Jbod,
}

/// Member operations that a write smaller than a strip causes (the write penalty).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallWrite {
    /// Number of reads of old data and parity; 0 on levels without parity.
    pub reads: usize,
    /// Number of writes of data, copies and parity.
    pub writes: usize,
}

impl Level {
    /// All levels, JBOD last.
    pub const ALL: [Self; 6] =
        [Self::Raid0, Self::Raid1, Self::Raid5, Self::Raid6, Self::Raid10, Self::Jbod];

    /// Returns the minimum number of members of an array of this level.
    ///
    /// RAID 5 needs three, as on RAID adapters. md accepts two, which form a mirror. The other limits are md's.
    pub const fn least_members(self) -> usize {
        match self {
            Self::Raid0 | Self::Jbod => 1,
            Self::Raid1 | Self::Raid10 => 2,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }

    /// Returns the level's name as used in array names: `raid5`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
            Self::Jbod => "jbod",
        }
    }

    /// Returns the number of parity strips per stripe.
    pub const fn parities(self) -> usize {
        match self {
            Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }

    /// Returns the number of copies of each strip, including the original, in an array of `members` members.
    pub const fn copies(self, members: usize) -> usize {
        match self {
            Self::Raid1 => members,
            Self::Raid10 => 2,
            _ => 1,
        }
    }

    /// Returns the number of member operations that a write smaller than a strip causes (the write penalty).
    pub const fn small_write(self, members: usize) -> SmallWrite {
        match self.parities() {
            0 => SmallWrite { reads: 0, writes: self.copies(members) },
            // Old data and parity are read, and the new ones written.
            parities => SmallWrite { reads: 1 + parities, writes: 1 + parities },
        }
    }

    /// Returns whether data is striped. On RAID 1 and JBOD the whole member is one strip.
    pub const fn has_strips(self) -> bool {
        !matches!(self, Self::Raid1 | Self::Jbod)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raid0 => "RAID 0",
            Self::Raid1 => "RAID 1",
            Self::Raid5 => "RAID 5",
            Self::Raid6 => "RAID 6",
            Self::Raid10 => "RAID 10",
            Self::Jbod => "JBOD",
        })
    }
}

/// Placement of P and Q in RAID 5 and 6, with md's names. *Left*: P is on the last member in stripe 0, and
/// one member lower in each next stripe. *Right*: P is on the first member, and then one higher. Q is on
/// the member after P, cyclically. *Symmetric*: data begins on the member after the parity and wraps
/// around. *Asymmetric*: data is in the order of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// `left-symmetric`, md's default: consecutive strips are on consecutive members.
    #[default]
    LeftSymmetric,
    /// `left-asymmetric`: P is one member lower in each next stripe, and data is in the order of members.
    LeftAsymmetric,
    /// `right-symmetric`: P is one member higher in each next stripe, and data begins on the member after the parity.
    RightSymmetric,
    /// `right-asymmetric`: P is one member higher in each next stripe, and data is in the order of members.
    RightAsymmetric,
}

impl Rotation {
    /// All rotations, md's default first.
    pub const ALL: [Self; 4] =
        [Self::LeftSymmetric, Self::LeftAsymmetric, Self::RightSymmetric, Self::RightAsymmetric];

    pub(crate) const fn is_left(self) -> bool {
        matches!(self, Self::LeftSymmetric | Self::LeftAsymmetric)
    }

    pub(crate) const fn is_symmetric(self) -> bool {
        matches!(self, Self::LeftSymmetric | Self::RightSymmetric)
    }
}

/// Formats the rotation as md's name for it, which `mdadm --layout` accepts.
impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeftSymmetric => "left-symmetric",
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::RightAsymmetric => "right-asymmetric",
        })
    }
}

/// The rule that an array violates, with the invalid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The array has fewer members than the level requires.
    #[error("{level} needs at least {} members, but {members} are given", level.least_members())]
    TooFewMembers {
        level: Level,
        /// Number of members in the rejected array.
        members: usize,
    },
    /// The array has more than [`MAX_MEMBERS`] members.
    #[error("an array can have at most {MAX_MEMBERS} members, but {members} are given")]
    TooManyMembers {
        /// Number of members in the rejected array.
        members: usize,
    },
    /// A member's size differs from that of member 0.
    #[error(
        "all members of an array must have equal sizes: member {member} has {sectors} sectors, member 0 has {first}"
    )]
    UnequalMembers {
        /// Number of the first member whose size differs from that of member 0.
        member: usize,
        /// Size of the member that differs, in sectors.
        sectors: u64,
        /// Size of member 0, in sectors.
        first: u64,
    },
    /// The strip size is zero.
    #[error("a strip of {level} must have at least one sector")]
    EmptyStrip {
        /// A level with strips; on the others, the strip size is ignored.
        level: Level,
    },
    /// The strip is larger than [`MAX_STRIP_SECTORS`].
    #[error("a strip can have at most 2^21 sectors (1 GiB), but {strip_sectors} are given")]
    LargeStrip { strip_sectors: u64 },
    /// The members are smaller than one strip.
    #[error(
        "a member must hold at least one strip: the strip has {strip_sectors} sectors, the member {member_sectors}"
    )]
    SmallMember {
        /// Size of each member, in sectors.
        member_sectors: u64,
        strip_sectors: u64,
    },
    /// The members are larger than [`MAX_MEMBER_SECTORS`].
    #[error("a member can have at most 2^56 sectors, but {member_sectors} are given")]
    LargeMember {
        /// Size of each member, in sectors.
        member_sectors: u64,
    },
}
