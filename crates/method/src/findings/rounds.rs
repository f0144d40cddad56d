//! Result of rounds, which repeat a grid until the steady state: the results of SNIA's steady-state test and of
//! iodyno's drift test, and a table of the figures in the measurement window.

use super::table::Table;
use super::{Step, measured, within_cell};
use crate::completed_step::Done;
use crate::next_step::tracked;
use crate::stage::Rounds;
use iodyno_measure::statistics::drift::Drift;
use iodyno_measure::statistics::steady::{Progress, SteadyReport};
use iodyno_measure::{Quantity, Role};
use serde::Serialize;

/// Result of a stage that repeats a grid in rounds until the steady state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundsFinding {
    /// Result of SNIA's steady-state test; `None` if a variable to be tested could not be measured.
    pub steady: Option<SteadyReport>,
    /// Reason why there is no test result; `None` if `steady` has one.
    pub trouble: Option<String>,
    /// Limits of the steady-state test, as text.
    pub limits: String,
    /// Tracking variables (the figures that the steady-state test judges) with their values in all rounds.
    pub variables: Vec<Variable>,
    /// Number of complete rounds.
    pub rounds: u32,
    /// Results of all points of the grid, over the rounds of the measurement window.
    pub table: Table,
    /// Number of the measurement window's first round, counted from 1.
    pub window_first: u32,
}

/// A tracking variable (a figure that the steady-state test judges) with its value in each round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variable {
    /// Display name of the variable, such as `iops of block=4KiB`.
    pub name: String,
    /// Index of the variable's point in the grid.
    #[serde(skip)]
    pub point: usize,
    /// Quantity that must become steady, measured at that point.
    #[serde(skip)]
    pub quantity: Quantity,
    /// Value in each round, in operations per second, bytes per second or ns; `None` if it could not be measured.
    pub values: Vec<Option<f64>>,
    /// Result of iodyno's own drift test on the rates of all intervals in the measurement window, in addition to SNIA's
    /// test. `None` for too few intervals.
    pub drift: Option<Drift>,
}

impl RoundsFinding {
    /// Whether the steady state was reached.
    pub fn reached(&self) -> bool {
        self.steady.as_ref().is_some_and(|s| s.progress == Progress::Reached)
    }
}

pub(super) fn rounds(of: &Rounds, seed: u64, done: &[&Done], steps: &[&Step<'_>]) -> RoundsFinding {
    let per_round = of.grid.len();
    let count = |round: u32| measured(steps).filter(|s| s.done.place.round == round).count();
    let rounds = (0..u32::MAX).take_while(|&r| count(r) == per_round).count() as u32;
    let first = rounds.saturating_sub(of.limits.window_rounds);
    let window = measured(steps).filter(|s| (first..rounds).contains(&s.done.place.round));
    let table = Table::of(&of.grid, &window);
    let variables = of.track.iter().map(|track| {
        let at = |round: u32| {
            done.iter().find(|d| {
                d.place.role == Role::Measure
                    && d.place.round == round
                    && d.place.index as usize == track.point
            })
        };
        let value = |round| at(round)?.figures.as_ref()?.get(track.quantity);
        let of_track = measured(steps)
            .filter(|s| (first..rounds).contains(&s.done.place.round))
            .filter(|s| s.done.place.index as usize == track.point);
        Variable {
            name: track.name.clone(),
            point: track.point,
            quantity: track.quantity,
            values: (0..rounds).map(value).collect(),
            drift: within_cell::drift(of_track, seed),
        }
    });
    let variables = variables.collect();
    let (steady, trouble) = match tracked(of, done) {
        Ok(steady) => (Some(steady.report()), None),
        Err(why) => (None, Some(why)),
    };
    RoundsFinding {
        steady,
        trouble,
        limits: of.limits.to_string(),
        variables,
        rounds,
        table,
        window_first: first + 1,
    }
}
