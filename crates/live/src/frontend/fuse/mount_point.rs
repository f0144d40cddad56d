//! The folder on which a server mounts. Detects another server's mount on it, or a mount left by a killed server.

use rustix::io::Errno;
use std::io;
use std::path::Path;

/// File system type and source of iodyno's mounts in the kernel's mount table: first for mounts by
/// `fusermount3`, then for root's mounts by system call.
const OURS: [(&str, &str); 2] = [("fuse.iodyno", "iodyno"), ("fuse", "iodyno")];

/// Checks that the folder exists, and that no server has mounted on it.
///
/// # Errors
/// The folder does not exist or is in use. The message says what to do.
pub(super) fn check(folder: &Path) -> io::Result<()> {
    let found = match std::fs::metadata(folder) {
        Err(e) if e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            let folder = folder.display();
            let why = format!(
                "a killed server left its mount there: remove the mount with `fusermount3 -u \
                 {folder}`, or `umount {folder}` as root"
            );
            return Err(io::Error::new(io::ErrorKind::NotConnected, why));
        }
        found => found?,
    };
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = std::fs::canonicalize(folder)?;
    if has_mount(&mounts, &path) {
        let why =
            "another server has mounted a volume there: stop that server, or name another folder";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
    }
    Ok(())
}

/// Whether a mount table, in the format of `/proc/self/mountinfo`, lists a mount of iodyno at `path`.
fn has_mount(mounts: &str, path: &Path) -> bool {
    // Fields: ID, parent, device, root, mount point, options, optional ones, `-`, file system, source.
    let is_ours = |line: &str| {
        let (mount, of) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        let mut of = of.split(' ');
        Some(OURS.contains(&(of.next()?, of.next()?)) && Path::new(&plain(point)) == path)
    };
    mounts.lines().any(|line| is_ours(line).unwrap_or(false))
}

/// Decodes the octal escapes in a path of the kernel's mount table, such as `\040` for a space.
fn plain(point: &str) -> String {
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")]
        .iter()
        .fold(point.to_owned(), |point, (escape, plain)| point.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_mount_is_recognised() {
        let mounts = "36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw\n\
                      40 36 0:52 / /mnt/a\\040b rw,nosuid - fuse.iodyno iodyno rw,user_id=0\n\
                      41 36 0:53 / /mnt/c rw - fuse.sshfs iodyno rw\nnonsense\n\
                      42 36 0:54 / /mnt/d rw shared:1 - fuse iodyno rw\n";
        for (path, is_there) in [
            ("/mnt/a b", true),
            ("/mnt/d", true),
            ("/mnt/c", false),
            ("/mnt", false),
            ("/x", false),
        ] {
            assert_eq!(has_mount(mounts, Path::new(path)), is_there, "{path}");
        }
    }
}
