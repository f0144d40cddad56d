//! A search for the highest rate under a latency, as text: the answer, and what each rate gave.

use super::certainty::between;
use iodyno_method::findings::{Probe, RateSearchFinding};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_units::human;

pub(super) fn lines(found: &RateSearchFinding, style: Style) -> Vec<String> {
    let role = if found.holds_iops.is_some() { Role::Green } else { Role::Yellow };
    let mut lines = paragraph(&clean(&found.sentence(), 500, style), role, style);
    let mut rates = Column::new("rate", 0);
    let mut iops = Column::new("IOPS", 3);
    let name = found.limit.split(' ').next().unwrap_or_default();
    let mut latency = Column::new(clean(name, 16, style), 0);
    let mut intervals = Column::new("95 % interval", 2);
    let mut holds = Column::new("holds", 1);
    for Probe { offered_iops, iops: done, latency_ns, within, holds: held } in &found.probes {
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
        iops.fields.push(Field::figure(&human::count(*done), Role::Plain));
        latency.fields.push(match latency_ns {
            Some(ns) => Field::figure(&clean(&human::time_ns(*ns), 12, style), role),
            None => Field::Missing,
        });
        intervals.fields.push(match within {
            Some(within) => Field::Text(between(within, style), Role::Dim),
            None => Field::Missing,
        });
        let word = match held {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        holds.fields.push(Field::Text(word.to_owned(), role));
    }
    let mut columns = vec![rates, iops, latency, intervals, holds];
    table::fit(&mut columns, style.columns());
    lines.extend(table::lines(&columns, style));
    lines
}
