//! Interface of an observer that is called before an operation uses a part of a file tree. The observer can then choose
//! the part's content lazily.

use crate::change::NodeId;
use crate::tree::Tree;

/// Part of a tree that an operation uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// Content of a page of a file.
    Page {
        /// File that contains the page.
        node: NodeId,
        /// Number of the page in the file, from 0.
        number: u64,
    },
    /// Content of a page and of all later pages of a file. Passed when a new file or a change of size overwrites them.
    /// Reads pass each page as [`Self::Page`].
    PagesFrom {
        /// File that contains the pages.
        node: NodeId,
        /// Number of the first page in the file, from 0.
        number: u64,
    },
    /// Size of the file with this id.
    Size(NodeId),
    /// Permissions of the file or directory with this id.
    Mode(NodeId),
    /// Result of looking up a name in a directory: a node, or that the name is free.
    Name {
        /// Directory in which the name is looked up.
        directory: NodeId,
        /// The name, without a path.
        name: Vec<u8>,
    },
    /// All names in a directory, and their nodes.
    Names(NodeId),
}

/// Type of access to an [`Item`] by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// The operation's result depends on the item's value.
    Read,
    /// The operation replaces the item's value, and its result does not depend on the old one.
    Overwrite,
}

/// Observer of a folder's tree, which may set the content of a part just before its first use.
///
/// `before` is called for each item that an operation uses, with the folder locked. In the first call with an item, it
/// may change the item's value in the tree. In later calls it must not, because the kernel may have cached the value
/// (names, attributes and pages). Due to this cache, most items are passed only once.
///
/// | operation | calls |
/// |---|---|
/// | lookup of a name | `Name` read, then as for attributes of the node |
/// | attributes (stat, and the result of each operation that returns a node) | `Size` (of a file) and `Mode` read |
/// | list of a directory; rmdir and replacement of a directory | `Names` read |
/// | create, mkdir, symlink, link, unlink, rmdir, rename | each `Name` overwritten, after the lookup that read it |
/// | create, mkdir, symlink | also overwritten: the new node's `Mode`; a file's `Size` and `PagesFrom` 0; a directory's `Names` |
/// | read | `Size` read, then each `Page` below the size |
/// | write | `Size` read; a `Page` whose visible bytes are all replaced is overwritten, else read |
/// | truncation to nothing | `Size` and `PagesFrom` 0 overwritten |
/// | other change of size | `Size` read; the `Page` that contains the smaller size in its middle read; `PagesFrom` the next one overwritten |
/// | write past the end, fallocate that extends | as for a write and a change of size |
/// | punched hole, zeroed range | `Size` read; whole pages overwritten, else read |
/// | search for data or holes | `Size` read: a watched file appears to have no holes |
/// | chmod | `Mode` overwritten |
///
/// Link counts are not items; they are computed from the current tree.
pub trait Watch: Send {
    /// Called before an operation uses an item. May change the item's value in the tree.
    fn before(&mut self, tree: &mut Tree, item: &Item, access: Access);
}
