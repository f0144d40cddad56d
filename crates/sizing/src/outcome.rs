//! Describes trials that did not meet the demand, and what would have to change.

use crate::candidate::Candidate;
use crate::demand::Demand;
use crate::detail::WhatIf;
use crate::row::{Missed, Row, Trial};
use crate::search::UNITS_MAX;
use crate::shortfall::Shortfall;
use crate::simulate::{Condition, Measured};
use crate::sizing::Sizing;
use crate::words::{of_words, rate, tb};
use iodyno_run::explain::percent;
use iodyno_units::human;

/// Describes the result of a trial, such as `sustains only 61 % of the rate, p99 1.23 s`.
pub(crate) fn outcome_in_words(measured: &Measured, share_iops: f64, demand: &Demand) -> String {
    let p99 = p99_in_words(measured);
    match measured.shortfall(share_iops, demand) {
        None => format!("holds, p99 {p99}"),
        Some(Shortfall::Slow(share)) => {
            format!("sustains only {} % of the rate, p99 {p99}", (share * 100.0).round())
        }
        Some(Shortfall::Late(limit)) => {
            let ns = measured.tail_ns(&limit).map_or("unknown".to_owned(), human::time_ns);
            let (tail, of) = (limit.tail.word(), of_words(&limit));
            format!("does not meet the limit, {tail}{of} {ns}")
        }
        Some(Shortfall::Fills(store)) => {
            format!("does not sustain the rate: the {store} fills, p99 {p99} so far")
        }
        Some(Shortfall::Busy(share)) => format!(
            "does not sustain the rate: {} busy for {}, p99 {p99}",
            share.name,
            percent(share.busy)
        ),
        Some(Shortfall::QueueGrows) => {
            format!("does not sustain the rate: the queue grows, p99 {p99} so far")
        }
    }
}

fn p99_in_words(measured: &Measured) -> String {
    measured.p99_ns.map_or("unknown".to_owned(), human::time_ns)
}

/// Describes the cell that confirms the result, and the cell with one array fewer.
pub(crate) fn confirmed_in_words(sizing: &Sizing, row: &Row) -> String {
    let held = "a run ten times as long as those of the search sustains the rate";
    let raised =
        row.life.is_some_and(|life| row.count.units * row.count.arrays > life.arrays_by_rate);
    if raised {
        return format!(
            "{held}; fewer devices would also sustain it, but would wear out too early"
        );
    }
    let Some(fewer) = &row.fewer else {
        let least = row.count.arrays == 1;
        let why = if least {
            "there is no smaller configuration"
        } else {
            "the capacity requires this number"
        };
        return format!("{held}; {why}");
    };
    let share_iops = sizing.demand.rate_iops / f64::from(row.count.units);
    let outcome = outcome_in_words(fewer, share_iops, &sizing.demand);
    format!("{held}; with one array less it {outcome}")
}

/// Describes a failure or setting and its effect.
pub(crate) fn what_if_in_words(what_if: &WhatIf, share_iops: f64, demand: &Demand) -> String {
    let outcome = outcome_in_words(&what_if.measured, share_iops, demand);
    format!("{}: {outcome}", condition_in_words(what_if.condition))
}

fn condition_in_words(condition: Condition) -> String {
    match condition {
        Condition::Whole => "all is well".to_owned(),
        Condition::DeviceLost => "a device is lost".to_owned(),
        Condition::Rebuild => "it is rebuilt".to_owned(),
        Condition::AdapterLost => "an adapter is lost".to_owned(),
        Condition::LinkLost => "a link between adapters is down".to_owned(),
        Condition::Filled(share) => format!("{:.0} % full, and the rest unused", share * 100.0),
        Condition::CacheOff => "the cache is off".to_owned(),
    }
}

/// Explains why the candidate that comes closest does not meet the demand.
pub(crate) fn nearest_in_words(sizing: &Sizing) -> String {
    let Some(missed) = sizing.missed.first() else { return "nothing was tried".to_owned() };
    let of = &sizing.candidates[missed.candidate];
    let Some(trial) = &missed.nearest else {
        let all_bytes = all_bytes(of);
        return if all_bytes < sizing.demand.capacity_bytes {
            format!("{UNITS_MAX} such systems full of devices have only {}", tb(all_bytes))
        } else {
            format!(
                "the adapters of {UNITS_MAX} such systems can't transfer {}",
                rate(sizing.demand.rate_iops)
            )
        };
    };
    let devices = human::counted((trial.arrays * of.members).into(), "device");
    format!("one system with {devices} {}", trial_in_words(trial, &sizing.demand))
}

/// Describes the result of a trial, with the offered rate and the bottleneck.
fn trial_in_words(trial: &Trial, demand: &Demand) -> String {
    let Trial { offered_iops, measured, .. } = trial;
    let offered = rate(*offered_iops);
    let outcome = match measured.shortfall(*offered_iops, demand) {
        Some(Shortfall::Slow(_)) => {
            let completed = rate(measured.iops);
            format!("completes {completed} of {offered}, p99 {}", p99_in_words(measured))
        }
        _ => format!("at {offered} {}", outcome_in_words(measured, *offered_iops, demand)),
    };
    match measured.binds() {
        Some(binds) if binds.is_saturated => format!("{outcome}; limit: {}", binds.words()),
        Some(binds) => format!("{outcome}; busiest: {}", binds.words()),
        None => outcome,
    }
}

/// Usable capacity of the maximum number of systems, full of devices.
fn all_bytes(of: &Candidate) -> u64 {
    u64::from(UNITS_MAX * of.arrays_max) * of.array_bytes
}

/// Advice if no system meets the demand.
pub(crate) fn mend_in_words(sizing: &Sizing) -> &'static str {
    let demand = &sizing.demand;
    let all =
        |is: &dyn Fn(&Missed) -> bool| !sizing.missed.is_empty() && sizing.missed.iter().all(is);
    let lacks_capacity = |missed: &Missed| {
        let of = &sizing.candidates[missed.candidate];
        missed.nearest.is_none() && all_bytes(of) < demand.capacity_bytes
    };
    let is_late = |missed: &Missed| {
        let trial = missed.nearest.as_ref();
        let shortfall = trial.and_then(|t| t.measured.shortfall(t.offered_iops, demand));
        matches!(shortfall, Some(Shortfall::Late(_)))
    };
    if all(&lacks_capacity) {
        "lower --capacity, or omit --device, --adapter and --raid"
    } else if all(&|missed| !is_late(missed)) {
        "allow a lower --rate, or omit --device, --adapter and --raid"
    } else {
        "allow a longer --p99 or a lower --rate, or omit --device, --adapter and --raid"
    }
}
