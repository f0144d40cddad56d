//! The interface of an engine: takes operations and returns completions. The worker owns the loop
//! and the stamps; an engine only moves bytes.
//!
//! One turn of the loop: `queue` each operation into its slot, `turn` once (submits them and waits as requested;
//! occasionally preceded by `submit`, to be stamped separately), `drain` the completions. An engine never allocates,
//! locks, logs or formats in these calls.
//!
//! An engine is a file of this folder: its properties (`ABOUT`), its set-up for a worker (`run`), and its
//! implementation of [`Engine`]. It is registered here, in [`EngineKind`] and, if it works on files, [`FileEngine`].

pub mod libaio;
pub mod live;
mod medium;
pub mod mmap;
pub mod nbd;
pub mod null;
pub mod nvme_passthrough;
pub mod psync;
pub mod ram;
pub mod range_ops;
pub mod uring;

pub use medium::{FileMedium, Medium, NvmeNamespace};

use crate::memory::Buffers;
use iodyno_units::Op;
use iodyno_units::text::listed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

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

    /// Submits queued operations without waiting, as the first part of the next turn. Returns false and does nothing
    /// if submission and execution are a single step.
    fn submit(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Submits queued operations and waits as requested. An interruption by a signal counts as success.
    fn turn(&mut self, wait: Wait) -> io::Result<()>;

    /// Passes each completion to `done`: its slot, and the bytes moved or the negative error number.
    fn drain(&mut self, done: impl FnMut(u32, i32));

    /// Maximum number of operations to queue for one turn.
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

    /// The error that ended the engine, if the engine reported it only by failing the operations in flight.
    fn lost(&self) -> Option<io::Error> {
        None
    }
}

/// Properties of an engine. Each engine's file has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// Names in other tools.
    pub aliases: &'static [&'static str],
    /// Whether a worker can have several operations outstanding.
    pub queues: bool,
    /// Whether the engine moves data only within the process, without the kernel or a device.
    pub in_process: bool,
    /// Whether the engine maps the target, so O_DIRECT does not apply.
    pub maps: bool,
    /// Whether trims and zeroes of a file have no asynchronous form, though other operations do. Each operation is then
    /// submitted separately, so that it does not include the time of others of a batch in the system call.
    pub blocks_on_ranges: bool,
    /// Whether a worker waits in a system call that a signal may interrupt. False if it waits in the operation itself:
    /// the signal could make the operation fail.
    pub is_wakeable: bool,
    /// Remedy for a failed set-up, or empty.
    pub hint: fn(&io::Error) -> &'static str,
}

impl About {
    /// An engine without special properties, with one operation outstanding per worker.
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            queues: false,
            in_process: false,
            maps: false,
            blocks_on_ranges: false,
            is_wakeable: false,
            hint: |_| "",
        }
    }
}

/// The engine of virtual time, which has no workers of its own: `model/` drives all of them.
const MODEL: About = About { queues: true, ..About::new("model") };

/// Facts of an engine in effect, by name.
pub(crate) type Facts = BTreeMap<String, String>;

/// A worker that waits for its engine: the parameters by which an engine is set up, and the call that then runs the
/// worker.
pub(crate) trait Seat: Sized {
    /// Number of the worker on its target.
    fn number(&self) -> u32;

    /// Maximum number of operations in flight.
    fn slots(&self) -> u32;

    /// Length of the longest block, bytes.
    fn block_bytes_max(&self) -> u32;

    /// Options of the engine, such as polling for completions.
    fn options(&self) -> EngineOptions;

    /// Allocates the worker's buffers, filled with its content.
    fn buffers(&self, align_bytes: usize) -> io::Result<Buffers>;

    /// Runs the worker. Without buffers, no bytes move.
    fn run<E: Engine>(self, engine: &mut E, buffers: Option<&Buffers>, facts: Facts);
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

/// Engines of files and devices, among which a user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEngine {
    /// io_uring; on an NVMe namespace behind its character device, NVMe commands by io_uring.
    Uring,
    /// Linux native asynchronous I/O.
    Libaio,
    /// pread and pwrite.
    Psync,
    /// A mapping.
    Mmap,
}

impl FileEngine {
    /// The corresponding [`EngineKind`].
    pub const fn kind(self) -> EngineKind {
        match self {
            Self::Uring => EngineKind::Uring,
            Self::Libaio => EngineKind::Libaio,
            Self::Psync => EngineKind::Psync,
            Self::Mmap => EngineKind::Mmap,
        }
    }

    fn run(self, file: &FileMedium, seat: impl Seat) -> io::Result<()> {
        if file.passthrough.is_some() && self != Self::Uring {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "only io_uring can send NVMe commands: leave --engine out, or name the block device",
            ));
        }
        match self {
            Self::Uring => match &file.passthrough {
                Some(namespace) => nvme_passthrough::run(file, namespace, seat),
                None => uring::run(file, seat),
            },
            Self::Libaio => libaio::run(file, seat),
            Self::Psync => psync::run(file, seat),
            Self::Mmap => mmap::run(file, seat),
        }
    }
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

    pub(crate) const fn about(self) -> &'static About {
        match self {
            Self::Uring => &uring::ABOUT,
            Self::Libaio => &libaio::ABOUT,
            Self::Psync => &psync::ABOUT,
            Self::Mmap => &mmap::ABOUT,
            Self::Ram => &ram::ABOUT,
            Self::Null => &null::ABOUT,
            Self::Model => &MODEL,
            Self::Live => &live::ABOUT,
            Self::Nbd => &nbd::ABOUT,
        }
    }

    /// The corresponding [`FileEngine`]; None for the engine of a special kind of target, such as `ram:`.
    pub const fn on_files(self) -> Option<FileEngine> {
        match self {
            Self::Uring => Some(FileEngine::Uring),
            Self::Libaio => Some(FileEngine::Libaio),
            Self::Psync => Some(FileEngine::Psync),
            Self::Mmap => Some(FileEngine::Mmap),
            Self::Ram | Self::Null | Self::Model | Self::Live | Self::Nbd => None,
        }
    }

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Whether a worker can have several operations outstanding. psync and mmap execute one at a time by nature; ram
    /// and null keep a queue, so that depth means the same on every engine.
    pub const fn queues(self) -> bool {
        self.about().queues
    }

    /// Whether the engine belongs to one kind of target, which works with no other engine.
    pub const fn comes_with_target(self) -> bool {
        self.on_files().is_none()
    }
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_named = |engine: &Self| {
            let About { name, aliases, .. } = engine.about();
            *name == text || aliases.contains(&text)
        };
        Self::ALL.into_iter().find(is_named).ok_or_else(|| {
            let (own, free): (Vec<Self>, Vec<Self>) =
                Self::ALL.into_iter().partition(|engine| engine.comes_with_target());
            format!(
                "there is no engine `{text}`: use {} ({} targets have their own)",
                listed(free.into_iter().map(Self::name), "or"),
                listed(own.into_iter().map(|it| format!("`{}:`", it.name())), "and")
            )
        })
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
