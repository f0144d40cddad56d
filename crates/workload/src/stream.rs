//! The sequence of operations of one worker.
//!
//! For a given seed, the stream depends only on the specification, the target's geometry and the worker's index, with
//! one exception: if workers share a cursor, only the union of their operations is fixed (exactly sequential), and the
//! workers' timing determines which worker takes which block.
//!
//! The common case, uniform addresses of one size, has its own path, which touches only two generators. Every other
//! workload takes the general path.

mod counted;
mod file_layout;
pub(crate) mod geometry;
mod pattern;
mod permute;
mod ring;
pub(crate) mod shared;
mod weighted;
mod zipf;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use iodyno_units::rng::{self, Generator, RngCore as _, below};
use iodyno_units::{Op, OpKind};

use crate::spec::Percent;
use counted::Counted;
use file_layout::FileLayout;
use pattern::Pattern;
use ring::Ring;
use shared::{PatternPlan, Shared};
use weighted::Weighted;

/// Maximum size of one trim, bytes, when a zone is trimmed before its first write: 1 GiB, as for trims in the mix.
const TRIM_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of attempts to draw a block size that fits before the end of the range.
const MAX_REDRAWS: u32 = 100;

/// The endless sequence of operations that one worker issues.
#[derive(Clone, Debug)]
pub struct Stream {
    path: Path,
}

#[derive(Clone, Debug)]
enum Path {
    One(Uniform, OpKind),
    Mix(MixedUniform),
    Any(Box<General>),
    /// A closed stream, which returns only final operations. Its counters and cursors are in `Last::before`.
    Last(Option<Box<Last>>),
}

/// Final operations: flushes, then reads of all writes that were not yet read back.
#[derive(Clone, Debug)]
struct Last {
    before: Path,
    flushes: u32,
    reads: VecDeque<Op>,
}

impl Last {
    fn next(&mut self) -> Op {
        if self.flushes > 0 {
            self.flushes -= 1;
            return Op::FLUSH;
        }
        self.reads.pop_front().map_or(Op::FLUSH, read_of)
    }

    /// Returns the next operation as two words. An `Op` returned through memory would force the fields out of
    /// registers in [`Stream::next_op`].
    #[cold]
    fn next_words(last: Option<&mut Self>) -> (u64, u64) {
        last.map_or(Op::FLUSH, Self::next).to_words()
    }
}

/// The read that reads back the blocks of a write.
fn read_of(written: Op) -> Op {
    Op { kind: OpKind::Read, fua: false, ..written }
}

impl Path {
    /// The path that generates the regular operations; in a closed stream, the path before it was closed.
    fn before(&self) -> &Self {
        match self {
            Self::Last(Some(last)) => &last.before,
            other => other,
        }
    }

    fn read_back(&mut self) -> Option<&mut ReadBack> {
        match self {
            Self::Any(general) => general.read_back.as_deref_mut(),
            Self::One(..) | Self::Mix(_) | Self::Last(_) => None,
        }
    }
}

impl Stream {
    /// Creates the stream of the worker with this index.
    ///
    /// # Panics
    /// If the index is not below the number of workers in the geometry.
    pub fn new(shared: &Arc<Shared>, worker: u32) -> Self {
        assert!(worker < shared.workers, "worker {worker} of {}", shared.workers);
        let path = match MixedUniform::new(shared, worker) {
            Some(mixed) if shared.mix.bounds().is_empty() => {
                Path::One(mixed.address, mixed.kinds[0])
            }
            Some(mixed) => Path::Mix(mixed),
            None => Path::Any(Box::new(General::new(shared, worker))),
        };
        Self { path }
    }

    /// Returns an independent copy in the same state, for the only worker of a target. The copy has its own
    /// sequential cursors. None if the stream depends on counters of all workers.
    pub(crate) fn fork(&self) -> Option<Self> {
        let mut fork = self.clone();
        if let Path::Any(general) = &mut fork.path {
            if general.counted.is_used() {
                return None;
            }
            let patterns = general.tables.iter_mut().flat_map(|table| &mut table.patterns);
            patterns.for_each(Pattern::own_cursor);
        }
        Some(fork)
    }

