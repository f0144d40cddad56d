//! Placement of devices in a server: evenly over its sockets, and only where its rules allow.
//!
//! Flash DIMMs and all others are counted separately: in any order of names, the
//! flash DIMMs alone are spread evenly, as the memory channels that they share require.

use super::rules::{FLASH_DIMMS, RuleBroken, VOLUMES_MAX, is_flash_dimm};
use crate::spec::{Device, Host, Preconditioned, System};

impl System {
    /// A server with these devices in this order, each in its state. The i-th flash DIMM is attached to
    /// socket i mod sockets, and so is the i-th of the others.
    ///
    /// # Errors
    /// All violated rules of population.
    pub fn populate(
        name: impl Into<String>,
        host: Host,
        devices: Vec<(Device, Preconditioned)>,
    ) -> Result<Self, Vec<RuleBroken>> {
        let mut broken = Vec::new();
        if !(1..=VOLUMES_MAX).contains(&devices.len()) {
            let message = format!("a system has 1 to {VOLUMES_MAX} devices, not {}", devices.len());
            broken.push(RuleBroken { rule: "device-count", path: "volumes", message });
        }
        let dimms: Vec<&Device> =
            devices.iter().map(|(device, _)| device).filter(|d| is_flash_dimm(d)).collect();
        if !dimms.is_empty() {
            broken.extend(FLASH_DIMMS.iter().filter_map(|rule| {
                let message = (rule.check)(&host, &dimms)?;
                Some(RuleBroken { rule: rule.name, path: rule.path, message })
            }));
        }
        if !broken.is_empty() {
            return Err(broken);
        }
        let (mut flash_dimms, mut others) = (0, 0);
        let mut system = Self::new(name, host);
        for (device, state) in devices {
            let placed = if is_flash_dimm(&device) { &mut flash_dimms } else { &mut others };
            let socket = *placed % system.host.sockets.max(1);
            *placed += 1;
            system.add_device(device, state, socket);
        }
        Ok(system)
    }
}
