//! What a caller can follow while a run goes on.

use crate::plan::Plan;
use iodyno_measure::Cell;

/// What a run is doing.
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
    /// Emulated devices are brought to where an earlier process left them.
    Replaying,
    /// Nothing is done for a while: a method says so.
    Waiting {
        /// How long, ns.
        ns: u64,
    },
    /// A short run on the null engine.
    Calibrating,
    /// An emulated system is made, with devices that were written before.
    Preparing,
}

/// Follows a run. Called from the coordinating thread.
pub trait Watch {
    /// The cost, before anything is opened for writing.
    fn planned(&mut self, _plan: &Plan) {}
    /// Something that the operator may want to do otherwise.
    fn advise(&mut self, _words: &str) {}
    /// Something goes wrong that does not end the run, and that the operator must know now.
    fn warn(&mut self, _words: &str) {}
    /// Something goes on that is not a measurement.
    fn phase(&mut self, _phase: Phase<'_>) {}
    /// Cell `index` of `count` starts; a `count` of 0 is not known before.
    fn cell(&mut self, _index: usize, _count: usize, _cell: &Cell) {}
    /// About ten times a second while a cell runs.
    fn tick(&mut self, _progress: &iodyno_drive::Progress<'_>) {}
}
