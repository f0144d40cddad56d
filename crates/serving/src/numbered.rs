//! Defines whether a number in a fault command identifies a device or a volume.

use crate::adapters::{Named, no_such};
use iodyno_emulate::{Fault, System};
use iodyno_live::fault_command::Ask;

/// Meaning of the numbers in fault commands. They identify devices, except in `full` and `resize`, where they identify
/// volumes. If every volume is a single device, both have the same numbers.
pub(crate) struct Numbered {
    devices_bytes: Vec<u64>,
    volumes_bytes: Vec<u64>,
    adapters: Named,
    /// Noun for a numbered device in messages: `device` or `volume`.
    pub(crate) device: &'static str,
}

impl Numbered {
    /// Creates the numbering of a system whose volumes have the given sizes.
    pub(crate) fn of(system: &System, volumes_bytes: Vec<u64>) -> Self {
        let adapters = Named::of(system);
        if !system.numbers_devices() {
            return Self { adapters, ..Self::alone(volumes_bytes) };
        }
        let devices_bytes = system.devices().map(|placed| placed.device.capacity_bytes()).collect();
        Self { devices_bytes, volumes_bytes, adapters, device: "device" }
    }

    /// Creates the numbering of volumes that consist of one device each.
    pub(crate) fn alone(sizes_bytes: Vec<u64>) -> Self {
        Self {
            devices_bytes: sizes_bytes.clone(),
            volumes_bytes: sizes_bytes,
            adapters: Named::default(),
            device: "volume",
        }
    }

    /// Checks that a command refers to an existing device or volume, and to a range within it.
    pub(crate) fn check(&self, ask: &Ask) -> Result<(), String> {
        use Fault::{Block, Latent, Page};
        if let Ask::Fault(Fault::Adapters(fault)) = ask {
            return self.adapters.check(*fault);
        }
        let (number, end_bytes) = match *ask {
            Ask::Fault(fault) => {
                let end_bytes = match fault {
                    Latent { offset_bytes, len_bytes, .. } => offset_bytes + len_bytes,
                    Page { offset_bytes, .. } | Block { offset_bytes, .. } => offset_bytes + 1,
                    _ => 0,
                };
                (fault.part().map_or(0, |part| part.0), end_bytes)
            }
            Ask::Corrupt { volume, offset_bytes, len_bytes } => (volume, offset_bytes + len_bytes),
            Ask::Resize { volume, size_bytes } => (volume, size_bytes),
            Ask::Full { volume } => (volume, 0),
            Ask::Interface { volume, fault } => {
                (volume, fault.scope.range_bytes.map_or(0, |(at, len)| at + len))
            }
            Ask::ClearAll => return Ok(()),
        };
        let (what, sizes_bytes) = match ask {
            Ask::Resize { .. } | Ask::Full { .. } | Ask::Interface { .. } => {
                ("volume", &self.volumes_bytes)
            }
            _ => (self.device, &self.devices_bytes),
        };
        match sizes_bytes.get(number as usize) {
            None => Err(no_such(what, number, sizes_bytes.len())),
            Some(capacity) if end_bytes > *capacity => {
                Err(format!("beyond the end: {what} {number} has {capacity} bytes"))
            }
            Some(_) => Ok(()),
        }
    }
}
