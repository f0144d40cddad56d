//! Scratch files, created so that nothing is left behind however the program ends.
//!
//! The file has no name: `O_TMPFILE` creates a file without a directory entry, which the kernel frees when the last
//! descriptor closes, even after SIGKILL. On file systems without `O_TMPFILE`, a file is created and unlinked
//! immediately.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Creates an unnamed file in a directory, readable and writable by its owner. Without `O_TMPFILE`, creates a
/// named file and removes its name.
///
/// # Errors
/// The system's error if neither way works.
pub(crate) fn create(dir: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    // O_EXCL: the file can't be given a name later.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE | OFlags::EXCL;
    match rustix::fs::open(dir, flags, mode) {
        // Errors from file systems and kernels without O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => create_unlinked(dir),
        result => result,
    }
}

/// Frees the file's blocks, and waits until the file system has committed this. With the mount option `discard`, the
/// commit discards the blocks. Without the wait, this could disturb a later measurement.
pub(crate) fn free_blocks(fd: &OwnedFd) {
    // If the file system refuses, the blocks are freed when the descriptor closes.
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
            // Another scratch file of this process is between creation and removal.
            Err(Errno::EXIST) if number < 1000 => number += 1,
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_gone_before_the_file_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let fd = create(dir.path()).unwrap();
        assert_eq!(rustix::io::pwrite(&fd, &[1; 8192], 0), Ok(8192));
        free_blocks(&fd);
        let stat = rustix::fs::fstat(&fd).unwrap();
        assert_eq!((stat.st_size, stat.st_blocks), (0, 0));
    }

    #[test]
    fn neither_way_leaves_a_name() {
        let dir = tempfile::tempdir().unwrap();
        for fd in [create(dir.path()).unwrap(), create_unlinked(dir.path()).unwrap()] {
            assert_eq!(crate::sysroot::list(dir.path()), [""; 0]);
            assert_eq!(rustix::io::pwrite(&fd, b"x", 0), Ok(1));
        }
    }
}
