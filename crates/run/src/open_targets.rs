//! Opens the targets of a run for the engines, and keeps the known properties of each.

mod open_one;

use crate::all_targets::ALL_TARGETS;
use crate::emulated::Emulated;
use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use crate::same_file::is_same_file;
use crate::verified_content::Verified;
use crate::watch::{Phase, Watch};
use iodyno_drive::memory::{Buffers, Region};
use iodyno_drive::{EngineKind, Medium};
use iodyno_measure::{Cell, Evidence};
use iodyno_nbd::client::Blocking;
use iodyno_targets::{
    Access, Confirm, Health, Inspection, Kind, LayOut, Marker, OpenedBy, TargetError, TargetName,
    WritesSeen, check_confirmed, inspect, inspect_from, lay_out, make_anew, writes_seen,
};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind, verifiable};
use iodyno_workload::{Content, Filler, NewFile, Spec};
use open_one::{Use, open_one};
use serde_json::{Value, json};
use std::ops::{ControlFlow, Range};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Size of the chunks in which the memory of a `ram:` target is filled, bytes.
const RAM_PIECE_BYTES: usize = 1 << 20;
/// Number of blocks read to check whether a target contains only zeroes.
const SAMPLES: u32 = 64;
/// Size of a sampled block, bytes.
const SAMPLE_BYTES: u64 = 4096;
/// Timeout for an NBD server's reply when a block is sampled.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(5);

/// An open target of a run, with the properties found when it was opened.
pub(crate) struct OpenTarget {
    /// Name of the target, in canonical form.
    pub(crate) name: String,
    /// Result of the inspection, updated when the target was opened.
    pub(crate) inspection: Inspection,
    /// The file, memory, connection or emulated volume on which engines issue I/O.
    pub(crate) medium: Medium,
    /// Required alignment of offsets and lengths, bytes.
    pub(crate) align_bytes: u32,
    /// Fraction of the target that has been written at least once; None if unknown.
    pub(crate) written_share: Option<f64>,
    /// Bytes that this run trimmed or zeroed since it last filled the whole target.
    pub(crate) trimmed_bytes: u64,
    /// Information needed to verify the target's content.
    pub(crate) verified: Verified,
    /// Engine for measured cells that do not name one, with the reason for the choice; None until the first such cell.
    pub(crate) default_engine: Option<(EngineKind, String)>,
    /// Health log of the device before the run; None if the device has none.
    pub(crate) health: Option<Health>,
    page_cache: bool,
    why_not_direct: Option<String>,
    lifted: Vec<String>,
    opened: Option<iodyno_targets::Opened>,
    /// Properties of an emulated target; None for a real one.
    emulated: Option<Value>,
}

impl OpenTarget {
    /// Creates a target that is not open yet, from its name and inspection.
    pub(crate) fn new(name: String, inspection: Inspection) -> Self {
        Self {
            name,
            inspection,
            medium: Medium::Null(0),
            align_bytes: 512,
            written_share: None,
            trimmed_bytes: 0,
            verified: Verified::default(),
            default_engine: None,
            health: None,
            page_cache: false,
            why_not_direct: None,
            lifted: Vec::new(),
            opened: None,
            emulated: None,
        }
    }

    /// Returns the target's properties as JSON, for the stored run.
    pub(crate) fn facts(&self) -> Value {
        let direct = self.medium.file().map(|file| file.direct);
        let mut facts = serde_json::to_value(&self.inspection).unwrap_or(Value::Null);
        facts["opened"] = json!({
            "capacity_bytes": self.medium.capacity_bytes(),
            "align_bytes": self.align_bytes,
            "direct": direct,
            "why_not_direct": self.why_not_direct,
            "destroy_confirmed": self.lifted,
        });
        if let Some(emulated) = &self.emulated {
            facts["emulated"] = emulated.clone();
        }
        facts
    }

