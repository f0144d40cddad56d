//! Changes of a file tree, such as creating, renaming and writing files.

use crate::hex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Identifies a file, directory or symbolic link in a tree. Never reused, even after a deletion.
pub type NodeId = u64;

/// A change of a tree. Atomic: it takes effect as a whole or not at all, except [`Change::Write`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Creates a file, directory or symbolic link under a name.
    Make {
        /// Directory that contains the name.
        directory: NodeId,
        /// Name of the new node, without a path.
        #[serde(with = "hex")]
        name: Vec<u8>,
        /// Number of the new node.
        node: NodeId,
        /// Type of the new node.
        made: Made,
        /// Permissions of the new node, as in `st_mode` without the type.
        mode: u32,
    },
    /// Adds a name for an existing node (hard link).
    Link {
        /// Directory that contains the name.
        directory: NodeId,
        /// The added name, without a path.
        #[serde(with = "hex")]
        name: Vec<u8>,
        /// Node that gets the additional name.
        node: NodeId,
    },
    /// Removes a name: unlink and rmdir.
    Remove {
        /// Directory that contains the name.
        directory: NodeId,
        /// The removed name, without a path.
        #[serde(with = "hex")]
        name: Vec<u8>,
        /// Node that had the name.
        node: NodeId,
    },
    /// Renames a node. Any node that had the new name loses that name, or gets the old name in an exchange.
    Rename {
        /// Directory and name before the rename.
        #[serde(with = "hex::entry")]
        from: (NodeId, Vec<u8>),
        /// Directory and name after the rename.
        #[serde(with = "hex::entry")]
        to: (NodeId, Vec<u8>),
        /// Node that is renamed.
        node: NodeId,
        /// Node that had the new name before the rename; `None`: the name was free.
        replaced: Option<NodeId>,
        /// Whether the renamed and the replaced node swap names (`RENAME_EXCHANGE`).
        exchange: bool,
    },
    /// Writes bytes to a file. Extends the file if the range goes beyond the file's end.
    Write {
        /// File that is written.
        node: NodeId,
        /// Offset of the first written byte in the file.
        offset: u64,
        #[serde(with = "hex")]
        data: Arc<[u8]>,
    },
    /// Zeroes a range without changing the size: a punched hole or a zeroed range.
    Zero {
        /// File that contains the range.
        node: NodeId,
        /// Offset of the first zeroed byte in the file.
        offset: u64,
        len_bytes: u64,
    },
    /// Sets a file's size: truncation, and extension by ftruncate or fallocate.
    Resize {
        /// File that is truncated or extended.
        node: NodeId,
        /// Size of the file after the change, bytes.
        size_bytes: u64,
    },
    /// Sets the permissions of a node (chmod).
    Mode {
        /// Node whose permissions are set.
        node: NodeId,
        /// Permissions, as in `st_mode` without the type.
        mode: u32,
    },
}

/// Type of node that [`Change::Make`] creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// A regular file, initially empty.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link to this path.
    Symlink(#[serde(with = "hex")] Vec<u8>),
}
