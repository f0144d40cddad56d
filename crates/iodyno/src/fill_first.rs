//! `run --fill`: checks the number of passes, and creates the workload that fills the targets before the measurement.

use crate::args::Run;
use crate::failure::Failure;
use iodyno_run::{FillShape, ListedCell, fill};
use iodyno_targets::{TargetName, inspect};
use iodyno_workload::ActiveRange;

/// Number of passes of `--fill`; 0 without the flag.
pub(crate) fn passes(flags: &Run) -> Result<u8, Failure> {
    let Some(passes) = flags.fill else { return Ok(0) };
    match flags.on.iter().find(|target| matches!(target, TargetName::Model(_))) {
        None => Ok(passes),
        Some(model) => Err(Failure::input(format!(
            "--fill has no effect on `{model}`, whose initial state is part of its name: use a name such as `{model}?state=seq`"
        ))),
    }
}

/// Creates the cell that fills the targets before the measurement; None without `--fill`.
pub(crate) fn cell(flags: &Run) -> Result<Option<ListedCell>, Failure> {
    let passes = passes(flags)?;
    if passes == 0 {
        return Ok(None);
    }
    let active = flags.active.unwrap_or(ActiveRange::WHOLE);
    let shape = FillShape { passes, active, ..FillShape::default() };
    let mut capacity_bytes = 0;
    for target in &flags.on {
        capacity_bytes = capacity_bytes.max(inspect(target)?.size_bytes.unwrap_or(0));
    }
    let cell = fill("fill", &shape, capacity_bytes)?;
    let mut spec = cell.spec;
    if let Some(content) = flags.content {
        spec = spec.with_content(content).map_err(Failure::input)?;
    }
    Ok(Some(ListedCell { fill_passes: cell.fill_passes, ..ListedCell::new(cell.name, spec) }))
}
