//! Parses CloudPhysics' traces of virtual SCSI disks: binary records of 32 bytes (version 1) or 40 bytes (version 2),
//! or libCacheSim's CSV of them, `version,time,op,size,lbn`, with times in whole seconds.
//!
//! | field | version 1, at | version 2, at |
//! |---|---|---|
//! | length in bytes, 32 bits | 4 | 8 |
//! | SCSI's operation code, 16 bits | 12 | 0 |
//! | version in the high byte, 16 bits | 14 | 2 |
//! | address in sectors of 512 bytes, 64 bits | 16 | 16 |
//! | time in microseconds, 64 bits | 24 | 24 |
//! | response time in microseconds, 64 bits | - | 32 |
//!
//! Source: `vscsi.h`, its reader, and `data/cloudPhysicsIO.csv` of github.com/1a1a11a/libCacheSim; operation codes
//! from SBC-3. A file holds one disk.

use super::fields::{self, Clock, Fields, is_whole};
use super::rwbs::SECTOR_BYTES;
use super::sink::Traced;
use super::{Lines, Sink};
use iodyno_units::OpKind;

/// Name given to the disk of a trace; a file contains only one disk.
const DISK: &str = "disk";

pub(super) fn is_head(line: &str) -> bool {
    fields::is_head(line, "version,time,op,size,lbn")
}

pub(super) fn is_row(line: &str) -> bool {
    let is_version = |text: &str| matches!(text, "1" | "2");
    let is_code = |text: &str| text.len() <= 2 && u16::from_str_radix(text, 16).is_ok();
    fields::is_row(line, [is_version, is_whole, is_code, is_whole, is_whole])
}

/// Detects the version of the binary format from the beginning of a file; None if it is text.
pub(super) fn version(beginning: &[u8]) -> Option<Version> {
    // No text has a byte as small as a version number.
    let is = |version: Version| {
        let mut records = beginning.chunks_exact(version.record_bytes()).take(2).peekable();
        records.peek().is_some() && records.all(|record| version.is_of(record))
    };
    [Version::One, Version::Two].into_iter().find(|version| is(*version))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    pub(super) const fn record_bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    fn is_of(self, record: &[u8]) -> bool {
        match self {
            Self::One => number(record, 15, 1) == 1,
            Self::Two => number(record, 3, 1) == 2,
        }
    }
}

/// Reads a little-endian number of `len` bytes at offset `at` of a record.
fn number(record: &[u8], at: usize, len: usize) -> u64 {
    record[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Action of a SCSI command: transfer data, flush, or something else.
enum Command {
    Data(OpKind),
    Flush,
    Other,
}

impl Command {
    const fn of(code: u64) -> Self {
        match code {
            // READ of 6, 10, 12 and 16 bytes.
            0x08 | 0x28 | 0xa8 | 0x88 => Self::Data(OpKind::Read),
            // WRITE of 6, 10, 12 and 16 bytes, and WRITE AND VERIFY.
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Self::Data(OpKind::Write),
            // SYNCHRONIZE CACHE.
            0x35 | 0x91 => Self::Flush,
            _ => Self::Other,
        }
    }
}

#[derive(Default)]
pub(super) struct CloudPhysics {
    clock: Clock,
    has_whole_seconds: bool,
}

/// A SCSI command in a trace.
struct Request {
    ns: u64,
    code: u64,
    offset_bytes: u64,
    len_bytes: u64,
    response_ns: Option<u64>,
}

impl CloudPhysics {
    /// Parses a binary record, and adds its operation to the trace.
    pub(super) fn record(
        &mut self,
        version: Version,
        record: &[u8],
        to: &mut Sink<'_>,
    ) -> Result<(), String> {
        if !version.is_of(record) {
            return Err("the version differs from that of the first record".to_owned());
        }
        let (len, code) = match version {
            Version::One => (4, 12),
            Version::Two => (8, 0),
        };
        let us = |at| {
            number(record, at, 8).checked_mul(1000).ok_or_else(|| "a time is too large".to_owned())
        };
        let offset_bytes = number(record, 16, 8).checked_mul(SECTOR_BYTES);
        let request = Request {
            ns: us(24)?,
            code: number(record, code, 2),
            offset_bytes: offset_bytes.ok_or("the address is too large")?,
            len_bytes: number(record, len, 4),
            response_ns: if version == Version::Two { Some(us(32)?) } else { None },
        };
        self.request(&request, to)
    }

    fn request(&mut self, request: &Request, to: &mut Sink<'_>) -> Result<(), String> {
        let Request { ns, code, offset_bytes, len_bytes, response_ns } = *request;
        let at_ns = self.clock.at(ns, to)?;
        match Command::of(code) {
            Command::Data(kind) => {
                let op = Traced::new(at_ns, kind, offset_bytes, len_bytes);
                to.push_named(&[DISK], Traced { response_ns, ..op })
            }
            Command::Flush => to.push(DISK, Traced::flush(at_ns, response_ns)).map(drop),
            Command::Other => {
                to.leave_out(&format!("SCSI commands {code:02x}h, which are not reads or writes"));
                Ok(())
            }
        }
    }
}

impl Lines for CloudPhysics {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        self.has_whole_seconds = true;
        let mut fields = Fields::of(text);
        fields.whole("version")?;
        let ns = fields.multiple("time", 1_000_000_000)?;
        let code = u16::from_str_radix(fields.next("operation")?, 16);
        let code = code.map_err(|_| "column 3: the operation must be a SCSI code such as 2a")?;
        let len_bytes = fields.whole("size")?;
        let offset_bytes = fields.multiple("address", SECTOR_BYTES)?;
        fields.end()?;
        let code = code.into();
        self.request(&Request { ns, code, offset_bytes, len_bytes, response_ns: None }, to)
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        if self.has_whole_seconds {
            to.notes.push(super::WHOLE_SECONDS.to_owned());
        }
        Ok(())
    }
}
