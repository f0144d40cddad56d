//! Block states of the flash translation layer (free, open, closing, sealed, victim), and wear. `victim` chooses the
//! block to collect.
//!
//! A block is free, then open while a stream takes its slots, then closing while program operations of its last slots
//! are in flight, then sealed. Only sealed blocks can be collected. Sealed blocks are listed by their number of valid
//! pages, so the block with the fewest is found without a search.
//!
//! Blocks of the host's stream are sealed in the order in which they were opened. While a program operation is in
//! flight, garbage collection therefore never moves pages from slots that were reserved after the slot of this
//! operation. So of two program operations of the same page, the newer is the one with the later slot. The map relies
//! on this order.

pub(super) mod victim;

use super::placement::{Handle, Placement};
use crate::spec::VictimRule;
use std::collections::VecDeque;

/// The source of the data in a block. Host data and copies by garbage collection fill separate blocks,
/// since pages that have survived a collection are likely to live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Writes of the host with this reclaim unit handle.
    Host(Handle),
    /// Copies by garbage collection. If handles are persistently isolated: copies of data with this handle.
    /// Otherwise: copies of all data, with handle 0.
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
/// with the host's writes, one block fewer is free. Preconditioned devices start in this state.
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

/// Difference in erases to the most worn block above which a block may be collected for its low wear.
const WEAR_SPREAD: u32 = 64;
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
    /// [`WEAR_SPREAD`]; `u32::MAX` without wear levelling: in tests, and with several handles. With handles that are
    /// written at different rates, every eighth victim would be cold data, and the copies would mix it with other
    /// data.
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

    /// Returns the range of a block's physical slots.
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

    /// Removes and returns the oldest slot of a stream that a power cut has left empty; `None` if there is none.
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
