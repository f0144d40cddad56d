//! Opens a target. Besides `scratch`, no other module opens a target for writing, and this one does so only after the
//! guard has agreed.
//!
//! Another file can take the name between inspection and opening. So the open descriptor is compared with the
//! inspection, and the guard checks again through the descriptor itself. Block devices are claimed with `O_EXCL`, and
//! files with a lock. The backing of a loop device is claimed too. Files that are to be created or grown are opened
//! here and written by [`lay_out`](crate::lay_out).

mod claims;
mod direct;
mod file;
mod nvme_generic;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::blank::Depth;
use crate::error::{Refusal, RefusalCode, TargetError, errno_of};
use crate::guard::{self, Confirm};
use crate::inspect::{self, Identity, Inspection, Kind};
use crate::marker::{self, Marker};
use crate::name::{Direct, TargetName};
use crate::scratch;
use crate::sysroot::SysRoot;
use direct::PageCache;
pub use nvme_generic::NvmePassthrough;

/// Kind of access to a target: reading only, or also writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; the descriptor can't write.
    ReadOnly,
    /// Reading and writing. Opening fails if the guard refuses, for example because the target holds data.
    ReadWrite,
}

/// Options for opening a target: access, page cache, confirmed overwriting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    pub access: Access,
    /// Use of the page cache. A setting in the target's name takes precedence.
    pub direct: Direct,
    /// Names of the targets whose data may be overwritten, from `--destroy`.
    pub confirm: Confirm,
    /// True if the caller will continue a message log on the target, so that the log is not a reason to refuse.
    pub keeps_log: bool,
    /// Which process of the run claims the target exclusively.
    pub by: OpenedBy,
}

/// Which process of a run claims a target exclusively: the one that opens it now, or another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenedBy {
    /// This process. No other process may have the target open.
    #[default]
    ThisProcess,
    /// Another process of the same run has opened the target before. This process opens it too, despite that
    /// process's claim. All other checks apply.
    AnotherRank,
}

impl OpenOptions {
    /// Options to open a target for reading, bypassing the page cache if possible.
    pub fn read_only() -> Self {
        Self {
            access: Access::ReadOnly,
            direct: Direct::Auto,
            confirm: Confirm::default(),
            keeps_log: false,
            by: OpenedBy::ThisProcess,
        }
    }

    /// Options to open a target for reading and writing, bypassing the page cache if possible. A target that holds data
    /// is refused.
    pub fn read_write() -> Self {
        Self { access: Access::ReadWrite, ..Self::read_only() }
    }
}

/// Part of a file that must be written before it can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayOut {
    /// No part: the target is a device or is opened for reading only.
    NotNeeded,
    /// No part: every byte of the file has been written.
    Complete,
    /// This range must be written first, by [`lay_out`](crate::lay_out).
    Needed {
        /// Offset of the first byte to write.
        from_bytes: u64,
        /// End of the range: the offset after the last byte to write.
        to_bytes: u64,
    },
}

/// Change to undo if a target is dropped before its file is completely written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    Nothing,
    /// Remove the new file at this path.
    Remove(PathBuf),
    /// Restore the length and iodyno's mark of an existing file.
    Restore {
        path: PathBuf,
        len_bytes: u64,
        marker: Option<Marker>,
    },
}

/// An open target: its descriptor, size, required alignment, and use of the page cache.
#[derive(Debug)]
pub struct Opened {
    /// File descriptor, which all I/O engines and threads may share.
    pub fd: OwnedFd,
    pub access: Access,
    /// Usable bytes from offset 0; a multiple of `align_bytes`.
    pub capacity_bytes: u64,
    /// Offsets and lengths of I/O must be multiples of this; 1 means no restriction.
    pub align_bytes: u64,
    /// Buffer addresses must be multiples of this, bytes; 1 means no restriction.
    pub mem_align_bytes: u64,
    /// True if I/O bypasses the page cache.
    pub direct: bool,
    /// Reason why the page cache is not bypassed, as a sentence; `None` if it is bypassed.
    pub why_not_direct: Option<String>,
    /// True if each read and write must ask the kernel to leave no pages in the page cache.
    pub uncached: bool,
    /// True if the page cache is in use: reads and writes may then access only memory.
    pub page_cache: bool,
    /// NVMe passthrough access; `fd` then only claims the block device. `None` unless the target was named by its NVMe
    /// character device.
    pub passthrough: Option<NvmePassthrough>,
    /// True if opening the target created the file.
    pub made_here: bool,
    /// Part of the file that must be written before measurement.
    pub lay_out: LayOut,
    /// Refusals to write that `--destroy` overrode, for the report.
    pub lifted: Vec<Refusal>,
    /// Result of the inspection, updated with facts found while opening.
    pub inspection: Inspection,
    pub(crate) undo: Undo,
    /// Descriptors of loop devices' backing storage, held exclusively while the target is open.
    claims: Vec<OwnedFd>,
}

