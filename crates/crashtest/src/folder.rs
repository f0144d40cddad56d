//! Folders of a FUSE file system, each a file tree in memory, for unmodified programs.
//!
//! A recording folder turns each operation that changes it, and each fsync, into an [`Event`], in the order in which
//! the operations take effect. A watched folder calls a [`Watch`] before an operation uses part of the tree; the
//! watcher may decide only then what that part contains.
//!
//! Limits: `sync` and `syncfs` do not reach a FUSE file system without a block device, so they are not recorded. A
//! store into a shared mapping is recorded as a write when the kernel writes the page back: at msync, fsync, munmap
//! or close, or when its dirty timeout expires. Sockets, FIFOs, devices, extended attributes and `O_TMPFILE` are
//! refused.

mod directory;
mod file;
mod filesystem;
mod node;
mod watch;

use crate::change::NodeId;
use crate::history::Event;
use crate::tree::Tree;
use filesystem::Mounted;
use fuser::{
    BackgroundSession, Config, Errno, INodeNo, MountOption, Notifier, SessionACL, spawn_mount,
};
use node::Folder;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
pub use watch::{Access, Item, Watch};

/// Position of the folder's number in an inode number, in bits. The lower bits are the node's number in the folder's
/// tree.
const NODE_BITS: u32 = 32;
/// Minimum and maximum number of threads that answer the kernel's requests.
const THREADS: (usize, usize) = (2, 8);

/// User and group IDs by node.
type Owners = HashMap<NodeId, (u32, u32)>;

/// A mounted FUSE file system whose top directory contains the folders. Dropping it unmounts the file system; later
/// operations on open files fail.
///
/// This process may read and write files of the folders, but must not map them (as SQLite does in WAL mode): writing
/// back a mapped page can deadlock. The kernel would hold the lock of this process's memory while it waits for an
/// answer of this process.
#[derive(Debug)]
pub struct Folders {
    session: Option<BackgroundSession>,
    notifier: Notifier,
    at: PathBuf,
    shared: Arc<Shared>,
}

/// State shared by the threads that answer the kernel's requests.
#[derive(Debug, Default)]
struct Shared {
    index: RwLock<Index>,
    /// Owners of the recorded folders' nodes, where they differ from the user who mounted. Folders that are added
    /// later start with these owners, because programs such as PostgreSQL check the owner of their files.
    owners: Mutex<Owners>,
}

#[derive(Debug, Default)]
struct Index {
    numbers: BTreeMap<Vec<u8>, u32>,
    folders: BTreeMap<u32, Arc<Slot>>,
    /// Number of the last added folder. Numbers start at 1, since the top directory has number 0.
    last: u32,
}

/// A folder of the mount; `None` once the folder is removed.
#[derive(Debug)]
struct Slot(Mutex<Option<Folder>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Folder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn number(&self, name: &[u8]) -> Option<u32> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.numbers.get(name).copied()
    }

    fn slot(&self, number: u32) -> Option<Arc<Slot>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.folders.get(&number).map(Arc::clone)
    }

    /// Runs an operation on the folder that contains a node. Operations on a removed folder fail with EIO.
    fn on<T>(
        &self,
        inode: INodeNo,
        operation: impl FnOnce(&mut Folder, NodeId) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let number = (inode.0 >> NODE_BITS) as u32;
        if number == 0 {
            return Err(Errno::EPERM);
        }
        let slot = self.slot(number).ok_or(Errno::EIO)?;
        let mut folder = slot.lock();
        operation(folder.as_mut().ok_or(Errno::EIO)?, inode.0 & ((1 << NODE_BITS) - 1))
    }

    /// Calls a function on the folder with this name; `None`: no such folder exists.
    fn named<T>(&self, name: &str, call: impl FnOnce(&mut Folder) -> T) -> Option<T> {
        let slot = self.slot(self.number(name.as_bytes())?)?;
        let mut folder = slot.lock();
        folder.as_mut().map(call)
    }
}

