//! Sections for measurement in rounds until the steady state: convergence of the tracked quantities, and figures and
//! tables of the results in the measurement window.

use super::grid;
use super::stage::Stage;
use crate::method_headlines::quantity;
use iodyno_measure::Cell;
use iodyno_measure::statistics::steady::{Progress, Window};
use iodyno_method::findings::RoundsFinding;
use iodyno_page::figure::{Rule, Span};
use iodyno_page::{
    Axis, Block, Cell as Field, Column, Figure, Mark, Panel, Plot, Point, Quantity, Scale, Series,
    Shape, Table, Tone,
};
use iodyno_units::human;

/// Maximum number of panels in the convergence figure.
const PANELS_MAX: usize = 8;

/// Draws the charts and the table of a stage that repeats rounds until the steady state.
pub(super) fn blocks(stage: &Stage<'_>, rounds: &RoundsFinding) -> Vec<Block> {
    // The first tracked quantity is the one that the method is about.
    let lead = rounds.variables.first().map_or(Quantity::Iops, |v| quantity(&v.name));
    let mut blocks: Vec<Block> =
        grid::of_table(stage, &rounds.table, lead).into_iter().map(Block::Figure).collect();
    let converged = convergence(stage, rounds).map(Block::Figure);
    let after_first = blocks.len().min(1);
    blocks.splice(after_first..after_first, converged);
    if let Some(table) = windows(rounds) {
        blocks.push(Block::Table(table));
    }
    if let Some(trouble) = &rounds.trouble {
        blocks.push(Block::Text(trouble.clone()));
    }
    // As in the table: rounds before the window are not part of the result.
    let first = rounds.window_first.saturating_sub(1);
    let in_window = |c: &&Cell| c.key.place.as_ref().is_some_and(|p| p.round >= first);
    let cells: Vec<&Cell> = stage.cells.iter().copied().filter(in_window).collect();
    let of = grid::of_distribution(stage, &cells, &rounds.table);
    blocks.extend(of.into_iter().map(Block::Figure));
    let mut table = grid::table(&rounds.table);
    if rounds.rounds == 0 {
        blocks.push(Block::Text(
            "No round was completed: the table of cells lists the cells of the unfinished first round.".to_owned(),
        ));
    } else {
        table.caption = format!("Rounds {} to {}", rounds.window_first, rounds.rounds);
        blocks.push(Block::Table(table));
    }
    blocks
}

/// Draws the tracked quantities over the rounds, with the measurement window, its mean, the limits and the
/// trend line.
fn convergence(stage: &Stage<'_>, rounds: &RoundsFinding) -> Option<Figure> {
    if rounds.rounds == 0 || rounds.variables.is_empty() {
        return None;
    }
    let window = |name: &str| -> Option<&Window> {
        let steady = rounds.steady.as_ref()?;
        steady.windows.iter().find(|(n, _)| n == name).map(|(_, w)| w)
    };
    let range = rounds.steady.as_ref().map(|s| s.limits.range_share_max);
    let panels = rounds.variables.iter().take(PANELS_MAX).enumerate().map(|(color, variable)| {
        let points = variable
            .values
            .iter()
            .enumerate()
            .map(|(i, v)| Point::at(i as f64 + 1.0, v.unwrap_or(f64::NAN)))
            .collect();
        let mut series =
            vec![Series { name: variable.name.clone(), mark: Mark::Line, color, points }];
        let mut rules = Vec::new();
        if let Some(window) = window(&variable.name) {
            let (first, last) = (f64::from(window.first_round), f64::from(window.last_round()));
            let on = |x: f64| Point::at(x, window.fit.slope * x + window.fit.intercept);
            series.push(Series {
                name: "best fit".to_owned(),
                mark: Mark::Dashed,
                color: 7,
                points: vec![on(first), on(last)],
            });
            let mut rule = |at: f64, name: String| {
                rules.push(Rule { at, upright: false, name, tone: Tone::Dim });
            };
            rule(window.mean, "mean".to_owned());
            // The rule limits the range; like SNIA's reports, draw half of it on either side.
            if let Some(range) = range {
                let half = range / 2.0;
                rule(window.mean * (1.0 + half), format!("{:.0} %", (1.0 + half) * 100.0));
                rule(window.mean * (1.0 - half), format!("{:.0} %", (1.0 - half) * 100.0));
            }
        }
        Panel {
            rules,
            height: if rounds.variables.len() > 2 { 0.75 } else { 1.0 },
            ..Panel::new(Axis::from_zero(variable.name.clone(), quantity(&variable.name)), series)
        }
    });
    let panels = panels.collect();
    let reached = rounds.steady.as_ref().map(|s| s.progress);
    let (words, tone) = match reached {
        Some(Progress::Reached) => ("steady state", Tone::Good),
        Some(Progress::NotReached) => ("NOT REACHED", Tone::Bad),
        _ => ("last window", Tone::Warning),
    };
    let summary = match reached {
        Some(Progress::Reached) => format!(
            "The steady state was reached: rounds {} to {} meet the limits.",
            rounds.window_first, rounds.rounds
        ),
        Some(Progress::NotReached) => {
            format!("The steady state was not reached in {} rounds.", rounds.rounds)
        }
        _ => {
            let done = human::counted(rounds.rounds.into(), "round");
            format!("{done}, no steady state yet.")
        }
    };
    Some(Figure {
        id: format!("{}-convergence", stage.id),
        title: stage.titled("Convergence, round by round"),
        summary,
        conditions: stage.line(),
        shape: Shape::Plot(Plot {
            x: Axis {
                range: Some((0.5, f64::from(rounds.rounds) + 0.5)),
                label: "round".to_owned(),
                quantity: Quantity::Count,
                scale: Scale::Linear { zero: false },
            },
            panels,
            spans: vec![Span {
                from: f64::from(rounds.window_first) - 0.5,
                to: f64::from(rounds.rounds) + 0.5,
                name: words.to_owned(),
                tone,
            }],
        }),
        notes: vec![rounds.limits.clone()],
    })
}

