//! Content events: each step of written data, for the owner of its bytes: the machine moves tokens,
//! the owner moves the bytes behind them in the same order.

use crate::part_id::PartId;

/// Bytes of a content unit: what [`ContentEvent`] speaks of, and what the translation layer maps.
pub const UNIT_BYTES: u64 = 4096;

/// One step, of one part, or of the bytes that an array works with: a name stands for the bytes of one unit, zeroes at
/// first, until it is [`Self::Freed`]. Units are 4 KiB; a write that covers a part of one changes that unit.
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
    /// Nothing is left on the part: it was memory without power, or it is a new device.
    Emptied {
        /// Which.
        part: PartId,
    },
    /// A name stands for what a part's unit holds now.
    Fetched {
        /// Which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// The name.
        name: u64,
    },
    /// A name's bytes change by those of another one, multiplied in GF(2^8).
    Added {
        /// The name.
        name: u64,
        /// By this.
        factor: u8,
        /// The other.
        term: u64,
    },
    /// A name stands for the bytes of `onto`, and over them a part of those of `over`.
    Laid {
        /// The name.
        name: u64,
        /// The name of what was there; 0: zeroes.
        onto: u64,
        /// The name of what is over it; 0: zeroes.
        over: u64,
        /// The part, in bytes.
        part_bytes: (u16, u16),
    },
    /// A name stands for the bytes of `onto`, and over them those of a host's write to the array.
    Taken {
        /// The write.
        token: u64,
        /// The unit of the array.
        unit: u64,
        /// The name of what was there; 0: the write covers all of the unit.
        onto: u64,
        /// The name.
        name: u64,
    },
    /// A read of the array returns these bytes.
    Returned {
        /// The read.
        token: u64,
        /// The unit of the array.
        unit: u64,
        /// The name; 0: zeroes.
        name: u64,
    },
    /// A part is given a unit to write, or a part of one, as a write `token` of its own.
    Given {
        /// Which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// From which byte of the unit on, and up to which.
        part_bytes: (u16, u16),
        /// Its write.
        token: u64,
        /// The name of the bytes; 0: zeroes.
        name: u64,
    },
    /// A part is given what a host's write has for a unit of the array, or for a part of that unit.
    Passed {
        /// Which part.
        part: PartId,
        /// Which unit.
        unit: u64,
        /// Its write.
        token: u64,
        /// The host's write.
        from: u64,
        /// The unit of the array.
        of: u64,
    },
    /// A part receives a trim or zeroes for a range, as a write `token` of its own.
    Cleared {
        /// Which part.
        part: PartId,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        len_bytes: u32,
        /// Whole units only.
        trim: bool,
        /// Its write.
        token: u64,
    },
    /// A write that a part was given has ended.
    Ended {
        /// Which part.
        part: PartId,
        /// Its write.
        token: u64,
        /// It failed.
        failed: bool,
    },
    /// Names that are not used any more.
    Freed {
        /// The first.
        name: u64,
        /// Their number.
        count: u64,
    },
}

impl ContentEvent {
    /// On which part; None: it is about bytes that an array works with.
    #[inline]
    pub fn part(&self) -> Option<PartId> {
        Some(match *self {
            Self::Accepted { part, .. }
            | Self::Landed { part, .. }
            | Self::Written { part, .. }
            | Self::Dropped { part, .. }
            | Self::PowerCut { part }
            | Self::Emptied { part } => part,
            _ => return None,
        })
    }
}
