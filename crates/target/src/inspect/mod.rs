//! What a target is, found out without opening anything for writing.
//!
//! An [`Inspection`] is plain data that goes into the notebook: a report discloses it and a later
//! reader judges by it. What can't be known is `None`. Whether the target may be written is the
//! [`guard`](crate::guard)'s verdict on an inspection; opening it is [`open`](crate::open)'s work.

mod alignment;
mod device;
mod extents;
mod file_system;
pub(crate) mod mounts;
pub(crate) mod topology;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use iodyno_units::human;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use alignment::Alignment;
pub use device::{BlockDevice, DiskStats, PcieLink};
pub use extents::Extents;
pub use file_system::FileSystem;

use crate::aligned::AlignedBuf;
use crate::error::TargetError;
use crate::machine;
use crate::marker::{self, Marker};
use crate::name::{Direct, TargetName};
use crate::scratch;
use crate::signature::{self, Content};
use crate::sysroot::{DevNo, SysRoot};
use topology::BlockNode;

/// What kind of thing a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Completes every operation at once.
    Null,
    /// Memory of this process.
    Ram,
    /// A regular file, or one to be made.
    File,
    /// A block device.
    Block,
    /// A character device.
    Char,
    /// A directory, pipe or socket: nothing to measure.
    Other,
}

/// What tells one file or device from another that takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Device number of the file system that holds the file or node.
    pub dev: DevNo,
    /// Inode number.
    pub inode: u64,
    /// The device's own number, for block and character devices.
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

/// Which operations beyond read, write and flush the target can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Trim: `BLKDISCARD` on a device, `FALLOC_FL_PUNCH_HOLE` in a file.
    pub trim: Option<bool>,
    /// Write zeroes: `BLKZEROOUT` on a device, `FALLOC_FL_ZERO_RANGE` in a file.
    pub write_zeroes: Option<bool>,
}

/// Everything that is known of a target before it is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// The canonical name.
    pub name: TargetName,
    /// What kind of thing it is.
    pub kind: Kind,
    /// The path as given; for a scratch file its directory.
    pub path: Option<String>,
    /// The path without symbolic links.
    pub canonical_path: Option<String>,
    /// False for a file that is still to be made.
    pub exists: bool,
    /// Bytes that would be measured: the size asked for, else all there is. `None` for a character
    /// device without a size.
    pub size_bytes: Option<u64>,
    /// Bytes that the file or device has now.
    pub whole_bytes: Option<u64>,
    /// What tells it from another of the same name.
    pub identity: Option<Identity>,
    /// Alignment for direct I/O.
    pub alignment: Alignment,
    /// The file system that the file lies on.
    pub file_system: Option<FileSystem>,
    /// How much of the range was ever written.
    pub extents: Option<Extents>,
    /// iodyno's own mark on a file.
    pub marker: Option<Marker>,
    /// What its bytes say; `None` where they could not be read, see `unreadable`.
    pub content: Option<Content>,
    /// Why its bytes could not be read.
    pub unreadable: Option<String>,
    /// The block device itself, or the one directly under a file.
    pub device: Option<BlockDevice>,
    /// The devices at the bottom: disks under partitions, members under dm and md, the disk under
    /// a loop device's file.
    pub physical: Vec<BlockDevice>,
    /// What it can do beyond read, write and flush.
    pub capabilities: Capabilities,
    /// Remarks for people, as sentences. None is a reason to refuse.
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
            unreadable: None,
            device: None,
            physical: Vec::new(),
            capabilities: Capabilities::default(),
            notes: Vec::new(),
        }
    }

    /// True for a file that is made for one run and removed.
    pub fn is_scratch(&self) -> bool {
        matches!(self.name, TargetName::Scratch { .. })
    }

    /// True for the memory devices that swallow or make up data: `/dev/null`, `/dev/zero` and
    /// `/dev/full`.
    pub fn is_harmless_char(&self) -> bool {
        let device = self.identity.and_then(|identity| identity.device);
        self.kind == Kind::Char
            && matches!(device, Some(DevNo { major: 1, minor: 3 | 5 | 7 }))
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Inspects a target of the running system.
///
/// # Errors
/// [`TargetError::NotFound`] for a path without a file and without a size to make one of,
/// [`TargetError::Unsupported`] for a size beyond the device's, [`TargetError::NoSpace`] for more
/// memory or scratch space than there is, [`TargetError::Permission`] and [`TargetError::Io`] when
/// the path can't be looked at.
pub fn inspect(name: &TargetName) -> Result<Inspection, TargetError> {
    inspect_in(name, &SysRoot::real())
}

/// The same with `/proc` and `/sys` from another root; the path itself is always the real one.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_in(name: &TargetName, root: &SysRoot) -> Result<Inspection, TargetError> {
    match name {
        TargetName::Null { size_bytes } => {
            let mut inspection = Inspection::empty(name, Kind::Null);
            inspection.size_bytes = Some(*size_bytes);
            inspection.capabilities = Capabilities { trim: Some(true), write_zeroes: Some(true) };
            Ok(inspection)
        }
        TargetName::Ram { size_bytes } => ram(name, *size_bytes, root),
        TargetName::Scratch { size_bytes, dir, .. } => {
            scratch_file(name, *size_bytes, dir.as_deref(), root)
        }
        TargetName::Path { path, size_bytes, .. } => match fs::metadata(path) {
            Ok(meta) => existing(name, path, &meta, *size_bytes, root),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing(name, path, *size_bytes, root)
            }
            Err(error) => Err(TargetError::from_errno("look at it", path, errno_of(&error))),
        },
    }
}

