//! A device with rate limits in front of it.

use super::Part;
use crate::core::Core;
use crate::limit::Limits;
use crate::usage::{Phase, Resource};

/// A device and its limits, as one component of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Limited {
    pub(super) limits: Limits,
    pub(super) device: Part,
}

impl Limited {
    /// Processes a request's next event, at the limits or in the device.
    // Not inlined: it contains another copy of the whole path of an event, which devices without limits never run.
    #[inline(never)]
    pub(super) fn event(&mut self, core: &mut Core, slot: u32) {
        let device = &mut self.device;
        self.limits.event(core, slot, |core, slot| device.event(core, slot));
    }

    /// Processes a power failure. All requests are already gone.
    pub(super) fn power_off(&mut self, core: &mut Core) {
        self.limits.power_off(core);
        self.device.power_off(core);
    }

    /// Returns the limits as resources, then the device's resources, with their busy time since the start.
    pub(super) fn resources(&self, core: &Core) -> Vec<Resource> {
        [self.limits.resources(core), self.device.resources(core)].concat()
    }

    /// Returns the time that the device's reads and writes have spent in each phase since the start. Waits for the
    /// limits come first.
    pub(super) fn phases(&self) -> Vec<Phase> {
        self.limits.phases().chain(self.device.phases()).collect()
    }
}
