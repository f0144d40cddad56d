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
    let Some(highest) = &row.highest else { return "unknown".to_owned() };
    let assumed = decisive::assumed(of, &highest.binds);
    let which = if highest.is_saturated { "limiting" } else { "busiest" };
    let resource = format!("{which} resource ({})", highest.binds);
    if assumed.is_empty() {
        return format!("no parameter of the {resource} is assumed");
    }
    format!("parameters of the {resource}: {}; other values change the answer", assumed.join(", "))
}

pub(crate) fn of_words(limit: &Limit) -> &'static str {
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
