//! Result of a sizing as one JSON document, after `docs/schema/size-v1.schema.json`. Within a schema version, keys
//! are added but never changed or removed. `null` means unknown, never 0.

use crate::candidate::Candidate;
use crate::demand::{Demand, Limit, Loss};
use crate::detail::{Detail, Sequential, WhatIf};
use crate::log_demand::LogDemand;
use crate::row::{Missed, Row, Trial};
use crate::search::Count;
use crate::simulate::{Condition, Measured};
use crate::sizing::Sizing;
use crate::terminal::CACHE_OFF_UNTESTED;
use iodyno_run::explain::Share;
use iodyno_units::OpKind;
use serde_json::{Value, json};

/// JSON schema of [`document`] and of [`crate::saturate::document`], draft 2020-12.
pub const SCHEMA_SIZE: &str = include_str!("../../../docs/schema/size-v1.schema.json");

/// Latency limits of a demand, without `p99_ns`.
pub(crate) fn limits(demand: &Demand) -> Vec<Value> {
    let limit = |limit: &Limit| json!({ "of": limit.of.map(OpKind::name), "quantile": limit.tail.quantile(), "ns": limit.ns });
    demand.limits.iter().map(limit).collect()
}

/// Formats the complete result of a sizing as JSON.
pub fn document(sizing: &Sizing) -> Value {
    let demand = &sizing.demand;
    json!({
        "schema": 1,
        "demand": {
            "workload": demand.name,
            "like_run": demand.like,
            "rate_iops": demand.rate_iops,
            "p99_ns": demand.p99_ns,
            "limits": limits(demand),
            "with": demand.survive.map(Loss::words),
            "life_years": demand.life_years,
            "capacity_bytes": demand.capacity_bytes,
            "active_bytes": demand.active_bytes,
            "write_share": demand.write_share(),
            "log": demand.log.as_ref().map(|log| self::log(sizing, log)),
        },
        "currency": sizing.prices.as_ref().map(|prices| &prices.currency),
        "meets": sizing.rows.iter().map(|row| self::row(sizing, row)).collect::<Vec<_>>(),
        "misses": sizing.missed.iter().map(|missed| self::missed(sizing, missed)).collect::<Vec<_>>(),
        "not_searched_to_the_end": sizing.not_worth,
        "recommended": sizing.detail.as_ref().map(detail),
        "simulated": { "cells": sizing.cells },
    })
}

fn candidate(of: &Candidate) -> Value {
    json!({
        "system": of.host,
        "adapters": of.adapter_count(),
        "write_cache": of.has_cache(),
        "device": of.device_name,
        "device_capacity_bytes": of.device.device.capacity_bytes(),
        "hot_swap": of.device.device.hot_swap,
        "level": of.level_word(),
        "members": of.members,
        "arrays_max": of.arrays_max,
    })
}

fn count(of: &Candidate, count: Count) -> Value {
    json!({
        "systems": count.units,
        "arrays_of_each": count.arrays,
        "devices": count.units * count.arrays * of.members,
        "adapters": count.units * of.adapter_count(),
        "capacity_bytes": u64::from(count.units * count.arrays) * of.array_bytes,
    })
}

/// A message log's demand as JSON, with the longest storage stall that its publishers can bridge.
fn log(sizing: &Sizing, log: &LogDemand) -> Value {
    let highest = sizing.rows.first().and_then(|row| row.highest.as_ref());
    json!({
        "messages_per_s": log.messages_per_s,
        "message_bytes": log.message_bytes,
        "chunk_bytes": log.chunk_bytes,
        "messages_a_chunk": log.messages_a_chunk(),
        "writes_per_s": log.writes_per_s(),
        "written_bytes_per_s": log.written_bytes_per_s(),
        "replayed_per_s": log.replayed_per_s,
        "reads_per_s": log.reads_per_s(),
        "room_bytes": Some(log.room_bytes).filter(|bytes| *bytes > 0),
        "survived_stall_ns": log.survived_ns(),
        "caught_up_ns": highest.and_then(|highest| log.caught_up_ns(highest.iops)),
    })
}

