//! Computes the outcome of a study from its cells' results: the simulated value of each row, its error, the null
//! model's prediction, and the errors by strata.

use crate::cell::{CellKey, Rounds, Taken};
use crate::conclusion::{Finding, Simulated};
use crate::error_strata::{Stratum, strata};
use crate::metric::{AtOptimum, Recipe};
use crate::null::{NullModel, null};
use crate::over_time::OverTime;
use crate::published::Figure;
use crate::row::{Null, Row};
use crate::score::score;
use crate::study::Study;
use crate::wanted::Wanted;
use iodyno_emulate::describe::Source;
use iodyno_measure::Quantity;
use iodyno_measure::statistics::knee::{AttachedRate, saturation};
use std::collections::BTreeMap;

/// Results of a completed study.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// The study, with the definitions of the rows.
    pub study: &'a Study,
    /// Results of all rows, in the order of `study.rows`.
    pub rows: Vec<Row>,
    /// Conclusions of the paper, each with the result of a test on the simulated values.
    pub conclusions: Vec<Finding<'a>>,
    /// Errors of the simulated values, by groups of comparable rows.
    pub strata: Vec<Stratum>,
    /// Latencies of the cells that the study plots over time.
    pub over_time: Vec<TimeLine>,
    /// Number of simulated cells, without pilots.
    pub cells: usize,
    /// Cells measured in rounds: total number, and number that reached the steady state.
    pub in_rounds: (usize, usize),
    /// Cells that represent longer runs: total number, and number that proved stationary.
    pub of_spans: (usize, usize),
    /// Largest number of rounds in which any cell was measured; 0 if no cell was measured in rounds.
    pub rounds_max: u32,
    /// Number of simulated operations, including ramps.
    pub simulated: u64,
    /// Largest relative standard error of any cell's rate.
    pub rate_error_max: f64,
    /// Largest relative standard error of any cell's mean latency.
    pub latency_error_max: f64,
}

/// Latencies of one cell over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeLine {
    /// Index in `Study::panels` of the table or figure to which the cell belongs.
    pub panel: usize,
    /// System, workload and axis values of the cell.
    pub at: CellKey,
    /// Latencies and rates of the cell in each interval.
    pub over_time: OverTime,
}

impl<'a> Outcome<'a> {
    /// Computes all rows from the results of cells.
    ///
    /// # Panics
    /// If a cell that a row needs is not in `taken`.
    pub fn new(study: &'a Study, taken: &BTreeMap<CellKey, Taken>) -> Self {
        let rows: Vec<Row> = study.rows.iter().map(|wanted| row(study, wanted, taken)).collect();
        let simulated: Vec<_> = rows
            .iter()
            .map(|row| Simulated { ours: row.ours, standard_error: row.standard_error })
            .collect();
        let conclusions =
            study.conclusions.iter().map(|c| c.test(&study.rows, &simulated)).collect();
        let strata = strata(study, &rows);
        let simulated = taken.values().map(|t| t.simulated).sum();
        let rounds = || taken.values().filter_map(|t| t.rounds);
        let shown = || taken.values().filter_map(|t| t.stationary);
        let is_sample = |t: &&Taken| t.over_time.is_none() || t.iops_error.is_finite();
        let largest = |of: &dyn Fn(&Taken) -> f64| {
            taken.values().filter(is_sample).map(of).fold(0.0, f64::max)
        };
        Self {
            study,
            rows,
            conclusions,
            strata,
            over_time: time_lines(study, taken),
            cells: taken.len(),
            in_rounds: (rounds().count(), rounds().filter(|r| r.steady).count()),
            of_spans: (shown().count(), shown().filter(|stationary| *stationary).count()),
            rounds_max: rounds().map(|r| r.run).max().unwrap_or(0),
            simulated,
            rate_error_max: largest(&|t| t.iops_error),
            latency_error_max: largest(&|t| t.mean_error),
        }
    }

