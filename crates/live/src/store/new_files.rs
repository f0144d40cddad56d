//! Files created for a volume, which a server removes if it fails to start.

use super::error::OpenError;
use rustix::fs::{Mode, OFlags};
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Identity of a file (device and inode number), independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

/// Paths of the files that this process created, each with its inode.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<(PathBuf, Inode)>);

impl Made {
    /// Removes all registered files whose path still refers to the same inode.
    pub(super) fn remove(&mut self) {
        self.0.drain(..).for_each(|(path, inode)| remove(&path, inode));
    }

    /// Registers a file that this process created.
    pub(super) fn note(&mut self, path: &Path, file: &File) {
        if let Ok(metadata) = file.metadata() {
            self.0.push((path.to_owned(), inode(&metadata)));
        }
    }

    /// Unregisters a file that was renamed, so that it is not removed.
    pub(super) fn forget(&mut self, path: &Path) {
        self.0.retain(|(made, _)| made != path);
    }
}

/// Removes a file that this process created, if its path still refers to the same inode.
pub(crate) fn remove_made(path: &Path, file: &File) {
    if let Ok(metadata) = file.metadata() {
        remove(path, inode(&metadata));
    }
}

fn inode(metadata: &Metadata) -> Inode {
    Inode { device: metadata.dev(), number: metadata.ino() }
}

fn remove(path: &Path, made: Inode) {
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| inode(&found) == made) {
        let _ = std::fs::remove_file(path);
    }
}

/// Maximum number of attempts to open and lock a file while another server removes it.
const ATTEMPTS: u32 = 16;

/// Opens or creates a volume's file and locks it. A new file is registered in `made` only once locked,
/// because another server may open it before. While the lock is held, the path refers to this file.
pub(super) fn lock_plain(path: &Path, made: &mut Made) -> Result<File, OpenError> {
    let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
    let locked = || OpenError::Locked { path: path.to_owned() };
    let mut refused = locked();
    for _ in 0..ATTEMPTS {
        let (file, is_new) = match open_or_make(path) {
            Ok(opened) => opened,
            // The path may have appeared or disappeared between two steps.
            Err(why @ OpenError::Io { .. }) => {
                refused = why;
                continue;
            }
            Err(why) => return Err(why),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked()),
            Err(TryLockError::Error(e)) => return Err(failed("locking it", e)),
        }
        // A server that created it and failed to start may have removed it before it released its lock.
        let metadata = file.metadata().map_err(|e| failed("reading its metadata", e))?;
        let named = std::fs::symlink_metadata(path);
        if named.is_ok_and(|named| inode(&named) == inode(&metadata)) {
            if is_new {
                made.note(path, &file);
            }
            return Ok(file);
        }
        refused = locked();
    }
    Err(refused)
}

/// Opens a plain file for reading and writing. If the file does not exist, creates it and registers it in `made`.
pub(super) fn open_plain(path: &Path, made: &mut Made) -> Result<File, OpenError> {
    let (file, is_new) = open_or_make(path)?;
    if is_new {
        made.note(path, &file);
    }
    Ok(file)
}

/// Opens or creates a plain file. Returns the file, and whether it was created.
fn open_or_make(path: &Path) -> Result<(File, bool), OpenError> {
    let failed = |doing, source| OpenError::Io { path: path.to_owned(), doing, source };
    // Checked before opening: opening a device can have side effects.
    let is_there = match std::fs::symlink_metadata(path) {
        Ok(m) if !m.is_file() => {
            let what = if m.is_symlink() {
                "a symbolic link"
            } else if m.is_dir() {
                "a folder"
            } else {
                "a device, pipe or socket"
            };
            return Err(OpenError::NotAFile { path: path.to_owned(), what });
        }
        Ok(_) => true,
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(failed("reading its metadata", e)),
    };
    let make = if is_there { OFlags::empty() } else { OFlags::CREATE | OFlags::EXCL };
    let flags = OFlags::RDWR | make | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| failed("opening it", e.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|e| failed("reading its metadata", e))?;
    if !metadata.is_file() {
        return Err(OpenError::NotAFile {
            path: path.to_owned(),
            what: "no longer the file that was checked",
        });
    }
    Ok((file, !is_there))
}
