//! One folder: its tree, the attributes of its nodes, and its recorded events.

use super::{Access, Item, NODE_BITS, Owners, Watch};
use crate::change::{Change, NodeId};
use crate::history::Event;
use crate::tree::{Kind, PAGE_BYTES, ROOT, Tree};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::time::SystemTime;

/// Maximum number of bytes read from a captured pipe at once.
const OUTPUT_BYTES: usize = 1 << 12;

/// A folder of the mount. Its operations are in `directory` and `file`.
pub(super) struct Folder {
    number: u32,
    pub(super) tree: Tree,
    last_node: NodeId,
    /// Whether operations are recorded as events.
    record: bool,
    events: Vec<Event>,
    /// Files with an [`Event::Mapped`].
    mapped: HashSet<NodeId>,
    pub(super) watch: Option<Box<dyn Watch>>,
    output: Option<File>,
    /// Number of names of each node; `None`: not counted yet.
    links: Option<HashMap<NodeId, u32>>,
    times: HashMap<NodeId, Times>,
    owners: Owners,
    /// Default owner of nodes without an entry in `owners`: the user who mounted.
    owner: (u32, u32),
    /// Default times of nodes without an entry in `times`.
    since: SystemTime,
    /// Number of syncs until one fails: 1 for the next one; `None`: none fails.
    failing_sync: Option<u64>,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("number", &self.number).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct Times {
    accessed: SystemTime,
    modified: SystemTime,
    changed: SystemTime,
}

/// Attributes that a request sets; `None`: unchanged.
#[derive(Clone, Copy, Default)]
pub(super) struct NewAttributes {
    pub(super) mode: Option<u32>,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) size_bytes: Option<u64>,
    pub(super) accessed: Option<SystemTime>,
    pub(super) modified: Option<SystemTime>,
}

impl Folder {
    pub(super) fn new(
        number: u32,
        tree: Tree,
        record: bool,
        watch: Option<Box<dyn Watch>>,
        owners: Owners,
    ) -> Self {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        Self {
            number,
            last_node: tree.last_node(),
            tree,
            record,
            events: Vec::new(),
            mapped: HashSet::new(),
            watch,
            output: None,
            links: None,
            times: HashMap::new(),
            owners,
            owner,
            since: SystemTime::now(),
            failing_sync: None,
        }
    }

