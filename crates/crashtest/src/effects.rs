//! Effects of a recorded run: the parts of its changes that a power cut can keep or lose separately. Each effect lists
//! the earlier effects that it requires, and the event that made it durable.

use crate::blocks::Blocks;
use crate::change::{Change, Made, NodeId};
use crate::history::{Event, History};
use crate::rules::{Commit, Growth, Replace, Rules};
use crate::tree::{Node, PAGE_BYTES, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The smallest part of a change that a power cut keeps or loses. Only the data of a write may also survive in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A change of names, permissions or size, or the zeroing of a range.
    Metadata(Change),
    /// Bytes of a write, separate from any growth of the file.
    Data {
        /// File that is written.
        node: NodeId,
        /// Offset of the first byte in the file.
        offset: u64,
        data: Arc<[u8]>,
    },
    /// Growth of a file by a write, separate from the written bytes.
    Grow {
        /// File that grows.
        node: NodeId,
        /// Minimum size of the file after the growth, bytes.
        size_bytes: u64,
    },
}

impl Act {
    pub fn apply(&self, tree: &mut Tree) {
        match self {
            Self::Metadata(change) => tree.apply(change),
            Self::Data { node, offset, data } => tree.put(*node, *offset, data),
            Self::Grow { node, size_bytes } => tree.grow(*node, *size_bytes),
        }
    }

    /// The file or directory whose own content, size or permissions change; `None` if only names change.
    fn content_of(&self) -> Option<NodeId> {
        match self {
            Self::Data { node, .. }
            | Self::Grow { node, .. }
            | Self::Metadata(
                Change::Resize { node, .. } | Change::Zero { node, .. } | Change::Mode { node, .. },
            ) => Some(*node),
            Self::Metadata(_) => None,
        }
    }

    /// The directories in which a name is added or removed (source and target of a rename; otherwise the same one
    /// twice), and the node with this name; `None` if no name changes.
    fn names(&self) -> Option<([NodeId; 2], NodeId)> {
        let Self::Metadata(change) = self else { return None };
        match change {
            Change::Make { directory, node, .. }
            | Change::Link { directory, node, .. }
            | Change::Remove { directory, node, .. } => Some(([*directory; 2], *node)),
            Change::Rename { from, to, node, .. } => Some(([from.0, to.0], *node)),
            _ => None,
        }
    }
}

/// Part of a recorded change that a power cut keeps or loses separately.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Index of the event that caused the effect, in [`History::events`].
    pub event: usize,
    pub act: Act,
    /// Indices of earlier effects without which this one cannot survive a power cut.
    pub requires: Vec<usize>,
    /// Index of the event that made the effect durable; `None` if it never became durable.
    pub durable_at: Option<usize>,
    /// Whether a sync of the effect failed. No later sync then makes it durable.
    pub is_given_up: bool,
}

/// All effects of a recorded run, in order. An effect is a part of a change that a power cut keeps or loses separately.
/// The rules of a file system determine what an effect requires and when it becomes durable.
#[derive(Clone, Debug)]
pub struct Effects {
    /// Rules of the file system under which the effects were derived.
    pub rules: Rules,
    pub all: Vec<Effect>,
    /// The folder before the run. It also contains all files and directories that the run creates, without names: the
    /// effects add the names.
    pub start: Tree,
}

impl Effects {
    /// Splits the changes of a recorded run into effects, and derives their dependencies and durability under the
    /// rules of a file system.
    #[must_use]
    pub fn of_history(history: &History, rules: Rules) -> Self {
        let mut derivation = Derivation {
            effects: Self { rules, all: Vec::new(), start: history.start.clone() },
            now: history.start.clone(),
            open_from: 0,
            last_metadata: None,
            files: BTreeMap::new(),
            made_in: BTreeMap::new(),
            half_synced: BTreeMap::new(),
        };
        for (event, what) in history.events.iter().enumerate() {
            match what {
                Event::Change(change) => derivation.change(event, change),
                Event::Sync { node, data_only } => derivation.sync(event, *node, *data_only),
                Event::SyncFailed { node } => derivation.give_up(*node),
                Event::SyncRange { node, offset, len_bytes } => {
                    derivation.sync_range(event, *node, *offset..offset.saturating_add(*len_bytes));
                }
                Event::Landed { changes } => derivation.land(event, changes),
                Event::Allocated { node, offset, len_bytes } => {
                    let end = offset.saturating_add(*len_bytes);
                    derivation.file(*node).allocated.add(blocks(*offset, end));
                }
                Event::SyncAll => derivation.sync_all(event),
                Event::Mapped { .. } | Event::Output(_) => {}
            }
        }
        derivation.effects
    }
}

