//! Lay-out: writes every byte of a file once before measurement. Otherwise reads of unwritten blocks cost nothing, and
//! the first writes pay for allocation: a file that was only truncated or preallocated reads faster than the device
//! below, and writes slower.
//!
//! Space is reserved first if the file system supports this, so that a shortage shows at once and the file has fewer
//! extents. If anything fails, or the caller stops, a new file is removed and an old one gets its length back.

use core::ops::ControlFlow;

use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs, fsync, ftruncate};
use rustix::io::Errno;

use crate::aligned::AlignedBuf;
use crate::error::TargetError;
use crate::inspect;
use crate::marker::{self, Marker};
use crate::open::{LayOut, Opened, Undo};

/// Length of one write: long enough to make its overhead negligible, short enough to show progress.
const PIECE_BYTES: u64 = 4 << 20;

/// Reason why the writing of a file stopped before its end.
enum Stop {
    Failed(&'static str, Errno),
    ByCaller(u64),
}

/// Writes the part of a file that must exist before measurement ([`Opened::lay_out`]). `fill` fills a buffer
/// with the content for an offset. After each write, `progress` receives the bytes written and the total, and
/// may stop the work.
///
/// # Errors
/// [`TargetError::NoSpace`] if the file does not fit, [`TargetError::Interrupted`] if `progress` stopped the
/// work, otherwise [`TargetError::Io`] and [`TargetError::Permission`]. After an error the target is
/// unusable.
pub fn lay_out(
    opened: &mut Opened,
    fill: &mut dyn FnMut(&mut [u8], u64),
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), TargetError> {
    let LayOut::Needed { from_bytes, to_bytes } = opened.lay_out else {
        return Ok(());
    };
    let taken_before = taken_bytes(opened);
    match write(opened, from_bytes, to_bytes, fill, progress)
        .and_then(|()| finish(opened, to_bytes))
    {
        Ok(()) => {
            opened.undo = Undo::Nothing;
            opened.lay_out = LayOut::Complete;
            opened.inspection.whole_bytes = Some(to_bytes);
            opened.inspection.extents = inspect::extents_of(&opened.fd, opened.capacity_bytes);
            Ok(())
        }
        Err(stop) => {
            let free_bytes = free_bytes(opened) + taken_bytes(opened).saturating_sub(taken_before);
            // Extent map blocks count as occupied, but not towards the length.
            let had_bytes = taken_before.min(opened.inspection.whole_bytes.unwrap_or(0));
            opened.take_back();
            let total_bytes = to_bytes - from_bytes;
            Err(explain(opened, &stop, total_bytes, to_bytes - had_bytes, free_bytes))
        }
    }
}

fn write(
    opened: &Opened,
    from_bytes: u64,
    to_bytes: u64,
    fill: &mut dyn FnMut(&mut [u8], u64),
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), Stop> {
    if let Some(marker) = opened.inspection.marker
        && marker != Marker::Making(to_bytes)
        && is_ours(opened)
    {
        // Mark before the length changes: if the run is killed in between, the file would look foreign.
        marker::write(&opened.fd, &opened.path(), Marker::Making(to_bytes))
            .map_err(|errno| Stop::Failed("mark it", errno))?;
    }
    // If the file system can't reserve space, a shortage shows while writing.
    let reserved =
        fallocate(&opened.fd, FallocateFlags::empty(), from_bytes, to_bytes - from_bytes);
    if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
        return Err(Stop::Failed("reserve its space", errno));
    }
    let total = to_bytes - from_bytes;
    let mut buf = AlignedBuf::zeroed(PIECE_BYTES.min(total) as usize);
    let mut at = from_bytes;
    while at < to_bytes {
        let len = PIECE_BYTES.min(to_bytes - at) as usize;
        fill(&mut buf[..len], at);
        let mut written = 0;
        while written < len {
            match rustix::io::pwrite(&opened.fd, &buf[written..len], at + written as u64) {
                Ok(0) => return Err(Stop::Failed("write to it", Errno::IO)),
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Stop::Failed("write to it", errno)),
            }
        }
        at += len as u64;
        if progress(at - from_bytes, total).is_break() {
            return Err(Stop::ByCaller(at - from_bytes));
        }
    }
    Ok(())
}

