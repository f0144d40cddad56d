//! The protocol's constants, its error numbers, and an export's description. Names follow the protocol document,
//! without the leading `NBD_`.

use std::fmt;

/// `NBDMAGIC`, the first eight bytes that a server sends.
pub(crate) const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: announces the newstyle protocol, and begins each option.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;

pub(crate) const FLAG_FIXED_NEWSTYLE: u16 = 1;
pub(crate) const FLAG_NO_ZEROES: u16 = 2;

pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_STARTTLS: u32 = 5;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPT_LIST_META_CONTEXT: u32 = 9;
pub(crate) const OPT_SET_META_CONTEXT: u32 = 10;

pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
pub(crate) const REP_ERROR: u32 = 1 << 31;
pub(crate) const REP_ERR_UNSUP: u32 = REP_ERROR + 1;
pub(crate) const REP_ERR_POLICY: u32 = REP_ERROR + 2;
pub(crate) const REP_ERR_INVALID: u32 = REP_ERROR + 3;
pub(crate) const REP_ERR_PLATFORM: u32 = REP_ERROR + 4;
pub(crate) const REP_ERR_TLS_REQD: u32 = REP_ERROR + 5;
pub(crate) const REP_ERR_UNKNOWN: u32 = REP_ERROR + 6;
pub(crate) const REP_ERR_SHUTDOWN: u32 = REP_ERROR + 7;
pub(crate) const REP_ERR_BLOCK_SIZE_REQD: u32 = REP_ERROR + 8;
pub(crate) const REP_ERR_TOO_BIG: u32 = REP_ERROR + 9;

pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_DESCRIPTION: u16 = 2;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

pub(crate) const CHUNK_DONE: u16 = 1;
pub(crate) const CHUNK_NONE: u16 = 0;
pub(crate) const CHUNK_OFFSET_DATA: u16 = 1;
pub(crate) const CHUNK_OFFSET_HOLE: u16 = 2;
pub(crate) const CHUNK_BLOCK_STATUS: u16 = 5;
pub(crate) const CHUNK_ERROR_BIT: u16 = 1 << 15;
pub(crate) const CHUNK_ERROR: u16 = CHUNK_ERROR_BIT + 1;
pub(crate) const CHUNK_ERROR_OFFSET: u16 = CHUNK_ERROR_BIT + 2;

/// The only supported metadata context.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
/// Id of the metadata context `base:allocation` on this server's connections. An arbitrary number.
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;

/// Flag of the metadata context `base:allocation`: the extent is not allocated.
pub const STATE_HOLE: u32 = 1;
/// Flag of the metadata context `base:allocation`: the extent reads as zeroes.
pub const STATE_ZERO: u32 = 2;

/// Maximum length of a string (name, description, query, message), bytes, as limited by the protocol.
pub const NAME_MAX: usize = 4096;
/// Maximum length of option data that is parsed, bytes. Enough for the longest name with its information
/// requests, or a name with a few metadata queries.
pub const OPTION_DATA_MAX: usize = 16 << 10;
/// Maximum length of option data that is discarded unparsed, bytes. Longer data ends the connection.
pub(crate) const OPTION_SKIP_MAX: u32 = 1 << 20;
/// Minimum size of an input buffer, bytes, so that it can hold the longest message that is parsed as a whole.
pub const WINDOW_BYTES: usize = OPTION_DATA_MAX + 32;
/// Maximum payload of one request or reply, bytes. The server announces this maximum; the
/// protocol document recommends it.
pub const PAYLOAD_MAX: u32 = 32 << 20;

/// Command flags of a request, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CmdFlags(pub u16);

