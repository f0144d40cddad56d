//! Simulates the cells of a study, each on a machine of its own, on several threads in parallel. The results do not
//! depend on the threads.
//!
//! A cell is measured for a window of virtual time. With a fixed number of operations instead, the queue would run
//! empty at the end, and the fastest of several devices would end first. A pilot, a short cell on one device, estimates
//! how long the window must be for the requested number of operations. A cell that issues the same operations as its
//! pilot continues from a clone of the pilot's machine ([`drive_model_after_pilot`]), with the same results as from a
//! fresh start.
//!
//! A study may request the rounds of SNIA's specification. The window then has five rounds, and is extended until the
//! confidence intervals of rate and mean latency are narrow enough ([`Settle`]). If the five rounds are not steady, the
//! cell is run again for up to 25 rounds, of which the last five count. A round is shorter than the specification's
//! minute, because devices are constructed in their steady state.
//!
//! Long cells come last, because they need the results of short cells: the rate, from which the length of a long cell
//! follows, and the optimum operating point that a long cell measures.

use crate::cell::{self, CellKey, Rounds, Taken};
use crate::job::{Job, Options, Planner, ROUNDS, limited, pilot_of, short, volumes};
use crate::metric::{Optimum, Recipe};
use crate::outcome::Outcome;
use crate::over_time::OverTime;
use crate::study::Study;
use crate::testbed::Bench;
use crate::wanted::Workload;
use iodyno_drive::{
    CellPlan, Modelled, TargetPlan, Unobserved, drive_model, drive_model_after_pilot,
};
use iodyno_emulate::System;
use iodyno_emulate::flash::Counts as FlashCounts;
use iodyno_emulate::spec::{Kind, Written};
use iodyno_measure::statistics::steady::{Progress as Steadiness, SteadyLimits, SteadyState};
use iodyno_measure::{Cell, Ended};
use iodyno_ranks::{Lost, Ranks};
use iodyno_units::{Precondition, rng};
use iodyno_workload::{CellSpec, Geometry, Percent, Process, Settle, Shared, Spec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Number of finished cells, including pilots.
    pub cells: usize,
    /// Total number of cells, including pilots.
    pub cells_total: usize,
    /// Finished fraction of the expected work, 0 to 1; work is counted in simulated operations, not in cells.
    pub share: f64,
}

/// Error of a study: an interruption, a lost rank, or a cell that can't be simulated.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum StudyError {
    /// A signal stopped the study.
    #[error("the study was interrupted")]
    Interrupted,
    /// Contact was lost with a rank (another process) that simulated part of the study.
    #[error("{0}")]
    LostRank(String),
    /// A cell could not be simulated.
    #[error("{cell}: {why}")]
    Cell {
        /// Name of the cell, which contains all of its coordinates.
        cell: String,
        /// Reason why the simulation failed, as an error message.
        why: String,
    },
}

impl From<Lost> for StudyError {
    fn from(lost: Lost) -> Self {
        Self::LostRank(lost.to_string())
    }
}

/// Runs a study, dividing its cells among all ranks. Calls `progress` after each cell, from several threads.
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
    let wanted: BTreeSet<CellKey> = study.rows.iter().flat_map(|row| study.cells(row)).collect();
    let cells: BTreeSet<CellKey> = wanted.iter().map(short).collect();
    let pilots: BTreeSet<CellKey> = cells.iter().map(|key| pilot_of(study, key)).collect();
    let known = pilots.len() + cells.len();
    let later = wanted.iter().filter(|key| key.long).copied().chain(first_optima(study));
    let later: BTreeSet<CellKey> = later.collect();
    let lab = Lab {
        study,
        options,
        planner: Planner { study, options },
        ranks,
        stop,
        progress,
        done: AtomicUsize::new(0),
        total: AtomicUsize::new(known + later.len()),
        units_done: AtomicU64::new(0),
        units_total: AtomicU64::new(0),
        share: AtomicU64::new(0),
    };
    let pilot_of = |key: &CellKey| pilot_of(study, key);
    let jobs = pilots.iter().map(|key| lab.planner.pilot(key, cells.contains(key))).collect();
    let piloted = lab.work(jobs, |job| lab.piloted(job))?;
    let rates: BTreeMap<CellKey, f64> = piloted.iter().map(|(key, it)| (*key, it.0)).collect();
    let measured = |key: &CellKey| lab.planner.measured(key, rates[&pilot_of(key)]);
    let units = |jobs: &[Job]| jobs.iter().map(|job| job.units).sum::<u64>();
    let mut taken = BTreeMap::new();
    for (key, (_, cell)) in piloted {
        if let Some(cell) = cell {
            lab.units_done.fetch_add(measured(&key).units, Ordering::Relaxed);
            taken.insert(key, cell);
        }
    }
    let jobs: Vec<Job> =
        cells.iter().filter(|key| !taken.contains_key(*key)).map(measured).collect();
    let later = later.iter().map(|key| measured(key).units).sum::<u64>();
    let so_far = lab.units_done.load(Ordering::Relaxed);
    lab.units_total.store(so_far + units(&jobs) + later, Ordering::Relaxed);
    taken.extend(lab.work(jobs, |job| lab.taken(job))?);

    let at_optima = study.rows.iter().flat_map(|row| row.recipe.long_cells(&taken));
    let long: BTreeSet<CellKey> =
        at_optima.chain(wanted.into_iter().filter(|key| key.long)).collect();
    let rate = |key: &CellKey| taken[&short(key)].iops / volumes(study, key);
    let jobs: Vec<Job> = long.iter().map(|key| lab.planner.measured(key, rate(key))).collect();
    let so_far = lab.units_done.load(Ordering::Relaxed);
    lab.units_total.store(so_far + units(&jobs), Ordering::Relaxed);
    lab.total.store(known + jobs.len(), Ordering::Relaxed);
    let found = lab.work(jobs, |job| lab.taken(job))?;
    taken.extend(found);
    Ok(Outcome::new(study, &taken))
}

