//! The answer for cloud volumes as text for a terminal, and as a JSON document. Pure.

use super::{CloudSizing, Found, Unfit, VOLUMES_MAX, Volumes};
use crate::json::limits;
use crate::simulate::Measured;
use crate::terminal::{EMULATED, LABEL};
use crate::words::rate;
use iodyno_emulate::spec::{Counted, Limit, LimitOf};
use iodyno_page::terminal::{Lines, Style, table};
use iodyno_page::{Cell, Column, Quantity, Table};
use iodyno_run::explain::percent;
use iodyno_units::human;
use iodyno_units::text::for_shell;
use serde_json::{Value, json};

/// Formats the answer as text.
pub fn show(answer: &CloudSizing, style: Style) -> String {
    let mut text = Lines::new(style);
    text.heading(&demand_in_words(answer), EMULATED);
    let Some(best) = answer.found.first() else {
        text.line(&format!("No volumes of {} meet the demand.", answer.cloud));
        text.blank();
        in_burst(&mut text, answer);
        unfit(&mut text, answer);
        return text.end();
    };
    for line in table::lines(&volumes(answer), style) {
        text.line(&line);
    }
    text.blank();
    text.line(&in_words(&best.volumes));
    if let Some(measured) = &best.measured {
        let p99 = measured.p99_ns.map_or("unknown".to_owned(), human::time_ns);
        let credits = if has_credits(&best.volumes) { " with no burst credits" } else { "" };
        let words = format!("a simulation{credits} sustains the rate: p99 {p99}");
        text.labelled("confirmed", LABEL, &words);
    }
    text.labelled("burst", LABEL, &burst_in_words(answer, &best.volumes));
    text.labelled("run it", LABEL, &run_in_words(answer, &best.volumes));
    in_burst(&mut text, answer);
    unfit(&mut text, answer);
    text.labelled(
        "prices",
        LABEL,
        &format!("of {}, from your price file; check them", answer.as_of),
    );
    text.end()
}

/// Table of the volumes that meet the demand.
fn volumes(answer: &CloudSizing) -> Table {
    let mut table = Table::new([
        Column::label(""),
        Column::label("volumes"),
        Column::words("limits of each"),
        Column::numbers("a month", &answer.currency),
        Column::numbers("busiest limit", "").short("busiest"),
        Column::numbers("p99", "ns"),
    ]);
    let caption = "the cheapest volumes of each class that meet the demand";
    caption.clone_into(&mut table.caption);
    for (number, Found { volumes, measured }) in answer.found.iter().enumerate() {
        let busy = answer.load.utilisation(&volumes.limits, volumes.count, false);
        let p99_ns = measured.as_ref().and_then(|measured| measured.p99_ns);
        table.push([
            Cell::words((number + 1).to_string()),
            Cell::words(in_words(volumes)),
            Cell::words(limits_in_words(volumes)),
            Cell::number(format!("{:.2}", volumes.price), volumes.price),
            Cell::of(Quantity::Share, Some(busy)),
            Cell::of(Quantity::LatencyNs, p99_ns),
        ]);
    }
    table
}

fn demand_in_words(answer: &CloudSizing) -> String {
    let demand = &answer.demand;
    let capacity = match demand.capacity_bytes {
        0 => String::new(),
        bytes => format!(", {} or more", human::size(bytes)),
    };
    format!(
        "{} at {} ({}), p99 within {}{capacity}, on {}",
        demand.name,
        rate(demand.rate_iops),
        human::throughput(answer.load.bytes_per_s()),
        human::time_ns(demand.p99_ns as f64),
        answer.cloud
    )
}

/// Describes volumes: `2 × ebs-gp2 of 500GiB, striped`.
fn in_words(of: &Volumes) -> String {
    let size = human::exact_size(of.size_bytes);
    match of.count {
        1 => format!("{} {size}", of.class),
        count => format!("{count} × {} {size}, striped", of.class),
    }
}

fn limits_in_words(of: &Volumes) -> String {
    of.limits.iter().map(limit_in_words).collect::<Vec<_>>().join(", ")
}

fn limit_in_words(limit: &Limit) -> String {
    let of = match limit.of {
        LimitOf::All => "",
        LimitOf::Reads => " read",
        LimitOf::Writes => " write",
    };
    match limit.counts {
        Counted::Operations => format!("{} IOPS{of}", limit.rate),
        Counted::Bytes => format!("{}{of}", human::throughput(limit.rate as f64)),
    }
}

fn has_credits(of: &Volumes) -> bool {
    of.limits.iter().any(|limit| limit.credits.is_some())
}

fn duration(s: f64) -> String {
    human::duration_ns((s * 1e9).min(1e19) as u64)
}

