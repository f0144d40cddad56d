//! Execution of a study's cells: each on a machine of its own, on several threads at once. The results do not
//! depend on the number of threads, nor on which thread runs which cell.
//!
//! A cell is measured for a window of virtual time, not for a number of operations: at the end of a number the
//! queue would run empty, and of several devices the fastest would end first. A pilot, a short cell on one
//! device, estimates the window that holds the operations that the study requests. It decides the length and
//! nothing else.
//!
//! A study may request the rounds of SNIA's specification. Then the window is five rounds, and is extended
//! beyond the pilot's estimate until rate and mean latency are known well enough ([`Settle`]). If those five
//! rounds are not steady, the cell is run again, for 25 rounds at most; the figures are those of the last five.
//! A round is a part of a window in virtual time, not the specification's minute: a device that is constructed
//! in its steady state needs no minutes to reach it.
//!
//! Long cells come last: their length depends on the results of the short ones, and the optimum of a map of
//! demand is known only when the map is.

use crate::cell::{self, CellKey, Rounds, Taken};
use crate::metric::{Optimum, Recipe};
use crate::outcome::Outcome;
use crate::over_time::OverTime;
use crate::study::Study;
use crate::testbed::Bench;
use iodyno_drive::{CellPlan, DriveError, Modelled, TargetPlan, Unobserved, drive_model};
use iodyno_emulate::spec::{self, Written};
use iodyno_measure::statistics::steady::{Progress as Steadiness, SteadyLimits, SteadyState};
use iodyno_measure::{Cell, Ended};
use iodyno_ranks::{Lost, Ranks};
use iodyno_units::{Precondition, rng};
use iodyno_workload::{CellSpec, Geometry, Percent, Settle, Shared, Spec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Intervals of a window, for the taper and the standard errors.
const BATCHES: u64 = 40;
/// The same of a cell that is shown over time.
const OVER_TIME_INTERVALS: u64 = 500;
/// The fewest operations that a device is measured for: the window's edges must not matter.
const OPS_MIN: f64 = 64.0;
/// The ramp lasts at least this many times as long as an operation, so that no queue depends on the start.
const RESIDENCES: f64 = 3.0;
/// The most operations outstanding in a pilot; more make no device much faster.
const PILOT_OIO_MAX: u32 = 128;
/// Rounds of the measurement window.
const ROUNDS: usize = SteadyLimits::PTS.window_rounds as usize;
/// A cell in rounds completes at least this many times its outstanding operations: each of its batches is then
/// longer than an operation.
const TURNS: f64 = 40.0;
/// The longest window of a cell in rounds, as a multiple of the shortest.
const LONGER_MAX: u64 = 8;
/// Lengths of windows in rounds are multiples of it, ns: they divide into intervals and batches.
const WINDOW_STEP_NS: u64 = 320;
/// The most simulated time of a cell, ns: an hour.
const WINDOW_MAX_NS: f64 = 3.6e12;
/// Of a cell that stands for a longer run, one second of each minute is simulated.
const SECOND_NS: f64 = 1e9;
const MINUTE_NS: u64 = 60_000_000_000;

/// The effort for a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Threads; 0 for as many as there are processors.
    pub threads: usize,
    /// Seed of all streams.
    pub seed: u64,
    /// Share of the requested operations of the study.
    pub ops_share: f64,
    /// Share of the requested ramps of the study.
    pub ramp_share: f64,
    /// Cells in rounds go on until the 95 % intervals of rate and mean latency are this share of them to
    /// either side.
    pub half_width_share: f64,
}

impl Options {
    /// The full effort of the study.
    pub const FULL: Self =
        Self { threads: 0, seed: 1, ops_share: 1.0, ramp_share: 1.0, half_width_share: 0.01 };
    /// A tenth of the operations: the standard errors are up to three times as large.
    pub const QUICK: Self = Self { ops_share: 0.1, half_width_share: 0.04, ..Self::FULL };
}

/// The progress of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Cells that are done, pilots included.
    pub cells: usize,
    /// Number of all cells.
    pub cells_total: usize,
    /// Share of the expected work that is done, 0 to 1.
    pub share: f64,
}

/// Why a study could not be run.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum StudyError {
    /// A signal stopped it.
    #[error("the study was interrupted")]
    Interrupted,
    /// A rank of the study is lost.
    #[error("{0}")]
    LostRank(String),
    /// A cell could not be run.
    #[error("{cell}: {why}")]
    Cell {
        /// The cell.
        cell: String,
        /// The reason.
        why: String,
    },
}

