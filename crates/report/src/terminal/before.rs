//! Recognises notes (verdicts that do not limit validity) that earlier runs on the same machine already had.

use crate::verdict_groups::without_numbers;
use iodyno_measure::Verdict;
use iodyno_notebook::{EarlierNotes, Run};
use serde_json::Value;
use std::collections::BTreeSet;

/// Codes of notes that describe the machine and therefore repeat in all of its runs.
const OF_MACHINE: [&str; 4] = ["VIRTUAL_MACHINE", "GOVERNOR", "CLOCK_SOURCE", "MITIGATIONS"];
/// Keys of the machine description that identify the machine and its kernel.
const IDENTITY: [&str; 7] =
    ["host_name", "kernel", "architecture", "cpu_model", "cores_online", "ram_bytes", "product"];

/// Notes of earlier runs on the same machine, which a report need not repeat in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Code and text of each note about the machine.
    machine: BTreeSet<(String, String)>,
    /// Code and text, without numbers, of each note about one of the run's targets.
    targets: BTreeSet<(String, String)>,
}

impl Before {
    /// Selects the earlier notes that apply to `run`: those about the same machine, and those about the same target on
    /// this machine.
    pub fn of(run: &Run, earlier: &[EarlierNotes]) -> Self {
        let identity = |machine: &Value| IDENTITY.map(|key| machine[key].clone());
        let own = identity(&run.head.machine);
        let mut before = Self::default();
        for other in earlier.iter().filter(|other| identity(&other.machine) == own) {
            let is_target = run.head.targets.iter().any(|target| target.name == other.target);
            for note in &other.notes {
                if OF_MACHINE.contains(&note.code.as_str()) {
                    before.machine.insert((note.code.clone(), note.text.clone()));
                } else if is_target {
                    before.targets.insert((note.code.clone(), without_numbers(&note.text)));
                }
            }
        }
        before
    }

    /// Whether an earlier run on this machine had the same note about the machine.
    pub(super) fn has_of_machine(&self, note: &Verdict) -> bool {
        self.machine.contains(&(note.code.clone(), note.text.clone()))
    }

    /// Whether an earlier run on the same target had this note, apart from numbers in its text.
    pub(super) fn has_of_target(&self, note: &Verdict) -> bool {
        !self.targets.is_empty()
            && self.targets.contains(&(note.code.clone(), without_numbers(&note.text)))
    }
}
