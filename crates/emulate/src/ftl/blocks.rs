//! Block states of the flash translation layer (free, open, closing, sealed, victim), the choice of victims, and wear.
//!
//! A block is free, then open while a stream takes its slots, then closing while program operations of its
//! last slots are in flight, then sealed. Only sealed blocks can be collected. There is
//! a list of them for each number of valid pages, so that the block with the fewest is found without a search.
//!
//! Blocks filled by the host's stream are sealed in the order in which they were opened. So as
//! long as a program operation is in flight, garbage collection can't have moved anything that was reserved after
//! it, and of two program operations of one page, the one with the later slot is the
//! newer. The map relies on that.
//!
//! The page in each slot is not recorded here.

use super::placement::{Handle, Placement};
use crate::spec::VictimRule;
use std::collections::VecDeque;

/// The source of the data in a block. Host data and copies by garbage collection fill separate blocks,
/// since pages that have survived a collection are likely to live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Writes of the host with this reclaim unit handle.
    Host(Handle),
    /// Copies by garbage collection: of data with this handle if handles are persistently isolated, else of all data,
    /// with handle 0.
    Copy(Handle),
}

impl Stream {
    /// Returns the index of the stream's write frontier.
    #[inline]
    pub(super) fn index(self) -> usize {
        match self {
            Self::Host(handle) => 2 * usize::from(handle),
            Self::Copy(handle) => 2 * usize::from(handle) + 1,
        }
    }

    /// Returns the reclaim unit handle of the data.
    #[inline]
    pub fn handle(self) -> Handle {
        let (Self::Host(handle) | Self::Copy(handle)) = self;
        handle
    }
}

/// Number of free blocks below which garbage collection should run. In steady state, if garbage collection keeps pace
/// with the host's writes, the number of free blocks is one less; preconditioned devices start in this state.
pub const FREE_BLOCKS: u32 = 4;

/// Returns the number of unsealed blocks in steady state: the free blocks, and an open block per write frontier.
pub(super) fn unsealed_blocks(frontiers: u32) -> u32 {
    FREE_BLOCKS - 1 + frontiers
}

/// Returns the number of blocks' worth of empty space in steady state: the free blocks, and half of each open block.
/// Garbage collection can't use this space as spare.
pub(super) fn empty_blocks(frontiers: u32) -> u32 {
    FREE_BLOCKS - 1 + frontiers.div_ceil(2)
}

/// Number of free blocks reserved for copies, without which garbage collection could not finish.
const FREE_FOR_COPIES: usize = 1;

/// A block may be collected for its low wear if it lags behind the most worn block by more than this number of
/// erases.
const WEAR_SPREAD: u32 = 64;
/// Period, in collections, at which a block is chosen for its low wear, if there is such a block.
const WEAR_EVERY: u32 = 8;
/// Maximum number of blocks examined in a search for a block of low wear.
const WEAR_LOOKS: u32 = 64;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Open,
    Closing,
    Sealed,
    Victim,
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Number of physical slots that contain current data.
    pub(super) valid: u32,
    /// Number of physical slots that are reserved but not yet programmed.
    pub(super) in_flight: u32,
    pub(super) erases: u32,
    next: u32,
    previous: u32,
    pub(super) state: State,
    pub(super) stream: Stream,
    /// Number of blocks opened before this one, which orders blocks by age.
    pub(super) opened: u64,
}

/// The free physical slots of a stream's open block, from `next` to `end`.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    block: u32,
    next: u32,
    end: u32,
}

/// A block chosen for garbage collection, and whether low wear was the reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) block: u32,
    pub(super) for_wear: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pages_per_block: u32,
    /// ⌈2⁶⁴ / pages_per_block⌉. The upper 64 bits of its product with a slot number are the block number.
    reciprocal: u64,
    list: Vec<Block>,
    free: VecDeque<u32>,
    /// Open block of each stream, by [`Stream::index`].
    cursors: Box<[Cursor]>,
    /// Whether copies keep the handle of their data.
    persistent: bool,
    /// Slots that were reserved for copies and left empty by a power cut. They still count as in flight, and are the
    /// first to be reserved again.
    returned: VecDeque<u32>,
    /// Blocks of the host's stream that are full but not sealed yet, oldest first.
    closing: VecDeque<u32>,
    opened: u64,
    /// For each number of valid pages, the first sealed block with this number.
    heads: Vec<u32>,
    /// Lower bound of the number of valid pages of any sealed block.
    fewest: u32,
    picks: u32,
    hand: u32,
    most_erases: u32,
    /// Rule by which [`Self::pick`] chooses a block, except when it chooses one for its low wear.
    pub(super) rule: VictimRule,
    /// [`WEAR_SPREAD`]; `u32::MAX` without wear levelling: in tests, and with several handles, whose rates of writes
    /// differ for good. Each eighth victim would be cold data then, which its copies would mix with other data.
    pub(super) wear_spread: u32,
}

