//! Opens regular files: existing, new and scratch files. Decides which part must be written before measurement;
//! [`lay_out`](crate::lay_out()) writes it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use iodyno_units::human;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{
    Access, LayOut, OpenOptions, Opened, OpenedBy, Ready, Undo, check_identity, confirmed, direct,
    flags, inspect_again, opened, verb,
};
use crate::error::{TargetError, errno_of};
use crate::guard::{self, Confirm};
use crate::inspect::{self, Identity, Inspection};
use crate::marker::{self, Marker};
use crate::sysroot::SysRoot;

/// Granularity of the length of files created by iodyno, so that the last page is complete.
const FILE_STEP_BYTES: u64 = 4096;

pub(super) fn existing(
    mut inspection: Inspection,
    options: &OpenOptions,
    root: &SysRoot,
) -> Result<Opened, TargetError> {
    let path = inspect::open_path(&inspection);
    let fd = rustix::fs::open(&path, flags(options), Mode::empty())
        .map_err(|errno| TargetError::from_errno(verb(options), &path, errno))?;
    check_identity(&fd, &inspection, &path)?;
    let mut lifted = Vec::new();
    if options.access == Access::ReadWrite {
        if options.by == OpenedBy::ThisProcess {
            lock(&fd, &inspection, &path)?;
        }
        inspect_again(&mut inspection, &fd)?;
        let refusals = guard::check_through_descriptor(&inspection, root);
        lifted = confirmed(&inspection, refusals, options)?;
    }
    let cache = direct::set(&fd, &mut inspection, options, &path)?;
    let len_bytes = inspection.whole_bytes.unwrap_or(0);
    let wanted_bytes = inspection.size_bytes.unwrap_or(len_bytes);
    if options.access == Access::ReadOnly && wanted_bytes > len_bytes {
        return Err(TargetError::Unsupported {
            path: path.display().to_string(),
            problem: format!(
                "its size is {}, but {} were requested; --read-only does not grow a file.",
                human::size(len_bytes),
                human::size(wanted_bytes)
            ),
            help: "leave the size out to use the whole file.".to_owned(),
        });
    }
    if wanted_bytes < cache.align_bytes {
        return Err(TargetError::TooSmall {
            path: path.display().to_string(),
            have_bytes: wanted_bytes,
            help: format!("give its size: {}?size=8GiB", path.display()),
        });
    }
    let is_ours = inspection.marker.is_some_and(|marker| marker.fits(len_bytes));
    let lay_out = if options.access == Access::ReadOnly {
        LayOut::NotNeeded
    } else {
        needed(
            &inspection,
            is_ours,
            len_bytes,
            file_len(wanted_bytes, cache.align_bytes),
            cache.align_bytes,
        )
    };
    let undo = match lay_out {
        LayOut::Needed { .. } => Undo::Restore {
            path: path.clone(),
            len_bytes,
            marker: inspection.marker.filter(|_| is_ours),
        },
        _ => Undo::Nothing,
    };
    let ready =
        Ready { fd, cache, capacity_bytes: wanted_bytes, made_here: false, lay_out, lifted, undo };
    Ok(opened(inspection, options, ready))
}

/// Length of a new file for `wanted_bytes`, rounded up to whole pages and blocks.
fn file_len(wanted_bytes: u64, align_bytes: u64) -> u64 {
    wanted_bytes.next_multiple_of(FILE_STEP_BYTES.max(align_bytes))
}

/// Part of an existing file that must be written: all of it if the file has holes or an earlier run did not
/// finish creating it, the added end if it must grow, otherwise nothing.
fn needed(
    inspection: &Inspection,
    is_ours: bool,
    len_bytes: u64,
    to_bytes: u64,
    align_bytes: u64,
) -> LayOut {
    let cut_short = is_ours && matches!(inspection.marker, Some(Marker::Making(_)));
    let has_holes = inspection.extents.is_some_and(|extents| extents.written_share < 1.0);
    if cut_short || has_holes {
        return LayOut::Needed {
            from_bytes: 0,
            to_bytes: to_bytes.max(len_bytes.next_multiple_of(align_bytes)),
        };
    }
    let whole_bytes = len_bytes / align_bytes * align_bytes;
    if len_bytes >= to_bytes || inspection.size_bytes.is_none_or(|wanted| wanted <= len_bytes) {
        LayOut::Complete
    } else {
        LayOut::Needed { from_bytes: whole_bytes, to_bytes }
    }
}

