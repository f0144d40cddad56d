//! `log create`: writes a new, empty log to a target.

use crate::args::LogCreate;
use crate::console::print;
use crate::failure::Failure;
use iodyno_logserver::storage::{self, OpenStorage, Purpose};
use iodyno_msglog::{Layout, recovery};
use iodyno_targets::{Confirm, TargetName};
use iodyno_units::human;
use iodyno_units::text::clean;
use std::process::ExitCode;

/// Segments of a full log that hold no message that is certainly kept: one that is being filled, and two that are free.
const KEPT_LESS_SEGMENTS: u64 = 3;

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

/// Describes the sizes of a log: segments, the part that is always kept, and chunks. Of the segments one is being
/// filled, and two stay free.
pub(super) fn words(target: &TargetName, layout: &Layout) -> String {
    format!(
        "log {:016x} on {}: {} segments of {}; keeps at least the last {}; chunks of at most {}, in multiples of {}",
        layout.log_id,
        clean(&target.to_string()),
        layout.slots(),
        human::size(layout.segment_bytes),
        human::size((layout.slots() - KEPT_LESS_SEGMENTS) * layout.segment_bytes),
        human::size(layout.chunk_bytes.into()),
        human::size(layout.align_bytes.into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full log keeps all segments but three, which `words` must not promise.
    #[test]
    fn a_log_promises_only_what_it_keeps_when_it_is_full() {
        let mib = 1 << 20;
        for (size, promised) in [
            (16, "15 segments of 1 MiB; keeps at least the last 12 MiB;"),
            (5, "4 segments of 1 MiB; keeps at least the last 1 MiB;"),
        ] {
            let layout = Layout::new(7, size * mib, mib, 65_536, 4096).unwrap();
            let text = words(&"log.bin".parse().unwrap(), &layout);
            assert!(text.contains(promised), "{text}");
            // With the segment that is being filled, which is not full.
            let newest = 100;
            let full_segments = newest - layout.oldest_kept(newest);
            assert_eq!(full_segments, layout.slots() - KEPT_LESS_SEGMENTS);
        }
    }
}
