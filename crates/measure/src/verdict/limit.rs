//! Judges whether a limiter above the device determined the rate. The limit of a control group can be read. The limit
//! of a hypervisor, a volume or a server shows only in the figures.
//!
//! A limiter that can't be read is recognised by its rate. The number of operations per interval varies less than that
//! of random arrivals, and the rate is closer to a round number than chance explains. The accepted probability of a
//! chance match depends on how much latencies vary: see [`CHANCE_MAX_WAITS`] and [`CHANCE_MAX_ALIKE`].

use super::{Level, Say};
use crate::cell::Cell;
use crate::conditions::IoLimit;
use crate::interval::Interval;
use crate::stationarity::Stationarity;
use crate::statistics::describe;
use iodyno_units::{OpKind, human};

/// Fraction of a control group's limit from which the limit counts as reached.
const REACHED_SHARE: f64 = 0.9;
/// Fraction of the offered rate from which an open loop counts as limited by its schedule alone.
const MET_SHARE: f64 = 0.98;
/// Minimum number of intervals for judging the spread of their rates.
const INTERVALS_MIN: usize = 10;
/// Maximum variance of the operations per interval that suggests a limiter, as a fraction of their mean. For random
/// counts the fraction would be 1.
const DISPERSION_MAX: f64 = 0.15;
/// Maximum standard deviation of a rate that suggests a limiter, as a fraction of the rate.
const DEVIATION_SHARE_MAX: f64 = 0.03;
/// Minimum ratio of mean to shortest latency for concluding that a limiter delays some operations more than
/// others.
const WAIT_FACTOR_MIN: f64 = 5.0;
/// Minimum ratio of mean to shortest latency for concluding that all operations queue for a limiter. In a device's own
/// pipeline, latencies hardly vary. Below [`WAIT_FACTOR_MIN`], a round rate is the only other evidence.
const ALIKE_FACTOR_MIN: f64 = 1.25;
/// Minimum number of operations in flight for a queue to exist.
const QUEUE_OIO_MIN: f64 = 2.0;
/// Maximum accepted probability of a chance match with a round number, if latencies vary widely.
const CHANCE_MAX_WAITS: f64 = 0.02;
/// Maximum accepted probability of a chance match with a round number, if latencies vary little.
const CHANCE_MAX_ALIKE: f64 = 0.008;
/// Maximum deviation of a rate from a round number, as a fraction of that number.
const ROUND_SHARE_MAX: f64 = 0.005;
/// Leading digits of common limits, each with its fraction of the accepted probability of a chance match.
/// Rounder numbers have larger fractions, so that a rate may deviate more from them. The fractions add up to
/// 1.
const ROUND: [(f64, f64); 15] = [
    (1.0, 0.16),
    (2.0, 0.16),
    (5.0, 0.16),
    (1.5, 0.06),
    (2.5, 0.06),
    (3.0, 0.06),
    (4.0, 0.06),
    (6.0, 0.06),
    (7.5, 0.06),
    (8.0, 0.06),
    (1.2, 0.02),
    (1.25, 0.02),
    (1.28, 0.02),
    (1.6, 0.02),
    (6.4, 0.02),
];
/// Size up to which cloud volumes count an operation once, bytes. Larger operations count once per started
/// 256 KiB.
const COUNTED_BYTES: f64 = 262_144.0;

/// An external limit that determined a cell's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSeen {
    /// Rate of the cell, operations per second.
    pub iops: f64,
    /// Description of the limit, with its source or the evidence for it.
    pub words: String,
    /// Whether the limit was read from the kernel; otherwise it was inferred from the figures.
    pub is_read: bool,
}

/// Returns the external limit that determined a cell's rate; None if no limit is known or inferred. Includes inferred
/// limits of a method's cells, which the verdicts omit.
pub fn limit_seen(cell: &Cell) -> Option<LimitSeen> {
    let total = cell.total();
    let iops = cell.per_second(total.ops() as f64);
    let seen = |words, is_read| LimitSeen { iops, words, is_read };
    if let Some(words) = reached(cell, &total) {
        return Some(seen(words, true));
    }
    let e = &cell.evidence;
    let is_met = cell.key.offered_iops.is_some_and(|rate| iops >= MET_SHARE * rate);
    // Emulated devices have only limits of their own; a schedule that was kept, and a trace, determine the rate
    // themselves.
    if is_met || e.trace.is_some() || e.virtual_time || e.emulated_live || e.in_process {
        return None;
    }
    fingerprint(cell, &total).map(|words| seen(words, false))
}

/// Reports an external limit, such as that of a control group, that determined the rate instead of the
/// device.
pub(super) fn limit(cell: &Cell, say: &mut Say) {
    let Some(LimitSeen { words, is_read, .. }) = limit_seen(cell) else { return };
    if is_read {
        say(
            "LIMITED",
            Level::Warning,
            format!(
                "a limit determines the rate, not the device: {words}; latencies consist mostly of waiting for the limit; lift the limit, or measure outside this control group"
            ),
        );
    } else if cell.key.place.is_none() && cell.key.offered_iops.is_none() {
        // A method's findings report it once, and a missed rate has a verdict of its own.
        say(
            "LIMITED",
            Level::Warning,
            format!(
                "a limit above the device, such as a hypervisor's or a volume's, seems to determine the rate: {words}; check the limits of the volume, the virtual disk or the server"
            ),
        );
    }
}

