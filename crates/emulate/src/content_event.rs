//! What became of written data, step by step, for the owner who keeps its bytes: the machine moves
//! tokens, the owner moves what they stand for in the same order.

use crate::part_id::PartId;

/// Bytes of a content unit: what [`ContentEvent`] speaks of, and what the translation layer maps.
pub const UNIT_BYTES: u64 = 4096;

/// One step, of one part. Units are 4 KiB; a write that covers a part of one changes that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEvent {
    /// A read of the unit gives what `token` wrote, from now on.
    Accepted {
        /// On which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
        /// A power cut leaves it.
        kept: bool,
    },
    /// What was accepted is on the medium, where a power cut leaves it. Programs may end in another
    /// order than they began; of one unit, what is older than what landed before is not told.
    Landed {
        /// On which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
    },
    /// A write went past the buffer: it is on the medium, in place of what was there and of what was
    /// accepted before it was submitted.
    Written {
        /// On which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
        /// The buffer holds something newer, which a read still gives.
        overtaken: bool,
    },
    /// These units hold zeroes on the medium, in place of what was there and of what was accepted
    /// before.
    Dropped {
        /// On which part.
        part: PartId,
        /// The first.
        unit: u64,
        /// How many.
        count: u64,
        /// Which trim or write of zeroes.
        token: u64,
        /// The buffer holds something newer, which a read still gives.
        overtaken: bool,
    },
    /// The power failed: what was accepted, and is neither kept nor on the medium, is gone.
    PowerCut {
        /// On which part.
        part: PartId,
    },
    /// Nothing is left on the part: it was memory without power.
    Emptied {
        /// Which.
        part: PartId,
    },
}

impl ContentEvent {
    /// On which part.
    #[inline]
    pub fn part(&self) -> PartId {
        match *self {
            Self::Accepted { part, .. }
            | Self::Landed { part, .. }
            | Self::Written { part, .. }
            | Self::Dropped { part, .. }
            | Self::PowerCut { part }
            | Self::Emptied { part } => part,
        }
    }
}
