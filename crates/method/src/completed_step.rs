//! Completed steps of a method, with the results on which later steps depend.

use iodyno_measure::metric::Quantity;
use iodyno_measure::offered_rate::{RateMet, rate_met};
use iodyno_measure::{Cell, Histogram, Level, Place, Role, Summary};
use iodyno_units::OpKind;

/// A completed step of a method, with its results.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// Stage, round and point of the step.
    pub place: Place,
    /// Results of the step; `None` if the step is a skipped measurement, or if the results are not known.
    pub figures: Option<Figures>,
}

impl Done {
    /// Converts a stored cell (one measurement) to a completed step; `None` for a cell outside a method.
    pub fn of(cell: &Cell) -> Option<Self> {
        let place = cell.key.place.clone()?;
        let measured = place.role == Role::Measure && !cell.is_skipped();
        let figures = (measured || place.role == Role::Prepare).then(|| Figures::of(cell));
        Some(Self { place, figures })
    }
}

/// Results of one cell (measurement). A method decides its next steps from these results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Rates and latencies of the measurement.
    pub summary: Summary,
    /// Bytes written by the measurement, including an estimate for the ramp.
    pub written_bytes: u64,
    /// Length of the target's active range, bytes; 0 if unknown.
    pub active_bytes: u64,
    /// Length of the measured window, ns.
    pub window_ns: u64,
    /// Outstanding operations of all workers of a target: threads × depth in closed loop, the measured mean in
    /// open loop.
    pub oio: f64,
    /// Offered operations per second of all targets together; `None` in closed loop.
    pub offered_iops: Option<f64>,
    /// Whether the targets kept up with the offered rate; false in closed loop.
    pub is_rate_met: bool,
    /// Number of targets used at the same time; 0 counts as 1.
    pub targets: u32,
    /// Whether the figures may be used: no verdict of the cell has the level `Invalid`.
    pub sound: bool,
}

impl Figures {
    /// Computes rates and latency statistics of a measured cell.
    pub fn of(cell: &Cell) -> Self {
        let summary = Summary::of(cell);
        let written = summary.kinds.iter().find(|of| of.kind == OpKind::Write);
        let (measured_bytes, all_bytes) = (written.map_or(0, |of| of.bytes), summary.bytes);
        // Writes during the ramp wear the device, too. They are estimated from the bytes moved in ramp and window, with
        // the share of writes in the window.
        let written_share =
            if all_bytes == 0 { 0.0 } else { measured_bytes as f64 / all_bytes as f64 };
        let moved = cell.resources.moved_bytes.max(all_bytes);
        Self {
            summary,
            written_bytes: (moved as f64 * written_share) as u64,
            active_bytes: cell.evidence.active_bytes,
            window_ns: cell.window_ns,
            // In an open loop the depth is only a cap.
            oio: match cell.key.offered_iops {
                Some(_) => cell.oio_mean(),
                None => f64::from(cell.key.threads) * f64::from(cell.key.depth),
            },
            offered_iops: cell.key.offered_iops,
            is_rate_met: rate_met(cell).is_some_and(RateMet::is_met),
            targets: cell.key.targets(),
            sound: cell.level() < Some(Level::Invalid),
        }
    }

    /// Divides a combined rate of all targets by their number.
    pub(crate) fn each_target(&self, rate_iops: f64) -> f64 {
        rate_iops / f64::from(self.targets.max(1))
    }

    /// Value of a quantity over all kinds of operation; `None` with too few samples.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.summary.get(quantity)
    }
}

/// Merged response times of several cells.
pub(crate) fn response_time(of: &[&Figures]) -> Histogram {
    let mut all = Histogram::default();
    for figures in of {
        all.merge(&figures.summary.response_time);
    }
    all
}
