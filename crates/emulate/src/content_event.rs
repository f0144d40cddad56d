//! What became of written data, step by step, for the owner who keeps its bytes: the machine moves
//! tokens, the owner moves what they stand for in the same order.

/// Bytes of a content unit: what [`ContentEvent`] speaks of, and what the translation layer maps.
pub const UNIT_BYTES: u64 = 4096;

/// One step, of one volume. Units are 4 KiB; a write that covers a part of one changes that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEvent {
    /// A read of the unit gives what `token` wrote, from now on.
    Accepted {
        /// On which volume.
        volume: u32,
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
        /// On which volume.
        volume: u32,
        /// Which unit.
        unit: u64,
        /// Which write.
        token: u64,
    },
    /// A write went past the buffer: it is on the medium, in place of what was there and of what was
    /// accepted before it was submitted.
    Written {
        /// On which volume.
        volume: u32,
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
        /// On which volume.
        volume: u32,
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
        /// On which volume.
        volume: u32,
    },
    /// Nothing is left on the volume: it was memory without power.
    Emptied {
        /// Which.
        volume: u32,
    },
}

impl ContentEvent {
    /// On which volume.
    #[inline]
    pub fn volume(&self) -> u32 {
        match *self {
            Self::Accepted { volume, .. }
            | Self::Landed { volume, .. }
            | Self::Written { volume, .. }
            | Self::Dropped { volume, .. }
            | Self::PowerCut { volume }
            | Self::Emptied { volume } => volume,
        }
    }
}
