//! Encodes requests in 28 bytes, and admits them by an export's rules: their range, alignment and flags are checked
//! before the export sees them, and writes to a read-only export are refused.

use super::bytes::Reader;
use super::values::{CmdFlags, Errno, Info, PAYLOAD_MAX, REQUEST_MAGIC, Violation};

/// Length of a request without its payload, bytes.
pub const REQUEST_BYTES: usize = 28;
/// Maximum payload that is read and discarded if a write is refused, bytes. A longer one ends the connection.
pub const WRITE_DRAIN_MAX: u32 = 2 * PAYLOAD_MAX;

/// Command of a request. The discriminant is the number of the command in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// Read a range of the export; the reply has the data.
    Read = 0,
    /// Write the payload to a range of the export.
    Write = 1,
    /// Disconnect. There is no reply.
    Disc = 2,
    /// Make acknowledged writes durable.
    Flush = 3,
    /// Discard a range that is no longer needed.
    Trim = 4,
    /// Prefetch a range that will be read soon.
    Cache = 5,
    /// Make a range read as zeroes, without sending data.
    WriteZeroes = 6,
    /// Query which parts of a range are allocated.
    BlockStatus = 7,
}

impl Kind {
    /// Number of commands in the protocol, for tables indexed by command.
    pub const COUNT: usize = 8;
    /// All commands, in the order of their numbers in the protocol.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Read,
        Self::Write,
        Self::Disc,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];

    /// Converts a command number of the protocol; `None` if it is unknown.
    pub const fn from_code(code: u16) -> Option<Self> {
        if (code as usize) < Self::COUNT { Some(Self::ALL[code as usize]) } else { None }
    }

    /// Name of the command in metrics and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Disc => "disconnect",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Cache => "cache",
            Self::WriteZeroes => "write_zeroes",
            Self::BlockStatus => "block_status",
        }
    }

    /// Whether the command changes the export's content.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// A request as received, unchecked except for its magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Command flags, not yet checked.
    pub flags: CmdFlags,
    /// Number of the command in the protocol; see [`Kind`].
    pub command: u16,
    /// Identifier chosen by the client. The reply repeats it.
    pub cookie: u64,
    /// Offset of the range in the export, bytes.
    pub offset_bytes: u64,
    /// Length of the range, bytes.
    pub len_bytes: u32,
}

impl Request {
    /// Parses a request. Returns `None` if its magic number is wrong.
    #[inline]
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: CmdFlags(r.u16()?),
            command: r.u16()?,
            cookie: r.u64()?,
            offset_bytes: r.u64()?,
            len_bytes: r.u32()?,
        })
    }

    /// Encodes the request, without its payload, in the form in which it is sent.
    #[inline]
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len_bytes.to_be_bytes());
        bytes
    }

    /// Length of the payload that follows the request, bytes; 0 except for writes.
    pub fn payload_bytes(&self) -> u32 {
        if self.command == Kind::Write as u16 { self.len_bytes } else { 0 }
    }
}

/// A checked request: its range lies within the export, and its flags are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Kind of request; never [`Kind::Disc`].
    pub kind: Kind,
    /// Command flags, valid for this kind of request.
    pub flags: CmdFlags,
    /// Identifier chosen by the client. The reply repeats it.
    pub cookie: u64,
    /// Offset of the range in the export, bytes; within the export.
    pub offset_bytes: u64,
    /// Length of the range, bytes. May be 0, except for a block status.
    pub len_bytes: u32,
}

/// The server's decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Execute the request once its payload is complete.
    Run(Command),
    /// Reply with an error, and discard the request's payload.
    Refuse(Errno),
    /// End the connection, because the client disconnects.
    Leave,
    /// End the connection, because the client violated the protocol.
    Drop(Violation),
}

/// Rules by which a connection's requests are checked: range, alignment and allowed flags.
#[derive(Clone, Debug)]
pub struct Rules {
    size_bytes: u64,
    /// Smallest block size minus 1, to test alignment.
    block_mask: u32,
    payload_max: u32,
    read_only: bool,
    flush: bool,
    trim: bool,
    cache: bool,
    write_zeroes: bool,
    block_status: bool,
    /// Allowed flags, indexed by the kind of request.
    flags: [u16; Kind::COUNT],
}

impl Rules {
    /// Derives the rules from an export's properties. `structured`: structured replies were agreed; `meta`:
    /// `base:allocation` was agreed.
    pub fn new(info: &Info, structured: bool, meta: bool) -> Self {
        let mut flags = [if info.fua { CmdFlags::FUA.0 } else { 0 }; Kind::COUNT];
        if structured && info.df {
            flags[Kind::Read as usize] |= CmdFlags::DF.0;
        }
        flags[Kind::WriteZeroes as usize] |= CmdFlags::NO_HOLE.0;
        if info.fast_zero {
            flags[Kind::WriteZeroes as usize] |= CmdFlags::FAST_ZERO.0;
        }
        flags[Kind::BlockStatus as usize] |= CmdFlags::REQ_ONE.0;
        Self {
            size_bytes: info.size_bytes,
            block_mask: info.min_block_bytes - 1,
            payload_max: info.max_payload_bytes.min(PAYLOAD_MAX),
            read_only: info.read_only,
            flush: info.flush,
            trim: info.trim,
            cache: info.cache,
            write_zeroes: info.write_zeroes,
            block_status: structured && meta && info.block_status,
            flags,
        }
    }

    /// Checks range, alignment and flags of a request, and decides what the server does with it.
    #[inline]
    pub fn admit(&self, request: &Request) -> Admission {
        let Some(kind) = Kind::from_code(request.command) else {
            return Admission::Refuse(Errno::Inval);
        };
        if kind == Kind::Disc {
            return Admission::Leave;
        }
        if kind == Kind::Write && request.len_bytes > WRITE_DRAIN_MAX {
            return Admission::Drop(Violation::WriteLength);
        }
        match self.fault(kind, request) {
            Some(errno) => Admission::Refuse(errno),
            None => Admission::Run(Command {
                kind,
                flags: request.flags,
                cookie: request.cookie,
                offset_bytes: request.offset_bytes,
                len_bytes: request.len_bytes,
            }),
        }
    }

    #[inline]
    fn fault(&self, kind: Kind, request: &Request) -> Option<Errno> {
        let (offset, len) = (request.offset_bytes, request.len_bytes);
        let known = match kind {
            Kind::Read | Kind::Write | Kind::Disc => true,
            Kind::Flush => self.flush && offset == 0 && len == 0,
            Kind::Trim => self.trim,
            Kind::Cache => self.cache,
            Kind::WriteZeroes => self.write_zeroes,
            Kind::BlockStatus => self.block_status && len > 0,
        };
        if !known || request.flags.0 & !self.flags[kind as usize] != 0 {
            return Some(Errno::Inval);
        }
        if self.read_only && kind.writes() {
            return Some(Errno::Perm);
        }
        if offset.checked_add(u64::from(len)).is_none_or(|end| end > self.size_bytes) {
            let grows = matches!(kind, Kind::Write | Kind::WriteZeroes);
            return Some(if grows { Errno::NoSpace } else { Errno::Inval });
        }
        if (offset as u32 | len) & self.block_mask != 0 {
            return Some(Errno::Inval);
        }
        match kind {
            Kind::Write if len > self.payload_max => Some(Errno::Inval),
            Kind::Read if len > self.payload_max => Some(Errno::Overflow),
            _ => None,
        }
    }
}
