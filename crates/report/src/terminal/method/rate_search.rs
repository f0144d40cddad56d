//! A search for the highest rate that meets a latency limit, as text: the answer, and the result at
//! each rate.

use super::certainty::between;
use crate::kinds;
use iodyno_method::findings::{Probe, RateSearchFinding};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_units::human;

pub(super) fn lines(found: &RateSearchFinding, style: Style) -> Vec<String> {
    let role = if found.holds_iops.is_some() { Role::Green } else { Role::Yellow };
    let mut lines = paragraph(&clean(&found.sentence(), 500, style), role, style);
    if let Some(limited) = found.limited() {
        lines.extend(paragraph(&clean(&limited, 500, style), Role::Yellow, style));
    }
    let mut rates = Column::new("rate", 0);
    let mut iops = Column::new("completed", 3);
    let name = found.limit.split(' ').next().unwrap_or_default();
    let mut latency = Column::new(clean(name, 16, style), 0);
    let mut intervals = Column::new("95 % interval", 2);
    let mut holds = Column::new("holds", 1);
    // If the limit covers several kinds of operation, each has a column of its own.
    let apart = if found.covers.len() > 1 { found.covers.as_slice() } else { &[] };
    let of_kinds = apart.iter().map(|kind| format!("{} {}", kind.name(), found.metric.quantity));
    let mut of_kinds: Vec<Column> = of_kinds.map(|name| Column::new(name, 1)).collect();
    for probe in &found.probes {
        let Probe { offered_iops, iops: done, latency_ns, within, holds: held, .. } = probe;
        let role = match held {
            Some(true) => Role::Green,
            Some(false) => Role::Yellow,
            None => Role::Dim,
        };
        let rate = match offered_iops {
            Some(rate_iops) => format!("{}/s", human::count(*rate_iops)),
            None => "closed loop".to_owned(),
        };
        rates.fields.push(Field::Text(clean(&rate, 16, style), Role::Bold));
        iops.fields.push(Field::figure(&format!("{}/s", human::count(*done)), Role::Plain));
        latency.fields.push(match latency_ns {
            Some(ns) => Field::figure(&clean(&human::time_ns(*ns), 12, style), role),
            None => Field::Missing,
        });
        intervals.fields.push(match within {
            Some(within) => Field::Text(between(within, style), Role::Dim),
            None => Field::Missing,
        });
        for (column, kind) in of_kinds.iter_mut().zip(apart) {
            column.fields.push(match found.of_kind(probe, *kind) {
                Some(ns) => Field::figure(&clean(&human::time_ns(ns), 12, style), Role::Plain),
                None => Field::Missing,
            });
        }
        let word = match held {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        holds.fields.push(Field::Text(word.to_owned(), role));
    }
    let mut columns = vec![rates, iops, latency, intervals, holds];
    columns.splice(3..3, of_kinds);
    table::fit(&mut columns, style.columns());
    lines.extend(table::lines(&columns, style));
    if !apart.is_empty() {
        let text = format!("{name}: of {}, which the limit is about", kinds::together(apart));
        lines.extend(paragraph(&clean(&text, 200, style), Role::Dim, style));
    }
    lines
}