/// State of a file while effects are derived.
#[derive(Default)]
struct File {
    /// Effects of data and growth since the last rename of this file over another one. The next such rename may require
    /// them.
    contents: Vec<usize>,
    /// Blocks that exist on the device. A rename over another file waits for earlier writes to new blocks, but not for
    /// writes to these blocks. A write to both new and existing blocks is waited for as a whole.
    allocated: Blocks,
    /// Blocks that the program has written, but that the file system allocates only when it writes their data to the
    /// device.
    delayed: Blocks,
    last_growth: Option<usize>,
    /// Effect of the last truncation, and the size that it left; `None` if the file was never truncated.
    cut: Option<(usize, u64)>,
    /// Effect of the last write to each atomic unit.
    last_writes: BTreeMap<u64, usize>,
    /// Whether a sync of the file has failed since the last write. It may have lost the file's growth, so the next
    /// write extends the file on the device even if it does not grow the file.
    grows_again: bool,
}

impl File {
    /// Allocates all delayed blocks. Called when the file system writes the file's data to the device.
    fn allocate(&mut self) {
        self.allocated.take(&mut self.delayed);
    }

    /// Whether the block with the byte at `offset` does not exist, and no data for it wait to be written.
    fn is_hole(&self, offset: u64) -> bool {
        let block = blocks(offset, offset + 1);
        !self.allocated.contains(&block) && !self.delayed.contains(&block)
    }

    /// Frees the blocks that lie within a range of bytes.
    fn free(&mut self, from: u64, to: u64) {
        let whole = from.div_ceil(BLOCK_BYTES)..to / BLOCK_BYTES;
        self.allocated.remove(&whole);
        self.delayed.remove(&whole);
    }
}

/// Size of a block of the file system.
const BLOCK_BYTES: u64 = PAGE_BYTES as u64;

/// Blocks that contain the bytes from `offset` to `end`.
fn blocks(offset: u64, end: u64) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
}

struct Derivation {
    effects: Effects,
    /// Current content of the folder as the program sees it.
    now: Tree,
    /// Index of the first effect that may not be durable yet.
    open_from: usize,
    last_metadata: Option<usize>,
    files: BTreeMap<NodeId, File>,
    /// Directory in which each node was created.
    made_in: BTreeMap<NodeId, NodeId>,
    /// For each rename between two directories of which only one was synced, by effect: that directory. A sync of the
    /// other directory then makes the rename durable.
    half_synced: BTreeMap<usize, NodeId>,
}

impl Derivation {
    fn push(&mut self, event: usize, act: Act, requires: Vec<usize>) -> usize {
        self.effects.all.push(Effect {
            event,
            act,
            requires,
            durable_at: None,
            is_given_up: false,
        });
        self.effects.all.len() - 1
    }

    fn change(&mut self, event: usize, change: &Change) {
        if let Change::Write { node, offset, data } = change {
            self.write(event, *node, *offset, data);
        } else {
            self.metadata(event, change);
        }
        self.now.apply(change);
    }

    /// State of a file. All blocks of a file that existed before the run are allocated.
    fn file(&mut self, node: NodeId) -> &mut File {
        let size_bytes = self.effects.start.size_bytes(node);
        self.files.entry(node).or_insert_with(|| {
            let mut allocated = Blocks::default();
            allocated.add(blocks(0, size_bytes));
            File { allocated, ..File::default() }
        })
    }

