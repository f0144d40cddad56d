//! A method's completed steps and the figures that its next steps depend on.

use iodyno_measure::metric::Quantity;
use iodyno_measure::{Cell, Histogram, Place, Role};
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

/// The figures of one cell, over all kinds of operation: means weighted by operations, percentiles from
/// the merged histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Operations a second.
    pub iops: f64,
    /// Bytes read and written a second.
    pub bytes_per_s: f64,
    /// Operations.
    pub ops: u64,
    /// Bytes written, those of the ramp included where they are known.
    pub written_bytes: u64,
    /// Bytes of the target that operations went to; 0 where unknown.
    pub active_bytes: u64,
    /// The measured window, ns.
    pub window_ns: u64,
    /// Outstanding operations over all workers of a target: as requested in a closed loop, the
    /// measured mean in an open one.
    pub oio: u32,
    /// No verdict forbids their use.
    pub sound: bool,
    /// Response times, as users of the storage observe them.
    pub response_time: Histogram,
}

impl Figures {
    /// The figures of a cell.
    pub fn of(cell: &Cell) -> Self {
        let total = cell.total();
        let response_time = total.response_time();
        let measured_bytes = total.class(OpKind::Write).map_or(0, |class| class.bytes);
        let all_bytes = total.bytes();
        // The ramp's writes count for wear: moved bytes, in the proportion of writes in the window.
        let written_share =
            if all_bytes == 0 { 0.0 } else { measured_bytes as f64 / all_bytes as f64 };
        let moved = cell.resources.moved_bytes.max(all_bytes);
        Self {
            iops: cell.per_second(total.ops() as f64),
            bytes_per_s: cell.per_second(all_bytes as f64),
            ops: total.ops(),
            written_bytes: (moved as f64 * written_share) as u64,
            active_bytes: cell.evidence.active_bytes,
            window_ns: cell.window_ns,
            // In an open loop the depth is only a cap.
            oio: match cell.key.offered_iops {
                Some(_) => cell.oio_mean().ceil() as u32,
                None => cell.key.threads.saturating_mul(cell.key.depth),
            },
            sound: cell.verdicts.iter().all(|v| v.level < iodyno_measure::Level::Invalid),
            response_time,
        }
    }

    /// One figure; None where the samples do not support it.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Iops => Some(self.iops),
            Quantity::Bandwidth => Some(self.bytes_per_s),
            Quantity::Mean => self.response_time.mean_ns(),
            Quantity::Max => self.response_time.max_ns().map(|ns| ns as f64),
            Quantity::Quantile(q) => {
                self.response_time.supported_quantile_ns(q).map(|ns| ns as f64)
            }
        }
    }
}
