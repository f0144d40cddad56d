//! A sized candidate: the number of systems and arrays that meet the demand, and the trials.

use crate::candidate::Candidate;
use crate::search::Count;
use crate::simulate::Measured;
use crate::textbook::Textbook;

/// One trial of a system.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Arrays in one system.
    pub arrays: u32,
    /// Rate offered to one system, operations per second.
    pub offered_iops: f64,
    /// Result of the trial.
    pub measured: Measured,
}

/// Lifetime of a candidate's flash devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Years until each device has taken its rated writes.
    pub years: f64,
    /// Required lifetime, years.
    pub asked_years: f64,
    /// Bytes written per device and day, as a multiple of its capacity; and the rating.
    pub drive_writes_per_day: (f64, f64),
    /// Write amplification in the model: pages programmed per page written.
    pub write_amplification: f64,
    /// Number of arrays that the rate alone needs.
    pub arrays_by_rate: u32,
}

/// A candidate that meets the demand.
#[derive(Clone, Debug)]
pub struct Row {
    /// Index among the candidates.
    pub candidate: usize,
    /// Number of systems and arrays.
    pub count: Count,
    /// Measurement of one system at its share of the requested rate.
    pub asked: Measured,
    /// Measurement of one system with one array less, at its share of the requested rate; `None` if
    /// there can't be fewer arrays.
    pub fewer: Option<Measured>,
    /// Lifetime of flash at the requested writes.
    pub life: Option<Life>,
    /// Highest rate of all systems within the limit; `None` before it is known.
    pub highest: Option<Highest>,
    /// The next larger configuration, and the rate that it sustains.
    pub next: Option<(Count, f64)>,
    /// Power of the devices under load, W.
    pub devices_w: Option<f64>,
    /// Price, if prices are given.
    pub price: Option<f64>,
    /// Result of the textbook's formula for the same candidate.
    pub textbook: Textbook,
    /// Trials, in the order of the search.
    pub trials: Vec<Trial>,
}

/// Highest rate of all systems within the limit, and what limits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Highest {
    /// The rate in operations per second, over all systems.
    pub iops: f64,
    /// The busiest resource at this rate.
    pub binds: String,
    /// Busy share of that resource, 0 to 1.
    pub busy: f64,
    /// The resource belongs to devices or arrays, so more arrays bring more of it.
    pub is_of_arrays: bool,
}

/// A candidate that does not meet the demand.
#[derive(Clone, Debug)]
pub struct Missed {
    /// Index among the candidates.
    pub candidate: usize,
    /// The nearest trial of one system. `None` if nothing was tried, because no number of systems
    /// has the capacity or can transfer the rate.
    pub nearest: Option<Trial>,
}

impl Row {
    /// Number of devices in all systems.
    pub fn devices(&self, candidates: &[Candidate]) -> u32 {
        self.count.units * self.count.arrays * candidates[self.candidate].members
    }

    /// Usable bytes of all systems.
    pub fn capacity_bytes(&self, candidates: &[Candidate]) -> u64 {
        u64::from(self.count.units * self.count.arrays) * candidates[self.candidate].array_bytes
    }
}
