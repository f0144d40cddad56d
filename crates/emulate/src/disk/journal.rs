//! The disk's journal: the steps by which written data reaches the medium, for a caller that tracks the medium's
//! content.

/// A range of bytes on the disk, and the write that supplied them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRange {
    /// Id of the write that supplied the range's data, chosen by the submitter.
    pub id: u32,
    /// Offset of the range's first byte on the disk.
    pub offset_bytes: u64,
    /// Number of bytes from `offset_bytes` on.
    pub len_bytes: u64,
}

/// An event on the way of written data to the medium. Events are recorded in the order in which they occur.
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
