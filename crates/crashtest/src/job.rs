//! A recorded run to explore, with the settings of its checks.

use crate::effects::Effects;
use crate::history::History;
use crate::name::{CutName, StateName};
use crate::rules::Rules;
use crate::states::{Choice, States};
use crate::tree::Tree;
use std::sync::Arc;

/// A run whose states are explored: the program's run, or a checker's recovery.
pub(crate) struct Job {
    pub(crate) states: Arc<States>,
    bases: Vec<Tree>,
    /// Name of the state from which this recovery started; empty for the program's run.
    start: Vec<CutName>,
    /// Output against which the states of a recovery are judged; `None` for the program's run, whose states are
    /// judged against the output up to each cut.
    acknowledged: Option<Vec<u8>>,
}

impl Job {
    pub(crate) fn new(
        history: History,
        rules: Rules,
        bound: usize,
        atomic_bytes: Option<u32>,
    ) -> Self {
        let history = Arc::new(history);
        let effects = Effects::of_history(&history, rules);
        let states = States::of_history(history, effects, bound, atomic_bytes);
        Self {
            bases: states.bases(),
            states: Arc::new(states),
            start: Vec::new(),
            acknowledged: None,
        }
    }

    /// Marks this run as the recovery from a state. `acknowledged` is the program's output before the first cut.
    pub(crate) fn after(self, start: StateName, acknowledged: Vec<u8>) -> Self {
        Self { start: start.0, acknowledged: Some(acknowledged), ..self }
    }

    pub(crate) fn is_recovery(&self) -> bool {
        !self.start.is_empty()
    }

    pub(crate) fn tree(&self, epoch: usize, choice: &Choice) -> Tree {
        self.states.tree_on(&self.bases, epoch, choice)
    }

    pub(crate) fn acknowledged(&self, epoch: usize) -> Vec<u8> {
        let end = self.states.epochs[epoch].end;
        self.acknowledged.clone().unwrap_or_else(|| self.states.acknowledged(end))
    }

    pub(crate) fn name(&self, epoch: usize, choice: &Choice) -> StateName {
        let mut cuts = self.start.clone();
        cuts.push(CutName::of_choice(epoch, choice));
        StateName(cuts)
    }
}
