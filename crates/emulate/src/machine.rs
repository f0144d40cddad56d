//! The machine: a system of volumes that takes operations and gives completions in virtual time.

use crate::spec::System;
use iodyno_units::Op;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One operation that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When, ns.
    pub at_ns: u64,
    /// What the submitter called it.
    pub token: u64,
    /// Which volume.
    pub volume: u32,
    /// Which worker submitted it.
    pub worker: u32,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium could not give the data back.
    Medium,
    /// Beyond the end of the volume.
    OutOfRange,
    /// The device is gone.
    Lost,
}

/// See the module.
#[derive(Debug)]
pub struct Machine {
    now: u64,
    workers: u32,
    capacities: Vec<u64>,
    heap: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
}

impl Machine {
    /// The machine of a system; everything random in it follows from the seed.
    ///
    /// # Errors
    /// What can't be built, and which rule it breaks.
    pub fn new(system: &System, _seed: u64) -> Result<Self, String> {
        let capacities = system.volumes.iter().map(|v| v.device.capacity_bytes()).collect();
        Ok(Self { now: 0, workers: 0, capacities, heap: BinaryHeap::new() })
    }

    /// How many volumes there are.
    pub fn volumes(&self) -> u32 {
        self.capacities.len() as u32
    }

    /// Bytes of a volume.
    pub fn capacity_bytes(&self, volume: u32) -> u64 {
        self.capacities[volume as usize]
    }

    /// Virtual time, ns.
    pub fn now_ns(&self) -> u64 {
        self.now
    }

    /// A worker (a thread of the load generator) that issues to `volume`; it gets a core. Before
    /// the first submission. Gives its number.
    pub fn add_worker(&mut self, _volume: u32) -> u32 {
        self.workers += 1;
        self.workers - 1
    }

    /// Submits an operation; `at_ns` before now is taken as now. Gives when the worker has handed it
    /// over: latency counts from there. (The worker's core is busy until then.)
    pub fn submit(&mut self, at_ns: u64, worker: u32, volume: u32, _op: &Op, token: u64) -> u64 {
        let issued = at_ns.max(self.now) + 1000;
        self.heap.push(Reverse((issued + 100_000, token, volume, worker)));
        issued
    }

    /// The next completion not later than `until_ns`; otherwise virtual time becomes `until_ns`
    /// (`u64::MAX`: stays where the last event was).
    pub fn next_completion(&mut self, until_ns: u64) -> Option<Completion> {
        match self.heap.peek() {
            Some(&Reverse((at_ns, token, volume, worker))) if at_ns <= until_ns => {
                self.heap.pop();
                self.now = at_ns;
                Some(Completion { at_ns, token, volume, worker, failure: None })
            }
            _ => {
                if until_ns != u64::MAX {
                    self.now = self.now.max(until_ns);
                }
                None
            }
        }
    }

    /// When something happens next.
    pub fn next_event(&mut self) -> Option<u64> {
        self.heap.peek().map(|Reverse(e)| e.0)
    }
}
