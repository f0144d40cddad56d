//! States that a power cut can leave. A run is split into epochs at each event that makes effects durable. In a state
//! of an epoch, some of the effects that are not yet durable (open) survive. Classes group the states by pattern.

use crate::effects::{Act, Effects};
use crate::history::{Event, History};
use crate::rules::Growth;
use crate::tree::Tree;
use std::sync::Arc;

/// Pattern by which effects of file operations survive a power cut or are lost. Durable effects survive in every class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The first k effects of file operations survive, for any k.
    Prefix,
    /// The first k effects of file operations survive, except one and the effects that require it.
    OneMissing,
    /// Only one effect of a file operation survives, with the effects that it requires.
    OneAlone,
    /// One write is torn. Of the effects of other file operations, either all survive, or only those before the write.
    Torn,
    /// All effects of file operations survive except at most N, or at most N survive, where N is
    /// [`Plan::bound`](crate::Plan::bound).
    Subset,
    /// An emulated device decides: only effects of file operations that became durable on it before the cut survive.
    Model,
}

/// All classes except [`Class::Model`], in the order in which a result lists them.
pub const CLASSES: [Class; 5] =
    [Class::Prefix, Class::OneMissing, Class::OneAlone, Class::Torn, Class::Subset];

impl Class {
    /// Name in output and in the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::OneMissing => "one-missing",
            Self::OneAlone => "one-alone",
            Self::Torn => "torn",
            Self::Subset => "subset",
            Self::Model => "model",
        }
    }
}

/// Identifies a state by its class, epoch and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId {
    /// Pattern by which effects survive.
    pub class: Class,
    /// Index of the epoch (time between two syncs) in which power is cut.
    pub epoch: usize,
    /// Number of the state within its class and epoch, from 0.
    pub number: u64,
}

/// An epoch: the time between two events (such as an fsync) that make effects of file operations durable. A power cut
/// in it may lose the effects that are not durable by then (open).
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Index of the event that ends the epoch, exclusive. For the last epoch, the number of events.
    pub end: usize,
    /// Indices of the effects of file operations that a power cut in the epoch may lose, ascending.
    pub open: Vec<usize>,
}

/// One state that a power cut in an epoch can leave: which effects of file operations survive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Whether each effect of [`Epoch::open`] survives as a whole.
    pub survives: Vec<bool>,
    /// The write that survives only in part; `None` if no write is torn.
    pub torn: Option<Torn>,
}

/// A torn write, and which of its units survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Torn {
    /// Position of the write in [`Epoch::open`].
    pub position: usize,
    /// Range of the write's atomic units, such as pages: first and exclusive end, from 0. [`Torn::is_lost`] says
    /// whether they are lost.
    pub units: (usize, usize),
    /// Whether the units are lost and the rest of the write survives. Otherwise only the units survive.
    pub is_lost: bool,
}

/// All states of a recorded run under a set of rules.
#[derive(Debug)]
pub struct States {
    history: Arc<History>,
    effects: Effects,
    /// Epochs in the order of time. Each ends at an event that makes effects of file operations durable, or at the end
    /// of the run.
    pub epochs: Vec<Epoch>,
    /// A state of the class `subset` loses at most this many effects, or keeps at most this many.
    bound: usize,
    /// Unit of atomic writes, bytes.
    pub(crate) atomic_bytes: u64,
}

/// Number of epochs per folder content in [`States::bases`]. A smaller number takes more memory, a larger one more
/// time.
const BASE_PERIOD: usize = 16;
/// Maximum number of patterns by which one write is torn at its beginning, at its end, or in its middle.
const TORN_PATTERNS_MAX: usize = 16;

impl States {
    /// Splits a run into epochs. `bound` is the maximum number of effects that a state of the class `subset` loses or
    /// keeps. `atomic_bytes` replaces the rules' unit of atomic writes.
    #[must_use]
    pub fn of_history(
        history: Arc<History>,
        effects: Effects,
        bound: usize,
        atomic_bytes: Option<u32>,
    ) -> Self {
        let mut ends: Vec<usize> = effects.all.iter().filter_map(|e| e.durable_at).collect();
        ends.push(history.events.len());
        ends.sort_unstable();
        ends.dedup();
        let epoch = |end: usize| {
            let is_open = |number: &usize| {
                let effect = &effects.all[*number];
                effect.event < end && effect.durable_at.is_none_or(|at| at >= end)
            };
            let first = effects.all.partition_point(|effect| effect.event < end);
            Epoch { end, open: (0..first).filter(is_open).collect() }
        };
        let epochs = ends.into_iter().map(epoch).collect();
        let atomic_bytes = u64::from(atomic_bytes.unwrap_or(effects.rules.atomic_bytes));
        Self { history, effects, epochs, bound, atomic_bytes }
    }

