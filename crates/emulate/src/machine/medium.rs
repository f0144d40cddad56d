//! Predicts the effect of a medium fault: whether a device holds data in a range, and where.

use super::Machine;
use crate::content_event::UNIT_BYTES;
use crate::medium::{Held, Medium};
use crate::part_id::PartId;

/// Maximum number of units that a query examines, so that it delays no operation.
const UNITS_MAX: u64 = 1 << 16;

impl Machine {
    /// Returns where the data in a range of a device is, so that the effect of a medium fault can be predicted.
    /// A range too long to examine is assumed to have data on the medium.
    pub fn medium(&self, device: PartId, offset_bytes: u64, len_bytes: u64) -> Medium {
        let units =
            offset_bytes / UNIT_BYTES..offset_bytes.saturating_add(len_bytes).div_ceil(UNIT_BYTES);
        let looked_at = units.start..units.end.min(units.start.saturating_add(UNITS_MAX));
        let mut medium = self.parts[device.index()].medium(looked_at.clone());
        if looked_at != units {
            medium.held = Held::OnMedium;
        }
        medium
    }
}