impl From<Lost> for StudyError {
    fn from(lost: Lost) -> Self {
        Self::LostRank(lost.to_string())
    }
}

/// Runs a study, its cells shared out to all ranks. `progress` is called after each cell, from several threads.
///
/// # Errors
/// See [`StudyError`].
pub fn run<'a>(
    study: &'a Study,
    options: &Options,
    ranks: &Ranks,
    stop: &AtomicBool,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome<'a>, StudyError> {
    let wanted: BTreeSet<CellKey> = study.rows.iter().flat_map(|row| row.recipe.cells()).collect();
    let cells: BTreeSet<CellKey> = wanted.iter().map(short).collect();
    let pilots: BTreeSet<CellKey> = cells.iter().map(|key| pilot_of(study, key)).collect();
    let known = pilots.len() + cells.len();
    let lab = Lab {
        study,
        options,
        ranks,
        stop,
        progress,
        done: AtomicUsize::new(0),
        total: AtomicUsize::new(known),
        units_done: AtomicU64::new(0),
        units_total: AtomicU64::new(u64::MAX),
    };
    let pilot_of = |key: &CellKey| pilot_of(study, key);
    let jobs = pilots.iter().map(|key| lab.pilot(key)).collect();
    // Of each volume.
    let rate = |m: &Modelled| {
        let rates = m.cells.iter().map(|c| c.per_second(c.total().ops() as f64));
        rates.sum::<f64>() / m.cells.len().max(1) as f64
    };
    let rates: BTreeMap<CellKey, f64> = lab.work(jobs, |job| Ok(rate(&lab.cell(job)?)))?;
    let jobs: Vec<Job> = cells.iter().map(|key| lab.measured(key, rates[&pilot_of(key)])).collect();
    let units = |jobs: &[Job]| jobs.iter().map(|job| job.units).sum::<u64>();
    let later = wanted.iter().filter(|key| key.long).copied().chain(lab.first_optima());
    let later: BTreeSet<CellKey> = later.collect();
    let later = later.iter().map(|key| lab.measured(key, rates[&pilot_of(key)]).units).sum::<u64>();
    lab.units_total.store(units(&jobs) + later, Ordering::Relaxed);
    let mut taken = lab.work(jobs, |job| lab.taken(job))?;

    let at_optima = study.rows.iter().flat_map(|row| row.recipe.long_cells(&taken));
    let long: BTreeSet<CellKey> =
        at_optima.chain(wanted.into_iter().filter(|key| key.long)).collect();
    let rate = |key: &CellKey| taken[&short(key)].iops / volumes(study, key);
    let jobs: Vec<Job> = long.iter().map(|key| lab.measured(key, rate(key))).collect();
    let so_far = lab.units_done.load(Ordering::Relaxed);
    lab.units_total.store(so_far + units(&jobs), Ordering::Relaxed);
    lab.total.store(known + jobs.len(), Ordering::Relaxed);
    let found = lab.work(jobs, |job| lab.taken(job))?;
    taken.extend(found);
    Ok(Outcome::new(study, &taken))
}

/// The pilot that estimates the rate of one volume in a cell. It is short, with no more operations outstanding
/// than complete in that time, on one device; arrays, which share adapters, are all there.
fn pilot_of(study: &Study, key: &CellKey) -> CellKey {
    let depth = key.depth.min((PILOT_OIO_MAX / key.threads).max(1));
    let devices = if study.systems[key.system].array.is_some() { key.devices } else { 1 };
    CellKey { devices, depth, long: false, span_ns: None, over_ns: None, ..*key }
}

/// The number of volumes in a cell.
fn volumes(study: &Study, key: &CellKey) -> f64 {
    f64::from(key.devices / study.systems[key.system].members())
}

/// The cell that estimates the rate of a long one.
fn short(key: &CellKey) -> CellKey {
    CellKey { long: false, ..*key }
}

/// The optima that a recipe needs.
fn optima(recipe: &Recipe) -> Vec<&Optimum> {
    match recipe {
        Recipe::AtOptimum(_, optimum) => vec![optimum],
        _ => recipe.ingredients().into_iter().flat_map(optima).collect(),
    }
}

/// A cell to run.
#[derive(Clone, Copy)]
struct Job {
    key: CellKey,
    ramp_ns: u64,
    /// Window of virtual time; without it the cell ends after `ops` operations.
    window_ns: Option<u64>,
    ops: u64,
    /// Interval of the series.
    interval_ns: u64,
    /// It may last so many times as long, until its figures are known well enough; 1: it is as long as it is.
    longer_max: u64,
    /// Its expected cost, in operations of 4 KiB.
    units: u64,
}

