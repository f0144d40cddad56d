//! Status and metrics of a served system: one JSON document, and the same figures in the text format of Prometheus
//! (version 0.0.4).

use crate::counts::{Counts, LATE_NS};
use crate::scrape;
use crate::served::{Live, Sink};
use crate::transport::Transport;
use iodyno_emulate::usage::Resource;
use iodyno_emulate::{AdaptersState, PartId};
use iodyno_emulate::{ArrayState, FaultState, Machine};
use iodyno_measure::Histogram;
use iodyno_units::OpKind;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Media type of the metrics.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// State and counters of a volume.
#[derive(Clone, Debug)]
struct Seen {
    device: String,
    capacity_bytes: u64,
    size_bytes: u64,
    full: bool,
    fault_state: FaultState,
    counts: Counts,
    resources: Vec<Resource>,
    flash: Option<iodyno_emulate::flash::Counts>,
    worn: Option<f64>,
    buffered: Option<(u64, u64)>,
    array: Option<SeenArray>,
    /// Arrays below the volume's own.
    branches: Vec<SeenArray>,
    /// Devices of the volume that are lost.
    lost_devices: Vec<u32>,
}

/// An array, with the devices of each of its members.
#[derive(Clone, Debug)]
struct SeenArray {
    state: ArrayState,
    devices: Vec<Vec<u32>>,
}

/// State of all volumes at one instant.
#[derive(Clone, Debug)]
struct Snapshot {
    at_ns: u64,
    events: u64,
    transport: Option<Transport>,
    adapters: Option<AdaptersState>,
    volumes: Vec<Seen>,
}

fn snapshot<S: Sink>(live: &Live<S>) -> Snapshot {
    let transport = live.transport();
    live.look(|machine, _, counts| {
        let volumes = (0..machine.volumes()).map(|v| Seen {
            device: machine.system().volumes[v as usize].name.clone(),
            capacity_bytes: live.capacity_bytes(v),
            size_bytes: live.size_bytes(v),
            full: live.is_full(v),
            fault_state: machine.fault_state(v),
            counts: counts[v as usize].clone(),
            resources: machine.resources(v),
            flash: machine.flash_counts(v),
            worn: machine.worn(v),
            buffered: machine.buffered_bytes(v),
            array: machine.array_state(v).map(|state| seen_array(machine, state)),
            branches: branches(machine, v),
            lost_devices: lost_devices(machine, v),
        });
        let (at_ns, events) = (machine.now_ns(), machine.events());
        let adapters = machine.adapters();
        Snapshot { at_ns, events, transport, adapters, volumes: volumes.collect() }
    })
}

fn seen_array(machine: &Machine, state: ArrayState) -> SeenArray {
    let below = |&member: &PartId| machine.system().devices_below(member).map(|part| part.0);
    let devices = state.members.iter().map(|member| below(member).collect());
    SeenArray { devices: devices.collect(), state }
}

/// Arrays of a volume below its own.
fn branches(machine: &Machine, volume: u32) -> Vec<SeenArray> {
    let system = machine.system();
    let root = system.array_of(volume).map(|(part, _)| part);
    let below = system.parts_of(volume).filter(|part| Some(*part) != root);
    let states = below.filter_map(|part| machine.array_state_of(part));
    states.map(|state| seen_array(machine, state)).collect()
}

fn lost_devices(machine: &Machine, volume: u32) -> Vec<u32> {
    let parts = machine.system().parts_of(volume);
    parts.filter(|&part| machine.device_fault_state(part).lost).map(|part| part.0).collect()
}

