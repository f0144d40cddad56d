//! Conditions during a cell: settings, counters and sensors of the machine and the device, which are read from kernel
//! files before and after the cell.
//!
//! The values are raw; [`verdict`](crate::verdict) interprets them. `None` and an empty list mean "unknown" or
//! "nothing", never "fine".

use serde::{Deserialize, Serialize};

/// Limit that a control group (cgroup) sets on this process's I/O.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// File that sets the limit, and the limited device.
    pub source: String,
    /// Whether the limit applies to reads; otherwise to writes.
    pub is_of_reads: bool,
    /// Whether the limit is in bytes per second; otherwise in operations per second.
    pub is_of_bytes: bool,
    /// The limit, in bytes or operations per second.
    pub per_s: u64,
}

/// Settings, counters and sensors of the machine and the device, read before and after a cell. `None` means
/// unknown, not that all is well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// CPU frequency governors in use, joined by commas.
    pub governor: Option<String>,
    /// Whether the processor's turbo (boost) mode is enabled.
    pub turbo: Option<bool>,
    /// Number of thermal throttling events of the processors during the cell.
    pub processor_throttles: Option<u64>,
    /// Fraction (0 to 1) of the time in which at least one task on the machine waited for a processor (`some` of
    /// `/proc/pressure/cpu`).
    pub processor_pressure: Option<f64>,
    /// The kernel's clock source, such as `tsc`.
    pub clock_source: Option<String>,
    /// Whether the processor reports that it runs under a hypervisor.
    pub hypervisor: Option<bool>,
    /// Number of CPU vulnerabilities that the kernel mitigates.
    pub mitigations: Option<u32>,
    /// Number of pages that the machine swapped in or out during the cell.
    pub swapped_pages: Option<u64>,
    /// Number of this process's page faults that waited for storage during the cell.
    pub major_faults: Option<u64>,
    /// Settings that changed during the cell, as text: `scheduler of sda: none, then bfq`.
    pub changed: Vec<String>,
    /// RAID arrays below the target that were checked or rebuilt during the cell, as text such as `md0: resync`.
    pub raid_at_work: Vec<String>,
    /// Number of I/Os of other programs in flight on the device just before the cell.
    pub in_flight_before: Option<u64>,
    /// Bytes discarded on the device during the cell.
    pub discarded_bytes: Option<u64>,
    /// Temperature of the device's hottest sensor after the cell, °C.
    pub temperature_c: Option<f64>,
    /// Warning threshold of the device's hottest temperature sensor, °C.
    pub temperature_warning_c: Option<f64>,
    /// Speed and width of the device's PCIe link as text, if below their maximum; None otherwise.
    pub link_below: Option<String>,
    /// Physical block size, bytes: the smallest write without a read-modify-write in the device.
    pub physical_block_bytes: Option<u64>,
    /// Volatile write cache as the kernel sees it: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Fraction (0 to 1) of the target's file system that is in use.
    pub file_system_used: Option<f64>,
    /// Limits that control groups (cgroups) set on this process's I/O to the target's devices.
    pub io_limits: Vec<IoLimit>,
    /// Number of interrupts from the device during the cell.
    pub interrupts: Option<u64>,
    /// Fraction (0 to 1) of the device's interrupts handled by the processor that handled most of them.
    pub interrupts_on_one: Option<f64>,
}
