//! Mark on files that iodyno created, so that later runs may write to them without confirmation.
//!
//! The mark is the extended attribute `user.iodyno`. On a file system without extended attributes, the mark is in a
//! small file `PATH.iodyno` (sidecar). The sidecar also has the inode number and creation time of the marked file, so
//! that another file of the same name does not count as marked. The mark states the file's length: a file overwritten
//! in place (`cp image.img ours`) keeps its attributes, but no longer counts as iodyno's if its length changes.
//!
//! ```text
//! iodyno 1 making 1073741824        being written, up to this length
//! iodyno 1 laid-out 1073741824      every byte was written once
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, XattrFlags, fgetxattr, fsetxattr, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::TargetError;
use crate::output::{self, Output};

const ATTRIBUTE: &str = "user.iodyno";
const PREFIX: &str = "iodyno 1";
/// Maximum bytes read from a sidecar. A valid sidecar has two short lines.
const SIDECAR_BYTES_MAX: u64 = 4096;

/// Mark on a file that iodyno created. States the file's length, and whether the file was written completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "bytes")]
pub enum Marker {
    /// The file is being written, up to this length in bytes. A killed run leaves this state.
    Making(u64),
    /// The file was written completely, to this length in bytes.
    LaidOut(u64),
}

impl Marker {
    fn to_text(self) -> String {
        match self {
            Self::Making(bytes) => format!("{PREFIX} making {bytes}"),
            Self::LaidOut(bytes) => format!("{PREFIX} laid-out {bytes}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(PREFIX)?.split_whitespace();
        let (state, bytes) = (words.next()?, words.next()?.parse().ok()?);
        match state {
            "making" => Some(Self::Making(bytes)),
            "laid-out" => Some(Self::LaidOut(bytes)),
            _ => None,
        }
    }

    /// True if a file of `len_bytes` agrees with the mark. A complete file must have exactly the marked length, an
    /// incomplete one at most this length.
    pub fn fits(self, len_bytes: u64) -> bool {
        match self {
            Self::Making(bytes) => len_bytes <= bytes,
            Self::LaidOut(bytes) => len_bytes == bytes,
        }
    }
}

/// Path of the sidecar, a file that contains the mark: `PATH.iodyno`.
pub(crate) fn sidecar(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".iodyno");
    PathBuf::from(name)
}

/// Inode number and creation time of a file. They show whether another file has taken its name.
fn identity(fd: impl AsFd) -> Result<String, Errno> {
    let st = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
    Ok(format!("inode {} born {}.{:09}", st.stx_ino, st.stx_btime.tv_sec, st.stx_btime.tv_nsec))
}

/// Reads iodyno's mark of an open file; `None` if it has none.
pub(crate) fn read(fd: impl AsFd, path: &Path) -> Option<Marker> {
    let mut buf = [0_u8; 64];
    if let Ok(len) = fgetxattr(&fd, ATTRIBUTE, &mut buf[..]) {
        return Marker::parse(core::str::from_utf8(&buf[..len]).ok()?);
    }
    read_sidecar(fd, &sidecar(path))
}

fn read_sidecar(fd: impl AsFd, beside: &Path) -> Option<Marker> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(beside, flags, Mode::empty()).ok()?);
    let mut text = String::new();
    file.take(SIDECAR_BYTES_MAX).read_to_string(&mut text).ok()?;
    let (mark, of) = text.split_once('\n')?;
    if of.trim_end() == identity(&fd).ok()? { Marker::parse(mark) } else { None }
}

/// Marks an open file as created by iodyno.
pub(crate) fn write(fd: impl AsFd, path: &Path, marker: Marker) -> Result<(), Errno> {
    if fsetxattr(&fd, ATTRIBUTE, marker.to_text().as_bytes(), XattrFlags::empty()).is_ok() {
        return Ok(());
    }
    write_sidecar(fd, path, marker)
}

fn write_sidecar(fd: impl AsFd, path: &Path, marker: Marker) -> Result<(), Errno> {
    let text = format!("{}\n{}\n", marker.to_text(), identity(fd)?);
    let written = Output::at(&sidecar(path)).and_then(|output| output.write(text.as_bytes()));
    written.map_err(|error| match error {
        TargetError::Io { errno, .. } => Errno::from_raw_os_error(errno),
        TargetError::Permission { .. } => Errno::ACCESS,
        _ => Errno::EXIST,
    })
}

/// Removes a file that iodyno created, and its sidecar with the mark. Does not remove another file that has
/// taken the name, nor another file's sidecar.
pub(crate) fn remove(fd: impl AsFd, path: &Path) {
    let beside = sidecar(path);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // A failure here has no remedy, and the file's mark stays true.
    if let Ok(file) = rustix::fs::open(&beside, flags, Mode::empty())
        && read_sidecar(&fd, &beside).is_some()
    {
        let _ = output::remove_same_path(&beside, file);
    }
    let _ = output::remove_same_path(path, fd);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_mark_fits_only_the_length_it_was_made_for() {
        assert!(Marker::LaidOut(4096).fits(4096));
        assert!(!Marker::LaidOut(4096).fits(8192));
        assert!(!Marker::LaidOut(4096).fits(0));
        assert!(Marker::Making(4096).fits(512));
        assert!(!Marker::Making(4096).fits(8192));
    }

    #[test]
    fn a_sidecar_vouches_for_its_own_inode_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let file = File::create(&path).unwrap();
        write_sidecar(&file, &path, Marker::LaidOut(0)).unwrap();
        assert_eq!(read(&file, &path), Some(Marker::LaidOut(0)));
        // Another file takes the name, while the first one keeps its inode.
        fs::rename(&path, dir.path().join("old")).unwrap();
        let other = File::create(&path).unwrap();
        assert_eq!(read(&other, &path), None);
        // The sidecar belongs to the first file, which has another name now: both stay.
        remove(&other, &path);
        assert_eq!(crate::sysroot::list(dir.path()), ["old", "t.iodyno"]);
        remove(&file, &path);
        assert_eq!(crate::sysroot::list(dir.path()), ["old"]);
    }

    #[test]
    fn both_states_survive_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let file = File::create(&path).unwrap();
        assert_eq!(read(&file, &path), None);
        for marker in [Marker::Making(1 << 40), Marker::LaidOut(512)] {
            write(&file, &path, marker).unwrap();
            assert_eq!(read(File::open(&path).unwrap(), &path), Some(marker));
        }
    }
}
