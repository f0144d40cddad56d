//! Endurance of a flash device: the rated writes, and the writes that wear out its cells under the modelled write
//! amplification. Computed in closed form, without simulation.
//!
//! Assumes equal wear of all blocks, as under static wear levelling.

use crate::content_event::UNIT_BYTES;
use crate::flash::shape;
use crate::ftl::oracle::write_amplification_uniform;
use crate::spec::Flash;

const DAYS_A_YEAR: f64 = 365.0;

/// Expected endurance of a flash device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Spare space that garbage collection can use, as a fraction of the writable space. Excludes open blocks, free
    /// blocks and reserved space.
    pub spare_factor: f64,
    /// Pages programmed per 4 KiB page that the host writes, in steady state, for uniformly random writes of 4 KiB to
    /// the full device. Assumes greedy garbage collection. Includes pages of the map. If the translation unit is larger
    /// than 4 KiB, each write programs a whole unit.
    pub write_amplification: f64,
    /// Rated host writes in bytes: drive writes per day over the rated years.
    pub rated_bytes: f64,
    /// Random host writes in bytes after which every block has reached its rated cycles.
    pub random_bytes: f64,
    /// Host writes in bytes after which every block has reached its rated cycles if garbage collection copies nothing
    /// (upper bound).
    pub sequential_bytes: f64,
    /// Random writes, in device capacities per day, that wear out the cells in exactly the rated years.
    pub random_drive_writes_per_day: f64,
}

pub fn outlook(flash: &Flash) -> Outlook {
    let (rated, capacity_bytes) = (&flash.endurance, flash.capacity_bytes as f64);
    let days = rated.years * DAYS_A_YEAR;
    let spare_factor = shape(flash, 1).spare_usable();
    let merged = f64::from(flash.translation.unit_bytes) / UNIT_BYTES as f64;
    let write_amplification =
        merged * write_amplification_uniform(spare_factor) + flash.translation.map_writes_per_page;
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