    /// Copies the target's properties to the evidence of a cell.
    pub(crate) fn record_evidence(&self, spec: &Spec, evidence: &mut Evidence) {
        let capacity_bytes = self.medium.capacity_bytes();
        let is_whole = iodyno_drive::active_range(spec, capacity_bytes) == (0..capacity_bytes);
        // The share of the whole target holds for a part of it only if all or nothing was written.
        let says = |share: &f64| is_whole || *share <= 0.0 || *share >= 1.0;
        evidence.written_share = self.written_share.filter(says);
        evidence.why_not_direct.clone_from(&self.why_not_direct);
        if evidence.direct == Some(false) && !self.page_cache {
            // /dev/zero and similar devices have no cache.
            evidence.direct = None;
        }
        // A mapping uses the page cache even if the file is open for direct I/O. Only MAP_SYNC maps the medium itself.
        if evidence.map_sync == Some(false) {
            evidence.direct = Some(false);
            evidence.why_not_direct = Some("memory mappings use the page cache".to_owned());
        }
    }

    /// Re-creates the file as the workload requires: empty, or with allocated space. Does nothing for workloads
    /// that expect a fully written file.
    ///
    /// # Errors
    /// [`RunError::Target`].
    pub(crate) fn renew(&self, spec: &Spec) -> Result<(), RunError> {
        match (&self.opened, spec.new_file()) {
            (None, _) | (_, NewFile::Written) => Ok(()),
            (Some(opened), NewFile::Allocated) => Ok(make_anew(opened, true)?),
            (Some(opened), NewFile::Empty) => Ok(make_anew(opened, false)?),
        }
    }

    /// Whether this run created the target's file, and therefore may re-create it.
    pub(crate) fn is_made_here(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.made_here)
    }

    /// Updates the written fraction after a cell that wrote: 1 after a proven fill of the whole target, otherwise
    /// unknown.
    pub(crate) fn note_writes(&mut self, spec: &Spec, done: &Cell) {
        if !spec.issues(OpKind::Write) || self.written_share.is_none_or(|share| share >= 1.0) {
            return;
        }
        self.written_share = self.is_filled(spec, done).then_some(1.0);
    }

    /// Whether a cell was a fill that provably wrote the whole target.
    fn is_filled(&self, spec: &Spec, done: &Cell) -> bool {
        let capacity_bytes = self.medium.capacity_bytes();
        iodyno_drive::active_range(spec, capacity_bytes) == (0..capacity_bytes)
            && done.evidence.fill.is_some_and(|fill| fill.once_share >= 1.0)
    }

    /// Adds a cell's trimmed and zeroed bytes to the total. A fill of the whole target resets the total.
    pub(crate) fn note_trims(&mut self, spec: &Spec, done: &Cell) {
        if self.is_filled(spec, done) {
            self.trimmed_bytes = 0;
        }
        let total = done.total();
        for class in [OpKind::Trim, OpKind::WriteZeroes].into_iter().filter_map(|k| total.class(k))
        {
            self.trimmed_bytes = self.trimmed_bytes.saturating_add(class.bytes);
        }
    }

    /// The target's open file; None if it has no file descriptor.
    pub(crate) fn opened(&self) -> Option<&iodyno_targets::Opened> {
        self.opened.as_ref()
    }

    /// Returns counters and times that change with any write to the target. None if the device has no write
    /// counter, or if the page cache may contain dirty data.
    pub(crate) fn writes_seen(&self) -> Option<WritesSeen> {
        if self.page_cache || self.emulated.is_some() {
            return None;
        }
        if let Some(opened) = self.opened.as_ref().filter(|o| o.access == Access::ReadWrite) {
            // A file's length and times may not be updated yet.
            // SAFETY: the descriptor is open.
            if unsafe { libc::fsync(opened.fd.as_raw_fd()) } != 0 {
                return None;
            }
        }
        writes_seen(&self.inspection)
    }

    /// Reads random blocks of the active range, and adds the number of blocks and of zero blocks to `evidence`.
    pub(crate) fn sample(&self, seed: u64, spec: &Spec, evidence: &mut Evidence) {
        self.look_at_some(seed, spec, |block| {
            evidence.blocks_sampled += 1;
            evidence.blocks_zero += u32::from(block.iter().all(|&b| b == 0));
        });
    }

    /// Reads random blocks of the active range, and calls `look` on each.
    pub(crate) fn look_at_some(&self, seed: u64, spec: &Spec, mut look: impl FnMut(&[u8])) {
        let step = SAMPLE_BYTES.max(u64::from(self.align_bytes));
        let range = iodyno_drive::active_range(spec, self.medium.capacity_bytes());
        let mut random = stream(seed, "sample", 0);
        match &self.medium {
            Medium::File(file) => {
                let align = file.memory_align_bytes as usize;
                let Ok(buffer) = Buffers::new(1, step as usize, align) else { return };
                // SAFETY: nothing else has the slot.
                let bytes = unsafe { buffer.bytes(0, step as usize) };
                let read = |bytes: &mut [u8], at: u64| {
                    let (to, len) = (bytes.as_mut_ptr().cast(), bytes.len());
                    // SAFETY: the buffer holds `len` bytes; the descriptor is open.
                    let n = unsafe { libc::pread(file.fd.as_raw_fd(), to, len, at as libc::off_t) };
                    usize::try_from(n).unwrap_or(0)
                };
                read_some(range, bytes, &mut random, read, &mut look);
            }
            Medium::Nbd(export) => {
                let Ok(client) = Blocking::connect(&export.uri) else { return };
                let mut client = client.with_patience(SAMPLE_PATIENCE);
                let mut bytes = vec![0; step as usize];
                let read =
                    |bytes: &mut [u8], at: u64| client.read(at, bytes).map_or(0, |()| bytes.len());
                read_some(range, &mut bytes, &mut random, read, &mut look);
            }
            _ => {}
        }
    }
}

