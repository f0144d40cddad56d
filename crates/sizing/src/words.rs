//! Describes the evidence for the recommended system in words: its confirmation, limits, lifetime, and assumed
//! parameters.

use crate::candidate::Candidate;
use crate::decisive;
use crate::demand::{Demand, Limit};
use crate::row::Row;
use crate::search::Count;
use crate::simulate::Measured;
use crate::sizing::Sizing;
use iodyno_emulate::spec;
use iodyno_run::explain::percent;
use iodyno_units::text::for_shell;
use iodyno_units::{OpKind, human};
use iodyno_workload::MAX_DEPTH;

/// Describes a limit on response times, such as `p99 of writes within 500 µs`.
pub(crate) fn limit_in_words(limit: &Limit) -> String {
    let of = of_words(limit);
    format!("{}{of} within {}", limit.tail.word(), human::time_ns(limit.ns as f64))
}

/// Lists the percentiles that the demand limits in addition to p99: measured value and limit of each.
pub(crate) fn limits_in_words(demand: &Demand, measured: &Measured) -> String {
    let one = |limit: &Limit| {
        let of = of_words(limit);
        let ns = measured.tail_ns(limit).map_or("unknown".to_owned(), human::time_ns);
        format!("{}{of} {ns} of {}", limit.tail.word(), human::time_ns(limit.ns as f64))
    };
    demand.limits.iter().map(one).collect::<Vec<_>>().join(", ")
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

/// Explains why a system did not meet the demand in a trial.
fn outcome_in_words(measured: &Measured, share_iops: f64, demand: &Demand) -> String {
    let p99 = measured.p99_ns.map_or("unknown".to_owned(), human::time_ns);
    if let Some(store) = &measured.fills {
        return format!("does not sustain the rate: the {store} fills, p99 {p99} so far");
    }
    if measured.iops < 0.97 * share_iops {
        let share = (measured.iops / share_iops * 100.0).round();
        return format!("sustains only {share} % of the rate, p99 {p99}");
    }
    if measured.p99_ns.is_some_and(|ns| ns <= demand.p99_ns as f64) && demand.limits.is_empty() {
        let binds = measured
            .binds()
            .map_or(String::new(), |s| format!(": {} busy for {}", s.name, percent(s.busy)));
        return format!("does not sustain the rate{binds}, p99 {p99}");
    }
    format!("does not meet the limit, p99 {p99}")
}

/// Describes the lifetime of flash devices.
pub(crate) fn life_in_words(sizing: &Sizing, row: &Row) -> String {
    let of = &sizing.candidates[row.candidate];
    let Some(life) = row.life else {
        return match &of.device.device.kind {
            spec::Kind::Flash(_) if sizing.demand.write_share() == 0.0 => {
                "nothing is written".to_owned()
            }
            _ => format!(
                "the device file of {} gives no endurance, so the life is unknown",
                of.device_name
            ),
        };
    };
    let (written, rated) = life.drive_writes_per_day;
    let all_arrays = row.count.units * row.count.arrays;
    let decides = if all_arrays > life.arrays_by_rate {
        let devices = human::counted((life.arrays_by_rate * of.members).into(), "device");
        format!(
            "; the rate alone needs {devices}, the others extend the life (--life 0 ignores the life)"
        )
    } else {
        String::new()
    };
    format!(
        "{} years: {} drive writes a day (rated: {}), write amplification {:.2} by the model{decides}",
        human::three_digits(life.years),
        human::three_digits(written),
        human::three_digits(rated),
        life.write_amplification
    )
}

/// Command line that simulates the recommended system at the requested rate.
pub(crate) fn run_in_words(sizing: &Sizing, row: &Row) -> String {
    let of = &sizing.candidates[row.candidate];
    let arrays = f64::from(row.count.units * row.count.arrays);
    format!(
        "iodyno run {} --on {} --rate {:.0}/s --time 10s",
        work_in_words(&sizing.demand),
        for_shell(&of.target(row.count.arrays)),
        sizing.demand.rate_iops / arrays
    )
}

/// Workload of a `run` command that issues the demand's operations: a name or path, and for a message log the flags
/// that change the catalog's log workload.
pub(crate) fn work_in_words(demand: &Demand) -> String {
    let Some(log) = &demand.log else { return for_shell(&demand.name) };
    let (reads, writes) = (log.reads_per_s(), log.writes_per_s());
    let work = if reads > 0.0 {
        let percent = (reads / (reads + writes) * 1e4).round() / 1e2;
        format!("log-80-20 --read {percent}%")
    } else {
        "log-write".to_owned()
    };
    // The catalog's depth of 1 would bound the rate.
    let in_flight = (demand.rate_iops * demand.longest_ns() as f64 / 1e9).ceil() as u32;
    let depth = in_flight.clamp(64, MAX_DEPTH);
    format!("{work} --block {} --dsync --depth {depth}", human::exact_size(log.chunk_bytes))
}

/// Lists the bottleneck's parameters that are assumptions without a source.
pub(crate) fn assumed_in_words(sizing: &Sizing, row: &Row) -> String {
    let of = &sizing.candidates[row.candidate];
    let binds = row.highest.as_ref().map_or("", |highest| highest.binds.as_str());
    let assumed = decisive::assumed(of, binds);
    if assumed.is_empty() {
        return format!("no parameter of the limiting resource ({binds}) is assumed");
    }
    format!(
        "parameters of the limiting resource ({binds}): {}; other values change the answer",
        assumed.join(", ")
    )
}

fn of_words(limit: &Limit) -> &'static str {
    match limit.of {
        Some(OpKind::Read) => " of reads",
        Some(_) => " of writes",
        None => "",
    }
}

/// Formats operations per second, such as `500 k/s`.
pub(crate) fn rate(iops: f64) -> String {
    format!("{}/s", human::count(iops))
}

/// Formats a capacity in decimal units, as drives are sold: `7.74 TB`.
pub(crate) fn tb(bytes: u64) -> String {
    let (value, unit) = match bytes as f64 {
        large if large >= 1e12 => (large / 1e12, "TB"),
        small => (small / 1e9, "GB"),
    };
    format!("{} {unit}", human::three_digits(value))
}

/// Describes number and name of systems: `2 × 57ce-gen3`.
pub(crate) fn systems(candidate: &Candidate, count: Count) -> String {
    if count.units == 1 {
        candidate.host.clone()
    } else {
        format!("{} × {}", count.units, candidate.host)
    }
}

/// Describes the arrays in all systems: `11 × RAID 5 of 3`.
pub(crate) fn arrays(candidate: &Candidate, count: Count) -> String {
    let all = count.arrays * count.units;
    format!("{all} × {} of {}", level(candidate), candidate.members)
}

/// Formats the RAID level for messages: `RAID 5`.
pub(crate) fn level(candidate: &Candidate) -> String {
    let word = candidate.level_word();
    word.strip_prefix("raid").map_or(word.to_owned(), |number| format!("RAID {number}"))
}

/// Formats the headroom above the requested rate: `+8 %`, `× 360`.
pub(crate) fn headroom(iops: f64, asked_iops: f64) -> String {
    let times = iops / asked_iops;
    if times >= 10.0 {
        return format!("× {}", human::count(times));
    }
    format!("+{:.0} %", ((times - 1.0) * 100.0).max(0.0))
}

/// Formats power in watts: `247 W`.
pub(crate) fn watts(w: f64) -> String {
    format!("{} W", human::three_digits(w))
}
