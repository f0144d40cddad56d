//! What became of written data, step by step, for the owner who follows the content of the medium.

/// Bytes that lay in the buffer, and who wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRange {
    /// What the submitter called the write; of several over this range, the last one acknowledged.
    pub id: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub len_bytes: u64,
}

/// One step, in the order in which they happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A write is acknowledged from the buffer.
    Accepted {
        /// What the submitter called it.
        id: u32,
        /// Which acknowledgement it is.
        seq: u64,
    },
    /// The heads begin to bring a range of the buffer to the medium.
    Taken(WriteRange),
    /// It is there.
    Landed,
    /// A write that is acknowledged only now is on the medium.
    Written {
        /// What the submitter called it.
        id: u32,
        /// It supersedes what was acknowledged before this number.
        seq: u64,
    },
}
