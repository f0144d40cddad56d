//! Failed operations, by kind. A failed operation is never counted as completed I/O, and no histogram includes its
//! time.

use serde::{Deserialize, Serialize};

/// Cause of a failed operation: a class of Linux error numbers, a short transfer or wrong content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// EIO and similar errors: the medium or the path to it failed.
    Io,
    /// ENOSPC, EDQUOT, EFBIG: no space on the file system or device, or a file too large for the file system.
    NoSpace,
    /// Fewer bytes moved than requested: a file was truncated during the run, or a device shrank.
    Short,
    /// ENODEV, ENXIO, ENOMEDIUM, ESHUTDOWN: the device is gone.
    Gone,
    /// EOPNOTSUPP, ENOSYS, ENOTTY: the target can't do this kind of operation.
    Unsupported,
    /// Verification found content that differs from the content written.
    Corrupt,
    /// Any other error; [`ErrorCounts::other_errno`] holds its Linux error number.
    Other,
}

impl ErrorKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Io,
        Self::NoSpace,
        Self::Short,
        Self::Gone,
        Self::Unsupported,
        Self::Corrupt,
        Self::Other,
    ];

    /// Name in tables and JSON, such as `no_space`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::NoSpace => "no_space",
            Self::Short => "short",
            Self::Gone => "gone",
            Self::Unsupported => "unsupported",
            Self::Corrupt => "corrupt",
            Self::Other => "other",
        }
    }

    /// Description for people, such as `out of space`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Io => "I/O errors",
            Self::NoSpace => "out of space",
            Self::Short => "cut short",
            Self::Gone => "device gone",
            Self::Unsupported => "not supported by the target",
            Self::Corrupt => "wrong content",
            Self::Other => "other errors",
        }
    }

    /// Returns the kind of failure for a Linux error number; [`Self::Other`] if no other kind includes the number.
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            5 | 52 | 61 | 84 | 121 | 110 => Self::Io, // EIO EBADE ENODATA EILSEQ EREMOTEIO ETIMEDOUT
            28 | 122 | 27 => Self::NoSpace,           // ENOSPC EDQUOT EFBIG
            19 | 6 | 123 | 108 => Self::Gone,         // ENODEV ENXIO ENOMEDIUM ESHUTDOWN
            95 | 38 | 25 => Self::Unsupported,        // EOPNOTSUPP ENOSYS ENOTTY
            _ => Self::Other,
        }
    }
}

/// Formats a Linux error number with its symbolic name, such as `EINVAL (22)`, or as `error 200` if the name is
/// unknown. [`errno_name`] knows the errors of reads, writes, flushes and ring submissions.
pub fn errno_text(errno: i32) -> String {
    match errno_name(errno) {
        Some(name) => format!("{name} ({errno})"),
        None => format!("error {errno}"),
    }
}

/// Symbolic name of a Linux error number, such as `EINVAL`; None if unknown. Wrong on MIPS, SPARC, Alpha and
/// PA-RISC, which number errors differently.
pub const fn errno_name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        1 => "EPERM",
        4 => "EINTR",
        5 => "EIO",
        6 => "ENXIO",
        9 => "EBADF",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        14 => "EFAULT",
        16 => "EBUSY",
        19 => "ENODEV",
        22 => "EINVAL",
        25 => "ENOTTY",
        26 => "ETXTBSY",
        27 => "EFBIG",
        28 => "ENOSPC",
        29 => "ESPIPE",
        30 => "EROFS",
        32 => "EPIPE",
        34 => "ERANGE",
        38 => "ENOSYS",
        52 => "EBADE",
        61 => "ENODATA",
        71 => "EPROTO",
        75 => "EOVERFLOW",
        84 => "EILSEQ",
        95 => "EOPNOTSUPP",
        105 => "ENOBUFS",
        108 => "ESHUTDOWN",
        110 => "ETIMEDOUT",
        116 => "ESTALE",
        117 => "EUCLEAN",
        121 => "EREMOTEIO",
        122 => "EDQUOT",
        123 => "ENOMEDIUM",
        125 => "ECANCELED",
        _ => return None,
    })
}

/// Counts of failed operations by kind, and the latest error numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCounts {
    counts: [u64; ErrorKind::ALL.len()],
    /// Linux error number of the latest failure; 0 if there was none. After a merge, the larger of the two numbers.
    pub last_errno: i32,
    /// Linux error number of the latest failure of the kind [`ErrorKind::Other`]; 0 if there was none. After a merge,
    /// the larger of the two numbers.
    #[serde(default)]
    pub other_errno: i32,
}

impl ErrorCounts {
    /// Counts one failed operation, with its Linux error number.
    pub fn add(&mut self, kind: ErrorKind, errno: i32) {
        self.add_many(kind, errno, 1);
    }

    /// Counts `ops` failed operations with the same Linux error number.
    pub fn add_many(&mut self, kind: ErrorKind, errno: i32, ops: u64) {
        self.counts[kind as usize] += ops;
        self.last_errno = errno;
        if kind == ErrorKind::Other {
            self.other_errno = errno;
        }
    }

    /// Number of failed operations of one kind.
    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Number of failed operations, over all kinds of error.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Iterates over the kinds of error that occurred, each with its number of failed operations.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorKind, u64)> + '_ {
        ErrorKind::ALL.into_iter().map(|k| (k, self.of(k))).filter(|&(_, n)| n > 0)
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        // The larger of the two: it is unknown which is later, and a merge must not depend on the order.
        self.last_errno = self.last_errno.max(other.last_errno);
        self.other_errno = self.other_errno.max(other.other_errno);
    }
}
