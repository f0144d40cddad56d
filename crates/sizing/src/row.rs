//! A sized candidate: the number of systems and arrays that meet the demand, and the simulations that led to it.

use crate::candidate::Candidate;
use crate::search::Count;
use crate::simulate::Measured;
use crate::textbook::Textbook;
use iodyno_run::explain::percent;

/// One simulation of a system at an offered rate.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Number of arrays in the system.
    pub arrays: u32,
    /// Rate offered to the system, operations per second.
    pub offered_iops: f64,
    /// Rates, latencies and utilisation in the simulation.
    pub measured: Measured,
}

/// Lifetime of a candidate's flash devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Years until the writes to each device reach its rated endurance.
    pub years: f64,
    /// Required lifetime, years.
    pub asked_years: f64,
    /// Drive writes per day: actual and rated, as multiples of the device's capacity.
    pub drive_writes_per_day: (f64, f64),
    /// Simulated write amplification: flash pages programmed per page written by the host.
    pub write_amplification: f64,
    /// Number of arrays that all systems together would need if lifetime were ignored.
    pub arrays_by_rate: u32,
}

/// A candidate that meets the demand, with the fewest systems and arrays that do so.
#[derive(Clone, Debug)]
pub struct Row {
    /// Index in [`Sizing::candidates`](crate::sizing::Sizing::candidates).
    pub candidate: usize,
    /// Number of systems, and number of arrays in each system.
    pub count: Count,
    /// Simulation of one system at its share of the requested rate.
    pub asked: Measured,
    /// Simulation of one system at its share of the requested rate, with one array less than the rate requires. `None`
    /// if fewer arrays are not possible.
    pub fewer: Option<Measured>,
    /// Lifetime of the devices at the requested write rate. `None` if they are not flash, have no rated endurance, or
    /// are not written.
    pub life: Option<Life>,
    /// Highest rate that all systems together sustain within the latency limit; `None` until it is simulated.
    pub highest: Option<Highest>,
    /// The next larger configuration, and the operations per second that it sustains; `None` if it was not simulated.
    pub next: Option<(Count, f64)>,
    /// Power of the devices under load, W; `None` if unknown.
    pub devices_w: Option<f64>,
    /// Price of all systems; `None` if the user gave no prices.
    pub price: Option<f64>,
    /// Result of the textbook formula, for comparison.
    pub textbook: Textbook,
    /// Simulations of the search, in order.
    pub trials: Vec<Trial>,
}

/// Highest rate that all systems together sustain within the latency limit, and the resource that limits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Highest {
    /// Operations per second, over all systems.
    pub iops: f64,
    /// Name of the resource that limits the rate; if none is saturated, of the busiest one.
    pub binds: String,
    /// Utilisation of that resource, 0 to 1.
    pub busy: f64,
    /// True if that resource is saturated. If not, the latency limit restricts the rate.
    pub is_saturated: bool,
    /// True if that resource belongs to devices or arrays, so that more arrays add capacity.
    pub is_of_arrays: bool,
}

impl Highest {
    /// The highest rate, and what limits it in the simulation of one system at this rate.
    pub(crate) fn of(measured: &Measured, iops: f64) -> Self {
        let binds = measured.binds();
        let share = binds.map(|binds| binds.share);
        Self {
            iops,
            binds: share.map_or("nothing".to_owned(), |share| share.name.clone()),
            busy: share.map_or(0.0, |share| share.busy),
            is_saturated: binds.is_some_and(|binds| binds.is_saturated),
            is_of_arrays: share.is_some_and(|share| measured.is_of_arrays(share)),
        }
    }

    /// Describes what limits the rate, as in `explain`: `controller, 98 %`, or `latency (controller, 60 %)`.
    pub(crate) fn binds_in_words(&self) -> String {
        let busiest = format!("{}, {}", self.binds, percent(self.busy));
        if self.is_saturated { busiest } else { format!("latency ({busiest})") }
    }
}

/// A candidate that does not meet the demand.
#[derive(Clone, Debug)]
pub struct Missed {
    /// Index in [`Sizing::candidates`](crate::sizing::Sizing::candidates).
    pub candidate: usize,
    /// The simulation of one system that came closest to the demand. `None` if nothing was simulated, because even
    /// [`UNITS_MAX`](crate::search::UNITS_MAX) systems lack the capacity or the adapters for the rate.
    pub nearest: Option<Trial>,
}

impl Row {
    /// Total number of devices in all systems.
    pub fn devices(&self, candidates: &[Candidate]) -> u32 {
        self.count.units * self.count.arrays * candidates[self.candidate].members
    }

    /// Usable capacity of all systems together, bytes.
    pub fn capacity_bytes(&self, candidates: &[Candidate]) -> u64 {
        u64::from(self.count.units * self.count.arrays) * candidates[self.candidate].array_bytes
    }
}
