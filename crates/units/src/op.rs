//! One operation on block storage. A workload issues it, and an I/O engine executes it.

/// Kind of I/O operation. Kinds are measured separately and never share a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpKind {
    /// Reads `len_bytes` at `offset_bytes`.
    Read = 0,
    /// Writes `len_bytes` at `offset_bytes`.
    Write = 1,
    /// Makes all acknowledged writes durable. Has no address.
    Flush = 2,
    /// Tells the device that the content of a range is no longer needed (discard).
    Trim = 3,
    /// Zeroes a range without transferring data.
    WriteZeroes = 4,
}

impl OpKind {
    /// Length of arrays with one element per kind.
    pub const COUNT: usize = 5;
    /// All kinds, in the order of their index.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Read, Self::Write, Self::Flush, Self::Trim, Self::WriteZeroes];

    /// Index of the kind in arrays with one element per kind.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name of the kind in files, tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
        }
    }

    /// Whether operations of this kind change the target's content. If so, they require permission to overwrite the
    /// target.
    pub const fn changes_content(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// One I/O operation. Takes 16 bytes, so that a batch fits in a few cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Offset from the start of the target, bytes; 0 for a flush.
    pub offset_bytes: u64,
    /// Length, bytes; 0 for a flush.
    pub len_bytes: u32,
    pub kind: OpKind,
    /// Whether a write must be durable when acknowledged (force unit access).
    pub fua: bool,
}

impl Op {
    /// A flush, which has neither offset nor length.
    pub const FLUSH: Self = Self { offset_bytes: 0, len_bytes: 0, kind: OpKind::Flush, fua: false };

    /// Encodes the operation in two 64-bit integers. The first is the offset. The second has the length in bits 0 to
    /// 31, the kind from bit 32, and FUA in bit 40.
    #[inline]
    pub const fn to_words(self) -> (u64, u64) {
        let flags = (self.kind as u64) << 32 | (self.fua as u64) << 40;
        (self.offset_bytes, self.len_bytes as u64 | flags)
    }

    /// Decodes an operation from the two integers that [`Self::to_words`] returned.
    ///
    /// # Panics
    /// If the integers do not encode an operation.
    #[inline]
    pub const fn from_words(offset_bytes: u64, word: u64) -> Self {
        let kind = OpKind::ALL[(word >> 32) as u8 as usize];
        Self { offset_bytes, len_bytes: word as u32, kind, fua: word >> 40 & 1 == 1 }
    }
}
