//! Recorded operations of a program in its folder, in order.

use crate::change::{Change, NodeId};
use crate::hex;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// One recorded event. An operation is recorded before it is acknowledged to the program. Later operations see its
/// effect at once; durability needs a later event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// An operation that changed the folder.
    Change(Change),
    /// A completed fsync or, with `data_only`, fdatasync of a file or directory.
    Sync {
        /// File or directory that was synced.
        node: NodeId,
        /// Whether the sync was fdatasync, which omits times and mode.
        data_only: bool,
    },
    /// An fsync or fdatasync that failed. The file system reported the error once and marked the file's dirty data
    /// clean, so no later sync writes that data.
    SyncFailed {
        /// File or directory whose sync failed.
        node: NodeId,
    },
    /// A range of a file became durable by a write with FUA to a block device.
    SyncRange {
        /// File that contains the range.
        node: NodeId,
        /// Offset of the first durable byte in the file.
        offset: u64,
        len_bytes: u64,
    },
    /// Changes became durable on an emulated device. The device may have written them by itself, without a flush.
    Landed {
        /// Indices of the events whose changes became durable.
        changes: Vec<usize>,
    },
    /// The file system allocated blocks for a range of a file, and set them to zero if they were new (fallocate).
    Allocated {
        /// File that contains the range.
        node: NodeId,
        /// Offset of the first allocated byte in the file.
        offset: u64,
        len_bytes: u64,
    },
    /// The first write of a file that arrived from the kernel's page cache: the program stored into a shared mapping of
    /// the file. The kernel may write such a store to a disk at any time, but passes it on only at msync, fsync,
    /// munmap or exit.
    Mapped {
        /// File that is mapped.
        node: NodeId,
    },
    /// A completed sync or syncfs, which makes everything in the folder durable.
    SyncAll,
    /// Bytes that the program wrote to standard output. Data that these bytes acknowledge must survive a later power
    /// cut.
    Output(#[serde(with = "hex")] Vec<u8>),
}

/// A recorded run of a program: its folder at the start, and all events.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Content of the folder at the start of the run, all of it durable.
    pub start: Tree,
    /// Recorded events, in the order in which they took effect.
    pub events: Vec<Event>,
}
