//! The fill: workload-independent preconditioning, which writes a target's active range sequentially in one or more
//! passes before measurement.
//!
//! All workers take their blocks from one shared cursor. The target thus receives one sequential stream, each block
//! once per pass, whatever the number and speed of workers. The cell (measurement) ends when the passes are complete.
//! Its completed operations prove that the range was filled ([`FillProof`](iodyno_measure::FillProof)).

use iodyno_measure::Coverage;
use iodyno_units::OpKind;
use iodyno_workload::{ActiveRange, Block, CellSpec, Pattern, Spec};

use crate::outcome::RunError;

/// Workload file on which all fills are based.
const WORKLOAD: &str = r#"
schema = 1
about = "The active range from end to end, in whole passes: workload-independent preconditioning"
source = "SNIA Solid State Storage Performance Test Specification 2.0.2, WIPC: SEQ 128 KiB writes, twice the user capacity"
block = "128KiB"

[mix]
write = 100

[write]
addresses = { pattern = "sequential", shared = true }

[content]
kind = "incompressible"

[limits]
ramp = "0s"
bytes = "128KiB"
"#;

/// Parameters of a fill, which writes a range of each target sequentially.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FillShape {
    /// Number of workers per target. They share one sequential stream of writes.
    pub threads: u32,
    /// Number of outstanding writes per worker.
    pub depth: u32,
    /// Bytes per write. The SNIA specification requires 128 KiB.
    pub block_bytes: u32,
    /// Range of each target to fill.
    pub active: ActiveRange,
    /// Number of times to write each block, 1 to 3. The SNIA specification requires 2.
    pub passes: u8,
}

impl Default for FillShape {
    /// Two passes over the whole target in 128 KiB blocks, as the SNIA specification requires; one worker at
    /// depth 32.
    fn default() -> Self {
        let block_bytes = 128 << 10;
        Self { threads: 1, depth: 32, block_bytes, active: ActiveRange::WHOLE, passes: 2 }
    }
}

/// Builds the cell that fills targets of at most `capacity_bytes`. Smaller targets get the same number of passes,
/// since the amount to write follows from each target's own capacity; `capacity_bytes` serves only for planning.
///
/// # Errors
/// [`RunError::Impossible`] if the number of passes can't be tracked, or if the shape is not a valid workload.
pub fn fill(name: &str, shape: &FillShape, capacity_bytes: u64) -> Result<CellSpec, RunError> {
    let impossible = |why: String| RunError::Impossible(format!("{name}: {why}"));
    if !(1..=Coverage::TIMES_MAX).contains(&shape.passes) {
        let most = Coverage::TIMES_MAX;
        return Err(impossible(format!(
            "the number of passes must be 1 to {most}, not {}",
            shape.passes
        )));
    }
    let bytes = capacity_bytes.saturating_mul(shape.passes.into()).max(shape.block_bytes.into());
    let spec = Spec::from_toml(WORKLOAD)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        .and_then(|spec| spec.with_block(vec![Block { bytes: shape.block_bytes, share: 1.0 }]))
        .and_then(|spec| spec.with_threads(shape.threads))
        .and_then(|spec| spec.with_depth(shape.depth))
        .and_then(|spec| spec.with_active(shape.active))
        .and_then(|spec| spec.with_bytes(bytes))
        .map_err(impossible)?;
    Ok(CellSpec { fill_passes: Some(shape.passes), ..CellSpec::new(name, spec) })
}

/// Refuses a cell that is marked as a fill, but does not write (or verify) sequentially in blocks of one
/// size.
pub(crate) fn check(cell: &CellSpec) -> Result<(), RunError> {
    if cell.fill_passes.is_none() {
        return Ok(());
    }
    let spec = &cell.spec;
    let writes_only = spec.kinds().all(|(kind, _)| kind == OpKind::Write);
    let kind = if writes_only { OpKind::Write } else { OpKind::Read };
    let one_size = spec.blocks(kind).len() == 1;
    let shared = matches!(
        spec.addresses(kind),
        [address] if address.pattern == Pattern::Sequential { shared: true, run: None }
    );
    if (writes_only || crate::verify_only::is_pass(spec)) && one_size && shared {
        return Ok(());
    }
    Err(RunError::Impossible(format!(
        "{}: this workload can't fill a target: a fill only writes, sequentially, in blocks of one size, \
         with one cursor for all workers",
        cell.name
    )))
}
