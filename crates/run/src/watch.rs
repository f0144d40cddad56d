//! The observer of a run: the progress, warnings and advice that a caller receives.

use crate::plan::Plan;
use iodyno_measure::{Cell, Interval};
use serde::{Deserialize, Serialize};

/// The current activity of a run.
#[derive(Clone, Copy, Debug)]
pub enum Phase<'a> {
    /// Writing a file's content for the first time.
    LayingOut {
        /// Name or path of the target.
        target: &'a str,
        /// Bytes done.
        done_bytes: u64,
        /// Bytes to do.
        total_bytes: u64,
    },
    /// Restoring emulated devices to the state in which an earlier process left them.
    Replaying,
    /// Idle for a time that a method requires.
    Waiting {
        /// Duration of the wait, ns.
        ns: u64,
    },
    /// Calibrating the generator in a short run on the null engine.
    Calibrating,
    /// Building an emulated system, with preconditioned devices.
    Preparing,
}

/// Rates of a cell in its latest interval, over all targets and ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Operations per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Median response time, ns: the maximum over all kinds of operation, and over all ranks.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the response time, ns: the maximum, as for the median.
    pub p99_ns: Option<u64>,
    /// Number of failed operations so far.
    pub errors: u64,
}

/// Differences between the ranks that measure a cell together.
#[derive(Clone, Debug, PartialEq)]
pub struct OverRanks {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of ranks that have reported their rates.
    pub heard: u32,
    /// The rank with the lowest rate.
    pub slowest: u32,
    /// Host of the slowest rank.
    pub slowest_host: String,
    /// IOPS of the slowest rank.
    pub slowest_iops: f64,
}

/// Observer of a run. Called from the coordinating thread.
pub trait Watch {
    /// Announces the cost of the run, before anything is opened for writing.
    fn planned(&mut self, _plan: &Plan) {}
    /// The run begins: its id in the notebook (empty without one), and its name.
    fn began(&mut self, _id: &str, _name: &str) {}
    /// Advice on a choice that the user may want to change.
    fn advise(&mut self, _words: &str) {}
    /// A problem that does not end the run, but that the user must know now.
    fn warn(&mut self, _words: &str) {}
    /// An activity that is not a measurement begins.
    fn phase(&mut self, _phase: Phase<'_>) {}
    /// Cell `index` of `count` starts; `count` is 0 if it is unknown.
    fn cell(&mut self, _index: usize, _count: usize, _cell: &Cell) {}
    /// The workers of the next cells are ready. `cells` has one cell per target, still empty; the first has this
    /// index in the run.
    fn ready(&mut self, _first_index: usize, _cells: &[Cell]) {}
    /// A worker of cell `target` has finished interval `index`. Several workers deliver the same index; their
    /// intervals merge.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// Cells are finished and judged; the first has this index in the run.
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
    /// Called a few times per second while ranks share the run's cells: `cells` have begun so far, on `ranks` ranks.
    fn begun(&mut self, _cells: usize, _ranks: u32) {}
}