/// Mean number of operations per second of one volume.
fn rate(cells: &[Cell]) -> f64 {
    let rates = cells.iter().map(|c| c.per_second(c.total().ops() as f64));
    rates.sum::<f64>() / cells.len().max(1) as f64
}

/// Optimum operating points that a recipe uses, directly or through its ingredients.
fn optima(recipe: &Recipe) -> Vec<&Optimum> {
    match recipe {
        Recipe::AtOptimum(_, optimum) => vec![optimum],
        _ => recipe.ingredients().into_iter().flat_map(optima).collect(),
    }
}

/// Returns a long cell for each optimum that the study searches: the first candidate, from which the cost of the search
/// is estimated.
fn first_optima(study: &Study) -> impl Iterator<Item = CellKey> {
    let all = study.rows.iter().flat_map(|row| optima(&row.recipe));
    all.filter_map(|o| Some(CellKey { long: true, ..*o.cells.first()? }))
}

struct Lab<'a> {
    study: &'a Study,
    options: &'a Options,
    planner: Planner<'a>,
    ranks: &'a Ranks,
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
    done: AtomicUsize,
    total: AtomicUsize,
    units_done: AtomicU64,
    /// Expected cost of all cells, in operations of 4 KiB; 0 if not known yet.
    units_total: AtomicU64,
    /// Largest progress fraction reported so far, stored as the bits of an `f64`.
    share: AtomicU64,
}

