//! `log create`: writes a new, empty log to a target.

use crate::args::LogCreate;
use crate::console::print;
use crate::failure::Failure;
use iodyno_logserver::storage::{self, OpenStorage, Purpose};
use iodyno_msglog::layout::DESCRIPTION_BYTES;
use iodyno_msglog::{Layout, recovery};
use iodyno_targets::{Confirm, TargetName};
use iodyno_units::human;
use iodyno_units::text::clean;
use std::process::ExitCode;

pub(super) fn command(flags: &LogCreate) -> Result<ExitCode, Failure> {
    let mut target = flags.target.clone();
    if let Some(size) = flags.size {
        match &mut target {
            TargetName::Path { size_bytes, .. } => *size_bytes = Some(size),
            _ => return Err(Failure::input("--size is only for files: leave it out")),
        }
    }
    if matches!(target, TargetName::Ram { .. } | TargetName::Model(_)) {
        return Err(Failure::input(
            "a log in memory is lost when this command ends: `iodyno log serve` on ram:SIZE or live:DEVICE makes a log and serves it",
        ));
    }
    let opened = storage::open(&target, &Purpose::Create(Confirm(flags.destroy.clone())))?;
    for lifted in &opened.lifted {
        crate::console::remark("note", lifted);
    }
    let layout = layout(&opened, flags.segment, flags.chunk)?;
    recovery::create(&*opened.storage, &layout)
        .map_err(|e| Failure::target(format!("{target}: the log could not be written: {e}")))?;
    print(&format!("{}\n", words(&target, &layout)))
}

/// Layout of a new log that fills the target. Sizes in bytes; without `segment`, the size of a segment follows from the
/// capacity of the target.
pub(super) fn layout(
    opened: &OpenStorage,
    segment: Option<u64>,
    chunk: u64,
) -> Result<Layout, Failure> {
    let wrong = |e: &dyn core::fmt::Display| Failure::input(e.to_string());
    let block = u64::from(opened.block_bytes);
    let chunk_bytes =
        u32::try_from(chunk).map_err(|_| wrong(&format!("--chunk {chunk}: at most 16 MiB")))?;
    let capacity_bytes = opened.storage.capacity_bytes() / block * block;
    let segment_bytes =
        segment.unwrap_or_else(|| Layout::segment_bytes_for(capacity_bytes, chunk_bytes));
    Layout::new(log_id(), capacity_bytes, segment_bytes, chunk_bytes, opened.block_bytes)
        .map_err(|e| wrong(&e))
}

/// Generates a random identifier for a new log.
fn log_id() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish().max(1)
}

/// Describes the sizes of a log: total, segments and chunks.
pub(super) fn words(target: &TargetName, layout: &Layout) -> String {
    format!(
        "log {:016x} on {}: {} in {} segments of {}; chunks of at most {}, in multiples of {}",
        layout.log_id,
        clean(&target.to_string()),
        human::size(layout.capacity_bytes - DESCRIPTION_BYTES),
        layout.slots(),
        human::size(layout.segment_bytes),
        human::size(layout.chunk_bytes.into()),
        human::size(layout.align_bytes.into()),
    )
}
