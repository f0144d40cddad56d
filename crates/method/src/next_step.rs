//! A method (a measuring plan in stages) and its next step. The next step depends only on the completed steps and their
//! order, so it is the same after a crash.

mod early_end;

use crate::axis::{AxisKind, Value};
use crate::choice::MethodSource;
use crate::completed_step::{Done, Figures, response_time};
use crate::grid::Grid;
use crate::rate_search::RateSearch;
use crate::stage::{Act, Ceiling, Cells, Points, Rounds, Series, Stage, Track, Which};
use crate::step::{CellStep, Step};
use early_end::{SETTLE_OPS, TAIL_OPS, emulation};
use iodyno_measure::statistics::knee::{LoadPoint, Optimum, mid_points, optimum};
use iodyno_measure::statistics::steady::{Progress, SteadyState};
use iodyno_measure::{Metric, Place, Role, Threshold};
use iodyno_units::{Precondition, human};
use iodyno_workload::{ActiveRange, CellSpec, Edge, Spec};

/// A validated measuring plan in stages, to which the operator's options are applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// All inputs of the method, stored with the run.
    pub source: MethodSource,
    /// One-line description of the method; may be empty.
    pub about: String,
    /// Published specification that the method file follows; `None` if there is none.
    pub standard: Option<String>,
    /// Whether an earlier run's preconditioning may be reused if it is demonstrably intact.
    pub reuse: bool,
    /// Name of the group of settings in effect; `None` if the file has none.
    pub setting: Option<String>,
    /// Limits that the measured figures must meet, from the key `require` of the method file.
    pub thresholds: Vec<Threshold>,
    pub stages: Vec<Stage>,
}