impl Blocks {
    /// Creates `count` blocks, all free, for the handles of `placement`.
    pub(super) fn new(count: u32, pages_per_block: u32, placement: &Placement) -> Self {
        let block = Block {
            valid: 0,
            in_flight: 0,
            erases: 0,
            next: NONE,
            previous: NONE,
            state: State::Free,
            stream: Stream::Copy(0),
            opened: 0,
        };
        Self {
            pages_per_block,
            reciprocal: u64::MAX / u64::from(pages_per_block) + 1,
            list: vec![block; count as usize],
            free: (0..count).collect(),
            cursors: vec![
                Cursor { block: NONE, next: 0, end: 0 };
                2 * usize::from(placement.handles())
            ]
            .into(),
            persistent: placement.is_persistent(),
            returned: VecDeque::new(),
            closing: VecDeque::new(),
            opened: 0,
            heads: vec![NONE; pages_per_block as usize + 1],
            fewest: pages_per_block,
            picks: 0,
            hand: 0,
            most_erases: 0,
            rule: VictimRule::FewestValid,
            wear_spread: if placement.handles() > 1 { u32::MAX } else { WEAR_SPREAD },
        }
    }

    pub(super) fn list(&self) -> &[Block] {
        &self.list
    }

    pub(super) fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    #[inline]
    pub(super) fn of(&self, slot: u32) -> u32 {
        ((u128::from(slot) * u128::from(self.reciprocal)) >> 64) as u32
    }

    /// Returns the numbers of a block's physical slots.
    pub(super) fn slots(&self, block: u32) -> std::ops::Range<u32> {
        block * self.pages_per_block..(block + 1) * self.pages_per_block
    }

    /// Reserves the stream's next physical slot, which counts as in flight until its program operation ends. `None`
    /// if no block is free.
    #[inline]
    pub(super) fn reserve(&mut self, stream: Stream) -> Option<u32> {
        let which = stream.index();
        let is_host = matches!(stream, Stream::Host(_));
        if !is_host && let Some(slot) = self.take_returned(stream) {
            return Some(slot);
        }
        if self.cursors[which].next == self.cursors[which].end {
            self.open(stream)?;
        }
        let cursor = &mut self.cursors[which];
        let slot = cursor.next;
        cursor.next += 1;
        let block = &mut self.list[cursor.block as usize];
        block.in_flight += 1;
        if cursor.next == cursor.end {
            block.state = State::Closing;
            if is_host {
                self.closing.push_back(cursor.block);
            }
        }
        Some(slot)
    }

    /// Returns whether `count` slots (at most one block) can be reserved for a stream.
    pub(super) fn has_space(&self, stream: Stream, count: u32) -> bool {
        let kept = if matches!(stream, Stream::Host(_)) { FREE_FOR_COPIES } else { 0 };
        self.open_slots(stream) >= count || self.free.len() > kept
    }

    /// Returns the number of slots that can be reserved for a stream without another block.
    fn open_slots(&self, stream: Stream) -> u32 {
        let cursor = &self.cursors[stream.index()];
        let returned = self.returned.iter().filter(|&&slot| self.stream_of(slot) == stream);
        cursor.end - cursor.next + returned.count() as u32
    }

    /// Removes and returns the oldest slot of a stream that a power cut has left empty.
    #[inline]
    fn take_returned(&mut self, stream: Stream) -> Option<u32> {
        if self.returned.is_empty() {
            return None;
        }
        let at = self.returned.iter().position(|&slot| self.stream_of(slot) == stream)?;
        self.returned.remove(at)
    }

    /// Returns the stream of the block that contains `slot`.
    fn stream_of(&self, slot: u32) -> Stream {
        self.list[self.of(slot) as usize].stream
    }

    /// Returns the stream for copies of the data in block `index`.
    pub(super) fn copies_of(&self, index: u32) -> Stream {
        let handle = self.list[index as usize].stream.handle();
        Stream::Copy(if self.persistent { handle } else { 0 })
    }

    /// Abandons a reserved slot that a power failure left empty. Slots for copies are reused, because repeated
    /// power cuts could otherwise use up the space for garbage collection. Slots for host data are not reused,
    /// to preserve the order of writes.
    pub(super) fn abandon(&mut self, slot: u32) {
        let block = self.of(slot);
        match self.list[block as usize].stream {
            Stream::Copy(_) => self.returned.push_back(slot),
            Stream::Host(_) => self.programmed(block, false),
        }
    }

