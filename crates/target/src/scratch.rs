//! Scratch files: how one is made so that nothing of it is left behind, whatever ends the program.
//!
//! The file has no name: `O_TMPFILE` makes one that was never linked into a directory, and the
//! kernel frees it when the last descriptor closes, also after SIGKILL. A file system without it
//! gets a file that is unlinked in the moment after it was made.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Makes an unnamed file in a directory, readable and writable by its owner.
///
/// # Errors
/// The system's, when neither way works.
pub(crate) fn create(dir: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    // O_EXCL: nobody can give it a name later.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE | OFlags::EXCL;
    match rustix::fs::open(dir, flags, mode) {
        // What file systems and kernels without O_TMPFILE answer.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => create_unlinked(dir),
        result => result,
    }
}

/// Frees the file's blocks, and waits until the file system has committed that. A file system that is mounted
/// with `discard` discards freed blocks at its next commit: by itself some seconds later, when another run
/// measures.
pub(crate) fn free_blocks(fd: &OwnedFd) {
    // A file system that refuses frees them when the descriptor closes.
    if rustix::fs::ftruncate(fd, 0).is_ok() {
        let _ = rustix::fs::fdatasync(fd);
    }
}

fn create_unlinked(dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mut number = 0_u32;
    loop {
        let path = dir.join(format!(".iodyno-scratch-{}-{number}", std::process::id()));
        match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => {
                crate::output::remove_same_path(&path, &fd)?;
                return Ok(fd);
            }
            // Another scratch file of this process is between its two calls.
            Err(Errno::EXIST) if number < 1000 => number += 1,
            Err(errno) => return Err(errno),
        }
    }
}
