//! A resolved request, which is the input of [`execute`](crate::execute()): its names are looked up, and the files that
//! it names are read.

use crate::emulated::Emulated;
use crate::emulated_system::emulated;
use crate::find_work;
use crate::outcome::RunError;
use crate::replayed_trace;
use crate::request::{RunRequest, Work};
use iodyno_drive::EngineKind;
use iodyno_drive::clock::Clock;
use iodyno_measure::{Cell, Threshold};
use iodyno_method::{Choice, Method, MethodSource};
use iodyno_ranks::Ranks;
use iodyno_targets::TargetName;
use iodyno_units::human;
use iodyno_workload::CellSpec;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Minimum window of a cell, ns: long enough for tens of I/Os on an SSD, though not on a disk.
const CELL_NS_MIN: u64 = 1_000_000;

/// A request ready for execution: its names are looked up, and the files that it names are read.
#[derive(Debug)]
pub struct ResolvedRun {
    /// The request, which includes the texts of all files that it names.
    pub request: RunRequest,
    /// Cells to measure, in order. If the run executes a method, all cells that the method may choose.
    pub cells: Vec<CellSpec>,
    /// The method to execute, with the request's settings for it; None if the run has a list of cells or replays a
    /// trace.
    pub method: Option<MethodRun>,
    /// Limits that the results must meet: first those of the method, then those of the request. They are stored with
    /// the run.
    pub thresholds: Vec<Threshold>,
    /// Emulated system whose volumes are the targets; None for real targets.
    pub emulated: Option<Emulated>,
    pub clock: Clock,
    /// Settings that belong to this process and not to the request.
    pub process: Process,
    /// Remarks about the files that were read, one sentence each.
    pub notes: Vec<String>,
}

/// A method to execute, and how the request wants it executed.
#[derive(Clone, Debug)]
pub struct MethodRun {
    /// The method, adapted to the number of targets.
    pub method: Method,
    /// Whether to run the method once per target, one target after the other, instead of once on all targets together.
    pub each: bool,
    /// Whether to reuse the preconditioning of an earlier run. Either the request or the method can ask for this.
    pub reuse: bool,
}

/// Settings of the process that executes a run. The settings of the run itself are in the request.
#[derive(Debug)]
pub struct Process {
    /// Command line of the process, stored with the run.
    pub command: Vec<String>,
    /// Version of the program, stored with the run.
    pub version: String,
    /// Path of the notebook that stores the run; None: the run is not stored.
    pub notebook: Option<PathBuf>,
    /// Run to resume; None: a new run begins.
    pub resume: Option<Resume>,
    /// Stop flag. A signal or the loss of another rank sets it.
    pub stop: Arc<AtomicBool>,
    /// Processes that execute the run together; usually only this one.
    pub ranks: Arc<Ranks>,
}

/// The finished part of a run that is being resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resume {
    /// Id of the run in the notebook.
    pub id: String,
    /// Finished cells, in the order in which they were measured.
    pub cells: Vec<Cell>,
    /// Sizes of the run's targets, bytes; 0 if unknown. With several ranks, the targets of rank 0 come first.
    pub capacities_bytes: Vec<u64>,
    /// Number of processes with which the run was begun.
    pub ranks: u32,
}

impl Resume {
    fn is_virtual(&self) -> bool {
        self.cells.iter().all(|cell| cell.evidence.virtual_time)
    }

    /// Keeps only the data that rank `rank` of `size` needs.
    ///
    /// # Errors
    /// The run was begun with a number of ranks other than `size`. Exception: any number of ranks can resume a run of
    /// one process in virtual time.
    pub fn on_rank(mut self, rank: u32, size: u32) -> Result<Self, RunError> {
        // Cells in virtual time are the same on every process.
        if self.ranks != size && !(self.ranks == 1 && self.is_virtual()) {
            let of = |n: u32| if n == 1 { "one process".to_owned() } else { format!("{n} ranks") };
            return Err(RunError::Impossible(format!(
                "{} was begun by {}, but is resumed by {}: the cells of both would not form one result; resume it with {}",
                self.id,
                of(self.ranks),
                of(size),
                if self.ranks == 1 {
                    "`iodyno resume`".to_owned()
                } else {
                    format!(
                        "`iodyno-mpi resume --ranks {}`, or with --hosts or --hostfile as the run was begun",
                        self.ranks
                    )
                }
            )));
        }
        let each = self.capacities_bytes.len() / size.max(1) as usize;
        let own = each * rank as usize..each * (rank as usize + 1);
        if self.ranks > 1 {
            self.capacities_bytes = self.capacities_bytes.get(own).unwrap_or_default().to_vec();
        }
        Ok(self)
    }
}