    /// Recorded run from which the states are derived.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Effects of the run, with the rules under which they were derived.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Output of the program before the event with index `end`.
    #[must_use]
    pub fn acknowledged(&self, end: usize) -> Vec<u8> {
        let mut output = Vec::new();
        for event in &self.history.events[..end] {
            if let Event::Output(bytes) = event {
                output.extend(bytes);
            }
        }
        output
    }

    /// Number of states of a class for a power cut in an epoch. Different states may have the same content.
    #[must_use]
    pub fn count(&self, class: Class, epoch: usize) -> u64 {
        let open = &self.epochs[epoch].open;
        let n = open.len() as u64;
        match class {
            Class::Prefix => n + 1,
            Class::OneMissing => n * (n + 1) / 2,
            Class::OneAlone => n,
            Class::Torn => open.iter().map(|number| 2 * self.torn_patterns(*number)).sum(),
            Class::Subset => (2..=self.bound as u64)
                .map(|size| combinations(n, size).saturating_mul(2))
                .fold(0, u64::saturating_add),
            Class::Model => 1,
        }
    }

    /// Number of patterns by which the effect with this index can be torn; 0 if it can't be torn.
    fn torn_patterns(&self, number: usize) -> u64 {
        let ends = self.units(number).saturating_sub(1).min(TORN_PATTERNS_MAX) as u64;
        // Beginnings, ends, and single units in the middle that are lost.
        2 * ends + ends.saturating_sub(1)
    }

    /// Number of atomic units that the effect with this index writes; 0 if the effect is not data.
    fn units(&self, number: usize) -> usize {
        match &self.effects.all[number].act {
            Act::Data { offset, data, .. } if !data.is_empty() => {
                let last = (offset + data.len() as u64 - 1) / self.atomic_bytes;
                (last - offset / self.atomic_bytes + 1) as usize
            }
            _ => 0,
        }
    }

    /// Returns the effects of file operations that survive in a state; `None` if no such state exists.
    #[must_use]
    pub fn choice(&self, id: StateId) -> Option<Choice> {
        let open = &self.epochs.get(id.epoch)?.open;
        if id.number >= self.count(id.class, id.epoch) {
            return None;
        }
        let (n, number) = (open.len(), id.number);
        let mut survives = vec![false; n];
        let mut torn = None;
        match id.class {
            Class::Model => {}
            Class::Prefix => survives[..number as usize].fill(true),
            Class::OneMissing => {
                let (length, missing) = cut_and_missing(n as u64, number);
                survives[..length as usize].fill(true);
                self.lose(open, &mut survives, missing as usize);
            }
            Class::OneAlone => self.keep(open, &mut survives, number as usize),
            Class::Torn => {
                let (position, pattern) = self.torn_at(open, number)?;
                let is_prefix = pattern % 2 == 0;
                survives[..if is_prefix { position } else { n }].fill(true);
                self.lose(open, &mut survives, position);
                torn = Some(self.torn(open[position], position, (pattern / 2) as usize));
                self.keep_own_growth(open, &mut survives, position);
            }
            Class::Subset => {
                let (is_missing, chosen) = self.subset(n as u64, number);
                survives.fill(is_missing);
                for position in chosen {
                    if is_missing {
                        self.lose(open, &mut survives, position as usize);
                    } else {
                        self.keep(open, &mut survives, position as usize);
                    }
                }
            }
        }
        Some(Choice { survives, torn })
    }

    /// Whether a file system can leave this choice: each surviving effect needs all effects that it requires.
    #[must_use]
    pub fn is_possible(&self, epoch: usize, choice: &Choice) -> bool {
        let open = &self.epochs[epoch].open;
        let survives = |number: &usize| {
            open.binary_search(number).map_or(true, |position| choice.survives[position])
        };
        let mut chosen = open.iter().filter(|number| survives(number));
        chosen.all(|number| self.effects.all[*number].requires.iter().all(survives))
    }

