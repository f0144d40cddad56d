//! Pairs the cells (measurements) of A with those of B.
//!
//! Cells are paired by their coordinates (name, workload, threads, depth, blocks, offered rate). The target is not a
//! coordinate, because comparing targets may be the purpose: a run with one target is represented by the target's
//! cell, and a run with several targets by the cell merged over them. Cells left without a counterpart are paired by
//! name if the name is unique on both sides. If each side has only one cell, the two are paired whatever their names.
//! Differing coordinates are reported as conditions.

use super::Omission;
use crate::repeats::groups;
use iodyno_measure::cell::representative;
use iodyno_measure::threshold::unusable;
use iodyno_measure::{Cell, CellKey};
use iodyno_notebook::Run;

/// A cell and its results in all runs of one side.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Coordinates of the cell. The target is set only for the cell of a single target in a run on several
    /// targets.
    pub(super) key: CellKey,
    /// The runs with a usable cell, each with the cell's repeats.
    pub(super) runs: Vec<(&'a Run, Vec<&'a Cell>)>,
    /// Runs in which the cell or a repeat must not be used, each with the reason.
    pub(super) unusable: Vec<(&'a Run, String)>,
}

impl<'a> Entry<'a> {
    /// The first usable cell of the first run; None if no run has a usable cell.
    pub(super) fn first(&self) -> Option<&'a Cell> {
        self.runs.first().and_then(|r| r.1.first()).copied()
    }

    /// All usable cells of all runs.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        self.runs.iter().flat_map(|r| r.1.iter().copied())
    }

    fn is_of_one_target(&self) -> bool {
        !self.key.target.is_empty()
    }
}

/// The cells of a side, each with its results from all runs.
pub(super) fn entries(runs: &[Run]) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry> = Vec::new();
    for run in runs {
        let speaks = representative(&run.cells);
        let mut of_run: Vec<CellKey> = Vec::new();
        for group in groups(run) {
            let mut key = group[0].key.coordinates();
            if speaks(&key) {
                key.target.clear();
            }
            // A list that names a cell twice has two cells of that name; the first represents both.
            if of_run.contains(&key) {
                continue;
            }
            of_run.push(key.clone());
            let i = entries.iter().position(|e| e.key == key).unwrap_or_else(|| {
                entries.push(Entry { key, runs: Vec::new(), unusable: Vec::new() });
                entries.len() - 1
            });
            let mut usable = Vec::new();
            for cell in group {
                match unusable(cell) {
                    Some(why) => entries[i].unusable.push((run, why)),
                    None => usable.push(cell),
                }
            }
            if !usable.is_empty() {
                entries[i].runs.push((run, usable));
            }
        }
    }
    entries
}

/// Pairs the cells of both sides, in A's order, and lists cells without a counterpart.
pub(super) fn pair<'a>(
    [a, b]: [Vec<Entry<'a>>; 2],
    each_target: bool,
    omissions: &mut Vec<Omission>,
) -> Vec<[Entry<'a>; 2]> {
    let mut pairs = Vec::new();
    let is_one_each = a.len() == 1 && b.len() == 1;
    let (mut left_a, mut left_b): (Vec<Entry>, Vec<Entry>) = (Vec::new(), b);
    for entry in a {
        match left_b.iter().position(|other| other.key == entry.key) {
            Some(i) => pairs.push([entry, left_b.remove(i)]),
            None => left_a.push(entry),
        }
    }
    let mut only_a = Vec::new();
    let names = |side: &[Entry], of: &Entry| {
        let same = |e: &&Entry| e.key.name == of.key.name && e.key.target == of.key.target;
        side.iter().filter(same).count()
    };
    let alone: Vec<bool> = left_a.iter().map(|e| names(&left_a, e) == 1).collect();
    for (entry, alone) in left_a.into_iter().zip(alone) {
        let same = |o: &Entry| o.key.name == entry.key.name && o.key.target == entry.key.target;
        match left_b.iter().position(|other| is_one_each || same(other)) {
            Some(i) if is_one_each => pairs.push([entry, left_b.remove(i)]),
            Some(i) if alone && names(&left_b, &entry) == 1 => {
                pairs.push([entry, left_b.remove(i)]);
            }
            _ => only_a.push(entry),
        }
    }
    for (side, other, only) in [("a", "B", only_a), ("b", "A", left_b)] {
        for entry in only {
            let is_loss = !entry.is_of_one_target() || each_target;
            if is_loss {
                omissions.push(omission(&entry, side, format!("{other} has no such cell")));
            }
        }
    }
    pairs.retain(|pair| {
        if pair[0].is_of_one_target() && !each_target {
            let why = "included in the merged cell of all targets; --each-target also compares it separately";
            let of_target = omission(&pair[0], "both", why.to_owned());
            omissions.push(Omission { is_loss: false, ..of_target });
            return false;
        }
        for (entry, side) in pair.iter().zip(["a", "b"]) {
            let mut whys: Vec<&str> = entry.unusable.iter().map(|u| u.1.as_str()).collect();
            whys.sort_unstable();
            whys.dedup();
            if !whys.is_empty() {
                let count = entry.unusable.len();
                let all = count + entry.cells().count();
                let mut why = whys.join(", ");
                if all > 1 {
                    why = format!("in {count} of {all}: {why}");
                }
                omissions.push(omission(entry, side, why));
            }
        }
        pair.iter().all(|entry| !entry.runs.is_empty())
    });
    pairs
}

pub(super) fn omission(entry: &Entry, side: &'static str, why: String) -> Omission {
    Omission {
        cell: entry.key.name.clone(),
        key: entry.key.clone(),
        side,
        metric: None,
        why,
        is_loss: true,
    }
}
