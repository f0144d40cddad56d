//! Experiments: cells on all volumes of an emulated system. Each starts from the system's initial state, not from the
//! state after an earlier cell. Studies, sizing, fits and explanations consist of experiments.

use super::Modelled;
use crate::engine::Medium;
use crate::plan::{CellPlan, TargetPlan};
use iodyno_emulate::flash::Counts;
use iodyno_emulate::spec::Written;
use iodyno_emulate::{ReadCacheCounts, System};
use iodyno_measure::Cell;
use iodyno_workload::{CellSpec, Spec};
use std::sync::Arc;

/// Duration of a cell in virtual time: its ramp and its measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Duration of the ramp before the measured window, ns.
    pub ramp_ns: u64,
    /// Duration of the measured window, ns.
    pub window_ns: u64,
}

impl Length {
    /// Sets the lengths of a workload's ramp and window. They replace its own limits.
    ///
    /// # Errors
    /// The rule that the workload then violates.
    pub fn limit(self, spec: Spec) -> Result<Spec, String> {
        spec.with_time_alone(self.ramp_ns, self.window_ns)
    }
}

impl CellPlan {
    /// Plans a cell on all volumes of an emulated system. The function `name` returns the target name for a volume
    /// number.
    pub fn on_system(cell: CellSpec, system: &Arc<System>, name: impl Fn(u32) -> String) -> Self {
        let volumes = 0..system.volumes.len() as u32;
        let target = |volume| TargetPlan::model(name(volume), system, volume);
        Self::new(cell, volumes.map(target).collect())
    }

    /// Adds a warm-up of at most [`Self::WARM_UP_EVENTS_MAX`] events, so that the cell starts in its workload's steady
    /// state. No warm-up is made if a target is a real device, or an emulated device that was never written.
    #[must_use]
    pub fn warmed_up(self) -> Self {
        let is_used = |target: &TargetPlan| match &target.medium {
            Medium::Model { system, volume } => {
                system.volumes[*volume as usize].state.how != Written::Fresh
            }
            _ => false,
        };
        let is_used = self.targets.iter().all(is_used);
        Self { warm_up_events_max: is_used.then_some(Self::WARM_UP_EVENTS_MAX), ..self }
    }
}

impl Modelled {
    /// Merges the results of all volumes into one.
    ///
    /// # Panics
    /// If there is no cell.
    pub fn merged(&self) -> Cell {
        let mut all = self.cells[0].clone();
        self.cells[1..].iter().for_each(|cell| all.merge(cell));
        all
    }

    /// Flash operations in the measured window, summed over all volumes; `None` without flash.
    pub fn flash_counts(&self) -> Option<Counts> {
        self.usage.volumes.iter().filter_map(|volume| volume.counts).reduce(|a, b| a.plus(&b))
    }

    /// Counters of read caches in the measured window, summed over all volumes; `None` without read caches.
    pub fn read_cache_counts(&self) -> Option<ReadCacheCounts> {
        self.usage.volumes.iter().filter_map(|volume| volume.read_cache).reduce(|a, b| a + b)
    }
}