    /// Published value of a row; None if the paper has none.
    pub fn printed(&self, wanted: &Wanted) -> Option<&'a Figure> {
        wanted.printed.map(|i| &self.study.printed[i])
    }

    /// Number of model parameters whose source is of this kind.
    pub fn parameters(&self, source: Source) -> usize {
        self.study.parameters.iter().filter(|owned| owned.parameter.from == source).count()
    }
}

/// Cells that the study plots over time, in the order of the panels.
fn time_lines(study: &Study, taken: &BTreeMap<CellKey, Taken>) -> Vec<TimeLine> {
    let mut all: Vec<TimeLine> = Vec::new();
    for row in &study.rows {
        let Some(panel) = row.panel else { continue };
        for at in row.recipe.cells() {
            let is_known = all.iter().any(|line| line.panel == panel && line.at == at);
            if let Some(over_time) = taken[&at].over_time.clone().filter(|_| !is_known) {
                all.push(TimeLine { panel, at, over_time });
            }
        }
    }
    all
}

fn row(study: &Study, wanted: &Wanted, taken: &BTreeMap<CellKey, Taken>) -> Row {
    let value = value(&wanted.recipe, taken);
    let ours = value.map(|(value, _)| value / wanted.unit.scale());
    let printed = wanted.printed.map(|i| &study.printed[i]);
    let rival = study.competitor_of(wanted).and_then(|recipe| self::value(&recipe, taken));
    let rival = rival.map(|(value, _)| (NullModel::Competitor, value / wanted.unit.scale()));
    let null = rival.or_else(|| null(study, wanted)).map(|(model, value)| {
        let score = printed.map(|figure| score(value, figure));
        Null { model, value, score }
    });
    Row {
        ours,
        standard_error: value.and_then(|(_, error)| error),
        steady: steady(&wanted.recipe, taken),
        score: ours.and_then(|ours| Some(score(ours, printed?))),
        flagged: printed.is_some_and(Figure::is_flagged),
        null,
    }
}

/// Whether all cells of a recipe were steady or stationary; None if any cell was not tested.
fn steady(recipe: &Recipe, taken: &BTreeMap<CellKey, Taken>) -> Option<bool> {
    let cells = match recipe {
        Recipe::AtOptimum(AtOptimum::Of(_), optimum) => vec![optimum.long(taken)],
        Recipe::Lowest(all) | Recipe::Highest(all) | Recipe::Mean(all) => {
            let each: Option<Vec<bool>> = all.iter().map(|r| steady(r, taken)).collect();
            return each.map(|all| all.into_iter().all(|s| s));
        }
        _ => recipe.cells(),
    };
    let shown: Option<Vec<bool>> = cells.iter().map(|cell| taken[cell].stationary).collect();
    if let Some(shown) = shown.filter(|all| !all.is_empty()) {
        return Some(shown.into_iter().all(|stationary| stationary));
    }
    let rounds: Option<Vec<Rounds>> = cells.iter().map(|cell| taken[cell].rounds).collect();
    rounds.filter(|all| !all.is_empty()).map(|all| all.iter().all(|r| r.steady))
}

