//! Judges whether the offered rate was met, whether iodyno itself limited the rate, and whether completion timestamps
//! are precise enough.

use super::{Level, Say};
use crate::cell::Cell;
use crate::histogram::Histogram;
use crate::interval::Interval;
use crate::offered_rate::{BACKLOG_SHARE_MAX, RATE_SHARE_MIN, RateMet, rate_met};
use iodyno_units::human;

/// Rate, as a fraction of the generator's maximum, above which a cell measures the generator rather than the storage.
const CEILING_SHARE_MAX: f64 = 0.8;
/// Delay after the intended start from which a submission is late, ns.
const LATE_NS: u64 = 1_000_000;
/// CPU utilisation of a worker above which it cannot reap completions promptly.
const BUSY_SHARE_MAX: f64 = 0.95;
/// CPU utilisation of a worker above which it is not judged. More than 1 core arises only in a very short window, since
/// most of the worker's time is then outside the window.
const BUSIEST_SHARE_MAX: f64 = 1.05;
/// Uncertainty of completion stamps, as a fraction of the median latency, from which it is reported.
const STAMP_SHARE_MAX: f64 = 0.1;

/// Reports whether a message log persisted messages at the offered rate.
fn messages(cell: &Cell, say: &mut Say) {
    let Some(log) = &cell.log else { return };
    let Some(rate_per_s) = log.rate_per_s.filter(|rate| rate * cell.seconds() >= 1.0) else {
        return;
    };
    let achieved_per_s = cell.per_second(log.messages as f64);
    let waiting =
        log.backlog_end as f64 > (BACKLOG_SHARE_MAX * rate_per_s * cell.seconds()).max(1e4);
    let offered = human::count(rate_per_s);
    if achieved_per_s < RATE_SHARE_MIN * rate_per_s || waiting || log.dropped > 0 {
        let lost = match log.dropped {
            0 => format!(
                "{} were due but not persisted at the end",
                human::count(log.backlog_end as f64)
            ),
            n => format!("publishers dropped {}", human::count(n as f64)),
        };
        say(
            "RATE_MISSED",
            Level::Warning,
            format!(
                "{} of the {offered} messages/s offered were persisted, and {lost}: the target does not sustain this rate, so the times to persist grow with the length of the run; lower --rate",
                human::count(achieved_per_s)
            ),
        );
    } else {
        let p99 = log.persist.supported_quantile_ns(0.99);
        let p99 = p99.map_or(String::new(), |ns| format!("; p99 {}", human::time_ns(ns as f64)));
        say(
            "RATE_MET",
            Level::Note,
            format!("all of the {offered} messages/s offered were persisted{p99}"),
        );
    }
}

/// Reports limits of the load generator.
pub(super) fn generator(cell: &Cell, total: &Interval, say: &mut Say) {
    messages(cell, say);
    offered_rate(cell, total, say);
    own_limits(cell, total, say);
    coarse_stamps(cell, total, say);
}

/// Whether the cell tries a rate in a search, where a missed rate is an answer.
pub(super) fn is_trial(cell: &Cell) -> bool {
    cell.key.place.as_ref().is_some_and(|place| place.is_trial)
}

/// Reports whether the offered rate was met.
fn offered_rate(cell: &Cell, total: &Interval, say: &mut Say) {
    let (Some(met), Some(offered)) = (rate_met(cell), cell.key.offered_iops) else { return };
    let (iops, offered) =
        (human::count(cell.per_second(total.ops() as f64)), human::count(offered));
    let is_replay = cell.evidence.trace.is_some();
    let missed = match met {
        RateMet::No => format!("{} operations were overdue at the end", cell.backlog_ops),
        RateMet::QueueGrew(start_ns, end_ns) => format!(
            "response times grew evenly from {} to {}",
            human::time_ns(start_ns),
            human::time_ns(end_ns)
        ),
        RateMet::Yes | RateMet::FewerDue => {
            let response = total.iter().find_map(|(_, c)| c.response.as_ref());
            let Some(response) = response else { return };
            let p99 = response.supported_quantile_ns(0.99);
            let p99 = p99
                .map_or(String::new(), |v| format!("; response p99 {}", human::time_ns(v as f64)));
            let by_chance = if met == RateMet::FewerDue {
                format!(" (arrivals are random: only {iops}/s were due, and all were completed)")
            } else {
                String::new()
            };
            let text = if is_replay {
                let late = late_words(cell);
                format!(
                    "the trace was replayed at its original times, {offered}/s on average{late}{p99}"
                )
            } else {
                format!("the rate of {offered}/s was met{by_chance}{p99}")
            };
            say("RATE_MET", Level::Note, text);
            return;
        }
    };
    let does = format!("{iops}/s of the {offered}/s offered were completed, and {missed}");
    if is_trial(cell) {
        say("RATE_MISSED", Level::Note, format!("{does}: this rate is too high for the target"));
        return;
    }
    let remedy = if is_replay {
        "replay the trace more slowly, such as with --speed 0.5"
    } else {
        "lower --rate, or search the highest sustained rate with --find-rate"
    };
    say(
        "RATE_MISSED",
        Level::Warning,
        format!(
            "{does}: the target does not sustain this rate, so response times grow with the length of the run; {remedy}"
        ),
    );
}

