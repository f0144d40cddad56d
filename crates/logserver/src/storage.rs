//! Opens targets as storage for a log, with the safety checks of the crate `targets`.

mod aligned;
mod file;
mod live;
mod memory;
mod nbd;

pub use aligned::AlignedBuffer;
pub use file::FileStorage;
pub use live::open_live;
pub use memory::MemoryStorage;
pub use nbd::NbdStorage;

use iodyno_msglog::Storage;
use iodyno_targets::{
    Confirm, OpenOptions, Opened, TargetError, TargetName, inspect, open_inspected,
};
use std::sync::Arc;

/// Page size, bytes: the unit of the page cache, and the default for devices that state no block size.
const PAGE_BYTES: u64 = 4096;

/// Purpose of opening a target, which decides the safety checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads the target's log, without any write.
    Read,
    /// Appends to the target's log. The safety checks accept a target that contains a log.
    Serve(Confirm),
    /// Creates a new log on the target. Existing content is lost.
    Create(Confirm),
}

/// Storage for a log on an opened target, with its block size and a description.
pub struct OpenStorage {
    /// Access to the target for reads, writes and flushes.
    pub storage: Arc<dyn Storage>,
    /// Block size of the log, bytes. Chunks start and end at multiples of it, so that a torn write can't damage
    /// earlier chunks.
    pub block_bytes: u32,
    /// Human-readable description of how the target is written and flushed.
    pub words: String,
    /// Safety objections to the target that `--destroy` has overridden.
    pub lifted: Vec<String>,
    /// Whether opening created the target's file.
    pub made_here: bool,
}

impl core::fmt::Debug for OpenStorage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OpenStorage").field("words", &self.words).finish_non_exhaustive()
    }
}

/// Opens a target as storage for a log. A file that must be created or extended is first written in full.
///
/// # Errors
/// The target can't be opened; [`TargetError::Unsupported`] if it stores no data.
pub fn open(name: &TargetName, purpose: &Purpose) -> Result<OpenStorage, TargetError> {
    match name {
        TargetName::Ram { size_bytes } => {
            let storage = MemoryStorage::new(*size_bytes);
            Ok(OpenStorage {
                storage: Arc::new(storage),
                block_bytes: PAGE_BYTES as u32,
                words: "memory of this process: no message survives the end of the process"
                    .to_owned(),
                lifted: Vec::new(),
                made_here: true,
            })
        }
        TargetName::Nbd(uri) => nbd::open(name, uri, purpose),
        TargetName::Path { .. } => open_path(name, purpose),
        TargetName::Null { .. } | TargetName::Scratch { .. } | TargetName::Model(_) => {
            Err(TargetError::Unsupported {
                path: name.to_string(),
                problem:
                    "a message log needs a target that stores data, and this target stores none."
                        .to_owned(),
                help: "name a file with --size, a block device, or an NBD export, such as an \
                       emulated device that `iodyno serve` exports; `iodyno log serve` also \
                       accepts ram:SIZE and live:DEVICE."
                    .to_owned(),
            })
        }
    }
}

fn open_path(name: &TargetName, purpose: &Purpose) -> Result<OpenStorage, TargetError> {
    let options = match purpose {
        Purpose::Read => OpenOptions::read_only(),
        Purpose::Serve(confirm) => {
            OpenOptions { confirm: confirm.clone(), keeps_log: true, ..OpenOptions::read_write() }
        }
        Purpose::Create(confirm) => {
            OpenOptions { confirm: confirm.clone(), ..OpenOptions::read_write() }
        }
    };
    let mut opened = open_inspected(inspect(name)?, &options)?;
    if matches!(purpose, Purpose::Create(_)) {
        // Every byte is written once, so that no append has to allocate space or can fail for lack of it.
        let zeroes = &mut |piece: &mut [u8], _| piece.fill(0);
        iodyno_targets::lay_out(&mut opened, zeroes, &mut |_, _| {
            core::ops::ControlFlow::Continue(())
        })?;
    }
    let block_bytes = block_bytes(&opened);
    let words = words(&opened);
    let lifted = opened.lifted.iter().map(ToString::to_string).collect();
    let made_here = opened.made_here;
    let storage = FileStorage::new(opened).map_err(|error| TargetError::Unsupported {
        path: name.to_string(),
        problem: format!("its descriptor can't be duplicated: {error}."),
        help: "raise the limit of open files (`ulimit -n`).".to_owned(),
    })?;
    Ok(OpenStorage { storage: Arc::new(storage), block_bytes, words, lifted, made_here })
}

/// Determines the log's block size, bytes. A device may tear writes at physical block boundaries; without
/// direct I/O, the page cache writes whole pages.
fn block_bytes(opened: &Opened) -> u32 {
    let stated = opened.inspection.alignment.physical_block_bytes;
    let physical = stated.filter(|bytes| bytes.is_power_of_two()).unwrap_or(PAGE_BYTES);
    let page = if opened.direct { 512 } else { PAGE_BYTES };
    physical.max(opened.align_bytes).max(page).min(64 << 10) as u32
}

fn words(opened: &Opened) -> String {
    match &opened.why_not_direct {
        None => "direct I/O, made durable by fdatasync".to_owned(),
        Some(why) => format!("through the page cache, made durable by fdatasync: {why}"),
    }
}