    /// Returns the next operation of the endless sequence, or, if the stream is closed, the next final operation.
    // Inlined, so that the fields of an operation stay in registers: loading 16 bytes that were just stored in parts
    // waits for the store buffer, 5 ns of 15.
    #[expect(clippy::inline_always, reason = "inlined to keep an operation in registers")]
    #[inline(always)]
    pub fn next_op(&mut self) -> Op {
        match &mut self.path {
            Path::One(uniform, kind) => uniform.next(*kind),
            Path::Mix(mixed) => mixed.next(),
            Path::Any(general) => {
                let (offset_bytes, word) = general.next_words();
                Op::from_words(offset_bytes, word)
            }
            Path::Last(last) => {
                let (offset_bytes, word) = Last::next_words(last.as_deref_mut());
                Op::from_words(offset_bytes, word)
            }
        }
    }

    /// Ends the stream with `flushes` flushes and then, if `reads_back` is set, reads of all writes that were not yet
    /// read back. Returns the number of these final operations; if it is 0, the stream continues.
    pub(crate) fn close(&mut self, flushes: u32, reads_back: bool) -> u32 {
        debug_assert!(!matches!(self.path, Path::Last(_)), "a stream is closed once");
        let reads = self.path.read_back().map(|of| std::mem::take(&mut of.writes));
        let reads = reads.filter(|_| reads_back).unwrap_or_default();
        let count = flushes + reads.len() as u32;
        if count > 0 {
            let before = std::mem::replace(&mut self.path, Path::Last(None));
            self.path = Path::Last(Some(Box::new(Last { before, flushes, reads })));
        }
        count
    }

    /// Notes that the latest operation is not issued, so that a write will not be read back. Returns false if the
    /// operation is itself a read-back, which can't be skipped.
    pub(crate) fn forgets(&mut self, op: &Op) -> bool {
        let Some(read_back) = self.path.read_back() else {
            return !matches!(self.path, Path::Last(_));
        };
        if op.kind == OpKind::Write {
            read_back.writes.pop_back();
        }
        !read_back.is_latest
    }

    /// Total size of the read-backs so far, bytes. A read-back reads blocks that this stream wrote.
    pub(crate) fn read_back_bytes(&self) -> u64 {
        match self.path.before() {
            Path::Any(general) => general.read_back.as_ref().map_or(0, |of| of.bytes),
            Path::One(..) | Path::Mix(_) | Path::Last(_) => 0,
        }
    }

    /// Counts a completed operation of this stream. Needed if reads and writes have a fixed ratio.
    #[inline]
    pub fn completed(&mut self, kind: OpKind) {
        if let Path::Any(general) = &mut self.path {
            general.counted.completed(kind);
        }
    }

    /// Positions of the stream's sequential and strided cursors, in the order of the workload file; empty if it
    /// has none.
    pub fn walked(&self) -> Vec<u64> {
        match self.path.before() {
            Path::One(..) | Path::Mix(_) | Path::Last(_) => Vec::new(),
            Path::Any(general) => {
                let patterns = general.tables.iter().flat_map(|table| &table.patterns);
                patterns.filter_map(Pattern::walked).collect()
            }
        }
    }

    /// Sets the cursors to positions from [`Self::walked`] of an earlier stream with the same specification,
    /// geometry and worker index. Random draws don't continue from the earlier stream.
    pub fn go_on(&mut self, walked: &[u64]) {
        if let Path::Any(general) = &mut self.path {
            let patterns = general.tables.iter_mut().flat_map(|table| &mut table.patterns);
            let walks = patterns.filter(|pattern| pattern.walked().is_some());
            walks.zip(walked).for_each(|(pattern, from)| pattern.go_on(*from));
        }
    }

    /// Number of operations that used a random address because there was no recent address to repeat yet.
    pub fn recent_misses(&self) -> u64 {
        match self.path.before() {
            Path::One(..) | Path::Mix(_) | Path::Last(_) => 0,
            Path::Any(general) => general.recent_misses,
        }
    }
}

/// Generates uniformly distributed addresses for blocks of one size.
#[derive(Clone, Debug)]
struct Uniform {
    rng: Generator,
    places: u64,
    start_bytes: u64,
    shift: u32,
    len_bytes: u32,
}

