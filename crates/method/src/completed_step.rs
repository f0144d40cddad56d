//! A method's completed steps and the figures that its next steps depend on.

use iodyno_measure::metric::Quantity;
use iodyno_measure::{Cell, Histogram, Level, Place, Role, Summary};
use iodyno_units::OpKind;

/// One completed step: its place in the method, and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The step's place in the method.
    pub place: Place,
    /// Figures of its cell; None for a preparation, and for a cell that could not be issued.
    pub figures: Option<Figures>,
}

impl Done {
    /// The step of a stored cell. None for a cell of no method.
    pub fn of(cell: &Cell) -> Option<Self> {
        let place = cell.key.place.clone()?;
        let measured = place.role == Role::Measure && !cell.is_skipped();
        let figures = (measured || place.role == Role::Prepare).then(|| Figures::of(cell));
        Some(Self { place, figures })
    }
}

/// The figures of one cell: its summary, and what a method holds them against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Rates and latencies.
    pub summary: Summary,
    /// Bytes written, those of the ramp included where they are known.
    pub written_bytes: u64,
    /// Bytes of the target that operations went to; 0 where unknown.
    pub active_bytes: u64,
    /// The measured window, ns.
    pub window_ns: u64,
    /// Outstanding operations over all workers of a target: as requested in a closed loop, the
    /// measured mean in an open one.
    pub oio: u32,
    /// Offered operations a second, on all targets together; None in a closed loop.
    pub offered_iops: Option<f64>,
    /// The targets that worked at once; 0 is one.
    pub targets: u32,
    /// No verdict forbids their use.
    pub sound: bool,
}

impl Figures {
    /// The figures of a cell.
    pub fn of(cell: &Cell) -> Self {
        let summary = Summary::of(cell);
        let written = summary.kinds.iter().find(|of| of.kind == OpKind::Write);
        let (measured_bytes, all_bytes) = (written.map_or(0, |of| of.bytes), summary.bytes);
        // The ramp's writes count for wear: moved bytes, in the window's proportion.
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

    /// A rate of all targets together as the workload of each has it.
    pub(crate) fn each_target(&self, rate_iops: f64) -> f64 {
        rate_iops / f64::from(self.targets.max(1))
    }

    /// One figure, over all kinds of operation; None where the samples do not support it.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.summary.get(quantity)
    }
}

/// The latencies of several cells together.
pub(crate) fn response_time(of: &[&Figures]) -> Histogram {
    let mut all = Histogram::default();
    for figures in of {
        all.merge(&figures.summary.response_time);
    }
    all
}
