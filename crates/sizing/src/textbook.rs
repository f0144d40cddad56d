//! The textbook formula for the number of devices in an array: N × IOPS / (R + w × W), explained at [`Textbook`]. It is
//! shown for comparison with the simulated result; otherwise it only decides the order of the search.

use crate::candidate::Candidate;
use crate::demand::Demand;
use iodyno_raid::SmallWrite;

/// Result of the textbook formula N × IOPS / (R + w × W). N is the number of devices, IOPS the rate of one device, R
/// the fraction of reads, w the fraction of writes, and W the write penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Textbook {
    /// Operations per second of a single device under the workload's mix.
    pub device_iops: f64,
    /// Write penalty W: number of device operations per write of the host.
    pub penalty: f64,
    /// Number of devices by the formula, rounded up to whole arrays.
    pub devices: u32,
}

impl Textbook {
    pub(crate) fn of(device_iops: f64, of: &Candidate, demand: &Demand) -> Self {
        let SmallWrite { reads, writes } = of.level.small_write(of.members as usize);
        let (penalty, writes) = ((reads + writes) as f64, demand.write_share());
        let on_devices = demand.rate_iops * (1.0 - writes + penalty * writes);
        let devices = (on_devices / device_iops).ceil() as u32;
        Self { device_iops, penalty, devices: devices.next_multiple_of(of.members) }
    }
}