/// Number of repeated attempts to lock a file, over 1 s in all.
const LOCK_TRIES: u32 = 20;
const LOCK_TRY_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// Locks a file, because two runs on one file would disturb each other's results.
pub(super) fn lock(fd: &OwnedFd, inspection: &Inspection, path: &Path) -> Result<(), TargetError> {
    let take = || rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive);
    let mut taken = take();
    // The kernel closes the files of an io_uring some time after its process has ended.
    for _ in 0..LOCK_TRIES {
        if taken != Err(Errno::WOULDBLOCK) {
            break;
        }
        std::thread::sleep(LOCK_TRY_EVERY);
        taken = take();
    }
    match taken {
        Err(Errno::WOULDBLOCK) => {
            let refusals = vec![guard::locked(path)];
            guard::confirm(inspection, refusals, &Confirm::default()).map(|_| ())
        }
        // Some network file systems have no locks; two runs then can't detect each other.
        _ => Ok(()),
    }
}

pub(super) fn create(
    mut inspection: Inspection,
    options: &OpenOptions,
) -> Result<Opened, TargetError> {
    let path = inspect::open_path(&inspection);
    let flags = flags(options) | OFlags::CREATE | OFlags::EXCL;
    let fd = match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::EXIST) => {
            return Err(TargetError::Changed {
                path: path.display().to_string(),
                problem: "another process created it".to_owned(),
            });
        }
        result => result.map_err(|errno| TargetError::from_errno("make it", &path, errno))?,
    };
    let mut undo = Undo::Remove(path.clone());
    let made = (|| {
        lock(&fd, &inspection, &path)?;
        let wanted_bytes = inspection.size_bytes.unwrap_or(0);
        let cache = direct::set(&fd, &mut inspection, options, &path)?;
        let to_bytes = file_len(wanted_bytes, cache.align_bytes);
        // From here on a killed run leaves a file that is marked as iodyno's.
        marker::write(&fd, &path, Marker::Making(to_bytes))
            .map_err(|errno| TargetError::from_errno("mark it as made by iodyno", &path, errno))?;
        inspection.marker = Some(Marker::Making(to_bytes));
        let meta = fs::symlink_metadata(&path)
            .map_err(|error| TargetError::from_errno("look at it", &path, errno_of(&error)))?;
        inspection.identity = Some(Identity::of(&meta));
        Ok((cache, wanted_bytes, to_bytes))
    })();
    match made {
        Ok((cache, wanted_bytes, to_bytes)) => {
            inspection.exists = true;
            let ready = Ready {
                fd,
                cache,
                capacity_bytes: wanted_bytes,
                made_here: true,
                lay_out: LayOut::Needed { from_bytes: 0, to_bytes },
                lifted: Vec::new(),
                undo: core::mem::replace(&mut undo, Undo::Nothing),
            };
            Ok(opened(inspection, options, ready))
        }
        Err(error) => {
            marker::remove(&fd, &path);
            Err(error)
        }
    }
}

pub(super) fn scratch(
    mut inspection: Inspection,
    options: &OpenOptions,
) -> Result<Opened, TargetError> {
    let dir = inspect::open_path(&inspection);
    let fd = crate::scratch::create(&dir)
        .map_err(|errno| TargetError::from_errno("make a scratch file in it", &dir, errno))?;
    let cache = direct::set(&fd, &mut inspection, options, &dir)?;
    let wanted_bytes = inspection.size_bytes.unwrap_or(0);
    let lay_out =
        LayOut::Needed { from_bytes: 0, to_bytes: file_len(wanted_bytes, cache.align_bytes) };
    let ready = Ready {
        fd,
        cache,
        capacity_bytes: wanted_bytes,
        made_here: true,
        lay_out,
        lifted: Vec::new(),
        undo: Undo::Nothing,
    };
    Ok(opened(inspection, options, ready))
}