    /// Returns a victim to the sealed blocks without collecting it.
    pub(super) fn reseal(&mut self, index: u32) {
        debug_assert_eq!(self.list[index as usize].state, State::Victim);
        self.seal(index);
    }

    #[cold]
    fn open(&mut self, stream: Stream) -> Option<()> {
        let left = if matches!(stream, Stream::Host(_)) { FREE_FOR_COPIES } else { 0 };
        if self.free.len() <= left {
            return None;
        }
        let index = self.free.pop_front()?;
        let slots = self.slots(index);
        self.cursors[stream.index()] = Cursor { block: index, next: slots.start, end: slots.end };
        let block = &mut self.list[index as usize];
        block.state = State::Open;
        block.stream = stream;
        block.opened = self.opened;
        self.opened += 1;
        Some(())
    }

    /// Returns whether the host wrote the data in `slot` after the data in `other`, which is another version of the
    /// same page. False if `slot` was written by a copy, because the host's program operation in flight is newer.
    #[inline]
    pub(super) fn is_newer(&self, slot: u32, other: u32) -> bool {
        let (block, beside) =
            (&self.list[self.of(slot) as usize], &self.list[self.of(other) as usize]);
        matches!(block.stream, Stream::Host(_)) && (block.opened, slot) > (beside.opened, other)
    }

    /// Records the end of a slot's program operation in block `index`. `current`: whether the slot now contains current
    /// data.
    #[inline]
    pub(super) fn programmed(&mut self, index: u32, current: bool) {
        let block = &mut self.list[index as usize];
        debug_assert!(block.in_flight > 0, "a slot of block {index} was not reserved");
        block.valid += u32::from(current);
        block.in_flight -= 1;
        if block.in_flight == 0 && block.state == State::Closing {
            self.close(index);
        }
    }

    #[cold]
    fn close(&mut self, index: u32) {
        if matches!(self.list[index as usize].stream, Stream::Copy(_)) {
            self.seal(index);
            return;
        }
        while let Some(&first) = self.closing.front()
            && self.list[first as usize].in_flight == 0
        {
            self.closing.pop_front();
            self.seal(first);
        }
    }

    fn seal(&mut self, index: u32) {
        self.list[index as usize].state = State::Sealed;
        self.link(index);
    }

    /// Records that a page of block `index` is no longer current.
    #[inline]
    pub(super) fn lose(&mut self, index: u32) {
        if self.list[index as usize].state == State::Sealed {
            self.unlink(index);
            self.list[index as usize].valid -= 1;
            self.link(index);
        } else {
            self.list[index as usize].valid -= 1;
        }
    }

    /// Makes a page of a victim current again, as an injected bug.
    pub(super) fn gain(&mut self, index: u32) {
        self.list[index as usize].valid += 1;
    }

    #[inline]
    fn link(&mut self, index: u32) {
        let block = &mut self.list[index as usize];
        let valid = block.valid;
        let next = std::mem::replace(&mut self.heads[valid as usize], index);
        (block.next, block.previous) = (next, NONE);
        if next != NONE {
            self.list[next as usize].previous = index;
        }
        self.fewest = self.fewest.min(valid);
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let Block { next, previous, valid, .. } = self.list[index as usize];
        if previous == NONE {
            self.heads[valid as usize] = next;
        } else {
            self.list[previous as usize].next = next;
        }
        if next != NONE {
            self.list[next as usize].previous = previous;
        }
    }

    /// Chooses the block to collect: the sealed one that the rule prefers, or occasionally one that is worn far less
    /// than others. `None` if no sealed block has an invalid page.
    pub(super) fn pick(&mut self) -> Option<Pick> {
        while self.fewest < self.pages_per_block && self.heads[self.fewest as usize] == NONE {
            self.fewest += 1;
        }
        if self.fewest == self.pages_per_block {
            return None;
        }
        self.picks += 1;
        if self.persistent && self.free.is_empty() {
            let block = self.fitting()?;
            self.unlink(block);
            self.list[block as usize].state = State::Victim;
            return Some(Pick { block, for_wear: false });
        }
        let unworn = if self.picks.is_multiple_of(WEAR_EVERY) { self.unworn() } else { None };
        let block = unworn.unwrap_or_else(|| match self.rule {
            VictimRule::FewestValid => self.heads[self.fewest as usize],
            VictimRule::CostBenefit => self.most_beneficial(),
        });
        self.unlink(block);
        self.list[block as usize].state = State::Victim;
        Some(Pick { block, for_wear: unworn.is_some() })
    }

