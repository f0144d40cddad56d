//! The interface of an engine: takes operations and returns completions. The worker owns the loop
//! and the stamps; an engine only moves bytes.
//!
//! One turn of the loop: `queue` each operation into its slot, `turn` once (submits them and waits
//! as requested; now and then `submit` goes before it, to be stamped apart), `drain` what
//! completed. An engine never allocates, locks, logs or formats in these.

pub mod libaio;
pub mod live;
pub mod mmap;
pub mod nbd;
pub mod null;
pub mod nvme_passthrough;
pub mod psync;
pub mod ram;
pub mod range_ops;
pub mod uring;

use iodyno_emulate::System;
use iodyno_live::served::Live;
use iodyno_units::Op;
use live::CompletionHandle;
use nbd::NbdMedium;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::memory::Region;

/// Longest time that a turn may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until at least one completion is there.
    One,
    /// Until one is there, or this many ns have passed.
    AtMostNs(u64),
}

/// An engine, as the worker's loop sees it.
pub trait Engine {
    /// Whether a turn is a system call that hands what was queued to a device, which goes on by itself. Then the first
    /// operations of a batch wait until the others are prepared.
    const HANDS_OVER: bool = false;

    /// Takes one operation; the slot's buffer is the engine's until its completion is drained.
    fn queue(&mut self, slot: u32, op: &Op);

    /// Submits what was queued without waiting: the first part of the next turn. False where
    /// submission and execution are one step; then nothing was done.
    fn submit(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Submits what was queued and waits as requested. Being interrupted by a signal is success.
    fn turn(&mut self, wait: Wait) -> io::Result<()>;

    /// Gives each completion: its slot, and bytes moved or the negative error number.
    fn drain(&mut self, done: impl FnMut(u32, i32));

    /// The most operations that one turn handles well.
    fn batch_max(&self) -> u32 {
        64
    }

    /// Tries to cancel what is in flight on a target that does not answer. Cancelled operations complete.
    fn cancel(&mut self) {}

    /// Whether the kernel may still access the buffers of what is in flight once the engine is
    /// dropped, or dropping it would wait for that.
    fn lends_buffers(&self) -> bool {
        true
    }

    /// Whether the kernel granted MAP_SYNC; None where the engine maps nothing.
    fn map_sync(&self) -> Option<bool> {
        None
    }

    /// Why it can't go on, where it showed that by failing what was in flight.
    fn lost(&self) -> Option<io::Error> {
        None
    }
}

/// Engines, by the names in `--engine` and in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// io_uring.
    Uring,
    /// Linux native asynchronous I/O, by raw system calls.
    Libaio,
    /// pread and pwrite, one at a time.
    Psync,
    /// Load and store on a mapping.
    Mmap,
    /// Copies to and from memory of this process; what `ram:` targets use.
    Ram,
    /// Completes everything at once; what `null:` targets use.
    Null,
    /// Emulated storage, in virtual time; what `model:` targets use.
    Model,
    /// Emulated storage, in real time; what `live:` targets use.
    Live,
    /// An export of an NBD server; what `nbd:` targets use.
    Nbd,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [Self; 9] = [
        Self::Uring,
        Self::Libaio,
        Self::Psync,
        Self::Mmap,
        Self::Ram,
        Self::Null,
        Self::Model,
        Self::Live,
        Self::Nbd,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Libaio => "libaio",
            Self::Psync => "psync",
            Self::Mmap => "mmap",
            Self::Ram => "ram",
            Self::Null => "null",
            Self::Model => "model",
            Self::Live => "live",
            Self::Nbd => "nbd",
        }
    }

    /// Whether a worker can have more than one operation outstanding. psync and mmap do one at a time
    /// by their nature; ram and null keep a queue, so that depth means the same on every engine.
    pub const fn queues(self) -> bool {
        !matches!(self, Self::Psync | Self::Mmap)
    }

    /// Whether it moves data inside the process only: no kernel, no device.
    pub const fn in_process(self) -> bool {
        matches!(self, Self::Ram | Self::Null)
    }

    /// Whether it belongs to one kind of target, which works with no other engine.
    pub const fn comes_with_target(self) -> bool {
        matches!(self, Self::Ram | Self::Null | Self::Model | Self::Live | Self::Nbd)
    }
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Accepts fio's names too.
        match text {
            "io_uring" => return Ok(Self::Uring),
            "sync" => return Ok(Self::Psync),
            _ => {}
        }
        Self::ALL.into_iter().find(|e| e.name() == text).ok_or_else(|| {
            format!("there is no engine `{text}`: use uring, libaio, psync or mmap (`ram:`, `null:`, `model:`, `live:` and `nbd:` targets bring their own)")
        })
    }
}

