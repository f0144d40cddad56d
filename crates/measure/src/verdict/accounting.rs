//! Do the numbers agree with each other?

use super::{Level, Say};
use crate::cell::{Cell, Ended};
use crate::interval::Interval;

/// Little's law may be off by this share before it is called broken. It is an identity of what was
/// counted, so only a fault can break it.
const LITTLE_TOLERANCE: f64 = 0.001;

/// The fast clock may be off by this share, ...
const CLOCK_PPM_MAX: f64 = 500.0;
/// ... or by this long, ns: between the readings of two clocks an interrupt may fall.
const CLOCK_NS_MAX: f64 = 50_000.0;

/// Do the numbers agree with each other?
pub(super) fn accounting(cell: &Cell, total: &Interval, say: &mut Say) {
    let summed_ns: f64 = total.iter().map(|(_, c)| c.service.sum_ns() as f64).sum();
    let area_ns = cell.resources.outstanding_area_ns as f64;
    let whole = matches!(cell.ended, Ended::Time | Ended::Ops | Ended::Bytes | Ended::Settled);
    if total.ops() > 0 && total.errors().total() == 0 && area_ns > 0.0 && whole {
        // Exact, once what was in flight at either end of the window is put in its place.
        let carried_ns = cell.resources.carried_out_ns - cell.resources.carried_in_ns;
        let balanced_ns = summed_ns + carried_ns as f64;
        if (balanced_ns - area_ns).abs() > LITTLE_TOLERANCE * area_ns {
            say(
                "LITTLES_LAW_BROKEN",
                Level::Invalid,
                format!(
                    "throughput × latency gives {:.2} I/Os in flight, {:.2} were counted: this is a fault of iodyno, please report it",
                    balanced_ns / cell.window_ns.max(1) as f64,
                    cell.oio_mean()
                ),
            );
        }
    }
    if let Some(ppm) = cell.evidence.clock_error_ppm
        && ppm.abs() > CLOCK_PPM_MAX
        && ppm.abs() / 1e6 * cell.window_ns as f64 > CLOCK_NS_MAX
    {
        say(
            "CLOCK",
            Level::Warning,
            format!(
                "the fast clock was off by {ppm:.0} parts in a million from the system's; use --system-clock"
            ),
        );
    }
}
