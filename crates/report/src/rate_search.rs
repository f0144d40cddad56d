//! Table of a search for the highest rate that meets a latency limit, for the terminal and the page.

use iodyno_method::findings::RateSearchFinding;
use iodyno_page::{Cell, Column, Quantity, Table, Tone};

/// Table of the offered rates that a rate search tried, with the result of each.
pub(crate) fn table(found: &RateSearchFinding) -> Table {
    let apart = if found.covers.len() > 1 { found.covers.as_slice() } else { &[] };
    let name = found.limit.split(' ').next().unwrap_or_default();
    let mut table = Table::new([
        Column::numbers("offered", "1/s").short("offered/s"),
        Column::numbers("completed", "1/s").short("completed/s").ranked(3),
        Column::numbers(name, "ns"),
        Column::numbers("95 % from", "ns").ranked(2),
        Column::numbers("95 % to", "ns").ranked(2),
        Column::words(format!("meets {}", found.limit)).short("meets"),
    ]);
    table.caption = "The rates".into();
    let of_kinds = apart.iter().map(|kind| format!("{} {}", kind.name(), found.metric.quantity));
    table.columns.extend(of_kinds.map(|name| Column::numbers(name, "ns").ranked(1)));
    for probe in &found.probes {
        let rate = |per_s: f64| Cell::of(Quantity::Iops, per_s);
        let offered = probe.offered_iops.map_or_else(|| Cell::words("closed loop"), rate);
        let time = |ns: Option<f64>| Cell::of(Quantity::LatencyNs, ns);
        let end = |ns: Option<u64>| time(ns.map(|ns| ns as f64)).toned(Tone::Dim);
        let meets = match probe.holds {
            Some(true) => Cell::words("yes").toned(Tone::Good),
            Some(false) => Cell::words("no").toned(Tone::Warning),
            None => Cell::none(),
        };
        let mut cells = vec![
            offered.toned(Tone::Strong),
            rate(probe.iops),
            time(probe.latency_ns),
            end(probe.within.and_then(|w| w.low_ns)),
            end(probe.within.and_then(|w| w.high_ns)),
            meets,
        ];
        cells.extend(apart.iter().map(|kind| time(found.of_kind(probe, *kind))));
        table.push(cells);
    }
    table
}
