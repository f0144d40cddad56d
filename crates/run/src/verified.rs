//! Lets a run verify content that earlier cells and runs wrote. Each run marks its writes with a stamp of its own, and
//! records in a map what each block of a target should contain.
//!
//! The notebook stores one map per target ([`Written`]). Before a run writes, it adds its stamp to the stored map, so
//! that after a crash content with this stamp is recognised as newer than the map. At its end, the run flushes the
//! target and replaces the stored map by its own. A run that writes unverifiable content deletes the stored map before
//! it writes.

use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use iodyno_drive::Medium;
use iodyno_drive::verify::{Known, VerifyMap, Written};
use iodyno_method::Budget;
use iodyno_nbd::client::{Address, Blocking, Uri};
use iodyno_nbd::{CmdFlags, Kind as NbdKind};
use iodyno_notebook::{Notebook, Timestamp};
use iodyno_targets::{Inspection, Kind, TargetName};
use iodyno_units::{OpKind, verifiable};
use iodyno_workload::{CellSpec, Content, Percent, Spec};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of verification units for which a map of the target is stored: 128 GiB in units of 4 KiB.
const UNITS_MAX: u64 = 1 << 25;
/// Maximum size of a stored map, bytes: per unit, and constant part.
const MAP_BYTES: (usize, usize) = (10, 4096);
/// Timeout for an NBD server's final flush.
const FLUSH_PATIENCE: Duration = Duration::from_secs(60);
/// Stamp in the content of targets that are re-created in each cell.
const FRESH_STAMP: u64 = 1;

/// Key under which the notebook stores the map of a target's content. It identifies a device, or the location of a file
/// or export. None if the content is not kept, or if a device has no unique identity that survives a restart.
pub fn written_key(inspection: &Inspection) -> Option<String> {
    if inspection.is_scratch() {
        return None;
    }
    match inspection.kind {
        Kind::File => inspection.canonical_path.as_ref().map(|path| format!("file:{path}")),
        Kind::Block => {
            let id = inspection.device.as_ref()?.lasting_id.as_ref()?;
            Some(format!("device:{id}"))
        }
        Kind::Nbd => {
            let export = inspection.nbd.as_ref()?;
            let address = match &inspection.name {
                // The same relative path in another folder names another socket.
                TargetName::Nbd(Uri { address: Address::Unix(path), .. }) => {
                    std::path::absolute(path).ok()?.display().to_string()
                }
                _ => export.address.clone(),
            };
            Some(format!("nbd:{address}/{}", export.export))
        }
        _ => None,
    }
}

fn verifies(spec: &Spec) -> bool {
    spec.content() == Content::Verifiable
}

fn changes_content(run: &ResolvedRun) -> bool {
    run.loads().any(|c| c.spec.changes_content())
}

/// Whether the run will overwrite the target with content that later runs can't verify.
fn writes_otherwise(run: &ResolvedRun, capacity_bytes: u64) -> bool {
    let by_cells = run.loads().any(|c| c.spec.changes_content() && !verifies(&c.spec));
    by_cells
        || run.method.as_ref().is_some_and(|of| {
            of.method.prologue().purges || Budget::new(&of.method, capacity_bytes).fill_bytes > 0
        })
}

/// Assigns each target the stamp for this run's writes, and loads the map of content that earlier runs wrote.
pub(crate) fn begin(
    run: &ResolvedRun,
    open_targets: &mut [OpenTarget],
    notebook: Option<&Notebook>,
    started: Timestamp,
) -> Result<(), RunError> {
    let now = u64::try_from(started.as_nanosecond()).unwrap_or(FRESH_STAMP);
    let mut latest = 0;
    for open_target in &mut *open_targets {
        let (Some(notebook), Some(key)) = (notebook, written_key(&open_target.inspection)) else {
            continue;
        };
        let capacity_bytes = open_target.medium.capacity_bytes();
        if writes_otherwise(run, capacity_bytes) {
            notebook.forget_written(&key)?;
            continue;
        }
        if !run.cells.iter().any(|c| verifies(&c.spec)) {
            continue;
        }
        // An earlier run may have used a larger part of the target.
        let whole_bytes = open_target.inspection.whole_bytes.unwrap_or(0).max(capacity_bytes);
        let units_max = (whole_bytes / verifiable::SECTOR_BYTES as u64).min(UNITS_MAX) as usize;
        let bytes = notebook.written(&key, units_max * MAP_BYTES.0 + MAP_BYTES.1)?;
        open_target.verified.before = bytes.and_then(|b| Written::from_bytes(&b)).map(Arc::new);
        latest = latest.max(open_target.verified.before.as_ref().map_or(0, |b| b.latest_stamp()));
    }
    // Later than all known stamps, even if the clock is wrong.
    let first = now.max(latest.saturating_add(1));
    for (open_target, i) in open_targets.iter_mut().zip(0..) {
        open_target.verified.stamp = first + i;
    }
    Ok(())
}

