//! Inspects a path: a file, a device, or the folder for a new file.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use iodyno_units::human;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::nvme_generic;
use super::scratch_size;
use super::topology::{self, BlockNode};
use super::{
    BlockDevice, Capabilities, Identity, Inspection, Kind, capacity_bytes, extents, file_system,
    probe_content, sample_content, text,
};
use crate::blank::Depth;
use crate::error::{TargetError, errno_of};
use crate::name::TargetName;
use crate::signature::{Content, Signature};
use crate::sysroot::{DevNo, SysRoot};
use crate::{machine, marker};

pub(super) fn scratch(
    name: &TargetName,
    size_bytes: Option<u64>,
    dir: Option<&Path>,
    root: &SysRoot,
) -> Result<Inspection, TargetError> {
    let dir = dir.unwrap_or(Path::new("."));
    let error = |error: io::Error| {
        TargetError::from_errno("make a scratch file in it", dir, errno_of(&error))
    };
    let canonical = dir.canonicalize().map_err(error)?;
    if !canonical.is_dir() {
        return Err(TargetError::Unsupported {
            path: text(dir),
            problem: "a scratch file needs a directory, but this is not a directory.".to_owned(),
            help: "name a directory, such as scratch:1GiB@/mnt/disk.".to_owned(),
        });
    }
    let mut inspection = Inspection::empty(name, Kind::File);
    inspection.exists = false;
    inspection.path = Some(text(dir));
    inspection.canonical_path = Some(text(&canonical));
    on_file_system(&mut inspection, &canonical, root)?;
    let chosen =
        scratch_size::size(&inspection, size_bytes, machine::memory_available_bytes(root))?;
    inspection.size_bytes = Some(chosen);
    Ok(inspection)
}

