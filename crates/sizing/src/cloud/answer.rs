//! Formats the recommended cloud volumes as text for a terminal, and as a JSON document. Does no I/O.

use super::{CloudSizing, Found, Instance, Offer, Unfit, Volumes};
use crate::json::limits;
use crate::simulate::Measured;
use crate::terminal::{EMULATED, LABEL};
use crate::words::{rate, work_in_words};
use iodyno_emulate::spec::{Counted, Limit, LimitOf};
use iodyno_page::terminal::{Lines, Style, table};
use iodyno_page::{Cell, Column, Quantity, Table};
use iodyno_run::explain::percent;
use iodyno_units::human;
use iodyno_units::text::for_shell;
use serde_json::{Value, json};

/// Formats the result as text: the recommended volumes, and the classes that are unsuitable.
pub fn show(answer: &CloudSizing, style: Style) -> String {
    let mut text = Lines::new(style);
    text.heading(&demand_in_words(answer), EMULATED);
    let Some(best) = answer.found.first() else {
        text.line(&no_volumes_in_words(answer));
        text.blank();
        list_cheaper(&mut text, answer);
        unfit(&mut text, answer);
        return text.end();
    };
    for line in table::lines(&volumes(answer), style) {
        text.line(&line);
    }
    text.blank();
    let best_offer = &best.offer;
    text.line(&in_words(&best_offer.volumes));
    if let Some(measured) = &best.measured {
        let p99 = measured.p99_ns.map_or("unknown".to_owned(), human::time_ns);
        let credits = if best_offer.has_credits() { " with no burst credits" } else { "" };
        let words = format!("a simulation{credits} sustains the rate: p99 {p99}");
        text.labelled("confirmed", LABEL, &words);
    }
    text.labelled("instance", LABEL, &instance_in_words(answer, best_offer));
    text.labelled("burst", LABEL, &burst_in_words(answer, best_offer));
    text.labelled("run it", LABEL, &run_in_words(answer, best_offer));
    let demand = &answer.demand;
    if let Some(bytes) = demand.active_bytes.filter(|bytes| *bytes > demand.capacity_bytes) {
        let words = format!("{}, the size of the range that the run accessed", human::size(bytes));
        text.labelled("capacity", LABEL, &words);
    }
    list_cheaper(&mut text, answer);
    unfit(&mut text, answer);
    text.labelled(
        "prices",
        LABEL,
        &format!("as of {}, from your price file; check that the file is current", answer.as_of),
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
    for (number, Found { offer, measured }) in answer.found.iter().enumerate() {
        let (volumes, busy) = (&offer.volumes, offer.utilisation(&answer.load));
        let p99_ns = measured.as_ref().and_then(|measured| measured.p99_ns);
        let shared = if volumes.is_pooled && volumes.count > 1 { ", shared by all" } else { "" };
        table.push([
            Cell::words((number + 1).to_string()),
            Cell::words(format!("{}{}", in_words(volumes), on(offer, true))),
            Cell::words(format!("{}{shared}", limits_in_words(&volumes.limits))),
            Cell::number(format!("{:.2}", offer.price()), offer.price()),
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
    let on_demand = if of.options.on_demand { ", bursting on demand" } else { "" };
    match of.count {
        1 => format!("{} {size}{on_demand}", of.class),
        count => format!("{count} × {} {size}{on_demand}, striped", of.class),
    }
}

/// Formats the instance as ` on NAME`; empty without an instance. With `priced`, also empty for an instance without a
/// price.
fn on(of: &Offer, priced: bool) -> String {
    let instance = of.instance.as_ref().filter(|instance| !priced || instance.price > 0.0);
    instance.map_or(String::new(), |instance| format!(" on {}", instance.system))
}

/// Describes the instance of the recommended volumes.
fn instance_in_words(answer: &CloudSizing, of: &Offer) -> String {
    let Some(Instance { system, limits, price, .. }) = &of.instance else {
        return "no instance is given, so limits of instances are ignored: give --instance, or [[instances]] in the price file".to_owned();
    };
    let price = match *price {
        price if price > 0.0 => format!(", {price:.2} {} a month", answer.currency),
        _ => String::new(),
    };
    let busy = percent(of.instance_utilisation(&answer.load));
    format!("{system}: {} ({busy} busy){price}", limits_in_words(limits))
}

fn limits_in_words(limits: &[Limit]) -> String {
    limits.iter().map(limit_in_words).collect::<Vec<_>>().join(", ")
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

/// Maximum of `--volumes`.
const STRIPED_MAX: u64 = 64;

fn duration(s: f64) -> String {
    human::duration_ns((s * 1e9).min(1e19) as u64)
}

/// Describes what happens when the burst credits of the recommended volumes run out.
fn burst_in_words(answer: &CloudSizing, of: &Offer) -> String {
    let mut words = Vec::new();
    if of.volumes.options.on_demand {
        let (price, currency) = (of.volumes.on_demand_price, &answer.currency);
        words.push(format!(
            "on demand, so bursting never ends: the price includes {price:.2} {currency} for bursting all month"
        ));
    }
    if of.has_credits() {
        let busy = percent(of.utilisation(&answer.load));
        words.push(format!(
            "the limits meet the demand even without credits ({busy} busy), so the end of a burst changes nothing"
        ));
    }
    if words.is_empty() {
        words.push("no limit has burst credits, so the rates are sustained".to_owned());
    }
    words.join("; ")
}

/// States that no volumes meet the demand, and what to change.
fn no_volumes_in_words(answer: &CloudSizing) -> String {
    let needed = |why: &Unfit| match why {
        Unfit::Capacity(volumes) => Some(*volumes),
        _ => None,
    };
    let mut priced = answer.unfit.iter().map(|(_, why)| why).filter(|why| **why != Unfit::Price);
    if priced.all(|why| needed(why).is_some()) {
        let fewest = answer.unfit.iter().filter_map(|(_, why)| needed(why)).min().unwrap_or(0);
        let more = match fewest {
            ..=STRIPED_MAX => format!("use --volumes {fewest}, or lower --capacity"),
            _ => "lower --capacity".to_owned(),
        };
        return format!("No volumes of {} have the capacity: {more}.", answer.cloud);
    }
    let is_instance = answer.unfit.iter().any(|(_, why)| *why == Unfit::Instance);
    let instance = if is_instance { "choose a larger instance, " } else { "" };
    format!(
        "No volumes of {} meet the demand: {instance}lower --rate, raise --p99, or add classes to the price file.",
        answer.cloud
    )
}

/// Lists cheaper volumes that meet the demand only while their burst credits last.
fn list_cheaper(text: &mut Lines, answer: &CloudSizing) {
    for (number, (offer, lasts_s)) in answer.by_credits_alone.iter().enumerate() {
        let label = if number == 0 { "not these" } else { "" };
        let after = 1.0 / offer.utilisation(&answer.load);
        let on = on(offer, false);
        let words = format!(
            "{}{on} for {:.2} {} a month meets the demand only on burst credits: a full balance lasts {}, then only {} of the rate is served",
            in_words(&offer.volumes),
            offer.price(),
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
    let capacity = answer.unfit.iter().filter(|(_, why)| matches!(why, Unfit::Capacity(_)));
    let too_small = capacity.map(|(name, _)| name.as_str()).collect();
    let words = [
        (of(Unfit::Latency), "even an idle volume misses the latency limit".to_owned()),
        (
            of(Unfit::Limits),
            format!(
                "no priced configuration of up to {} meets the demand",
                human::counted(answer.volumes_max.into(), "volume")
            ),
        ),
        (
            too_small,
            format!(
                "{} of the largest size are smaller than --capacity",
                human::counted(answer.volumes_max.into(), "volume")
            ),
        ),
        (
            of(Unfit::Instance),
            "the limits of the instance are too low, or it can't attach all volumes".to_owned(),
        ),
        (of(Unfit::Price), "the price file has no price".to_owned()),
    ];
    for (names, why) in words.into_iter().filter(|(names, _)| !names.is_empty()) {
        text.labelled("left out", LABEL, &format!("{}: {why}", names.join(", ")));
    }
}

fn run_in_words(answer: &CloudSizing, of: &Offer) -> String {
    let flags =
        format!("--on {} --rate {:.0}/s", for_shell(&of.target(true)), answer.demand.rate_iops);
    match &answer.demand.like {
        None => format!("iodyno run {} {flags} --time 10s", work_in_words(&answer.demand)),
        Some(run) => format!("the command of run {run}, with {flags}"),
    }
}

/// Formats the result as JSON, after `docs/schema/size-v1.schema.json`.
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
                let mut value = offer_json(answer, &found.offer);
                value["simulated"] = found.measured.as_ref().map(measured).into();
                value
            }).collect::<Vec<_>>(),
            "by_credits_alone": answer.by_credits_alone.iter().map(|(offer, lasts_s)| {
                let mut value = offer_json(answer, offer);
                value["lasts_s"] = (*lasts_s).into();
                value
            }).collect::<Vec<_>>(),
            "unfit": answer.unfit.iter().map(|(class, why)| json!({
                "class": class,
                "why": match why {
                    Unfit::Latency => "latency",
                    Unfit::Limits | Unfit::Capacity(_) => "limits",
                    Unfit::Instance => "instance",
                    Unfit::Price => "price",
                },
            })).collect::<Vec<_>>(),
            "cells": answer.cells,
        },
    })
}

fn measured(of: &Measured) -> Value {
    json!({ "iops": of.iops, "bytes_per_s": of.bytes_per_s, "mean_ns": of.mean_ns, "p99_ns": of.p99_ns })
}

fn offer_json(answer: &CloudSizing, offer: &Offer) -> Value {
    let of = &offer.volumes;
    let instance = offer.instance.as_ref().map(|of| {
        json!({
            "system": of.system,
            "limits": of.limits.iter().map(limit_json).collect::<Vec<_>>(),
            "volumes_max": of.volumes_max,
            "price_a_month": of.price,
        })
    });
    // Of pooled volumes: an equal part of what they share.
    let parts = if of.is_pooled { u64::from(of.count) } else { 1 };
    let part = |limit: &Limit| Limit { rate: limit.rate / parts, ..limit.clone() };
    let limits_of_each = of.limits.iter().map(|limit| limit_json(&part(limit)));
    json!({
        "class": of.class,
        "volumes": of.count,
        "target": offer.target(false),
        "size_bytes": of.size_bytes,
        "iops": of.options.iops,
        "mbps": of.options.mbps,
        "on_demand": of.options.on_demand,
        "price_a_month": of.price,
        "on_demand_price_a_month": of.on_demand_price,
        "limits_of_each": limits_of_each.collect::<Vec<_>>(),
        "instance": instance,
        "busiest_limit_share": offer.utilisation(&answer.load),
    })
}

fn limit_json(limit: &Limit) -> Value {
    json!({
        "counts": match limit.counts { Counted::Operations => "operations", Counted::Bytes => "bytes" },
        "of": match limit.of { LimitOf::All => None, LimitOf::Reads => Some("reads"), LimitOf::Writes => Some("writes") },
        "rate": limit.rate,
        "burst": limit.credits.as_ref().map(|credits| credits.burst),
        "credits": limit.credits.as_ref().map(|credits| credits.most),
    })
}
