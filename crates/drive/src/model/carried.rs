//! An emulated machine for a sequence of measurements (cells). Its devices keep the state in which the previous
//! measurement left them.

use super::one_system;
use crate::plan::{CellPlan, DriveError};
use iodyno_emulate::{Machine, System};
use iodyno_units::human::counted;
use std::sync::Arc;

/// Maximum total capacity of the devices, bytes, at which aging puts every page into the map (8 bytes of memory per
/// page). Above it, the map has only a sample of the pages.
const AGED_EXACTLY_BYTES_MAX: u64 = 16 << 30;

/// An emulated machine that runs a sequence of measurements (cells). Its state and virtual time continue from one to
/// the next.
#[derive(Debug)]
pub struct Carried {
    pub(super) machine: Machine,
    /// Virtual time at which the next cell starts, ns.
    pub(super) now_ns: u64,
    /// For each volume, the machine's numbers for its workers.
    workers: Vec<Vec<u32>>,
}

impl Carried {
    /// Creates a machine for the plan's system, in the initial state that the system specifies.
    ///
    /// # Errors
    /// The errors of [`super::drive_model`].
    pub fn new(plan: &CellPlan) -> Result<Self, DriveError> {
        let mut threads = vec![0; one_system(plan)?.volumes.len()];
        for (index, target) in plan.targets.iter().enumerate() {
            if let Some(volume) = target.medium.model_volume() {
                threads[volume as usize] += plan.cell_on(index).spec.threads();
            }
        }
        // Aging is exact if every page is in the map; a sample is biased for pages with a large share of the writes.
        let system = one_system(plan)?;
        let bytes = (0..).zip(&system.volumes).map(|(volume, _)| system.capacity_bytes(volume));
        let exact = plan.aged_passes > 0.0 && bytes.sum::<u64>() <= AGED_EXACTLY_BYTES_MAX;
        Self::with_workers(&system, plan.cell.seed, &threads, exact.then_some(1).or(plan.represent))
    }

    /// Creates a machine for this system. Cells may have up to `threads_max` workers on each volume, which are
    /// all created in advance.
    ///
    /// # Errors
    /// The system can't be built.
    pub fn of(system: &Arc<System>, seed: u64, threads_max: u32) -> Result<Self, DriveError> {
        Self::with_workers(system, seed, &vec![threads_max; system.volumes.len()], None)
    }

    /// Creates a machine with `threads[v]` workers on volume v. `represent` is the sampling ratio of
    /// [`Machine::represented`]; `None`: [`Machine::new`] chooses the ratio.
    fn with_workers(
        system: &Arc<System>,
        seed: u64,
        threads: &[u32],
        represent: Option<u32>,
    ) -> Result<Self, DriveError> {
        let machine = match represent {
            None => Machine::new(system, seed),
            Some(represent) => Machine::represented(system, seed, represent),
        };
        let mut machine = machine.map_err(|why| DriveError::DoesNotFit {
            target: format!("the system {}", system.name),
            why,
        })?;
        let workers = (0..).zip(threads);
        let workers = workers.map(|(v, &n)| (0..n).map(|_| machine.add_worker(v)).collect());
        let workers = workers.collect();
        Ok(Self { now_ns: machine.now_ns(), machine, workers })
    }

    /// Wraps a machine whose workers have run since time 0, for its last cell.
    pub(super) fn resumed(machine: Machine) -> Self {
        Self { machine, now_ns: 0, workers: Vec::new() }
    }

    /// Number of volumes in the system.
    pub(super) fn volumes(&self) -> usize {
        self.workers.len()
    }

    /// Converts a volume's worker number to the worker's number in the machine.
    pub(super) fn worker(&self, volume: u32, number: u32) -> Result<u32, DriveError> {
        let of_volume = &self.workers[volume as usize];
        of_volume.get(number as usize).copied().ok_or_else(|| DriveError::DoesNotFit {
            target: self.machine.system().name.clone(),
            why: format!(
                "the emulated machine has only {} for the volume",
                counted(of_volume.len() as u64, "worker")
            ),
        })
    }

    /// Completes the `in_flight` operations left by a cell that ended at `end_ns`, without counting them.
    pub(super) fn rest(&mut self, mut in_flight: u64, end_ns: u64) {
        while in_flight > 0 && self.machine.next_completion(u64::MAX).is_some() {
            in_flight -= 1;
        }
        self.now_ns = end_ns.max(self.machine.now_ns());
    }

    /// Advances virtual time by `ns` without submitting operations. Background work continues.
    pub fn idle(&mut self, ns: u64) {
        self.now_ns = self.now_ns.saturating_add(ns);
        while self.machine.next_completion(self.now_ns).is_some() {}
    }

    /// Virtual time at which the next cell starts, since the machine was created, ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}
