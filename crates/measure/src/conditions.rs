//! The conditions around a cell: settings of the machine and the device, and their counters and sensors while
//! it ran, as far as the kernel shows them in some small files before and after.
//!
//! They are raw: [`verdict`](crate::verdict) interprets them. `None` and an empty list are "unknown" or
//! "nothing", never "fine".

use serde::{Deserialize, Serialize};

/// A limit on the I/O of this process that a control group sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// The file that holds it, and the device.
    pub source: String,
    /// It is about reads, rather than writes.
    pub is_of_reads: bool,
    /// It counts bytes, rather than operations.
    pub is_of_bytes: bool,
    /// Bytes or operations a second.
    pub per_s: u64,
}

/// The conditions; see the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Frequency governors in use, joined by commas.
    pub governor: Option<String>,
    /// Turbo or boost is on.
    pub turbo: Option<bool>,
    /// Times that processors were slowed down for heat, meanwhile.
    pub processor_throttles: Option<u64>,
    /// Share (0 to 1) of the time in which some program of the machine waited for a processor
    /// (`some` of `/proc/pressure/cpu`).
    pub processor_pressure: Option<f64>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The processor reports that it runs under a hypervisor.
    pub hypervisor: Option<bool>,
    /// Processor flaws that the kernel mitigates.
    pub mitigations: Option<u32>,
    /// Pages that the machine swapped in and out, meanwhile.
    pub swapped_pages: Option<u64>,
    /// Page faults of this process that had to wait for storage, meanwhile.
    pub major_faults: Option<u64>,
    /// Settings that differ after the cell from before, in words: `scheduler of sda: none, then bfq`.
    pub changed: Vec<String>,
    /// RAID sets of the target that were checked or rebuilt meanwhile, in words: `md0: resync`.
    pub raid_at_work: Vec<String>,
    /// I/Os of other programs in flight on the device before the cell began.
    pub in_flight_before: Option<u64>,
    /// Bytes that were discarded on the device, meanwhile.
    pub discarded_bytes: Option<u64>,
    /// The hottest sensor of the device after the cell, °C.
    pub temperature_c: Option<f64>,
    /// The temperature at which it warns, °C.
    pub temperature_warning_c: Option<f64>,
    /// The device's PCIe link where it is below its capability, in words.
    pub link_below: Option<String>,
    /// The smallest write that the device does without reading first, bytes.
    pub physical_block_bytes: Option<u64>,
    /// Volatile write cache as the kernel treats it: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Share (0 to 1) of the file system that is in use.
    pub file_system_used: Option<f64>,
    /// Limits of control groups on this process's I/O to the target's devices.
    pub io_limits: Vec<IoLimit>,
    /// Interrupts of the device, meanwhile.
    pub interrupts: Option<u64>,
    /// The largest share (0 to 1) of them that one processor took.
    pub interrupts_on_one: Option<f64>,
}