/// Records in the notebook, before the first cell, that this run will write.
pub(crate) fn announce(
    run: &ResolvedRun,
    open_targets: &mut [OpenTarget],
    notebook: Option<&Notebook>,
) -> Result<(), RunError> {
    let Some(notebook) = notebook else { return Ok(()) };
    for open_target in open_targets {
        if open_target.verified.is_laid_out_otherwise {
            open_target.verified.before = None;
            if let Some(key) = written_key(&open_target.inspection) {
                notebook.forget_written(&key)?;
            }
        }
        let verified = &open_target.verified;
        let writes = changes_content(run) && run.cells.iter().any(|c| verifies(&c.spec));
        let capacity_bytes = open_target.medium.capacity_bytes();
        if !writes && verified.laid_out.is_none() || writes_otherwise(run, capacity_bytes) {
            continue;
        }
        let Some(key) = written_key(&open_target.inspection) else { continue };
        let unit_bytes = match (verified.laid_out, &verified.before) {
            (Some(unit_bytes), _) => unit_bytes,
            (None, Some(before)) => before.unit_bytes,
            (None, None) => run.cells[0].spec.verify_unit_bytes(),
        };
        let units = capacity_bytes / u64::from(unit_bytes);
        if units > UNITS_MAX {
            notebook.forget_written(&key)?;
            continue;
        }
        let mut known = match (verified.laid_out, &verified.before) {
            (Some(_), _) => {
                let known = Known { laid_out: true, ..Known::default() };
                VerifyMap::new(capacity_bytes, unit_bytes, verified.stamp, known).written(true)
            }
            (None, Some(before)) => Written::clone(before),
            (None, None) => Written::nothing(unit_bytes, units as usize),
        };
        known.unfinished = Some(verified.stamp);
        notebook.keep_written(&key, &known.to_bytes())?;
    }
    Ok(())
}

/// Creates the verification map of a target before the first cell that verifies content. Before a cell that
/// writes other content, forgets the map.
pub(crate) fn ready(run: &ResolvedRun, cell: &CellSpec, open_target: &mut OpenTarget) {
    if !verifies(&cell.spec) || !open_target.medium.moves_bytes() {
        if cell.spec.changes_content() {
            open_target.verified.forget();
        }
        return;
    }
    let unit_bytes = unit_bytes(run, cell, open_target);
    let verified = &mut open_target.verified;
    if verified.map.as_ref().is_some_and(|map| map.unit_bytes() == unit_bytes) {
        return;
    }
    if verified.map.is_some() {
        // Content written in other units can't be checked.
        verified.before = None;
    }
    let flushes = |spec: &Spec| {
        spec.issues(OpKind::Flush) || spec.flush_every() > 0 || spec.fua() > Percent::ZERO
    };
    let known = Known {
        before: verified.before.clone(),
        laid_out: verified.laid_out == Some(unit_bytes),
        flushes: run.loads().any(|c| flushes(&c.spec)),
    };
    let capacity_bytes = open_target.medium.capacity_bytes();
    verified.map =
        Some(Arc::new(VerifyMap::new(capacity_bytes, unit_bytes, verified.stamp, known)));
}

/// Size of the units in which a cell verifies content, bytes: the workload's own; or, if the run does not
/// write, that of the existing content.
fn unit_bytes(run: &ResolvedRun, cell: &CellSpec, open_target: &OpenTarget) -> u32 {
    let own = cell.spec.verify_unit_bytes();
    if changes_content(run) {
        return own;
    }
    let there = match &open_target.verified.before {
        Some(before) => before.unit_bytes,
        None if cell.fill_passes.is_some() => {
            crate::verify_only::unit_found(open_target, &cell.spec)
        }
        None => own,
    };
    if own.is_multiple_of(there) { there } else { own }
}

/// Verification map for a target that is new and empty at the start of each cell; None if the workload does
/// not verify.
pub(crate) fn fresh(spec: &Spec, capacity_bytes: u64) -> Option<Arc<VerifyMap>> {
    let unit_bytes = spec.verify_unit_bytes();
    let map = || VerifyMap::new(capacity_bytes, unit_bytes, FRESH_STAMP, Known::default());
    verifies(spec).then(|| Arc::new(map()))
}

/// After the last cell, flushes the targets and stores the maps of written content in the notebook.
pub(crate) fn keep(
    run: &ResolvedRun,
    open_targets: &[OpenTarget],
    notebook: Option<&Notebook>,
) -> Result<(), RunError> {
    let Some(notebook) = notebook else { return Ok(()) };
    for open_target in open_targets {
        let (verified, capacity_bytes) =
            (&open_target.verified, open_target.medium.capacity_bytes());
        let (Some(map), Some(key)) = (&verified.map, written_key(&open_target.inspection)) else {
            continue;
        };
        let units = capacity_bytes / u64::from(map.unit_bytes());
        if !map.has_written() || units > UNITS_MAX || writes_otherwise(run, capacity_bytes) {
            continue;
        }
        let all_durable = !verified.failed && flush(&open_target.medium);
        notebook.keep_written(&key, &map.written(all_durable).to_bytes())?;
    }
    Ok(())
}

/// Flushes a medium. Returns false if the flush failed, or if the medium does not support it.
fn flush(medium: &Medium) -> bool {
    match medium {
        // SAFETY: the descriptor is open.
        Medium::File(file) => unsafe { libc::fsync(file.fd.as_raw_fd()) == 0 },
        Medium::Nbd(export) => Blocking::connect(&export.uri).is_ok_and(|client| {
            let mut client = client.with_patience(FLUSH_PATIENCE);
            client.command(NbdKind::Flush, CmdFlags::NONE, 0, 0).is_ok()
        }),
        _ => false,
    }
}
