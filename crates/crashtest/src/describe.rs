//! Describes a finding in words: which changes were lost, and which sync would have made each durable.

use crate::change::{Change, NodeId};
use crate::effects::Act;
use crate::history::Event;
use crate::minimise::Finding;
use crate::rules::Commit;
use crate::states::States;
use crate::tree::Tree;
use iodyno_units::human::counted;
use serde::Serialize;

/// A change, or part of one, that was lost or torn by the power cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Description of the lost change, with file and range.
    pub effect: String,
    /// Description of the sync that would have made the change durable.
    pub kept_by: String,
    /// Index of the change in the recorded events.
    pub event: usize,
}

/// Description of a finding: losses, later changes that survive, and the program's output before the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Lost and torn changes, in the order of the run.
    pub lost: Vec<Loss>,
    /// Number of surviving changes that come after a lost or torn one.
    pub later_survivors: usize,
    /// Description of the first of [`Self::later_survivors`]; empty if there is none.
    pub first_later_survivor: String,
    /// Number of lines that the program had printed before the power cut.
    pub acknowledged_lines: usize,
    /// The last of the [`Self::acknowledged_lines`]; empty if there is none.
    pub last_acknowledged: String,
}

impl Finding {
    /// Describes what is lost in the smallest wrong state of this finding, and what survives.
    #[must_use]
    pub fn describe(&self) -> Described {
        let states = &*self.states;
        let open = &states.epochs[self.epoch()].open;
        let torn = self.choice.torn;
        let is_changed = |position: usize| {
            !self.choice.survives[position] || torn.is_some_and(|torn| torn.position == position)
        };
        let lost: Vec<usize> = (0..open.len()).filter(|position| is_changed(*position)).collect();
        let first = lost.first().copied().unwrap_or(open.len());
        let later: Vec<usize> =
            (first..open.len()).filter(|position| !is_changed(*position)).collect();
        let mut named = lost.clone();
        named.extend(later.first());
        let effects: Vec<usize> = named.iter().map(|position| open[*position]).collect();
        let mut words = in_words(states, &effects);
        let first_later_survivor =
            later.first().and_then(|_| words.pop()).map_or(String::new(), |loss| loss.effect);
        for (loss, position) in words.iter_mut().zip(&lost) {
            if let Some(torn) = torn.filter(|torn| torn.position == *position) {
                let (from, to) = states.torn_range(open[*position], torn);
                let verb = if torn.is_lost { "are lost" } else { "alone survive" };
                loss.effect = format!("{}: bytes {from} to {} {verb}", loss.effect, to - 1);
            }
        }
        let text = String::from_utf8_lossy(&self.acknowledged);
        Described {
            lost: words,
            later_survivors: later.len(),
            first_later_survivor,
            acknowledged_lines: text.lines().count(),
            last_acknowledged: text.lines().last().unwrap_or_default().to_owned(),
        }
    }

    fn epoch(&self) -> usize {
        self.name.0.last().map_or(0, |cut| cut.epoch)
    }
}

/// Describes the loss of each effect. Files have the paths that they had at the time of the effect. `effects` need not
/// be sorted.
fn in_words(states: &States, effects: &[usize]) -> Vec<Loss> {
    let all = &states.effects().all;
    let mut order: Vec<usize> = (0..effects.len()).collect();
    order.sort_by_key(|i| all[effects[*i]].event);
    let mut words = vec![None; effects.len()];
    let mut tree = states.history().start.clone();
    let mut done = 0;
    for i in order {
        let effect = &all[effects[i]];
        for event in &states.history().events[done..effect.event] {
            if let Event::Change(change) = event {
                tree.apply(change);
            }
        }
        done = done.max(effect.event);
        let mut after = tree.clone();
        if let Event::Change(change) = &states.history().events[effect.event] {
            after.apply(change);
        }
        words[i] = Some(Loss {
            effect: act_in_words(&effect.act, &tree, &after),
            kept_by: if effect.is_given_up {
                "fsync after a second write of the data, since the first fsync failed".to_owned()
            } else {
                kept_by(&effect.act, &after, states.effects().rules.commit)
            },
            event: effect.event,
        });
    }
    words.into_iter().flatten().collect()
}

