//! Whether something above the device set the rate: a limit of a control group, which can be read, or one of a hypervisor, a
//! volume or a server, which shows in the figures alone. What waits for such a limit does not wait for the device.

use super::{Level, Say};
use crate::cell::Cell;
use crate::conditions::IoLimit;
use crate::interval::Interval;
use crate::stationarity::Stationarity;
use crate::statistics::describe;
use iodyno_units::{OpKind, human};

/// A limit is reached from this share of it on.
const REACHED_SHARE: f64 = 0.9;
/// Fewer intervals have no spread.
const INTERVALS_MIN: usize = 10;
/// Operations of an interval that are counted at random have a variance of their mean. A limiter counts: its variance is at
/// most this share of the mean.
const DISPERSION_MAX: f64 = 0.15;
/// And its rate deviates by at most this share.
const DEVIATION_SHARE_MAX: f64 = 0.03;
/// Operations wait for a limiter this many times as long as the fastest took.
const WAIT_FACTOR_MIN: f64 = 5.0;
/// Limits are round numbers; a rate this near to one is one.
const ROUND_SHARE: f64 = 0.005;
/// The first digits of limits that people set and volumes have.
const ROUND: [f64; 15] =
    [1.0, 1.2, 1.25, 1.28, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 6.4, 7.5, 8.0];

/// Limits from outside.
pub(super) fn limit(cell: &Cell, total: &Interval, say: &mut Say) {
    let limits = cell.evidence.conditions.as_ref().map_or(&[][..], |c| &c.io_limits);
    let reached = limits.iter().map(|limit| (limit, share_of(cell, total, limit)));
    let worst = reached.max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((limit, share)) = worst.filter(|(_, share)| *share >= REACHED_SHARE) {
        say(
            "LIMITED",
            Level::Warning,
            format!(
                "the rate is that of a limit, not of the device: {:.0} % of the {} {} that {} allows this process; latencies are waits for it; lift the limit, or measure outside of this control group",
                share * 100.0,
                amount(limit.per_s as f64, limit.is_of_bytes),
                if limit.is_of_reads { "of reads" } else { "of writes" },
                limit.source
            ),
        );
        return;
    }
    let e = &cell.evidence;
    // In an open loop the schedule sets the rate. Emulated devices have no limit that is not their own.
    let is_closed = cell.key.offered_iops.is_none() && e.trace.is_none();
    if !is_closed || e.virtual_time || e.emulated_live || e.in_process || cell.key.place.is_some() {
        return;
    }
    if let Some(words) = fingerprint(cell, total) {
        say(
            "LIMITED",
            Level::Warning,
            format!(
                "the rate looks like a limit above the device, such as a hypervisor's or a volume's: {words}; look for the limit of the volume, the virtual disk or the server"
            ),
        );
    }
}

/// What a cell reached of a limit, as a share.
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

/// What a limiter leaves in the figures: a round rate that is far more even than operations that wait so differently could
/// be by themselves.
fn fingerprint(cell: &Cell, total: &Interval) -> Option<String> {
    let (interval_ns, rates) = cell.rates_iops();
    let of = Stationarity::of(cell);
    // After a burst that ended, what the limiter allows in the long run.
    let first = of.shift.and_then(|shift| shift.at_ns).map_or(0, |at| at.div_ceil(interval_ns) + 1);
    let rates = rates.get(first as usize..)?;
    if rates.len() < INTERVALS_MIN {
        return None;
    }
    // A limiter lets a target catch up: over longer times its rate is the more even.
    let each = rates.len() / INTERVALS_MIN;
    let seconds = (interval_ns * each as u64) as f64 / 1e9;
    let rates: Vec<f64> = rates.chunks_exact(each).map(describe::mean).collect();
    let (mean, deviation) = (describe::mean(&rates), describe::deviation(&rates));
    let dispersion = deviation.powi(2) * seconds / mean.max(f64::MIN_POSITIVE);
    if mean <= 0.0 || dispersion > DISPERSION_MAX || deviation > DEVIATION_SHARE_MAX * mean {
        return None;
    }
    let data = [OpKind::Read, OpKind::Write].into_iter().filter_map(|kind| total.class(kind));
    let (fastest_ns, mean_ns) = data
        .filter_map(|class| Some((class.service.min_ns()? as f64, class.service.mean_ns()?)))
        .max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    let factor = mean_ns / fastest_ns.max(1.0);
    if factor < WAIT_FACTOR_MIN {
        return None;
    }
    let bytes_per_s = mean * total.bytes() as f64 / total.ops().max(1) as f64;
    let what = if is_round(mean) {
        amount(mean, false)
    } else if is_round(bytes_per_s) || is_round(bytes_per_s / 1.048_576) {
        amount(bytes_per_s, true)
    } else {
        return None;
    };
    Some(format!(
        "{what}, even to {:.1} %, while operations took {factor:.0} times as long as the fastest on average",
        100.0 * deviation / mean
    ))
}

/// Whether a rate is a number that people set as a limit.
fn is_round(rate: f64) -> bool {
    let digits = rate / 10_f64.powf(rate.log10().floor());
    ROUND.iter().chain(&[10.0]).any(|round| (digits / round - 1.0).abs() <= ROUND_SHARE)
}
