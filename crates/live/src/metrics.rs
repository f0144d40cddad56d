//! Metrics of a served system in the text formats of Prometheus and OpenMetrics. The values are taken from the system's
//! [status](crate::status).

use crate::counts::LATE_NS;
use crate::scrape;
use crate::served::{Live, Sink};
use crate::status::{
    AdapterStatus, AdaptersStatus, KindStatus, ModelStatus, VolumeStatus, observe,
};
use crate::store::UNIT_BYTES;
use iodyno_measure::Histogram;
pub use iodyno_measure::exposition::TextFormat;
use iodyno_measure::exposition::{Exposition, LatencySample, Sample, labels};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Labels and values of three latency quantiles, ns; `None` if there are too few samples.
type QuantilesNs = [(&'static str, Option<u64>); 3];

/// Types of lasting faults, and whether each is in effect.
type FaultFlags = [(&'static str, bool); 7];

/// Objects that a metric family has samples for (such as volumes or adapters), with the function that reads a sample's
/// value from the server's status.
enum Samples {
    /// One sample per volume.
    Volumes(fn(&VolumeStatus) -> Option<f64>),
    /// One sample per volume and kind of operation.
    Kinds(fn(&KindStatus) -> Option<f64>),
    /// One sample per volume, kind of operation and quantile.
    Quantiles(fn(&KindStatus) -> QuantilesNs),
    /// One sample per volume and type of fault that lasts until it is cleared.
    Faults(fn(&VolumeStatus) -> FaultFlags),
    /// One sample per volume and resource, such as a link.
    Resources(fn(u64) -> f64),
    /// One sample per RAID adapter.
    Adapters(fn(&AdapterStatus) -> f64),
    /// One sample for the caches of all RAID adapters together.
    Caches(fn(&AdaptersStatus) -> f64),
}

use Samples::{Adapters, Caches, Faults, Kinds, Quantiles, Resources, Volumes};

const NS_PER_S: f64 = 1e9;

/// Converts a counter to the value of a sample.
#[allow(
    clippy::unnecessary_wraps,
    reason = "same signature as functions that return None for some volumes"
)]
fn count(value: u64) -> Option<f64> {
    Some(value as f64)
}

/// All metric families but the histogram, in output order: name without `iodyno_`, help, samples. Names that end in
/// `_total` are counters, all others gauges.
const FAMILIES: &[(&str, &str, Samples)] = &[
    ("operations_total", "Operations that succeeded.", Kinds(|of| count(of.operations))),
    ("bytes_total", "Bytes moved by operations that succeeded.", Kinds(|of| count(of.bytes))),
    ("errors_total", "Operations that failed.", Kinds(|of| count(of.errors))),
    (
        "latency_seconds",
        "The model's time from submission to completion, by quantile.",
        Quantiles(|of| {
            [("0.5", of.latency_p50_ns), ("0.99", of.latency_p99_ns), ("0.999", of.latency_p999_ns)]
        }),
    ),
    (
        "latency_mean_seconds",
        "Mean of the model's time from submission to completion.",
        Kinds(|of| of.latency_mean_ns.map(|ns| ns / NS_PER_S)),
    ),
    (
        "fault_active",
        "1 while a fault of this type is in effect on the volume.",
        Faults(faults_in_effect),
    ),
    (
        "slow_factor",
        "Factor by which a fault makes operations take longer; 1: no fault.",
        Volumes(|of| Some(of.slow_factor)),
    ),
    (
        "interface_faults_applied",
        "Requests that the active faults at the volume's interface have affected.",
        Volumes(|of| count(of.interface_faults.iter().map(|fault| fault.applied).sum())),
    ),
    (
        "late_total",
        "Completions delivered more than 10 us later than the model's time.",
        Volumes(|of| count(of.late)),
    ),
    (
        "late_away_total",
        "Late completions whose polling thread was preempted.",
        Volumes(|of| count(of.late_away)),
    ),
    (
        "buffered_bytes",
        "Dirty bytes in the write buffer.",
        Volumes(|of| of.buffered_bytes.and_then(count)),
    ),
    ("buffer_bytes", "Size of the write buffer.", Volumes(|of| of.buffer_bytes.and_then(count))),
    (
        "burst_credits_ratio",
        "Burst credits left, as a fraction of the maximum: the lowest of all limits.",
        Volumes(|of| of.credits_share),
    ),
    (
        "write_amplification",
        "Pages programmed for each page that hosts wrote, since the start.",
        Volumes(|of| of.write_amplification),
    ),
    (
        "array_missing_members",
        "Members of the array that are missing, or whose rebuild is not complete.",
        Volumes(|of| count(of.array.as_ref()?.missing as u64)),
    ),
    (
        "array_rebuilt_bytes_total",
        "Bytes written by rebuilds to members of the array.",
        Volumes(|of| count(of.array.as_ref()?.rebuilt_bytes)),
    ),
    ("adapter_lost", "1 if the RAID adapter is lost.", Adapters(|of| f64::from(u8::from(of.lost)))),
    (
        "adapter_cache_dirty_bytes",
        "Dirty bytes in the caches of RAID adapters.",
        Caches(|of| of.dirty_bytes as f64),
    ),
    ("erases_total", "Erase blocks erased.", Volumes(|of| of.erases.and_then(count))),
    (
        "worn_ratio",
        "Erase cycles used since the start, as a share of the rated erase cycles.",
        Volumes(|of| of.worn),
    ),
    (
        "pages_recovered_total",
        "Page reads recovered from the parity stripe.",
        Volumes(|of| of.pages_recovered.and_then(count)),
    ),
    (
        "pages_lost_total",
        "Page reads that could not be recovered.",
        Volumes(|of| of.pages_lost.and_then(count)),
    ),
    (
        "corruptions_found_total",
        "4 KiB units whose checksum was wrong when read.",
        Volumes(|of| count(of.corruptions_found)),
    ),
    (
        "backing_errors_total",
        "Failed writes to the backing store, including retries: the host refused the write, or a unit was corrupt.",
        Volumes(|of| count(of.backing_errors)),
    ),
    (
        "dropped_writes_total",
        "Acknowledged writes that power cuts lost in full or in part.",
        Volumes(|of| count(of.dropped_writes)),
    ),
    (
        "dropped_bytes_total",
        "Acknowledged bytes lost by power cuts.",
        Volumes(|of| count(of.dropped_bytes)),
    ),
    ("torn_writes_total", "Writes torn by power cuts.", Volumes(|of| count(of.torn_writes))),
    (
        "lost_bytes_total",
        "Stored bytes lost by arrays or by caches of adapters. Reads of them fail until they are rewritten.",
        Volumes(|of| count(of.lost_units * UNIT_BYTES)),
    ),
    (
        "busy_seconds_total",
        "Busy time on the emulated machine's clock, summed over all resources of a kind.",
        Resources(|ns| ns as f64 / NS_PER_S),
    ),
];

/// Name and help of the histogram of latencies, with a sample per volume and kind of operation.
const HISTOGRAM: (&str, &str) =
    ("iodyno_service_time_seconds", "The model's time from submission to completion.");

fn faults_in_effect(of: &VolumeStatus) -> FaultFlags {
    [
        ("lost", of.lost),
        ("hung", of.hung),
        ("power_off", of.power_off),
        ("full", of.full),
        ("delay", of.delay_ns.given().next().is_some()),
        ("error", of.error_share.given().next().is_some()),
        ("interface", of.interface_faults.iter().any(|fault| !fault.is_over)),
    ]
}

/// Names of all metrics that a server of emulated storage can export.
pub fn names() -> impl Iterator<Item = String> {
    let plain = FAMILIES.iter().map(|(name, ..)| format!("iodyno_{name}"));
    plain.chain([HISTOGRAM.0.to_owned()])
}

const _: () = assert!(LATE_NS == 10_000, "the help of `late_total` states this limit");

impl Samples {
    /// Labels and value of each sample in a metric family.
    fn of(&self, status: &ModelStatus) -> Vec<Sample> {
        let mut all = Vec::new();
        let adapters = status.adapters.iter();
        match self {
            Adapters(value) => {
                for (number, of) in adapters.flat_map(|of| of.adapters.iter().enumerate()) {
                    all.push((format!("adapter=\"{number}\""), value(of)));
                }
            }
            Caches(value) => {
                all.extend(adapters.map(|of| ("cache=\"adapters\"".to_owned(), value(of))));
            }
            Volumes(_) | Kinds(_) | Quantiles(_) | Faults(_) | Resources(_) => {
                for (number, volume) in status.volumes.iter().enumerate() {
                    self.of_volume(volume, &of_volume(number, volume), &mut all);
                }
            }
        }
        all
    }

    fn of_volume(&self, volume: &VolumeStatus, labels: &str, all: &mut Vec<Sample>) {
        match self {
            Volumes(value) => all.extend(value(volume).map(|value| (labels.to_owned(), value))),
            Kinds(value) => {
                for (kind, of) in volume.operations.all() {
                    let labels = || format!("{labels},operation=\"{kind}\"");
                    all.extend(value(of).map(|value| (labels(), value)));
                }
            }
            Quantiles(values) => {
                for (kind, of) in volume.operations.all() {
                    for (quantile, ns) in values(of) {
                        let labels =
                            || format!("{labels},operation=\"{kind}\",quantile=\"{quantile}\"");
                        all.extend(ns.map(|ns| (labels(), ns as f64 / NS_PER_S)));
                    }
                }
            }
            Faults(flags) => {
                for (fault, is_active) in flags(volume) {
                    all.push((
                        format!("{labels},fault=\"{fault}\""),
                        f64::from(u8::from(is_active)),
                    ));
                }
            }
            Resources(value) => {
                // Members of an array have resources of the same name.
                let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
                for (name, busy_ns) in &volume.busy_ns.0 {
                    *sums.entry(name).or_default() += *busy_ns;
                }
                for (name, busy_ns) in sums {
                    let resource = self::labels(&[("resource", name)]);
                    all.push((format!("{labels},{resource}"), value(busy_ns)));
                }
            }
            Adapters(_) | Caches(_) => {}
        }
    }
}

/// Labels of a volume's samples.
fn of_volume(number: usize, volume: &VolumeStatus) -> String {
    labels(&[("volume", &number.to_string()), ("device", &volume.device)])
}

/// Formats the metrics. Metric families without samples are omitted.
pub fn text(status: &ModelStatus, format: TextFormat) -> String {
    let mut out = Exposition::new(format);
    for (name, help, samples) in FAMILIES {
        let (name, samples) = (format!("iodyno_{name}"), samples.of(status));
        match name.strip_suffix("_total") {
            Some(name) => out.counter(name, help, &samples),
            None => out.gauge(&name, help, &samples),
        }
    }
    let none = Histogram::trimmed();
    let mut latencies: Vec<LatencySample<'_>> = Vec::new();
    for (number, volume) in status.volumes.iter().enumerate() {
        for (kind, of) in volume.operations.all() {
            let labels = format!("{},operation=\"{kind}\"", of_volume(number, volume));
            latencies.push((labels, of.latency.as_ref().unwrap_or(&none), &of.exemplars));
        }
    }
    let (name, help) = HISTOGRAM;
    out.histogram(name, help, &latencies);
    out.finish()
}

/// Serves the metrics over HTTP; see [`scrape::serve`].
///
/// # Errors
/// Listening at the address fails.
pub fn serve<S: Sink + 'static>(live: &Arc<Live<S>>, at: SocketAddr) -> io::Result<SocketAddr> {
    let live = Arc::clone(live);
    scrape::serve(at, move |format| text(&observe(&live), format))
}