/// Describes the limit of a control group (cgroup) that the cell reached; None if it reached none.
fn reached(cell: &Cell, total: &Interval) -> Option<String> {
    let limits = cell.evidence.conditions.as_ref().map_or(&[][..], |c| &c.io_limits);
    let shares = limits.iter().map(|limit| (limit, share_of(cell, total, limit)));
    let (limit, share) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share >= REACHED_SHARE).then(|| {
        format!(
            "{:.0} % of the {} {} that {} allows this process",
            share * 100.0,
            amount(limit.per_s as f64, limit.is_of_bytes),
            if limit.is_of_reads { "of reads" } else { "of writes" },
            limit.source
        )
    })
}

/// Rate of the cell as a fraction of a control group's limit.
fn share_of(cell: &Cell, total: &Interval, limit: &IoLimit) -> f64 {
    let kind = if limit.is_of_reads { OpKind::Read } else { OpKind::Write };
    let amount = total
        .class(kind)
        .map_or(0, |class| if limit.is_of_bytes { class.bytes } else { class.ops() });
    cell.per_second(amount as f64) / limit.per_s.max(1) as f64
}

fn amount(per_s: f64, is_of_bytes: bool) -> String {
    if is_of_bytes { human::throughput(per_s) } else { format!("{}/s", human::count(per_s)) }
}

/// Infers a limiter from the figures: the rate is close to a round number and much steadier than random counts. None if
/// the figures do not suggest a limiter.
fn fingerprint(cell: &Cell, total: &Interval) -> Option<String> {
    let (interval_ns, rates) = cell.rates_iops();
    let of = Stationarity::of(cell);
    // After a burst has ended, the rest shows the limiter's long-term rate.
    let first = of.shift.and_then(|shift| shift.at_ns).map_or(0, |at| at.div_ceil(interval_ns) + 1);
    let rates = rates.get(first as usize..)?;
    if rates.len() < INTERVALS_MIN {
        return None;
    }
    // A limiter lets a target catch up, so its rate is more even over longer times.
    let each = rates.len() / INTERVALS_MIN;
    let seconds = (interval_ns * each as u64) as f64 / 1e9;
    let groups: Vec<f64> = rates.chunks_exact(each).map(describe::mean).collect();
    let (mean, deviation) = (describe::mean(rates), describe::deviation(&groups));
    let dispersion = deviation.powi(2) * seconds / mean.max(f64::MIN_POSITIVE);
    if mean <= 0.0 || dispersion > DISPERSION_MAX || deviation > DEVIATION_SHARE_MAX * mean {
        return None;
    }
    let data = [OpKind::Read, OpKind::Write].into_iter().filter_map(|kind| total.class(kind));
    let (fastest_ns, mean_ns) = data
        .filter_map(|class| Some((class.service.min_ns()? as f64, class.service.mean_ns()?)))
        .max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    let factor = mean_ns / fastest_ns.max(1.0);
    let (oio, even) = (cell.oio_mean(), 100.0 * deviation / mean);
    let (chance_max, waits) = if factor >= WAIT_FACTOR_MIN {
        let waits = format!("the mean latency was {factor:.0} times the lowest");
        (CHANCE_MAX_WAITS, waits)
    } else if factor >= ALIKE_FACTOR_MIN && oio >= QUEUE_OIO_MIN {
        (CHANCE_MAX_ALIKE, format!("{oio:.0} operations waited in a queue"))
    } else {
        return None;
    };
    let ops = mean * (rates.len() as u64 * interval_ns) as f64 / 1e9;
    let nearest = round_rate(mean, total.bytes() as f64 / total.ops().max(1) as f64, ops);
    let (words, chance) = nearest.filter(|(_, chance)| *chance <= chance_max)?;
    Some(format!(
        "{words}, constant to within {even:.1} % and close to a round number (by chance only 1 in {:.0} rates is as close), while {waits}",
        1.0 / chance
    ))
}

/// Finds the scale, such as IOPS or MiB/s, on which a rate is closest to a round number. Returns its
/// description, and the probability of a match this close by chance. `ops`, the number of operations counted,
/// limits the resolution.
fn round_rate(iops: f64, bytes_per_op: f64, ops: f64) -> Option<(String, f64)> {
    let bytes_per_s = iops * bytes_per_op;
    let counted = (bytes_per_op / COUNTED_BYTES).ceil();
    let mut scales = vec![
        (amount(iops, false), iops),
        (amount(bytes_per_s, true), bytes_per_s),
        (format!("{} MiB/s", human::three_digits(bytes_per_s / MIB)), bytes_per_s / MIB),
    ];
    if counted > 1.0 {
        let words = format!("{} IOPS of up to 256 KiB each", human::count(iops * counted));
        scales.push((words, iops * counted));
    }
    let n = scales.len() as f64;
    let chances = scales.into_iter().map(|(words, rate)| (words, n * chance(rate, ops)));
    chances.min_by(|a, b| a.1.total_cmp(&b.1))
}

const MIB: f64 = 1_048_576.0;

/// Probability that a rate is as near to a round number by chance, weighted by the roundness of the number; 1 if no
/// round number is near.
fn chance(rate: f64, ops: f64) -> f64 {
    let digits = rate / 10_f64.powf(rate.log10().floor());
    let of_number = |&(round, share): &(f64, f64)| {
        // 9.99 is near to 10.
        let distance = (digits / round - 1.0).abs().min((digits / (10.0 * round) - 1.0).abs());
        let distance = distance.max(1.0 / ops.max(1.0));
        if distance > ROUND_SHARE_MAX {
            1.0
        } else {
            2.0 * distance / (std::f64::consts::LN_10 * share)
        }
    };
    ROUND.iter().map(of_number).fold(1.0, f64::min)
}
