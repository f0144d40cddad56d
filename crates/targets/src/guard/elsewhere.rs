//! Finds other processes that have a file or device open. An exclusive open fails with `EBUSY` if another holder is
//! exclusive. Writers are found in `/proc/PID/fd`, as far as this user may read it, because a process that opened the
//! device without `O_EXCL`, such as a virtual machine, does not cause `EBUSY`.
//!
//! An exclusive open that succeeds is only a test, and is closed again at once. The target is claimed for the run when
//! it is opened for measurement.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Refusal, RefusalCode};
use crate::inspect::topology::{BlockNode, Relation, Relative};
use crate::inspect::{Identity, Inspection, open_path};
use crate::ioctl;
use crate::sysroot::DevNo;

/// Number of checks for other users of a device; the device counts as in use only if every check finds one.
/// Programs that scan devices (udev, losetup, blkid) open each device only briefly.
const CHECKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Number of checks for other users of a file, over 1 s in all.
const FILE_CHECKS: u32 = 20;

/// Adds refusals for devices that share data with the target and that another process has open. Skips the devices in
/// `explained`, whose holder is known: they are mounted, or below another device.
pub(super) fn check(
    relatives: &[Relative],
    explained: &BTreeSet<DevNo>,
    refusals: &mut Vec<Refusal>,
) {
    let mut found = find_openers(relatives, explained);
    for _ in 1..CHECKS {
        if found.is_empty() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        found = find_openers(relatives, explained);
    }
    refusals.append(&mut found);
}

fn find_openers(relatives: &[Relative], explained: &BTreeSet<DevNo>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    // A claim on a partition is a claim on its disk, and the reverse.
    let is_explained = |node: &BlockNode| {
        explained.contains(&node.dev)
            || node.partitions().iter().any(|part| explained.contains(&part.dev))
            || node.whole_disk().is_some_and(|disk| explained.contains(&disk.dev))
    };
    // The disk around a partition doesn't count either: a sibling may be in use.
    let used = relatives.iter().filter(|r| r.relation != Relation::WholeDisk);
    let is_held = |r: &&&Relative| {
        !is_explained(&r.node) && is_held(Path::new(&r.node.node_path()), r.node.dev)
    };
    let held: Vec<&Relative> = used.clone().filter(|r| is_held(&r)).collect();
    for relative in &held {
        let node = &relative.node;
        // Opening the whole disk fails for its partitions' holders as well; checking the partitions shows which.
        let parts = node.partitions();
        if held.iter().any(|r| parts.iter().any(|part| part.dev == r.node.dev)) {
            continue;
        }
        let openers = processes_with(&[node.dev], Openers::All);
        let by = match openers.first() {
            Some((_, process)) => format!("by {process}"),
            None => {
                "by the kernel: it may be mounted in a mount namespace that no visible process uses"
                    .to_owned()
            }
        };
        refusals.push(Refusal {
            code: RefusalCode::Held,
            found: format!("{} is held open exclusively {by}.", relative.subject()),
            mend: format!(
                "End the program that holds it; `lsof {}` shows processes.",
                node.node_path()
            ),
        });
    }
    let numbers: Vec<DevNo> = used.clone().map(|relative| relative.node.dev).collect();
    for (dev, writer) in processes_with(&numbers, Openers::OtherWriters) {
        let relative = used.clone().find(|r| r.node.dev == dev);
        let which = match relative {
            Some(r) if r.relation != Relation::Itself => r.node.name.as_str(),
            _ => "it",
        };
        refusals.push(Refusal {
            code: RefusalCode::OpenElsewhere,
            found: format!("{writer} has {which} open for writing."),
            mend: "End that process first.".to_owned(),
        });
    }
    refusals
}

/// Adds refusals for a loop device's backing file if another process has locked it or opened it for writing.
/// The kernel's lease check can't tell, because the loop device itself has the file open for writing.
pub(super) fn check_backing_file(
    path: &str,
    identity: Option<Identity>,
    refusals: &mut Vec<Refusal>,
) {
    let mut found = backing_file_use(path, identity);
    for _ in 1..CHECKS {
        if found.is_empty() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        found = backing_file_use(path, identity);
    }
    refusals.append(&mut found);
}

fn backing_file_use(path: &str, identity: Option<Identity>) -> Vec<Refusal> {
    let mut found = Vec::new();
    let file = open_same(Path::new(path), identity);
    if file.as_ref().is_some_and(is_locked) {
        found.push(Refusal {
            code: RefusalCode::Held,
            found: "Another process has locked it.".to_owned(),
            mend: format!("End that process first; `lsof {path}` shows it."),
        });
    }
    for writer in writers_of(Path::new(path), identity) {
        found.push(Refusal {
            code: RefusalCode::OpenElsewhere,
            found: format!("{writer} has it open for writing."),
            mend: "End that process first.".to_owned(),
        });
    }
    found
}

/// Opens a file for reading. `None` if the path no longer leads to the file with this identity.
pub(crate) fn open_same(path: &Path, identity: Option<Identity>) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let is_it = file.metadata().is_ok_and(|meta| {
        meta.is_file() && identity.is_none_or(|identity| identity == Identity::of(&meta))
    });
    is_it.then_some(file)
}

