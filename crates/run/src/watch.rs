//! The observer of a run: the progress, warnings and advice that a caller receives.

use crate::plan::Plan;
use iodyno_measure::{Cell, Interval};
use serde::{Deserialize, Serialize};

/// The current activity of a run.
#[derive(Clone, Copy, Debug)]
pub enum Phase<'a> {
    /// Writing a file's content for the first time.
    LayingOut {
        /// Target name.
        target: &'a str,
        /// Bytes done.
        done_bytes: u64,
        /// Bytes to do.
        total_bytes: u64,
    },
    /// Emulated devices are restored to the state in which an earlier process left them.
    Replaying,
    /// An idle time that a method requires.
    Waiting {
        /// How long, ns.
        ns: u64,
    },
    /// A short run on the null engine.
    Calibrating,
    /// An emulated system is built, with preconditioned devices.
    Preparing,
}

/// How fast a cell is going, over all targets and all ranks, by its latest interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Median response time, ns: the largest of all kinds of operation, and of all ranks.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; likewise.
    pub p99_ns: Option<u64>,
    /// Failures so far.
    pub errors: u64,
}

/// How ranks that measure a cell together differ.
#[derive(Clone, Debug, PartialEq)]
pub struct OverRanks {
    /// How many there are.
    pub ranks: u32,
    /// Of how many the rates are known already.
    pub heard: u32,
    /// The one with the lowest rate.
    pub slowest: u32,
    /// Its host.
    pub slowest_host: String,
    /// Its operations a second.
    pub slowest_iops: f64,
}

/// Follows a run. Called from the coordinating thread.
pub trait Watch {
    /// The cost, before anything is opened for writing.
    fn planned(&mut self, _plan: &Plan) {}
    /// The run begins: its id in the notebook (empty without one), and its name.
    fn began(&mut self, _id: &str, _name: &str) {}
    /// Advice on a choice that the operator may want to change.
    fn advise(&mut self, _words: &str) {}
    /// A problem that does not end the run, and that the operator must know now.
    fn warn(&mut self, _words: &str) {}
    /// An activity that is not a measurement begins.
    fn phase(&mut self, _phase: Phase<'_>) {}
    /// Cell `index` of `count` starts; a `count` of 0 is unknown.
    fn cell(&mut self, _index: usize, _count: usize, _cell: &Cell) {}
    /// The workers of the next cells are ready: one cell for each target, still empty. The first one has this index in
    /// the run.
    fn ready(&mut self, _first_index: usize, _cells: &[Cell]) {}
    /// A worker of one of these cells has finished interval `index`. Several workers deliver the same index: they merge.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// Cells are finished and judged; the first has this index in the run.
    fn finished(&mut self, _first_index: usize, _cells: &[Cell]) {}
    /// About ten times a second while a cell runs; `ranks` are those that measure it, where there are several.
    fn tick(
        &mut self,
        _progress: &iodyno_drive::Progress<'_>,
        _rates: &Rates,
        _ranks: Option<&OverRanks>,
    ) {
    }
    /// Some times a second while ranks share the run's cells: so many have begun, on so many ranks.
    fn begun(&mut self, _cells: usize, _ranks: u32) {}
}
