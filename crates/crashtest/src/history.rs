//! What a program did in its folder, in order.

use crate::change::{Change, NodeId};
use crate::hex;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// One recorded event. An operation is recorded before it is acknowledged to the program, and takes effect at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// An operation that changed the folder.
    Change(Change),
    /// A completed fsync or, with `data_only`, fdatasync of a file or directory.
    Sync {
        /// The file or directory.
        node: NodeId,
        /// Whether it was fdatasync, which leaves out times and mode.
        data_only: bool,
    },
    /// An fsync or fdatasync that failed. The file system reported the error once and no longer counts the file's data
    /// as dirty, so a later sync does not write them.
    SyncFailed {
        /// The file or directory.
        node: NodeId,
    },
    /// A range of a file became durable, by a write of a device with FUA.
    SyncRange {
        /// The file.
        node: NodeId,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len_bytes: u64,
    },
    /// Data of earlier changes became durable on a device, whether or not they were flushed.
    Landed {
        /// Numbers of their events.
        changes: Vec<usize>,
    },
    /// A completed syncfs or sync.
    SyncAll,
    /// Bytes that the program wrote to standard output. They count as promises to the user.
    Output(#[serde(with = "hex")] Vec<u8>),
}

/// A recorded run of a program.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The folder at the start, all of it durable.
    pub start: Tree,
    /// Events in order.
    pub events: Vec<Event>,
}
