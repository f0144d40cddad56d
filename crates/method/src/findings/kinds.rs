//! JSON form of a point's results per kind of operation: rates and latency percentiles.

use iodyno_measure::statistics::within::Within;
use iodyno_measure::{KindSummary, Latency, PERCENTILES, Quantity};
use iodyno_units::OpKind;
use serde::{Serialize, Serializer};

/// Percentiles that tables show, as fractions with their labels: the median, and two to five nines.
pub const NINES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];

/// Results of one kind of operation at a grid point, in their JSON form.
#[derive(Serialize)]
struct OfKind {
    kind: &'static str,
    ops: u64,
    iops: f64,
    bytes_per_s: f64,
    /// Response time in open loop, service time in closed loop.
    #[serde(flatten)]
    latency: OfLatency,
    /// Service time in open loop; `None` in closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<OfLatency>,
    /// Confidence intervals of the percentiles in [`NINES`]; empty if the point has only one kind of operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    within: Vec<Option<Within>>,
}

/// Latencies of one kind of operation, in their JSON form.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "they are the keys in JSON")]
struct OfLatency {
    mean_ns: Option<f64>,
    nines_ns: [Option<u64>; NINES.len()],
    max_ns: Option<u64>,
}

impl OfLatency {
    fn of(latency: &Latency) -> Self {
        let nine = |q| latency.get(Quantity::Quantile(q)).map(|ns| ns as u64);
        Self {
            mean_ns: latency.mean_ns,
            nines_ns: NINES.map(|(q, _)| nine(q)),
            max_ns: latency.max_ns,
        }
    }
}

fn within(latency: &Latency) -> Vec<Option<Within>> {
    if latency.within.iter().all(Option::is_none) {
        return Vec::new();
    }
    let each = PERCENTILES.iter().zip(latency.within);
    let is_shown = |label: &str| NINES.iter().any(|(_, shown)| *shown == label);
    each.filter(|(p, _)| is_shown(p.label)).map(|(_, within)| within).collect()
}

/// Serializes the results of each kind of operation as a list.
pub(super) fn serialize<S: Serializer>(kinds: &[KindSummary], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(kinds.iter().map(|of| OfKind {
        kind: of.kind.name(),
        ops: of.ops,
        iops: of.iops,
        bytes_per_s: of.bytes_per_s,
        latency: OfLatency::of(&of.response_time),
        service: of.service.as_ref().map(OfLatency::of),
        within: within(&of.response_time),
    }))
}

/// Serializes the names of kinds of operation as a list.
pub(super) fn names<S: Serializer>(kinds: &[OpKind], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(kinds.iter().map(|kind| kind.name()))
}