/// An open target, as engines need it. Crate `target` opened it; engines never do.
#[derive(Clone, Debug)]
pub struct FileMedium {
    /// Open descriptor.
    pub fd: Arc<OwnedFd>,
    /// Length that may be addressed, bytes.
    pub capacity_bytes: u64,
    /// A block device (trim and write-zeroes use other calls than on files).
    pub is_block_device: bool,
    /// Buffers must start at a multiple of this, bytes.
    pub memory_align_bytes: u32,
    /// Whether O_DIRECT is in effect.
    pub direct: bool,
    /// Reads and writes go through the page cache and leave nothing there.
    pub uncached: bool,
    /// Opened for writing too.
    pub writable: bool,
    /// An NVMe namespace that commands are sent to past the block layer; `fd` is its block device.
    pub passthrough: Option<NvmeNamespace>,
}

/// An NVMe namespace behind its character device.
#[derive(Clone, Debug)]
pub struct NvmeNamespace {
    /// The character device.
    pub fd: Arc<OwnedFd>,
    /// Its number.
    pub number: u32,
    /// Its logical block, bytes.
    pub block_bytes: u32,
    /// The longest transfer of one command, bytes.
    pub transfer_bytes_max: u64,
}

impl FileMedium {
    /// Flags of each read, and of each write beside its own.
    pub(crate) const fn rw_flags(&self) -> i32 {
        if self.uncached { libc::RWF_DONTCACHE } else { 0 }
    }
}

/// The storage that an engine works on.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A file, a block device or a character device.
    File(FileMedium),
    /// Memory of this process.
    Ram(Arc<Region>),
    /// Nothing, of a nominal size in bytes.
    Null(u64),
    /// A volume of an emulated system. All targets of a cell are volumes of the same system: one
    /// machine carries them all, since they affect one another through what they share.
    Model {
        /// The system.
        system: Arc<System>,
        /// Which of its volumes.
        volume: u32,
    },
    /// A volume of a real-time machine, which carries all targets of the cell.
    Live {
        /// The machine.
        live: Arc<Live<CompletionHandle>>,
        /// Which of its volumes.
        volume: u32,
        /// The number of the target's first worker in the machine.
        first_worker: u32,
    },
    /// An export of an NBD server.
    Nbd(NbdMedium),
}

impl Medium {
    /// Bytes that may be addressed.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::File(f) => f.capacity_bytes,
            Self::Ram(r) => r.len() as u64,
            Self::Null(bytes) => *bytes,
            Self::Model { system, volume } => system.capacity_bytes(*volume),
            Self::Live { live, volume, .. } => live.capacity_bytes(*volume),
            Self::Nbd(export) => export.capacity_bytes,
        }
    }
}

/// Engine options that a user may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// io_uring: poll for completions (IORING_SETUP_IOPOLL) instead of waiting for interrupts.
    pub poll: bool,
    /// io_uring: none of the optional flags, as a plain program would set it up.
    pub plain: bool,
}

/// The negative of the calling thread's errno, as completions carry it.
pub(crate) fn negative_errno() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
