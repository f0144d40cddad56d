//! Rules for folders in which other users may create files, such as `/tmp`: another user's symbolic link is not
//! followed, and another user's file or pipe is not written. The rules are those of the kernel's
//! `fs.protected_symlinks`, `protected_regular` and `protected_fifos`, but apply whatever the machine's settings, and
//! also to calls that the kernel exempts, such as renaming.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;

use crate::error::{TargetError, errno_of};

/// Maximum number of symbolic links in a path, as in the kernel.
const LINKS_MAX: u32 = 40;
/// Mode bits that let users other than the folder's owner create files in it.
const OTHERS_WRITE: u32 = 0o022;
/// Mode bit of a folder in which users may rename and remove only their own files.
const STICKY: u32 = 0o1000;

/// True if `owner` is neither this user, nor the owner of the folder, nor root.
fn is_strangers(folder: &Stat, owner: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    ![own, folder.st_uid, 0].contains(&owner)
}

/// Resolves the symbolic links of a path. Parts that do not exist are unchanged.
///
/// # Errors
/// [`TargetError::BadOutput`] for another user's link in a shared folder, and system errors.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, TargetError> {
    let failed = |errno| TargetError::from_errno("follow its path", path, errno);
    let mut real = if path.is_absolute() {
        PathBuf::from("/")
    } else {
        std::env::current_dir().map_err(|error| failed(errno_of(&error)))?
    };
    let mut left = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let is_link = match rustix::fs::lstat(&next) {
            Ok(found) if FileType::from_raw_mode(found.st_mode).is_symlink() => Some(found),
            _ => None,
        };
        let Some(link) = is_link else {
            real = next;
            continue;
        };
        // Links in /proc name open files, such as a pipe.
        if real.starts_with("/proc") {
            return Ok(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        }
        let folder = rustix::fs::stat(&real).map_err(failed)?;
        if folder.st_mode & OTHERS_WRITE != 0 && is_strangers(&folder, link.st_uid) {
            return Err(strangers_link(path, &next, link.st_uid));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(super::bad_path("follow its path", path, Errno::LOOP));
        }
        let to = std::fs::read_link(&next).map_err(|error| failed(errno_of(&error)))?;
        if to.is_absolute() {
            real = PathBuf::from("/");
        }
        parts(&to).into_iter().rev().for_each(|part| left.push_front(part));
    }
    Ok(real)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    parts.collect()
}

fn strangers_link(path: &Path, link: &Path, owner: u32) -> TargetError {
    TargetError::BadOutput {
        path: path.display().to_string(),
        problem: format!(
            "{} is a symbolic link that another user (uid {owner}) owns, in a folder that other users can write to",
            link.display()
        ),
        help: "name another file, or the one that the link leads to.".to_owned(),
    }
}

/// Opens a folder by a path without symbolic links. Fails if part of the path has since become a symbolic link.
pub(super) fn open_folder(real: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A kernel before 5.6, or a seccomp filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            rustix::fs::open(real, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        result => result,
    }
}

/// Refuses another user's file or pipe in a shared folder such as `/tmp`.
///
/// # Errors
/// [`TargetError::BadOutput`].
pub(super) fn check_owner(
    folder: impl AsFd,
    found: &Stat,
    shown: &Path,
) -> Result<(), TargetError> {
    let failed = |errno| TargetError::from_errno("inspect its folder", shown, errno);
    let folder = fstat(folder).map_err(failed)?;
    let is_shared = folder.st_mode & OTHERS_WRITE != 0 && folder.st_mode & STICKY != 0;
    if is_shared && is_strangers(&folder, found.st_uid) {
        return Err(TargetError::BadOutput {
            path: shown.display().to_string(),
            problem: format!(
                "it belongs to another user (uid {}), in a folder that other users can write to",
                found.st_uid
            ),
            help: "name another file.".to_owned(),
        });
    }
    Ok(())
}
