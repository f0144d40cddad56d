//! RAID levels, rotations of parity, and the rules that an array must meet.

use std::fmt;

/// Maximum number of members of an array.
pub const MAX_MEMBERS: usize = 64;

/// Maximum size of a member in sectors, so that no address of an array overflows.
pub const MAX_MEMBER_SECTORS: u64 = 1 << 56;

/// How an array spreads and protects its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Strips in turn over all members; no redundancy.
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
    /// Members one after another; no redundancy. md's `linear`.
    Jbod,
}

/// Member operations that one small write causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallWrite {
    /// Number of member reads.
    pub reads: usize,
    /// Number of member writes.
    pub writes: usize,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 6] =
        [Self::Raid0, Self::Raid1, Self::Raid5, Self::Raid6, Self::Raid10, Self::Jbod];

    /// The fewest members an array of this level can have.
    ///
    /// RAID 5 needs three, as adapters require: of two members it would be a mirror that computes
    /// parity. md accepts two. The other limits are md's.
    pub const fn least_members(self) -> usize {
        match self {
            Self::Raid0 | Self::Jbod => 1,
            Self::Raid1 | Self::Raid10 => 2,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }

    /// Prefix of array names: `raid5`.
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

    /// Parity strips per stripe.
    pub const fn parities(self) -> usize {
        match self {
            Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }

    /// Copies of each strip, the original included.
    pub const fn copies(self, members: usize) -> usize {
        match self {
            Self::Raid1 => members,
            Self::Raid10 => 2,
            _ => 1,
        }
    }

    /// Member operations for a write that is smaller than a strip: the write penalty of textbooks.
    pub const fn small_write(self, members: usize) -> SmallWrite {
        match self.parities() {
            0 => SmallWrite { reads: 0, writes: self.copies(members) },
            // Old data and parity are read, and the new ones written.
            parities => SmallWrite { reads: 1 + parities, writes: 1 + parities },
        }
    }

    /// Whether data is cut into strips. RAID 1 and JBOD have one strip, the whole member.
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

/// Placement of P and Q in RAID 5 and 6, by md's names. With *left*, P is on the last member in
/// stripe 0 and moves down by one member per stripe; with *right*, it begins on the first and moves
/// up. Q is on the member after P (the first after the last). With *symmetric*, data begins on the
/// member after the parity and wraps around; with *asymmetric*, data is in the order of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// `left-symmetric`, md's default: consecutive strips are on consecutive members.
    #[default]
    LeftSymmetric,
    /// `left-asymmetric`: P moves down, data is in the order of members.
    LeftAsymmetric,
    /// `right-symmetric`: P moves up, data begins after the parity.
    RightSymmetric,
    /// `right-asymmetric`: P moves up, data is in the order of members.
    RightAsymmetric,
}

impl Rotation {
    /// All rotations.
    pub const ALL: [Self; 4] =
        [Self::LeftSymmetric, Self::LeftAsymmetric, Self::RightSymmetric, Self::RightAsymmetric];

    pub(crate) const fn is_left(self) -> bool {
        matches!(self, Self::LeftSymmetric | Self::LeftAsymmetric)
    }

    pub(crate) const fn is_symmetric(self) -> bool {
        matches!(self, Self::LeftSymmetric | Self::RightSymmetric)
    }
}

/// md's name, as `mdadm --layout` accepts it.
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

/// The rule that an array violates, with the values at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Fewer members than the level needs.
    #[error("{level} needs at least {} members, but {members} are given", level.least_members())]
    TooFewMembers {
        /// RAID level of the array.
        level: Level,
        /// Number of members given.
        members: usize,
    },
    /// More members than an array can have.
    #[error("an array can have at most {MAX_MEMBERS} members, but {members} are given")]
    TooManyMembers {
        /// Number of members given.
        members: usize,
    },
    /// A member's size differs from the first one's.
    #[error(
        "all members of an array must have equal sizes: member {member} has {sectors} sectors, member 0 {first}"
    )]
    UnequalMembers {
        /// The first member that differs.
        member: usize,
        /// Size of that member, in sectors.
        sectors: u64,
        /// Size of member 0, in sectors.
        first: u64,
    },
    /// A strip of zero sectors.
    #[error("a strip of {level} must have at least one sector")]
    EmptyStrip {
        /// RAID level of the array.
        level: Level,
    },
    /// A member smaller than one strip.
    #[error(
        "a member must hold at least one strip: the strip has {strip_sectors} sectors, the member {member_sectors}"
    )]
    SmallMember {
        /// Size of each member, in sectors.
        member_sectors: u64,
        /// Size of the strip, in sectors.
        strip_sectors: u64,
    },
    /// A member larger than [`MAX_MEMBER_SECTORS`].
    #[error("a member can have at most 2^56 sectors, but {member_sectors} are given")]
    LargeMember {
        /// Size of each member, in sectors.
        member_sectors: u64,
    },
}
