//! Table of results for message-log workloads, one row per measurement.

use super::{NAME_COLUMNS_MAX, short_label_of};
use iodyno_measure::{Cell, MessageLog};
use iodyno_notebook::Run;
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell as Field, Column, Quantity, Table, Tone};
use iodyno_units::human;

/// Names and quantiles shown for the time to persist a message.
const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

pub(super) fn lines(run: &Run, cells: &[&Cell], style: Style) -> Vec<String> {
    let logs: Vec<_> =
        cells.iter().filter_map(|cell| cell.log.as_deref().map(|log| (*cell, log))).collect();
    if logs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new([
        Column::words(""),
        Column::numbers("messages/s", "1/s"),
        Column::numbers("bodies", "bytes/s").ranked(3),
    ]);
    let rank = |name: &str| if name == "p50" { 2 } else { 1 };
    let quantiles =
        QUANTILES.iter().map(|(name, _)| Column::numbers(*name, "ns").ranked(rank(name)));
    table.columns.extend(quantiles);
    table.columns.extend([
        Column::numbers("max", "ns").ranked(2),
        Column::numbers("a flush", "").ranked(5),
        Column::numbers("backlog max", "").ranked(4),
        Column::numbers("replayed/s", "1/s").ranked(4),
    ]);
    for (cell, log) in &logs {
        let label = if logs.len() > 1 {
            short_label_of(run, &cell.key, style)
        } else {
            "messages".to_owned()
        };
        table.push(row(&clean(&label, NAME_COLUMNS_MAX, style), cell, log));
    }
    let mut lines = table::fitted(&table.without_blank_columns(), style);
    lines.extend(price_of_durability(&logs, style));
    for (cell, log) in &logs {
        let name = if logs.len() > 1 {
            format!("{}: ", short_label_of(run, &cell.key, style))
        } else {
            String::new()
        };
        for what in remarks(cell) {
            lines.extend(paragraph(&format!("{name}{what}"), Role::Dim, style));
        }
        if log.replay_errors > 0 {
            let what = format!("{name}{} replay reads returned no valid chunk", log.replay_errors);
            lines.extend(paragraph(&what, Role::Red, style));
        }
    }
    lines
}

fn row(label: &str, cell: &Cell, log: &MessageLog) -> Vec<Field> {
    let per_s = |n: u64| cell.per_second(n as f64);
    let time = |ns: Option<u64>| Field::of(Quantity::LatencyNs, ns.map(|ns| ns as f64));
    let unless_none = |n: u64, value: f64| (n > 0).then_some(value);
    let mut row = vec![
        Field::words(label).toned(Tone::Strong),
        Field::of(Quantity::Iops, per_s(log.messages)).toned(Tone::Strong),
        Field::of(Quantity::Throughput, per_s(log.body_bytes)),
    ];
    row.extend(QUANTILES.map(|(_, q)| time(log.persist.supported_quantile_ns(q))));
    row.extend([
        time(log.persist.max_ns()),
        Field::of(
            Quantity::Ratio,
            unless_none(log.flushes, log.messages as f64 / log.flushes as f64),
        ),
        Field::of(Quantity::Iops, log.backlog_max as f64),
        Field::of(Quantity::Iops, unless_none(log.replayed, per_s(log.replayed))),
    ]);
    row
}

/// Compares the message rates of several durability levels with the rate of the first level on the same
/// target. Empty if there is only one level.
fn price_of_durability(logs: &[(&Cell, &MessageLog)], style: Style) -> Vec<String> {
    let alike = |a: &Cell, b: &Cell| a.key.target == b.key.target;
    let Some(((first, of_first), others)) = logs.split_first() else { return Vec::new() };
    let rate = |cell: &Cell, log: &MessageLog| cell.per_second(log.messages as f64);
    let base = rate(first, of_first);
    let others: Vec<String> = others
        .iter()
        .filter(|(cell, log)| alike(cell, first) && log.durability != of_first.durability)
        .map(|(cell, log)| {
            let times = base / rate(cell, log).max(f64::MIN_POSITIVE);
            format!(
                "`{}` persists {}/s, {} of that rate",
                log.durability,
                human::count(rate(cell, log)),
                if times >= 2.0 {
                    format!("1/{}", human::three_digits(times))
                } else {
                    human::percent(1.0 / times.max(f64::MIN_POSITIVE), 0)
                }
            )
        })
        .collect();
    if others.is_empty() || base == 0.0 {
        return Vec::new();
    }
    let text = format!(
        "The price of durability here: `{}` persists {} messages/s; {}.",
        of_first.durability,
        human::count(base),
        others.join("; ")
    );
    paragraph(&text, Role::Bold, style)
}

/// Remarks on how long publishers waited, and whether the longest persist times recur periodically.
fn remarks(cell: &Cell) -> Vec<String> {
    let Some(log) = &cell.log else { return Vec::new() };
    let mut said = Vec::new();
    if log.blocked_ns > 0 {
        let share = log.blocked_ns as f64 / cell.window_ns.max(1) as f64;
        said.push(format!(
            "publishers reached their limit of unpersisted messages and were blocked for {} ({})",
            human::duration_ns(log.blocked_ns),
            human::percent(share.min(1.0), 1)
        ));
    }
    if log.dropped > 0 {
        said.push(format!("publishers dropped {} messages", human::count(log.dropped as f64)));
    }
    if let Some(spikes) = log.spikes(cell.interval_ns) {
        let every = spikes
            .every_ns
            .map_or_else(String::new, |ns| format!(", one each {}", human::duration_ns(ns)));
        let cause = spikes.cause.map_or_else(String::new, |(phase, n)| {
            format!("; in {n} of these intervals, the delay was in \"{phase}\"")
        });
        said.push(format!(
            "{} of {} intervals have a message that took over {} times the median to persist{every}{cause}",
            spikes.intervals,
            spikes.of,
            iodyno_measure::message_log::SPIKE_FACTOR
        ));
    }
    said
}
