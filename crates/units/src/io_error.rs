//! The error of an operation: one type for the emulator, its frontends, and a cell in virtual time. Each protocol
//! has numbers of its own for it.

/// The reason why an I/O operation failed, the same for every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoError {
    /// The medium could not return the data, or the power failed.
    Io,
    /// The operation goes beyond the end of the device.
    OutOfRange,
    /// No space for the data: the backing file, or the memory that holds the bytes, is full.
    NoSpace,
    /// The device is lost, or no adapter leads to it.
    Gone,
}

impl IoError {
    /// Linux error number, above 0: EIO, EINVAL, ENOSPC, ENODEV.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Io => 5,
            Self::OutOfRange => 22,
            Self::NoSpace => 28,
            Self::Gone => 19,
        }
    }
}
