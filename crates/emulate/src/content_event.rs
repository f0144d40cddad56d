//! Content events tell the library's caller, who stores the written bytes, how to move and combine them. The emulated
//! machine itself handles only tokens that stand for the bytes. The caller must apply the events in order.

use crate::part_id::PartId;
use std::ops::Range;

/// Size of a content unit in bytes. [`ContentEvent`] counts in these units, and the flash
/// translation layer maps them.
pub const UNIT_BYTES: u64 = 4096;

/// A range of bytes within a 4 KiB unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitBytes {
    /// Offset of the first byte within the unit.
    pub start: u16,
    /// Offset of the end within the unit (exclusive).
    pub end: u16,
}

impl UnitBytes {
    /// The range of a whole unit, offsets 0 to [`UNIT_BYTES`].
    pub const WHOLE: Self = Self { start: 0, end: UNIT_BYTES as u16 };

    /// Returns the range for indexing the unit's bytes.
    pub fn range(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }
}

/// A step in the handling of written data, on a device or during an array's computations. A *name* is a number that
/// identifies the content of one 4 KiB unit until it is [`Self::Freed`]. The content of a new name is zeroes. A
/// partial write of a unit changes only the bytes that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEvent {
    /// A write was accepted. From now on, reads of the 4 KiB unit return the data of this write.
    Accepted {
        /// Device or other component that was written to.
        part: PartId,
        /// Number of the written 4 KiB unit.
        unit: u64,
        /// Token of the accepted write, which identifies its data.
        token: u64,
        /// Whether the write survives a power cut even before it reaches the medium.
        kept: bool,
    },
    /// An accepted 4 KiB unit has reached the medium, where it survives a power cut. A version that reaches the medium
    /// after a newer version of the same unit produces no event.
    Landed {
        /// Device or other component that was written to.
        part: PartId,
        /// Number of the written 4 KiB unit.
        unit: u64,
        /// Token of the write whose data has reached the medium.
        token: u64,
    },
    /// A write that bypassed the buffer has reached the medium. It replaces the unit's content on the
    /// medium, and all versions that were accepted before the write was submitted.
    Written {
        /// Device or other component that was written to.
        part: PartId,
        /// Number of the written 4 KiB unit.
        unit: u64,
        /// Token of the write that bypassed the buffer.
        token: u64,
        /// Whether the buffer contains a newer version, which reads still return.
        overtaken: bool,
    },
    /// 4 KiB units were trimmed or zeroed on the medium. This supersedes their content on the medium, and all
    /// versions that were accepted earlier.
    Dropped {
        /// Device or other component that contains the units.
        part: PartId,
        /// Number of the first 4 KiB unit.
        unit: u64,
        /// Number of consecutive units, from `unit` on.
        count: u64,
        /// Token of the trim or write of zeroes.
        token: u64,
        /// Whether the buffer contains a newer version, which reads still return.
        overtaken: bool,
    },
    /// The power failure that is reported next tears a write of a unit: on the medium, only the unit's first bytes
    /// are new. If the write was accepted, these bytes also contain all versions accepted before it.
    Torn {
        /// Device or other component that was written to.
        part: PartId,
        /// Number of the torn 4 KiB unit.
        unit: u64,
        /// Token of the torn write.
        token: u64,
        /// End offset (exclusive) of the new bytes within the unit, a multiple of 512.
        until: u16,
    },
    /// Power failed. Accepted data is lost unless it survives power cuts (`kept`) or has reached the
    /// medium.
    PowerCut {
        /// Device or other component that lost power.
        part: PartId,
    },
    /// A device lost all its content, because it is volatile memory or was replaced by a new device.
    Emptied {
        /// Device or other component that lost its content.
        part: PartId,
    },
    /// The current content of a unit on a device or other component gets a name.
    Fetched {
        /// Device or other component that contains the unit.
        part: PartId,
        /// Number of the 4 KiB unit that is read.
        unit: u64,
        /// Name assigned to the unit's content.
        name: u64,
    },
    /// XORs the content of `term`, multiplied by `factor` in GF(2^8), into the content of `name`.
    Added {
        /// Name of the content that changes.
        name: u64,
        /// Factor by which `term` is multiplied in GF(2^8).
        factor: u8,
        /// Name of the content that is added.
        term: u64,
    },
    /// The content of `onto`, with one range replaced by the same range of `over`, gets a name.
    Laid {
        /// Name assigned to the merged content.
        name: u64,
        /// Name of the bytes outside of the range; 0: zeroes.
        onto: u64,
        /// Name of the bytes within the range; 0: zeroes.
        over: u64,
        /// Range taken from `over`.
        part_bytes: UnitBytes,
    },
    /// The content of `onto`, overwritten with the data of a host's write to an array or adapter path, gets a name.
    Taken {
        /// Token of the host's write.
        token: u64,
        /// Number of the unit, within the array or path, that the host writes.
        unit: u64,
        /// Name of the unit's previous content, which remains where the write does not cover it; 0: zeroes, or the
        /// write covers the whole unit.
        onto: u64,
        /// Name assigned to the content after the write.
        name: u64,
    },
    /// A host's read, from an array or through an adapter, returns the content that a name stands for.
    Returned {
        /// Token that the host gave the read.
        token: u64,
        /// Number of the unit, within the array or path, that the host reads.
        unit: u64,
        /// Name of the returned content; 0: zeroes.
        name: u64,
    },
    /// A component of the machine receives a write of `name`'s content to a unit or to a range within it.
    Given {
        /// Device or other component that receives the write.
        part: PartId,
        /// Number of the 4 KiB unit to write.
        unit: u64,
        /// Range to write within the unit.
        part_bytes: UnitBytes,
        /// Token of the write that the component receives.
        token: u64,
        /// Name of the content to write; 0: zeroes.
        name: u64,
    },
    /// A component of the machine receives part of a host's write: the data for unit `of` of an array or adapter path.
    Passed {
        /// Device or other component that receives the write.
        part: PartId,
        /// Number of the unit to write, within the receiving component.
        unit: u64,
        /// Token of the write that the component receives.
        token: u64,
        /// Token of the host's write.
        from: u64,
        /// Number of the unit, within the array or path, that the host writes.
        of: u64,
    },
    /// A component of the machine receives a trim or a write of zeroes.
    Cleared {
        /// Device or other component that receives the operation.
        part: PartId,
        /// Offset in bytes of the range to trim or zero.
        offset_bytes: u64,
        /// Length in bytes of the range to trim or zero.
        len_bytes: u32,
        /// Whether the operation is a trim, which affects whole units only.
        trim: bool,
        /// Token of the operation that the component receives.
        token: u64,
    },
    /// A write, trim or write of zeroes that a component received has ended.
    Ended {
        /// Device or other component that received the operation.
        part: PartId,
        /// Token of the operation that the component received.
        token: u64,
        /// Whether the operation ended with an error.
        failed: bool,
    },
    /// Consecutive names are no longer used.
    Freed {
        /// The first freed name.
        name: u64,
        /// Number of consecutive freed names.
        count: u64,
    },
}

impl ContentEvent {
    /// Returns the device or other component that the event concerns; `None` for events about an
    /// array's computations.
    #[inline]
    pub fn part(&self) -> Option<PartId> {
        Some(match *self {
            Self::Accepted { part, .. }
            | Self::Landed { part, .. }
            | Self::Written { part, .. }
            | Self::Dropped { part, .. }
            | Self::Torn { part, .. }
            | Self::PowerCut { part }
            | Self::Emptied { part } => part,
            _ => return None,
        })
    }
}

/// Returns the value of a torn unit. Each byte of a value stands for one of the unit's 8 sectors of 512 B, the lowest
/// byte for the first sector. Sectors below the offset `until` have the bytes of `new`, the others those of `old`.
pub fn torn_value(old: u64, new: u64, until: u16) -> u64 {
    let kept = u64::MAX.checked_shl(u32::from(until) / 512 * 8).unwrap_or(0);
    (old & kept) | (new & !kept)
}
