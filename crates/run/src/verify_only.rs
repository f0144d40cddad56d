//! Verification pass: reads and verifies every unit of a target once, without writes. Finds damage after a reboot, a
//! power cut or a copy.

use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::request::ListedCell;
use iodyno_targets::{Inspection, Kind, TargetName, inspect};
use iodyno_units::verifiable::Mark;
use iodyno_units::{OpKind, human};
use iodyno_workload::{Block, Content, Spec};
use std::collections::BTreeMap;

/// Name of the verifying cell and of its workload.
const NAME: &str = "verify";
/// Maximum size of a read, bytes.
const BLOCK_BYTES_MAX: u32 = 128 << 10;
/// Minimum size of a read, bytes. A read of this size contains whole verification units of any size.
const BLOCK_BYTES_MIN: u32 = 4096;

const WORKLOAD: &str = r#"
schema = 1
about = "Every block once, in order: checks verifiable content, and writes nothing"
source = "ours"
depth = 32
block = "4KiB"

[mix]
read = 100

[read]
addresses = { pattern = "sequential", shared = true }

[content]
kind = "verifiable"

[limits]
ramp = "0s"
bytes = "128KiB"
"#;

/// Builds the cell that reads and verifies the whole content of the targets. The caller may restrict the `active` range
/// of its workload.
///
/// # Errors
/// A target can't be inspected. [`RunError::Impossible`] if a target has no content of an earlier run, or is shorter
/// than a block.
pub fn verify_only(targets: &[TargetName]) -> Result<ListedCell, RunError> {
    let mut block_bytes = BLOCK_BYTES_MAX;
    for name in targets {
        let inspection = inspect(name)?;
        lasts(name, &inspection)?;
        let size_bytes = inspection.size_bytes.unwrap_or(0);
        if size_bytes < u64::from(BLOCK_BYTES_MIN) {
            return Err(RunError::Impossible(format!(
                "`{name}` has a size of only {}, but verification reads blocks of at least 4 KiB",
                human::size(size_bytes)
            )));
        }
        // The largest block size of which the target is a multiple.
        while block_bytes > BLOCK_BYTES_MIN && !size_bytes.is_multiple_of(block_bytes.into()) {
            block_bytes /= 2;
        }
    }
    let spec = Spec::from_toml(WORKLOAD)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        .and_then(|spec| spec.with_block(vec![Block { bytes: block_bytes, share: 1.0 }]))
        .map_err(RunError::Impossible)?;
    Ok(ListedCell { fill_passes: Some(1), ..ListedCell::new(NAME, spec) })
}

/// Refuses a target that can't have content of an earlier run, such as a scratch file.
fn lasts(name: &TargetName, inspection: &Inspection) -> Result<(), RunError> {
    let is_there = matches!(inspection.kind, Kind::File | Kind::Block | Kind::Nbd)
        && inspection.exists
        && !inspection.is_scratch();
    if is_there {
        return Ok(());
    }
    Err(RunError::Impossible(format!(
        "`{name}` has no earlier content: --verify-only requires an existing file, a block device or an NBD export"
    )))
}

/// Whether a workload only reads and verifies content.
pub(crate) fn is_pass(spec: &Spec) -> bool {
    spec.content() == Content::Verifiable && spec.kinds().all(|(kind, _)| kind == OpKind::Read)
}

/// Size of the verification units found most often in sampled blocks, bytes. If there are none, the unit of
/// the workload.
pub(crate) fn unit_found(open_target: &OpenTarget, spec: &Spec) -> u32 {
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    open_target.look_at_some(0, spec, |block| {
        let unit = Mark::read(block).map(|mark| mark.len_bytes);
        if let Some(unit) = unit.filter(|u| (512..=4096).contains(u) && u.is_multiple_of(512)) {
            *seen.entry(unit).or_default() += 1;
        }
    });
    let most = seen.into_iter().max_by_key(|(_, count)| *count);
    most.map_or(spec.verify_unit_bytes(), |(unit, _)| unit)
}
