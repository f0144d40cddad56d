//! Group commit: decides when chunks are written and flushed, and tracks which are durable. Chunks are represented by
//! their numbers alone.
//!
//! Chunks are numbered in the order of the log, from 0. Several writes may be in flight, and complete in any order. A
//! flush covers the writes that completed before it was issued. A chunk is *durable* only if all chunks before it are,
//! so a crash loses only a tail of the log.
//!
//! Without durability, a chunk is persisted when its write completes; with `Each`, every message has its own write
//! and flush.

pub use iodyno_workload::LogDurability as Durability;

/// Rule of group commit: when chunks are written and flushed, and when their messages count as persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitRule {
    /// Condition under which messages count as persisted, such as after a flush.
    pub durability: Durability,
    /// Whether each write is durable at its completion (FUA, `RWF_DSYNC`), so that no flushes are needed.
    pub fua: bool,
    /// Maximum number of chunks per flush; 1 or more.
    pub chunks_max: u32,
    /// Maximum number of writes and flushes in flight, 1 to 64.
    pub depth: u32,
}

impl CommitRule {
    /// Default rule: at most 16 chunks per flush (1 MiB with chunks of 64 KiB), one operation at a time.
    pub const DEFAULT: Self =
        Self { durability: Durability::Batch, fua: false, chunks_max: 16, depth: 1 };

    fn flushes(&self) -> bool {
        self.durability != Durability::None && !self.fua
    }
}

/// State of the queue of chunks to be written, an input of [`Commit::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The queue is empty.
    None,
    /// The queue has one chunk, which has space for more messages.
    Partial,
    /// The queue has at least one chunk that accepts no more messages.
    Full,
}

/// Next operation that the log's owner must issue for group commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write the next chunk of the queue.
    Write,
    /// Flush the target, which makes completed writes durable.
    Flush,
    /// Wait until an operation completes or a message arrives.
    Wait,
}

/// State of group commit in a log: which chunks have been issued, written and made durable.
#[derive(Clone, Debug)]
pub struct Commit {
    rule: CommitRule,
    /// Number of chunks whose write has been issued.
    issued: u64,
    /// Number of the first chunk whose write has not completed.
    written: u64,
    /// Bit mask of completed writes: bit `i` is set if the write of chunk `written + i` has completed.
    written_beyond: u64,
    /// Exclusive end of the chunks that the flush in flight covers; `None` if no flush is in flight.
    flushing: Option<u64>,
    /// Number of the first chunk that is not durable yet.
    durable: u64,
    /// Whether a partly filled chunk was written since the last flush was issued. No more chunks join the flush of that
    /// chunk, because they would delay the flush.
    has_partial: bool,
    is_broken: bool,
}

impl Commit {
    /// Starts group commit of an empty log.
    ///
    /// # Panics
    /// Panics if `rule.depth` is not in 1 to 64, or `rule.chunks_max` is 0.
    pub fn new(rule: CommitRule) -> Self {
        assert!((1..=64).contains(&rule.depth) && rule.chunks_max >= 1, "{rule:?}");
        Self {
            rule,
            issued: 0,
            written: 0,
            written_beyond: 0,
            flushing: None,
            durable: 0,
            has_partial: false,
            is_broken: false,
        }
    }

    /// Number of chunks before the first unpersisted one. A chunk is persisted when it is durable or, without
    /// durability, when it is written.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Number of chunks whose write has been issued.
    #[inline]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether a write or a flush has failed. Then no more chunks become durable.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The rule of group commit that was passed to [`Self::new`].
    pub fn rule(&self) -> &CommitRule {
        &self.rule
    }

    fn writes_in_flight(&self) -> u32 {
        (self.issued - self.written) as u32 - self.written_beyond.count_ones()
    }

    /// Returns the next operation to issue, given the state of the queue of chunks.
    #[inline]
    pub fn step(&self, waiting: Waiting) -> Step {
        let writes = self.writes_in_flight();
        let in_flight = writes + u32::from(self.flushing.is_some());
        if self.is_broken || in_flight >= self.rule.depth {
            return Step::Wait;
        }
        // Number of issued chunks that the flush in flight does not cover or, if none is in flight, that are not
        // durable.
        let group = self.issued - self.flushing.unwrap_or(self.durable);
        let may_write = match self.rule.durability {
            Durability::Each => group == 0 && in_flight == 0,
            _ if !self.rule.flushes() => self.issued - self.written < 64,
            _ => group < u64::from(self.rule.chunks_max) && self.issued - self.written < 64,
        };
        let is_idle = in_flight == 0;
        let writes_now = match waiting {
            Waiting::None => false,
            Waiting::Partial => is_idle && !self.has_partial,
            Waiting::Full => true,
        };
        if may_write && writes_now {
            return Step::Write;
        }
        // A flush waits for the writes of its group, which otherwise would need another flush.
        let flushes = self.rule.flushes()
            && self.flushing.is_none()
            && self.written > self.durable
            && writes == 0;
        if flushes { Step::Flush } else { Step::Wait }
    }

    /// Marks the write of the next chunk as issued. Returns the chunk's number.
    #[inline]
    pub fn write_begins(&mut self, waiting: Waiting) -> u64 {
        self.has_partial |= waiting == Waiting::Partial && self.rule.flushes();
        self.issued += 1;
        self.issued - 1
    }

    /// Records that a chunk's write has completed or, if `succeeded` is false, failed.
    #[inline]
    pub fn written(&mut self, chunk: u64, succeeded: bool) {
        if !succeeded {
            self.is_broken = true;
            return;
        }
        debug_assert!((self.written..self.issued).contains(&chunk), "chunk {chunk} of {self:?}");
        self.written_beyond |= 1 << (chunk - self.written);
        let run = self.written_beyond.trailing_ones();
        self.written += u64::from(run);
        self.written_beyond = self.written_beyond.checked_shr(run).unwrap_or(0);
        if !self.rule.flushes() && !self.is_broken {
            self.durable = self.written;
        }
    }

    /// Records that a flush was issued. It covers the writes completed so far.
    #[inline]
    pub fn flush_begins(&mut self) {
        debug_assert!(self.flushing.is_none(), "one flush at a time");
        debug_assert_eq!(
            self.written, self.issued,
            "a flush must wait for the writes of its group"
        );
        self.flushing = Some(self.written);
        self.has_partial = false;
    }

    /// Records that the flush in flight has completed or, if `succeeded` is false, failed. A failed flush is not
    /// retried, because the next one could succeed although data was lost.
    #[inline]
    pub fn flushed(&mut self, succeeded: bool) {
        let covered = self.flushing.take();
        if succeeded && !self.is_broken {
            self.durable = covered.unwrap_or(self.durable);
        } else {
            self.is_broken = true;
        }
    }
}
