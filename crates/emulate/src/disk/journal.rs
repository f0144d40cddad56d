//! The disk's journal: each step of written data, for the owner who follows the content of the medium.

/// A range of bytes in the buffer, and the write that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRange {
    /// The submitter's id of the write; of several over this range, the last one acknowledged.
    pub id: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub len_bytes: u64,
}

/// One step, in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A write is acknowledged from the buffer.
    Accepted {
        /// The submitter's id.
        id: u32,
        /// Number of the acknowledgement.
        seq: u64,
    },
    /// The heads begin to write a range of the buffer to the medium.
    Taken(WriteRange),
    /// That range is on the medium.
    Landed,
    /// A write that is acknowledged only now is on the medium.
    Written {
        /// The submitter's id.
        id: u32,
        /// It supersedes writes acknowledged before this number.
        seq: u64,
    },
}
