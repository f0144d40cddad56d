//! Enlarges a device beyond the capacity in its file, as far as its hardware allows. (A smaller capacity needs no
//! change: the user leaves the rest unused.)

use super::rules::{SPARE_BLOCKS_MIN, SPARE_MIN};
use crate::content_event::UNIT_BYTES;
use crate::flash::shape;
use crate::spec::{Device, Flash, Kind};
use iodyno_units::human;

/// Maximum capacity of a memory device in bytes, the same as in device files.
const MEMORY_BYTES_MAX: u64 = 1 << 50;

impl Device {
    /// Raises the capacity to at least `capacity_bytes`. A flash device exports more of its spare area; memory is
    /// extended. A disk can't be enlarged, because its tracks are fixed, nor a cloud volume, because its limits
    /// depend on its capacity.
    ///
    /// # Errors
    /// A message with the largest possible capacity.
    pub fn enlarge(&mut self, capacity_bytes: u64) -> Result<(), String> {
        let own_bytes = self.capacity_bytes();
        if capacity_bytes <= own_bytes {
            return Ok(());
        }
        let most_bytes = match &mut self.kind {
            Kind::Memory(memory) if capacity_bytes <= MEMORY_BYTES_MAX => {
                memory.capacity_bytes = capacity_bytes;
                return Ok(());
            }
            Kind::Memory(_) => MEMORY_BYTES_MAX,
            Kind::Disk(_) | Kind::Volume(_) => own_bytes,
            Kind::Flash(flash) => {
                let most_bytes = exported_bytes_max(flash).max(own_bytes);
                if capacity_bytes <= most_bytes {
                    flash.capacity_bytes = capacity_bytes.next_multiple_of(UNIT_BYTES);
                    return Ok(());
                }
                most_bytes
            }
        };
        Err(format!(
            "{} can have at most {} ({most_bytes} bytes): {}; use a larger device, or describe one (docs/formats/device.md)",
            self.name,
            human::size(most_bytes),
            match self.kind {
                Kind::Disk(_) => "a disk can't have more tracks".to_owned(),
                Kind::Volume(_) => "its limits hold only for this capacity".to_owned(),
                Kind::Memory(_) => "a memory device can't be larger".to_owned(),
                Kind::Flash(_) => format!(
                    "at least {} % of the flash must stay spare for writes",
                    SPARE_MIN * 100.0
                ),
            }
        ))
    }
}

/// Returns the largest capacity that leaves the required spare area, in bytes, rounded down to whole 4 KiB units.
fn exported_bytes_max(flash: &Flash) -> u64 {
    let shape = shape(flash, 1);
    let row_bytes = u64::from(shape.pages_per_block) * UNIT_BYTES;
    let by_blocks = (shape.raw_pages * UNIT_BYTES).saturating_sub(SPARE_BLOCKS_MIN * row_bytes);
    let usable = flash.nand.raw_bytes as f64 * (1.0 - flash.translation.reserved_share);
    let by_share = (usable * (1.0 - SPARE_MIN)) as u64;
    by_blocks.min(by_share) / UNIT_BYTES * UNIT_BYTES
}
