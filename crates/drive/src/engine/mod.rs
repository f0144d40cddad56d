//! The interface of an engine, which executes operations and returns completions. The worker owns the loop and takes
//! the timestamps.
//!
//! In one iteration of the loop, the worker calls:
//!
//! 1. `queue` for each operation, with the number of its buffer;
//! 2. in some iterations `submit`, to take a timestamp between submission and wait;
//! 3. `turn`, which submits queued operations and waits as requested;
//! 4. `drain`, which returns the completions.
//!
//! An engine never allocates, locks, logs or formats in these calls.
//!
//! Each engine has a file in this folder with its properties (`ABOUT`), its set-up for a worker (`run`) and its
//! implementation of [`Engine`]. [`EngineKind`] lists all engines, and [`FileEngine`] those that work on files.

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

/// Maximum time for which one call of [`Engine::turn`] may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Return immediately.
    No,
    /// Block until at least one completion is available.
    One,
    /// Block until a completion is available or this time, in ns, has passed.
    AtMostNs(u64),
}

/// Interface of an engine, which executes a worker's I/O operations.
pub trait Engine {
    /// True if [`Self::turn`] submits a whole batch by one system call to a device that works asynchronously. The
    /// first operations of a batch then wait until the last one is prepared.
    const HANDS_OVER: bool = false;

    /// Queues one operation. `slot` is the number of its buffer, which belongs to the engine until
    /// [`Self::drain`] reports the completion.
    fn queue(&mut self, slot: u32, op: &Op);

    /// Submits queued operations without waiting, so that the next [`Self::turn`] only waits. Engines that submit and
    /// execute in a single step do nothing and return false.
    fn submit(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Submits queued operations and waits as requested. An interruption by a signal counts as success.
    fn turn(&mut self, wait: Wait) -> io::Result<()>;

    /// Calls `done` for each completion, with its buffer number and the bytes transferred or the negative error
    /// number.
    fn drain(&mut self, done: impl FnMut(u32, i32));

    /// Maximum number of operations to queue before each [`Self::turn`].
    fn batch_max(&self) -> u32 {
        64
    }

    /// Tries to cancel the operations in flight on a target that does not respond. Cancelled operations complete
    /// too.
    fn cancel(&mut self) {}

    /// True if operations that are in flight when the engine is dropped could make the kernel access freed buffers, or
    /// make the drop block.
    fn lends_buffers(&self) -> bool {
        true
    }

    /// True if the kernel granted MAP_SYNC for the mapping; `None` if the engine maps nothing.
    fn map_sync(&self) -> Option<bool> {
        None
    }

    /// Fatal error of the engine, such as a lost connection; `None` while it works. Needed by engines that report the
    /// error only by failing the operations in flight.
    fn lost(&self) -> Option<io::Error> {
        None
    }
}

/// Constant properties of a kind of engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// Name of the engine on the command line and in results.
    pub name: &'static str,
    /// Names of the same engine in other tools, also accepted on the command line.
    pub aliases: &'static [&'static str],
    /// True if a worker can have several operations outstanding.
    pub queues: bool,
    /// True if data moves only within this process, without the kernel or a device.
    pub in_process: bool,
    /// True if the engine maps the target into memory, so that O_DIRECT does not apply.
    pub maps: bool,
    /// True if trim and write-zeroes of a file are synchronous although other operations are not. Each operation
    /// is then submitted separately, so that its latency excludes the system calls of others in a batch.
    pub blocks_on_ranges: bool,
    /// True if a worker waits in a system call that a signal may safely interrupt. False if it waits in the
    /// operation itself, which a signal could make fail.
    pub is_wakeable: bool,
    /// Returns advice for an error in setting up the engine, or an empty text.
    pub hint: fn(&io::Error) -> &'static str,
}

impl About {
    /// Properties of a basic engine: one outstanding operation per worker, and no special features.
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

/// Properties of the virtual-time engine. Its workers have no threads: `model/` simulates all of them.
const MODEL: About = About { queues: true, ..About::new("model") };

/// Settings of an engine as they took effect, by name. They are stored with the results.
pub(crate) type Facts = BTreeMap<String, String>;

/// A worker that waits for its engine to be set up. Provides the engine's parameters, and the call that runs the
/// worker.
pub(crate) trait Seat: Sized {
    /// Number of the worker among the workers of its target.
    fn number(&self) -> u32;

    /// Maximum number of operations of the worker in flight.
    fn slots(&self) -> u32;

    /// Length of the worker's longest I/O, bytes.
    fn block_bytes_max(&self) -> u32;

    /// Options of the engine, such as polling for completions.
    fn options(&self) -> EngineOptions;

    /// Allocates the worker's buffers and fills them with the content to write.
    fn buffers(&self, align_bytes: usize) -> io::Result<Buffers>;

    /// Runs the worker on `engine` until it ends. Without `buffers`, no data is transferred.
    fn run<E: Engine>(self, engine: &mut E, buffers: Option<&Buffers>, facts: Facts);
}

/// Kinds of engines, each with its name for `--engine` and in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// io_uring, or NVMe passthrough by io_uring.
    Uring,
    /// Linux native asynchronous I/O, by raw system calls.
    Libaio,
    /// pread and pwrite, one operation at a time.
    Psync,
    /// Loads and stores on a memory mapping of the file.
    Mmap,
    /// Copies to and from memory of this process; the engine of `ram:` targets.
    Ram,
    /// Completes every operation immediately; the engine of `null:` targets.
    Null,
    /// Emulated storage in virtual time; the engine of `model:` targets.
    Model,
    /// Emulated storage in real time; the engine of `live:` targets.
    Live,
    /// An export of an NBD server; the engine of `nbd:` targets.
    Nbd,
}

/// Engines that can execute operations on a file or device, among which the user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEngine {
    /// io_uring. For an NVMe namespace opened by its character device, NVMe passthrough commands on io_uring.
    Uring,
    /// Linux native asynchronous I/O.
    Libaio,
    /// pread and pwrite.
    Psync,
    /// Loads and stores on a memory mapping.
    Mmap,
}

impl FileEngine {
    /// This engine as an [`EngineKind`], which also names engines that are not for files.
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
    /// Every kind of engine; those that work on files come first.
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

    /// Converts to the same engine as a [`FileEngine`]; `None` for the engine of a special kind of target, such as
    /// `ram:`.
    pub const fn on_files(self) -> Option<FileEngine> {
        match self {
            Self::Uring => Some(FileEngine::Uring),
            Self::Libaio => Some(FileEngine::Libaio),
            Self::Psync => Some(FileEngine::Psync),
            Self::Mmap => Some(FileEngine::Mmap),
            Self::Ram | Self::Null | Self::Model | Self::Live | Self::Nbd => None,
        }
    }

    /// Name of the engine on the command line.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// True if a worker can have several operations outstanding. psync and mmap execute one at a time by nature.
    /// ram and null have a queue so that queue depth has the same meaning as on other engines.
    pub const fn queues(self) -> bool {
        self.about().queues
    }

    /// True if the engine belongs to one kind of target, which can't use any other engine.
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

/// Options of io_uring; other engines have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// io_uring: poll for completions (IORING_SETUP_IOPOLL) instead of waiting for interrupts.
    pub poll: bool,
    /// io_uring: use no optional set-up flags, like a simple program.
    pub plain: bool,
}

/// The calling thread's errno as a negative number, as in completions.
pub(crate) fn negative_errno() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