impl Folders {
    /// Mounts the file system on an empty directory that is private to this process. Root mounts by system call, other
    /// users by `fusermount3`.
    ///
    /// # Errors
    ///
    /// The directory does not exist, the kernel lacks FUSE, or `fusermount3` is missing for a user other than root.
    pub fn mount(at: &Path) -> io::Result<Self> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("iodyno".to_owned()),
            MountOption::Subtype("iodyno".to_owned()),
            MountOption::DefaultPermissions,
        ];
        if rustix::process::geteuid().is_root() {
            // A program may change its user. Others need `user_allow_other` in /etc/fuse.conf for this.
            config.acl = SessionACL::All;
        }
        let processors = std::thread::available_parallelism().map_or(THREADS.0, usize::from);
        config.n_threads = Some(processors.clamp(THREADS.0, THREADS.1));
        let shared = Arc::new(Shared::default());
        let session = spawn_mount(Mounted::new(Arc::clone(&shared)), at, &config).map_err(|e| {
            let remedy = if config.acl == SessionACL::All {
                "load the kernel module `fuse`"
            } else {
                "install fusermount3 (package fuse3), or run iodyno under `unshare --user \
                 --map-root-user --mount`"
            };
            io::Error::new(e.kind(), format!("FUSE can't be mounted: {e}; {remedy}"))
        })?;
        let notifier = session.notifier();
        Ok(Self { session: Some(session), notifier, at: at.to_owned(), shared })
    }

    /// Adds a folder with this tree, and returns the folder's path. With `record`, operations in the folder are
    /// recorded as events. New nodes are numbered from [`Tree::last_node`] + 1 on, so the tree must already contain
    /// each node that `watch` may add.
    ///
    /// # Panics
    ///
    /// A folder has this name, or the name contains `/`.
    pub fn add(
        &self,
        name: &str,
        tree: Tree,
        record: bool,
        watch: Option<Box<dyn Watch>>,
    ) -> PathBuf {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?} is not a file name");
        let owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
        index.last += 1;
        let number = index.last;
        let taken = index.numbers.insert(name.as_bytes().to_vec(), number);
        assert!(taken.is_none(), "a folder {name:?} exists");
        let folder = Folder::new(number, tree, record, watch, owners);
        index.folders.insert(number, Arc::new(Slot(Mutex::new(Some(folder)))));
        self.at.join(name)
    }

    /// Removes a folder and returns its tree; `None`: no such folder exists. Drops all events that
    /// [`Self::take_events`] has not returned. Later operations on open files fail with EIO.
    pub fn remove(&self, name: &str) -> Option<Tree> {
        let slot = {
            let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
            let number = index.numbers.remove(name.as_bytes())?;
            index.folders.remove(&number)?
        };
        let folder = slot.lock().take()?;
        self.forget(name);
        Some(folder.into_tree())
    }

    /// Makes the kernel drop a folder's name, inodes and pages from its caches. The caller must hold no lock, because
    /// the kernel may wait for an answer to another request.
    fn forget(&self, name: &str) {
        let _ = self.notifier.inval_entry(INodeNo::ROOT, OsStr::new(name));
    }

    /// Returns the events that a folder has recorded since the last call.
    pub fn take_events(&self, name: &str) -> Vec<Event> {
        self.shared.named(name, Folder::take_events).unwrap_or_default()
    }

    /// Makes a later fsync or fdatasync in a folder fail with EIO; `number` 1 is the next one. Other syncs succeed.
    pub fn fail_sync(&self, name: &str, number: u64) {
        self.shared.named(name, |folder| folder.fail_sync(number));
    }

    /// Appends an event to the recorded events of a folder.
    pub fn note(&self, name: &str, event: Event) {
        self.shared.named(name, |folder| folder.note(event));
    }

    /// Makes a pipe the source of a folder's [`Event::Output`]. The bytes in the pipe are recorded before each event,
    /// so that what a program printed before an operation precedes the operation. The pipe must be in non-blocking
    /// mode.
    pub(crate) fn capture(&self, name: &str, output: OwnedFd) {
        self.shared.named(name, |folder| folder.capture(Some(File::from(output))));
    }

    /// Records the bytes in the pipe set by [`Self::capture`]. Returns whether more may follow.
    pub(crate) fn drain(&self, name: &str) -> bool {
        self.shared.named(name, Folder::drain).unwrap_or_default()
    }

    /// Stops recording from the pipe set by [`Self::capture`].
    pub(crate) fn release(&self, name: &str) {
        self.shared.named(name, |folder| folder.capture(None));
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let slots = {
            let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
            index.numbers.clear();
            std::mem::take(&mut index.folders)
        };
        for slot in slots.values() {
            slot.lock().take();
        }
        // Unmounts. The threads end once no file is open, which may be never: they are not waited for.
        drop(self.session.take());
        if is_mount_point(&self.at) {
            // A file is open or a process works there: detaches the mount point now, the rest follows later.
            for (program, flag) in [("umount", "-l"), ("fusermount3", "-uz")] {
                let mut command = Command::new(program);
                command.arg(flag).arg(&self.at).stdout(Stdio::null()).stderr(Stdio::null());
                if command.status().is_ok_and(|status| status.success()) {
                    break;
                }
            }
        }
    }
}

fn is_mount_point(at: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev());
    match (device(at), device(&at.join(".."))) {
        (Ok(here), Ok(above)) => here != above,
        _ => true,
    }
}