impl CmdFlags {
    pub const NONE: Self = Self(0);
    /// Force unit access: the data must be durable before the reply.
    pub const FUA: Self = Self(1);
    /// For write-zeroes: keep the range allocated.
    pub const NO_HOLE: Self = Self(2);
    /// For reads: reply in one chunk ("don't fragment").
    pub const DF: Self = Self(4);
    /// For block status: return only one extent, not longer than the requested range.
    pub const REQ_ONE: Self = Self(8);
    /// For write-zeroes: fail immediately unless zeroing is faster than writing zeroes as data.
    pub const FAST_ZERO: Self = Self(16);

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets of flags.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Error numbers in replies. A received number that is not listed becomes `Inval`, as the protocol requires. Before
/// sending, other errors are mapped to the nearest listed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// EPERM: a write to a read-only export.
    Perm = 1,
    /// EIO: input/output error.
    Io = 5,
    /// ENOMEM: out of memory.
    NoMem = 12,
    /// EINVAL: invalid request.
    Inval = 22,
    /// ENOSPC: a write beyond the end of the export, or no space left.
    NoSpace = 28,
    /// EOVERFLOW: the request is too long.
    Overflow = 75,
    /// ENOTSUP: fast zeroing was requested, but would not be fast.
    NotSup = 95,
    /// ESHUTDOWN: the server is shutting down.
    Shutdown = 108,
}

impl Errno {
    /// Error number in the protocol, equal to Linux's.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Converts a received error number. Returns `None` for 0, which means success; unknown numbers become
    /// EINVAL.
    pub const fn from_wire(code: u32) -> Option<Self> {
        Some(match code {
            0 => return None,
            1 => Self::Perm,
            5 => Self::Io,
            12 => Self::NoMem,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            _ => Self::Inval,
        })
    }

    /// Converts a Linux error number to the nearest error of the protocol.
    pub const fn from_os(code: i32) -> Self {
        match code {
            1 | 13 | 30 => Self::Perm,
            12 => Self::NoMem,
            22 => Self::Inval,
            // ENOSPC, EDQUOT, EFBIG.
            28 | 122 | 27 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            _ => Self::Io,
        }
    }

    /// Description of the error in a few words, for messages.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Perm => "not permitted: the export is read-only",
            Self::Io => "input/output error",
            Self::NoMem => "out of memory",
            Self::Inval => "invalid request",
            Self::NoSpace => "no space left on the export",
            Self::Overflow => "larger than the limit for one request",
            Self::NotSup => "not supported",
            Self::Shutdown => "the server is shutting down",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl From<&std::io::Error> for Errno {
    fn from(error: &std::io::Error) -> Self {
        error.raw_os_error().map_or(Self::Io, Self::from_os)
    }
}

/// A protocol violation by the client, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The client set flags that the server did not offer.
    #[error("unknown client flags")]
    ClientFlags,
    /// An option does not begin with its magic number.
    #[error("an option without its magic number")]
    OptionMagic,
    /// The data of an option is longer than the server is willing to discard.
    #[error("option data of more than 1 MiB")]
    OptionLength,
    /// The client sent EXPORT_NAME with the name of an export that does not exist, or without the required TLS. This
    /// option has no error reply.
    #[error("the export that EXPORT_NAME requests is not available")]
    ExportName,
    /// A request does not begin with its magic number.
    #[error("a request without its magic number")]
    RequestMagic,
    /// The payload of a refused write is longer than the server is willing to discard.
    #[error("a write of more than 64 MiB")]
    WriteLength,
}

/// Size, limits and supported commands of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Size of the export, bytes; less than 2^63.
    pub size_bytes: u64,
    /// Smallest block size, bytes: a power of two up to 65,536. Offsets and lengths must be multiples of it.
    pub min_block_bytes: u32,
    /// Preferred block size, bytes: a power of two, at least 512 and at least the smallest block size.
    pub preferred_block_bytes: u32,
    /// Maximum payload of one request, bytes. This crate's server limits it to [`PAYLOAD_MAX`].
    pub max_payload_bytes: u32,
    /// Human-readable description; at most [`NAME_MAX`] bytes.
    pub description: String,
    /// Whether the export is read-only: writes, trims and write-zeroes are refused.
    pub read_only: bool,
    /// Whether seeks take time, as on a hard disk.
    pub rotational: bool,
    /// Whether the command FLUSH is supported.
    pub flush: bool,
    /// Whether the flag FUA (force unit access) is supported.
    pub fua: bool,
    /// Whether the command TRIM is supported.
    pub trim: bool,
    /// Whether the command WRITE_ZEROES and its flag NO_HOLE are supported.
    pub write_zeroes: bool,
    /// Whether the flag FAST_ZERO of WRITE_ZEROES is supported.
    pub fast_zero: bool,
    /// Whether the command CACHE is supported.
    pub cache: bool,
    /// Whether a flush on one connection covers the writes of all connections.
    pub multi_conn: bool,
    /// Whether the flag DF ("don't fragment") of reads is supported. This crate's server supports it with
    /// structured replies.
    pub df: bool,
    /// Whether the metadata context `base:allocation` is available, for block status.
    pub block_status: bool,
}

