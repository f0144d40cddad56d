//! Formats runs as JSON that conforms to the schemas in `docs/schema/`. Within a version of a schema, keys may be
//! added, but not changed or removed.
//!
//! Times are UTC in RFC 3339, latencies nanoseconds (integers, except for means), sizes bytes, durations seconds.
//! `null` means "unknown" or "too few samples", never 0.

use crate::headline::{Standing, headline, level_of};
use crate::repeats::{self, Repeated};
use crate::run_verdict::RunVerdict;
use crate::thresholds;
use iodyno_measure::stationarity::{Stall, Stationarity, mean_rate};
use iodyno_measure::summary::CONFIDENCE;
use iodyno_measure::threshold::Outcome;
use iodyno_measure::{
    Cell, ClassStats, Histogram, Interval, KindSummary, Latency, Level, MessageLog, PERCENTILES,
    Summary, Threshold, errno_name,
};
use iodyno_notebook::{Run, RunSummary, Status};
use iodyno_units::OpKind;
use serde_json::{Map, Value, json};

/// JSON Schema of [`document`], draft 2020-12.
pub const SCHEMA_RUN: &str = include_str!("../../../docs/schema/run-v1.schema.json");

/// JSON Schema of [`list`], draft 2020-12.
pub const SCHEMA_LIST: &str = include_str!("../../../docs/schema/list-v1.schema.json");

/// Optional content of the JSON document of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether to include the time series of each measurement, interval by interval.
    pub series: bool,
}

/// Returns a run as one JSON document. The verdicts are based on the thresholds stored with the run.
pub fn document(run: &Run, options: Options) -> Value {
    document_against(run, &thresholds::own(run), options)
}

/// Returns a run as [`document`] does, but judged by `thresholds` instead of the stored ones.
pub fn document_against(run: &Run, thresholds: &[Threshold], options: Options) -> Value {
    let standing = RunVerdict::of(run);
    let mut document = json!({
        "schema": 1,
        "run": head(run, &standing),
        "cells": run.cells.iter().map(|c| cell(c, options)).collect::<Vec<_>>(),
        "repeats": repeats::of(run).iter().map(repeated).collect::<Vec<_>>(),
        "thresholds": thresholds::outcomes(run, thresholds).iter().map(outcome).collect::<Vec<_>>(),
    });
    if let Some(findings) = crate::method::findings_of(run) {
        document["findings"] = serde_json::to_value(&findings).unwrap_or(Value::Null);
    }
    document
}

fn repeated(of: &Repeated) -> Value {
    let interval = of.mean.and_then(|m| m.interval);
    json!({
        "cell": of.key.name,
        "target": of.key.target,
        "operation": of.metric.kind.map(OpKind::name),
        "metric": of.metric.quantity.to_string(),
        "unit": of.metric.quantity.unit(),
        "repeats": of.count,
        "value": of.value,
        "interval": interval.map(|i| json!({"low": i.low, "high": i.high, "level": i.level})),
        "lowest": of.range.0,
        "highest": of.range.1,
        "covers": repeats::COVERS,
    })
}

fn outcome(of: &Outcome) -> Value {
    let metric = of.metric;
    json!({
        "threshold": of.threshold.to_string(),
        "cell": of.cell.map(|c| &c.name),
        "target": of.cell.map(|c| &c.target),
        "repeats": of.repeats,
        "operation": metric.kind.map(OpKind::name),
        "metric": metric.quantity.to_string(),
        "unit": metric.quantity.unit(),
        "bound": of.threshold.bound.sign(),
        "required": of.threshold.value,
        "value": of.value,
        "held": of.held,
        "interval": of.interval.map(|i| json!({"low": i.low, "high": i.high, "level": CONFIDENCE})),
        "close": of.is_close(),
        "why": of.why,
    })
}

/// Returns a JSON list of runs in the given order. A run without a [`Standing`] gets the most severe verdict of its
/// measurements.
pub fn list(runs: &[(RunSummary, Option<Standing>)]) -> Value {
    let runs: Vec<Value> = runs
        .iter()
        .map(|(run, standing)| {
            let level = level_of(run, standing.as_ref());
            json!({
                "id": run.id,
                "started": format!("{:.3}", run.started),
                "ended": run.ended.map(|t| format!("{t:.3}")),
                "status": run.status.name(),
                "reason": reason(&run.status),
                "name": run.name,
                "targets": run.targets,
                "cells": run.cells.len(),
                "level": level.map(Level::name),
                // The headline of its cells, as always: programs may parse it.
                "headline": headline(run, None),
                "verdicts": standing.as_ref().map_or(&[][..], |s| &s.verdict.verdicts),
            })
        })
        .collect();
    json!({ "schema": 1, "runs": runs })
}

