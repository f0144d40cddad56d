//! Operations on the names in a folder: lookup, creation, links, renames and lists.

use super::node::Folder;
use super::{Access, Item};
use crate::change::{Change, Made, NodeId};
use crate::tree::Kind;
use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags};

/// Maximum length of a name, bytes.
const NAME_BYTES_MAX: usize = 255;

/// An entry in the list of a directory.
pub(super) struct Entry {
    pub(super) inode: INodeNo,
    pub(super) kind: FileType,
    pub(super) name: Vec<u8>,
}

impl Folder {
    fn see_name(&mut self, directory: NodeId, name: &[u8], access: Access) {
        if self.watch.is_some() {
            self.see(&Item::Name { directory, name: name.to_vec() }, access);
        }
    }

    fn is_empty(&mut self, directory: NodeId) -> Result<bool, Errno> {
        self.see(&Item::Names(directory), Access::Read);
        match &self.tree.node(directory).ok_or(Errno::EIO)?.kind {
            Kind::Directory(names) => Ok(names.is_empty()),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Attributes of the node that a directory lists under a name; `None`: the name is free.
    pub(super) fn look_up(
        &mut self,
        directory: NodeId,
        name: &[u8],
    ) -> Result<Option<FileAttr>, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.see_name(directory, name, Access::Read);
        self.tree.lookup(directory, name).map(|node| self.attributes(node)).transpose()
    }

    /// Checks that a name is free, and tells the watcher that the name is about to be overwritten.
    fn claim(&mut self, directory: NodeId, name: &[u8]) -> Result<(), Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.see_name(directory, name, Access::Overwrite);
        if self.kind(directory)? != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        match self.tree.lookup(directory, name) {
            Some(_) => Err(Errno::EEXIST),
            None => Ok(()),
        }
    }

    /// Creates a node under a name that must be free.
    pub(super) fn make(
        &mut self,
        directory: NodeId,
        name: &[u8],
        made: Made,
        mode: u32,
        owner: (u32, u32),
    ) -> Result<FileAttr, Errno> {
        self.claim(directory, name)?;
        let node = self.new_node();
        self.see_new(node, &made);
        let mode = if matches!(made, Made::Symlink(_)) { 0o777 } else { mode & 0o7777 };
        self.change(Change::Make { directory, name: name.to_vec(), node, made, mode });
        self.count_link(node, 1);
        self.set_owner(node, owner);
        self.touch(directory);
        self.touch(node);
        self.attributes(node)
    }

    /// Tells the watcher that all items of a new node are overwritten.
    fn see_new(&mut self, node: NodeId, made: &Made) {
        self.see(&Item::Mode(node), Access::Overwrite);
        match made {
            Made::File => {
                self.see(&Item::Size(node), Access::Overwrite);
                self.see(&Item::PagesFrom { node, number: 0 }, Access::Overwrite);
            }
            Made::Directory => self.see(&Item::Names(node), Access::Overwrite),
            Made::Symlink(_) => {}
        }
    }

    pub(super) fn link(
        &mut self,
        node: NodeId,
        directory: NodeId,
        name: &[u8],
    ) -> Result<FileAttr, Errno> {
        if self.kind(node)? == FileType::Directory {
            return Err(Errno::EPERM);
        }
        self.claim(directory, name)?;
        self.change(Change::Link { directory, name: name.to_vec(), node });
        self.count_link(node, 1);
        self.touch(directory);
        self.attributes(node)
    }

    /// Removes a name from a directory. With `is_directory` it must name an empty directory, otherwise any other node.
    pub(super) fn unlink(
        &mut self,
        directory: NodeId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<(), Errno> {
        self.see_name(directory, name, Access::Overwrite);
        let node = self.tree.lookup(directory, name).ok_or(Errno::ENOENT)?;
        match (self.kind(node)?, is_directory) {
            (FileType::Directory, true) if !self.is_empty(node)? => return Err(Errno::ENOTEMPTY),
            (FileType::Directory, false) => return Err(Errno::EISDIR),
            (FileType::Directory, true) | (_, false) => {}
            (_, true) => return Err(Errno::ENOTDIR),
        }
        self.change(Change::Remove { directory, name: name.to_vec(), node });
        self.count_link(node, -1);
        self.touch(directory);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        let no_replace = flags.contains(RenameFlags::RENAME_NOREPLACE);
        let known = RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_NOREPLACE;
        if !known.contains(flags) || exchange && no_replace {
            return Err(Errno::EINVAL);
        }
        if to.1.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.see_name(from.0, from.1, Access::Overwrite);
        self.see_name(to.0, to.1, Access::Overwrite);
        let node = self.tree.lookup(from.0, from.1).ok_or(Errno::ENOENT)?;
        let replaced = self.tree.lookup(to.0, to.1);
        match replaced {
            None if exchange => return Err(Errno::ENOENT),
            Some(_) if no_replace => return Err(Errno::EEXIST),
            Some(replaced) if replaced == node => return Ok(()),
            Some(replaced) if !exchange => self.may_replace(node, replaced)?,
            _ => {}
        }
        let owned = |(directory, name): (NodeId, &[u8])| (directory, name.to_vec());
        let (from, to) = (owned(from), owned(to));
        let (source, target) = (from.0, to.0);
        self.change(Change::Rename { from, to, node, replaced, exchange });
        if let (Some(replaced), false) = (replaced, exchange) {
            self.count_link(replaced, -1);
        }
        self.touch(source);
        self.touch(target);
        Ok(())
    }

    /// Checks that a rename of `node` may replace `replaced`: a directory replaces only an empty directory, and any
    /// other node only a node that is not a directory.
    fn may_replace(&mut self, node: NodeId, replaced: NodeId) -> Result<(), Errno> {
        let directories = [node, replaced].map(|node| Ok(self.kind(node)? == FileType::Directory));
        match directories {
            [Ok(true), Ok(true)] if !self.is_empty(replaced)? => Err(Errno::ENOTEMPTY),
            [Ok(true), Ok(false)] => Err(Errno::ENOTDIR),
            [Ok(false), Ok(true)] => Err(Errno::EISDIR),
            [Err(e), _] | [_, Err(e)] => Err(e),
            _ => Ok(()),
        }
    }

    /// Entries of a directory, without `.` and `..`.
    pub(super) fn list(&mut self, directory: NodeId) -> Result<Vec<Entry>, Errno> {
        self.see(&Item::Names(directory), Access::Read);
        let Kind::Directory(names) = &self.tree.node(directory).ok_or(Errno::EIO)?.kind else {
            return Err(Errno::ENOTDIR);
        };
        let entry = |(name, node): (&Vec<u8>, &NodeId)| {
            Ok(Entry { inode: self.inode(*node), kind: self.kind(*node)?, name: name.clone() })
        };
        names.iter().map(entry).collect()
    }

    /// Path to which a symbolic link points.
    pub(super) fn read_link(&self, node: NodeId) -> Result<Vec<u8>, Errno> {
        match &self.tree.node(node).ok_or(Errno::EIO)?.kind {
            Kind::Symlink(path) => Ok(path.clone()),
            _ => Err(Errno::EINVAL),
        }
    }
}
