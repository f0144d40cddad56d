//! Opens a target: nothing is opened for writing elsewhere, and here only after the guard agreed.
//!
//! Between inspection and opening another file can take the name, so after opening the descriptor is compared
//! with the inspection, and the guard checks again through the descriptor itself. Block devices are claimed
//! with `O_EXCL`, files with a lock; so are those below a loop device. Files that are to be created or grown are opened here and written by
//! [`lay_out`](crate::lay_out).

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

/// The access to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading; the descriptor can't write.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// Options of opening a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// For reading only, or for writing too.
    pub access: Access,
    /// Whether to bypass the page cache. The setting in the target's own name goes first.
    pub direct: Direct,
    /// Names given by `--destroy`.
    pub confirm: Confirm,
    /// A message log that it holds is no reason not to write: the caller goes on with that log.
    pub keeps_log: bool,
    /// Which process claims it for the run.
    pub by: OpenedBy,
}

/// The process of a run that claims a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenedBy {
    /// This one: no other may have it open.
    #[default]
    ThisProcess,
    /// Another process of the same run, which opened it before. This one neither claims it nor refuses it because that
    /// one has it; all other checks hold.
    AnotherRank,
}

impl OpenOptions {
    /// For reading, past the page cache where possible.
    pub fn read_only() -> Self {
        Self {
            access: Access::ReadOnly,
            direct: Direct::Auto,
            confirm: Confirm::default(),
            keeps_log: false,
            by: OpenedBy::ThisProcess,
        }
    }

    /// For reading and writing, past the page cache where possible, nothing confirmed.
    pub fn read_write() -> Self {
        Self { access: Access::ReadWrite, ..Self::read_only() }
    }
}

/// Whether a file's bytes must be written before it can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayOut {
    /// It is a device, or opened for reading only.
    NotNeeded,
    /// It is all there; nothing is to be written.
    Complete,
    /// These bytes are to be written, by [`lay_out`](crate::lay_out).
    Needed {
        /// First byte.
        from_bytes: u64,
        /// End.
        to_bytes: u64,
    },
}

/// The action when the target is dropped before its lay-out is complete.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    Nothing,
    /// A new file is removed.
    Remove(PathBuf),
    /// A file that was there gets its length and its mark back.
    Restore {
        path: PathBuf,
        len_bytes: u64,
        marker: Option<Marker>,
    },
}

/// An open target.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor. All engines and threads may share it.
    pub fd: OwnedFd,
    /// The access that it was opened for.
    pub access: Access,
    /// Bytes that may be used, from offset 0: a multiple of `align_bytes`.
    pub capacity_bytes: u64,
    /// Multiple of offsets and lengths; 1 where there is no restriction.
    pub align_bytes: u64,
    /// Multiple of buffers' addresses; 1 where there is no restriction.
    pub mem_align_bytes: u64,
    /// The page cache is bypassed.
    pub direct: bool,
    /// Why it is not, as a sentence.
    pub why_not_direct: Option<String>,
    /// I/O is to leave nothing in the page cache: each read and write asks for it.
    pub uncached: bool,
    /// The page cache is in the path: reads and writes can be answered by memory.
    pub page_cache: bool,
    /// The way past the block layer; the descriptor then only claims the device.
    pub passthrough: Option<NvmePassthrough>,
    /// The file was made by this opening.
    pub made_here: bool,
    /// The range to be written first.
    pub lay_out: LayOut,
    /// Refusals that `--destroy` lifted, for the record.
    pub lifted: Vec<Refusal>,
    /// The inspection, with the facts that opening it added.
    pub inspection: Inspection,
    pub(crate) undo: Undo,
    /// What is below a loop device, held as long as this is open.
    claims: Vec<OwnedFd>,
}

impl Opened {
    /// Bytes that the lay-out will write.
    pub fn lay_out_bytes(&self) -> u64 {
        match self.lay_out {
            LayOut::Needed { from_bytes, to_bytes } => to_bytes - from_bytes,
            LayOut::NotNeeded | LayOut::Complete => 0,
        }
    }

    /// The path that it was opened by, or for a scratch file its directory.
    pub(crate) fn path(&self) -> PathBuf {
        inspect::open_path(&self.inspection)
    }

