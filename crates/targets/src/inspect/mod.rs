//! Inspection of a target, without opening anything for writing.
//!
//! An [`Inspection`] is plain data, in which `None` means unknown. The [`guard`](crate::guard) decides by the
//! inspection whether the target may be written, and [`open`](crate::open) opens the target accordingly. The notebook
//! stores the inspection: reports disclose it, and a later version of iodyno can judge it again.

mod across_hosts;
mod alignment;
mod device;
mod extents;
pub(crate) mod file_system;
mod lasting;
pub(crate) mod mounts;
mod nbd;
mod nvme_generic;
pub(crate) mod path;
mod scratch_size;
pub(crate) mod stack;
pub(crate) mod topology;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use across_hosts::FileAcrossHosts;
pub use alignment::Alignment;
pub use device::{BlockDevice, DiskStats, PcieLink};
pub use extents::Extents;
pub use file_system::{FileSystem, used_share};
pub use nbd::NbdExport;
pub use nvme_generic::NvmeGeneric;

use crate::aligned::AlignedBuf;
use crate::blank::{self, Depth, Sampled};
use crate::error::{TargetError, errno_of};
use crate::machine;
use crate::marker::Marker;
use crate::name::{Direct, TargetName};
use crate::signature::{self, Content};
use crate::sysroot::{DevNo, SysRoot};
use stack::{End, Stack};

/// Type of target; decides which checks apply and how it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A null target: completes every operation immediately, without storage.
    Null,
    /// Memory of this process.
    Ram,
    /// Emulated storage, in virtual or in real time.
    Model,
    /// An export of an NBD server.
    Nbd,
    /// A regular file, existing or yet to be created.
    File,
    /// A block device, or a partition of one.
    Block,
    /// A character device, such as `/dev/zero`.
    Char,
    /// A directory, pipe or socket, which can't be measured.
    Other,
}

/// Identity of a file or device. Shows whether a path still leads to the same file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Device number of the file system that contains the file or device node.
    pub dev: DevNo,
    /// Inode number of the file or device node.
    pub inode: u64,
    /// Device number of a block or character device; `None` for a file.
    pub device: Option<DevNo>,
}

impl Identity {
    pub(crate) fn of(meta: &Metadata) -> Self {
        let kind = meta.file_type();
        let is_device = kind.is_block_device() || kind.is_char_device();
        Self {
            dev: DevNo::from_packed(meta.dev()),
            inode: meta.ino(),
            device: is_device.then(|| DevNo::from_packed(meta.rdev())),
        }
    }
}

/// Optional operations of the target, besides read, write and flush. `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Trim is supported: `BLKDISCARD` on a device, `FALLOC_FL_PUNCH_HOLE` in a file.
    pub trim: Option<bool>,
    /// Write-zeroes is supported: `BLKZEROOUT` on a device, `FALLOC_FL_ZERO_RANGE` in a file.
    pub write_zeroes: Option<bool>,
}

/// Facts about a target, gathered before it is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// Name of the target, in canonical form.
    pub name: TargetName,
    /// Kind of target. For a path, the type of file that it leads to.
    pub kind: Kind,
    /// Path as the user gave it; for a scratch file, its directory.
    pub path: Option<String>,
    /// Absolute path without symbolic links. For a scratch file, the path of its directory. For an NVMe namespace that
    /// the user named by its character device, the path of its block device. `None` for a target without a path.
    pub canonical_path: Option<String>,
    /// False for a file that is yet to be created.
    pub exists: bool,
    /// Bytes to measure: the requested size, otherwise the size of the whole target. `None` for a character
    /// device, which has no size.
    pub size_bytes: Option<u64>,
    /// Present size of the file or device, bytes.
    pub whole_bytes: Option<u64>,
    /// Identity of the file or device. Shows whether another one has taken its path.
    pub identity: Option<Identity>,
    /// Required alignment of direct I/O, and preferred I/O sizes.
    pub alignment: Alignment,
    pub file_system: Option<FileSystem>,
    /// How the range to be measured is allocated, including the fraction that was written.
    pub extents: Option<Extents>,
    /// Mark on a file that iodyno created, which states whether the file was written completely. `None` for other
    /// files.
    pub marker: Option<Marker>,
    /// Signatures found in the content; `None` if the content could not be read (see `unreadable`).
    pub content: Option<Content>,
    /// Result of sampling the content. `None` if the target has a signature, is a file that iodyno did not
    /// create, or could not be read.
    #[serde(default)]
    pub sampled: Option<Sampled>,
    /// Reason why the content could not be read.
    pub unreadable: Option<String>,
    /// The target's block device; for a file, the device of its file system.
    pub device: Option<BlockDevice>,
    /// Lowest devices below the target: the disk of a partition, the members of dm and md, the disk below a loop
    /// device's file.
    pub physical: Vec<BlockDevice>,
    /// Layers between target and storage. `None` for a target without layers, and in records of older versions of
    /// iodyno.
    #[serde(default)]
    pub stack: Option<Stack>,
    /// Character device to send commands to; `None` unless the user named an NVMe namespace by its generic
    /// device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generic: Option<NvmeGeneric>,
    /// Description of the export by its NBD server; `None` for other targets.
    pub nbd: Option<NbdExport>,
    /// Whether the target supports trim and write-zeroes.
    pub capabilities: Capabilities,
    /// Notes to the user, as sentences. They never cause a refusal.
    pub notes: Vec<String>,
}

