//! Errors in accessing a volume's bytes, by kind, so that a frontend can choose the error code for its client.

use iodyno_units::IoError;
use std::io;
use std::path::PathBuf;

/// Reason why a volume's stored bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The range exceeds the end of the volume.
    #[error("{len_bytes} bytes at byte {offset_bytes} extend beyond the end of the volume")]
    OutOfRange {
        /// Offset of the range that was to be read, bytes.
        offset_bytes: u64,
        /// Length of the range that was to be read, bytes.
        len_bytes: u64,
    },
    /// A 4 KiB unit does not match its checksum.
    #[error("4 KiB unit {unit} (byte {}) is corrupt: its data does not match its checksum", unit * 4096)]
    Corrupt {
        /// Number of the corrupt unit, counted from the start of the volume.
        unit: u64,
    },
    /// A system call failed while reading the backing file or image.
    #[error("{doing}: {}", io::Error::from_raw_os_error(*errno))]
    Io {
        /// Action that failed, such as `reading the volume's file`.
        doing: &'static str,
        /// Error number (`errno`) of the system call.
        errno: i32,
    },
}

/// Reason why a write, trim or flush of a volume's stored bytes failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The range exceeds the end of the volume.
    #[error("{len_bytes} bytes at byte {offset_bytes} extend beyond the end of the volume")]
    OutOfRange {
        /// Offset of the range that was to be written, bytes.
        offset_bytes: u64,
        /// Length of the range that was to be written, bytes.
        len_bytes: u64,
    },
    /// The write covers only a part of a corrupt 4 KiB unit, whose other data is unknown.
    #[error("4 KiB unit {unit} can't be written in part: the rest of the unit is corrupt")]
    Corrupt {
        /// Number of the corrupt unit, counted from the start of the volume.
        unit: u64,
    },
    /// The volume has reached its memory limit.
    #[error(
        "the emulated volume has reached its memory limit of {} bytes: raise the limit, or keep the volume in a file",
        memory_bytes_max
    )]
    Memory {
        /// Memory limit of the volume for data and tables, bytes.
        memory_bytes_max: u64,
    },
    /// The file system of the volume's file is full.
    #[error(
        "{doing}: the file system of the volume's file is full: free some space, then the volume accepts writes again"
    )]
    NoSpace {
        /// Action that failed, such as `writing the volume's file`.
        doing: &'static str,
    },
    /// A system call on the volume's file failed.
    #[error("{doing}: {}", io::Error::from_raw_os_error(*errno))]
    Io {
        /// Action that failed, such as `writing the volume's file`.
        doing: &'static str,
        /// Error number (`errno`) of the system call.
        errno: i32,
    },
}

impl ReadError {
    pub(super) fn io(doing: &'static str, e: &io::Error) -> Self {
        Self::Io { doing, errno: e.raw_os_error().unwrap_or(5) }
    }
}

impl WriteError {
    /// Whether the write failed for lack of space.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Memory { .. } | Self::NoSpace { .. })
    }

    pub(super) fn io(doing: &'static str, e: &io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { doing },
            _ => Self::Io { doing, errno: e.raw_os_error().unwrap_or(5) },
        }
    }
}

impl From<&ReadError> for IoError {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::OutOfRange { .. } => Self::OutOfRange,
            ReadError::Corrupt { .. } | ReadError::Io { .. } => Self::Io,
        }
    }
}

impl From<&WriteError> for IoError {
    fn from(error: &WriteError) -> Self {
        match error {
            WriteError::OutOfRange { .. } => Self::OutOfRange,
            e if e.is_no_space() => Self::NoSpace,
            _ => Self::Io,
        }
    }
}

/// Converts the error of the read in a read-modify-write.
impl From<ReadError> for WriteError {
    fn from(e: ReadError) -> Self {
        match e {
            ReadError::OutOfRange { offset_bytes, len_bytes } => {
                Self::OutOfRange { offset_bytes, len_bytes }
            }
            ReadError::Corrupt { unit } => Self::Corrupt { unit },
            ReadError::Io { doing, errno } => Self::Io { doing, errno },
        }
    }
}

/// Reason why a volume's file can't be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The volume's path exists but is not a plain file.
    #[error("{}: this is {what}, not a plain file: name a plain file, or a new file", path.display())]
    NotAFile {
        /// Path given for the volume's file.
        path: PathBuf,
        /// Type of the object at the path, as a noun with its article.
        what: &'static str,
    },
    /// The path is not a disk image of a supported type.
    #[error("{}: this is {what}: name a raw image in a plain file, or an NBD export (qemu-nbd serves other formats)", path.display())]
    NotAnImage {
        /// Path given for the image.
        path: PathBuf,
        /// Type of the object at the path, as a noun with its article.
        what: &'static str,
    },
    /// Another server has the file open.
    #[error("{}: another server has this file open; stop that server, or name another file", path.display())]
    Locked {
        /// Path of the locked file.
        path: PathBuf,
    },
    /// The file's size differs from the volume's.
    #[error("{}: the file has {found_bytes} bytes, but the volume has {wanted_bytes}: the file belongs to another device; name another file, or serve the file itself with --image", path.display())]
    Size {
        path: PathBuf,
        /// Size of the file, bytes.
        found_bytes: u64,
        /// Size of the volume, bytes.
        wanted_bytes: u64,
    },
    /// The file system does not support files as large as the volume.
    #[error(
        "{}: the file system can't hold a file of {wanted_bytes} bytes: name a file on another file system (XFS and btrfs hold larger files than ext4)",
        path.display()
    )]
    TooLarge {
        path: PathBuf,
        /// Size of the volume, bytes.
        wanted_bytes: u64,
    },
    /// The file at the path of the volume's checksums is damaged, or is not a checksum file.
    #[error("{}: {why}: if you move this file away, existing data is served without checksums until it is rewritten", path.display())]
    Sums {
        path: PathBuf,
        /// Description of the checksum file's defect.
        why: String,
    },
    /// A system call on the volume's file failed.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// Path of the file on which the call failed.
        path: PathBuf,
        /// Action that failed, as a phrase such as `reading the volume's file`.
        doing: &'static str,
        /// Error that the kernel returned for the system call.
        source: io::Error,
    },
}
