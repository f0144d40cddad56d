//! Endurance of a flash device: its rating, and the limit of its cells by the write amplification
//! of the model. Closed forms only; nothing is simulated.
//!
//! Assumes equal wear of all blocks, as under static wear levelling.

use crate::flash::shape;
use crate::ftl::oracle::write_amplification_uniform;
use crate::spec::Flash;

const DAYS_A_YEAR: f64 = 365.0;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// The share of the space for writes that holds no data and is usable by collection. Open and
    /// free blocks and the reserved space are left out.
    pub spare_factor: f64,
    /// Pages programmed for each 4 KiB page that the host writes at random all over the full
    /// device, in steady state: greedy collection and pages of the map.
    pub write_amplification: f64,
    /// Bytes of host writes that the device is rated for: drive writes a day over its years.
    pub rated_bytes: f64,
    /// Bytes of such random host writes until every block has reached its cycles.
    pub random_bytes: f64,
    /// Bytes of host writes until then if nothing has to be copied: the maximum.
    pub sequential_bytes: f64,
    /// Drive writes a day at random that wear the cells out in just the rated years.
    pub random_drive_writes_per_day: f64,
}

/// Computes the outlook from a flash device's parameters.
pub fn outlook(flash: &Flash) -> Outlook {
    let (rated, capacity_bytes) = (&flash.endurance, flash.capacity_bytes as f64);
    let days = rated.years * DAYS_A_YEAR;
    let spare_factor = shape(flash, 1).spare_usable();
    let write_amplification =
        write_amplification_uniform(spare_factor) + flash.translation.map_writes_per_page;
    let sequential_bytes = flash.nand.raw_bytes as f64 * f64::from(rated.cycles);
    let random_bytes = sequential_bytes / write_amplification;
    Outlook {
        spare_factor,
        write_amplification,
        rated_bytes: rated.drive_writes_per_day * capacity_bytes * days,
        random_bytes,
        sequential_bytes,
        random_drive_writes_per_day: random_bytes / (capacity_bytes * days),
    }
}