    /// Marks an open effect as lost, and with it all open effects that require it.
    pub(crate) fn lose(&self, open: &[usize], survives: &mut [bool], position: usize) {
        survives[position] = false;
        for later in position + 1..open.len() {
            let requires = &self.effects.all[open[later]].requires;
            let is_lost = |required: &usize| {
                open[position..later]
                    .binary_search(required)
                    .is_ok_and(|found| !survives[position + found])
            };
            if survives[later] && requires.iter().any(is_lost) {
                survives[later] = false;
            }
        }
    }

    /// Marks an open effect as surviving, and with it all open effects that it requires.
    pub(crate) fn keep(&self, open: &[usize], survives: &mut [bool], position: usize) {
        survives[position] = true;
        for required in &self.effects.all[open[position]].requires {
            if let Ok(found) = open.binary_search(required)
                && !survives[found]
            {
                self.keep(open, survives, found);
            }
        }
    }

    /// Marks the growth of a file by its torn write as surviving, under rules that let a size survive without its
    /// data.
    fn keep_own_growth(&self, open: &[usize], survives: &mut [bool], position: usize) {
        let event = self.effects.all[open[position]].event;
        let next = position + 1;
        let torn = open[position];
        let is_own = open.get(next).is_some_and(|number| {
            let effect = &self.effects.all[*number];
            effect.event == event && !effect.requires.contains(&torn)
        });
        if is_own {
            self.keep(open, survives, next);
        }
    }

    /// Finds the write that is torn in state `number` of the class `torn`. Returns its position, and the number of the
    /// state among those that tear it: two states per pattern, one for each choice of the other effects. `None` if the
    /// class has no such state.
    fn torn_at(&self, open: &[usize], mut number: u64) -> Option<(usize, u64)> {
        for (position, effect) in open.iter().enumerate() {
            let patterns = 2 * self.torn_patterns(*effect);
            if number < patterns {
                return Some((position, number));
            }
            number -= patterns;
        }
        None
    }

    fn torn(&self, effect: usize, position: usize, pattern: usize) -> Torn {
        let units = self.units(effect);
        let ends = (units - 1).min(TORN_PATTERNS_MAX);
        // A long write is torn at places that are spread over it.
        let border = |k: usize| (k + 1) * units / (ends + 1);
        let (first, last, is_lost) = if pattern < ends {
            (0, border(pattern), false)
        } else if pattern < 2 * ends {
            (border(pattern - ends), units, false)
        } else {
            let at = border(pattern - 2 * ends);
            (at, at + 1, true)
        };
        Torn { position, units: (first, last), is_lost }
    }

    /// Decodes the number of a state of the class `subset`. Returns whether the effects at the listed positions are the
    /// only lost ones (true) or the only survivors (false), and the positions.
    fn subset(&self, n: u64, mut number: u64) -> (bool, Vec<u64>) {
        for size in 2..=self.bound as u64 {
            let count = combinations(n, size);
            if number < count {
                return (true, combination(n, size, number));
            }
            number -= count;
            if number < count {
                return (false, combination(n, size, number));
            }
            number -= count;
        }
        unreachable!("the number is below the count")
    }

    /// For every 16th epoch, builds the folder before the first change that a power cut in the epoch can lose.
    /// [`States::tree_on`] derives all other folders from these.
    #[must_use]
    pub fn bases(&self) -> Vec<Tree> {
        let mut tree = self.effects.start.clone();
        let mut applied = 0;
        let base = |epoch: usize| {
            let (_, first_open) = self.bounds(epoch);
            for effect in &self.effects.all[applied..first_open] {
                effect.act.apply(&mut tree);
            }
            applied = first_open;
            tree.clone()
        };
        (0..self.epochs.len()).step_by(BASE_PERIOD).map(base).collect()
    }

    /// Indices among all effects of the run: the end of the epoch's effects (exclusive), and the first effect that the
    /// epoch may lose.
    fn bounds(&self, epoch: usize) -> (usize, usize) {
        let Epoch { end, open } = &self.epochs[epoch];
        let end = self.effects.all.partition_point(|effect| effect.event < *end);
        (end, open.first().copied().unwrap_or(end))
    }