/// Reports cells whose rate was limited by the load generator or its processors.
fn own_limits(cell: &Cell, total: &Interval, say: &mut Say) {
    let iops = cell.per_second(total.ops() as f64);
    let in_process = cell.evidence.in_process;
    let is_memory = in_process || cell.evidence.is_memory();
    if let Some(ceiling) = cell.evidence.generator_ceiling_iops
        && ceiling > 0.0
        && iops > CEILING_SHARE_MAX * ceiling
    {
        let level = if is_memory { Level::Note } else { Level::Warning };
        say(
            "GENERATOR_BOUND",
            level,
            if iops > ceiling {
                format!(
                    "{}/s is more than the {}/s that iodyno itself reached on the null engine just before, so the null engine's run was disturbed: the generator, not the target, may limit the rate; use more --threads, on a quieter machine",
                    human::count(iops),
                    human::count(ceiling)
                )
            } else {
                format!(
                    "{}/s is {:.0} % of the rate that iodyno itself reaches on the null engine ({}/s): the generator limits the rate, not the target; use more --threads",
                    human::count(iops),
                    100.0 * iops / ceiling,
                    human::count(ceiling)
                )
            },
        );
    }
    let busiest = cell.resources.busiest_share(cell.window_ns);
    // In a very short window most of a worker's time is outside it.
    let is_short = busiest > BUSIEST_SHARE_MAX;
    if !in_process
        && !is_short
        && busiest > BUSY_SHARE_MAX
        && cell.key.depth > 1
        && cell.window_ns > 0
    {
        say(
            "CPU_BOUND",
            Level::Note,
            format!(
                "a worker used {:.0} % of its core: latencies include waiting for that core; more --threads may be faster",
                busiest * 100.0
            ),
        );
    }
    if u64::from(cell.evidence.cpus) < cell.resources.cpu_user_ns.len() as u64
        && cell.evidence.cpus > 0
        && busiest > 0.5
    {
        say(
            "MORE_WORKERS_THAN_CPUS",
            Level::Note,
            format!(
                "{} workers shared {}: latencies include waiting for a processor",
                cell.resources.cpu_user_ns.len(),
                human::counted(cell.evidence.cpus.into(), "processor")
            ),
        );
    }
}

fn late_words(cell: &Cell) -> String {
    let Some(lateness) = cell.lateness.as_ref().filter(|l| l.count() > 0) else {
        return String::new();
    };
    let time = |ns: u64| human::time_ns(ns as f64);
    let quantiles = [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(|(name, q)| {
        Some(format!("{name} {}", time(lateness.supported_quantile_ns(q)?)))
    });
    let max = lateness.max_ns().map(|ns| format!("at most {}", time(ns)));
    format!("; submission lateness {}", quantiles.chain(max).collect::<Vec<_>>().join(", "))
}

/// Number of operations that were submitted late. Late operations are counted because a percentile of
/// lateness would need more operations than a slow rate yields.
pub(super) fn late_count(lateness: &Histogram) -> u64 {
    lateness.buckets().filter(|b| b.low_ns > LATE_NS).map(|b| b.count).sum()
}

/// Fraction (0 to 1) of operations that were submitted late.
pub(crate) fn late_share(lateness: &Histogram) -> f64 {
    late_count(lateness) as f64 / lateness.count().max(1) as f64
}

fn coarse_stamps(cell: &Cell, total: &Interval, say: &mut Say) {
    let Some(span) = cell.stamps.span_mean_ns() else {
        return;
    };
    let median = total.iter().filter_map(|(_, c)| c.service.quantile_ns(0.5)).min().unwrap_or(0);
    if cell.stamps.completions > cell.stamps.reaps
        && span > STAMP_SHARE_MAX * median as f64
        && span > 100.0
    {
        say(
            "COARSE_STAMPS",
            Level::Note,
            format!(
                "completions were reaped {:.1} at a time, so their timestamps are late, by at most {} on average and {} in the worst case",
                cell.stamps.completions as f64 / cell.stamps.reaps.max(1) as f64,
                human::time_ns(span),
                human::time_ns(cell.stamps.span_max_ns as f64)
            ),
        );
    }
}