/// Reads random blocks of `buffer`'s length from `range`, and calls `look` on each. `read` reads at an
/// offset, and returns the number of bytes.
fn read_some(
    range: Range<u64>,
    buffer: &mut [u8],
    random: &mut Generator,
    mut read: impl FnMut(&mut [u8], u64) -> usize,
    look: &mut dyn FnMut(&[u8]),
) {
    let step = buffer.len() as u64;
    let blocks = range.end.saturating_sub(range.start) / step;
    for _ in 0..SAMPLES.min(u32::try_from(blocks).unwrap_or(SAMPLES)) {
        let at = (range.start.div_ceil(step) + below(random, blocks)) * step;
        let n = read(buffer, at);
        if n > 0 {
            look(&buffer[..n]);
        }
    }
}

/// Inspects the targets, checks that they may be used, and opens them. Nothing is written yet.
pub(crate) fn set(run: &ResolvedRun, by: OpenedBy) -> Result<Vec<OpenTarget>, RunError> {
    let named = Confirm(run.request.destroy.clone());
    if let Some(emulated) = &run.emulated {
        check_confirmed(&[], &named)?;
        return emulated_targets(emulated);
    }
    let writes = run.loads().any(|c| c.spec.changes_content());
    if run.request.read_only && writes {
        return Err(RunError::Impossible(format!(
            "--read-only does not allow {}, which writes: choose a workload that only reads",
            run.request.name
        )));
    }
    let mut open_targets: Vec<OpenTarget> = Vec::new();
    for (number, name) in run.request.targets.iter().enumerate() {
        let writes = run.loads().any(|c| c.is_on(number) && c.spec.changes_content());
        not_the_notebook(run, name)?;
        let inspection = inspect_from(name, run.folder())?;
        if let Some(other) = open_targets.iter().find(|p| is_backing(&p.inspection, &inspection)) {
            return Err(RunError::Impossible(format!(
                "`{name}` and `{}` are the same storage, because one is a loop device on the other: name one of them",
                other.name
            )));
        }
        let same = |p: &OpenTarget| {
            let export =
                |i: &Inspection| i.nbd.as_ref().map(|e| (e.address.clone(), e.export.clone()));
            p.inspection.identity.is_some() && p.inspection.identity == inspection.identity
                || inspection.nbd.is_some() && export(&p.inspection) == export(&inspection)
        };
        if !inspection.is_scratch()
            && let Some(other) = open_targets.iter().find(|p| same(p))
        {
            return Err(RunError::Impossible(format!(
                "`{name}` and `{}` are the same target: name it once, and raise --threads for more load",
                other.name
            )));
        }
        open_targets.push(open_one(run, name, inspection, Use { writes, by })?);
    }
    let inspections: Vec<_> =
        open_targets.iter().map(|open_target| &open_target.inspection).collect();
    check_confirmed(&inspections, &named)?;
    Ok(open_targets)
}

