//! Formats results of several kinds of operation, such as `p99 of reads 1.2 ms, of writes 0.3 ms`.

use iodyno_measure::{IoKinds, KindSummary, Quantity};
use iodyno_units::{OpKind, human};

/// Plural name of a kind of operation: `reads`, `flushes`.
pub(crate) const fn plural(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read => "reads",
        OpKind::Write => "writes",
        OpKind::Flush => "flushes",
        OpKind::Trim => "trims",
        OpKind::WriteZeroes => "writes of zeroes",
    }
}

/// Formats a rate for the column `IOPS`. Adds `/s` for kinds of operation that do not count as IOPS.
pub(crate) fn rate(kind: OpKind, per_s: f64) -> String {
    let unit = if IoKinds::DATA.count(kind) { "" } else { "/s" };
    format!("{}{unit}", human::count(per_s))
}

/// Formats one latency metric per kind of operation, `p99 of reads 1.2 ms, of writes 0.3 ms`; None if no kind
/// has enough samples for the metric.
pub(crate) fn latencies(kinds: &[KindSummary], quantity: Quantity) -> Option<String> {
    let each = kinds.iter().filter_map(|of| {
        let ns = of.response_time.get(quantity)?;
        Some(format!("of {} {}", plural(of.kind), human::time_ns(ns)))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("{quantity} {}", each.join(", ")))
}

/// Whether a headline's text was made by [`latencies`] for more than one kind of operation.
pub(crate) fn is_of_several(fact: &str) -> bool {
    fact.contains(", of ")
}

/// Formats the rate of each kind of operation that does not count as IOPS: `5.1 k flushes/s`.
pub(crate) fn beside(kinds: &[KindSummary]) -> impl Iterator<Item = String> {
    let of = IoKinds::of(kinds.iter().map(|of| of.kind));
    kinds
        .iter()
        .filter(move |kind| !of.count(kind.kind))
        .map(|kind| format!("{} {}/s", human::count(kind.iops), plural(kind.kind)))
}

/// Names the kinds of operation that a common latency covers: `reads and writes together`.
pub(crate) fn together(kinds: &[OpKind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| plural(*kind)).collect();
    match names.as_slice() {
        [] => "all operations".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last} together", rest.join(", ")),
    }
}
