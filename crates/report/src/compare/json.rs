//! A comparison as JSON, which conforms to `docs/schema/compare-v1.schema.json`. Within a version of the schema, keys
//! may be added, but not changed or removed.

use super::{Compared, Covers, Finding, Omission, Row};
use iodyno_measure::statistics::compare::{Better, Difference};
use iodyno_measure::{CellKey, Metric};
use serde_json::{Value, json};

/// JSON Schema of [`document`], draft 2020-12.
pub const SCHEMA: &str = include_str!("../../../../docs/schema/compare-v1.schema.json");

/// Returns a comparison as one JSON document that conforms to [`SCHEMA`].
pub fn document(compared: &Compared) -> Value {
    let side = |i: usize| {
        let side = &compared.sides[i];
        json!({
            "asked": side.asked,
            "runs": side.runs,
            "names": side.names,
            "targets": side.targets,
        })
    };
    let [slower, faster, same, inconclusive] = compared.counts();
    let conditions = compared.conditions.iter();
    let conditions: Vec<Value> = conditions
        .map(|c| json!({ "what": c.what, "a": c.a, "b": c.b, "cells": c.cells }))
        .collect();
    json!({
        "schema": 1,
        "a": side(0),
        "b": side(1),
        "threshold_share": compared.criteria.threshold_share,
        "alpha": compared.criteria.alpha,
        "finding": match compared.finding() {
            Finding::Slower => "slower",
            Finding::Open => "open",
            Finding::Clear => "clear",
        },
        "slower": slower,
        "faster": faster,
        "same": same,
        "inconclusive": inconclusive,
        "comparisons": compared.rows.iter().map(row).collect::<Vec<_>>(),
        "not_compared": compared.omissions.iter().map(omission).collect::<Vec<_>>(),
        "conditions": conditions,
        "remarks": compared.remarks,
    })
}

fn kind(metric: Metric) -> Option<&'static str> {
    metric.kind.map(iodyno_units::OpKind::name)
}

fn coordinates(key: &CellKey) -> Value {
    let blocks = key.blocks.iter().map(|(bytes, share)| json!({"bytes": bytes, "share": share}));
    json!({
        "target": key.target,
        "workload": key.workload,
        "engine": key.engine,
        "threads": key.threads,
        "depth": key.depth,
        "blocks": blocks.collect::<Vec<_>>(),
        "offered_iops": key.offered_iops,
    })
}

fn row(row: &Row) -> Value {
    let of = &row.comparison;
    let (verdict, detectable) = match of.difference {
        Difference::Faster => ("faster", None),
        Difference::Slower => ("slower", None),
        Difference::Same => ("same", None),
        // A number of values that can't show any difference detects none, however large.
        Difference::Inconclusive { detectable_share } => {
            ("inconclusive", row.runs_needed.is_none().then_some(detectable_share))
        }
        Difference::TooFewRuns { .. } => ("inconclusive", None),
    };
    json!({
        "cell": row.a_key.name,
        "a": coordinates(&row.a_key),
        "b": coordinates(&row.b_key),
        "operation": kind(row.metric),
        "metric": row.metric.quantity.to_string(),
        "unit": row.metric.quantity.unit(),
        "better": match row.metric.quantity.better() {
            Better::Higher => "higher",
            Better::Lower => "lower",
        },
        "covers": match row.covers {
            Covers::Runs => "runs",
            Covers::Repeats => "repeats",
            Covers::Nothing => "nothing",
        },
        "values_a": row.a,
        "values_b": row.b,
        "median_a": of.median_a,
        "median_b": of.median_b,
        "ratio": of.median_b / of.median_a,
        "shift_share": of.shift_share,
        "interval": of.interval.map(|i| json!({"low": i.low, "high": i.high, "level": i.level})),
        "p": of.test.p,
        "p_adjusted": of.p_adjusted,
        "verdict": verdict,
        "detectable_share": detectable,
        "runs_needed": row.runs_needed,
    })
}

fn omission(of: &Omission) -> Value {
    json!({
        "cell": of.cell,
        "side": of.side,
        "at": coordinates(&of.key),
        "operation": of.metric.and_then(kind),
        "metric": of.metric.map(|m| m.quantity.to_string()),
        "why": of.why,
        "is_loss": of.is_loss,
    })
}
