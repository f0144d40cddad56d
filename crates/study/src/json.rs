//! Formats a completed study as one JSON document that conforms to `docs/schema/study-v1.schema.json`. Within a
//! version of the schema, keys may be added, but not changed or removed. `null` means "no value", "unknown" or "too
//! few samples", never 0.

use crate::conclusion::Finding;
use crate::error_strata::{Spread, Stratum};
use crate::outcome::{Outcome, TimeLine};
use crate::row::{Nearer, Row};
use crate::series::{Series, series};
use crate::wanted::Wanted;
use iodyno_emulate::describe::Source;
use serde_json::{Map, Value, json};

/// JSON Schema of [`document`], draft 2020-12.
pub const SCHEMA_STUDY: &str = include_str!("../../../docs/schema/study-v1.schema.json");

/// Returns a completed study as one JSON document.
pub fn document(outcome: &Outcome<'_>) -> Value {
    let study = outcome.study;
    let rows = study.rows.iter().zip(&outcome.rows);
    json!({
        "schema": 1,
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "systems": study.systems.iter().map(|bench| json!({
            "name": bench.name,
            "host": bench.host_name,
            "device": bench.device_or_array(),
            "options": bench.options,
            "note": bench.note,
        })).collect::<Vec<_>>(),
        "parameters": parameters(outcome),
        "conclusions": outcome.conclusions.iter().map(conclusion).collect::<Vec<_>>(),
        "rows": rows.map(|(wanted, row)| self::row(outcome, wanted, row)).collect::<Vec<_>>(),
        "strata": outcome.strata.iter().map(stratum).collect::<Vec<_>>(),
        "curves": series(study).iter().filter_map(|s| curve(outcome, s)).collect::<Vec<_>>(),
        "over_time": outcome.over_time.iter().map(|line| over_time(outcome, line)).collect::<Vec<_>>(),
        "simulated": {
            "cells": outcome.cells,
            "operations": outcome.simulated,
            "cells_in_rounds": outcome.in_rounds.0,
            "cells_steady": outcome.in_rounds.1,
            "rate_standard_error_max": Some(outcome.rate_error_max).filter(|e| e.is_finite()),
            "latency_standard_error_max": Some(outcome.latency_error_max).filter(|e| e.is_finite()),
        },
    })
}

/// Lists the model's parameters, and counts them by source. Also counts the published values.
fn parameters(outcome: &Outcome<'_>) -> Value {
    let study = outcome.study;
    let mut counts = Map::new();
    for source in Source::ALL {
        counts.insert(source.name().replace(' ', "_"), json!(outcome.parameters(source)));
    }
    let flagged = study.printed.iter().filter(|figure| figure.is_flagged()).count();
    let list: Vec<Value> = study
        .parameters
        .iter()
        .map(|owned| {
            let parameter = &owned.parameter;
            json!({
                "of": owned.of,
                "key": parameter.key,
                "value": parameter.text,
                "from": parameter.from.name(),
                "why": parameter.why,
            })
        })
        .collect();
    json!({
        "counts": counts,
        "total": study.parameters.len(),
        "printed_figures": study.printed.len(),
        "flagged_figures": flagged,
        "list": list,
    })
}

fn conclusion(finding: &Finding<'_>) -> Value {
    json!({
        "says": finding.conclusion.says,
        "verdict": finding.verdict.key(),
        "evidence": finding.evidence,
    })
}

fn row(outcome: &Outcome<'_>, wanted: &Wanted, row: &Row) -> Value {
    let key = &wanted.key;
    let printed = outcome.printed(wanted);
    json!({
        "figure": key.figure,
        "system": key.system,
        "workload": key.workload,
        "block_bytes": key.block_bytes,
        "queue_depth": key.queue_depth,
        "threads": key.threads,
        "devices": key.devices,
        "metric": key.metric,
        "relation": printed.map(|f| f.relation.symbol()),
        "value": printed.map(|f| f.value),
        "resolution": printed.and_then(|f| f.resolution),
        "unit": wanted.unit.name(),
        "kind": printed.map(|f| f.place.name()),
        "note": printed.map(|f| f.note.as_str()),
        "ours": row.ours,
        "error": row.score.map(|s| s.error),
        "error_outside": row.score.map(|s| s.outside),
        "difference": row.ours.zip(printed).map(|(ours, f)| ours - f.value),
        "standard_error": row.standard_error.filter(|e| e.is_finite()),
        "steady_state": row.steady,
        "basis": wanted.basis.name(),
        "fitted_by": wanted.by,
        "flagged": row.flagged,
        "flagged_because": printed.map(|f| f.flag.as_str()).filter(|why| !why.is_empty()),
        "null_model": row.null.map(|n| n.model.name()),
        "null_value": row.null.map(|n| n.value),
        "null_error": row.null.and_then(|n| n.score).map(|s| s.error),
        "null_error_outside": row.null.and_then(|n| n.score).map(|s| s.outside),
        "nearer": row.nearer().map(Nearer::name),
    })
}

fn stratum(stratum: &Stratum) -> Value {
    let spread = |s: &Spread| json!({ "mean": s.mean, "median": s.median, "max": s.max });
    json!({
        "basis": stratum.basis.name(),
        "workload": stratum.workload,
        "metric": stratum.metric,
        "several_devices": stratum.several_devices,
        "rows": stratum.rows,
        "flagged": stratum.flagged,
        "within_print": stratum.within,
        "error": spread(&stratum.error),
        "error_outside": spread(&stratum.outside),
        "null_error_outside": spread(&stratum.null_outside),
        "with_null": stratum.with_null,
        "better_than_null": stratum.better,
        "equal_to_null": stratum.equal,
    })
}

/// Describes one cell over time: latencies in µs, rates and latency spikes.
fn over_time(outcome: &Outcome<'_>, line: &TimeLine) -> Value {
    let (study, of) = (outcome.study, &line.over_time);
    let us = |all: &[f64]| -> Vec<Option<f64>> {
        all.iter().map(|ns| Some(ns / 1e3).filter(|us| us.is_finite())).collect()
    };
    let spikes = of.spikes();
    json!({
        "figure": study.panels[line.panel].figure,
        "system": study.systems[line.at.system].name,
        "workload": study.workloads[line.at.workload].name,
        "queue_depth": line.at.depth,
        "threads": line.at.threads,
        "interval_us": of.interval_ns as f64 / 1e3,
        "latency_p50_us": us(&of.median_ns),
        "latency_max_us": us(&of.longest_ns),
        "iops": of.iops,
        "spikes": {
            "count": spikes.count,
            "interval_us": Some(spikes.every_ns / 1e3).filter(|us| us.is_finite()),
            "deviation_share": Some(spikes.deviation_share).filter(|share| share.is_finite()),
        },
    })
}

/// Describes a curve of the paper; None for a single point, which is listed as a row.
fn curve(outcome: &Outcome<'_>, series: &Series) -> Option<Value> {
    let axis = series.axis.name()?;
    let study = outcome.study;
    let first = &study.rows[*series.rows.first()?];
    let of = |value: &dyn Fn(usize) -> Option<f64>| -> Vec<Option<f64>> {
        series.rows.iter().map(|&row| value(row)).collect()
    };
    Some(json!({
        "figure": study.panels[series.panel].figure,
        "label": series.label,
        "metric": series.metric.name(),
        "unit": first.unit.name(),
        "axis": axis,
        "x": series.x,
        "ours": of(&|row| outcome.rows[row].ours),
        "printed": of(&|row| outcome.printed(&study.rows[row]).map(|f| f.value)),
        "null": of(&|row| outcome.rows[row].null.map(|n| n.value)),
    }))
}