fn measured(of: &Measured) -> Value {
    json!({
        "iops": of.iops,
        "bytes_per_s": of.bytes_per_s,
        "mean_ns": of.mean_ns,
        "p99_ns": of.p99_ns,
    })
}

fn trial(of: &Trial) -> Value {
    let mut value = measured(&of.measured);
    value["arrays"] = of.arrays.into();
    value["offered_iops"] = of.offered_iops.into();
    value
}

fn row(sizing: &Sizing, row: &Row) -> Value {
    let of = &sizing.candidates[row.candidate];
    let next = |(next, iops): (Count, f64)| json!({ "count": count(of, next), "iops": iops });
    let rate = sizing.demand.rate_iops;
    json!({
        "candidate": candidate(of),
        "target": of.target(row.count.arrays),
        "count": count(of, row.count),
        "at_asked_rate_of_each": measured(&row.asked),
        "with_one_array_less": row.fewer.as_ref().map(measured),
        "life": row.life.map(|life| json!({
            "years": life.years,
            "asked_years": life.asked_years,
            "drive_writes_per_day": life.drive_writes_per_day.0,
            "rated_drive_writes_per_day": life.drive_writes_per_day.1,
            "write_amplification": life.write_amplification,
            "arrays_by_rate": life.arrays_by_rate,
        })),
        "resources": row.asked.shares.iter().map(Share::json).collect::<Vec<_>>(),
        "highest": row.highest.as_ref().map(|highest| json!({
            "iops": highest.iops,
            "headroom_share": highest.iops / rate - 1.0,
            "binds": highest.binds,
            "busy_share": highest.busy,
        })),
        "next": row.next.map(next),
        "devices_w": row.devices_w,
        "w_per_iops": row.devices_w.map(|w| w / rate),
        "price": row.price,
        "textbook": {
            "devices": row.textbook.devices,
            "device_iops": row.textbook.device_iops,
            "write_penalty": row.textbook.penalty,
        },
        "trials_of_each": row.trials.iter().map(trial).collect::<Vec<_>>(),
    })
}

fn missed(sizing: &Sizing, missed: &Missed) -> Value {
    let of = &sizing.candidates[missed.candidate];
    let binds = missed.nearest.as_ref().and_then(|nearest| nearest.measured.binds());
    json!({
        "candidate": candidate(of),
        "nearest_of_each": missed.nearest.as_ref().map(trial),
        "binds": binds.map(|binds| &binds.share.name),
    })
}

fn detail(of: &Detail) -> Value {
    let what_if = |what_if: &WhatIf| {
        let word = match what_if.condition {
            Condition::Whole => "whole",
            Condition::DeviceLost => "device lost",
            Condition::Rebuild => "rebuild",
            Condition::AdapterLost => "adapter lost",
            Condition::LinkLost => "link lost",
            Condition::Filled(_) => "80 % full",
            Condition::CacheOff => "cache off",
        };
        json!({ "if": word, "holds": what_if.holds, "of_each": measured(&what_if.measured) })
    };
    let sequential = |at: &Sequential| json!({ "depth_of_each_array": at.depth, "read_bytes_per_s": at.read_bytes_per_s, "write_bytes_per_s": at.write_bytes_per_s });
    json!({
        "what_if": of.what_ifs.iter().map(what_if).collect::<Vec<_>>(),
        "cache": of.cache.map(|cache| json!({
            "advice": if cache.leave_on() { "on" } else { "off" },
            "on": { "p99_ns": cache.p99_ns.0, "highest_iops": cache.highest_iops.0 },
            "off": { "p99_ns": cache.p99_ns.1, "highest_iops": cache.highest_iops.1 },
            "remark": CACHE_OFF_UNTESTED,
        })),
        "sequential": of.sequential.iter().map(sequential).collect::<Vec<_>>(),
    })
}