/// Refuses a target that is the notebook of the run, also if neither exists yet.
fn not_the_notebook(run: &ResolvedRun, name: &TargetName) -> Result<(), RunError> {
    let (Some(notebook), TargetName::Path { path, .. }) =
        (&run.process.notebook, name.under(run.folder()))
    else {
        return Ok(());
    };
    if !is_same_file(&path, &run.folder().join(notebook)) {
        return Ok(());
    }
    Err(RunError::Impossible(format!(
        "`{name}` is the notebook in which this run is stored: choose another target, or another notebook by --notebook"
    )))
}

/// Whether one of two targets is a loop device, and the other its backing file or device.
fn is_backing(a: &Inspection, b: &Inspection) -> bool {
    let is_on = |device: &Inspection, other: &Inspection| {
        let backing = device.device.as_ref().and_then(|d| d.loop_backing_file.as_ref());
        let path = other.canonical_path.as_ref().or(other.path.as_ref());
        backing.zip(path).is_some_and(|(a, b)| is_same_file(Path::new(a), Path::new(b)))
    };
    is_on(a, b) || is_on(b, a)
}

/// Targets for the volumes of an emulated system. They need no inspection, confirmation or opening.
fn emulated_targets(emulated: &Emulated) -> Result<Vec<OpenTarget>, RunError> {
    let mut open_targets = Vec::new();
    for (i, (volume, medium)) in emulated.volumes.iter().zip(emulated.media()).enumerate() {
        let mut inspection = inspect(&volume.asked)?;
        inspection.size_bytes = Some(medium.capacity_bytes());
        let mut open_target = OpenTarget::new(volume.name.clone(), inspection);
        open_target.medium = medium;
        open_target.emulated = Some(emulated.facts(i));
        open_targets.push(open_target);
    }
    Ok(open_targets)
}

/// Whether a file does not exist, was left incomplete by a killed run, or is shorter than requested. Such a file gets
/// its initial content before the run, even if the workload only reads.
fn is_not_whole(inspection: &Inspection) -> bool {
    inspection.kind == Kind::File
        && (!inspection.exists
            || inspection.is_scratch()
            || matches!(inspection.marker, Some(Marker::Making(_)))
            || inspection.size_bytes > inspection.whole_bytes)
}

/// Whether every workload of the run re-creates the target's file, so that the file needs no initial content.
fn is_made_by_cells(run: &ResolvedRun, open_target: &OpenTarget) -> bool {
    open_target.is_made_here() && run.loads().all(|cell| cell.spec.new_file() != NewFile::Written)
}

/// Warnings for targets that a workload should re-create, but that existed before the run and are therefore
/// overwritten in place.
pub(crate) fn not_renewed(run: &ResolvedRun, open_targets: &[OpenTarget]) -> Vec<String> {
    let Some(cell) = run.loads().find(|cell| cell.spec.new_file() != NewFile::Written) else {
        return Vec::new();
    };
    let others = open_targets.iter().filter(|open_target| !open_target.is_made_here());
    let words = |open_target: &OpenTarget| {
        format!(
            "{}: `{}` needs a new file, but this target existed before and is overwritten in place; use scratch: for a new file",
            open_target.name, cell.name
        )
    };
    others.map(words).collect()
}

/// Bytes of initial content to write to each target.
pub(crate) fn lay_out_bytes(run: &ResolvedRun, open_targets: &[OpenTarget]) -> Vec<u64> {
    let of = |p: &OpenTarget| {
        let opened = p.opened.as_ref().filter(|_| !is_made_by_cells(run, p));
        opened.map_or(0, iodyno_targets::Opened::lay_out_bytes)
    };
    open_targets.iter().map(of).collect()
}