impl Opened {
    /// Number of bytes to write before the target can be measured.
    pub fn lay_out_bytes(&self) -> u64 {
        match self.lay_out {
            LayOut::Needed { from_bytes, to_bytes } => to_bytes - from_bytes,
            LayOut::NotNeeded | LayOut::Complete => 0,
        }
    }

    /// Path at which the target was opened; for a scratch file, its directory.
    pub(crate) fn path(&self) -> PathBuf {
        inspect::open_path(&self.inspection)
    }

    /// Keeps a new file on drop although `lay_out` did not complete it, for workloads that write all of its content
    /// themselves. The file's mark says that it is incomplete, so a later run lays it out before it reads from it.
    pub fn keep(&mut self) {
        if matches!(self.undo, Undo::Remove(_)) {
            self.undo = Undo::Nothing;
        }
    }

    /// Undoes the opening: removes a new file if its path still leads to it, or restores an existing file's
    /// length and mark.
    pub(crate) fn take_back(&mut self) {
        match core::mem::replace(&mut self.undo, Undo::Nothing) {
            Undo::Nothing => {}
            Undo::Remove(path) => marker::remove(&self.fd, &path),
            Undo::Restore { path, len_bytes, marker } => {
                // On failure the mark says that the file is incomplete, which is true.
                if rustix::fs::ftruncate(&self.fd, len_bytes).is_ok()
                    && let Some(marker) = marker
                {
                    let _ = marker::write(&self.fd, &path, marker);
                }
            }
        }
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.take_back();
        if matches!(self.inspection.name, TargetName::Scratch { .. }) {
            scratch::free_blocks(&self.fd);
        }
    }
}

/// Inspects a target of the running system, checks that it may be written, and opens it.
///
/// # Errors
/// Errors of [`inspect`](crate::inspect()) and of [`open_inspected`].
pub fn open(name: &TargetName, options: &OpenOptions) -> Result<Opened, TargetError> {
    open_inspected(inspect::inspect(name)?, options)
}

/// Opens an inspected target after checking that it may be accessed as requested.
///
/// Fails with [`TargetError::Refused`] if the target must not be written, and [`TargetError::Changed`] if
/// another file or device has taken its name. [`TargetError::Unsupported`]: required direct I/O is missing,
/// or the target has no descriptor (`null:`, `ram:`, emulated targets and NBD exports). Also
/// [`TargetError::NotFound`], [`TargetError::Permission`] and [`TargetError::Io`].
pub fn open_inspected(
    inspection: Inspection,
    options: &OpenOptions,
) -> Result<Opened, TargetError> {
    let root = SysRoot::real();
    let lifted = match options.access {
        Access::ReadWrite => allowed(&inspection, &root, options)?,
        Access::ReadOnly => {
            check_readable(&inspection, &root)?;
            Vec::new()
        }
    };
    match inspection.kind {
        Kind::Null | Kind::Ram | Kind::Model | Kind::Nbd => Err(TargetError::Unsupported {
            path: inspection.name.to_string(),
            problem: "this kind of target has no file to open.".to_owned(),
            help: "use the engine of the same name, such as `ram` or `nbd`.".to_owned(),
        }),
        Kind::File if inspection.is_scratch() => file::scratch(inspection, options),
        Kind::File if !inspection.exists => file::create(inspection, options),
        Kind::File => file::existing(inspection, options, &root),
        Kind::Block => open_block(inspection, options, lifted, &root),
        Kind::Char | Kind::Other => open_char(inspection, options),
    }
}

fn allowed(
    inspection: &Inspection,
    root: &SysRoot,
    options: &OpenOptions,
) -> Result<Vec<Refusal>, TargetError> {
    confirmed(inspection, guard::check_writable(inspection, root), options)
}

