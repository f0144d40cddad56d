//! A candidate that was sized: how many of it meet the demand, and what was tried.

use crate::candidate::Candidate;
use crate::search::Count;
use crate::simulate::Measured;
use crate::textbook::Textbook;

/// One trial of a system.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Arrays of one system.
    pub arrays: u32,
    /// The rate that one system was offered, operations a second.
    pub offered_iops: f64,
    /// What it gave.
    pub measured: Measured,
}

/// How long flash lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Years until each device has taken the writes that it is rated for.
    pub years: f64,
    /// Years that are asked for.
    pub asked_years: f64,
    /// Written to each device in a day, as a multiple of its capacity; and the rating.
    pub drive_writes_per_day: (f64, f64),
    /// Of the model: pages programmed for each page written.
    pub write_amplification: f64,
    /// The rate needs fewer arrays: so many.
    pub arrays_by_rate: u32,
}

/// A candidate that meets the demand.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its place among the candidates.
    pub candidate: usize,
    /// How many of it.
    pub count: Count,
    /// One system of it at its share of the asked rate.
    pub asked: Measured,
    /// One array less: under its share of the asked rate, where the number of arrays can be smaller.
    pub fewer: Option<Measured>,
    /// Of flash: how long it lasts at the asked writes.
    pub life: Option<Life>,
    /// All systems hold at most this rate within the limit, operations a second; None before it is known.
    pub highest: Option<Highest>,
    /// What the next larger one holds.
    pub next: Option<(Count, f64)>,
    /// Power of the devices under load, W.
    pub devices_w: Option<f64>,
    /// Its price, where prices are given.
    pub price: Option<f64>,
    /// What the textbook's formula says of the same candidate.
    pub textbook: Textbook,
    /// What was tried of it, in the order of the search.
    pub trials: Vec<Trial>,
}

/// The highest rate of systems.
#[derive(Clone, Debug, PartialEq)]
pub struct Highest {
    /// Of all systems, operations a second.
    pub iops: f64,
    /// What is busiest there.
    pub binds: String,
    /// Its busy share.
    pub busy: f64,
    /// It is of the devices or arrays, and so there is more of it with more of them.
    pub is_of_arrays: bool,
}

/// A candidate that does not meet the demand.
#[derive(Clone, Debug)]
pub struct Missed {
    /// Its place among the candidates.
    pub candidate: usize,
    /// What came nearest: a trial of one system. None where so much capacity is in no number of them.
    pub nearest: Option<Trial>,
}

impl Row {
    /// Devices of all systems.
    pub fn devices(&self, candidates: &[Candidate]) -> u32 {
        self.count.units * self.count.arrays * candidates[self.candidate].members
    }

    /// Usable bytes of all systems.
    pub fn capacity_bytes(&self, candidates: &[Candidate]) -> u64 {
        u64::from(self.count.units * self.count.arrays) * candidates[self.candidate].array_bytes
    }
}
