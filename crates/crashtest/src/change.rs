//! Changes of a file tree.

use crate::hex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of a file, directory or symbolic link. A number is not used again after a deletion.
pub type NodeId = u64;

/// A change of a tree that either takes effect as a whole or not at all, except [`Change::Write`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Creates a node and gives it a name.
    Make {
        /// Directory that contains the name.
        directory: NodeId,
        /// The name, without a path.
        #[serde(with = "hex")]
        name: Vec<u8>,
        /// Number of the new node.
        node: NodeId,
        /// Kind of a new node.
        made: Made,
        /// Its permissions.
        mode: u32,
    },
    /// Gives a node a further name.
    Link {
        /// Directory that contains the name.
        directory: NodeId,
        /// The name, without a path.
        #[serde(with = "hex")]
        name: Vec<u8>,
        /// Node that gets the name.
        node: NodeId,
    },
    /// Removes a name: unlink and rmdir.
    Remove {
        /// Directory that contains the name.
        directory: NodeId,
        /// The name, without a path.
        #[serde(with = "hex")]
        name: Vec<u8>,
        /// Node that had the name.
        node: NodeId,
    },
    /// Renames a node. A node that already has the new name loses it.
    Rename {
        /// Directory and name before.
        #[serde(with = "hex::entry")]
        from: (NodeId, Vec<u8>),
        /// Directory and name after.
        #[serde(with = "hex::entry")]
        to: (NodeId, Vec<u8>),
        /// Node that moves.
        node: NodeId,
        /// Node that had the new name; `None`: the name was free.
        replaced: Option<NodeId>,
        /// Whether the two nodes swap names (`RENAME_EXCHANGE`).
        exchange: bool,
    },
    /// Writes bytes, and extends the file if they end past its end.
    Write {
        /// The file.
        node: NodeId,
        /// Position of the first byte.
        offset: u64,
        /// The bytes.
        #[serde(with = "hex")]
        data: Arc<[u8]>,
    },
    /// Zeroes a range without changing the size: a punched hole or a zeroed range.
    Zero {
        /// The file.
        node: NodeId,
        /// Position of the first byte.
        offset: u64,
        /// Length in bytes.
        len_bytes: u64,
    },
    /// Sets a file's size: truncation, and extension by ftruncate or fallocate.
    Resize {
        /// The file.
        node: NodeId,
        /// New size in bytes.
        size_bytes: u64,
    },
    /// Sets permissions.
    Mode {
        /// Node whose permissions are set.
        node: NodeId,
        /// Permissions, as in `st_mode` without the type.
        mode: u32,
    },
}

/// What [`Change::Make`] creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// A regular file.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link with this path.
    Symlink(#[serde(with = "hex")] Vec<u8>),
}