/// Empties a file created by this run, so that a workload can write it for the first time. Reserves its space
/// again if `is_allocated`.
///
/// # Errors
/// [`TargetError::Unsupported`] for any other target, and for a file system that can't reserve space;
/// [`TargetError::NoSpace`], [`TargetError::Io`] and [`TargetError::Permission`].
pub fn make_anew(opened: &Opened, is_allocated: bool) -> Result<(), TargetError> {
    let path = opened.path();
    let unsupported = |problem: &str| {
        TargetError::Unsupported {
        path: path.display().to_string(),
        problem: problem.to_owned(),
        help: "name a scratch file on a file system that can reserve space, or a workload without `new_file`.".to_owned(),
    }
    };
    if !opened.made_here {
        return Err(unsupported("this run did not make the file, so the run does not empty it."));
    }
    ftruncate(&opened.fd, 0).map_err(|errno| TargetError::from_errno("empty it", &path, errno))?;
    if is_allocated {
        let reserved = fallocate(&opened.fd, FallocateFlags::empty(), 0, opened.capacity_bytes);
        match reserved {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP) => {
                return Err(unsupported("its file system can't reserve space."));
            }
            Err(errno) => {
                let (wanted_bytes, free_bytes) = (opened.capacity_bytes, free_bytes(opened));
                let stop = Stop::Failed("reserve its space", errno);
                return Err(explain(opened, &stop, wanted_bytes, wanted_bytes, free_bytes));
            }
        }
    }
    fsync(&opened.fd).map_err(|errno| TargetError::from_errno("make it durable", &path, errno))
}

/// True if iodyno created the file. A foreign file that the user confirmed is never marked, so that the next
/// run refuses it again.
fn is_ours(opened: &Opened) -> bool {
    let restored = match &opened.undo {
        Undo::Restore { marker, .. } => marker.is_some(),
        Undo::Remove(_) => true,
        Undo::Nothing => false,
    };
    restored && !opened.inspection.is_scratch()
}

fn finish(opened: &mut Opened, to_bytes: u64) -> Result<(), Stop> {
    fsync(&opened.fd).map_err(|errno| Stop::Failed("make it durable", errno))?;
    if is_ours(opened) {
        marker::write(&opened.fd, &opened.path(), Marker::LaidOut(to_bytes))
            .map_err(|errno| Stop::Failed("mark it", errno))?;
        opened.inspection.marker = Some(Marker::LaidOut(to_bytes));
        // Sync the mark separately: it must not reach the disk if a power cut loses the data.
        fsync(&opened.fd).map_err(|errno| Stop::Failed("make it durable", errno))?;
    }
    Ok(())
}

/// Bytes allocated to the file on its file system.
fn taken_bytes(opened: &Opened) -> u64 {
    fstat(&opened.fd).map_or(0, |stat| stat.st_blocks as u64 * 512)
}

fn free_bytes(opened: &Opened) -> u64 {
    fstatvfs(&opened.fd).map_or(0, |stat| stat.f_frsize.saturating_mul(stat.f_bavail))
}

fn explain(
    opened: &Opened,
    stop: &Stop,
    total_bytes: u64,
    wanted_bytes: u64,
    free_bytes: u64,
) -> TargetError {
    let path = opened.path();
    let shown = path.display().to_string();
    match *stop {
        Stop::ByCaller(done_bytes) => {
            TargetError::Interrupted { path: shown, done_bytes, total_bytes }
        }
        Stop::Failed(_, errno @ (Errno::NOSPC | Errno::DQUOT)) => {
            let why = if errno == Errno::DQUOT {
                "The quota is used up"
            } else {
                "The file system is full"
            };
            TargetError::NoSpace {
                path: shown,
                wanted_bytes,
                free_bytes,
                help: format!(
                    "{why}; the incomplete file was removed. Free some space, name a smaller size, \
                     or choose another file system."
                ),
            }
        }
        Stop::Failed(_, Errno::FBIG) => TargetError::Unsupported {
            path: shown,
            problem: "the file system can't hold a file of this size.".to_owned(),
            help: "name a smaller size, or choose another file system.".to_owned(),
        },
        Stop::Failed(op, errno) => TargetError::from_errno(op, &path, errno),
    }
}