    /// Returns the sealed block with the largest benefit per cost: age × invalid pages / valid pages. Visits every
    /// block.
    fn most_beneficial(&self) -> u32 {
        let benefit = |block: &Block| {
            let age = (self.opened - block.opened) as f64;
            age * f64::from(self.pages_per_block - block.valid) / f64::from(block.valid)
        };
        let sealed = (0..).zip(&self.list).filter(|(_, block)| block.state == State::Sealed);
        let best = sealed.max_by(|a, b| benefit(a.1).total_cmp(&benefit(b.1)));
        best.map_or(self.heads[self.fewest as usize], |(index, _)| index)
    }

    /// Returns the sealed block with the fewest valid pages whose copies fit into the open block of their stream; `None`
    /// if there is none. Visits every block. If no block is free, the one whose collection a power cut has interrupted
    /// fits, and possibly no other: without this choice the free block for copies could be used up by another handle.
    #[cold]
    fn fitting(&self) -> Option<u32> {
        let fits = |&(index, block): &(u32, &Block)| {
            let is_worth = block.state == State::Sealed && block.valid < self.pages_per_block;
            is_worth && block.valid <= self.open_slots(self.copies_of(index))
        };
        let fitting = (0..).zip(&self.list).filter(fits);
        fitting.min_by_key(|(_, block)| block.valid).map(|(index, _)| index)
    }

    /// Returns the next sealed block that is worn far less than others; `None` if the limited search finds
    /// none.
    fn unworn(&mut self) -> Option<u32> {
        // A block whose pages are all valid uses up a free block and frees only itself.
        if self.free.len() <= FREE_FOR_COPIES {
            return None;
        }
        for _ in 0..WEAR_LOOKS.min(self.list.len() as u32) {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.list.len() as u32;
            let block = &self.list[index as usize];
            let is_unworn = block.erases.saturating_add(self.wear_spread) < self.most_erases;
            if block.state == State::Sealed && is_unworn {
                return Some(index);
            }
        }
        None
    }

    pub(super) fn erased(&mut self, index: u32) {
        let block = &mut self.list[index as usize];
        debug_assert!(block.state == State::Victim && block.valid == 0);
        block.erases += 1;
        block.state = State::Free;
        self.most_erases = self.most_erases.max(block.erases);
        self.free.push_back(index);
    }

    /// Creates a sealed block with `valid` valid slots at unspecified positions, as if written by copies of the stream
    /// `copies`. Used to construct a preconditioned state, oldest block first.
    pub(super) fn preset_sealed(&mut self, copies: Stream, valid: u32) -> u32 {
        let index = self.preset_open(copies, self.pages_per_block);
        self.list[index as usize].valid = valid;
        self.seal(index);
        index
    }

    /// Opens a block in which `valid` slots already contain valid data. Used to construct a preconditioned
    /// state.
    pub(super) fn preset_open(&mut self, stream: Stream, valid: u32) -> u32 {
        self.open(stream).expect("a constructed state must leave blocks free");
        let cursor = &mut self.cursors[stream.index()];
        cursor.next += valid;
        self.list[cursor.block as usize].valid = valid;
        cursor.block
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Block>()
            + 4 * (self.heads.capacity() + self.free.capacity() + self.closing.capacity())
    }

    /// Checks that the lists and states of the blocks are consistent.
    pub(super) fn check(&self) -> Result<(), String> {
        let count = |state| self.list.iter().filter(|block| block.state == state).count();
        if self.free.iter().any(|&index| self.list[index as usize].state != State::Free)
            || self.free.len() != count(State::Free)
        {
            return Err("the free list differs from the set of free blocks".to_owned());
        }
        if self.closing.iter().any(|&index| self.list[index as usize].state != State::Closing) {
            return Err("a block that waits to be sealed is not in the state `Closing`".to_owned());
        }
        let mut listed = 0;
        for (valid, &head) in self.heads.iter().enumerate() {
            let (mut index, mut previous) = (head, NONE);
            while index != NONE {
                let block = &self.list[index as usize];
                if block.valid as usize != valid
                    || block.state != State::Sealed
                    || block.in_flight != 0
                    || block.previous != previous
                    || block.valid < self.fewest
                {
                    return Err(format!(
                        "block {index} is in the list for {valid} valid pages: {block:?}"
                    ));
                }
                listed += 1;
                (previous, index) = (index, block.next);
            }
        }
        if listed != count(State::Sealed) {
            return Err(format!("{listed} of {} sealed blocks are listed", count(State::Sealed)));
        }
        let in_flight =
            |block: &&Block| block.state == State::Free && block.valid + block.in_flight > 0;
        if let Some(block) = self.list.iter().find(in_flight) {
            return Err(format!("a free block is not empty: {block:?}"));
        }
        Ok(())
    }
}
