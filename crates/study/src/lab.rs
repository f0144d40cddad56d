//! Runs the cells of a study, each on a machine of its own, on several threads at once. What comes
//! out does not depend on how many there are, nor on which thread runs which cell.
//!
//! A cell is measured for a window of virtual time, not for a number of operations: at the end of a
//! number the queue would run empty, and of several devices the fastest would end first. How long a
//! window holds the operations that the study asks for is found by a pilot: a short cell on one
//! device. It decides the length and nothing else.

use crate::cell::{CellKey, Taken};
use crate::outcome::Outcome;
use crate::study::Study;
use iodyno_drive::clock::Clock;
use iodyno_drive::{
    CellPlan, DriveError, EngineKind, EngineOptions, Medium, Modelled, TargetPlan, Unobserved,
    drive_model,
};
use iodyno_emulate::System;
use iodyno_measure::{Cell, Ended};
use iodyno_units::rng;
use iodyno_workload::Spec;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Intervals of a window, for the taper and the standard errors.
const BATCHES: u64 = 40;
/// The fewest operations that a device is measured for: the window's edges must not matter.
const OPS_MIN: f64 = 64.0;
/// The ramp lasts at least as long as an operation, so often: then no queue remembers the start.
const RESIDENCES: f64 = 3.0;
/// The most simulated time of a cell, ns: an hour.
const WINDOW_MAX_NS: f64 = 3.6e12;

/// How much work is put into a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Threads; 0 for as many as there are processors.
    pub threads: usize,
    /// Seed of all streams.
    pub seed: u64,
    /// Share of the operations that the study asks for.
    pub ops_share: f64,
    /// Share of the ramps that the study asks for.
    pub ramp_share: f64,
}

impl Options {
    /// What the study asks for.
    pub const FULL: Self = Self { threads: 0, seed: 1, ops_share: 1.0, ramp_share: 1.0 };
    /// A tenth of the operations: the standard errors are up to three times as large.
    pub const QUICK: Self = Self { ops_share: 0.1, ..Self::FULL };
}

/// How far a study is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Cells that are done, pilots included.
    pub cells: usize,
    /// Cells that there are.
    pub cells_total: usize,
    /// Share of the expected work that is done, 0 to 1.
    pub share: f64,
}

/// Why a study could not be run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Somebody stopped it.
    #[error("the study was interrupted")]
    Interrupted,
    /// A cell could not be run.
    #[error("{cell}: {why}")]
    Cell {
        /// Which.
        cell: String,
        /// Why.
        why: String,
    },
}

/// Runs a study. `progress` hears of every cell that is done, from several threads.
///
/// # Errors
/// See [`StudyError`].
pub fn run<'a>(
    study: &'a Study,
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome<'a>, StudyError> {
    let mut cells: Vec<CellKey> = study.rows.iter().flat_map(|row| row.recipe.cells()).collect();
    cells.sort_unstable();
    cells.dedup();
    let mut pilots: Vec<CellKey> = cells.iter().map(|c| CellKey { devices: 1, ..*c }).collect();
    pilots.dedup();
    pilots.sort_unstable();
    pilots.dedup();

    let lab = Lab {
        study,
        options,
        stop,
        progress,
        done: AtomicUsize::new(0),
        total: pilots.len() + cells.len(),
        units_done: AtomicU64::new(0),
        units_total: AtomicU64::new(u64::MAX),
    };
    let jobs = pilots.iter().map(|key| lab.pilot(key)).collect();
    let rate = |m: &Modelled| m.cells.iter().map(|c| c.per_second(c.total().ops() as f64)).sum();
    let rates: BTreeMap<CellKey, f64> = lab.work(jobs, &rate)?;
    let jobs: Vec<Job> =
        cells.iter().map(|key| lab.measured(key, rates[&CellKey { devices: 1, ..*key }])).collect();
    lab.units_total.store(jobs.iter().map(|job| job.units).sum(), Ordering::Relaxed);
    let taken = lab.work(jobs, &|m| Taken::of(&m.cells, m.completions))?;
    Ok(Outcome::new(study, &taken))
}

/// A cell to run.
struct Job {
    key: CellKey,
    ramp_ns: u64,
    /// Of virtual time, or else of operations.
    window_ns: Option<u64>,
    ops: u64,
    /// What it is expected to cost, in operations of 4 KiB.
    units: u64,
}

struct Lab<'a> {
    study: &'a Study,
    options: &'a Options,
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
    done: AtomicUsize,
    total: usize,
    units_done: AtomicU64,
    units_total: AtomicU64,
}

