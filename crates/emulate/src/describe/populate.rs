//! Placement of devices in a server: evenly over its sockets, subject to the server's rules.
//!
//! Flash DIMMs share memory channels, so they are spread evenly over the sockets, independently of other devices.

use super::bay::Bay;
use super::rules::{FLASH_DIMMS, RuleBroken, VOLUMES_MAX, is_flash_dimm};
use crate::spec::{Adapters, Device, Host, Kind, Preconditioned, System};
use iodyno_units::human;

/// Rule that only drives for SAS bays can be attached to RAID adapters.
const DRIVES_ONLY: &str = "drives-only";

impl Bay {
    /// Checks that the device `name`, which occupies such a bay, can be attached to RAID adapters. SAS bays also accept
    /// SATA drives.
    ///
    /// # Errors
    /// The violated rule.
    pub fn check_behind_adapters(self, name: &str) -> Result<(), RuleBroken> {
        if matches!(self, Self::Sas | Self::Sata) {
            return Ok(());
        }
        let message = format!(
            "only SAS and SATA drives can be attached to adapters, but {name} occupies a bay or slot of kind `{}`",
            self.word()
        );
        Err(RuleBroken { rule: DRIVES_ONLY, path: "adapters", message })
    }
}

impl System {
    /// Builds a server with the given devices, in this order, each with its initial state. Flash DIMMs are attached
    /// to the sockets in turn, and so are all other devices.
    ///
    /// # Errors
    /// All violated rules about which devices a server accepts.
    pub fn populate(
        name: impl Into<String>,
        host: Host,
        devices: Vec<(Device, Preconditioned)>,
    ) -> Result<Self, Vec<RuleBroken>> {
        let mut broken = Vec::new();
        if !(1..=VOLUMES_MAX).contains(&devices.len()) {
            let message =
                format!("a system must have 1 to {VOLUMES_MAX} devices, not {}", devices.len());
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

    /// Inserts RAID adapters between the host and its devices. [`Self::group`] then creates volumes on
    /// the adapters.
    ///
    /// # Errors
    /// All violated rules about the adapters and their devices.
    pub fn attach(&mut self, adapters: Adapters) -> Result<(), Vec<RuleBroken>> {
        let kinds = || self.devices().map(|placed| &placed.device.kind);
        let (devices, ssds) =
            (kinds().count(), kinds().filter(|kind| matches!(kind, Kind::Flash(_))).count());
        let drawers = adapters.drawers;
        let bays = drawers.count as usize * drawers.bays as usize;
        let mut broken = Vec::new();
        let mut rule = |is_broken: bool, rule, path, message: String| {
            if is_broken {
                broken.push(RuleBroken { rule, path, message });
            }
        };
        rule(
            kinds().any(|kind| matches!(kind, Kind::Memory(_) | Kind::Volume(_)))
                || self.devices().any(|placed| is_flash_dimm(&placed.device)),
            DRIVES_ONLY,
            "adapters",
            "only SSDs and disks can be attached to adapters".to_owned(),
        );
        let most = adapters.devices_max as usize;
        let message =
            format!("{devices} devices are too many for the adapters, which support {most}");
        rule(devices > most, "adapter-devices", "adapters.devices_max", message);
        let most = adapters.ssds_max as usize;
        let message = format!("{ssds} SSDs are too many for the adapters, which support {most}");
        rule(ssds > most, "adapter-ssds", "adapters.ssds_max", message);
        let message = format!(
            "{devices} devices are too many: {} of {} bays can hold {bays}",
            human::counted(drawers.count.into(), "drawer"),
            drawers.bays
        );
        rule(devices > bays, "drawer-bays", "drawers.bays", message);
        if broken.is_empty() {
            self.adapters = Some(adapters);
            Ok(())
        } else {
            Err(broken)
        }
    }
}