impl Method {
    /// Returns every cell (measurement) that the method may run, for checks before the run: whether each fits the
    /// targets, and which data it overwrites.
    pub fn all_cells(&self) -> Vec<CellSpec> {
        let mut all = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            let mut add = |name: String, spec: &Spec| all.push(CellSpec::new(name, spec.clone()));
            match &stage.act {
                Act::Purge | Act::Wait { .. } => {}
                Act::Fill(fill) => add(stage.name.clone(), &fill.spec),
                Act::Cells(Cells { grid, .. })
                | Act::Series(Series { grid, .. })
                | Act::RateSearch(RateSearch { grid, .. }) => {
                    for (name, spec) in points(grid) {
                        add(name, &spec);
                    }
                }
                Act::Rounds(Rounds { grid, before, .. }) => {
                    if let Some((spec, _)) = before {
                        add(before_name(number), spec);
                    }
                    for (name, spec) in points(grid) {
                        add(name, &spec);
                    }
                }
                Act::Points(Points { before, .. }) => {
                    if let Some((spec, _)) = before {
                        add(before_name(number), spec);
                    }
                }
            }
        }
        all
    }

    /// Adapts the values of `targets` axes to the number of available targets: drops larger values, and adds the number
    /// itself if it is missing.
    #[must_use]
    pub fn with_targets(mut self, targets: u32) -> Self {
        for stage in &mut self.stages {
            let (Act::Cells(Cells { grid, .. }) | Act::Rounds(Rounds { grid, .. })) =
                &mut stage.act
            else {
                continue;
            };
            for axis in grid.axes.iter_mut().filter(|a| a.kind == AxisKind::Targets) {
                axis.values.retain(|v| matches!(v, Value::Count(n) if *n <= targets));
                if !axis.values.contains(&Value::Count(targets)) {
                    axis.values.push(Value::Count(targets));
                }
            }
        }
        self
    }

    /// Whether a stage starts its measurements in the device state that the preceding measurement left.
    pub fn carries_state(&self) -> bool {
        self.grids().any(|grid| grid.state == Precondition::Carried)
    }

    /// Whether all stages are grids whose measurements depend neither on earlier results nor on the device state that
    /// earlier measurements leave.
    pub fn has_independent_cells(&self) -> bool {
        self.stages.iter().all(|stage| match &stage.act {
            Act::Cells(Cells { grid, .. }) => {
                grid.state == Precondition::Workload && grid.rate_of.is_none()
            }
            _ => false,
        })
    }

    /// Whether one of the method's stages purges the targets.
    pub fn purges(&self) -> bool {
        self.stages.iter().any(|stage| stage.act == Act::Purge)
    }

    /// Names of all I/O engines that the method's grids compare.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        let axes = self.grids().flat_map(|grid| &grid.axes);
        let engines = axes.filter(|axis| axis.kind == AxisKind::Engine);
        engines.flat_map(|axis| &axis.values).filter_map(|value| match value {
            Value::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    fn grids(&self) -> impl Iterator<Item = &Grid> {
        self.stages.iter().filter_map(|stage| match &stage.act {
            Act::Cells(Cells { grid, .. })
            | Act::Series(Series { grid, .. })
            | Act::Rounds(Rounds { grid, .. })
            | Act::RateSearch(RateSearch { grid, .. }) => Some(grid),
            _ => None,
        })
    }

    /// Returns the next step for target `subject`, given all completed steps `done` in order.
    ///
    /// # Errors
    /// The reason why the method cannot continue: an earlier stage offers no point to choose, or a workload is
    /// invalid at a measured rate.
    pub fn next(&self, subject: u32, seed: u64, done: &[Done]) -> Result<Step, String> {
        for (number, stage) in self.stages.iter().enumerate() {
            let mine: Vec<&Done> = of_stage(done, subject, number).collect();
            let at = |round: u32, index: u32, role: Role| Place {
                subject,
                stage: number as u32,
                round,
                index,
                role,
                at: Vec::new(),
                is_trial: false,
            };
            let step = match &stage.act {
                Act::Purge if mine.is_empty() => {
                    Some(Step::Purge { place: at(0, 0, Role::Prepare) })
                }
                Act::Wait { ns } if mine.is_empty() => {
                    Some(Step::Wait { place: at(0, 0, Role::Prepare), ns: *ns })
                }
                Act::Fill(fill) if mine.is_empty() => Some(Step::Fill {
                    place: at(0, 0, Role::Prepare),
                    spec: Box::new(fill.spec.clone()),
                    passes: fill.passes,
                }),
                Act::Purge | Act::Wait { .. } | Act::Fill(_) => None,
                Act::Cells(cells) => self.cells(cells, seed, done, &mine, &at)?,
                Act::Rounds(rounds) => rounds_next(rounds, &self.judged(number), &mine, &at)?,
                Act::Series(series) => series_next(series, &mine, &at)?,
                Act::Points(points) => self.points(points, subject, done, &mine, &at)?,
                Act::RateSearch(search) => rate_search_next(search, &mine, &at)?,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
        Ok(Step::Finished)
    }

    fn cells(
        &self,
        cells: &Cells,
        seed: u64,
        done: &[Done],
        mine: &[&Done],
        at: &dyn Fn(u32, u32, Role) -> Place,
    ) -> Result<Option<Step>, String> {
        let grid = &cells.grid;
        let n = grid.len();
        let (round, position) = (mine.len() / n, mine.len() % n);
        if round as u32 >= cells.repeats {
            return Ok(None);
        }
        let index = grid.ordered(cells.order, seed, round as u32, position);
        let place = at(round as u32, index as u32, Role::Measure);
        let judged = self.judged(place.stage as usize);
        let mut step = cell(grid, index, &judged, place)?;
        if let Some(share) = grid.point(index)?.rate_share {
            let of = grid.rate_of.unwrap_or_default();
            let most = of_stage(done, step.place.subject, of)
                .filter_map(|d| d.figures.as_ref())
                .map(|f| f.each_target(f.summary.ops_per_s))
                .fold(0.0, f64::max);
            if most <= 0.0 {
                let stage = &self.stages[of].name;
                return Err(format!(
                    "{}: the rate is a percentage of the IOPS of `{stage}`, where nothing completed",
                    step.cell.name
                ));
            }
            let spec = step.cell.spec.with_rate(most * share, None);
            step.cell.spec = spec.map_err(|e| format!("{}: {e}", step.cell.name))?;
        }
        Ok(Some(Step::Cell(Box::new(step))))
    }

    fn points(
        &self,
        points: &Points,
        subject: u32,
        done: &[Done],
        mine: &[&Done],
        at: &dyn Fn(u32, u32, Role) -> Place,
    ) -> Result<Option<Step>, String> {
        let each = 1 + usize::from(points.before.is_some());
        let (number, part) = (mine.len() / each, mine.len() % each);
        let Some(which) = points.choose.get(number) else { return Ok(None) };
        let number = number as u32;
        if let (Some((spec, _)), 0) = (&points.before, part) {
            let place = at(number, 0, Role::Prepare);
            return Ok(Some(before_step(spec, place)));
        }
        let (grid, index) = self.chosen(points, *which, subject, done)?;
        let mut place = at(number, index as u32, Role::Measure);
        place.at = vec![("point".to_owned(), which.name().to_owned())];
        let chosen = grid.point(index)?;
        place.at.extend(chosen.words);
        let spec = chosen.spec.with_time(points.time_ns)?;
        let mut cell = CellSpec::new(format!("{} {}", which.name(), chosen.name), spec);
        cell.emulation = emulation(grid.state, chosen.fill, Some(TAIL_OPS));
        let judged = points.ceilings.iter().map(|ceiling| Metric::of_all(ceiling.of));
        let settle = cell.emulation.settle;
        cell.emulation.settle = settle.and_then(|of| Self::settle_for(of, &cell.spec, judged));
        let step = CellStep {
            cell,
            place,
            targets: chosen.targets,
            engine: chosen.engine,
            then_wait_ns: 0,
        };
        Ok(Some(Step::Cell(Box::new(step))))
    }

    /// Chooses an operating point of type `which` from the results of an earlier stage. Returns that stage's grid, and
    /// the point's index in the grid.
    ///
    /// # Errors
    /// If the earlier stage has no results or, for [`Which::Mid`], no point within the latency limits.
    pub fn chosen(
        &self,
        points: &Points,
        which: Which,
        subject: u32,
        done: &[Done],
    ) -> Result<(&Grid, usize), String> {
        let stage = &self.stages[points.of];
        let (grid, last_round) = match &stage.act {
            Act::Cells(cells) => (&cells.grid, false),
            Act::Rounds(rounds) => (&rounds.grid, true),
            _ => return Err(format!("`{}` measures no grid", stage.name)),
        };
        let of: Vec<&Done> = of_stage(done, subject, points.of).collect();
        let load = load_points(grid, &of, last_round, &points.ceilings);
        let (indices, load): (Vec<usize>, Vec<LoadPoint>) = load.into_iter().unzip();
        let limits: Vec<f64> = points.ceilings.iter().map(|c| c.ns as f64).collect();
        let nothing = || {
            format!(
                "`{}` has no point under the ceiling to choose from: raise the ceiling, or leave the `mid` point out",
                stage.name
            )
        };
        let place = match (which, optimum(&load, &limits)) {
            (_, Optimum::NoPoints) => return Err(format!("`{}` measured nothing", stage.name)),
            (Which::Max, Optimum::Found { most, .. }) => most,
            (Which::Optimal, Optimum::Found { chosen, .. }) => chosen,
            // Shown anyway, marked as exceeding the ceiling.
            (Which::Max | Which::Optimal, Optimum::NoneFeasible { least }) => least,
            (Which::Mid, _) => *mid_points(&load, &limits, 1).first().ok_or_else(nothing)?,
            (Which::Min, _) => (0..load.len())
                .min_by(|&a, &b| load[a].oio.cmp(&load[b].oio))
                .ok_or_else(nothing)?,
        };
        Ok((grid, indices[place]))
    }
}

/// Name and workload of every point of a grid. Invalid points cannot occur, because parsing rejects them.
fn points(grid: &Grid) -> Vec<(String, Spec)> {
    (0..grid.len()).filter_map(|i| grid.point(i).ok()).map(|p| (p.name, p.spec)).collect()
}

fn before_name(stage: usize) -> String {
    format!("writes before stage {}", stage + 1)
}

pub(crate) fn of_stage(
    done: &[Done],
    subject: u32,
    stage: usize,
) -> impl Iterator<Item = &Done> + Clone {
    done.iter().filter(move |d| d.place.subject == subject && d.place.stage as usize == stage)
}

/// Converts the results of a grid to points of a load curve, each with its index in the grid. Averages
/// repeats. If `last_round`, uses only the results of the last complete round.
pub(crate) fn load_points(
    grid: &Grid,
    done: &[&Done],
    last_round: bool,
    ceilings: &[Ceiling],
) -> Vec<(usize, LoadPoint)> {
    let measured = || done.iter().filter(|d| d.place.role == Role::Measure);
    let in_round = |round: u32| measured().filter(|d| d.place.round == round).count();
    let last = measured().map(|d| d.place.round).filter(|r| in_round(*r) == grid.len()).max();
    let mut all = Vec::new();
    for index in 0..grid.len() {
        let of: Vec<&Figures> = measured()
            .filter(|d| d.place.index as usize == index)
            .filter(|d| !last_round || Some(d.place.round) == last)
            .filter_map(|d| d.figures.as_ref())
            .collect();
        if of.is_empty() {
            continue;
        }
        let iops = of.iter().map(|f| f.summary.iops).sum::<f64>() / of.len() as f64;
        let together = response_time(&of);
        all.push((
            index,
            LoadPoint {
                oio: of[0].oio.ceil() as u32,
                iops,
                latency_ns: ceilings.iter().map(|c| c.of.of(&together)).collect(),
                sound: of.iter().all(|f| f.sound),
            },
        ));
    }
    all
}

/// Creates the step that measures a point of a grid. `judged`: metrics by which the method decides.
fn cell(
    grid: &Grid,
    index: usize,
    judged: &[Metric],
    mut place: Place,
) -> Result<CellStep, String> {
    let point = grid.point(index)?;
    place.at = point.words;
    let mut cell = CellSpec::new(point.name, point.spec);
    cell.emulation = emulation(grid.state, point.fill, grid.settles.then_some(SETTLE_OPS));
    let judged = judged.iter().copied();
    let settle = cell.emulation.settle;
    cell.emulation.settle = settle.and_then(|of| Method::settle_for(of, &cell.spec, judged));
    Ok(CellStep { cell, place, targets: point.targets, engine: point.engine, then_wait_ns: 0 })
}

fn before_step(spec: &Spec, place: Place) -> Step {
    let mut cell = CellSpec::new(before_name(place.stage as usize), spec.clone());
    cell.emulation = emulation(Precondition::Workload, None, Some(SETTLE_OPS));
    Step::Cell(Box::new(CellStep { cell, place, targets: None, engine: None, then_wait_ns: 0 }))
}

/// Feeds the tracking variables of all complete rounds to the steady-state test.
pub(crate) fn tracked(rounds: &Rounds, done: &[&Done]) -> Result<SteadyState, String> {
    let names = rounds.track.iter().map(|t| t.name.clone()).collect();
    let mut steady = SteadyState::new(rounds.limits, names).map_err(|e| e.to_string())?;
    let each = per_round(rounds);
    for round in done.chunks_exact(each) {
        let value = |track: &Track| {
            let at = round
                .iter()
                .find(|d| d.place.role == Role::Measure && d.place.index as usize == track.point);
            at.and_then(|d| d.figures.as_ref()).and_then(|f| f.get(track.quantity))
        };
        let values: Option<Vec<f64>> = rounds.track.iter().map(value).collect();
        let Some(values) = values else {
            let what =
                rounds.track.iter().find(|t| value(t).is_none()).map_or("", |t| t.name.as_str());
            return Err(format!(
                "the tracking variable {what} has no value, because too few operations completed: set a larger --scale, or use a copy of the method's file with longer times"
            ));
        };
        steady.push_round(&values).map_err(|e| e.to_string())?;
    }
    Ok(steady)
}

/// Number of steps in a round, including the preparatory writes.
pub(crate) fn per_round(rounds: &Rounds) -> usize {
    rounds.grid.len() + usize::from(rounds.before.is_some())
}

fn rounds_next(
    rounds: &Rounds,
    judged: &[Metric],
    mine: &[&Done],
    at: &dyn Fn(u32, u32, Role) -> Place,
) -> Result<Option<Step>, String> {
    let each = per_round(rounds);
    let (round, mut part) = ((mine.len() / each) as u32, mine.len() % each);
    // Evaluate only at the end of a round.
    if part == 0 && round > 0 && tracked(rounds, mine)?.report().progress != Progress::Running {
        return Ok(None);
    }
    if let Some((spec, _)) = &rounds.before {
        if part == 0 {
            return Ok(Some(before_step(spec, at(round, 0, Role::Prepare))));
        }
        part -= 1;
    }
    let step = cell(&rounds.grid, part, judged, at(round, part as u32, Role::Measure))?;
    Ok(Some(Step::Cell(Box::new(step))))
}

fn rate_search_next(
    search: &RateSearch,
    mine: &[&Done],
    at: &dyn Fn(u32, u32, Role) -> Place,
) -> Result<Option<Step>, String> {
    let mut step = cell(&search.grid, 0, &[], at(mine.len() as u32, 0, Role::Measure))?;
    // A steady mean does not imply a known tail.
    step.cell.emulation.settle = None;
    if mine.is_empty() {
        return Ok(Some(Step::Cell(Box::new(step))));
    }
    let figures: Option<Vec<&Figures>> = mine.iter().map(|d| d.figures.as_ref()).collect();
    let rate =
        |figures: Vec<&Figures>| Some(figures.first()?.each_target(search.next_iops(&figures)?));
    let Some(rate_iops) = figures.and_then(rate) else { return Ok(None) };
    let name = &step.cell.name;
    let rate = format!("{}/s", human::count(rate_iops));
    step.place.at.push(("rate".to_owned(), rate.clone()));
    step.place.is_trial = true;
    let spec = step.cell.spec.clone().with_rate(rate_iops, None);
    step.cell.spec = spec.map_err(|e| format!("{name}: {e}"))?;
    step.cell.name = format!("{name} rate={}", rate.replace(' ', ""));
    Ok(Some(Step::Cell(Box::new(step))))
}

/// Feeds every n-th sample of a series to the steady-state test; `None` if the series does not require a
/// steady state.
pub(crate) fn series_steady(
    series: &Series,
    done: &[&Done],
) -> Result<Option<SteadyState>, String> {
    let Some(every) = series.steady_every else { return Ok(None) };
    let variable = vec!["iops".to_owned()];
    let mut steady = SteadyState::new(series.limits, variable).map_err(|e| e.to_string())?;
    for (i, sample) in done.iter().enumerate() {
        if (i + 1) % every as usize != 0 || steady.report().progress != Progress::Running {
            continue;
        }
        let iops = sample.figures.as_ref().map_or(0.0, |f| f.summary.iops);
        steady.push_round(&[iops]).map_err(|e| e.to_string())?;
    }
    Ok(Some(steady))
}

fn series_next(
    series: &Series,
    mine: &[&Done],
    at: &dyn Fn(u32, u32, Role) -> Place,
) -> Result<Option<Step>, String> {
    let n = mine.len() as u32;
    let active_bytes = mine.last().and_then(|d| d.figures.as_ref()).map_or(0, |f| f.active_bytes);
    let active = series.grid.base.first().map_or(ActiveRange::WHOLE, |(_, spec)| spec.active());
    let fill_bytes = active_bytes as f64 / share_of_capacity(active);
    let written: u64 =
        mine.iter().filter_map(|d| d.figures.as_ref()).map(|f| f.written_bytes).sum();
    let filled = series
        .fills_max
        .is_some_and(|fills| fill_bytes > 0.0 && written as f64 >= fills * fill_bytes);
    let steady =
        series_steady(series, mine)?.is_some_and(|s| s.report().progress == Progress::Reached);
    if n >= series.samples_max || filled || steady {
        return Ok(None);
    }
    let mut step = cell(&series.grid, 0, &[], at(n, 0, Role::Measure))?;
    step.then_wait_ns = series.wait_ns;
    Ok(Some(Step::Cell(Box::new(step))))
}

/// Share of the target's capacity that a range covers. A range in bytes counts as all of it, because results do not
/// state the capacity.
fn share_of_capacity(active: ActiveRange) -> f64 {
    let (Edge::Share(start), Edge::Share(end)) = (active.start, active.end) else { return 1.0 };
    let start = if active.is_length { 0.0 } else { start.fraction() };
    end.fraction() - start
}