impl Lab<'_> {
    /// A short cell that says about how fast one device is.
    fn pilot(&self, key: &CellKey) -> Job {
        let workload = &self.study.workloads[key.workload];
        let ramp_ns = (workload.ramp_ns as f64 * self.options.ramp_share / 4.0) as u64;
        let ops = 200 + 8 * u64::from(key.depth);
        Job { key: *key, ramp_ns, window_ns: None, ops, units: 0 }
    }

    /// The cell itself, for a device that does about so many operations a second.
    fn measured(&self, key: &CellKey, rate_iops: f64) -> Job {
        let workload = &self.study.workloads[key.workload];
        let block = u64::from(key.block_bytes).max(1);
        let asked = workload.ops.min(workload.bytes_max / block) as f64 * self.options.ops_share;
        let devices = f64::from(key.devices);
        let ops = (asked / devices).max(OPS_MIN);
        let residence_ns = f64::from(key.depth) / rate_iops * 1e9;
        let ramp_ns = workload.ramp_ns as f64 * self.options.ramp_share;
        let ramp_ns = ramp_ns.max(RESIDENCES * residence_ns);
        // A ramp is as long as the system remembers; a shorter window would see one mood of it.
        let window_ns = (ops / rate_iops * 1e9).max(ramp_ns).min(WINDOW_MAX_NS);
        let window_ns = (window_ns / BATCHES as f64).ceil().max(1.0) as u64 * BATCHES;
        let ramp_ns = ramp_ns as u64;
        let operations = (window_ns + ramp_ns) as f64 * 1e-9 * rate_iops * devices;
        let units = (operations * block.div_ceil(4096) as f64) as u64;
        Job { key: *key, ramp_ns, window_ns: Some(window_ns), ops: 0, units }
    }

    /// Runs the jobs, the largest first, so that no thread is left with one at the end.
    /// Keeps of each cell what `keep` takes.
    fn work<T: Send>(
        &self,
        mut jobs: Vec<Job>,
        keep: &(dyn Fn(&Modelled) -> T + Sync),
    ) -> Result<BTreeMap<CellKey, T>, StudyError> {
        jobs.sort_by_key(|job| core::cmp::Reverse(job.units));
        let next = AtomicUsize::new(0);
        let taken = Mutex::new(BTreeMap::new());
        let failed = Mutex::new(None);
        let threads = match self.options.threads {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        };
        thread::scope(|scope| {
            for _ in 0..threads.min(jobs.len()) {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.cell(job) {
                            Ok(modelled) => {
                                let kept = keep(&modelled);
                                let mut all = taken.lock().unwrap_or_else(PoisonError::into_inner);
                                all.insert(job.key, kept);
                            }
                            Err(e) => {
                                let mut first =
                                    failed.lock().unwrap_or_else(PoisonError::into_inner);
                                first.get_or_insert(e);
                                next.store(jobs.len(), Ordering::Relaxed);
                            }
                        }
                        self.told(job);
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(taken.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn told(&self, job: &Job) {
        let cells = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let units = self.units_done.fetch_add(job.units, Ordering::Relaxed) + job.units;
        let share = units as f64 / self.units_total.load(Ordering::Relaxed).max(1) as f64;
        (self.progress)(Progress { cells, cells_total: self.total, share });
    }

    /// Runs one cell.
    fn cell(&self, job: &Job) -> Result<Modelled, StudyError> {
        let name = self.name(&job.key);
        let fail = |why: String| StudyError::Cell { cell: name.clone(), why };
        let workload = &self.study.workloads[job.key.workload];
        let bench = &self.study.systems[job.key.system];
        let written = workload.written(job.key.block_bytes);
        let system = bench.system(job.key.devices, written).map_err(fail)?;
        let spec = workload.spec(&job.key).and_then(|spec| limited(spec, job)).map_err(fail)?;
        let interval_ns = job.window_ns.map_or(u64::MAX / 2, |window| window / BATCHES);
        let seed = rng::key(self.options.seed, &name, 0);
        let plan = plan(&name, &workload.name, &spec, seed, &system, interval_ns);
        let modelled = drive_model(&plan, self.stop, &mut Unobserved);
        let modelled = modelled.map_err(|e: DriveError| fail(e.to_string()))?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted);
        }
        let failed = |cell: &Cell| cell.ended == Ended::Errors || cell.total().ops() == 0;
        if modelled.cells.iter().any(failed) {
            return Err(fail("operations failed, or none completed".to_owned()));
        }
        Ok(modelled)
    }

    /// A name that tells cells apart; their seeds follow from it.
    fn name(&self, key: &CellKey) -> String {
        format!(
            "{} {} block {} depth {} think {} devices {}",
            self.study.systems[key.system].name,
            self.study.workloads[key.workload].name,
            key.block_bytes,
            key.depth,
            key.think_ns,
            key.devices
        )
    }
}

/// The workload with a job's limits.
fn limited(spec: Spec, job: &Job) -> Result<Spec, String> {
    let spec = spec.with_ramp(job.ramp_ns)?;
    match job.window_ns {
        Some(window_ns) => spec.with_time(window_ns),
        None => spec.with_ops(job.ops)?.without_time(),
    }
}

fn plan<'a>(
    name: &str,
    workload: &str,
    spec: &'a Spec,
    seed: u64,
    system: &Arc<System>,
    interval_ns: u64,
) -> CellPlan<'a> {
    let targets = (0..system.volumes.len() as u32).map(|volume| TargetPlan {
        name: format!("{}#{volume}", system.name),
        medium: Medium::Model { system: Arc::clone(system), volume },
        align_bytes: 512,
        engine: EngineKind::Model,
        laid_out_verifiable: false,
    });
    CellPlan {
        name: name.to_owned(),
        workload: workload.to_owned(),
        spec,
        seed,
        repeat: 0,
        targets: targets.collect(),
        interval_ns,
        place: None,
        errors_max: 0,
        fill_passes: None,
        clock: Clock::system(),
        options: EngineOptions::default(),
        settle: None,
    }
}