impl Uniform {
    #[inline]
    fn next(&mut self, kind: OpKind) -> Op {
        let place = below(&mut self.rng, self.places);
        let offset_bytes = self.start_bytes + (place << self.shift);
        Op { offset_bytes, len_bytes: self.len_bytes, kind, fua: false }
    }
}

/// Generates operations of several kinds with uniformly distributed addresses and one block size.
#[derive(Clone, Debug)]
struct MixedUniform {
    address: Uniform,
    rng: Generator,
    /// Thresholds of the random number that selects the kind. Unused thresholds are `u64::MAX`, and select the
    /// last kind.
    bounds: [u64; OpKind::COUNT - 1],
    kinds: [OpKind; OpKind::COUNT],
}

impl MixedUniform {
    /// Creates this fast path if the workload is simple enough; otherwise None.
    fn new(shared: &Shared, worker: u32) -> Option<Self> {
        let [table] = shared.tables.as_slice() else { return None };
        let ([PatternPlan::Uniform], Some(first)) =
            (table.patterns.as_slice(), shared.kinds.first())
        else {
            return None;
        };
        let [len_bytes] = *first.lens_bytes else { return None };
        let same =
            |kind: &shared::KindPlan| kind.table.is_some() && *kind.lens_bytes == [len_bytes];
        let plain_writes = shared.spec.fua() == Percent::ZERO
            && shared.spec.flush_every() == 0
            && shared.spec.read_back() == 0
            && shared.spec.address_align_bytes().is_none()
            && shared.files.is_none()
            && !shared.counted.is_used();
        if !plain_writes || !shared.kinds.iter().all(same) {
            return None;
        }
        let mut patterns = table.patterns(shared.seed, shared.worker(worker)).into_iter();
        let Some(Pattern::Uniform { rng, .. }) = patterns.next() else { return None };
        let mut bounds = [u64::MAX; OpKind::COUNT - 1];
        bounds[..shared.kinds.len() - 1].copy_from_slice(shared.mix.bounds());
        let mut kinds = [shared.kinds[shared.kinds.len() - 1].kind; OpKind::COUNT];
        for (kind, plan) in kinds.iter_mut().zip(&shared.kinds) {
            *kind = plan.kind;
        }
        Some(Self {
            address: Uniform {
                rng,
                places: table.extent.places(),
                start_bytes: shared.start_bytes(worker),
                shift: shared.range.shift,
                len_bytes,
            },
            rng: rng::stream(shared.seed, "mix", worker.into()),
            bounds,
            kinds,
        })
    }

    #[inline]
    fn next(&mut self) -> Op {
        let drawn = self.rng.next_u64();
        let index: usize = self.bounds.iter().map(|&bound| usize::from(drawn >= bound)).sum();
        self.address.next(self.kinds[index])
    }
}

/// Generates the operations of any workload.
#[derive(Clone, Debug)]
struct General {
    start_bytes: u64,
    shift: u32,
    /// Layout of the file set; None: operations go directly to the target.
    files: Option<Arc<FileLayout>>,
    mix: Weighted,
    mix_rng: Generator,
    size_rng: Generator,
    fua_rng: Generator,
    kinds: Box<[OfKind]>,
    tables: Box<[Table]>,
    /// Recently read and recently written addresses; None if no pattern repeats them.
    rings: [Option<Ring>; 2],
    /// Threshold of the random number that selects writes with FUA; `None`: no write has FUA.
    fua_below: Option<u64>,
    flush_every: u32,
    /// Number of writes since a flush last became due. The next flush is due when this reaches `flush_every`.
    writes_since_flush: u32,
    flush_again: bool,
    /// Whether the flush that was due after the latest operation has been issued.
    is_flushed: bool,
    read_back: Option<Box<ReadBack>>,
    /// Alignment of randomly drawn addresses, bytes; 1: no more than the workload's alignment.
    address_align_bytes: u64,
    counted: Counted,
    recent_misses: u64,
    /// Trims of a zone that are still to be issued, and the write that opened the zone.
    reset: Option<Reset>,
}

/// Trims that empty a zone before the first write to it.
#[derive(Clone, Debug)]
struct Reset {
    /// Part of the zone that is still to be trimmed, bytes.
    zone: Range<u64>,
    trim_bytes_max: u64,
    /// The write that opened the zone.
    write: Op,
}

