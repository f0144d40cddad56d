//! Group commit: when chunks are written and flushed, and which of them are durable. It knows neither bytes nor places.
//!
//! Chunks have numbers in the order of the log, from 0. Several may be written at once, and complete in any order. A flush
//! covers the writes that had completed when it was issued. A chunk is *durable* when all chunks before it are, so what
//! is lost in a crash is a tail.
//!
//! Without durability a chunk counts when its write has completed; with `Each`, a message has a write and a flush of its own.

pub use iodyno_workload::LogDurability as Durability;

/// How chunks are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitRule {
    /// What counts as persisted.
    pub durability: Durability,
    /// A write is itself durable when it completes (FUA, `RWF_DSYNC`): no flush is issued.
    pub fua: bool,
    /// Chunks between two flushes, at most; 1 or more.
    pub chunks_max: u32,
    /// Writes and flushes in flight, at most: 1 to 64.
    pub depth: u32,
}

impl CommitRule {
    /// At most 1 MiB of chunks of 64 KiB to a flush, one write at a time.
    pub const DEFAULT: Self =
        Self { durability: Durability::Batch, fua: false, chunks_max: 16, depth: 1 };

    fn flushes(&self) -> bool {
        self.durability != Durability::None && !self.fua
    }
}

/// Chunks that wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// There is none.
    None,
    /// One that is not full: more messages may join it.
    Partial,
    /// One or more that nothing will join.
    Full,
}

/// What to issue next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next chunk.
    Write,
    /// A flush.
    Flush,
    /// Nothing, before an operation completes or a message comes.
    Wait,
}

/// The state of the commits of a log.
#[derive(Clone, Debug)]
pub struct Commit {
    rule: CommitRule,
    /// Chunks whose writes were issued.
    issued: u64,
    /// All chunks below have been written.
    written: u64,
    /// Bit `i`: chunk `written + i` has been written too.
    written_beyond: u64,
    /// A flush is in flight, and covers all chunks below.
    flushing: Option<u64>,
    /// All chunks below are durable.
    durable: u64,
    /// A chunk that was not full has been written since the last flush was issued. One such chunk joins a group, and ends it:
    /// more would hold the flush up.
    has_partial: bool,
    is_broken: bool,
}

impl Commit {
    /// Without any chunk.
    ///
    /// # Panics
    /// If the rule has a depth outside of 1 to 64, or no chunks.
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

    /// All chunks below this one are durable, or, without durability, written.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Writes issued so far.
    #[inline]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// A write or a flush has failed: nothing becomes durable any more.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The rule.
    pub fn rule(&self) -> &CommitRule {
        &self.rule
    }

    fn writes_in_flight(&self) -> u32 {
        (self.issued - self.written) as u32 - self.written_beyond.count_ones()
    }

    /// What to issue, with these chunks waiting.
    #[inline]
    pub fn step(&self, waiting: Waiting) -> Step {
        let writes = self.writes_in_flight();
        let in_flight = writes + u32::from(self.flushing.is_some());
        if self.is_broken || in_flight >= self.rule.depth {
            return Step::Wait;
        }
        // Chunks that the flush in flight, or else the next one, does not make durable yet.
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
        // A flush waits for the writes of its group: they would need another.
        let flushes = self.rule.flushes()
            && self.flushing.is_none()
            && self.written > self.durable
            && writes == 0;
        if flushes { Step::Flush } else { Step::Wait }
    }

    /// The next chunk's write is issued; its number.
    #[inline]
    pub fn write_begins(&mut self, waiting: Waiting) -> u64 {
        self.has_partial |= waiting == Waiting::Partial && self.rule.flushes();
        self.issued += 1;
        self.issued - 1
    }

    /// A chunk's write has completed.
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

    /// A flush is issued.
    #[inline]
    pub fn flush_begins(&mut self) {
        debug_assert!(self.flushing.is_none(), "one flush at a time");
        debug_assert_eq!(self.written, self.issued, "a flush waits for the writes of its group");
        self.flushing = Some(self.written);
        self.has_partial = false;
    }

    /// The flush has completed. One that failed is not tried again: what it covered may be lost, and a second would
    /// succeed.
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
