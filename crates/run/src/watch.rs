//! Observer interface by which the caller of a run receives progress, warnings and advice.

use crate::plan::Plan;
use iodyno_measure::{Cell, Interval};
use serde::{Deserialize, Serialize};

/// Activity of a run while it is not measuring.
#[derive(Clone, Copy, Debug)]
pub enum Phase<'a> {
    /// Writing the initial content of a file.
    LayingOut {
        /// Name or path of the target that is being written.
        target: &'a str,
        /// Bytes of initial content that have been written to the target so far.
        done_bytes: u64,
        /// Bytes of initial content to write to the target in total.
        total_bytes: u64,
    },
    /// Repeating the simulation of earlier cells, to restore the device state at which an interrupted run stopped.
    Replaying,
    /// Waiting for the idle time that a method requires.
    Waiting {
        /// Duration of the wait, ns.
        ns: u64,
    },
    /// Calibrating the load generator: a short run on the null engine measures the generator's overhead.
    Calibrating,
    /// Building an emulated system, with preconditioned devices.
    Preparing,
}

/// Rates of a cell in its latest interval, over all targets and ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Operations completed per second: the sum over all kinds of operation.
    pub iops: f64,
    /// Bytes read and written per second.
    pub bytes_per_s: f64,
    /// Median response time, ns. If several kinds of operation or ranks have separate medians, the largest of them.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the response time, ns. If several kinds of operation or ranks have separate percentiles, the
    /// largest of them.
    pub p99_ns: Option<u64>,
    /// Number of failed operations in the cell so far.
    pub errors: u64,
}

/// Comparison of the ranks (processes, usually on different hosts) that measure a cell together.
#[derive(Clone, Debug, PartialEq)]
pub struct OverRanks {
    pub ranks: u32,
    /// Number of ranks that have reported their rates.
    pub heard: u32,
    /// Rank with the lowest rate, numbered from 0.
    pub slowest: u32,
    pub slowest_host: String,
    /// Operations per second of the slowest rank.
    pub slowest_iops: f64,
}

/// Receives the events of a run. All methods are called from the run's coordinating thread.
pub trait Watch {
    /// Called with the estimated cost of the run, before anything is opened for writing.
    fn planned(&mut self, _plan: &Plan) {}
    /// Called when the run begins, with its id (empty if not stored) and its name.
    fn began(&mut self, _id: &str, _name: &str) {}
    /// Called with advice on a choice that the user may want to change.
    fn advise(&mut self, _words: &str) {}
    /// Called with a problem that does not end the run, but that the user must know immediately.
    fn warn(&mut self, _words: &str) {}
    /// Called when an activity other than measuring begins.
    fn phase(&mut self, _phase: Phase<'_>) {}
    /// Called when cell `index` of `count` starts; `count` is 0 if unknown.
    fn cell(&mut self, _index: usize, _count: usize, _cell: &Cell) {}
    /// Called when the workers of the next cells are ready. `cells` has one empty cell per target; the first one
    /// has the given index in the run.
    fn ready(&mut self, _first_index: usize, _cells: &[Cell]) {}
    /// Called when a worker has finished interval `index` of its cell, which has the index `_target` in the list passed
    /// to [`Self::ready`]. Each worker delivers its own part of the same interval.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// Called when cells are finished and judged. The first one has the given index in the run.
    fn finished(&mut self, _first_index: usize, _cells: &[Cell]) {}
    /// Called about ten times per second while a cell runs. `ranks` compares the ranks that measure the cell; None for
    /// a run of one process.
    fn tick(
        &mut self,
        _progress: &iodyno_drive::Progress<'_>,
        _rates: &Rates,
        _ranks: Option<&OverRanks>,
    ) {
    }
    /// Called a few times per second while `ranks` ranks divide the cells among themselves. `cells` is the number of
    /// cells begun so far.
    fn begun(&mut self, _cells: usize, _ranks: u32) {}
}
