//! One operation on block storage: a workload issues it, an engine carries it out.

/// The kinds of operation. Each is measured separately: they are never mixed in one histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpKind {
    /// Read `len_bytes` at `offset_bytes`.
    Read = 0,
    /// Write `len_bytes` at `offset_bytes`.
    Write = 1,
    /// Make all acknowledged writes durable. Carries no address.
    Flush = 2,
    /// Tell the device that a range's content is no longer needed.
    Trim = 3,
    /// Make a range read as zeroes, without sending them.
    WriteZeroes = 4,
}

impl OpKind {
    /// Number of kinds; length of arrays with an element per kind.
    pub const COUNT: usize = 5;
    /// Every kind, in the order of its index.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Read, Self::Write, Self::Flush, Self::Trim, Self::WriteZeroes];

    /// Index of the kind in arrays with an element per kind.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name used in files, tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
        }
    }

    /// Returns whether the operation changes the content of the target, so that it needs the
    /// guard's permission.
    pub const fn changes_content(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// One operation. 16 bytes, so that a batch of them stays in a few cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// First byte, counted from the start of the target. 0 for a flush.
    pub offset_bytes: u64,
    /// Length in bytes. 0 for a flush.
    pub len_bytes: u32,
    /// Read, write, flush, trim or write zeroes.
    pub kind: OpKind,
    /// Force unit access: the write is durable when it is acknowledged.
    pub fua: bool,
}

impl Op {
    /// A flush, which has neither offset nor length.
    pub const FLUSH: Self = Self { offset_bytes: 0, len_bytes: 0, kind: OpKind::Flush, fua: false };

    /// Encodes the operation in two words: the offset; and the length, with the kind from bit 32 and FUA in bit 40.
    #[inline]
    pub const fn to_words(self) -> (u64, u64) {
        let flags = (self.kind as u64) << 32 | (self.fua as u64) << 40;
        (self.offset_bytes, self.len_bytes as u64 | flags)
    }

    /// Decodes the words of [`Self::to_words`].
    ///
    /// # Panics
    /// If the words do not encode an operation.
    #[inline]
    pub const fn from_words(offset_bytes: u64, word: u64) -> Self {
        let kind = OpKind::ALL[(word >> 32) as u8 as usize];
        Self { offset_bytes, len_bytes: word as u32, kind, fua: word >> 40 & 1 == 1 }
    }
}
