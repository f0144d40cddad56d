//! The disk's journal: the steps by which written data reaches the medium, for a caller that tracks the medium's
//! content.

/// A range of bytes on the disk, and the write that supplied them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRange {
    /// The submitter's id of the latest acknowledged write of this range.
    pub id: u32,
    /// Offset of the range's first byte on the disk.
    pub offset_bytes: u64,
    /// Number of bytes from `offset_bytes` on.
    pub len_bytes: u64,
}

/// A step of written data between its acknowledgement and the medium. Steps are recorded in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A write is acknowledged from the buffer.
    Accepted {
        /// Id that the submitter gave the write.
        id: u32,
        /// Sequence number of the write, in the order of acknowledgement.
        seq: u64,
    },
    /// The heads begin to write a range of the buffer to the medium.
    Taken(WriteRange),
    /// The range of the latest [`Self::Taken`] has reached the medium.
    Landed,
    /// A write that was not acknowledged from the buffer has reached the medium.
    Written {
        /// Id that the submitter gave the write.
        id: u32,
        /// Sequence number: this write supersedes overlapping parts of acknowledged writes with lower numbers.
        seq: u64,
    },
}
