//! Types of open storage that a worker can measure, such as a file or RAM, each with its engine.

use super::live::CompletionHandle;
use super::nbd::NbdMedium;
use super::{EngineKind, FileEngine, Seat};
use crate::memory::Region;
use iodyno_emulate::System;
use iodyno_live::served::Live;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// An open file or device for use by an engine. The crate `targets` opens it; engines never do.
#[derive(Clone, Debug)]
pub struct FileMedium {
    pub fd: Arc<OwnedFd>,
    /// Length of the addressable part of the file or device, bytes.
    pub capacity_bytes: u64,
    /// True for a block device, whose system calls for trim and write-zeroes differ from those of a file.
    pub is_block_device: bool,
    /// Required alignment of buffers in memory, bytes.
    pub memory_align_bytes: u32,
    /// Whether O_DIRECT is in effect on the descriptor.
    pub direct: bool,
    /// True if reads and writes go through the page cache but leave no pages in it (`RWF_DONTCACHE`).
    pub uncached: bool,
    /// True if the descriptor is open for reading and writing, false if for reading only.
    pub writable: bool,
    /// NVMe namespace to which commands are sent directly, bypassing the block layer; `fd` is then the namespace's
    /// block device. `None` without passthrough.
    pub passthrough: Option<NvmeNamespace>,
    /// Engine that executes operations on the file; chosen by [`Medium::set_engine`].
    pub engine: FileEngine,
}

/// An NVMe namespace, accessed through its character device.
#[derive(Clone, Debug)]
pub struct NvmeNamespace {
    /// Descriptor of the namespace's character device.
    pub fd: Arc<OwnedFd>,
    /// Namespace ID (NSID) for commands to the controller.
    pub number: u32,
    /// Logical block size of the namespace, bytes.
    pub block_bytes: u32,
    /// Longest transfer that one command may request, bytes.
    pub transfer_bytes_max: u64,
}

impl FileMedium {
    /// `RWF_` flags that every read and write has; writes may have more.
    pub(crate) const fn rw_flags(&self) -> i32 {
        if self.uncached { libc::RWF_DONTCACHE } else { 0 }
    }
}

/// Storage to measure, with the engine that executes its operations. Only a file has a choice of engines.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A file, a block device or a character device.
    File(FileMedium),
    /// Memory of this process, as a RAM disk.
    Ram(Arc<Region>),
    /// No storage; the value is the nominal size, bytes.
    Null(u64),
    /// A volume of an emulated system in virtual time. All targets of a measurement are volumes of one emulated
    /// machine: they share components such as processors, and so affect each other.
    Model {
        system: Arc<System>,
        /// Number of the volume within the system.
        volume: u32,
    },
    /// A volume of a machine emulated in real time. All targets of a measurement are volumes of the same machine.
    Live {
        /// The running emulated machine.
        live: Arc<Live<CompletionHandle>>,
        /// Number of the volume within the machine.
        volume: u32,
        /// Number of the target's first worker among all workers of the emulated machine.
        first_worker: u32,
    },
    /// An export of an NBD server.
    Nbd(NbdMedium),
}

impl Medium {
    /// Length of the addressable part of the medium, bytes.
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

    pub const fn engine(&self) -> EngineKind {
        match self {
            Self::File(file) => file.engine.kind(),
            Self::Ram(_) => EngineKind::Ram,
            Self::Null(_) => EngineKind::Null,
            Self::Model { .. } => EngineKind::Model,
            Self::Live { .. } => EngineKind::Live,
            Self::Nbd(_) => EngineKind::Nbd,
        }
    }

    /// True if `engine` can execute operations on this medium.
    pub fn takes(&self, engine: EngineKind) -> bool {
        match self {
            Self::File(_) => engine.on_files().is_some(),
            _ => engine == self.engine(),
        }
    }

    /// Chooses the engine of a file. Returns false and changes nothing if the engine can't work on this medium.
    pub fn set_engine(&mut self, engine: EngineKind) -> bool {
        if let (Self::File(file), Some(engine)) = (&mut *self, engine.on_files()) {
            file.engine = engine;
        }
        self.engine() == engine
    }

    /// The file or device behind the medium; `None` for memory, emulated and network storage.
    pub fn file(&self) -> Option<&FileMedium> {
        if let Self::File(file) = self { Some(file) } else { None }
    }

    /// Index of the volume within an emulated system in virtual time; `None` for other media.
    pub fn model_volume(&self) -> Option<u32> {
        if let Self::Model { volume, .. } = self { Some(*volume) } else { None }
    }

    /// True if data moves through memory of this process. False in virtual time and for the null engine.
    pub fn moves_bytes(&self) -> bool {
        !matches!(self, Self::Null(_) | Self::Model { .. })
    }

    /// Sets up the medium's engine for one worker, then runs the worker until it ends.
    pub(crate) fn run(&self, seat: impl Seat) -> io::Result<()> {
        match self {
            Self::File(file) => file.engine.run(file, seat),
            Self::Ram(region) => super::ram::run(region, seat),
            Self::Null(_) => {
                super::null::run(seat);
                Ok(())
            }
            Self::Live { live, volume, first_worker } => {
                super::live::run(live, *volume, *first_worker, seat)
            }
            Self::Nbd(export) => super::nbd::run(export, seat),
            Self::Model { .. } => {
                Err(io::Error::other("emulated storage in virtual time has no worker threads"))
            }
        }
    }
}