    fn write(&mut self, event: usize, node: NodeId, offset: u64, data: &Arc<[u8]>) {
        let rules = self.effects.rules;
        let end = offset + data.len() as u64;
        let size_bytes = self.now.size_bytes(node);
        let number = self.effects.all.len();
        let file = self.file(node);
        let written = blocks(offset, end);
        let grows_with_data = match rules.growth_with_data {
            Growth::Never => false,
            Growth::NewBlocks => {
                end > size_bytes.next_multiple_of(BLOCK_BYTES)
                    || file.is_hole(end.saturating_sub(1))
            }
            Growth::Always => true,
        };
        let is_delayed = !data.is_empty() && !file.allocated.contains(&written);
        if is_delayed {
            file.delayed.add(written);
        }
        // Data in a truncated range are written to new blocks, which exist once the truncation does.
        let cut = file.cut.filter(|(_, size)| rules.metadata_in_order && end > *size);
        let requires: Vec<usize> = cut.map(|(effect, _)| effect).into_iter().collect();
        let before = file.last_growth;
        let grows = end > size_bytes || std::mem::take(&mut file.grows_again);
        // A unit is written as it is in the cache, with all earlier writes to it.
        let unit_bytes = u64::from(rules.atomic_bytes);
        let mut earlier: BTreeSet<usize> = requires.iter().copied().collect();
        if !data.is_empty() {
            for unit in offset / unit_bytes..=(end - 1) / unit_bytes {
                earlier.extend(file.last_writes.insert(unit, number));
            }
        }
        let earlier = earlier.into_iter().collect();
        let written = self.push(event, Act::Data { node, offset, data: Arc::clone(data) }, earlier);
        let mut waited_for = is_delayed.then_some(written).into_iter().collect::<Vec<_>>();
        let mut last_growth = None;
        if grows {
            let mut requires = requires;
            requires.extend(grows_with_data.then_some(written));
            // Also where ext4 sets the size at once: it does so after it has allocated the block, with the block's
            // data of that time, and never before it has set the earlier size.
            requires.extend(before.filter(|_| rules.growth_with_data != Growth::Never));
            let grown = self.push(event, Act::Grow { node, size_bytes: end }, requires);
            let sets_size_at_once = end <= size_bytes.next_multiple_of(BLOCK_BYTES);
            waited_for.extend((is_delayed || sets_size_at_once).then_some(grown));
            last_growth = Some(grown);
        }
        let file = self.file(node);
        file.last_growth = last_growth.or(file.last_growth);
        file.contents.extend(waited_for);
    }

    fn metadata(&mut self, event: usize, change: &Change) {
        let rules = self.effects.rules;
        let mut requires = Vec::new();
        if rules.metadata_in_order {
            requires.extend(self.last_metadata);
        }
        match change {
            Change::Make { directory, node, made, mode, .. } => {
                self.made_in.insert(*node, *directory);
                let (made, mode) = (made.clone(), *mode);
                self.effects.start.ensure(*node, || match made {
                    Made::File => Node::file(mode),
                    Made::Directory => Node::directory(mode),
                    Made::Symlink(path) => Node::symlink(&path),
                });
            }
            Change::Rename { node, replaced: Some(_), exchange: false, .. } => {
                let file = self.file(*node);
                if rules.replace != Replace::Nothing {
                    file.allocate();
                }
                let contents = std::mem::take(&mut file.contents);
                let is_waited_for = |effect: &usize| match rules.replace {
                    Replace::Nothing => false,
                    Replace::Size => matches!(self.effects.all[*effect].act, Act::Grow { .. }),
                    Replace::Data => true,
                };
                requires.extend(contents.into_iter().filter(is_waited_for));
            }
            _ => {}
        }
        let made = self.push(event, Act::Metadata(change.clone()), requires);
        self.last_metadata = Some(made);
        if let Change::Resize { node, size_bytes } = change {
            let was_bytes = self.now.size_bytes(*node);
            let (is_shorter, is_longer) = (*size_bytes < was_bytes, *size_bytes > was_bytes);
            let file = self.file(*node);
            if is_shorter {
                file.cut = Some((made, *size_bytes));
            }
            if !is_longer {
                file.free(*size_bytes, u64::MAX);
            }
            file.last_growth = None;
        }
        if let Change::Zero { node, offset, len_bytes } = change {
            // Preallocated blocks after the file's end stay.
            let end = offset.saturating_add(*len_bytes);
            let end = end.min(self.now.size_bytes(*node).next_multiple_of(BLOCK_BYTES));
            self.file(*node).free(*offset, end);
        }
    }

    fn sync_all(&mut self, event: usize) {
        self.files.values_mut().for_each(File::allocate);
        let open = self.open_from..self.effects.all.len();
        let is_kept = |number: &usize| !self.effects.all[*number].is_given_up;
        let kept = open.filter(is_kept).collect();
        self.make_durable(event, kept);
    }

    /// Makes the data and zeroes within a range of a file durable.
    fn sync_range(&mut self, event: usize, node: NodeId, range: std::ops::Range<u64>) {
        let written = |act: &Act| match act {
            Act::Data { node, offset, data } => Some((*node, *offset, data.len() as u64)),
            Act::Metadata(Change::Zero { node, offset, len_bytes }) => {
                Some((*node, *offset, *len_bytes))
            }
            _ => None,
        };
        let is_covered = |number: &usize| {
            written(&self.effects.all[*number].act).is_some_and(|(of, offset, len_bytes)| {
                of == node && range.start <= offset && offset + len_bytes <= range.end
            })
        };
        let covered = (self.open_from..self.effects.all.len()).filter(is_covered).collect();
        self.make_durable(event, covered);
    }

