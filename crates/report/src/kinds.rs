//! Words for several kinds of operation: `p99 of reads 1.2 ms, of writes 0.3 ms`, `5.1 k flushes/s`.

use iodyno_measure::{IoKinds, KindSummary, Quantity};
use iodyno_units::{OpKind, human};

/// Plural of a kind.
pub(crate) const fn plural(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read => "reads",
        OpKind::Write => "writes",
        OpKind::Flush => "flushes",
        OpKind::Trim => "trims",
        OpKind::WriteZeroes => "writes of zeroes",
    }
}

/// A rate in a column of IOPS, with its unit for kinds that IOPS do not count.
pub(crate) fn rate(kind: OpKind, per_s: f64) -> String {
    let unit = if IoKinds::DATA.count(kind) { "" } else { "/s" };
    format!("{}{unit}", human::count(per_s))
}

/// A latency of each kind, `p99 of reads 1.2 ms, of writes 0.3 ms`; None if the samples of no kind support it.
pub(crate) fn latencies(kinds: &[KindSummary], quantity: Quantity) -> Option<String> {
    let each = kinds.iter().filter_map(|of| {
        let ns = of.response_time.get(quantity)?;
        Some(format!("of {} {}", plural(of.kind), human::time_ns(ns)))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("{quantity} {}", each.join(", ")))
}

/// Whether a fact of a headline comes from [`latencies`] with several kinds.
pub(crate) fn is_of_several(fact: &str) -> bool {
    fact.contains(", of ")
}

/// The rate of each kind that IOPS do not count: `5.1 k flushes/s`.
pub(crate) fn beside(kinds: &[KindSummary]) -> impl Iterator<Item = String> {
    let of = IoKinds::of(kinds.iter().map(|of| of.kind));
    kinds
        .iter()
        .filter(move |kind| !of.count(kind.kind))
        .map(|kind| format!("{} {}/s", human::count(kind.iops), plural(kind.kind)))
}

/// The operations that a latency over several kinds covers: `reads and writes together`.
pub(crate) fn together(kinds: &[OpKind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| plural(*kind)).collect();
    match names.as_slice() {
        [] => "all operations".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last} together", rest.join(", ")),
    }
}
