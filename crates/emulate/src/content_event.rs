//! Content events report each step of written data to the owner of its bytes. The machine moves tokens;
//! the owner moves the corresponding bytes in the same order.

use crate::part_id::PartId;
use std::ops::Range;

/// Size in bytes of a content unit, in which [`ContentEvent`] counts and which the flash
/// translation layer maps.
pub const UNIT_BYTES: u64 = 4096;

/// A range of the bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitBytes {
    /// Offset of the first byte to write.
    pub start: u16,
    /// One past the last byte.
    pub end: u16,
}

impl UnitBytes {
    /// All bytes of the unit.
    pub const WHOLE: Self = Self { start: 0, end: UNIT_BYTES as u16 };

    /// The range as an index of the unit's bytes.
    pub fn range(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }
}

/// One step of written data, on a part or among the bytes with which an array computes. A *name* is
/// a number that stands for the bytes of one unit, which are zeroes at first, until it is
/// [`Self::Freed`]. Units are 4 KiB; a partial write of a unit changes that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEvent {
    /// A write was accepted: from now on a read of the unit returns the data of `token`.
    Accepted {
        /// The part written to.
        part: PartId,
        /// The unit written.
        unit: u64,
        /// Token of the write.
        token: u64,
        /// Whether the write survives a power cut.
        kept: bool,
    },
    /// An accepted unit has reached the medium, where it survives a power cut. Programs may end in
    /// another order than they began: a version that lands after a newer one has no event.
    Landed {
        /// The part written to.
        part: PartId,
        /// The unit written.
        unit: u64,
        /// Token of the write.
        token: u64,
    },
    /// A write that bypassed the buffer has reached the medium. It replaces the unit there, and whatever
    /// was accepted before it was submitted.
    Written {
        /// The part written to.
        part: PartId,
        /// The unit written.
        unit: u64,
        /// Token of the write.
        token: u64,
        /// Whether the buffer holds a newer version, which reads still return.
        overtaken: bool,
    },
    /// Units were trimmed or zeroed on the medium. This replaces the data there and whatever was
    /// accepted before.
    Dropped {
        /// The part that holds the units.
        part: PartId,
        /// The first unit.
        unit: u64,
        /// Number of units.
        count: u64,
        /// Token of the trim or write of zeroes.
        token: u64,
        /// Whether the buffer holds a newer version, which reads still return.
        overtaken: bool,
    },
    /// The power failed: data that was accepted, and neither kept nor landed, is lost.
    PowerCut {
        /// The part that lost power.
        part: PartId,
    },
    /// The part lost all content: it was memory without power, or was replaced by a new device.
    Emptied {
        /// The emptied part.
        part: PartId,
    },
    /// A new name stands for the content that a part's unit has now.
    Fetched {
        /// The part that holds the unit.
        part: PartId,
        /// The unit read.
        unit: u64,
        /// The new name.
        name: u64,
    },
    /// The bytes of `term`, multiplied by `factor` in GF(2^8), are added to those of `name`.
    Added {
        /// The name whose bytes change.
        name: u64,
        /// Factor, an element of GF(2^8).
        factor: u8,
        /// The name whose bytes are added.
        term: u64,
    },
    /// A new name stands for the bytes of `onto`, of which a range is replaced by the same range of
    /// `over`.
    Laid {
        /// The new name.
        name: u64,
        /// Name of the bytes outside of the range; 0: zeroes.
        onto: u64,
        /// Name of the bytes within the range; 0: zeroes.
        over: u64,
        /// Range taken from `over`.
        part_bytes: UnitBytes,
    },
    /// A new name stands for the bytes of `onto`, overwritten with the data of a host's write to
    /// the array.
    Taken {
        /// Token of the host's write.
        token: u64,
        /// The unit of the array that the host writes.
        unit: u64,
        /// Name of the bytes that the write does not cover; 0: it covers the whole unit.
        onto: u64,
        /// The new name.
        name: u64,
    },
    /// A read of the array returns the bytes of a name.
    Returned {
        /// Token of the read.
        token: u64,
        /// The unit of the array that the host writes.
        unit: u64,
        /// Name of the bytes; 0: zeroes.
        name: u64,
    },
    /// A part receives the bytes of `name` for a unit or a range of one, as a write of its own with
    /// token `token`.
    Given {
        /// The receiving part.
        part: PartId,
        /// The unit to write.
        unit: u64,
        /// Range to write.
        part_bytes: UnitBytes,
        /// Token of the part's write.
        token: u64,
        /// Name of the bytes; 0: zeroes.
        name: u64,
    },
    /// A part receives the bytes that a host writes to unit `of` of the array, as a write of its
    /// own with token `token`.
    Passed {
        /// The receiving part.
        part: PartId,
        /// The unit to write.
        unit: u64,
        /// Token of the part's write.
        token: u64,
        /// Token of the host's write.
        from: u64,
        /// The unit of the array that the host writes.
        of: u64,
    },
    /// A part receives a trim or zeroes for a range, as a write of its own with token `token`.
    Cleared {
        /// The receiving part.
        part: PartId,
        /// Offset of the first byte to write.
        offset_bytes: u64,
        /// Length in bytes.
        len_bytes: u32,
        /// Whether the operation is a trim, which affects whole units only.
        trim: bool,
        /// Token of the part's write.
        token: u64,
    },
    /// A write that a part received has ended.
    Ended {
        /// The part that received the write.
        part: PartId,
        /// Token of the part's write.
        token: u64,
        /// Whether the write failed.
        failed: bool,
    },
    /// Names are no longer used.
    Freed {
        /// The first name.
        name: u64,
        /// Number of consecutive names.
        count: u64,
    },
}

impl ContentEvent {
    /// The part concerned; `None` for events about bytes that an array works with.
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