    /// Marks all effects of the events `changes` as durable from `event` on.
    fn land(&mut self, event: usize, changes: &[usize]) {
        let all = &self.effects.all;
        let effects = |change: &usize| {
            let first = all.partition_point(|effect| effect.event < *change);
            first..all.partition_point(|effect| effect.event <= *change)
        };
        let landed = changes.iter().flat_map(effects).collect();
        self.make_durable(event, landed);
    }

    /// Marks the written data of a file whose sync failed, and the growth caused by these writes, as given up.
    fn give_up(&mut self, node: NodeId) {
        for effect in &mut self.effects.all[self.open_from..] {
            let is_written = matches!(effect.act, Act::Data { .. } | Act::Grow { .. });
            if is_written && effect.act.content_of() == Some(node) && effect.durable_at.is_none() {
                effect.is_given_up = true;
            }
        }
        let mut file = std::mem::take(self.file(node));
        let all = &self.effects.all;
        // They are clean now, so a rename waits for none of them.
        file.contents.retain(|effect| !all[*effect].is_given_up);
        file.last_growth = file.last_growth.filter(|effect| !all[*effect].is_given_up);
        file.grows_again = true;
        // Their blocks were allocated before the write failed.
        file.allocate();
        self.files.insert(node, file);
    }

    fn sync(&mut self, event: usize, node: NodeId, data_only: bool) {
        let commit = self.effects.rules.commit;
        self.file(node).allocate();
        let mut above = BTreeSet::from([node]);
        if commit == Commit::OwnNames {
            let mut next = node;
            while let Some(directory) = self.made_in.get(&next)
                && above.insert(*directory)
            {
                next = *directory;
            }
        }
        let open = self.open_from..self.effects.all.len();
        let is_open = |effect: &Effect| effect.durable_at.is_none();
        let mut durable: Vec<usize> = Vec::new();
        let mut commits_journal = false;
        for number in open.clone() {
            let effect = &self.effects.all[number];
            if !is_open(effect) {
                continue;
            }
            let is_mode = matches!(effect.act, Act::Metadata(Change::Mode { .. }));
            let mut is_covered = effect.act.content_of() == Some(node) && !(data_only && is_mode);
            // Each write changes the file's times, so fsync commits even if only data changed.
            let mut dirties = is_covered && !(data_only && matches!(effect.act, Act::Data { .. }));
            if let Some((directories, named)) = effect.act.names() {
                let is_made = matches!(effect.act, Act::Metadata(Change::Make { .. }));
                is_covered = match commit {
                    Commit::Directory if directories[0] != directories[1] => {
                        let is_first = directories.contains(&node);
                        is_first && self.half_synced.insert(number, node).is_some_and(|d| d != node)
                    }
                    Commit::Directory | Commit::Journal => directories.contains(&node),
                    Commit::OwnNames => directories.contains(&node) || above.contains(&named),
                };
                dirties = directories.contains(&node) || named == node && (is_made || !data_only);
            }
            commits_journal |= dirties && commit == Commit::Journal;
            if is_covered && !effect.is_given_up {
                durable.push(number);
            }
        }
        if commits_journal {
            let in_journal = |number: &usize| {
                let effect = &self.effects.all[*number];
                is_open(effect) && matches!(effect.act, Act::Metadata(_))
            };
            durable.extend(open.filter(in_journal));
        }
        self.make_durable(event, durable);
    }

    /// Marks effects, and all effects that they require, as durable from an event on. Exception: if an fsync writes a
    /// log of one file (btrfs), a metadata effect becomes durable without the effects that it requires.
    fn make_durable(&mut self, event: usize, mut open: Vec<usize>) {
        let own_names = self.effects.rules.commit == Commit::OwnNames;
        while let Some(number) = open.pop() {
            let effect = &mut self.effects.all[number];
            if effect.durable_at.is_some() {
                continue;
            }
            effect.durable_at = Some(event);
            let is_metadata = matches!(effect.act, Act::Metadata(_));
            if !(own_names && is_metadata) {
                open.extend(&effect.requires);
            }
        }
        let all = &self.effects.all;
        while all.get(self.open_from).is_some_and(|effect| effect.durable_at.is_some()) {
            self.open_from += 1;
        }
    }
}