    pub(super) fn into_tree(self) -> Tree {
        self.tree
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn note(&mut self, event: Event) {
        self.drain();
        self.events.push(event);
    }

    pub(super) fn capture(&mut self, output: Option<File>) {
        self.output = output;
    }

    /// Records the bytes in the captured pipe. Returns whether more may follow: false at the pipe's end, or without a
    /// pipe.
    pub(super) fn drain(&mut self) -> bool {
        let Some(output) = &mut self.output else { return false };
        let mut bytes = [0; OUTPUT_BYTES];
        loop {
            match output.read(&mut bytes) {
                Ok(0) => return false,
                Ok(len) => self.events.push(Event::Output(bytes[..len].to_vec())),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    /// Makes a change of the tree, and records the change.
    pub(super) fn change(&mut self, change: Change) {
        self.tree.apply(&change);
        if self.record {
            self.note(Event::Change(change));
        }
    }

    /// Records, once per file, that a file is written through a shared mapping.
    pub(super) fn note_mapped(&mut self, node: NodeId) {
        if self.record && self.mapped.insert(node) {
            self.note(Event::Mapped { node });
        }
    }

    pub(super) fn records(&self) -> bool {
        self.record
    }

    /// Makes a later sync fail: 1 is the next one.
    pub(super) fn fail_sync(&mut self, number: u64) {
        self.failing_sync = Some(number);
    }

    /// Completes fsync, or fdatasync if `data_only`.
    ///
    /// # Errors
    /// EIO for the sync that was chosen to fail.
    pub(super) fn sync(&mut self, node: NodeId, data_only: bool) -> Result<(), Errno> {
        self.tree.node(node).ok_or(Errno::EIO)?;
        self.failing_sync = self.failing_sync.map(|left| left.wrapping_sub(1));
        let fails = self.failing_sync == Some(0);
        if self.record {
            let failed = Event::SyncFailed { node };
            self.note(if fails { failed } else { Event::Sync { node, data_only } });
        }
        if fails { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Tells the watcher, if there is one, that an item is about to be used.
    pub(super) fn see(&mut self, item: &Item, access: Access) {
        let Some(watch) = &mut self.watch else { return };
        watch.before(&mut self.tree, item, access);
        if matches!(item, Item::Name { .. } | Item::Names(_)) && access == Access::Read {
            self.links = None;
        }
    }

    pub(super) fn new_node(&mut self) -> NodeId {
        self.last_node += 1;
        self.last_node
    }

    pub(super) fn inode(&self, node: NodeId) -> INodeNo {
        INodeNo(u64::from(self.number) << NODE_BITS | node)
    }

    /// Kind of a node. Fails with EIO if the node does not exist, although a name refers to it.
    pub(super) fn kind(&self, node: NodeId) -> Result<FileType, Errno> {
        Ok(match self.tree.node(node).ok_or(Errno::EIO)?.kind {
            Kind::File { .. } => FileType::RegularFile,
            Kind::Directory(_) => FileType::Directory,
            Kind::Symlink(_) => FileType::Symlink,
        })
    }

    /// Adds `change` to the number of a node's names.
    pub(super) fn count_link(&mut self, node: NodeId, change: i32) {
        if let Some(links) = &mut self.links {
            let count = links.entry(node).or_default();
            *count = count.saturating_add_signed(change);
        }
    }

    fn links(&mut self, node: NodeId) -> u32 {
        let tree = &self.tree;
        let links = self.links.get_or_insert_with(|| {
            let mut links = HashMap::new();
            for node in tree.reachable() {
                if let Some(Kind::Directory(names)) = tree.node(node).map(|node| &node.kind) {
                    for node in names.values() {
                        *links.entry(*node).or_default() += 1;
                    }
                }
            }
            links
        });
        links.get(&node).copied().unwrap_or_default()
    }

    /// Sets the owner of a node. Returns the owner if it is not the user who mounted.
    pub(super) fn set_owner(&mut self, node: NodeId, owner: (u32, u32)) -> Option<(u32, u32)> {
        if owner == self.owner {
            self.owners.remove(&node);
            return None;
        }
        self.owners.insert(node, owner);
        Some(owner)
    }

    fn times(&self, node: NodeId) -> Times {
        let since = Times { accessed: self.since, modified: self.since, changed: self.since };
        self.times.get(&node).copied().unwrap_or(since)
    }

    /// Updates the times of a changed node.
    pub(super) fn touch(&mut self, node: NodeId) {
        let now = SystemTime::now();
        let times = Times { modified: now, changed: now, ..self.times(node) };
        self.times.insert(node, times);
    }

    /// Attributes of a node, as stat returns them.
    pub(super) fn attributes(&mut self, node: NodeId) -> Result<FileAttr, Errno> {
        let kind = self.kind(node)?;
        if kind == FileType::RegularFile {
            self.see(&Item::Size(node), Access::Read);
        }
        self.see(&Item::Mode(node), Access::Read);
        let found = self.tree.node(node).ok_or(Errno::EIO)?;
        let perm = (found.mode & 0o7777) as u16;
        let blocks = match &found.kind {
            Kind::File { pages, .. } => (pages.len() * PAGE_BYTES / 512) as u64,
            _ => 0,
        };
        let nlink = match kind {
            // As btrfs does: subdirectories are not counted.
            FileType::Directory => u32::from(node == ROOT || self.links(node) > 0),
            _ => self.links(node),
        };
        let times = self.times(node);
        let (uid, gid) = self.owners.get(&node).copied().unwrap_or(self.owner);
        Ok(FileAttr {
            ino: self.inode(node),
            size: self.tree.size_bytes(node),
            blocks,
            atime: times.accessed,
            mtime: times.modified,
            ctime: times.changed,
            crtime: times.changed,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev: 0,
            blksize: PAGE_BYTES as u32,
            flags: 0,
        })
    }

    /// Sets attributes of a node. Changes of owner and times are not recorded as events.
    pub(super) fn set_attributes(
        &mut self,
        node: NodeId,
        new: NewAttributes,
    ) -> Result<FileAttr, Errno> {
        self.kind(node)?;
        if let Some(mode) = new.mode {
            self.see(&Item::Mode(node), Access::Overwrite);
            self.change(Change::Mode { node, mode: mode & 0o7777 });
        }
        if let Some(size_bytes) = new.size_bytes {
            self.set_size(node, size_bytes)?;
        }
        if new.user.is_some() || new.group.is_some() {
            let old = self.owners.get(&node).copied().unwrap_or(self.owner);
            self.set_owner(node, (new.user.unwrap_or(old.0), new.group.unwrap_or(old.1)));
        }
        let mut times = self.times(node);
        times.changed = SystemTime::now();
        times.accessed = new.accessed.unwrap_or(times.accessed);
        times.modified = new.modified.unwrap_or(times.modified);
        self.times.insert(node, times);
        self.attributes(node)
    }

    /// Owner of a node in a recording folder. `None` for the user who mounted, and in other folders.
    pub(super) fn recorded_owner(&self, node: NodeId) -> Option<(u32, u32)> {
        self.owners.get(&node).copied().filter(|_| self.record)
    }
}
