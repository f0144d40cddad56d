//! Opens one target: memory, an NBD export, a file or a device.

use super::{OpenTarget, is_not_whole};
use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use iodyno_drive::engine::NvmeNamespace;
use iodyno_drive::engine::nbd::NbdMedium;
use iodyno_drive::memory::Region;
use iodyno_drive::{FileEngine, FileMedium, Medium};
use iodyno_nbd::client::Uri;
use iodyno_targets::{
    Access, Confirm, Inspection, Kind, OpenOptions, OpenedBy, SysRoot, TargetName, check_writable,
    confirm, health, open_inspected,
};
use iodyno_units::human;
use std::io;
use std::sync::Arc;

/// Intended use of a target, which determines how the target is opened.
#[derive(Clone, Copy)]
pub(super) struct Use {
    /// Whether a workload writes to the target.
    pub writes: bool,
    /// Whether this process must claim the target exclusively, or another rank (process) of the run has already claimed
    /// it.
    pub by: OpenedBy,
}

/// Opens a target after its inspection.
pub(super) fn open_one(
    run: &ResolvedRun,
    name: &TargetName,
    inspection: Inspection,
    of: Use,
) -> Result<OpenTarget, RunError> {
    let mut open_target = OpenTarget::new(name.to_string(), inspection);
    open_target.health =
        open_target.inspection.physical.first().and_then(|device| health(device).ok());
    match name.under(run.folder()) {
        TargetName::Null { size_bytes } => open_target.medium = Medium::Null(size_bytes),
        TargetName::Ram { size_bytes } => {
            let region = Region::new(size_bytes as usize).map_err(|source| RunError::System {
                what: format!("mapping {} of memory", human::size(size_bytes)),
                source,
            })?;
            open_target.medium = Medium::Ram(Arc::new(region));
        }
        TargetName::Model(_) => {
            return Err(RunError::Impossible(format!(
                "`{name}` is emulated, in virtual time, and can't share a run with a real target: run it alone"
            )));
        }
        TargetName::Nbd(uri) => open_target.open_export(run, uri, of.writes)?,
        TargetName::Path { .. } | TargetName::Scratch { .. } => open_target.open_file(run, of)?,
    }
    Ok(open_target)
}

/// Error for a target whose file descriptor can't be duplicated.
fn not_duplicated(name: &str, source: io::Error) -> RunError {
    RunError::System { what: format!("{name}: duplicating its descriptor"), source }
}

impl OpenTarget {
    /// Prepares an inspected NBD export, to which each worker will connect. Requires the user's confirmation if
    /// the run writes to the export.
    fn open_export(&mut self, run: &ResolvedRun, uri: Uri, writes: bool) -> Result<(), RunError> {
        if writes {
            let found = check_writable(&self.inspection, &SysRoot::real());
            let lifted = confirm(&self.inspection, found, &Confirm(run.request.destroy.clone()))?;
            self.lifted = lifted.iter().map(ToString::to_string).collect();
        }
        let Inspection { size_bytes, whole_bytes, .. } = self.inspection;
        let export = self.inspection.nbd.as_ref();
        self.align_bytes = export.map_or(512, |export| export.min_block_bytes.max(512));
        self.written_share = self.inspection.extents.map(|e| e.written_share);
        self.medium = Medium::Nbd(NbdMedium {
            uri,
            capacity_bytes: size_bytes.unwrap_or(0),
            size_bytes: whole_bytes.unwrap_or(0),
            read_only: export.is_some_and(|export| export.read_only),
        });
        Ok(())
    }

    /// Opens an inspected file or device.
    fn open_file(&mut self, run: &ResolvedRun, of: Use) -> Result<(), RunError> {
        let must_be_laid_out = !run.request.read_only && is_not_whole(&self.inspection);
        let writes = of.writes || must_be_laid_out;
        let access = if writes { Access::ReadWrite } else { Access::ReadOnly };
        let confirm = Confirm(run.request.destroy.clone());
        let options = OpenOptions { access, confirm, by: of.by, ..OpenOptions::read_only() };
        let opened = open_inspected(self.inspection.clone(), &options)?;
        let fd = opened.fd.try_clone().map_err(|e| not_duplicated(&self.name, e))?;
        let passthrough = match &opened.passthrough {
            None => None,
            Some(past) => Some(NvmeNamespace {
                fd: Arc::new(past.fd.try_clone().map_err(|e| not_duplicated(&self.name, e))?),
                number: past.namespace,
                block_bytes: past.block_bytes,
                transfer_bytes_max: past.transfer_bytes_max,
            }),
        };
        self.medium = Medium::File(FileMedium {
            fd: Arc::new(fd),
            capacity_bytes: opened.capacity_bytes,
            is_block_device: opened.inspection.kind == Kind::Block,
            memory_align_bytes: opened.mem_align_bytes.max(512) as u32,
            direct: opened.direct,
            uncached: opened.uncached,
            writable: opened.access == Access::ReadWrite,
            passthrough,
            // Until a cell chooses another.
            engine: FileEngine::Psync,
        });
        self.align_bytes = opened.align_bytes.max(1) as u32;
        self.written_share = opened.inspection.extents.map(|e| e.written_share);
        self.page_cache = opened.page_cache;
        self.why_not_direct.clone_from(&opened.why_not_direct);
        self.lifted = opened.lifted.iter().map(ToString::to_string).collect();
        self.inspection = opened.inspection.clone();
        self.opened = Some(opened);
        Ok(())
    }
}
