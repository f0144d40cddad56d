//! The error of an operation: one type for the emulator, its frontends, and a cell in virtual time. Each protocol
//! has numbers of its own for it.

/// Reason why an I/O operation failed, independent of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoError {
    /// The medium failed to return the data, or the power failed.
    Io,
    /// The address range exceeds the size of the device.
    OutOfRange,
    /// There is no space for the data, because the backing file or memory is full.
    NoSpace,
    /// The device has failed, or all paths to it have.
    Gone,
}

impl IoError {
    /// Linux error number of the failure, positive: EIO, EINVAL, ENOSPC or ENODEV.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Io => 5,
            Self::OutOfRange => 22,
            Self::NoSpace => 28,
            Self::Gone => 19,
        }
    }
}
