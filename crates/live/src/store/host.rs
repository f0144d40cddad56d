//! Operations on a volume's files on the host. With the feature `host-faults` each can be made to fail, completely or
//! after some of its bytes; without the feature they have no overhead.

use super::units::{Run, UNIT_BYTES};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Size of one write when zeroing a range on a file system without hole punching, bytes.
const ZEROES_BYTES: u64 = 1 << 20;

/// Type of a call to the host's file system, for fault injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "host-faults"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub enum HostCall {
    /// `pread`.
    Read,
    /// `pwrite`.
    Write,
    /// `fallocate` that punches a hole.
    Punch,
    /// `fdatasync`.
    Sync,
}

/// Which of a volume's files a system call operates on, for fault injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "host-faults"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub enum HostFile {
    /// The volume's data file.
    Data,
    /// The volume's checksum file.
    Sums,
}

/// An injected failure of a call to the host's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "host-faults"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub struct HostFault {
    /// Error number (`errno`) that the call returns.
    pub errno: i32,
    /// Number of bytes that the call writes or zeroes before it fails.
    pub after_bytes: usize,
}

/// Fault injection for tests: decides which calls to the host's file system fail.
#[cfg(feature = "host-faults")]
pub trait HostFaults: std::fmt::Debug + Send + Sync {
    /// Called before each file system call. Returns the failure to inject, or `None` to make the call.
    fn fault(&self, file: HostFile, call: HostCall, at: u64, len: u64) -> Option<HostFault>;
}

/// Source of injected file system faults; `None` except in tests.
#[cfg(feature = "host-faults")]
pub(super) type Faults = Option<std::sync::Arc<dyn HostFaults>>;
/// Placeholder for the source of injected file system faults in builds without the feature `host-faults`.
#[cfg(not(feature = "host-faults"))]
#[derive(Clone, Debug)]
pub(super) struct Faults;

/// Value that disables fault injection.
#[cfg(feature = "host-faults")]
pub(super) const NO_FAULTS: Faults = None;
/// Value that disables fault injection.
#[cfg(not(feature = "host-faults"))]
pub(super) const NO_FAULTS: Faults = Faults;

/// A write that the host did not complete.
#[derive(Debug)]
pub(super) struct Refused {
    pub error: io::Error,
    /// Number of bytes that were written before the error.
    pub written_bytes: usize,
}

/// A file on the host, with fault injection for tests.
#[derive(Debug)]
pub(super) struct Host {
    file: File,
    #[cfg(feature = "host-faults")]
    which: HostFile,
    #[cfg(feature = "host-faults")]
    faults: Faults,
}

impl Host {
    #[cfg(feature = "host-faults")]
    pub(super) fn new(file: File, which: HostFile, faults: Faults) -> Self {
        Self { file, which, faults }
    }

    #[cfg(not(feature = "host-faults"))]
    pub(super) fn new(file: File, _: HostFile, _: Faults) -> Self {
        Self { file }
    }

    /// The underlying file. Calls on it bypass fault injection.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    #[cfg(feature = "host-faults")]
    fn fault(&self, call: HostCall, at: u64, len: u64) -> Option<HostFault> {
        self.faults.as_ref()?.fault(self.which, call, at, len)
    }

    #[cfg(not(feature = "host-faults"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    #[inline]
    fn fault(&self, _: HostCall, _: u64, _: u64) -> Option<HostFault> {
        None
    }

    #[inline]
    pub(super) fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        if let Some(fault) = self.fault(HostCall::Read, at, into.len() as u64) {
            return Err(io::Error::from_raw_os_error(fault.errno));
        }
        self.file.read_exact_at(into, at)
    }

    #[inline]
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_counted(bytes, at).map_err(|refused| refused.error)
    }

    /// Like [`Self::write`], but an error also tells how many bytes were written before it.
    #[inline]
    pub(super) fn write_counted(&self, bytes: &[u8], at: u64) -> Result<(), Refused> {
        if let Some(fault) = self.fault(HostCall::Write, at, bytes.len() as u64) {
            let written_bytes = fault.after_bytes.min(bytes.len());
            write_all(&self.file, &bytes[..written_bytes], at)?;
            return Err(Refused {
                error: io::Error::from_raw_os_error(fault.errno),
                written_bytes,
            });
        }
        write_all(&self.file, bytes, at)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        if let Some(fault) = self.fault(HostCall::Sync, 0, 0) {
            return Err(io::Error::from_raw_os_error(fault.errno));
        }
        self.file.sync_data()
    }

    /// Punches a hole. On a file system without hole punching, it overwrites non-zero data with zeroes.
    pub(super) fn punch(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        if len_bytes == 0 {
            return Ok(());
        }
        if let Some(fault) = self.fault(HostCall::Punch, at, len_bytes) {
            write_zeroes(&self.file, at, (fault.after_bytes as u64).min(len_bytes))?;
            return Err(io::Error::from_raw_os_error(fault.errno));
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, at, len_bytes) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeroes(&self.file, at, len_bytes),
            Err(e) => Err(e.into()),
        }
    }

    /// Finds the run of units from `unit` up to at most `end` that are either all a hole or all data.
    pub(super) fn run(&self, unit: u64, end: u64) -> Run {
        let offset = unit * UNIT_BYTES;
        let (data, until) = match self.seek(SeekFrom::Data(offset)) {
            Ok(at) if at / UNIT_BYTES > unit => (false, at / UNIT_BYTES),
            Ok(_) => {
                let hole = self.seek(SeekFrom::Hole(offset));
                (true, hole.map_or(end, |at| at.div_ceil(UNIT_BYTES).max(unit + 1)))
            }
            Err(Errno::NXIO) => (false, end),
            // The file system does not report holes.
            Err(_) => (true, end),
        };
        Run { data, end: until.min(end) }
    }

    /// Finds the next data or hole from the offset in `to`; returns its offset.
    pub(super) fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        seek(&self.file, to)
    }
}

#[inline]
fn write_all(file: &File, bytes: &[u8], at: u64) -> Result<(), Refused> {
    let mut written_bytes = 0;
    while written_bytes < bytes.len() {
        match file.write_at(&bytes[written_bytes..], at + written_bytes as u64) {
            Ok(0) => return Err(Refused { error: io::ErrorKind::WriteZero.into(), written_bytes }),
            Ok(len) => written_bytes += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Refused { error, written_bytes }),
        }
    }
    Ok(())
}

fn write_zeroes(file: &File, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; len_bytes.min(ZEROES_BYTES) as usize];
    let end = offset_bytes + len_bytes;
    let mut at = offset_bytes;
    while at < end {
        match seek(file, SeekFrom::Data(at)) {
            Ok(data) => at = at.max(data),
            Err(Errno::NXIO) => break,
            Err(_) => {}
        }
        if at >= end {
            break;
        }
        let len = (end - at).min(zeroes.len() as u64);
        file.write_all_at(&zeroes[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a file system without hole punching, zeroing overwrites only the given range and does not grow the
    /// file.
    #[test]
    fn zeroes_are_written_where_there_is_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&vec![7; 3 << 20], 1 << 20).unwrap();
        write_zeroes(&file, (1 << 20) + 5, (6 << 20) - 5).unwrap();
        let mut bytes = vec![1; 8 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let not_zero: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] != 0).collect();
        assert_eq!(not_zero, (1 << 20..(1 << 20) + 5).collect::<Vec<_>>());
        assert_eq!(file.metadata().unwrap().len(), 8 << 20);
    }
}