/// Drops the refusals that do not apply with these options, and lifts those that the names from `--destroy` confirm.
/// Returns the lifted refusals. Fails if any other refusal is left.
fn confirmed(
    inspection: &Inspection,
    mut refusals: Vec<Refusal>,
    options: &OpenOptions,
) -> Result<Vec<Refusal>, TargetError> {
    if options.keeps_log {
        refusals = guard::with_log_kept(inspection, refusals);
    }
    if options.by == OpenedBy::AnotherRank {
        let by_other = [RefusalCode::OpenElsewhere, RefusalCode::Held, RefusalCode::Locked];
        refusals.retain(|refusal| !by_other.contains(&refusal.code));
    }
    guard::confirm(inspection, refusals, &options.confirm)
}

/// Fails if the target can't be read: a terminal, a directory, or a file that does not exist.
fn check_readable(inspection: &Inspection, root: &SysRoot) -> Result<(), TargetError> {
    if matches!(inspection.kind, Kind::Char | Kind::Other) {
        let refusals = guard::check_writable(inspection, root);
        guard::confirm(inspection, refusals, &Confirm::default())?;
    }
    if !inspection.exists {
        return Err(TargetError::Unsupported {
            path: inspection.name.to_string(),
            problem: "the file does not exist, and --read-only does not create it.".to_owned(),
            help: "run once without --read-only, or name an existing file.".to_owned(),
        });
    }
    Ok(())
}

fn flags(options: &OpenOptions) -> OFlags {
    let access = match options.access {
        Access::ReadOnly => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW
}

fn verb(options: &OpenOptions) -> &'static str {
    match options.access {
        Access::ReadOnly => "open it for reading",
        Access::ReadWrite => "open it for writing",
    }
}

/// Fails if the descriptor is not of the inspected file or device.
fn check_identity(fd: &OwnedFd, inspection: &Inspection, path: &Path) -> Result<(), TargetError> {
    // `File` gives the metadata; the duplicate is closed immediately.
    let meta = fd.try_clone().and_then(|fd| File::from(fd).metadata());
    let meta =
        meta.map_err(|error| TargetError::from_errno("look at it", path, errno_of(&error)))?;
    if Some(Identity::of(&meta)) == inspection.identity {
        return Ok(());
    }
    Err(TargetError::Changed {
        path: path.display().to_string(),
        problem: "another file or device replaced it".to_owned(),
    })
}

struct Ready {
    fd: OwnedFd,
    cache: PageCache,
    capacity_bytes: u64,
    made_here: bool,
    lay_out: LayOut,
    lifted: Vec<Refusal>,
    undo: Undo,
}

fn opened(inspection: Inspection, options: &OpenOptions, ready: Ready) -> Opened {
    let page_cache = !ready.cache.direct && matches!(inspection.kind, Kind::File | Kind::Block);
    Opened {
        fd: ready.fd,
        access: options.access,
        capacity_bytes: ready.capacity_bytes / ready.cache.align_bytes * ready.cache.align_bytes,
        align_bytes: ready.cache.align_bytes,
        mem_align_bytes: ready.cache.mem_align_bytes,
        direct: ready.cache.direct,
        why_not_direct: ready.cache.why_not,
        uncached: ready.cache.uncached,
        page_cache,
        passthrough: None,
        claims: Vec::new(),
        made_here: ready.made_here,
        lay_out: ready.lay_out,
        lifted: ready.lifted,
        inspection,
        undo: ready.undo,
    }
}

fn open_char(inspection: Inspection, options: &OpenOptions) -> Result<Opened, TargetError> {
    let path = inspect::open_path(&inspection);
    let Some(capacity_bytes) = inspection.size_bytes else {
        return Err(TargetError::BadName {
            name: path.display().to_string(),
            problem: "a character device has no size of its own.".to_owned(),
            help: format!("give the size to use, such as {}?size=8GiB", path.display()),
        });
    };
    let fd = rustix::fs::open(&path, flags(options), Mode::empty())
        .map_err(|errno| TargetError::from_errno(verb(options), &path, errno))?;
    check_identity(&fd, &inspection, &path)?;
    match direct::requested(&inspection, options) {
        Direct::Require => {
            return Err(direct::refused(&path, "a character device has no page cache to bypass."));
        }
        Direct::Uncached => {
            return Err(direct::refused_uncached(&path, "a character device has no page cache."));
        }
        Direct::Auto | Direct::Off => {}
    }
    let cache = PageCache {
        direct: false,
        why_not: Some("A character device has no page cache to bypass.".to_owned()),
        uncached: false,
        align_bytes: 1,
        mem_align_bytes: 1,
    };
    let ready = Ready {
        fd,
        cache,
        capacity_bytes,
        made_here: false,
        lay_out: LayOut::NotNeeded,
        lifted: Vec::new(),
        undo: Undo::Nothing,
    };
    Ok(opened(inspection, options, ready))
}