/// Table of the tracked quantities in the measurement window, with the limits of the steady state rule.
fn windows(rounds: &RoundsFinding) -> Option<Table> {
    let steady = rounds.steady.as_ref().filter(|s| !s.windows.is_empty())?;
    let limits = &steady.limits;
    let share = |x: f64, ok: bool| {
        Field::number(format!("{} %", human::three_digits(x * 100.0)), x).toned(if ok {
            Tone::Good
        } else {
            Tone::Bad
        })
    };
    let rows = steady.windows.iter().map(|(name, window)| {
        let in_unit = |x: f64| Field::number(quantity(name).words(x), x);
        vec![
            Field::words(name.clone()),
            in_unit(window.mean),
            share(window.range_share(), window.range_ok),
            share(window.slope_share(), window.slope_ok),
            in_unit(window.fit.slope),
            in_unit(window.fit.intercept),
        ]
        .into()
    });
    Some(Table {
        caption: match steady.windows_tried {
            1 => "The measurement window; 1 window was tried".to_owned(),
            n => format!("The measurement window; {n} windows were tried"),
        },
        columns: vec![
            Column::words("variable"),
            Column::numbers("mean", ""),
            Column::numbers(
                format!("range (at most {:.0} %)", limits.range_share_max * 100.0),
                "share",
            ),
            Column::numbers(
                format!("slope (at most {:.0} %)", limits.slope_share_max * 100.0),
                "share",
            ),
            Column::numbers("a of the fit", ""),
            Column::numbers("b of the fit", ""),
        ],
        rows: rows.collect(),
        notes: vec!["The fitted line is a × round + b.".to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_measure::statistics::steady::{SteadyLimits, SteadyState};
    use iodyno_method::findings::Table as Grid;

    /// The fit of a latency is in the unit of its mean, not in nanoseconds.
    #[test]
    fn a_fit_is_in_the_unit_of_its_variable() {
        let names = vec!["mean latency".to_owned()];
        let mut steady = SteadyState::new(SteadyLimits::PTS, names).unwrap();
        for round in 1..=5 {
            steady.push_round(&[63_670.0 + 10.0 * f64::from(round)]).unwrap();
        }
        let rounds = RoundsFinding {
            steady: Some(steady.report()),
            trouble: None,
            limits: String::new(),
            variables: Vec::new(),
            rounds: 5,
            table: Grid { axes: Vec::new(), rows: Vec::new() },
            window_first: 1,
        };
        let table = windows(&rounds).unwrap();
        let texts: Vec<&str> = table.rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!((texts[1], texts[4], texts[5]), ("63.7 µs", "10.0 ns", "63.7 µs"));
    }
}