pub(crate) fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
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
            help: "name a smaller size; memory that is not there would be swapped, or end the program.".to_owned(),
        });
    }
    let mut inspection = Inspection::empty(name, Kind::Ram);
    inspection.size_bytes = Some(size_bytes);
    inspection.capabilities = Capabilities { trim: Some(true), write_zeroes: Some(true) };
    Ok(inspection)
}

fn scratch_file(
    name: &TargetName,
    size_bytes: Option<u64>,
    dir: Option<&Path>,
    root: &SysRoot,
) -> Result<Inspection, TargetError> {
    let dir = dir.unwrap_or(Path::new("."));
    let error = |error: io::Error| TargetError::from_errno("make a scratch file in it", dir, errno_of(&error));
    let canonical = dir.canonicalize().map_err(error)?;
    if !canonical.is_dir() {
        return Err(TargetError::Unsupported {
            path: text(dir),
            problem: "a scratch file needs a directory to lie in, and this is none.".to_owned(),
            help: "name a directory, such as scratch:1GiB@/mnt/disk.".to_owned(),
        });
    }
    let mut inspection = Inspection::empty(name, Kind::File);
    inspection.exists = false;
    inspection.path = Some(text(dir));
    inspection.canonical_path = Some(text(&canonical));
    on_file_system(&mut inspection, &canonical, root)?;
    let chosen = scratch::size(&inspection, size_bytes, machine::memory_available_bytes(root))?;
    inspection.size_bytes = Some(chosen);
    Ok(inspection)
}