/// Path of a node in quotation marks.
fn quoted(tree: &Tree, node: NodeId) -> String {
    match tree.path_of(node) {
        Some(path) if path.is_empty() => "the folder".to_owned(),
        Some(path) => format!("`{path}`"),
        None => "an unlinked file".to_owned(),
    }
}

fn entry(tree: &Tree, directory: NodeId, name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    match tree.path_of(directory) {
        Some(path) if path.is_empty() => format!("`{name}`"),
        Some(path) => format!("`{path}/{name}`"),
        None => format!("`{name}` in a removed directory"),
    }
}

fn act_in_words(act: &Act, before: &Tree, after: &Tree) -> String {
    match act {
        Act::Data { node, offset, data } => {
            let bytes = counted(data.len() as u64, "byte");
            format!("write of {bytes} at {offset} of {}", quoted(after, *node))
        }
        Act::Grow { node, size_bytes } => {
            format!("growth of {} to {}", quoted(after, *node), counted(*size_bytes, "byte"))
        }
        Act::Metadata(change) => match change {
            Change::Make { directory, name, .. } => {
                format!("creation of {}", entry(before, *directory, name))
            }
            Change::Link { directory, name, node } => {
                format!("link {} to {}", entry(before, *directory, name), quoted(before, *node))
            }
            Change::Remove { directory, name, .. } => {
                format!("removal of {}", entry(before, *directory, name))
            }
            Change::Rename { from, to, .. } => format!(
                "rename of {} to {}",
                entry(before, from.0, &from.1),
                entry(before, to.0, &to.1)
            ),
            Change::Write { node, .. } => format!("write of {}", quoted(before, *node)),
            Change::Zero { node, offset, len_bytes } => {
                let bytes = counted(*len_bytes, "byte");
                format!("zeroing of {bytes} at {offset} of {}", quoted(before, *node))
            }
            Change::Resize { node, size_bytes } => {
                let bytes = counted(*size_bytes, "byte");
                format!("change of the size of {} to {bytes}", quoted(before, *node))
            }
            Change::Mode { node, .. } => {
                format!("change of the permissions of {}", quoted(before, *node))
            }
        },
    }
}

fn kept_by(act: &Act, after: &Tree, commit: Commit) -> String {
    let directory_of = |directory: NodeId| match after.path_of(directory) {
        Some(path) if !path.is_empty() => format!("directory `{path}`"),
        _ => "folder itself".to_owned(),
    };
    match act {
        Act::Metadata(Change::Rename { from: (source, _), to: (target, _), .. })
            if commit == Commit::Directory && source != target =>
        {
            format!(
                "fsync of the {} and one of the {}",
                directory_of(*source),
                directory_of(*target)
            )
        }
        Act::Metadata(Change::Remove { directory, .. }) => {
            format!("fsync of the {}", directory_of(*directory))
        }
        Act::Metadata(
            Change::Make { directory, node, .. }
            | Change::Link { directory, node, .. }
            | Change::Rename { to: (directory, _), node, .. },
        ) => match commit {
            Commit::Directory => format!("fsync of the {}", directory_of(*directory)),
            Commit::OwnNames => format!("fsync of {}", quoted(after, *node)),
            Commit::Journal => {
                format!("fsync of {} or of the {}", quoted(after, *node), directory_of(*directory))
            }
        },
        Act::Metadata(
            Change::Write { node, .. }
            | Change::Zero { node, .. }
            | Change::Resize { node, .. }
            | Change::Mode { node, .. },
        )
        | Act::Data { node, .. }
        | Act::Grow { node, .. } => format!("fsync of {}", quoted(after, *node)),
    }
}