/// Status fields that an array has beyond those of a volume of one device.
fn of_array(array: &SeenArray, lost_devices: &[u32]) -> Value {
    let SeenArray { state, devices } = array;
    let members = (0..).zip(&state.members).zip(devices).map(|((number, part), devices)| {
        let is_rebuilt = state.rebuilt.is_some_and(|(member, _)| member == number);
        let word = match (state.missing.contains(number), is_rebuilt) {
            (_, true) => "rebuilt",
            (true, _) if lost_devices.contains(&part.0) => "lost",
            (true, _) => "missing",
            _ if lost_devices.contains(&part.0) => "lost",
            _ => "present",
        };
        match devices.as_slice() {
            [device] => json!({ "device": device, "state": word }),
            all => json!({ "devices": all, "state": word }),
        }
    });
    json!({
        "members": members.collect::<Vec<_>>(),
        "missing": state.missing.len(),
        "rebuilt_share": state.rebuilt.map(|rebuilt| rebuilt.1),
        "resyncs": state.resyncs,
        "data_lost": state.lost,
        "rebuilt_members": state.counts.rebuilt_members,
        "rebuilt_bytes": state.counts.rebuilt_bytes,
        "resynced_units": state.counts.resynced_units,
        "lost_units": state.counts.lost_units,
    })
}

/// Status of RAID adapters.
fn of_adapters(state: &AdaptersState) -> Value {
    let adapters = state.adapters.iter().map(|adapter| {
        json!({
            "lost": adapter.lost,
            "battery_failed": adapter.battery_failed,
            "volumes": adapter.volumes,
            "optimized": adapter.optimized,
        })
    });
    json!({
        "adapters": adapters.collect::<Vec<_>>(),
        "aa_down": state.links_down,
        "has_cache": state.has_cache,
        "caching": state.is_caching,
        "mirrored": state.is_mirrored,
        "dirty_bytes": state.dirty_bytes,
        "volumes_down": state.volumes_down,
        "cleared": state.cleared,
    })
}

const KINDS: [&str; OpKind::COUNT] = ["read", "write", "flush", "trim", "write_zeroes"];
const QUANTILES: [(f64, &str); 3] = [(0.5, "0.5"), (0.99, "0.99"), (0.999, "0.999")];

/// Non-zero values, by kind.
fn by_kind<T: Copy + Default + PartialEq + Into<Value>>(values: &[T; OpKind::COUNT]) -> Value {
    let of_kinds = KINDS.iter().zip(values).filter(|(_, value)| **value != T::default());
    of_kinds
        .map(|(kind, value)| ((*kind).to_owned(), (*value).into()))
        .collect::<Map<_, _>>()
        .into()
}

/// Builds the status as a JSON document.
pub fn status<S: Sink>(live: &Live<S>) -> Value {
    let snapshot = snapshot(live);
    let volumes = snapshot.volumes.iter().map(|v| {
        let c = &v.counts;
        let kinds = (0..OpKind::COUNT).filter(|&k| c.operations[k] + c.errors[k] > 0).map(|k| {
            let quantile = |q| c.latency[k].supported_quantile_ns(q);
            let of = json!({
                "operations": c.operations[k],
                "bytes": c.bytes[k],
                "errors": c.errors[k],
                "latency_mean_ns": c.latency[k].mean_ns(),
                "latency_p50_ns": quantile(0.5),
                "latency_p99_ns": quantile(0.99),
            });
            (KINDS[k].to_owned(), of)
        });
        let busy = v.resources.iter().map(|r| (r.name.to_owned(), json!(r.share(snapshot.at_ns))));
        json!({
            "device": v.device,
            "capacity_bytes": v.capacity_bytes,
            "size_bytes": v.size_bytes,
            "full": v.full,
            "slow_factor": v.fault_state.slow_factor,
            "hung": v.fault_state.hung,
            "lost": v.fault_state.lost,
            "power_off": v.fault_state.off,
            "delay_ns": by_kind(&v.fault_state.delay_ns),
            "error_share": by_kind(&v.fault_state.error_share),
            "operations": kinds.collect::<serde_json::Map<_, _>>(),
            "busy": busy.collect::<serde_json::Map<_, _>>(),
            "buffered_bytes": v.buffered.map(|b| b.0),
            "buffer_bytes": v.buffered.map(|b| b.1),
            "write_amplification": v.flash.map(|f| f.write_amplification()),
            "worn": v.worn,
            "late": c.late,
            "late_away": c.late_away,
            "lateness_p50_ns": c.lateness.supported_quantile_ns(0.5),
            "lateness_p99_ns": c.lateness.supported_quantile_ns(0.99),
            "corruptions_found": c.corruptions_found,
            "pages_recovered": v.flash.map(|f| f.recovered),
            "pages_lost": v.flash.map(|f| f.unrecovered),
            "backing_errors": c.backing_errors,
            "dropped_writes": c.dropped.writes,
            "dropped_bytes": c.dropped.bytes,
            "torn_writes": c.dropped.torn,
            "array": v.array.as_ref().map(|array| of_array(array, &v.lost_devices)),
            "branches": v.branches.iter().map(|array| of_array(array, &v.lost_devices)).collect::<Vec<_>>(),
        })
    });
    json!({
        "machine_ns": snapshot.at_ns,
        "events": snapshot.events,
        "transport": snapshot.transport.map(|t| json!({
            "round_trip_ns": t.round_trip_ns,
            "taking_ns": t.taking_ns,
            "waking_ns": t.waking_ns,
        })),
        "adapters": snapshot.adapters.as_ref().map(of_adapters),
        "volumes": volumes.collect::<Vec<_>>(),
    })
}