/// What happens when the burst of the recommended volumes ends.
fn burst_in_words(answer: &CloudSizing, of: &Volumes) -> String {
    if !has_credits(of) {
        return "these volumes have no burst credits: their limits hold for ever".to_owned();
    }
    let busy = answer.load.utilisation(&of.limits, of.count, false);
    format!(
        "without credits the limits still hold the demand ({} busy), so the end of a burst changes nothing",
        percent(busy)
    )
}

/// Lists cheaper volumes that meet the demand by their credits alone.
fn in_burst(text: &mut Lines, answer: &CloudSizing) {
    for (number, (volumes, lasts_s)) in answer.in_burst.iter().enumerate() {
        let label = if number == 0 { "not these" } else { "" };
        let after = 1.0 / answer.load.utilisation(&volumes.limits, volumes.count, false);
        let words = format!(
            "{} for {:.2} {} a month meets the demand by credits alone: full ones last for {}, then it serves {} of the rate",
            in_words(volumes),
            volumes.price,
            answer.currency,
            duration(*lasts_s),
            percent(after)
        );
        text.labelled(label, LABEL, &words);
    }
}

fn unfit(text: &mut Lines, answer: &CloudSizing) {
    let of = |why: Unfit| -> Vec<&str> {
        let all = answer.unfit.iter().filter(|(_, of)| *of == why);
        all.map(|(name, _)| name.as_str()).collect()
    };
    let words = [
        (of(Unfit::Latency), "an idle volume is too slow for the latency".to_owned()),
        (of(Unfit::Limits), format!("the limits of {VOLUMES_MAX} volumes are too low")),
    ];
    for (names, why) in words.into_iter().filter(|(names, _)| !names.is_empty()) {
        text.labelled("left out", LABEL, &format!("{}: {why}", names.join(", ")));
    }
}

fn run_in_words(answer: &CloudSizing, of: &Volumes) -> String {
    let workload = answer.demand.like.as_deref().map_or_else(
        || for_shell(&answer.demand.name),
        |run| format!("<the workload of run {run}>"),
    );
    format!(
        "iodyno run {workload} --on {} --rate {:.0}/s --time 10s",
        for_shell(&of.target(true)),
        answer.demand.rate_iops
    )
}

/// The answer as JSON, after `docs/schema/size-v1.schema.json`.
pub fn document(answer: &CloudSizing) -> Value {
    let demand = &answer.demand;
    json!({
        "schema": 1,
        "cloud": {
            "provider": answer.cloud,
            "currency": answer.currency,
            "prices_as_of": answer.as_of,
            "demand": {
                "workload": demand.name,
                "like_run": demand.like,
                "rate_iops": demand.rate_iops,
                "bytes_per_s": answer.load.bytes_per_s(),
                "p99_ns": demand.p99_ns,
                "limits": limits(demand),
                "capacity_bytes": demand.capacity_bytes,
            },
            "meets": answer.found.iter().map(|found| {
                let mut value = volumes_json(answer, &found.volumes);
                value["simulated"] = found.measured.as_ref().map(measured).into();
                value
            }).collect::<Vec<_>>(),
            "by_credits_alone": answer.in_burst.iter().map(|(volumes, lasts_s)| {
                let mut value = volumes_json(answer, volumes);
                value["lasts_s"] = (*lasts_s).into();
                value
            }).collect::<Vec<_>>(),
            "unfit": answer.unfit.iter().map(|(class, why)| json!({
                "class": class,
                "why": match why { Unfit::Latency => "latency", Unfit::Limits => "limits" },
            })).collect::<Vec<_>>(),
            "cells": answer.cells,
        },
    })
}

fn measured(of: &Measured) -> Value {
    json!({ "iops": of.iops, "bytes_per_s": of.bytes_per_s, "mean_ns": of.mean_ns, "p99_ns": of.p99_ns })
}

fn volumes_json(answer: &CloudSizing, of: &Volumes) -> Value {
    let limit = |limit: &Limit| {
        json!({
            "counts": match limit.counts { Counted::Operations => "operations", Counted::Bytes => "bytes" },
            "of": match limit.of { LimitOf::All => None, LimitOf::Reads => Some("reads"), LimitOf::Writes => Some("writes") },
            "rate": limit.rate,
            "burst": limit.credits.as_ref().map(|credits| credits.burst),
            "credits": limit.credits.as_ref().map(|credits| credits.most),
        })
    };
    json!({
        "class": of.class,
        "volumes": of.count,
        "target": of.target(false),
        "size_bytes": of.size_bytes,
        "iops": of.options.iops,
        "mbps": of.options.mbps,
        "price_a_month": of.price,
        "limits_of_each": of.limits.iter().map(limit).collect::<Vec<_>>(),
        "busiest_limit_share": answer.load.utilisation(&of.limits, of.count, false),
    })
}
