//! A file tree in memory. A clone shares all unchanged nodes and pages with its origin.

use crate::change::{Change, Made, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Node id of the top directory in every tree.
pub const ROOT: NodeId = 1;
/// Size of a page, bytes. Files consist of pages; a missing page reads as zeros.
pub const PAGE_BYTES: usize = 4096;

/// Content of a page. Its hash is computed on first use.
#[derive(Clone)]
pub struct Page {
    bytes: [u8; PAGE_BYTES],
    hash: OnceLock<u64>,
}

impl Page {
    fn zeros() -> Self {
        Self { bytes: [0; PAGE_BYTES], hash: OnceLock::new() }
    }

    /// Content of the page; zeros where nothing was written.
    #[must_use]
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.bytes
    }

    /// Hash of the bytes; 0 for a page of zeros, as for a missing page.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            if self.bytes.iter().all(|byte| *byte == 0) {
                return 0;
            }
            let mut hasher = DefaultHasher::new();
            self.bytes.hash(&mut hasher);
            hasher.finish()
        })
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page({:016x})", self.content_hash())
    }
}

/// Content of a node, by type.
#[derive(Clone, Debug)]
pub enum Kind {
    File {
        size_bytes: u64,
        /// Written pages by number. Pages past the end are invisible; they exist where a power cut kept a write but
        /// lost the size.
        pages: BTreeMap<u64, Arc<Page>>,
    },
    /// Names in the directory, with their nodes. `.` and `..` are not included.
    Directory(BTreeMap<Vec<u8>, NodeId>),
    /// Path that a symbolic link contains.
    Symlink(Vec<u8>),
}

/// A file, directory or symbolic link.
#[derive(Clone, Debug)]
pub struct Node {
    /// Permissions, as in `st_mode` without the type.
    pub mode: u32,
    pub kind: Kind,
}

impl Node {
    /// Creates an empty regular file with these permissions.
    #[must_use]
    pub fn file(mode: u32) -> Self {
        Self { mode, kind: Kind::File { size_bytes: 0, pages: BTreeMap::new() } }
    }

    /// Creates an empty directory with these permissions.
    #[must_use]
    pub fn directory(mode: u32) -> Self {
        Self { mode, kind: Kind::Directory(BTreeMap::new()) }
    }

    /// Creates a symbolic link to `path`, with the permissions 0777.
    #[must_use]
    pub fn symlink(path: &[u8]) -> Self {
        Self { mode: 0o777, kind: Kind::Symlink(path.to_vec()) }
    }
}

/// A file tree in memory. Clones share unchanged nodes and pages.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<NodeId, Arc<Node>>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Arc::new(Node::directory(0o755)))]) }
    }
}

