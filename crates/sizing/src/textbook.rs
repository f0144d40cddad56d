//! The textbook's formula for the devices of an array: N × IOPS / (R + w × W). It is shown beside what was simulated, and
//! decides only what is searched first.

use crate::candidate::Candidate;
use crate::demand::Demand;
use iodyno_raid::Level;

/// The formula N × IOPS / (R + w × W), for the same candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Textbook {
    /// Operations a second of one device alone, with the workload's mix.
    pub device_iops: f64,
    /// W: operations on devices for each write.
    pub penalty: f64,
    /// Devices that it takes, in whole arrays.
    pub devices: u32,
}

impl Textbook {
    pub(crate) fn of(device_iops: f64, of: &Candidate, demand: &Demand) -> Self {
        let (penalty, writes) = (write_penalty(of.level), demand.write_share());
        let on_devices = demand.rate_iops * (1.0 - writes + penalty * writes);
        let devices = (on_devices / device_iops).ceil() as u32;
        Self { device_iops, penalty, devices: devices.next_multiple_of(of.members) }
    }
}

/// Operations on devices for each write, as the textbook has them.
fn write_penalty(level: Level) -> f64 {
    match level {
        Level::Raid0 | Level::Jbod => 1.0,
        Level::Raid1 | Level::Raid10 => 2.0,
        Level::Raid5 => 4.0,
        Level::Raid6 => 6.0,
    }
}
