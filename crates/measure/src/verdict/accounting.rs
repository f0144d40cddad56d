//! Judges whether the figures of a cell contradict each other, for example by Little's law.

use super::generator::is_trial;
use super::{Level, Say};
use crate::cell::{Cell, Ended};
use crate::interval::Interval;
use crate::offered_rate::rate_met;
use iodyno_units::human;

/// Maximum relative deviation from Little's law. The counts satisfy the law exactly, so only a defect can
/// cause more.
const LITTLE_TOLERANCE: f64 = 0.001;

/// Maximum deviation of the timestamp clock from the system clock, parts per million. Reported only if
/// [`CLOCK_NS_MAX`] is exceeded too.
const CLOCK_PPM_MAX: f64 = 500.0;
/// Maximum deviation of the timestamp clock from the system clock, ns. Allows for an interrupt between the
/// readings of the two clocks.
const CLOCK_NS_MAX: f64 = 50_000.0;

/// Maximum fraction of the total time in flight that belongs to operations still in flight at the window's
/// end. If operations complete in order, the fraction is half the latency divided by the window's length.
const CARRIED_SHARE_MAX: f64 = 0.1;
/// Minimum number of operations per outstanding I/O in a cell that ends after a number of operations or
/// bytes.
const OPS_FOR_EACH_SLOT: u64 = 10;

/// Reports figures that exclude slow operations still in flight, or are dominated by the queue filling and
/// emptying.
fn censored(cell: &Cell, total: &Interval, say: &mut Say) {
    // The queue of a rate that is too high has to be long.
    if is_trial(cell) && rate_met(cell).is_some_and(|met| !met.is_met()) {
        return;
    }
    let resources = &cell.resources;
    let share = resources.carried_out_ns as f64 / resources.outstanding_area_ns.max(1) as f64;
    if cell.ended == Ended::Time && total.ops() > 0 && share > CARRIED_SHARE_MAX {
        // What is in flight at the end stays the same in a longer window.
        let needed_ns =
            (10.0 * latency_ns(cell, total)).max(share / CARRIED_SHARE_MAX * cell.window_ns as f64);
        say(
            "WINDOW_TOO_SHORT",
            Level::Warning,
            format!(
                "operations still in flight at the end of the window make up {:.0} % of the total time in flight, but their latencies are not counted: the figures favour fast operations; measure for at least {}, with a ramp of {}, or at a smaller depth",
                share * 100.0,
                human::duration_ns(round_up_s(needed_ns)),
                human::duration_ns(round_up_s(2.0 * latency_ns(cell, total)))
            ),
        );
    }
    let slots = u64::from(cell.key.threads) * u64::from(cell.key.depth);
    // A replay seldom fills its queue. It ends with its trace.
    let (slots, remedy) = if cell.evidence.trace.is_some() {
        (slots.min(cell.oio_mean().ceil() as u64), "replay more of the trace".to_owned())
    } else {
        let enough = OPS_FOR_EACH_SLOT * slots.max(3);
        (slots, format!("use --time, or at least --ops {enough}"))
    };
    let is_a_pass = cell.evidence.fill.is_some() || cell.evidence.verification.is_some();
    if matches!(cell.ended, Ended::Ops | Ended::Bytes)
        && (1..OPS_FOR_EACH_SLOT * slots.max(3)).contains(&total.ops())
        && cell.key.offered_iops.is_none()
        && !is_a_pass
    {
        say(
            "FEW_OPERATIONS",
            Level::Warning,
            format!(
                "only {} completed, with up to {slots} in flight: the rate is mostly that of the queue filling and emptying; {remedy}",
                human::counted(total.ops(), "operation")
            ),
        );
    }
}

/// Mean latency by Little's law, ns; it includes operations still in flight.
fn latency_ns(cell: &Cell, total: &Interval) -> f64 {
    cell.resources.outstanding_area_ns as f64 / total.ops().max(1) as f64
}

/// Rounds a duration in ns up to whole seconds, in ns.
fn round_up_s(ns: f64) -> u64 {
    (ns / 1e9).ceil() as u64 * 1_000_000_000
}

/// Reports figures that contradict each other.
pub(super) fn accounting(cell: &Cell, total: &Interval, say: &mut Say) {
    let summed_ns: f64 = total.iter().map(|(_, c)| c.service.sum_ns() as f64).sum();
    let area_ns = cell.resources.outstanding_area_ns as f64;
    let whole = matches!(cell.ended, Ended::Time | Ended::Ops | Ended::Bytes | Ended::Settled);
    if total.ops() > 0 && total.errors().total() == 0 && area_ns > 0.0 && whole {
        // Exact once operations in flight at both ends of the window are accounted for.
        let carried_ns = cell.resources.carried_out_ns - cell.resources.carried_in_ns;
        let balanced_ns = summed_ns + carried_ns as f64;
        if (balanced_ns - area_ns).abs() > LITTLE_TOLERANCE * area_ns {
            say(
                "LITTLES_LAW_BROKEN",
                Level::Invalid,
                format!(
                    "throughput × latency gives {:.2} I/Os in flight, but {:.2} were counted: this is a bug in iodyno, please report it",
                    balanced_ns / cell.window_ns.max(1) as f64,
                    cell.oio_mean()
                ),
            );
        }
    }
    censored(cell, total, say);
    if let Some(ppm) = cell.evidence.clock_error_ppm
        && ppm.abs() > CLOCK_PPM_MAX
        && ppm.abs() / 1e6 * cell.window_ns as f64 > CLOCK_NS_MAX
    {
        say(
            "CLOCK",
            Level::Warning,
            format!(
                "the processor's time counter differed by {ppm:.0} parts per million from the system clock; use --system-clock"
            ),
        );
    }
}