fn missing(
    name: &TargetName,
    path: &Path,
    size_bytes: Option<u64>,
    root: &SysRoot,
) -> Result<Inspection, TargetError> {
    let not_found = |help: &str| TargetError::NotFound { path: text(path), help: help.to_owned() };
    if fs::symlink_metadata(path).is_ok() {
        return Err(not_found("it is a symbolic link to something that is not there; iodyno makes files only under their own name."));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (Ok(dir), Some(file_name)) = (parent.canonicalize(), path.file_name()) else {
        return Err(not_found("the folder that it would lie in is not there either; check the spelling."));
    };
    let mut inspection = Inspection::empty(name, Kind::File);
    inspection.exists = false;
    inspection.path = Some(text(path));
    inspection.canonical_path = Some(text(&dir.join(file_name)));
    on_file_system(&mut inspection, &dir, root)?;
    let Some(size_bytes) = size_bytes else {
        return Err(not_found(&format!(
            "check the spelling; to have iodyno make a file there, say how large: {}?size=8GiB",
            text(path)
        )));
    };
    inspection.size_bytes = Some(size_bytes);
    Ok(inspection)
}

/// What a file in or under `path` inherits from its file system and the devices below.
fn on_file_system(inspection: &mut Inspection, path: &Path, root: &SysRoot) -> Result<(), TargetError> {
    let Some(fs) = file_system::file_system(root, path) else { return Ok(()) };
    if fs.is_pseudo() && !inspection.exists {
        return Err(TargetError::NotFound {
            path: inspection.canonical_path.clone().unwrap_or_else(|| text(path)),
            help: format!("{} is no place for files; check the spelling of the device's name.", fs.fs_type),
        });
    }
    if fs.is_memory() {
        inspection.note(format!("It lies on {}: what is measured is memory, not a device.", fs.fs_type));
    }
    inspection.capabilities = file_capabilities(&fs.fs_type);
    if let Some(node) = fs.dev.and_then(|dev| BlockNode::by_number(root, dev)) {
        on_device(inspection, &node, root);
    }
    inspection.alignment.read_path(path);
    inspection.file_system = Some(fs);
    Ok(())
}

/// What `fallocate` can do, by the kernel's file systems as of Linux 6.18.
fn file_capabilities(fs_type: &str) -> Capabilities {
    let (trim, write_zeroes) = match fs_type {
        "ext4" | "xfs" | "btrfs" | "f2fs" | "bcachefs" => (Some(true), Some(true)),
        "tmpfs" | "ocfs2" | "gfs2" => (Some(true), Some(false)),
        "vfat" | "msdos" | "exfat" | "ntfs3" | "ramfs" => (Some(false), Some(false)),
        _ => (None, None),
    };
    Capabilities { trim, write_zeroes }
}

fn on_device(inspection: &mut Inspection, node: &BlockNode, root: &SysRoot) {
    let device = BlockDevice::of(root, node);
    inspection.alignment.logical_block_bytes = device.logical_block_bytes;
    inspection.alignment.physical_block_bytes = device.physical_block_bytes;
    inspection.alignment.io_optimal_bytes = device.io_optimal_bytes;
    inspection.physical = bottom(root, node);
    inspection.device = Some(device);
}

/// The devices at the bottom of a block device, also through a loop device's file.
fn bottom(root: &SysRoot, node: &BlockNode) -> Vec<BlockDevice> {
    let mut found: Vec<BlockDevice> = Vec::new();
    let mut open = vec![node.clone()];
    // Loop devices can be stacked, but not without end.
    for _ in 0..32 {
        let Some(next) = open.pop() else { break };
        for node in topology::physical(root, &next) {
            let device = BlockDevice::of(root, &node);
            let below = device.loop_backing_file.as_deref().and_then(|file| under_file(root, file));
            match below {
                Some(below) if below.dev != node.dev => open.push(below),
                _ if found.iter().any(|other| other.dev == device.dev) => {}
                _ => found.push(device),
            }
        }
    }
    found
}

/// The block device that holds a loop device's file, or that the file is.
fn under_file(root: &SysRoot, file: &str) -> Option<BlockNode> {
    let meta = fs::metadata(root.path(file.strip_prefix('/')?)).ok()?;
    let dev = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    BlockNode::by_number(root, DevNo::from_packed(dev))
}

fn existing(
    name: &TargetName,
    path: &Path,
    meta: &Metadata,
    asked_bytes: Option<u64>,
    root: &SysRoot,
) -> Result<Inspection, TargetError> {
    let file_type = meta.file_type();
    let kind = if file_type.is_file() {
        Kind::File
    } else if file_type.is_block_device() {
        Kind::Block
    } else if file_type.is_char_device() {
        Kind::Char
    } else {
        Kind::Other
    };
    let canonical = path
        .canonicalize()
        .map_err(|error| TargetError::from_errno("resolve it", path, errno_of(&error)))?;
    let mut inspection = Inspection::empty(name, kind);
    inspection.path = Some(text(path));
    inspection.canonical_path = Some(text(&canonical));
    inspection.identity = Some(Identity::of(meta));
    if fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) {
        inspection.note(format!("{} is a symbolic link to {}.", text(path), text(&canonical)));
    }
    match kind {
        Kind::File => regular_file(&mut inspection, &canonical, meta, asked_bytes, root)?,
        Kind::Block => block_device(&mut inspection, &canonical, asked_bytes, root)?,
        Kind::Char => {
            inspection.size_bytes = asked_bytes;
            inspection.capabilities = Capabilities { trim: Some(false), write_zeroes: Some(false) };
        }
        _ => {}
    }
    Ok(inspection)
}

fn regular_file(
    inspection: &mut Inspection,
    canonical: &Path,
    meta: &Metadata,
    asked_bytes: Option<u64>,
    root: &SysRoot,
) -> Result<(), TargetError> {
    inspection.whole_bytes = Some(meta.len());
    inspection.size_bytes = Some(asked_bytes.unwrap_or(meta.len()));
    on_file_system(inspection, canonical, root)?;
    match open_to_read(canonical, OFlags::empty()) {
        Ok(fd) => {
            let range = meta.len().min(asked_bytes.unwrap_or(u64::MAX));
            inspection.extents = extents::extents(&fd, range);
            inspection.marker = marker::read(&fd, canonical);
            inspection.alignment.read_fd(&fd);
            read_content(inspection, fd, meta.len());
        }
        Err(errno) => inspection.unreadable = Some(errno.to_string()),
    }
    if let Some(extents) = inspection.extents
        && extents.written_share < 1.0
    {
        inspection.note(format!(
            "Only {:.1} % of it was ever written; reads of the rest never reach the device.",
            100.0 * extents.written_share
        ));
    }
    Ok(())
}