    /// Builds the folder that a choice leaves in an epoch, from the last of [`States::bases`] at or before the epoch.
    #[must_use]
    pub fn tree_on(&self, bases: &[Tree], epoch: usize, choice: &Choice) -> Tree {
        let mut tree = bases[epoch / BASE_PERIOD].clone();
        let (_, base) = self.bounds(epoch - epoch % BASE_PERIOD);
        let (end, first_open) = self.bounds(epoch);
        for effect in &self.effects.all[base..first_open] {
            effect.act.apply(&mut tree);
        }
        let mut open = self.epochs[epoch].open.iter().enumerate().peekable();
        for number in first_open..end {
            let effect = &self.effects.all[number];
            let Some((position, _)) = open.next_if(|(_, open)| **open == number) else {
                effect.act.apply(&mut tree);
                continue;
            };
            match choice.torn {
                Some(torn) if torn.position == position => self.tear(&mut tree, number, torn),
                _ if choice.survives[position] => effect.act.apply(&mut tree),
                _ => {}
            }
        }
        tree
    }

    /// Range of bytes in the file that the units in `torn` cover: first byte, and exclusive end.
    pub(crate) fn torn_range(&self, effect: usize, torn: Torn) -> (u64, u64) {
        let Act::Data { offset, data, .. } = &self.effects.all[effect].act else { return (0, 0) };
        let border = |unit: usize| {
            let at = (offset / self.atomic_bytes).saturating_add(unit as u64);
            at.saturating_mul(self.atomic_bytes).clamp(*offset, offset + data.len() as u64)
        };
        (border(torn.units.0), border(torn.units.1))
    }

    /// Applies the surviving units of a torn write. If only a beginning of the write survives, and the file grows with
    /// its data, extends the file to the end of these units.
    fn tear(&self, tree: &mut Tree, effect: usize, torn: Torn) {
        let Act::Data { node, offset, data } = &self.effects.all[effect].act else { return };
        let end = offset + data.len() as u64;
        let (from, to) = self.torn_range(effect, torn);
        let mut put = |from: u64, to: u64| {
            let range = (from - offset) as usize..(to - offset) as usize;
            tree.put(*node, from, &data[range]);
        };
        if torn.is_lost {
            put(*offset, from);
            put(to, end);
        } else {
            put(from, to);
        }
        let is_head = !torn.is_lost && torn.units.0 == 0;
        let grows = self.effects.all.get(effect + 1).is_some_and(|next| {
            next.event == self.effects.all[effect].event && matches!(next.act, Act::Grow { .. })
        });
        if is_head
            && grows
            && self.effects.rules.growth_with_data != Growth::Never
            && tree.size_bytes(*node) >= *offset
        {
            tree.grow(*node, to);
        }
    }
}

/// Decodes the number of a state of the class `one-missing`: length of the surviving prefix, and position of the effect
/// that is missing in it. The first numbers have the longest prefix.
fn cut_and_missing(n: u64, mut number: u64) -> (u64, u64) {
    let mut length = n;
    while number >= length {
        number -= length;
        length -= 1;
    }
    (length, number)
}

/// Number of combinations of `k` out of `n`, saturating.
fn combinations(n: u64, k: u64) -> u64 {
    if k > n {
        return 0;
    }
    let mut count: u128 = 1;
    for i in 0..k {
        count = count * u128::from(n - i) / u128::from(i + 1);
        if count > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    count as u64
}

/// Decodes the number of a combination of `k` out of `n`, by the combinatorial number system. The elements are
/// ascending.
fn combination(n: u64, k: u64, mut number: u64) -> Vec<u64> {
    let mut chosen = Vec::new();
    let mut below = n;
    for size in (1..=k).rev() {
        let mut candidate = below - 1;
        while combinations(candidate, size) > number {
            candidate -= 1;
        }
        number -= combinations(candidate, size);
        chosen.push(candidate);
        below = candidate;
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn combinations_are_numbered_without_gap() {
        for (n, k) in [(5, 2), (7, 3), (4, 4), (6, 1)] {
            let all: BTreeSet<Vec<u64>> =
                (0..combinations(n, k)).map(|number| combination(n, k, number)).collect();
            assert_eq!(all.len() as u64, combinations(n, k));
            let is_proper = |c: &Vec<u64>| c.is_sorted_by(|a, b| a < b) && c.iter().all(|i| *i < n);
            assert!(all.iter().all(is_proper));
        }
    }
}