/// Value of a recipe in the base unit of its dimension, and its relative standard error if known. None if the recipe
/// has no value, for example because there are too few samples.
fn value(recipe: &Recipe, taken: &BTreeMap<CellKey, Taken>) -> Option<(f64, Option<f64>)> {
    let both = |a: &Recipe, b: &Recipe| {
        let ((a, a_error), (b, b_error)) = (value(a, taken)?, value(b, taken)?);
        let error = a_error.zip(b_error).map(|(a, b)| a.hypot(b));
        Some((a, b, error))
    };
    match recipe {
        Recipe::Of(quantity, cell) => taken[cell].get(*quantity),
        Recipe::Figure(of, cell) => Some((taken[cell].figure(*of), None)),
        Recipe::Messages(messages, cell) => {
            let (iops, error) = taken[cell].get(Quantity::Iops)?;
            Some((iops * f64::from(*messages), error))
        }
        Recipe::FewestThreads(share, cells) => {
            let most = cells.iter().map(|cell| taken[cell].iops).fold(0.0, f64::max);
            let enough = cells.iter().filter(|cell| taken[*cell].iops >= share * most);
            enough.map(|cell| cell.threads).min().map(|threads| (f64::from(threads), None))
        }
        Recipe::MaxIops(cells) => {
            let rates = cells.iter().filter_map(|cell| taken[cell].get(Quantity::Iops));
            rates.max_by(|a, b| a.0.total_cmp(&b.0))
        }
        Recipe::AtOptimum(what, optimum) => match what {
            AtOptimum::Of(quantity) => taken[&optimum.long(taken)].get(*quantity),
            AtOptimum::Oio => Some((f64::from(optimum.find(taken).oio()), None)),
            AtOptimum::Threads => Some((f64::from(optimum.find(taken).threads), None)),
            AtOptimum::Depth => Some((f64::from(optimum.find(taken).depth), None)),
        },
        Recipe::Lowest(all) => several(all, taken)?.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)),
        Recipe::Highest(all) => several(all, taken)?.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)),
        Recipe::Mean(all) => {
            let all = several(all, taken)?;
            let n = all.len() as f64;
            let mean = all.iter().map(|v| v.0).sum::<f64>() / n;
            let squares: Option<f64> = all.iter().map(|v| Some((v.1? * v.0).powi(2))).sum();
            Some((mean, squares.map(|s| s.sqrt() / n / mean)))
        }
        // The ratio of a figure to itself has no error.
        Recipe::Ratio(a, b) if a == b => value(a, taken).map(|_| (1.0, Some(0.0))),
        Recipe::Ratio(a, b) => {
            let (a, b, error) = both(a, b)?;
            (b > 0.0).then_some((a / b, error))
        }
        Recipe::Little(latency, rate) => {
            let (latency_ns, rate, error) = both(latency, rate)?;
            Some((latency_ns * 1e-9 * rate, error))
        }
        Recipe::DepthReached(share, cells) => {
            let points: Vec<(f64, f64)> =
                cells.iter().map(|cell| (f64::from(cell.depth), taken[cell].iops)).collect();
            reached(&points, *share).map(|depth| (depth, None))
        }
        Recipe::Saturation(one, all) => {
            let (a, b) = (&taken[one], &taken[all]);
            let reached = saturation(
                AttachedRate { devices: one.devices, iops: a.iops },
                AttachedRate { devices: all.devices, iops: b.iops },
            )?;
            Some((reached, Some(a.iops_error.hypot(b.iops_error))))
        }
        Recipe::Given(value) => Some((*value, None)),
    }
}

/// Values of several recipes; None if any of them has no value.
fn several(all: &[Recipe], taken: &BTreeMap<CellKey, Taken>) -> Option<Vec<(f64, Option<f64>)>> {
    all.iter().map(|recipe| value(recipe, taken)).collect()
}

/// Finds the x at which the line through the points first reaches the fraction `share` of the largest y; None without
/// points.
fn reached(points: &[(f64, f64)], share: f64) -> Option<f64> {
    let goal = points.iter().map(|p| p.1).max_by(f64::total_cmp)? * share;
    let after = points.iter().position(|p| p.1 >= goal)?;
    let Some(before) = after.checked_sub(1) else { return Some(points[0].0) };
    let ((x0, y0), (x1, y1)) = (points[before], points[after]);
    Some(x0 + (x1 - x0) * (goal - y0) / (y1 - y0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_curve_reaches_a_share() {
        let curve = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 40.0)];
        assert_eq!(reached(&curve, 0.95), Some(3.8));
        assert_eq!(reached(&curve, 0.2), Some(1.0), "at the first point already");
        assert_eq!(reached(&[(1.0, 3.0), (2.0, 2.0)], 1.0), Some(1.0));
        assert_eq!(reached(&[], 0.5), None);
    }
}
