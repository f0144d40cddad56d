//! Re-creates one state of a recorded run by its name.

use crate::check::{Check, Verdict};
use crate::explore::Plan;
use crate::history::History;
use crate::job::Job;
use crate::judge::Judge;
use crate::name::StateName;
use crate::tree::Tree;
use std::io;

/// A state that a power cut can leave, with the program's output up to the cut.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Content of the folder after the last power cut.
    pub tree: Tree,
    /// Output of the program under test up to the first power cut.
    pub acknowledged: Vec<u8>,
}

/// Re-creates a named state of a run. If the name has several cuts, `check` recovers from each cut except the last,
/// and the next cut interrupts that recovery.
///
/// # Errors
///
/// The run has no such state under this plan, or the checker can't be started.
pub fn replay(
    history: History,
    plan: &Plan,
    state: &StateName,
    check: &dyn Check,
) -> io::Result<Replayed> {
    let missing = || {
        let why = format!(
            "under the rules {} the run has no state {state}: give the same run, --rules and --atomic as before",
            plan.rules.name
        );
        io::Error::new(io::ErrorKind::NotFound, why)
    };
    let mut history = history;
    let mut acknowledged = None;
    let mut cuts = state.0.iter().peekable();
    while let Some(cut) = cuts.next() {
        let job = Job::new(history, plan.rules, plan.bound, plan.atomic_bytes);
        let choice = cut.choice(&job.states).ok_or_else(missing)?;
        if !job.states.is_possible(cut.epoch, &choice) {
            return Err(missing());
        }
        let tree = job.tree(cut.epoch, &choice);
        let printed = acknowledged.unwrap_or_else(|| job.acknowledged(cut.epoch));
        if cuts.peek().is_none() {
            return Ok(Replayed { tree, acknowledged: printed });
        }
        let judged = Judge::new(check).judge(&tree, &printed)?;
        history = History { start: tree, events: judged.events };
        acknowledged = Some(printed);
    }
    Err(missing())
}

/// Judges one state. Returns the verdict, and the output of the checker.
///
/// # Errors
///
/// The checker can't be started.
pub fn judge_once(
    check: &dyn Check,
    tree: &Tree,
    acknowledged: &[u8],
) -> io::Result<(Verdict, Vec<u8>)> {
    let judged = Judge::new(check).judge(tree, acknowledged)?;
    Ok((judged.verdict, judged.output))
}
