//! A device behind its limits.

use super::Part;
use crate::core::Core;
use crate::limit::Limits;
use crate::usage::{Phase, Resource};

/// A device with limits, as a part of a volume's tree.
#[derive(Clone, Debug)]
pub(crate) struct Limited {
    pub(super) limits: Limits,
    pub(super) device: Part,
}

impl Limited {
    /// Processes the event of a request of this device.
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

    /// The limits and the device's resources, with their busy time since the start.
    pub(super) fn resources(&self, core: &Core) -> Vec<Resource> {
        [self.limits.resources(core), self.device.resources(core)].concat()
    }

    /// Phase times of the device's I/Os since the start, waits for the limits first.
    pub(super) fn phases(&self) -> Vec<Phase> {
        self.limits.phases().chain(self.device.phases()).collect()
    }
}
