//! A method's completed steps and the figures that its next steps depend on.

use iodyno_measure::metric::Quantity;
use iodyno_measure::{Cell, Histogram, Level, Place, Role, Summary};
use iodyno_units::OpKind;

/// A completed step.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The step's position in the method.
    pub place: Place,
    /// Figures of the cell; `None` if it was skipped, or if it counts as done without known results.
    pub figures: Option<Figures>,
}

impl Done {
    /// The step of a stored cell. `None` for a cell outside a method.
    pub fn of(cell: &Cell) -> Option<Self> {
        let place = cell.key.place.clone()?;
        let measured = place.role == Role::Measure && !cell.is_skipped();
        let figures = (measured || place.role == Role::Prepare).then(|| Figures::of(cell));
        Some(Self { place, figures })
    }
}

/// Figures of one cell: its summary, and the inputs of a method's decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Rates and latencies.
    pub summary: Summary,
    /// Bytes written, including those of the ramp if known.
    pub written_bytes: u64,
    /// Bytes of the target's active range; 0 if unknown.
    pub active_bytes: u64,
    /// Length of the measured window, ns.
    pub window_ns: u64,
    /// Outstanding operations over all workers of a target: the requested number in a closed loop,
    /// the measured mean in an open one.
    pub oio: u32,
    /// Offered operations per second, over all targets; `None` in a closed loop.
    pub offered_iops: Option<f64>,
    /// Number of targets that worked at once; 0 counts as one.
    pub targets: u32,
    /// Whether no verdict forbids the use of the figures.
    pub sound: bool,
}

impl Figures {
    /// Extracts the figures from a cell.
    pub fn of(cell: &Cell) -> Self {
        let summary = Summary::of(cell);
        let written = summary.kinds.iter().find(|of| of.kind == OpKind::Write);
        let (measured_bytes, all_bytes) = (written.map_or(0, |of| of.bytes), summary.bytes);
        // The ramp's writes count for wear: take the moved bytes in the window's proportion.
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
                Some(_) => cell.oio_mean().ceil() as u32,
                None => cell.key.threads.saturating_mul(cell.key.depth),
            },
            offered_iops: cell.key.offered_iops,
            targets: cell.key.targets(),
            sound: cell.level() < Some(Level::Invalid),
        }
    }

    /// Converts a rate of all targets to the rate of one.
    pub(crate) fn each_target(&self, rate_iops: f64) -> f64 {
        rate_iops / f64::from(self.targets.max(1))
    }

    /// Value of a quantity over all kinds of operation; `None` if the samples do not support it.
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