fn reason(status: &Status) -> Option<&str> {
    match status {
        Status::Failed(reason) => Some(reason),
        _ => None,
    }
}

fn head(run: &Run, standing: &RunVerdict) -> Value {
    let head = &run.head;
    let targets: Vec<Value> = head
        .targets
        .iter()
        .map(|t| {
            json!({
                "name": t.name,
                "facts": t.facts,
                "health_before": t.health_before,
                "health_after": t.health_after,
            })
        })
        .collect();
    let workloads: Vec<Value> =
        head.workloads.iter().map(|w| json!({ "name": w.name, "spec": w.spec })).collect();
    json!({
        // A run that was not stored has no id.
        "id": (!run.id.is_empty()).then_some(&run.id),
        "started": format!("{:.3}", run.started),
        "ended": run.ended.map(|t| format!("{t:.3}")),
        "status": run.status.name(),
        "reason": reason(&run.status),
        "name": head.name,
        "annotation": run.annotation,
        "command": head.command,
        "seed": head.seed,
        "version": head.iodyno_version,
        "machine": head.machine,
        "targets": targets,
        "workloads": workloads,
        "plan": head.plan,
        "level": standing.level.map(Level::name),
        "verdicts": standing.verdicts,
    })
}

fn cell(cell: &Cell, options: Options) -> Value {
    let key = &cell.key;
    let figures = Summary::with_intervals(cell);
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        out.insert(name.to_owned(), value);
    };
    put("name", json!(key.name));
    put("target", json!(key.target));
    put("workload", json!(key.workload));
    put("engine", json!(key.engine));
    put("threads", json!(key.threads));
    put("depth", json!(key.depth));
    put("block_bytes", json!(key.block_bytes()));
    let blocks = key.blocks.iter().map(|(bytes, share)| json!({"bytes": bytes, "share": share}));
    put("blocks", blocks.collect());
    put("offered_iops", json!(key.offered_iops));
    put("seed", json!(key.seed));
    put("repeat", json!(key.repeat));
    put("seconds", json!(cell.seconds()));
    put("ended", json!(cell.ended));
    if let Some(place) = &key.place {
        put("place", json!(place));
    }
    for kind in OpKind::ALL {
        match figures.kinds.iter().find(|f| f.kind == kind) {
            Some(figures) => put(kind.name(), kind_object(figures)),
            None if matches!(kind, OpKind::Read | OpKind::Write | OpKind::Flush) => {
                put(kind.name(), kind_object(&KindSummary::nothing(kind)));
            }
            None => {}
        }
    }
    let total = json!({
        "iops": figures.iops,
        "ops_per_s": figures.ops_per_s,
        "bytes_per_s": figures.bytes_per_s,
    });
    put("total", total);
    put("stationarity", stationarity(cell));
    put("oio_mean", json!(cell.oio_mean()));
    put("cpu_seconds", json!(cell.resources.cpu_seconds()));
    put("cpu_workers", cpu_workers(cell));
    put("moved_bytes", json!(cell.resources.moved_bytes));
    put("generator_ns_per_io", json!(cell.evidence.generator_ns_per_io));
    put(
        "stamps",
        json!({
            "reaps": cell.stamps.reaps,
            "completions": cell.stamps.completions,
            "span_mean_ns": cell.stamps.span_mean_ns(),
            "span_max_ns": cell.stamps.span_max_ns,
        }),
    );
    put("lateness_ns", cell.lateness.as_ref().map(|h| latency(&Latency::of(h))).into());
    put("backlog_ops", json!(cell.backlog_ops));
    if let Some(log) = &cell.log {
        put("log", message_log(cell, log, options));
    }
    put("level", json!(cell.level().map(Level::name)));
    put("verdicts", json!(cell.verdicts));
    put("facts", json!(cell.facts));
    put("evidence", json!(cell.evidence));
    put("interval_seconds", json!(cell.interval_ns as f64 / 1e9));
    if options.series {
        put("series", series(cell, &figures));
    }
    Value::Object(out)
}

fn message_log(cell: &Cell, log: &MessageLog, options: Options) -> Value {
    let mut object = json!({
        "durability": log.durability,
        "rate_per_s": log.rate_per_s,
        "messages": log.messages,
        "messages_per_s": cell.per_second(log.messages as f64),
        "body_bytes_per_s": cell.per_second(log.body_bytes as f64),
        "persist_ns": latency(&Latency::of(&log.persist)),
        "chunks": log.chunks,
        "flushes": log.flushes,
        "backlog_max": log.backlog_max,
        "backlog_end": log.backlog_end,
        "blocked_seconds": log.blocked_ns as f64 / 1e9,
        "dropped": log.dropped,
        "replayed": log.replayed,
        "replayed_per_s": cell.per_second(log.replayed as f64),
        "replay_errors": log.replay_errors,
    });
    if options.series {
        object["series"] = json!(log.intervals);
    }
    object
}

