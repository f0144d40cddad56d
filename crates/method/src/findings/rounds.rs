//! Rounds: whether they reached the steady state, by the specification's rule and by iodyno's drift
//! test, and the table over the measurement window.

use super::table::Table;
use super::{Step, measured, within_cell};
use crate::completed_step::Done;
use crate::next_step::tracked;
use crate::stage::Rounds;
use iodyno_measure::statistics::drift::Drift;
use iodyno_measure::statistics::steady::{Progress, SteadyReport};
use iodyno_measure::{Quantity, Role};
use serde::Serialize;

/// Finding of a stage of rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundsFinding {
    /// The verdict by the specification's rule, with its windows; None where a tracking variable
    /// could not be measured.
    pub steady: Option<SteadyReport>,
    /// Why `steady` is None.
    pub trouble: Option<String>,
    /// The limits, as text.
    pub limits: String,
    /// The tracking variables, over all rounds.
    pub variables: Vec<Variable>,
    /// Whole rounds.
    pub rounds: u32,
    /// Table of the measurement window: the last rounds, as many as a window has.
    pub table: Table,
    /// The first round of the measurement window; rounds count from 1.
    pub window_first: u32,
}

/// A tracking variable over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The point of the grid that it is a figure of.
    #[serde(skip)]
    pub point: usize,
    /// Which figure of it.
    #[serde(skip)]
    pub quantity: Quantity,
    /// Its value in each round, in its own unit (operations or bytes a second, or ns).
    pub values: Vec<Option<f64>>,
    /// Iodyno's drift test beside the specification's verdict, on the rate within its cells over
    /// the measurement window, interval by interval; None where there are too few.
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
