//! Content events: each step of written data, for the owner of its bytes: the machine moves tokens,
//! the owner moves the bytes behind them in the same order.

use crate::part_id::PartId;

/// Bytes of a content unit: what [`ContentEvent`] speaks of, and what the translation layer maps.
pub const UNIT_BYTES: u64 = 4096;

/// One step, of one part. Units are 4 KiB; a write that covers a part of one changes that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEvent {
    /// From now on a read of the unit gives the data of `token`.
    Accepted {
        /// On which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
        /// It survives a power cut.
        kept: bool,
    },
    /// An accepted unit is on the medium, where it survives a power cut. Programs may end in another order
    /// than they began; a version older than one of the same unit that landed before has no event.
    Landed {
        /// On which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
    },
    /// A write bypassed the buffer: it is on the medium, and replaces the unit there and what was
    /// accepted before it was submitted.
    Written {
        /// On which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
        /// The buffer holds a newer version, which a read still gives.
        overtaken: bool,
    },
    /// These units hold zeroes on the medium, which replace the data there and what was accepted
    /// before.
    Dropped {
        /// On which part.
        part: PartId,
        /// The first.
        unit: u64,
        /// Their number.
        count: u64,
        /// Which trim or write of zeroes.
        token: u64,
        /// The buffer holds a newer version, which a read still gives.
        overtaken: bool,
    },
    /// The power failed: data that were accepted, and are neither kept nor on the medium, are lost.
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