/// True if another process has locked the file, either entirely (like iodyno) or a range of it (like a
/// virtual machine).
fn is_locked(file: &File) -> bool {
    let whole = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared);
    whole == Err(Errno::WOULDBLOCK) || ioctl::has_record_lock(file).unwrap_or(false)
}

/// Adds a refusal if another process has the file open or mapped for writing. The kernel tells this to the file's owner
/// and to root, who may take a lease. For other users, and on file systems without leases, the processes in `/proc` are
/// searched.
pub(super) fn check_file(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    let path = open_path(inspection);
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::open(&path, flags, Mode::empty()) else { return };
    let find = || {
        let known = ioctl::is_open_for_writing(&file);
        let identity = inspection.identity;
        let is_written = known.unwrap_or_else(|_| !writers_of(&path, identity).is_empty());
        is_written.then(|| writers_of(&path, identity))
    };
    let mut writers = find();
    // The kernel closes the files of an io_uring some time after its process has ended.
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

/// The refusal to write a locked file.
pub(crate) fn locked(path: &Path) -> Refusal {
    let path = path.display();
    Refusal {
        code: RefusalCode::Locked,
        found: "Another run, a message-log server, or another target of this run has locked it."
            .to_owned(),
        mend: format!("Wait until that process ends, or end it; `lsof {path}` shows the process."),
    }
}

/// Other processes that have the file open for writing: `name (process PID)`.
fn writers_of(path: &Path, identity: Option<Identity>) -> Vec<String> {
    processes_where(false, |descriptor| {
        let is_it = fs::read_link(&descriptor.link).is_ok_and(|name| name == path)
            // The file may have another name, such as one of another mount namespace. Check the inode number first: a
            // `stat` of a file on an unresponsive server would hang.
            || identity.is_some_and(|identity| {
                descriptor.inode() == Some(identity.inode)
                    && fs::metadata(&descriptor.link)
                        .is_ok_and(|meta| Identity::of(&meta) == identity)
            });
        (is_it && descriptor.is_for_writing()).then_some(())
    })
    .into_iter()
    .map(|((), process)| process)
    .collect()
}

/// True if an exclusive open of the device fails with EBUSY. False if `node` belongs to another device.
fn is_held(node: &Path, dev: DevNo) -> bool {
    let is_own = fs::metadata(node).is_ok_and(|meta| {
        meta.file_type().is_block_device() && DevNo::from_packed(meta.rdev()) == dev
    });
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    is_own && rustix::fs::open(node, flags, Mode::empty()).is_err_and(|errno| errno == Errno::BUSY)
}

/// Processes to search for open devices, by their access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Openers {
    /// All processes, with read or write access.
    All,
    /// Other processes with write access.
    OtherWriters,
}

/// Processes that have one of the devices open. Returns the device and `name (process PID)` for each.
fn processes_with(devices: &[DevNo], which: Openers) -> Vec<(DevNo, String)> {
    processes_where(which == Openers::All, |descriptor| {
        // Only links below /dev are followed, so that files on unresponsive servers can't block the search.
        if !fs::read_link(&descriptor.link).is_ok_and(|path| path.starts_with("/dev")) {
            return None;
        }
        let meta = fs::metadata(&descriptor.link).ok()?;
        let dev = DevNo::from_packed(meta.rdev());
        let is_it = meta.file_type().is_block_device() && devices.contains(&dev);
        (is_it && (which == Openers::All || descriptor.is_for_writing())).then_some(dev)
    })
}

/// An open file descriptor of another process.
struct Descriptor {
    /// Path of the link in `/proc/PID/fd`.
    link: PathBuf,
    info: PathBuf,
}

impl Descriptor {
    fn field(&self, name: &str) -> Option<String> {
        let text = crate::sysroot::read(&self.info)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    }

    /// Inode number of the open file; needs Linux 5.14.
    fn inode(&self) -> Option<u64> {
        self.field("ino")?.parse().ok()
    }

    /// True if the access mode allows writing: the lowest two bits of the octal flags.
    fn is_for_writing(&self) -> bool {
        let flags = self.field("flags").and_then(|flags| u32::from_str_radix(&flags, 8).ok());
        flags.is_some_and(|flags| flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32)
    }
}

/// Applies `of` to the open descriptors of every process. Returns the first value that is not `None` for each
/// process, with the process's name and PID. `with_own` includes this process.
fn processes_where<T>(with_own: bool, of: impl Fn(&Descriptor) -> Option<T>) -> Vec<(T, String)> {
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for pid in crate::sysroot::list(Path::new("/proc")) {
        if pid == me && !with_own || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let process = Path::new("/proc").join(&pid);
        let has_it = crate::sysroot::list(&process.join("fd")).iter().find_map(|fd| {
            let link = process.join("fd").join(fd);
            of(&Descriptor { link, info: process.join("fdinfo").join(fd) })
        });
        if let Some(what) = has_it {
            let name = crate::sysroot::read(&process.join("comm"))
                .unwrap_or_else(|| "A process".to_owned());
            found.push((what, format!("{name} (process {pid})")));
        }
    }
    found
}