impl ResolvedRun {
    /// Looks up the names in a request, and reads the files that it names.
    ///
    /// # Errors
    /// A name is unknown, a file is invalid, or the settings contradict each other whatever the target is.
    pub fn new(mut request: RunRequest, process: Process) -> Result<Self, RunError> {
        if !request.ranks.targets_by_host.is_empty() {
            request.targets = targets_on(&request, &process.ranks)?;
        }
        let emulated = emulated(&request.targets, &mut request.files)?;
        let (mut thresholds, mut method) = (Vec::new(), None);
        let mut notes = Vec::new();
        let cells = match &mut request.work {
            Work::Trace(of) => {
                vec![replayed_trace::cell(of, &request.folder, &mut notes)?]
            }
            Work::Cells(listed) => listed.iter().map(crate::ListedCell::cell).collect(),
            Work::Method { source, each, reuse } => {
                let of = find_work::method(MethodSource::clone(&**source))?;
                check_scale(source)?;
                let targets = request.targets.iter().map(volumes).sum();
                of.engines()
                    .try_for_each(|name| name.parse::<EngineKind>().map(drop))
                    .map_err(RunError::Impossible)?;
                let of = of.with_targets(if *each { 1 } else { targets });
                thresholds.clone_from(&of.thresholds);
                let cells = of.all_cells();
                method = Some(MethodRun { reuse: *reuse || of.reuse, method: of, each: *each });
                cells
            }
        };
        thresholds.extend(request.thresholds.iter().cloned());
        let clock = if request.system_clock { Clock::system() } else { Clock::new() };
        Ok(Self { request, cells, method, thresholds, emulated, clock, process, notes })
    }

    /// Whether ranks divide the cells among themselves instead of measuring each cell together. True in virtual
    /// time, where a cell needs only one processor.
    pub(crate) fn is_farmed(&self) -> bool {
        !self.process.ranks.is_alone() && self.emulated.as_ref().is_some_and(|of| !of.live)
    }

    /// Iterates over all workloads of the run's cells, including simultaneous ones.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &CellSpec> {
        self.cells.iter().flat_map(|cell| core::iter::once(cell).chain(&cell.beside))
    }

    /// Folder to which relative target paths refer. Empty if it is the process's working directory, so that
    /// messages show paths as the user wrote them.
    pub(crate) fn folder(&self) -> &Path {
        match std::env::current_dir() {
            Ok(own) if own != self.request.folder => &self.request.folder,
            _ => Path::new(""),
        }
    }
}

/// Targets for this rank, by the name of its host.
fn targets_on(request: &RunRequest, ranks: &Ranks) -> Result<Vec<TargetName>, RunError> {
    let host = &ranks.hosts()[ranks.rank() as usize].name;
    let on = &request.ranks.targets_by_host;
    on.get(host).or_else(|| on.get("*")).cloned().ok_or_else(|| {
        RunError::Impossible(format!(
            "no target is named for host `{host}`: add `--on-host {host}=TARGET`, or `--on TARGET` for all other hosts"
        ))
    })
}

/// Number of targets that a target name represents: 4 for `model:x*4`, 1 for a name without a count.
pub fn volumes(name: &TargetName) -> u32 {
    match name {
        TargetName::Model(model) => model.count,
        _ => 1,
    }
}

/// Refuses a `--scale` that makes a cell of the method too short to measure.
fn check_scale(source: &MethodSource) -> Result<(), RunError> {
    let Some(scale) = source.choice.scale else { return Ok(()) };
    let choice = Choice { scale: None, ..source.choice.clone() };
    let Ok(whole) = Method::new(MethodSource { choice, ..source.clone() }) else { return Ok(()) };
    let times = whole.all_cells().into_iter().filter_map(|cell| cell.spec.limits().time_ns);
    let Some(shortest_ns) = times.min().filter(|ns| *ns > CELL_NS_MIN) else { return Ok(()) };
    if shortest_ns as f64 * scale >= CELL_NS_MIN as f64 {
        return Ok(());
    }
    // Rounded up to two digits, for a value that is easy to type.
    let least = CELL_NS_MIN as f64 / shortest_ns as f64;
    let step = 10_f64.powf(least.log10().floor() - 1.0);
    let least = (least / step).ceil() * step;
    Err(RunError::Impossible(format!(
        "--scale {scale} shortens the method's shortest cells, of {}, to less than 1 ms, in which nothing can be measured: use {} or more",
        human::duration_ns(shortest_ns),
        format!("{least:.12}").trim_end_matches('0')
    )))
}
