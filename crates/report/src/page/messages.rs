//! Section for message-log workloads: messages per second, time until a message is persisted, and the publishers'
//! backlog, over time. All cells have the same axes; the axis of persist times is logarithmic.

use super::time::{P50, P99};
use super::{figures, labels};
use iodyno_measure::{Cell, MessageLog};
use iodyno_notebook::Run;
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Section, Series, Shape};
use iodyno_units::human;

/// Maximum number of cells that are drawn.
const DRAWN_MAX: usize = 6;

/// Section on message logs; None if no cell measured one.
pub(super) fn section(run: &Run, cells: &[&Cell]) -> Option<Section> {
    let logs: Vec<(&Cell, &MessageLog)> =
        cells.iter().filter_map(|cell| cell.log.as_deref().map(|log| (*cell, log))).collect();
    let drawn = logs.iter().filter(|(_, log)| log.intervals.len() > 1).take(DRAWN_MAX);
    let drawn: Vec<Figure> =
        drawn.enumerate().map(|(i, (cell, log))| figure(run, cell, log, i)).collect();
    figures("messages", "Messages", drawn)
}

fn figure(run: &Run, cell: &Cell, log: &MessageLog, number: usize) -> Figure {
    let seconds = cell.interval_ns as f64 / 1e9;
    let at = |i: usize| (i as f64 + 0.5) * seconds;
    let line = |name: &str, color, value: &dyn Fn(usize) -> f64| Series {
        name: name.to_owned(),
        mark: Mark::Line,
        color,
        points: (0..log.intervals.len()).map(|i| Point::at(at(i), value(i))).collect(),
    };
    let time = |ns: u64| if ns == 0 { f64::NAN } else { ns as f64 };
    let of = &log.intervals;
    let rate = line("messages", 0, &|i| of[i].messages as f64 / seconds);
    let times = vec![
        line("p50", P50, &|i| time(of[i].p50_ns)),
        line("p99", P99, &|i| time(of[i].p99_ns)),
        line("max", 5, &|i| time(of[i].max_ns)),
    ];
    let backlog = line("backlog", 2, &|i| of[i].backlog_max as f64);
    let per_s = human::count(cell.per_second(log.messages as f64));
    let quantile = |q| {
        log.persist
            .supported_quantile_ns(q)
            .map_or("too few".to_owned(), |ns| human::time_ns(ns as f64))
    };
    Figure {
        id: format!("messages-{}", number + 1),
        title: format!("{}: messages over time", labels::name(run, &cell.key)),
        summary: format!(
            "{per_s} messages/s persisted; median {}, p99.9 {}; at most {} due and not persisted.",
            quantile(0.5),
            quantile(0.999),
            human::count(log.backlog_max as f64)
        ),
        conditions: labels::line_of_cell(run, cell),
        shape: Shape::Plot(Plot {
            x: Axis::from_zero("time", Quantity::Seconds),
            panels: vec![
                Panel::new(Axis::from_zero("messages a second", Quantity::Count), vec![rate]),
                Panel::new(Axis::log("time to be persisted", Quantity::LatencyNs), times),
                Panel::new(
                    Axis::from_zero("due and not persisted", Quantity::Count),
                    vec![backlog],
                ),
            ],
            spans: Vec::new(),
        }),
        notes: Vec::new(),
    }
}