impl Inspection {
    fn empty(name: &TargetName, kind: Kind) -> Self {
        Self {
            name: name.clone(),
            kind,
            path: None,
            canonical_path: None,
            exists: true,
            size_bytes: None,
            whole_bytes: None,
            identity: None,
            alignment: Alignment::default(),
            file_system: None,
            extents: None,
            marker: None,
            content: None,
            sampled: None,
            unreadable: None,
            device: None,
            physical: Vec::new(),
            stack: None,
            generic: None,
            nbd: None,
            capabilities: Capabilities::default(),
            notes: Vec::new(),
        }
    }

    /// True for a file that iodyno creates for one run and then removes.
    pub fn is_scratch(&self) -> bool {
        matches!(self.name, TargetName::Scratch { .. })
    }

    /// True for the memory devices that discard or generate data: `/dev/null`, `/dev/zero` and `/dev/full`.
    pub fn is_harmless_char(&self) -> bool {
        let device = self.identity.and_then(|identity| identity.device);
        self.kind == Kind::Char && matches!(device, Some(DevNo { major: 1, minor: 3 | 5 | 7 }))
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Inspects a target of the running system.
///
/// # Errors
/// [`TargetError::NotFound`] if the file does not exist and no size is given to create it,
/// [`TargetError::Unsupported`] for a size beyond the device's, [`TargetError::NoSpace`] if memory or scratch
/// space is short, [`TargetError::Permission`] and [`TargetError::Io`] if the path can't be read. For an NBD
/// export, [`TargetError::BadName`] if the server lacks it, and [`TargetError::Unreachable`] if no server
/// responds.
pub fn inspect(name: &TargetName) -> Result<Inspection, TargetError> {
    inspect_in(name, &SysRoot::real())
}

/// Like [`inspect`], but resolves relative paths against `folder`. The result contains the original name and
/// path.
///
/// # Errors
/// The errors of [`inspect`], whose messages contain the resolved path.
pub fn inspect_from(name: &TargetName, folder: &Path) -> Result<Inspection, TargetError> {
    let mut inspection = inspect(&name.under(folder))?;
    if let TargetName::Path { path, .. } = name {
        inspection.path = Some(text(path));
    }
    inspection.name = name.clone();
    Ok(inspection)
}

/// Like [`inspect`], but reads `/proc` and `/sys` below `root`. The target itself is read from the real
/// system.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_in(name: &TargetName, root: &SysRoot) -> Result<Inspection, TargetError> {
    let mut inspection = inspect_by_kind(name, root)?;
    inspection.stack = stack::stack_of(root, &inspection);
    if let (Some(_), Some(stack)) = (&inspection.generic, &mut inspection.stack) {
        // Passthrough commands bypass the block device's counters.
        stack.uncounted = true;
    }
    note_stack(&mut inspection);
    Ok(inspection)
}

/// Adds notes if the storage stack uses the page cache or ends in memory, so that no device is measured.
fn note_stack(inspection: &mut Inspection) {
    let Some(stack) = &inspection.stack else { return };
    let mut notes = Vec::new();
    for layer in &stack.page_cache {
        notes.push(format!("The page cache is measured: {layer}."));
    }
    if stack.end == End::Memory {
        let bottom = stack.bottom_in_words();
        notes.push(format!("It is stored on {bottom}: memory is measured, not a device."));
    }
    inspection.notes.extend(notes);
}

fn inspect_by_kind(name: &TargetName, root: &SysRoot) -> Result<Inspection, TargetError> {
    match name {
        TargetName::Null { size_bytes } => {
            let mut inspection = Inspection::empty(name, Kind::Null);
            inspection.size_bytes = Some(*size_bytes);
            inspection.capabilities = Capabilities { trim: Some(true), write_zeroes: Some(true) };
            Ok(inspection)
        }
        TargetName::Ram { size_bytes } => ram(name, *size_bytes, root),
        TargetName::Model(_) => {
            let mut inspection = Inspection::empty(name, Kind::Model);
            inspection.capabilities = Capabilities { trim: Some(true), write_zeroes: Some(true) };
            Ok(inspection)
        }
        TargetName::Nbd(uri) => nbd::export(name, uri),
        TargetName::Scratch { size_bytes, dir, .. } => {
            path::scratch(name, *size_bytes, dir.as_deref(), root)
        }
        TargetName::Path { path, size_bytes, .. } => match fs::metadata(path) {
            Ok(meta) => path::existing(name, path, &meta, *size_bytes, root),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path::missing(name, path, *size_bytes, root)
            }
            Err(error) => Err(TargetError::from_errno("inspect it", path, errno_of(&error))),
        },
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn ram(name: &TargetName, size_bytes: u64, root: &SysRoot) -> Result<Inspection, TargetError> {
    if let Some(free_bytes) = machine::memory_available_bytes(root)
        && size_bytes > free_bytes
    {
        return Err(TargetError::NoSpace {
            path: name.to_string(),
            wanted_bytes: size_bytes,
            free_bytes,
            help: "name a smaller size: otherwise the kernel swaps, or kills the program."
                .to_owned(),
        });
    }
    let mut inspection = Inspection::empty(name, Kind::Ram);
    inspection.size_bytes = Some(size_bytes);
    inspection.capabilities = Capabilities { trim: Some(true), write_zeroes: Some(true) };
    Ok(inspection)
}

/// Size of a block device or file, found by seeking to its end.
pub(crate) fn capacity_bytes(fd: impl AsFd) -> Result<u64, Errno> {
    let end = rustix::fs::seek(&fd, SeekFrom::End(0))?;
    rustix::fs::seek(&fd, SeekFrom::Start(0))?;
    Ok(end)
}

/// Searches both ends of an open file or device for signatures of file systems, RAID and the like.
pub(crate) fn probe_content(file: &File, size_bytes: u64) -> io::Result<Content> {
    signature::probe(size_bytes, &mut |offset, buf| {
        let mut aligned = AlignedBuf::zeroed(buf.len());
        file.read_exact_at(&mut aligned, offset)?;
        buf.copy_from_slice(&aligned);
        Ok(())
    })
}

/// Samples an open file or device for data that iodyno did not write. Bypasses the page cache where possible,
/// to read from the device itself.
pub(crate) fn sample_content(fd: &OwnedFd, size_bytes: u64, depth: Depth) -> io::Result<Sampled> {
    let file = File::from(fd.try_clone()?);
    let try_sample = || {
        let mut read = |at: u64, to: &mut [u8]| file.read_exact_at(to, at);
        blank::sample(size_bytes, &[(0, size_bytes)], depth, blank::any_seed(), &mut read)
    };
    let before = rustix::fs::fcntl_getfl(fd)?;
    if before.contains(OFlags::DIRECT)
        || rustix::fs::fcntl_setfl(fd, before | OFlags::DIRECT).is_err()
    {
        return try_sample();
    }
    let found = try_sample();
    rustix::fs::fcntl_setfl(fd, before)?;
    match found {
        // Some file systems accept the flag and refuse the reads.
        Err(error) if errno_of(&error) == Errno::INVAL => try_sample(),
        found => found,
    }
}

/// Allocation of the first `range_bytes` of an open file.
pub(crate) fn extents_of(fd: impl AsFd, range_bytes: u64) -> Option<Extents> {
    extents::extents(fd, range_bytes)
}

/// Path at which to open the target's file or device node.
pub(crate) fn open_path(inspection: &Inspection) -> PathBuf {
    let path = inspection.canonical_path.as_ref().or(inspection.path.as_ref());
    PathBuf::from(path.map(String::as_str).unwrap_or_default())
}

/// Page cache setting in a target's name, or the default setting.
pub(crate) fn direct_of(name: &TargetName) -> Direct {
    match name {
        TargetName::Path { direct, .. } | TargetName::Scratch { direct, .. } => *direct,
        TargetName::Null { .. }
        | TargetName::Ram { .. }
        | TargetName::Model(_)
        | TargetName::Nbd(_) => Direct::Auto,
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