pub(super) fn missing(
    name: &TargetName,
    path: &Path,
    size_bytes: Option<u64>,
    root: &SysRoot,
) -> Result<Inspection, TargetError> {
    let not_found = |help: &str| TargetError::NotFound { path: text(path), help: help.to_owned() };
    if fs::symlink_metadata(path).is_ok() {
        return Err(not_found(
            "it is a symbolic link to a file that does not exist; iodyno does not make files \
             through symbolic links.",
        ));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (Ok(dir), Some(file_name)) = (parent.canonicalize(), path.file_name()) else {
        return Err(not_found("neither the file nor its folder exists; check the spelling."));
    };
    let mut inspection = Inspection::empty(name, Kind::File);
    inspection.exists = false;
    inspection.path = Some(text(path));
    inspection.canonical_path = Some(text(&dir.join(file_name)));
    on_file_system(&mut inspection, &dir, root)?;
    let Some(size_bytes) = size_bytes else {
        return Err(not_found(&format!(
            "check the spelling; to have iodyno make the file, give its size: {}?size=8GiB",
            text(path)
        )));
    };
    scratch_size::check_room(&inspection, size_bytes, machine::memory_available_bytes(root))?;
    inspection.size_bytes = Some(size_bytes);
    Ok(inspection)
}

/// Fills in properties of a file's file system and of the devices below. `path` is the file or its folder.
fn on_file_system(
    inspection: &mut Inspection,
    path: &Path,
    root: &SysRoot,
) -> Result<(), TargetError> {
    let Some(fs) = file_system::file_system(root, path) else { return Ok(()) };
    if fs.is_pseudo() && !inspection.exists {
        return Err(TargetError::NotFound {
            path: inspection.canonical_path.clone().unwrap_or_else(|| text(path)),
            help: format!(
                "no file can be created on {}; check the spelling of the device's name.",
                fs.fs_type
            ),
        });
    }
    inspection.capabilities = file_capabilities(&fs.fs_type);
    if let Some(node) = fs.dev.and_then(|dev| BlockNode::by_number(root, dev)) {
        on_device(inspection, &node, root);
    }
    inspection.alignment.read_path(path);
    inspection.file_system = Some(fs);
    Ok(())
}

/// Whether a type of file system supports trim and write-zeroes through `fallocate`, as of Linux 6.18.
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

/// Lowest devices below a block device. Follows a loop device to the disk below its backing file.
fn bottom(root: &SysRoot, node: &BlockNode) -> Vec<BlockDevice> {
    let mut found: Vec<BlockDevice> = Vec::new();
    let mut open = vec![node.clone()];
    // Loop devices can be stacked; this bounds the walk.
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

/// Block device below a loop device: the backing device itself, or the device of the backing file's file
/// system.
fn under_file(root: &SysRoot, file: &str) -> Option<BlockNode> {
    let meta = fs::metadata(root.path(file.strip_prefix('/')?)).ok()?;
    let dev = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    BlockNode::by_number(root, DevNo::from_packed(dev))
}

pub(super) fn existing(
    name: &TargetName,
    path: &Path,
    meta: &Metadata,
    requested_bytes: Option<u64>,
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
    if kind == Kind::Char
        && let Some((block, generic)) = nvme_generic::block_device(&canonical, meta, root)?
    {
        let meta = fs::metadata(&block)
            .map_err(|error| TargetError::from_errno("inspect it", &block, errno_of(&error)))?;
        let mut inspection = existing(name, &block, &meta, requested_bytes, root)?;
        inspection.path = Some(text(path));
        inspection.note(format!(
            "iodyno sends NVMe commands through {}, bypassing the block layer of {}.",
            generic.path,
            text(&block)
        ));
        inspection.generic = Some(generic);
        return Ok(inspection);
    }
    let mut inspection = Inspection::empty(name, kind);
    inspection.path = Some(text(path));
    inspection.canonical_path = Some(text(&canonical));
    inspection.identity = Some(Identity::of(meta));
    if fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) {
        inspection.note(format!("{} is a symbolic link to {}.", text(path), text(&canonical)));
    }
    match kind {
        Kind::File => regular_file(&mut inspection, &canonical, meta, requested_bytes, root)?,
        Kind::Block => block_device(&mut inspection, &canonical, requested_bytes, root)?,
        Kind::Char => {
            inspection.size_bytes = requested_bytes;
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
    requested_bytes: Option<u64>,
    root: &SysRoot,
) -> Result<(), TargetError> {
    inspection.whole_bytes = Some(meta.len());
    inspection.size_bytes = Some(requested_bytes.unwrap_or(meta.len()));
    on_file_system(inspection, canonical, root)?;
    match open_to_read(canonical, OFlags::empty()) {
        Ok(fd) => {
            let range = meta.len().min(requested_bytes.unwrap_or(u64::MAX));
            inspection.extents = extents::extents(&fd, range);
            inspection.marker = marker::read(&fd, canonical);
            inspection.alignment.read_fd(&fd);
            read_content(inspection, &fd, meta.len());
        }
        Err(errno) => inspection.unreadable = Some(errno.to_string()),
    }
    note_container(inspection);
    if let Some(extents) = inspection.extents
        && extents.written_share < 1.0
    {
        inspection.note(format!(
            "Only {:.1} % of the file was ever written; reads of the rest never reach the device.",
            100.0 * extents.written_share
        ));
    }
    Ok(())
}

fn block_device(
    inspection: &mut Inspection,
    canonical: &Path,
    requested_bytes: Option<u64>,
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
    // Without O_DIRECT, stale pages of the device's other nodes could hide its content.
    let opened = open_to_read(canonical, OFlags::DIRECT)
        .or_else(|_| open_to_read(canonical, OFlags::empty()));
    match opened {
        Ok(fd) => {
            let size = capacity_bytes(&fd)
                .map_err(|errno| TargetError::from_errno("learn its size", canonical, errno))?;
            whole = Some(size);
            read_content(inspection, &fd, size);
        }
        Err(errno) => inspection.unreadable = Some(errno.to_string()),
    }
    inspection.whole_bytes = whole;
    inspection.size_bytes = requested_bytes.or(whole);
    if let (Some(requested), Some(whole)) = (requested_bytes, whole)
        && requested > whole
    {
        return Err(TargetError::Unsupported {
            path: text(canonical),
            problem: format!(
                "its size is {}, but {} were requested.",
                human::size(whole),
                human::size(requested)
            ),
            help: "leave the size out to use the whole target, or name a smaller size.".to_owned(),
        });
    }
    if whole == Some(0) {
        inspection.note("It has no capacity: the medium is missing, or the device was not set up.");
    }
    if let Some(file) =
        inspection.device.as_ref().and_then(|device| device.loop_backing_file.clone())
    {
        inspection.note(format!("It is a loop device; its blocks are stored in {file}."));
    }
    note_container(inspection);
    if inspection.content.as_ref().is_some_and(|content| content.empty_boot_sector) {
        inspection.note("It has a boot sector without partitions.");
    }
    if let Some(sampled) = &inspection.sampled
        && sampled.foreign == 0
    {
        let what =
            if sampled.own > 0 { "blank space and iodyno's own test data" } else { "blank space" };
        let text = format!("iodyno found only {what}: {}.", sampled.scope());
        inspection.note(text);
    }
    Ok(())
}

/// Adds a note if the file is a disk image or another container.
fn note_container(inspection: &mut Inspection) {
    let container = inspection.content.as_ref().and_then(Content::container);
    if let Some(Signature { kind, name, .. }) = container {
        let what = kind.noun();
        inspection.note(format!(
            "It holds {what} ({name}); reads return the bytes of the file itself, not of the disk or files inside."
        ));
    }
}

fn open_to_read(path: &Path, extra: OFlags) -> Result<OwnedFd, Errno> {
    // Without O_NONBLOCK, opening a drive without a medium may block.
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    rustix::fs::open(path, flags | extra, Mode::empty())
}

fn read_content(inspection: &mut Inspection, fd: &OwnedFd, size_bytes: u64) {
    read_through(inspection, fd, size_bytes, Depth::FULL);
}

/// Reads signatures and samples of a target through an open descriptor. Does not sample targets that are
/// refused anyway: those with a signature, and files that iodyno did not create.
pub(crate) fn read_through(
    inspection: &mut Inspection,
    fd: &OwnedFd,
    size_bytes: u64,
    depth: Depth,
) {
    (inspection.content, inspection.sampled, inspection.unreadable) = (None, None, None);
    let result = fd.try_clone().and_then(|fd| probe_content(&File::from(fd), size_bytes));
    let result = result.and_then(|content| {
        let is_candidate = inspection.kind == Kind::Block
            || inspection.marker.is_some_and(|marker| marker.fits(size_bytes));
        if is_candidate && content.signatures.is_empty() {
            inspection.sampled = Some(sample_content(fd, size_bytes, depth)?);
        }
        Ok(content)
    });
    match result {
        Ok(content) => inspection.content = Some(content),
        Err(error) => inspection.unreadable = Some(error.to_string()),
    }
}