fn open_block(
    mut inspection: Inspection,
    options: &OpenOptions,
    mut lifted: Vec<Refusal>,
    root: &SysRoot,
) -> Result<Opened, TargetError> {
    let path = inspect::open_path(&inspection);
    let for_writing = options.access == Access::ReadWrite;
    let claims = for_writing && options.by == OpenedBy::ThisProcess;
    let exclusive = if claims { OFlags::EXCL } else { OFlags::empty() };
    let fd = match rustix::fs::open(&path, flags(options) | exclusive, Mode::empty()) {
        // Busy because of the devices built on it, which was confirmed.
        Err(Errno::BUSY) if lifted.iter().any(|refusal| refusal.code == RefusalCode::Member) => {
            rustix::fs::open(&path, flags(options), Mode::empty())
        }
        // Another process claimed the device after the guard's check.
        Err(Errno::BUSY) if for_writing => return Err(claims::taken(&inspection, &path)),
        result => result,
    };
    let fd = fd.map_err(|errno| TargetError::from_errno(verb(options), &path, errno))?;
    check_identity(&fd, &inspection, &path)?;
    let claims = if claims { claims::beneath(&inspection, &lifted, root)? } else { Vec::new() };
    if for_writing {
        inspect_again(&mut inspection, &fd)?;
        let refusals = guard::check_through_descriptor(&inspection, root);
        // This process now holds the device, so a new check can't find other holders.
        lifted.retain(|refusal| refusal.code == RefusalCode::OpenElsewhere);
        lifted.splice(0..0, confirmed(&inspection, refusals, options)?);
    }
    let cache = direct::set(&fd, &mut inspection, options, &path)?;
    if inspection.generic.is_some() && !cache.direct {
        return Err(TargetError::Unsupported {
            path: inspection.name.to_string(),
            problem: "NVMe commands bypass the page cache.".to_owned(),
            help: "leave direct=no and uncached=yes out, or name the block device.".to_owned(),
        });
    }
    let passthrough = nvme_generic::open(&fd, &inspection, options)?;
    let capacity_bytes = inspection.size_bytes.or(inspection.whole_bytes).unwrap_or(0);
    if capacity_bytes < cache.align_bytes {
        return Err(TargetError::TooSmall {
            path: path.display().to_string(),
            have_bytes: capacity_bytes,
            help: "check that the device has a medium and is set up.".to_owned(),
        });
    }
    let ready = Ready {
        fd,
        cache,
        capacity_bytes,
        made_here: false,
        lay_out: LayOut::NotNeeded,
        lifted,
        undo: Undo::Nothing,
    };
    let mut opened = opened(inspection, options, ready);
    opened.passthrough = passthrough;
    opened.claims = claims;
    Ok(opened)
}

/// Repeats the inspection of mark, length and content through the descriptor that will be used for writing.
fn inspect_again(inspection: &mut Inspection, fd: &OwnedFd) -> Result<(), TargetError> {
    let path = inspect::open_path(inspection);
    let at = |errno| TargetError::from_errno("inspect it again", &path, errno);
    let size = inspect::capacity_bytes(fd).map_err(at)?;
    inspection.whole_bytes = Some(size);
    if inspection.kind == Kind::File {
        inspection.marker = marker::read(fd, &path);
    }
    // The second sampling checks less, so it can only add to the first one's findings.
    let first = inspection.sampled.take();
    inspect::path::read_through(inspection, fd, size, Depth::AGAIN);
    if let (Some(first), Some(again)) = (first, &inspection.sampled)
        && again.foreign == 0
    {
        inspection.sampled = Some(first);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
