//! The error of an I/O operation, as one type for the emulator, its frontends, and runs in virtual time. Each protocol
//! maps this type to its own error numbers.

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
    /// The operation violates the rules of a zoned device.
    Zone(ZoneError),
}

/// Rule of a zoned device that an operation has violated. Each rule has a status code in the NVM Express Zoned
/// Namespace Command Set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneError {
    /// A write does not start at the write pointer, or is not a multiple of 4 KiB.
    InvalidWrite,
    /// A read or write exceeds the zone, or its capacity.
    Boundary,
    /// A write addresses a full zone.
    Full,
    /// The operation would open one zone more than the device allows.
    TooManyOpen,
    /// The operation would activate one zone more than the device allows. A zone is active if it is open, or closed
    /// with room for data.
    TooManyActive,
    /// The zone's state does not allow the transition, such as closing an empty zone.
    InvalidTransition,
}

impl ZoneError {
    /// Name of the status code in the NVM Express Zoned Namespace Command Set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidWrite => "Zone Invalid Write",
            Self::Boundary => "Zone Boundary Error",
            Self::Full => "Zone Is Full",
            Self::TooManyOpen => "Too Many Open Zones",
            Self::TooManyActive => "Too Many Active Zones",
            Self::InvalidTransition => "Invalid Zone State Transition",
        }
    }
}

impl IoError {
    /// Linux error number of the failure, positive: EIO, EINVAL, ENOSPC or ENODEV; for violated rules of a zoned
    /// device: EIO, ETOOMANYREFS (open zones) or EOVERFLOW (active zones).
    pub const fn errno(self) -> i32 {
        match self {
            Self::OutOfRange => 22,
            Self::NoSpace => 28,
            Self::Gone => 19,
            Self::Zone(ZoneError::TooManyOpen) => 109,
            Self::Zone(ZoneError::TooManyActive) => 75,
            Self::Io | Self::Zone(_) => 5,
        }
    }
}
