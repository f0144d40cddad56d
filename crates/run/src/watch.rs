//! The observer of a run: the progress, warnings and advice that a caller receives.

use crate::plan::Plan;
use iodyno_measure::Cell;

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

/// Follows a run. Called from the coordinating thread.
pub trait Watch {
    /// The cost, before anything is opened for writing.
    fn planned(&mut self, _plan: &Plan) {}
    /// Advice on a choice that the operator may want to change.
    fn advise(&mut self, _words: &str) {}
    /// A problem that does not end the run, and that the operator must know now.
    fn warn(&mut self, _words: &str) {}
    /// An activity that is not a measurement begins.
    fn phase(&mut self, _phase: Phase<'_>) {}
    /// Cell `index` of `count` starts; a `count` of 0 is unknown.
    fn cell(&mut self, _index: usize, _count: usize, _cell: &Cell) {}
    /// About ten times a second while a cell runs.
    fn tick(&mut self, _progress: &iodyno_drive::Progress<'_>) {}
}
