//! Whether another process has a file open for writing, or a device: exclusively (the kernel answers `EBUSY`),
//! or for writing (`/proc/PID/fd`, as far as this user may read it).
//!
//! An exclusive opening that succeeds is closed again at once; the real one is made when the target is opened.
//! A process that has the device open without `O_EXCL`, such as a virtual machine that it was passed to, is
//! invisible to the kernel's check, hence the second check.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Refusal, RefusalCode};
use crate::inspect::topology::{Relation, Relative};
use crate::inspect::{Inspection, open_path};
use crate::ioctl;
use crate::sysroot::DevNo;

/// A device counts as open elsewhere if every one of these checks finds it open: programs that scan devices
/// (udev, losetup, blkid) have each open for a moment only.
const CHECKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Checks of a file, 1 s in all.
const FILE_CHECKS: u32 = 20;

/// Adds refusals for the target and its partitions. An exclusive holder is a refusal only where nothing else
/// explains it: a mount is one, too.
pub(super) fn check(relatives: &[Relative], already_explained: bool, refusals: &mut Vec<Refusal>) {
    let mut found = find_openers(relatives, already_explained);
    for _ in 1..CHECKS {
        if found.is_empty() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        found = find_openers(relatives, already_explained);
    }
    refusals.append(&mut found);
}

fn find_openers(relatives: &[Relative], already_explained: bool) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let own =
        relatives.iter().filter(|r| matches!(r.relation, Relation::Itself | Relation::Partition));
    // Opening the whole disk meets its partitions' holders as well; checking those shows which.
    let held: Vec<&Relative> = if already_explained {
        Vec::new()
    } else {
        own.clone().filter(|r| is_held(Path::new(&r.node.node_path()), r.node.dev)).collect()
    };
    let partition = held.iter().find(|r| r.relation == Relation::Partition);
    if let Some(relative) = partition.or(held.first()) {
        let who = if relative.relation == Relation::Itself {
            "It".to_owned()
        } else {
            format!("Its partition {}", relative.node.name)
        };
        refusals.push(Refusal {
            code: RefusalCode::OpenElsewhere,
            found: format!("{who} is held open exclusively by another process or the kernel."),
            mend: format!(
                "Find the holder with `lsof {}` and end it; a mount in another namespace shows \
                 nowhere else.",
                relative.node.node_path()
            ),
        });
    }
    let numbers: Vec<DevNo> = own.map(|relative| relative.node.dev).collect();
    for writer in writers(&numbers) {
        refusals.push(Refusal {
            code: RefusalCode::OpenElsewhere,
            found: format!("{writer} has it open for writing."),
            mend: "End that process first.".to_owned(),
        });
    }
    refusals
}

/// Adds a refusal where another process has a file open for writing, or mapped so. Only the file's owner and
/// root may query the kernel; others, and all on file systems without leases, see the processes that `/proc`
/// shows them.
pub(super) fn check_file(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    let path = open_path(inspection);
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::open(&path, flags, Mode::empty()) else { return };
    let find = || {
        let known = ioctl::is_open_for_writing(&file);
        let is_written = known.unwrap_or_else(|_| !writers_of(&path).is_empty());
        is_written.then(|| writers_of(&path))
    };
    let mut writers = find();
    // The kernel closes the files of a ring some time after the process that had it is gone.
    for _ in 1..FILE_CHECKS {
        if writers.is_none() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        writers = find();
    }
    let Some(writers) = writers else { return };
    let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    if lock == Err(Errno::WOULDBLOCK) {
        refusals.push(locked(&path));
        return;
    }
    let who = if writers.is_empty() { "Another process".to_owned() } else { writers.join(" and ") };
    refusals.push(Refusal {
        code: RefusalCode::OpenElsewhere,
        found: format!("{who} has it open for writing."),
        mend: format!("End that process first; `lsof {}` shows it.", path.display()),
    });
}

/// The refusal of a file that is locked.
pub(crate) fn locked(path: &Path) -> Refusal {
    let path = path.display();
    Refusal {
        code: RefusalCode::Locked,
        found: "Another run, a log's server, or another target of this run has it locked."
            .to_owned(),
        mend: format!("Wait until that has ended, or end it; `lsof {path}` shows the process."),
    }
}

/// Processes other than this one that have a file open for writing by this path: `name (PID)`.
fn writers_of(path: &Path) -> Vec<String> {
    writers_where(|link| fs::read_link(link).is_ok_and(|name| name == path))
}

/// True when an exclusive opening is refused as busy. The node must be the device's own.
fn is_held(node: &Path, dev: DevNo) -> bool {
    let is_own = fs::metadata(node).is_ok_and(|meta| {
        meta.file_type().is_block_device() && DevNo::from_packed(meta.rdev()) == dev
    });
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    is_own && rustix::fs::open(node, flags, Mode::empty()).is_err_and(|errno| errno == Errno::BUSY)
}

/// Processes other than this one that have one of the devices open for writing: `name (PID)`.
fn writers(devices: &[DevNo]) -> Vec<String> {
    writers_where(|link| {
        // Checking only links below /dev leaves files on servers that don't answer alone.
        fs::read_link(link).is_ok_and(|path| path.starts_with("/dev"))
            && fs::metadata(link).is_ok_and(|meta| {
                meta.file_type().is_block_device()
                    && devices.contains(&DevNo::from_packed(meta.rdev()))
            })
    })
}

/// Processes other than this one with a descriptor for writing whose link in `/proc` is one of those.
fn writers_where(is_it: impl Fn(&Path) -> bool) -> Vec<String> {
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for pid in crate::sysroot::list(Path::new("/proc")) {
        if pid == me || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let process = Path::new("/proc").join(&pid);
        let has_it = crate::sysroot::list(&process.join("fd")).iter().any(|fd| {
            let link = process.join("fd").join(fd);
            is_it(&link) && is_for_writing(&process.join("fdinfo").join(fd))
        });
        if has_it {
            let name = crate::sysroot::read(&process.join("comm"))
                .unwrap_or_else(|| "A process".to_owned());
            found.push(format!("{name} (process {pid})"));
        }
    }
    found
}

/// The flags in `/proc/PID/fdinfo/FD` are octal; the lowest two bits are the access mode.
fn is_for_writing(fdinfo: &Path) -> bool {
    let text = crate::sysroot::read(fdinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32)
}