struct Lab<'a> {
    study: &'a Study,
    options: &'a Options,
    ranks: &'a Ranks,
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
    done: AtomicUsize,
    total: AtomicUsize,
    units_done: AtomicU64,
    units_total: AtomicU64,
}

impl Lab<'_> {
    /// A short cell that estimates the rate of one volume.
    fn pilot(&self, key: &CellKey) -> Job {
        let workload = &self.study.workloads[key.workload];
        let ramp_ns = (workload.ramp_ns as f64 * self.options.ramp_share / 4.0) as u64;
        let ops = 200 + 8 * u64::from(key.depth);
        let ops = ops.max(2 * u64::from(key.oio()));
        Job {
            key: *key,
            ramp_ns,
            window_ns: None,
            ops,
            interval_ns: u64::MAX / 2,
            longer_max: 1,
            units: 0,
        }
    }

    /// The cell itself, for volumes of about this rate.
    fn measured(&self, key: &CellKey, rate_iops: f64) -> Job {
        let workload = &self.study.workloads[key.workload];
        let block = u64::from(key.block_bytes).max(1);
        let wanted = if key.long { workload.long_ops } else { workload.ops };
        let asked = wanted.min(workload.bytes_max / block) as f64 * self.options.ops_share;
        let volumes = volumes(self.study, key);
        let ops = (asked / volumes).max(OPS_MIN);
        let residence_ns = f64::from(key.oio()) / rate_iops * 1e9;
        let of_system_ns = self.study.systems[key.system].ramp_ns;
        let of_system_ns = if workload.read < 1.0 { of_system_ns } else { 0 };
        let remembers_ns = key.ramp_ns.unwrap_or(workload.ramp_ns.max(of_system_ns));
        let ramp_ns = remembers_ns as f64 * self.options.ramp_share;
        let ramp_ns = if key.over_ns.is_some() {
            // From the start on, unless the panel has a ramp.
            key.ramp_ns.unwrap_or(0) as f64
        } else {
            ramp_ns.max(RESIDENCES * residence_ns)
        };
        // The ramp covers the system's memory; a shorter window would cover one phase of it.
        let window_ns = (ops / rate_iops * 1e9).max(ramp_ns);
        let window_ns = if let Some(over_ns) = key.over_ns {
            over_ns.next_multiple_of(OVER_TIME_INTERVALS)
        } else if self.study.in_rounds {
            let turns_ns = TURNS * residence_ns;
            let stalls_ns = if key.long { self.rounds_of_stalls_ns(key, rate_iops) } else { 0.0 };
            let window_ns = window_ns.max(turns_ns).max(stalls_ns).min(WINDOW_MAX_NS);
            (window_ns as u64 + 1).next_multiple_of(WINDOW_STEP_NS)
        } else if key.span_ns.is_some() {
            ((SECOND_NS * self.options.ops_share).max(ramp_ns) as u64 + 1)
                .next_multiple_of(WINDOW_STEP_NS)
        } else {
            let window_ns = window_ns.min(WINDOW_MAX_NS);
            (window_ns / BATCHES as f64).ceil().max(1.0) as u64 * BATCHES
        };
        let ramp_ns = ramp_ns as u64;
        let operations = (window_ns + ramp_ns) as f64 * 1e-9 * rate_iops * volumes;
        let units = (operations * block.div_ceil(4096) as f64) as u64;
        let intervals = if key.over_ns.is_some() { OVER_TIME_INTERVALS } else { BATCHES };
        let interval_ns = window_ns / intervals;
        let longer_max = match key.span_ns {
            Some(span_ns) => span_ns / MINUTE_NS,
            None if self.study.in_rounds && !key.long => LONGER_MAX,
            None => 1,
        };
        Job {
            key: *key,
            ramp_ns,
            window_ns: Some(window_ns),
            ops: 0,
            interval_ns,
            longer_max,
            units,
        }
    }

    /// The length of a measurement window whose rounds each hold one stall of a device that stalls at regular
    /// amounts of written bytes, ns; 0 without stalls.
    fn rounds_of_stalls_ns(&self, key: &CellKey, rate_iops: f64) -> f64 {
        let spec::Kind::Flash(flash) = &self.study.systems[key.system].device.kind else {
            return 0.0;
        };
        let written = 1.0 - self.study.workloads[key.workload].read;
        let Some(stall) = flash.translation.stall.filter(|_| written > 0.0) else { return 0.0 };
        let writes = stall.every_bytes as f64 / f64::from(key.block_bytes);
        ROUNDS as f64 * (writes / written / rate_iops * 1e9 + stall.for_ns as f64)
    }

    /// A long cell for each optimum, to estimate the cost of those at the optima.
    fn first_optima(&self) -> impl Iterator<Item = CellKey> {
        let all = self.study.rows.iter().flat_map(|row| optima(&row.recipe));
        all.filter_map(|o| Some(CellKey { long: true, ..*o.cells.first()? }))
    }

    /// Runs a cell, in rounds where the study requests them, and sums it up.
    fn taken(&self, job: &Job) -> Result<Taken, StudyError> {
        let modelled = self.cell(job)?;
        let cells = &modelled.cells;
        if job.key.over_ns.is_some() {
            let intervals = cells.iter().map(|cell| cell.series.len()).max().unwrap_or(0);
            let whole = Taken::over(cells, 0..intervals, modelled.completions);
            let over_time = Some(OverTime::of(cells, job.interval_ns));
            if job.key.ramp_ns.is_some() {
                return Ok(Taken { over_time, ..whole });
            }
            // A course from its start on is no sample of a steady state.
            let (iops_error, mean_error) = (f64::INFINITY, f64::INFINITY);
            return Ok(Taken { iops_error, mean_error, over_time, ..whole });
        }
        if !self.study.in_rounds {
            let settled = cells.iter().all(|cell| cell.ended == Ended::Settled);
            let stationary = job.key.span_ns.map(|_| settled);
            return Ok(Taken { stationary, ..Taken::of(cells, modelled.completions) });
        }
        let window_ns = cells.first().map_or(0, |cell| cell.window_ns);
        let a_round = (window_ns / job.interval_ns) as usize / ROUNDS;
        let whole = Taken::over(cells, 0..a_round * ROUNDS, modelled.completions);
        // A fresh device is measured while it is one; steady state comes later.
        if job.key.before == Precondition::Fresh {
            return Ok(whole);
        }
        let (run, steady) = search(&cell::rounds(cells, a_round));
        if steady {
            return Ok(Taken { rounds: Some(Rounds { run, steady }), ..whole });
        }
        let most = SteadyLimits::PTS.rounds_max;
        let window_ns = a_round as u64 * job.interval_ns * u64::from(most);
        let again = Job { window_ns: Some(window_ns), longer_max: 1, ..*job };
        let modelled = self.cell(&again)?;
        let (run, steady) = search(&cell::rounds(&modelled.cells, a_round));
        let end = run as usize * a_round;
        let last = end - ROUNDS * a_round..end;
        let taken = Taken::over(&modelled.cells, last, whole.simulated + modelled.completions);
        Ok(Taken { rounds: Some(Rounds { run, steady }), ..taken })
    }

    /// Runs the jobs, the largest first, so that no thread is left with one at the end. Returns the results of
    /// `take`.
    fn work<T: Clone + Serialize + DeserializeOwned + Send + Sync>(
        &self,
        mut jobs: Vec<Job>,
        take: impl Fn(&Job) -> Result<T, StudyError> + Sync,
    ) -> Result<BTreeMap<CellKey, T>, StudyError> {
        jobs.sort_by_key(|job| core::cmp::Reverse(job.units));
        let threads = match self.options.threads {
            0 => self.ranks.threads_here(),
            threads => threads,
        };
        // Of the jobs that have begun, as many as there are threads have not ended.
        let at_work = if self.ranks.is_alone() { threads } else { self.ranks.threads_in_all() };
        let mut begun = |begun: usize| self.report_progress(&jobs[..begun.saturating_sub(at_work)]);
        let all = self.ranks.share_out(threads, &jobs, take, T::clone, &mut begun)?;
        let (cells, units) = self.with_done(&jobs);
        self.done.store(cells, Ordering::Relaxed);
        self.units_done.store(units, Ordering::Relaxed);
        self.report_progress(&[]);
        jobs.iter().zip(all).filter_map(|(job, kept)| Some(kept?.map(|it| (job.key, it)))).collect()
    }

    /// Cells and units that are done, with these jobs.
    fn with_done(&self, jobs: &[Job]) -> (usize, u64) {
        let units: u64 = jobs.iter().map(|job| job.units).sum();
        let (cells_before, units_before) =
            (self.done.load(Ordering::Relaxed), self.units_done.load(Ordering::Relaxed));
        (cells_before + jobs.len(), units_before + units)
    }

    /// Reports that these jobs of the batch at work are done too.
    fn report_progress(&self, jobs: &[Job]) {
        let (cells, units) = self.with_done(jobs);
        let share = units as f64 / self.units_total.load(Ordering::Relaxed).max(1) as f64;
        (self.progress)(Progress { cells, cells_total: self.total.load(Ordering::Relaxed), share });
    }

    /// Runs one cell.
    fn cell(&self, job: &Job) -> Result<Modelled, StudyError> {
        let name = self.name(&job.key);
        let fail = |why: String| StudyError::Cell { cell: name.clone(), why };
        let workload = &self.study.workloads[job.key.workload];
        let bench = &self.study.systems[job.key.system];
        let written = workload.written(&job.key);
        let spec = workload.spec(&job.key).and_then(|spec| limited(spec, job)).map_err(fail)?;
        let fill = filled(&spec, bench, &job.key, written).map_err(fail)?;
        let system = bench.system(job.key.devices, written, fill).map_err(fail)?;
        let mut cell = CellSpec::new(name.clone(), spec);
        cell.workload.clone_from(&workload.name);
        cell.seed = rng::key(self.options.seed, &name, 0);
        cell.interval_ns = Some(job.interval_ns);
        cell.emulation.settle =
            job.window_ns.filter(|_| job.longer_max > 1).map(|time_min_ns| Settle {
                half_width_share_max: self.options.half_width_share,
                time_min_ns,
                batches_min: Settle::BATCHES,
                ops_min: 0,
            });
        let volumes = 0..system.volumes.len() as u32;
        let target =
            |volume| TargetPlan::model(format!("{}#{volume}", system.name), &system, volume);
        let plan = CellPlan::new(cell, volumes.map(target).collect());
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

    /// A name that identifies a cell; its seed follows from it.
    fn name(&self, key: &CellKey) -> String {
        let mut name = format!(
            "{} {} block {} depth {} think {} devices {}",
            self.study.systems[key.system].name,
            self.study.workloads[key.workload].name,
            key.block_bytes,
            key.depth,
            key.think_ns,
            key.devices
        );
        if key.threads > 1 {
            let _ = write!(name, " threads {}", key.threads);
        }
        if key.fill != Percent::ALL {
            let _ = write!(name, " fill {}", key.fill);
        }
        if key.before != Precondition::Workload {
            let _ = write!(name, " {:?}", key.before);
        }
        if let Some(over_ns) = key.over_ns {
            let _ = write!(name, " over {over_ns} ns");
        }
        name
    }
}