#[derive(Clone, Debug)]
struct OfKind {
    kind: OpKind,
    sizes: Weighted,
    lens_bytes: Box<[u32]>,
    /// Index of the address table; unused for a flush.
    table: usize,
}

impl OfKind {
    /// Chooses the size of a block with `left_bytes` before the end of the range: the drawn size if it fits,
    /// otherwise another random size that fits. If none fits, the block goes to the start of the range.
    fn that_fits(&self, drawn_bytes: u32, left_bytes: u64, rng: &mut Generator) -> u32 {
        let fits = |bytes: u32| u64::from(bytes) <= left_bytes;
        if fits(drawn_bytes) || !self.lens_bytes.iter().any(|bytes| fits(*bytes)) {
            return drawn_bytes;
        }
        let again = (0..MAX_REDRAWS).map(|_| self.lens_bytes[self.sizes.draw(rng)]);
        // If redraws find no fitting size, the largest one that fits ends the range soonest.
        let largest = || self.lens_bytes.iter().copied().filter(|bytes| fits(*bytes)).max();
        again.into_iter().find(|bytes| fits(*bytes)).or_else(largest).unwrap_or(drawn_bytes)
    }
}

#[derive(Clone, Debug)]
struct Table {
    choice: Weighted,
    rng: Generator,
    patterns: Box<[Pattern]>,
}

impl General {
    fn new(shared: &Shared, worker: u32) -> Self {
        let (seed, number) = (shared.seed, u64::from(worker));
        let kinds = shared.kinds.iter().map(|plan| OfKind {
            kind: plan.kind,
            sizes: plan.sizes.clone(),
            lens_bytes: plan.lens_bytes.clone(),
            table: plan.table.unwrap_or(0),
        });
        let tables = shared.tables.iter().map(|plan| Table {
            choice: plan.choice.clone(),
            rng: rng::stream(seed, &format!("pattern.{}", plan.scope.key()), number),
            patterns: plan.patterns(seed, shared.worker(worker)),
        });
        let mut windows = [0_u32; 2];
        for pattern in shared.tables.iter().flat_map(|table| &table.patterns) {
            if let PatternPlan::Recent(ring, window) = pattern {
                windows[*ring] = windows[*ring].max(*window);
            }
        }
        let fua = shared.spec.fua();
        Self {
            start_bytes: shared.start_bytes(worker),
            shift: shared.range.shift,
            files: shared.files.clone(),
            mix: shared.mix.clone(),
            mix_rng: rng::stream(seed, "mix", number),
            size_rng: rng::stream(seed, "size", number),
            fua_rng: rng::stream(seed, "fua", number),
            kinds: kinds.collect(),
            tables: tables.collect(),
            rings: windows.map(|window| (window > 0).then(|| Ring::new(window))),
            // The conversion saturates at a share of 1, which misses one draw of 2⁶⁴.
            fua_below: (fua > Percent::ZERO)
                .then(|| (fua.fraction() * 18_446_744_073_709_551_616.0) as u64),
            flush_every: shared.spec.flush_every(),
            writes_since_flush: 0,
            flush_again: shared.spec.flush_again(),
            is_flushed: false,
            read_back: (shared.spec.read_back() > 0).then(|| {
                let writes = VecDeque::with_capacity(shared.spec.read_back() as usize);
                let after = shared.spec.read_back() as usize;
                Box::new(ReadBack { writes, after, reads: false, is_latest: false, bytes: 0 })
            }),
            address_align_bytes: shared.spec.address_align_bytes().map_or(1, u64::from),
            counted: shared.counted.clone(),
            recent_misses: 0,
            reset: None,
        }
    }

    /// Returns the next trim of a zone that was opened, or, after the last one, the write that opened it.
    #[cold]
    fn next_of_reset(&mut self) -> Option<Op> {
        let Reset { zone, trim_bytes_max, write } = self.reset.as_mut()?;
        let len = (zone.end - zone.start).min(*trim_bytes_max);
        if len == 0 {
            return self.reset.take().map(|reset| reset.write);
        }
        let offset_bytes = zone.start;
        zone.start += len;
        Some(Op { offset_bytes, len_bytes: len as u32, kind: OpKind::Trim, ..*write })
    }