fn block_device(
    inspection: &mut Inspection,
    canonical: &Path,
    asked_bytes: Option<u64>,
    root: &SysRoot,
) -> Result<(), TargetError> {
    let node = inspection
        .identity
        .and_then(|identity| identity.device)
        .and_then(|dev| BlockNode::by_number(root, dev));
    if let Some(node) = &node {
        on_device(inspection, node, root);
    }
    inspection.alignment.read_path(canonical);
    let device = inspection.device.as_ref();
    let mut whole = device.and_then(|device| device.size_bytes);
    inspection.capabilities =
        Capabilities { trim: device.and_then(|device| device.discard), write_zeroes: Some(true) };
    // Without O_DIRECT the page cache of another of the device's nodes could hide what is there.
    let opened = open_to_read(canonical, OFlags::DIRECT)
        .or_else(|_| open_to_read(canonical, OFlags::empty()));
    match opened {
        Ok(fd) => {
            let size = capacity_bytes(&fd).map_err(|errno| TargetError::from_errno("learn its size", canonical, errno))?;
            whole = Some(size);
            read_content(inspection, fd, size);
        }
        Err(errno) => inspection.unreadable = Some(errno.to_string()),
    }
    inspection.whole_bytes = whole;
    inspection.size_bytes = asked_bytes.or(whole);
    if let (Some(asked), Some(whole)) = (asked_bytes, whole)
        && asked > whole
    {
        return Err(TargetError::Unsupported {
            path: text(canonical),
            problem: format!("it has {}, and {} were asked for.", human::size(whole), human::size(asked)),
            help: "leave the size out to use all of it, or name a smaller one.".to_owned(),
        });
    }
    if whole == Some(0) {
        inspection.note("It has no capacity: no medium, or a device that was not set up.");
    }
    if let Some(file) = inspection.device.as_ref().and_then(|device| device.loop_backing_file.clone()) {
        inspection.note(format!("It is a loop device; its blocks lie in {file}."));
    }
    if let Some(content) = &inspection.content
        && content.signatures.is_empty()
        && !content.starts_with_zeroes
    {
        inspection.note(if content.empty_boot_sector {
            "It has a boot sector without partitions."
        } else {
            "Its first 1 MiB is not all zeroes, yet nothing in it is recognised."
        });
    }
    Ok(())
}

fn open_to_read(path: &Path, extra: OFlags) -> Result<OwnedFd, Errno> {
    // Without O_NONBLOCK a drive without a medium may wait for one.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    rustix::fs::open(path, flags | extra, Mode::empty())
}

/// The size of a block device or a file, by the place of its end.
pub(crate) fn capacity_bytes(fd: impl AsFd) -> Result<u64, Errno> {
    let end = rustix::fs::seek(&fd, SeekFrom::End(0))?;
    rustix::fs::seek(&fd, SeekFrom::Start(0))?;
    Ok(end)
}

/// Probes both ends of an open file or device.
pub(crate) fn probe_content(file: &File, size_bytes: u64) -> io::Result<Content> {
    signature::probe(size_bytes, &mut |offset, buf| {
        let mut aligned = AlignedBuf::zeroed(buf.len());
        file.read_exact_at(&mut aligned, offset)?;
        buf.copy_from_slice(&aligned);
        Ok(())
    })
}

fn read_content(inspection: &mut Inspection, fd: OwnedFd, size_bytes: u64) {
    match probe_content(&File::from(fd), size_bytes) {
        Ok(content) => inspection.content = Some(content),
        Err(error) => inspection.unreadable = Some(error.to_string()),
    }
}

/// How the first `range_bytes` of an open file lie on its file system.
pub(crate) fn extents_of(fd: impl AsFd, range_bytes: u64) -> Option<Extents> {
    extents::extents(fd, range_bytes)
}

/// The path that a target's node or file is opened by.
pub(crate) fn open_path(inspection: &Inspection) -> PathBuf {
    let path = inspection.canonical_path.as_ref().or(inspection.path.as_ref());
    PathBuf::from(path.map(String::as_str).unwrap_or_default())
}

/// What the name says about the page cache.
pub(crate) fn direct_of(name: &TargetName) -> Direct {
    match name {
        TargetName::Path { direct, .. } | TargetName::Scratch { direct, .. } => *direct,
        TargetName::Null { .. } | TargetName::Ram { .. } => Direct::Auto,
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
