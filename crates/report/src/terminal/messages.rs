//! The table of messages, for workloads that are a message log: one row per cell.

use super::{NAME_COLUMNS_MAX, short_label_of};
use iodyno_measure::{Cell, Histogram, MessageLog};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_units::human;

/// Percentiles of the time to persist a message.
const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

pub(super) fn lines(run: &Run, cells: &[&Cell], style: Style) -> Vec<String> {
    let logs: Vec<_> =
        cells.iter().filter_map(|cell| cell.log.as_deref().map(|log| (*cell, log))).collect();
    if logs.is_empty() {
        return Vec::new();
    }
    let figure = |text: String| Field::figure(&clean(&text, 14, style), Role::Plain);
    let time = |ns: Option<u64>| ns.map_or(Field::Missing, |ns| figure(human::time_ns(ns as f64)));
    let mut names = Column::unnamed(Vec::new());
    let mut rate = Column::new("messages/s", 0);
    let mut bodies = Column::new("bodies", 3);
    let mut quantiles =
        QUANTILES.map(|(name, q)| (q, Column::new(name, if name == "p50" { 2 } else { 1 })));
    let mut max = Column::new("max", 2);
    let mut per_flush = Column::new("a flush", 5);
    let mut backlog = Column::new("backlog max", 4);
    let mut replayed = Column::new("replayed/s", 4);
    for (cell, log) in &logs {
        let per_s = |n: u64| cell.per_second(n as f64);
        let label = if logs.len() > 1 {
            short_label_of(run, &cell.key, style)
        } else {
            "messages".to_owned()
        };
        names.fields.push(Field::Text(clean(&label, NAME_COLUMNS_MAX, style), Role::Bold));
        rate.fields.push(Field::figure(&human::count(per_s(log.messages)), Role::Bold));
        bodies.fields.push(figure(human::throughput(per_s(log.body_bytes))));
        for (q, column) in &mut quantiles {
            column.fields.push(time(supported(&log.persist, *q)));
        }
        max.fields.push(time(log.persist.max_ns()));
        per_flush.fields.push(match log.flushes {
            0 => Field::Missing,
            n => figure(human::three_digits(log.messages as f64 / n as f64)),
        });
        backlog.fields.push(figure(human::count(log.backlog_max as f64)));
        replayed.fields.push(match log.replayed {
            0 => Field::Missing,
            n => figure(human::count(per_s(n))),
        });
    }
    let mut columns = vec![names, rate, bodies];
    columns.extend(quantiles.map(|(_, column)| column));
    columns.extend([max, per_flush, backlog, replayed]);
    columns.retain(|c| !c.fields.iter().all(|f| matches!(f, Field::Missing)));
    table::fit(&mut columns, style.columns());
    let mut lines = table::lines(&columns, style);
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
            let what =
                format!("{name}{} reads of replays returned no valid chunk", log.replay_errors);
            lines.extend(paragraph(&what, Role::Red, style));
        }
    }
    lines
}

/// The cost of each level of durability compared with the first, for cells with several levels on
/// one target.
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
                "`{}` persists {}/s, {} of them",
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
        "The price of durability here: `{}` {} messages/s; {}.",
        of_first.durability,
        human::count(base),
        others.join("; ")
    );
    paragraph(&text, Role::Bold, style)
}

fn supported(of: &Histogram, q: f64) -> Option<u64> {
    of.supported_quantile_ns(q)
}

/// Remarks on the publishers' waiting, and on the regularity of the longest times.
fn remarks(cell: &Cell) -> Vec<String> {
    let Some(log) = &cell.log else { return Vec::new() };
    let mut said = Vec::new();
    if log.blocked_ns > 0 {
        let share = log.blocked_ns as f64 / cell.window_ns.max(1) as f64;
        said.push(format!(
            "publishers held as many messages as they may, and waited, for {} ({})",
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
            format!("; in {n} of them the delay was in \"{phase}\"")
        });
        said.push(format!(
            "{} of {} intervals have a message that took more than {} times the median{every}{cause}",
            spikes.intervals,
            spikes.of,
            iodyno_measure::message_log::SPIKE_FACTOR
        ));
    }
    said
}
