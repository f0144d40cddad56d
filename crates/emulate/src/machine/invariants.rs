//! Invariants of a machine, for tests and debug builds.

use super::Machine;
use crate::part::Part;

impl Machine {
    /// Checks the invariants: each submitted operation is completed, failed or in flight; no resource was busy
    /// for longer than the elapsed time; buffers contain the bytes that they report. Debug builds check one
    /// component every 2^18 events.
    ///
    /// # Errors
    /// The violated invariant, and by how much.
    pub fn check(&self) -> Result<(), String> {
        self.check_core()?;
        self.check_adapters()?;
        self.parts.iter().try_for_each(Part::check)
    }

    pub(super) fn check_adapters(&self) -> Result<(), String> {
        self.core.adapters.as_ref().map_or(Ok(()), |adapters| adapters.check())
    }

    /// Checks the invariants of the state that all components share.
    pub(super) fn check_core(&self) -> Result<(), String> {
        let core = &self.core;
        let in_flight = core.slab.hosts();
        if core.submitted != core.completed + in_flight {
            return Err(format!(
                "{} operations submitted, but {} completed and {in_flight} in flight",
                core.submitted, core.completed
            ));
        }
        if let Some(child) = core.slab.orphan() {
            return Err(format!("request {child} no longer has a parent"));
        }
        let of_parts = self.parts.iter().flat_map(|part| part.resources(core));
        for r in of_parts.chain([self.generator_cores()]) {
            // Excludes time that a core has committed in advance, so the tolerance covers only rounding.
            let most = core.now * u64::from(r.count) + 1000;
            if r.busy_ns > most {
                return Err(format!("{}: busy for {} of {most} ns", r.name, r.busy_ns));
            }
        }
        Ok(())
    }
}