impl Lab<'_> {
    /// Runs a pilot and, if planned, the cell that follows it. Returns the rate of one volume and the cell's result.
    fn piloted(&self, job: &Job) -> Result<(f64, Option<Taken>), StudyError> {
        let key = &job.key;
        let system = self.system(key)?;
        let pilot = self.plan(job, &system)?;
        if !job.has_cell {
            return Ok((rate(self.own(key, &self.run(key, &pilot)?.cells)), None));
        }
        let planned = |cells: &[Cell]| -> Result<((f64, Job), CellPlan), StudyError> {
            self.checked(key, cells)?;
            let rate = rate(self.own(key, cells));
            let job = self.planner.measured(key, rate);
            Ok(((rate, job), self.plan(&job, &system)?))
        };
        let next = |cells: &[Cell]| match planned(cells) {
            Ok((found, plan)) => (Ok(found), Some(plan)),
            Err(error) => (Err(error), None),
        };
        let before_ns = self.planner.ramp_least_ns(key) as u64;
        let ran = drive_model_after_pilot(&pilot, before_ns, self.stop, next);
        let (found, cell) = ran.map_err(|error| self.fail(key, &error))?;
        let (rate, job) = found?;
        let Some(cell) = cell else { return Err(StudyError::Interrupted) };
        self.checked(key, &cell.cells)?;
        Ok((rate, Some(self.summed_up(&job, &cell)?)))
    }

    /// Simulates a job's cell, and returns its result over all devices.
    fn taken(&self, job: &Job) -> Result<Taken, StudyError> {
        self.summed_up(job, &self.cell(job)?)
    }

    /// Returns the result of a simulated cell. If the study measures rounds and the cell did not reach the steady
    /// state, simulates it again for the maximum number of rounds.
    fn summed_up(&self, job: &Job, modelled: &Modelled) -> Result<Taken, StudyError> {
        let cells = self.own(&job.key, &modelled.cells);
        if job.key.over_ns.is_some() {
            let intervals = cells.iter().map(|cell| cell.series.len()).max().unwrap_or(0);
            let whole = Taken::over(cells, 0..intervals, modelled.completions);
            let over_time = Some(OverTime::of(cells, job.interval_ns));
            if job.key.ramp_ns.is_some() {
                return Ok(Taken { over_time, ..whole });
            }
            // A run from its start is not a sample of a steady state.
            let (iops_error, mean_error) = (f64::INFINITY, f64::INFINITY);
            return Ok(Taken { iops_error, mean_error, over_time, ..whole });
        }
        if !self.study.in_rounds {
            let settled = cells.iter().all(|cell| cell.ended == Ended::Settled);
            let stationary = job.key.span_ns.map(|_| settled);
            let of = self.study.workloads[job.key.workload].percentiles;
            let write_amplification = self.write_amplification(&job.key, modelled);
            let taken = Taken::of(cells, of, modelled.completions);
            return Ok(Taken { write_amplification, stationary, ..taken });
        }
        let window_ns = cells.first().map_or(0, |cell| cell.window_ns);
        let a_round = (window_ns / job.interval_ns) as usize / ROUNDS;
        let whole = Taken::over(cells, 0..a_round * ROUNDS, modelled.completions);
        // A fresh device is measured before it reaches steady state.
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

    /// Runs the jobs in parallel and returns the results of `take`. Large jobs come first, so that none begins
    /// when the other threads are almost done.
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
        // One job per thread is still running; the other jobs that have begun are done.
        let at_work = if self.ranks.is_alone() { threads } else { self.ranks.threads_in_all() };
        let mut begun = |begun: usize| self.report_progress(&jobs[..begun.saturating_sub(at_work)]);
        let all = self.ranks.share_out(threads, &jobs, take, T::clone, &mut begun)?;
        let (cells, units) = self.with_done(&jobs);
        self.done.store(cells, Ordering::Relaxed);
        self.units_done.store(units, Ordering::Relaxed);
        self.report_progress(&[]);
        jobs.iter().zip(all).filter_map(|(job, kept)| Some(kept?.map(|it| (job.key, it)))).collect()
    }

    /// Counts the finished cells, and the finished work in operations of 4 KiB. Counts `jobs` as finished.
    fn with_done(&self, jobs: &[Job]) -> (usize, u64) {
        let units: u64 = jobs.iter().map(|job| job.units).sum();
        let (cells_before, units_before) =
            (self.done.load(Ordering::Relaxed), self.units_done.load(Ordering::Relaxed));
        (cells_before + jobs.iter().map(Job::cells).sum::<usize>(), units_before + units)
    }

    /// Reports progress. Counts `jobs` of the current batch as finished.
    fn report_progress(&self, jobs: &[Job]) {
        let (cells, units) = self.with_done(jobs);
        let cells_total = self.total.load(Ordering::Relaxed);
        let share = match self.units_total.load(Ordering::Relaxed) {
            0 => cells as f64 / cells_total.max(1) as f64,
            units_total => units as f64 / units_total as f64,
        };
        // Cells differ in cost. When the costs become known the finished share may drop; the larger share is reported
        // until it is exceeded.
        let before = f64::from_bits(self.share.load(Ordering::Relaxed));
        let share = share.max(before);
        self.share.store(share.to_bits(), Ordering::Relaxed);
        (self.progress)(Progress { cells, cells_total, share });
    }

    fn cell(&self, job: &Job) -> Result<Modelled, StudyError> {
        self.run(&job.key, &self.plan(job, &self.system(&job.key)?)?)
    }

    fn run(&self, key: &CellKey, plan: &CellPlan) -> Result<Modelled, StudyError> {
        let modelled = drive_model(plan, self.stop, &mut Unobserved);
        let modelled = modelled.map_err(|error| self.fail(key, &error))?;
        self.checked(key, &modelled.cells)?;
        Ok(modelled)
    }

    /// Builds the system of a cell, with its devices preconditioned for the workload.
    fn system(&self, key: &CellKey) -> Result<Arc<System>, StudyError> {
        let workload = &self.study.workloads[key.workload];
        let bench = &self.study.systems[key.system];
        let written = workload.written(key);
        let system = || {
            let fill = filled(&workload.spec(key)?, bench, key, written)?;
            bench.system(key.devices, written, fill, workload.scale, workload.appends)
        };
        system().map_err(|why: String| self.fail(key, &why))
    }

    fn plan(&self, job: &Job, system: &Arc<System>) -> Result<CellPlan, StudyError> {
        let name = self.name(&job.key);
        let workload = &self.study.workloads[job.key.workload];
        let capacity_bytes = system.capacity_bytes(0);
        let of = |workload: &Workload| {
            let spec = workload.spec(&job.key)?;
            let places = capacity_bytes / u64::from(job.key.block_bytes.max(1));
            limited(spec.scaled_down(workload.scale, places)?, job)
        };
        let spec = of(workload).map_err(|why: String| self.fail(&job.key, &why))?;
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
        if let Some(other) = workload.beside {
            let other = &self.study.workloads[other];
            let spec = of(other).and_then(|spec| match job.key.beside_iops {
                0 => Ok(spec),
                iops => spec.with_rate(f64::from(iops), Some(Process::Poisson)),
            });
            let spec = spec.map_err(|why| self.fail(&job.key, &why))?;
            let mut beside = CellSpec::new(other.name.clone(), spec);
            beside.seed = rng::key(cell.seed, "beside", 0);
            beside.interval_ns = cell.interval_ns;
            cell.beside.push(beside);
        }
        let mut plan =
            CellPlan::on_system(cell, system, |volume| format!("{}#{volume}", system.name));
        if workload.beside.is_some() {
            let others = plan.targets.clone().into_iter();
            plan.targets.extend(others.map(|of| TargetPlan { beside: Some(0), ..of }));
        }
        // A pilot only estimates the rate, for which the constructed state is near enough.
        if job.window_ns.is_some() {
            plan.aged_passes = f64::from(workload.aged_passes);
        }
        Ok(plan)
    }

    /// Results of the cell's own workload, without those of the workload that ran at the same time.
    fn own<'c>(&self, key: &CellKey, cells: &'c [Cell]) -> &'c [Cell] {
        &cells[..cells.len().min(volumes(self.study, key) as usize)]
    }

    /// Write amplification over all devices, with the parity of the device's stripes.
    fn write_amplification(&self, key: &CellKey, modelled: &Modelled) -> f64 {
        let counts = modelled.usage.volumes.iter().filter_map(|volume| volume.counts);
        let sum = counts.fold(FlashCounts::default(), |sum, counts| sum.plus(&counts));
        let parity = match &self.study.systems[key.system].device.kind {
            Kind::Flash(flash) if flash.nand.parity_stripe > 0 => {
                1.0 / f64::from(flash.nand.parity_stripe)
            }
            _ => 0.0,
        };
        sum.write_amplification() * (1.0 + parity)
    }

    fn fail(&self, key: &CellKey, why: &dyn std::fmt::Display) -> StudyError {
        StudyError::Cell { cell: self.name(key), why: why.to_string() }
    }

    /// Returns an error if a volume completed no operations, an operation failed, or a signal stopped the study.
    fn checked(&self, key: &CellKey, cells: &[Cell]) -> Result<(), StudyError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted);
        }
        let failed = |cell: &Cell| cell.ended == Ended::Errors || cell.total().ops() == 0;
        if cells.iter().any(failed) {
            return Err(self.fail(key, &"operations failed, or none completed"));
        }
        Ok(())
    }

    /// Unique name of a cell, from which its random seed is derived.
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
        if key.beside_iops > 0 {
            let _ = write!(name, " beside {}", key.beside_iops);
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

/// Fraction of each device to write before the cell: up to the end of the files, or the cell's `fill` if
/// there are no files.
fn filled(spec: &Spec, bench: &Bench, key: &CellKey, written: Written) -> Result<f64, String> {
    if spec.file_set().is_none() {
        return Ok(key.fill.fraction());
    }
    let capacity_bytes = bench.system(key.devices, written, 1.0, 1, false)?.capacity_bytes(0);
    let geometry = Geometry { capacity_bytes, align_bytes: 1, workers: 1 };
    let shared = Shared::new(spec, 1, &geometry).map_err(|e| e.to_string())?;
    let (start, len) = shared.active_bytes();
    Ok((start + len) as f64 / capacity_bytes as f64)
}

/// Applies SNIA's steady state rule to the rates of rounds. Returns the number of rounds until the steady
/// state was reached, and true; or the number of all rounds, and false.
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

    /// SNIA's rule finds the first steady window of rates, and recognises rates that never become steady.
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