/// Builds the metrics as text.
pub fn prometheus<S: Sink>(live: &Live<S>) -> String {
    let snapshot = snapshot(live);
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        if samples.is_empty() {
            return;
        }
        let _ = writeln!(text, "# HELP iodyno_{name} {help}\n# TYPE iodyno_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "iodyno_{name}{{{labels}}} {value}");
        }
    };
    let label = |v: usize| {
        let device = snapshot.volumes[v].device.replace('\\', "\\\\").replace('"', "\\\"");
        format!("volume=\"{v}\",device=\"{device}\"")
    };
    let each = |of: &dyn Fn(&Seen) -> Option<f64>| -> Vec<(String, f64)> {
        let all = snapshot.volumes.iter().enumerate();
        all.filter_map(|(i, v)| of(v).map(|value| (label(i), value))).collect()
    };
    let by_kind = |of: &dyn Fn(&Counts, usize) -> u64| -> Vec<(String, f64)> {
        let mut all = Vec::new();
        for (i, v) in snapshot.volumes.iter().enumerate() {
            for (k, kind) in KINDS.iter().enumerate() {
                all.push((format!("{},operation=\"{kind}\"", label(i)), of(&v.counts, k) as f64));
            }
        }
        all
    };
    family(
        "operations_total",
        "counter",
        "Operations that succeeded.",
        &by_kind(&|c, k| c.operations[k]),
    );
    family(
        "bytes_total",
        "counter",
        "Bytes moved by operations that succeeded.",
        &by_kind(&|c, k| c.bytes[k]),
    );
    family("errors_total", "counter", "Operations that failed.", &by_kind(&|c, k| c.errors[k]));
    let mut latency = Vec::new();
    for (i, v) in snapshot.volumes.iter().enumerate() {
        for (k, kind) in KINDS.iter().enumerate() {
            summary(
                &mut latency,
                &format!("{},operation=\"{kind}\"", label(i)),
                &v.counts.latency[k],
            );
        }
    }
    let quantiles: Vec<_> = latency.iter().filter(|s| s.0.contains("quantile")).cloned().collect();
    family(
        "latency_seconds",
        "gauge",
        "The model's time from submission to completion, by quantile.",
        &quantiles,
    );
    let mean: Vec<_> = latency.iter().filter(|s| !s.0.contains("quantile")).cloned().collect();
    family(
        "latency_mean_seconds",
        "gauge",
        "Mean of the model's time from submission to completion.",
        &mean,
    );
    family(
        "late_total",
        "counter",
        &format!(
            "Completions delivered more than {} us later than the model's time.",
            LATE_NS / 1000
        ),
        &each(&|v| Some(v.counts.late as f64)),
    );
    family(
        "late_away_total",
        "counter",
        "Late completions whose polling thread had lost its core.",
        &each(&|v| Some(v.counts.late_away as f64)),
    );
    family(
        "buffered_bytes",
        "gauge",
        "Dirty bytes in the write buffer.",
        &each(&|v| v.buffered.map(|b| b.0 as f64)),
    );
    family(
        "buffer_bytes",
        "gauge",
        "Size of the write buffer.",
        &each(&|v| v.buffered.map(|b| b.1 as f64)),
    );
    family(
        "write_amplification",
        "gauge",
        "Pages programmed for each page that hosts wrote, since the start.",
        &each(&|v| v.flash.map(|f| f.write_amplification())),
    );
    family(
        "array_missing_members",
        "gauge",
        "Members of the array that are missing, or whose rebuild is not complete.",
        &each(&|v| v.array.as_ref().map(|array| array.state.missing.len() as f64)),
    );
    family(
        "array_rebuilt_bytes_total",
        "counter",
        "Bytes written by rebuilds to members of the array.",
        &each(&|v| v.array.as_ref().map(|array| array.state.counts.rebuilt_bytes as f64)),
    );
    if let Some(state) = &snapshot.adapters {
        let all = state.adapters.iter().enumerate();
        let lost: Vec<(String, f64)> = all
            .map(|(number, of)| (format!("adapter=\"{number}\""), f64::from(u8::from(of.lost))))
            .collect();
        family("adapter_lost", "gauge", "1 if the RAID adapter is lost.", &lost);
        let dirty = [("cache=\"adapters\"".to_owned(), state.dirty_bytes as f64)];
        let help = "Dirty bytes in the caches of RAID adapters.";
        family("adapter_cache_dirty_bytes", "gauge", help, &dirty);
    }
    family(
        "erases_total",
        "counter",
        "Erase blocks erased.",
        &each(&|v| v.flash.map(|f| f.erases as f64)),
    );
    family(
        "worn_ratio",
        "gauge",
        "Erase cycles used since the start, as a share of the rated erase cycles.",
        &each(&|v| v.worn),
    );
    family(
        "pages_recovered_total",
        "counter",
        "Page reads recovered from the parity stripe.",
        &each(&|v| v.flash.map(|f| f.recovered as f64)),
    );
    family(
        "pages_lost_total",
        "counter",
        "Page reads that could not be recovered.",
        &each(&|v| v.flash.map(|f| f.unrecovered as f64)),
    );
    family(
        "corruptions_found_total",
        "counter",
        "Units with a wrong checksum when read.",
        &each(&|v| Some(v.counts.corruptions_found as f64)),
    );
    family(
        "backing_errors_total",
        "counter",
        "Failed writes to the backing store, including retries: the host refused the write, or a unit was corrupt.",
        &each(&|v| Some(v.counts.backing_errors as f64)),
    );
    family(
        "dropped_writes_total",
        "counter",
        "Acknowledged writes of which a power cut lost all or a part.",
        &each(&|v| Some(v.counts.dropped.writes as f64)),
    );
    family(
        "dropped_bytes_total",
        "counter",
        "Acknowledged bytes lost by power cuts.",
        &each(&|v| Some(v.counts.dropped.bytes as f64)),
    );
    family(
        "torn_writes_total",
        "counter",
        "Writes torn by power cuts.",
        &each(&|v| Some(v.counts.dropped.torn as f64)),
    );
    let mut busy = Vec::new();
    for (i, v) in snapshot.volumes.iter().enumerate() {
        for r in &v.resources {
            busy.push((format!("{},resource=\"{}\"", label(i), r.name), r.busy_ns as f64 * 1e-9));
        }
    }
    family(
        "busy_seconds_total",
        "counter",
        "Busy time in machine time, summed over all resources of a kind.",
        &busy,
    );
    text
}

fn summary(into: &mut Vec<(String, f64)>, labels: &str, histogram: &Histogram) {
    for (q, name) in QUANTILES {
        if let Some(ns) = histogram.supported_quantile_ns(q) {
            into.push((format!("{labels},quantile=\"{name}\""), ns as f64 * 1e-9));
        }
    }
    if let Some(mean) = histogram.mean_ns() {
        into.push((labels.to_owned(), mean * 1e-9));
    }
}

/// Serves the metrics in Prometheus' text format; see [`scrape::serve`].
///
/// # Errors
/// Listening at the address fails.
pub fn serve<S: Sink + 'static>(live: &Arc<Live<S>>, at: SocketAddr) -> io::Result<SocketAddr> {
    let live = Arc::clone(live);
    scrape::serve(at, CONTENT_TYPE, move || prometheus(&live))
}