/// Writes the initial content of targets before a measurement: every byte of a new file, once.
pub(crate) fn lay_all_out(
    run: &ResolvedRun,
    open_targets: &mut [OpenTarget],
    watch: &mut dyn Watch,
) -> Result<(), RunError> {
    let Some(first) = run.cells.first() else {
        return Err(RunError::Impossible("the run has no cells".to_owned()));
    };
    for (number, open_target) in (0_u32..).zip(open_targets) {
        if is_made_by_cells(run, open_target) {
            if let Some(opened) = &mut open_target.opened {
                opened.keep();
            }
            continue;
        }
        let mut fill = Fill::new(run, &first.spec, open_target.verified.stamp, number);
        let name = open_target.name.clone();
        let mut progress = |done_bytes, total_bytes| {
            watch.phase(Phase::LayingOut { target: &name, done_bytes, total_bytes });
            if run.process.stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        match (&open_target.medium, &mut open_target.opened) {
            (Medium::Ram(region), _) => {
                fill_ram(region, &mut fill, &mut progress)?;
                open_target.written_share = Some(1.0);
                open_target.verified.laid_out = fill.verifiable.map(|(unit_bytes, _)| unit_bytes);
            }
            (_, Some(opened)) => {
                let whole = matches!(opened.lay_out, LayOut::Needed { from_bytes: 0, .. });
                if !matches!(opened.lay_out, LayOut::Needed { .. }) {
                    continue;
                }
                let laid = lay_out(opened, &mut |bytes, at| fill.bytes(bytes, at), &mut progress);
                laid.map_err(|e| match e {
                    TargetError::Interrupted { .. } => RunError::Interrupted,
                    e => e.into(),
                })?;
                open_target.written_share = Some(1.0);
                let unit_bytes = fill.verifiable.map(|(unit_bytes, _)| unit_bytes);
                open_target.verified.laid_out = unit_bytes.filter(|_| whole);
                open_target.verified.is_laid_out_otherwise = whole && unit_bytes.is_none();
            }
            _ => {}
        }
    }
    Ok(())
}

fn fill_ram(
    region: &Region,
    fill: &mut Fill,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), RunError> {
    let mut at = 0;
    while at < region.len() {
        let len = RAM_PIECE_BYTES.min(region.len() - at);
        // SAFETY: the piece lies in the region, and no engine has it yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(region.start().add(at), len) };
        fill.bytes(bytes, at as u64);
        at += len;
        if progress(at as u64, region.len() as u64).is_break() {
            return Err(RunError::Interrupted);
        }
    }
    Ok(())
}

/// Generator of the targets' initial content, which has the form of the content that the run writes.
struct Fill {
    filler: Filler,
    /// Verification unit in bytes, and stamp; None unless all cells verify content in the same unit.
    verifiable: Option<(u32, u64)>,
}

impl Fill {
    /// Creates the generator for the target with index `number`, so that no two targets have the same content. `first`
    /// provides the form of the content if no workload writes; `stamp` marks verifiable content.
    fn new(run: &ResolvedRun, first: &Spec, stamp: u64, number: u32) -> Self {
        let specs = || run.loads().map(|c| &c.spec);
        let writer = specs().find(|s| s.issues(OpKind::Write)).unwrap_or(first);
        let unit = first.verify_unit_bytes();
        let all_verify =
            specs().all(|s| s.content() == Content::Verifiable && s.verify_unit_bytes() == unit);
        // A worker number that no worker has, so that none writes the same bytes.
        let filler = Filler::new(writer, run.request.seed, u32::MAX - number);
        Self { filler, verifiable: all_verify.then_some((unit, stamp)) }
    }

    fn bytes(&mut self, bytes: &mut [u8], at: u64) {
        if let Some((unit, stamp)) = self.verifiable
            && bytes.len().is_multiple_of(unit as usize)
        {
            for (i, piece) in bytes.chunks_exact_mut(unit as usize).enumerate() {
                verifiable::fill(piece, at + i as u64 * u64::from(unit), stamp, 1);
            }
            return;
        }
        self.filler.prepare(bytes);
        let len_bytes = bytes.len() as u32;
        let op = Op { offset_bytes: at, len_bytes, kind: OpKind::Write, fua: false };
        self.filler.stamp(bytes, &op);
    }
}

/// Target name in a stored cell: the name of the only target, or `all (N targets)`.
pub(crate) fn target_name(open_targets: &[OpenTarget]) -> String {
    match open_targets {
        [one] => one.name.clone(),
        several => format!("{ALL_TARGETS} ({} targets)", several.len()),
    }
}