    /// Returns the next operation as two words, in registers. If this path returned an `Op` through memory,
    /// operations of the other paths would go through memory, too.
    #[inline(never)]
    fn next_words(&mut self) -> (u64, u64) {
        self.next().to_words()
    }

    fn next(&mut self) -> Op {
        if self.reset.is_some()
            && let Some(op) = self.next_of_reset()
        {
            return op;
        }
        let is_due = self.flush_every > 0 && self.writes_since_flush == self.flush_every;
        if is_due && !self.is_flushed {
            self.is_flushed = true;
            return Op::FLUSH;
        }
        self.is_flushed &= !self.flush_again;
        if let Some(read_back) = &mut self.read_back
            && let Some(op) = read_back.next()
        {
            return op;
        }
        // A ratio applies to reads and writes, which are in this order.
        let kind = match self.counted.is_write_next() {
            Some(is_write) => &self.kinds[usize::from(is_write)],
            None => &self.kinds[self.mix.draw(&mut self.mix_rng)],
        };
        if kind.kind == OpKind::Flush || self.counted.is_flush_next(kind.kind) {
            return Op::FLUSH;
        }
        let mut len_bytes = kind.lens_bytes[kind.sizes.draw(&mut self.size_rng)];
        let table = &mut self.tables[kind.table];
        let pattern = &mut table.patterns[table.choice.draw(&mut table.rng)];
        if kind.lens_bytes.len() > 1
            && let Some(left) = pattern.left()
        {
            len_bytes = kind.that_fits(len_bytes, left << self.shift, &mut self.size_rng);
        }
        let place = pattern.next(u64::from(len_bytes >> self.shift), &self.rings);
        self.recent_misses += u64::from(place.missed);
        let mut fua = false;
        match kind.kind {
            OpKind::Read => remember(&mut self.rings, 0, pattern, place),
            OpKind::Write => {
                remember(&mut self.rings, 1, pattern, place);
                if is_due {
                    (self.writes_since_flush, self.is_flushed) = (0, false);
                }
                self.writes_since_flush = self.writes_since_flush.wrapping_add(1);
                if let Some(below) = self.fua_below {
                    fua = self.fua_rng.next_u64() < below;
                }
            }
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => {}
        }
        let opened = if kind.kind == OpKind::Write { pattern.take_opened() } else { None };
        let mut address = place.unit << self.shift;
        if let Some(files) = &self.files {
            address = files.offset(address, len_bytes.into());
        }
        let mut offset_bytes = self.start_bytes + address;
        if self.address_align_bytes > 1 && pattern.draws() {
            offset_bytes -= offset_bytes % self.address_align_bytes;
        }
        let op = Op { offset_bytes, len_bytes, kind: kind.kind, fua };
        if let (Some(read_back), OpKind::Write) = (&mut self.read_back, op.kind) {
            read_back.writes.push_back(op);
        }
        if let Some((zone, one_trim)) = opened {
            let at = |unit: u64| self.start_bytes + (unit << self.shift);
            let trim_bytes_max = if one_trim { u32::MAX.into() } else { TRIM_BYTES_MAX };
            self.reset =
                Some(Reset { zone: at(zone.start)..at(zone.end), trim_bytes_max, write: op });
            return self.next_of_reset().unwrap_or(op);
        }
        op
    }
}

/// Queue of writes to be read back. Once it holds a fixed number of writes, they are read back in their order.
#[derive(Clone, Debug)]
struct ReadBack {
    writes: VecDeque<Op>,
    after: usize,
    reads: bool,
    /// Whether the latest operation reads a write back.
    is_latest: bool,
    /// Total size of the read-backs so far, bytes.
    bytes: u64,
}

impl ReadBack {
    fn next(&mut self) -> Option<Op> {
        self.reads |= self.writes.len() == self.after;
        self.is_latest = self.reads;
        if !self.reads {
            return None;
        }
        let op = self.writes.pop_front().map(read_of);
        self.reads = !self.writes.is_empty();
        self.bytes += op.map_or(0, |op| u64::from(op.len_bytes));
        op
    }
}

#[inline]
fn remember(rings: &mut [Option<Ring>; 2], ring: usize, from: &Pattern, place: pattern::Place) {
    if let Some(remembered) = &mut rings[ring]
        && (place.missed || !from.repeats(ring))
    {
        remembered.push(place.unit);
    }
}