impl Tree {
    /// Returns a node by its id; `None` if no such node exists.
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node).map(|node| &**node)
    }

    /// Largest node id in use.
    #[must_use]
    pub fn last_node(&self) -> NodeId {
        self.nodes.last_key_value().map_or(ROOT, |(node, _)| *node)
    }

    /// Id of the node that has a name in a directory; `None` if the name is free or `directory` is not a directory.
    #[must_use]
    pub fn lookup(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(directory)?.kind {
            Kind::Directory(names) => names.get(name).copied(),
            _ => None,
        }
    }

    /// Size of a file in bytes; length of a link's path; 0 for a directory or a missing node.
    #[must_use]
    pub fn size_bytes(&self, node: NodeId) -> u64 {
        match self.node(node).map(|node| &node.kind) {
            Some(Kind::File { size_bytes, .. }) => *size_bytes,
            Some(Kind::Symlink(path)) => path.len() as u64,
            _ => 0,
        }
    }

    /// Page of a file; `None` if the page was never written and reads as zeros.
    #[must_use]
    pub fn page(&self, node: NodeId, number: u64) -> Option<&Arc<Page>> {
        match &self.node(node)?.kind {
            Kind::File { pages, .. } => pages.get(&number),
            _ => None,
        }
    }

    /// Reads bytes of a file. The result is shorter if the range goes beyond the file's end.
    #[must_use]
    pub fn read(&self, node: NodeId, offset: u64, len_bytes: usize) -> Vec<u8> {
        let end = self.size_bytes(node).min(offset.saturating_add(len_bytes as u64));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        for piece in pieces(offset, bytes.len()) {
            if let Some(page) = self.page(node, piece.page) {
                bytes[piece.from..piece.from + piece.len]
                    .copy_from_slice(&page.bytes[piece.at..piece.at + piece.len]);
            }
        }
        bytes
    }

    /// Applies a change to the tree. No effect if the changed node or its directory does not exist.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Make { directory, name, node, made, mode } => {
                let new = match made {
                    Made::File => Node::file(*mode),
                    Made::Directory => Node::directory(*mode),
                    Made::Symlink(path) => Node::symlink(path),
                };
                self.nodes.entry(*node).or_insert_with(|| Arc::new(new));
                self.set_name(*directory, name, Some(*node));
            }
            Change::Link { directory, name, node } => self.set_name(*directory, name, Some(*node)),
            Change::Remove { directory, name, .. } => self.set_name(*directory, name, None),
            Change::Rename { from, to, node, replaced, exchange } => {
                self.set_name(from.0, &from.1, replaced.filter(|_| *exchange));
                self.set_name(to.0, &to.1, Some(*node));
            }
            Change::Write { node, offset, data } => {
                self.put(*node, *offset, data);
                self.grow(*node, offset + data.len() as u64);
            }
            Change::Zero { node, offset, len_bytes } => self.zero(*node, *offset, *len_bytes),
            Change::Resize { node, size_bytes } => self.resize(*node, *size_bytes),
            Change::Mode { node, mode } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    Arc::make_mut(node).mode = *mode;
                }
            }
        }
    }

    /// Adds a nameless node if it does not exist. In a state that loses the node's creation, later changes still need
    /// the node.
    pub fn ensure(&mut self, node: NodeId, new: impl FnOnce() -> Node) {
        self.nodes.entry(node).or_insert_with(|| Arc::new(new()));
    }

    /// Binds a name to a node, or with `None` removes the name.
    fn set_name(&mut self, directory: NodeId, name: &[u8], node: Option<NodeId>) {
        let Some(Kind::Directory(names)) = self.kind_mut(directory) else { return };
        match node {
            Some(node) => names.insert(name.to_vec(), node),
            None => names.remove(name),
        };
    }

    fn kind_mut(&mut self, node: NodeId) -> Option<&mut Kind> {
        self.nodes.get_mut(&node).map(|node| &mut Arc::make_mut(node).kind)
    }

    fn pages_mut(&mut self, node: NodeId) -> Option<&mut BTreeMap<u64, Arc<Page>>> {
        match self.kind_mut(node)? {
            Kind::File { pages, .. } => Some(pages),
            _ => None,
        }
    }

    /// Writes bytes without changing the size. Bytes past the end become visible when the file grows.
    pub fn put(&mut self, node: NodeId, offset: u64, data: &[u8]) {
        let Some(pages) = self.pages_mut(node) else { return };
        for piece in pieces(offset, data.len()) {
            let page = pages.entry(piece.page).or_insert_with(|| Arc::new(Page::zeros()));
            let page = Arc::make_mut(page);
            page.hash = OnceLock::new();
            page.bytes[piece.at..piece.at + piece.len]
                .copy_from_slice(&data[piece.from..piece.from + piece.len]);
        }
    }

    /// Extends a file to a size. No effect on a file that is longer.
    pub fn grow(&mut self, node: NodeId, size_bytes: u64) {
        if let Some(Kind::File { size_bytes: size, .. }) = self.kind_mut(node) {
            *size = size_bytes.max(*size);
        }
    }

    /// Sets a file's size. Drops all bytes beyond the new end.
    pub fn resize(&mut self, node: NodeId, size: u64) {
        let Some(Kind::File { size_bytes, pages }) = self.kind_mut(node) else { return };
        *size_bytes = size;
        pages.split_off(&size.div_ceil(PAGE_BYTES as u64));
        let kept = (size % PAGE_BYTES as u64) as usize;
        if let Some(page) = pages.get_mut(&(size / PAGE_BYTES as u64)) {
            let page = Arc::make_mut(page);
            page.hash = OnceLock::new();
            page.bytes[kept..].fill(0);
        }
    }

    /// Zeroes a range of a file without changing the file's size.
    pub fn zero(&mut self, node: NodeId, offset: u64, len_bytes: u64) {
        const PAGE: u64 = PAGE_BYTES as u64;
        let Some(pages) = self.pages_mut(node) else { return };
        let end = offset.saturating_add(len_bytes);
        // A missing page is zero, and a range may be a whole device.
        let touched: Vec<u64> =
            pages.range(offset / PAGE..end.div_ceil(PAGE)).map(|(number, _)| *number).collect();
        for number in touched {
            let at = |position: u64| position.saturating_sub(number * PAGE).min(PAGE) as usize;
            if (at(offset), at(end)) == (0, PAGE_BYTES) {
                pages.remove(&number);
            } else if let Some(page) = pages.get_mut(&number) {
                let page = Arc::make_mut(page);
                page.hash = OnceLock::new();
                page.bytes[at(offset)..at(end)].fill(0);
            }
        }
    }

    /// Hash of all that a program can see below the top directory: names, permissions, links and file contents. It
    /// ignores node ids, but includes which names share a node.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut seen = BTreeMap::new();
        self.hash_node(ROOT, &mut seen, &mut hasher);
        hasher.finish()
    }

    fn hash_node(
        &self,
        number: NodeId,
        seen: &mut BTreeMap<NodeId, u64>,
        hasher: &mut DefaultHasher,
    ) {
        let order = seen.len() as u64;
        if let Some(order) = seen.get(&number) {
            return order.hash(hasher);
        }
        seen.insert(number, order);
        let Some(node) = self.node(number) else { return u64::MAX.hash(hasher) };
        node.mode.hash(hasher);
        match &node.kind {
            Kind::File { size_bytes, pages } => {
                size_bytes.hash(hasher);
                let end = size_bytes.div_ceil(PAGE_BYTES as u64);
                for (number, page) in pages.range(..end) {
                    if page.content_hash() != 0 {
                        (number, page.content_hash()).hash(hasher);
                    }
                }
            }
            Kind::Directory(names) => {
                names.len().hash(hasher);
                for (name, node) in names {
                    name.hash(hasher);
                    self.hash_node(*node, seen, hasher);
                }
            }
            Kind::Symlink(path) => path.hash(hasher),
        }
    }

    /// Ids of all nodes that the top directory reaches.
    #[must_use]
    pub fn reachable(&self) -> BTreeSet<NodeId> {
        let mut reached = BTreeSet::new();
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            if let (true, Some(node)) = (reached.insert(number), self.node(number))
                && let Kind::Directory(names) = &node.kind
            {
                open.extend(names.values());
            }
        }
        reached
    }

    /// Path of a node below the top directory, by its first name in alphabetical order; `None`: unreachable.
    #[must_use]
    pub fn path_of(&self, wanted: NodeId) -> Option<String> {
        let mut open = vec![(ROOT, String::new())];
        let mut seen = BTreeSet::new();
        while let Some((number, path)) = open.pop() {
            if number == wanted {
                return Some(path);
            }
            let Some(Kind::Directory(names)) = self.node(number).map(|node| &node.kind) else {
                continue;
            };
            if seen.insert(number) {
                let below = |name: &[u8]| {
                    let name = String::from_utf8_lossy(name);
                    if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") }
                };
                open.extend(names.iter().rev().map(|(name, node)| (*node, below(name))));
            }
        }
        None
    }
}