/// The share of each device that was written before: up to the end of the files, or of the volume.
fn filled(spec: &Spec, bench: &Bench, key: &CellKey, written: Written) -> Result<f64, String> {
    if spec.file_set().is_none() {
        return Ok(key.fill.fraction());
    }
    let capacity_bytes = bench.system(key.devices, written, 1.0)?.capacity_bytes(0);
    let geometry = Geometry { capacity_bytes, align_bytes: 1, workers: 1 };
    let shared = Shared::new(spec, 1, &geometry).map_err(|e| e.to_string())?;
    let (start, len) = shared.active_bytes();
    Ok((start + len) as f64 / capacity_bytes as f64)
}

/// The workload with a job's limits.
fn limited(spec: Spec, job: &Job) -> Result<Spec, String> {
    let spec = spec.with_ramp(job.ramp_ns)?;
    match job.window_ns {
        Some(window_ns) => spec.with_time(window_ns.saturating_mul(job.longer_max)),
        None => spec.with_ops(job.ops)?.without_time(),
    }
}

/// The number of rounds until the specification calls them steady, by their rates; and whether they are.
fn search(rounds: &[f64]) -> (u32, bool) {
    let Ok(mut state) = SteadyState::new(SteadyLimits::PTS, vec!["rate".to_owned()]) else {
        return (0, false);
    };
    let ended = |rate: &f64| state.push_round(&[*rate]).is_ok_and(|p| p != Steadiness::Running);
    let run = rounds.iter().position(ended).map_or(rounds.len(), |at| at + 1);
    (run as u32, state.report().progress == Steadiness::Reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's rule on rates: the first steady window, and rates that are never steady.
    #[test]
    fn rounds_until_they_are_steady() {
        assert_eq!(search(&[100.0; 5]), (5, true));
        let settling = [200.0, 150.0, 100.0, 101.0, 99.0, 100.0, 102.0, 100.0];
        assert_eq!(search(&settling), (7, true));
        assert_eq!(search(&settling[..5]), (5, false));
        let swinging: Vec<f64> = (0..40).map(|i| 100.0 + 50.0 * f64::from(i % 2)).collect();
        assert_eq!(search(&swinging), (25, false));
    }
}