    /// Undoes the opening: removes a new file, if it still has its name, gives an old one its length and mark.
    pub(crate) fn take_back(&mut self) {
        match core::mem::replace(&mut self.undo, Undo::Nothing) {
            Undo::Nothing => {}
            Undo::Remove(path) => marker::remove(&self.fd, &path),
            Undo::Restore { path, len_bytes, marker } => {
                // A failure leaves a file whose mark says that it is not complete, which is true.
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

/// Inspects, guards and opens a target of the running system.
///
/// # Errors
/// Those of [`inspect`](crate::inspect()) and of [`open_inspected`].
pub fn open(name: &TargetName, options: &OpenOptions) -> Result<Opened, TargetError> {
    open_inspected(inspect::inspect(name)?, options)
}

/// Guards and opens a target that was inspected before.
///
/// [`TargetError::Refused`] when it must not be written, [`TargetError::Changed`] when another file or device
/// has its name by now, [`TargetError::Unsupported`] when it can't be opened as requested (`null:`, `ram:`,
/// emulated targets and NBD exports have no descriptor; a device without direct I/O that was required),
/// [`TargetError::NotFound`], [`TargetError::Permission`], [`TargetError::Io`].
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
            problem: "it has no descriptor to open.".to_owned(),
            help: "use the engine of the same name.".to_owned(),
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

/// Lifts what the options allow.
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

/// Reading destroys nothing, but a terminal or a directory is no target either way, and a file that is not
/// there can't be read.
fn check_readable(inspection: &Inspection, root: &SysRoot) -> Result<(), TargetError> {
    if matches!(inspection.kind, Kind::Char | Kind::Other) {
        let refusals = guard::check_writable(inspection, root);
        guard::confirm(inspection, refusals, &Confirm::default())?;
    }
    if !inspection.exists {
        return Err(TargetError::Unsupported {
            path: inspection.name.to_string(),
            problem: "it would have to be made first, and --read-only writes nothing.".to_owned(),
            help: "run once without --read-only, or name a file that is there.".to_owned(),
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

/// Fails when the descriptor is not the inspected file or device.
fn check_identity(fd: &OwnedFd, inspection: &Inspection, path: &Path) -> Result<(), TargetError> {
    // Through `File` for its metadata; the duplicate is closed again at once.
    let meta = fd.try_clone().and_then(|fd| File::from(fd).metadata());
    let meta =
        meta.map_err(|error| TargetError::from_errno("look at it", path, errno_of(&error)))?;
    if Some(Identity::of(&meta)) == inspection.identity {
        return Ok(());
    }
    Err(TargetError::Changed {
        path: path.display().to_string(),
        problem: "another file or device took its name".to_owned(),
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
            help: format!("say how much of it to use, such as {}?size=8GiB", path.display()),
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
        // The devices built on it hold it, which was confirmed.
        Err(Errno::BUSY) if lifted.iter().any(|refusal| refusal.code == RefusalCode::Member) => {
            rustix::fs::open(&path, flags(options), Mode::empty())
        }
        // Taken since the guard's check.
        Err(Errno::BUSY) if for_writing => return Err(claims::taken(&inspection, &path)),
        result => result,
    };
    let fd = fd.map_err(|errno| TargetError::from_errno(verb(options), &path, errno))?;
    check_identity(&fd, &inspection, &path)?;
    let claims = if claims { claims::beneath(&inspection, &lifted, root)? } else { Vec::new() };
    if for_writing {
        inspect_again(&mut inspection, &fd)?;
        let refusals = guard::check_through_descriptor(&inspection, root);
        // Other holders can no longer be queried: by now this process holds it.
        lifted.retain(|refusal| refusal.code == RefusalCode::OpenElsewhere);
        lifted.splice(0..0, confirmed(&inspection, refusals, options)?);
    }
    let cache = direct::set(&fd, &mut inspection, options, &path)?;
    if inspection.generic.is_some() && !cache.direct {
        return Err(TargetError::Unsupported {
            path: inspection.name.to_string(),
            problem: "NVMe commands know no page cache.".to_owned(),
            help: "leave direct=no and uncached=yes out, or name the block device.".to_owned(),
        });
    }
    let passthrough = nvme_generic::open(&fd, &inspection, options)?;
    let capacity_bytes = inspection.size_bytes.or(inspection.whole_bytes).unwrap_or(0);
    if capacity_bytes < cache.align_bytes {
        return Err(TargetError::TooSmall {
            path: path.display().to_string(),
            have_bytes: capacity_bytes,
            help: "check that it has a medium and was set up.".to_owned(),
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

/// Reads mark, length and content again, through the descriptor that will be written.
fn inspect_again(inspection: &mut Inspection, fd: &OwnedFd) -> Result<(), TargetError> {
    let path = inspect::open_path(inspection);
    let at = |errno| TargetError::from_errno("inspect it again", &path, errno);
    let size = inspect::capacity_bytes(fd).map_err(at)?;
    inspection.whole_bytes = Some(size);
    if inspection.kind == Kind::File {
        inspection.marker = marker::read(fd, &path);
    }
    // The findings of the first check stand: the second one, which checks less, only adds to them.
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