/// The part of a byte range that lies in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) page: u64,
    /// Offset of the part within the page, bytes.
    pub(crate) at: usize,
    /// Offset of the part within the whole range, bytes.
    pub(crate) from: usize,
    /// Length of the part, bytes.
    pub(crate) len: usize,
}

/// Splits a byte range at page boundaries.
pub(crate) fn pieces(offset: u64, len_bytes: usize) -> impl Iterator<Item = Piece> {
    let mut from = 0;
    std::iter::from_fn(move || {
        if from == len_bytes {
            return None;
        }
        let position = offset + from as u64;
        let at = (position % PAGE_BYTES as u64) as usize;
        let len = (PAGE_BYTES - at).min(len_bytes - from);
        let piece = Piece { page: position / PAGE_BYTES as u64, at, from, len };
        from += len;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_as_it_was_written() {
        let mut tree = Tree::default();
        let make = Change::Make {
            directory: ROOT,
            name: b"a".to_vec(),
            node: 2,
            made: Made::File,
            mode: 0o644,
        };
        tree.apply(&make);
        let mut model = vec![0u8; 20_000];
        let mut size = 0;
        for (round, (offset, len)) in
            [(0, 10), (4090, 20), (9000, 9000), (4096, 4096)].into_iter().enumerate()
        {
            let data: Vec<u8> = (0..len).map(|i| (i * 7 + round) as u8).collect();
            model[offset..offset + len].copy_from_slice(&data);
            size = size.max(offset + len);
            tree.apply(&Change::Write { node: 2, offset: offset as u64, data: data.into() });
        }
        assert_eq!(tree.read(2, 0, 1 << 20), model[..size]);
        let before = tree.content_hash();
        let mut copy = tree.clone();
        copy.apply(&Change::Zero { node: 2, offset: 4000, len_bytes: 5000 });
        model[4000..9000].fill(0);
        assert_eq!(copy.read(2, 0, 1 << 20), model[..size]);
        copy.apply(&Change::Resize { node: 2, size_bytes: 5000 });
        copy.apply(&Change::Resize { node: 2, size_bytes: 12_000 });
        model[5000..].fill(0);
        assert_eq!(copy.read(2, 0, 1 << 20), model[..12_000]);
        assert_ne!(copy.content_hash(), before);
        assert_eq!(tree.content_hash(), before, "a clone shares nothing that changes");
    }

    #[test]
    fn hidden_bytes_appear_when_the_file_grows() {
        let mut tree = Tree::default();
        tree.ensure(2, || Node::file(0o644));
        tree.put(2, 0, b"hidden");
        assert_eq!(tree.size_bytes(2), 0);
        tree.grow(2, 4);
        assert_eq!(tree.read(2, 0, 100), b"hidd");
    }
}