/// Describes how stationary a cell's rate is: confidence interval, stalls, level shift and periodic swing.
fn stationarity(cell: &Cell) -> Value {
    let of = Stationarity::of(cell);
    let kinds = cell.io_kinds();
    let mean = mean_rate(cell, |interval| interval.ios(kinds));
    let seconds = |ns: u64| ns as f64 / 1e9;
    let stall = |stall: &Stall| json!([seconds(stall.from_ns), seconds(stall.to_ns)]);
    json!({
        "iops_within": mean.map(|mean| json!({
            "low": mean.interval.low,
            "high": mean.interval.high,
            "level": mean.interval.level,
            "independent": mean.independent,
        })),
        "stalls_seconds": of.stalls.iter().map(stall).collect::<Value>(),
        "shift": of.shift.map(|shift| json!({
            "before_iops": shift.before_iops,
            "after_iops": shift.after_iops,
            "at_seconds": shift.at_ns.map(seconds),
        })),
        "swing": of.swing.map(|swing| json!({
            "period_seconds": seconds(swing.period_ns),
            "periods": swing.periods,
            "amplitude_share": swing.amplitude_share,
        })),
    })
}

fn cpu_workers(cell: &Cell) -> Value {
    let resources = &cell.resources;
    let worker = |(number, (user_ns, system_ns)): (usize, (&u64, &u64))| {
        let delay = resources.run_delay.get(number);
        json!({
            "user_seconds": *user_ns as f64 / 1e9,
            "system_seconds": *system_ns as f64 / 1e9,
            "waited_seconds": delay.map(|delay| delay.waited_ns as f64 / 1e9),
            "waits": delay.map(|delay| delay.waits),
        })
    };
    resources.cpu_user_ns.iter().zip(&resources.cpu_system_ns).enumerate().map(worker).collect()
}

fn kind_object(figures: &KindSummary) -> Value {
    let by_kind: Map<String, Value> =
        figures.errors.iter().map(|(kind, n)| (kind.name().to_owned(), json!(n))).collect();
    let mut object = json!({
        "ops": figures.ops,
        "iops": figures.iops,
        "bytes": figures.bytes,
        "bytes_per_s": figures.bytes_per_s,
        "errors": figures.errors.total(),
        "errors_by_kind": by_kind,
        "latency_ns": latency(&figures.response_time),
    });
    if figures.errors.other_errno != 0 {
        let number = figures.errors.other_errno;
        object["other_error"] = json!({ "number": number, "name": errno_name(number) });
    }
    if let Some(service) = &figures.service {
        object["service_ns"] = latency(service);
    }
    object
}

fn latency(latency: &Latency) -> Value {
    let mut object = json!({
        "min": latency.min_ns,
        "mean": latency.mean_ns,
        "max": latency.max_ns,
    });
    for (percentile, value) in PERCENTILES.iter().zip(latency.percentiles_ns) {
        object[percentile.key] = json!(value);
    }
    let known = PERCENTILES.iter().zip(latency.within);
    let known: Map<String, Value> =
        known.filter_map(|(p, within)| Some((p.key.to_owned(), json!(within?)))).collect();
    if !known.is_empty() {
        object["within"] = Value::Object(known);
    }
    object
}

/// Returns the series of a cell, with one value per interval for each kind of operation that occurs in the
/// cell (zero in intervals without such operations).
fn series(cell: &Cell, figures: &Summary) -> Value {
    let interval = |(interval, length_ns): (&Interval, u64)| {
        let mut object = Map::new();
        object.insert("seconds".to_owned(), json!(length_ns as f64 / 1e9));
        for kind in figures.kinds.iter().map(|f| f.kind) {
            let stats = interval.class(kind);
            let known = stats.filter(|_| cell.has_latency_over_time(kind));
            let response_time = known.map(ClassStats::response_time);
            let quantile = |q| response_time.and_then(|h| h.supported_quantile_ns(q));
            let value = json!({
                "ops": stats.map_or(0, ClassStats::ops),
                "bytes": stats.map_or(0, |s| s.bytes),
                "errors": stats.map_or(0, |s| s.errors.total()),
                "latency_ns": {
                    "mean": response_time.and_then(Histogram::mean_ns),
                    "p50": quantile(0.5),
                    "p99": quantile(0.99),
                    "max": response_time.and_then(Histogram::max_ns),
                },
            });
            object.insert(kind.name().to_owned(), value);
        }
        Value::Object(object)
    };
    cell.series.iter().zip(cell.interval_lengths_ns()).map(interval).collect()
}
