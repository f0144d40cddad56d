//! The interface of an engine: takes operations and returns completions. The worker owns the loop
//! and the stamps; an engine only moves bytes.
//!
//! One turn of the loop: `queue` each operation into its slot, `turn` once (submits them and waits as requested;
//! occasionally preceded by `submit`, to be stamped separately), `drain` the completions. An engine never allocates,
//! locks, logs or formats in these calls.

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

/// Maximum time for which a turn may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Don't block.
    No,
    /// Until at least one completion is available.
    One,
    /// Until a completion is available, or this many ns have passed.
    AtMostNs(u64),
}

/// An engine, as the worker's loop sees it.
pub trait Engine {
    /// Whether a turn is a system call that hands queued operations to a device, which works on by itself. If so, the
    /// first operations of a batch wait until the others are prepared.
    const HANDS_OVER: bool = false;

    /// Takes one operation. The slot's buffer belongs to the engine until the completion is drained.
    fn queue(&mut self, slot: u32, op: &Op);

    /// Submits queued operations without waiting, as the first part of the next turn. False, without any effect, if
    /// submission and execution are a single step.
    fn submit(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Submits queued operations and waits as requested. An interruption by a signal counts as success.
    fn turn(&mut self, wait: Wait) -> io::Result<()>;

    /// Passes each completion to `done`: its slot, and the bytes moved or the negative error number.
    fn drain(&mut self, done: impl FnMut(u32, i32));

    /// Maximum number of operations that one turn handles well.
    fn batch_max(&self) -> u32 {
        64
    }

    /// Tries to cancel the operations in flight on a target that does not answer. Cancelled operations complete.
    fn cancel(&mut self) {}

    /// Whether the kernel may still access the buffers of operations in flight after the engine is dropped, or
    /// whether dropping it would wait for them.
    fn lends_buffers(&self) -> bool {
        true
    }

    /// Whether the kernel granted MAP_SYNC; None if the engine maps nothing.
    fn map_sync(&self) -> Option<bool> {
        None
    }

    /// The error that ended the engine, if it showed this by failing the operations in flight.
    fn lost(&self) -> Option<io::Error> {
        None
    }
}

/// Engines, named as in `--engine` and in results.
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
    /// Copies to and from memory of this process; the engine of `ram:` targets.
    Ram,
    /// Completes everything at once; the engine of `null:` targets.
    Null,
    /// Emulated storage in virtual time; the engine of `model:` targets.
    Model,
    /// Emulated storage in real time; the engine of `live:` targets.
    Live,
    /// An export of an NBD server; the engine of `nbd:` targets.
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

    /// Name on the command line.
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

    /// Whether a worker can have several operations outstanding. psync and mmap execute one at a time by nature; ram
    /// and null keep a queue, so that depth means the same on every engine.
    pub const fn queues(self) -> bool {
        !matches!(self, Self::Psync | Self::Mmap)
    }

    /// Whether it moves data only within the process, without the kernel or a device.
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
        // Accepts fio's names, too.
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

/// An open target in the form that engines use. The crate `targets` opens it; engines never do.
#[derive(Clone, Debug)]
pub struct FileMedium {
    /// Open descriptor.
    pub fd: Arc<OwnedFd>,
    /// Addressable length, bytes.
    pub capacity_bytes: u64,
    /// Whether it is a block device (trim and write-zeroes use other calls than on files).
    pub is_block_device: bool,
    /// Alignment of buffers in memory, bytes.
    pub memory_align_bytes: u32,
    /// Whether O_DIRECT is in effect.
    pub direct: bool,
    /// Whether reads and writes go through the page cache but leave nothing in it.
    pub uncached: bool,
    /// Whether it is also open for writing.
    pub writable: bool,
    /// The NVMe namespace to which commands bypass the block layer; `fd` is its block device. None without
    /// passthrough.
    pub passthrough: Option<NvmeNamespace>,
}

/// An NVMe namespace behind its character device.
#[derive(Clone, Debug)]
pub struct NvmeNamespace {
    /// The character device.
    pub fd: Arc<OwnedFd>,
    /// Namespace number.
    pub number: u32,
    /// Size of a logical block, bytes.
    pub block_bytes: u32,
    /// Maximum transfer of one command, bytes.
    pub transfer_bytes_max: u64,
}

impl FileMedium {
    /// Flags of each read, and of each write in addition to its own.
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
    /// Nothing, with a nominal size in bytes.
    Null(u64),
    /// A volume of an emulated system. All targets of a cell are volumes of the same system: they affect each other
    /// through shared parts, so one machine carries them all.
    Model {
        /// The system.
        system: Arc<System>,
        /// Number of the volume.
        volume: u32,
    },
    /// A volume of a real-time machine, which carries all targets of the cell.
    Live {
        /// The machine.
        live: Arc<Live<CompletionHandle>>,
        /// Number of the volume.
        volume: u32,
        /// Number of the target's first worker in the machine.
        first_worker: u32,
    },
    /// An export of an NBD server.
    Nbd(NbdMedium),
}

impl Medium {
    /// Addressable bytes.
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
    /// io_uring: use no optional flags, as a simple program would.
    pub plain: bool,
}

/// The calling thread's errno, negated, as completions report it.
pub(crate) fn negative_errno() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