/// Reason why an export's properties are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// The export's size is 2^63 bytes or more.
    #[error("an export of 2^63 bytes or more")]
    Size,
    /// The smallest block size is not a power of two, or exceeds 65,536 bytes.
    #[error("a minimum block size that is not a power of two up to 65,536")]
    MinBlock,
    /// The preferred block size is not a power of two, or is below 512 bytes or the smallest block size.
    #[error(
        "a preferred block size that is not a power of two, or below 512 or the minimum block size"
    )]
    PreferredBlock,
    /// The maximum payload is below the preferred block size.
    #[error("a maximum payload below the preferred block size")]
    MaxPayload,
    /// The description is longer than [`NAME_MAX`].
    #[error("a description of more than 4,096 bytes")]
    Description,
    /// The server's flags lack the bit that marks them as valid.
    #[error("transmission flags without the bit NBD_FLAG_HAS_FLAGS")]
    Flags,
}

impl Info {
    /// Describes a writable export of this size that supports all features, with a smallest block size of 1 byte.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            min_block_bytes: 1,
            preferred_block_bytes: 4096,
            max_payload_bytes: PAYLOAD_MAX,
            description: String::new(),
            read_only: false,
            rotational: false,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            cache: true,
            multi_conn: true,
            df: true,
            block_status: true,
        }
    }

    /// Checks sizes and description against the limits of the protocol document.
    pub fn check(&self) -> Result<(), InfoError> {
        if self.size_bytes >= 1 << 63 {
            return Err(InfoError::Size);
        }
        if !self.min_block_bytes.is_power_of_two() || self.min_block_bytes > 65_536 {
            return Err(InfoError::MinBlock);
        }
        let preferred = self.preferred_block_bytes;
        if !preferred.is_power_of_two() || preferred < self.min_block_bytes.max(512) {
            return Err(InfoError::PreferredBlock);
        }
        if self.max_payload_bytes < preferred {
            return Err(InfoError::MaxPayload);
        }
        if self.description.len() > NAME_MAX {
            return Err(InfoError::Description);
        }
        Ok(())
    }

    /// Encodes the properties as the protocol's transmission flags. `structured` tells whether structured replies were
    /// agreed; DF requires them.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        let bits = [
            (true, 0),
            (self.read_only, 1),
            (self.flush, 2),
            (self.fua, 3),
            (self.rotational, 4),
            (self.trim, 5),
            (self.write_zeroes, 6),
            (structured && self.df, 7),
            (self.multi_conn, 8),
            (self.cache, 10),
            (self.write_zeroes && self.fast_zero, 11),
        ];
        bits.into_iter().filter(|(on, _)| *on).fold(0, |flags, (_, bit)| flags | 1 << bit)
    }

    /// Describes an export by its size and transmission flags. Block sizes are the protocol's defaults until the
    /// server sends others.
    pub(crate) fn from_flags(size_bytes: u64, flags: u16) -> Result<Self, InfoError> {
        let bit = |n: u32| flags >> n & 1 == 1;
        if !bit(0) {
            return Err(InfoError::Flags);
        }
        let info = Self {
            read_only: bit(1),
            flush: bit(2),
            fua: bit(3),
            rotational: bit(4),
            trim: bit(5),
            write_zeroes: bit(6),
            df: bit(7),
            multi_conn: bit(8),
            cache: bit(10),
            fast_zero: bit(11) && bit(6),
            block_status: false,
            ..Self::new(size_bytes)
        };
        info.check().map(|()| info)
    }
}
