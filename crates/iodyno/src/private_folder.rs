//! The private folder of `serve -- CMD` and `crashtest`, with sockets and a FUSE mount point. Folders left by killed
//! processes are removed.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Beginning of the folder's name; the process number follows.
const NAME: &str = "iodyno-serve-";
/// Names of the sockets in the folder. Its only other entry is the mount point.
const SOCKETS: [&str; 2] = ["nbd.sock", "control.sock"];
const MOUNT: &str = "volumes";

/// A folder for this process alone, removed when dropped.
pub(crate) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Creates the folder in the directory for temporary files, after removing those of dead processes of this user.
    pub(crate) fn create() -> io::Result<Self> {
        let all = std::env::temp_dir();
        remove_stale(&all);
        let folder = all.join(format!("{NAME}{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn nbd(&self) -> PathBuf {
        self.0.join(SOCKETS[0])
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.0.join(SOCKETS[1])
    }

    /// Creates the mount point for FUSE in the folder, and returns its path.
    pub(crate) fn mount(&self) -> io::Result<PathBuf> {
        let folder = self.0.join(MOUNT);
        fs::create_dir(&folder)?;
        Ok(folder)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a private folder with the sockets and mount point in it. If it contains anything else, that and the folder
/// stay.
fn remove(folder: &Path) {
    for socket in SOCKETS {
        let _ = fs::remove_file(folder.join(socket));
    }
    let _ = fs::remove_dir(folder.join(MOUNT));
    let _ = fs::remove_dir(folder);
}

/// Removes the private folders of this user's dead processes.
fn remove_stale(all: &Path) {
    let user = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        let Some(number) = number else { continue };
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if !is_ours || Path::new(&format!("/proc/{number}")).exists() {
            continue;
        }
        let mount = entry.path().join(MOUNT);
        if fs::metadata(&mount).is_err_and(|e| e.kind() == io::ErrorKind::NotConnected) {
            unmount(&mount);
        }
        remove(&entry.path());
    }
}

/// Removes the mount of a dead server with `fusermount3`, or as root with `umount`. On failure the mount stays.
fn unmount(folder: &Path) {
    for (program, flag) in [("fusermount3", "-uz"), ("umount", "-l")] {
        let quiet = Stdio::null;
        let done =
            Command::new(program).arg(flag).arg(folder).stdout(quiet()).stderr(quiet()).status();
        if done.is_ok_and(|status| status.success()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_processes_are_removed_with_nothing_else() {
        let all = tempfile::tempdir().unwrap();
        let folder = |number: u32| all.path().join(format!("{NAME}{number}"));
        // Above the kernel's largest number of a process.
        let (dead, foreign, alive) =
            (folder(u32::MAX), folder(u32::MAX - 1), folder(std::process::id()));
        for folder in [&dead, &foreign, &alive] {
            fs::create_dir_all(folder.join(MOUNT)).unwrap();
            fs::write(folder.join(SOCKETS[0]), "").unwrap();
        }
        fs::write(foreign.join("mine"), "").unwrap();
        fs::create_dir(all.path().join("iodyno-serve-x")).unwrap();
        remove_stale(all.path());
        assert!(!dead.exists());
        assert!(foreign.join("mine").exists() && alive.join(SOCKETS[0]).exists());
        assert!(all.path().join("iodyno-serve-x").exists());
    }
}
