//! The interface of a disk: accepts operations, announces event times, returns completions. This file follows an
//! operation through the host's queue, the controller, the link and the buffer; `heads` models the heads.
//!
//! Each server (controller, link, heads) does one thing at a time, and each fixed delay preserves order, so the next
//! event time is the minimum of six times and no event queue is needed.

mod heads;
mod readings;
mod shingled;

use self::heads::Heads;
use super::bands::Bands;
use super::buffer::Buffer;
use super::journal::{Step, WriteRange};
use super::layout::{Layout, Place, Track};
use super::nand_cache::NandCache;
use super::segments::Segments;
use super::spec::{DiskSpec, Scheduler};
use super::usage::{Phases, Usage};
use iodyno_units::rng::key;
use iodyno_units::{Op, OpKind};
use std::collections::VecDeque;

/// Time of an event that is not scheduled.
pub(super) const NEVER: u64 = u64::MAX;

/// Effect of a power cut on acknowledged writes and on operations in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerCut {
    /// Acknowledged writes that are not on the medium, in ranges that don't overlap. In such a range the medium still
    /// has older content.
    pub lost: Vec<WriteRange>,
    /// Range that the heads were writing; `None` if they wrote nothing. It is also in `lost` if it was acknowledged.
    /// Each sector may be old or new, and one sector may be neither.
    pub torn: Option<WriteRange>,
    /// Ids of the submitted operations that will not complete, in the order of submission.
    pub dropped: Vec<u32>,
}

/// An operation that was submitted to the disk and has not completed.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: u32,
    pub(super) op: Op,
    pub(super) submitted_ns: u64,
    order: u64,
    /// Start of the operation's current phase, ns.
    pub(super) since_ns: u64,
    pub(super) phases: Phases,
    pub(super) place: Place,
    /// Number of writes that had been acknowledged when the buffer accepted this write.
    pub(super) seq: u64,
    live: bool,
}

impl Request {
    /// Returns the end offset of the operation in bytes (exclusive).
    pub(super) fn end(&self) -> u64 {
        self.op.offset_bytes + u64::from(self.op.len_bytes)
    }

    pub(super) fn len(&self) -> u64 {
        u64::from(self.op.len_bytes)
    }

    /// Returns the buffer space that the operation uses, in bytes. A write of zeroes uses none, because
    /// the zeroes are generated at the head.
    pub(super) fn buffer_bytes(&self) -> u64 {
        if self.op.kind == OpKind::Write { self.len() } else { 0 }
    }
}

/// An emulated rotating disk. The caller advances its time by [`Self::wake`].
#[derive(Clone, Debug)]
pub struct Disk {
    pub(super) spec: DiskSpec,
    pub(super) layout: Layout,
    pub(super) window: usize,
    pub(super) age_max_ns: u64,
    pub(super) requests: Vec<Request>,
    free: Vec<u32>,
    next_order: u64,
    host: VecDeque<u32>,
    inside: u32,
    controller: VecDeque<u32>,
    controller_until: u64,
    /// Requests that wait for the link.
    pub(super) link: VecDeque<u32>,
    link_until: u64,
    accepting: VecDeque<(u64, u32)>,
    flash_reading: VecDeque<(u64, u32)>,
    space_wait: VecDeque<u32>,
    flushes: Vec<(u32, u64)>,
    /// Requests that wait for the heads, oldest first.
    pub(super) foreground: Vec<u32>,
    pub(super) buffer: Buffer,
    pub(super) segments: Segments,
    pub(super) flash: NandCache,
    /// Bands and media cache; `None`: conventional tracks.
    pub(super) bands: Option<Box<Bands>>,
    heads: Heads,
    pub(super) medium_until: u64,
    /// For the read that the heads are executing: earliest time at which the link may send its data,
    /// and the read's index in `requests`.
    pub(super) link_ready: (u64, u32),
    pub(super) head: Track,
    /// Whether the heads' last access, not counting read-ahead, served a request rather than a destage.
    pub(super) foreground_had_turn: bool,
    /// Whether the last foreground request was chosen because it was overdue.
    pub(super) overdue_had_turn: bool,
    /// Read-ahead to start next: cache segment, and end offset in bytes. `None`: none is wanted.
    pub(super) wish: Option<(usize, u64)>,
    pub(super) usage: Usage,
    phases: [Phases; OpKind::COUNT],
    journal: Option<Vec<Step>>,
}

impl Disk {
    /// Creates a disk at time 0, with the heads at the outermost cylinder and empty caches. `seed` and
    /// `number` determine the initial angle of the platters; `number` distinguishes equal disks.
    ///
    /// # Panics
    /// If `spec` does not pass [`DiskSpec::check`].
    pub fn new(spec: &DiskSpec, seed: u64, number: u64) -> Self {
        if let Err((field, message)) = spec.check() {
            panic!("{field}: {message}");
        }
        let (window, age_max_ns) = match spec.scheduler {
            Scheduler::Fifo => (1, NEVER),
            Scheduler::Satf { age_max_ns, window } => (window, age_max_ns),
        };
        Self {
            layout: Layout::new(spec, key(seed, "disk-phase", number)),
            window: window as usize,
            age_max_ns,
            requests: Vec::new(),
            free: Vec::new(),
            next_order: 0,
            host: VecDeque::new(),
            inside: 0,
            controller: VecDeque::new(),
            controller_until: NEVER,
            link: VecDeque::new(),
            link_until: NEVER,
            accepting: VecDeque::new(),
            flash_reading: VecDeque::new(),
            space_wait: VecDeque::new(),
            flushes: Vec::new(),
            foreground: Vec::new(),
            // A shingled disk destages in order.
            buffer: Buffer::new(
                spec.buffer_bytes,
                if spec.shingled.is_some() { 0 } else { window },
            ),
            segments: Segments::new(spec.read_segments, spec.read_ahead_bytes),
            flash: NandCache::new(spec.flash_bytes),
            bands: spec.shingled.map(|of| Box::new(Bands::new(of, spec.capacity_bytes))),
            heads: Heads::Idle,
            medium_until: NEVER,
            link_ready: (NEVER, 0),
            head: Track::default(),
            foreground_had_turn: false,
            overdue_had_turn: false,
            wish: None,
            usage: Usage::default(),
            phases: [Phases::default(); OpKind::COUNT],
            journal: None,
            spec: spec.clone(),
        }
    }

    /// Capacity that the host sees, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.spec.capacity_bytes
    }

    /// Starts a journal of the steps in which written data becomes acknowledged, durable or lost.
    pub fn keep_journal(&mut self) {
        self.journal.get_or_insert_default();
    }

    /// Removes and returns the journal's steps since the last call; empty if no journal is kept.
    pub fn take_journal(&mut self) -> Vec<Step> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a step to the journal, if one is kept.
    pub(super) fn note(&mut self, step: Step) {
        if let Some(journal) = &mut self.journal {
            journal.push(step);
        }
    }

    /// Accepts an operation. [`Disk::wake`] returns `id` when it completes; ids of operations in
    /// progress must differ. Operations beyond the disk's queue depth wait in the host, in order.
    ///
    /// A trim completes when the controller has processed it. A write of zeroes goes to the medium like
    /// a FUA write, but does not cross the link. A flush completes when all writes acknowledged before
    /// the controller processed it are on the medium.
    ///
    /// # Panics
    /// If the operation exceeds the capacity, or `now_ns` is after [`Disk::wake_at`].
    pub fn submit(&mut self, now_ns: u64, id: u32, op: Op) {
        assert!(
            now_ns <= self.wake_at(),
            "submission at {now_ns} ns: the disk must be woken first"
        );
        let end = op.offset_bytes.checked_add(u64::from(op.len_bytes));
        assert!(
            end.is_some_and(|end| end <= self.spec.capacity_bytes),
            "{op:?} reaches beyond the {} bytes of the disk",
            self.spec.capacity_bytes
        );
        let request = Request {
            id,
            op,
            submitted_ns: now_ns,
            order: self.next_order,
            since_ns: now_ns,
            phases: Phases::default(),
            place: Place::default(),
            seq: 0,
            live: true,
        };
        self.next_order += 1;
        let slot = if let Some(slot) = self.free.pop() {
            self.requests[slot as usize] = request;
            slot
        } else {
            self.requests.push(request);
            (self.requests.len() - 1) as u32
        };
        self.host.push_back(slot);
        self.start(now_ns);
    }

    /// Returns the time of the next internal event, ns; `u64::MAX` if there is none.
    pub fn wake_at(&self) -> u64 {
        let front = |queue: &VecDeque<(u64, u32)>| queue.front().map_or(NEVER, |&(at, _)| at);
        self.controller_until
            .min(self.link_until)
            .min(self.link_ready.0)
            .min(self.medium_until)
            .min(front(&self.accepting))
            .min(front(&self.flash_reading))
    }

    /// Processes the events at `now_ns` and appends the ids of the operations that complete. No-op before
    /// [`Disk::wake_at`].
    ///
    /// # Panics
    /// If `now_ns` is after [`Disk::wake_at`].
    pub fn wake(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        assert!(now_ns <= self.wake_at(), "woken at {now_ns} ns, too late");
        while self.wake_at() == now_ns {
            if self.controller_until == now_ns {
                self.command_done(now_ns, done);
            } else if self.link_ready.0 == now_ns {
                self.link.push_back(self.link_ready.1);
                self.link_ready.0 = NEVER;
            } else if self.medium_until == now_ns {
                self.medium_done(now_ns, done);
            } else if self.link_until == now_ns {
                self.link_done(now_ns, done);
            } else if self.accepting.front().is_some_and(|&(at, _)| at == now_ns) {
                self.accepted(now_ns, done);
            } else if let Some((_, slot)) = self.flash_reading.pop_front() {
                let request = &mut self.requests[slot as usize];
                request.phases.cache_ns += now_ns - request.since_ns;
                request.since_ns = now_ns;
                self.link.push_back(slot);
            }
            if self.wake_at() != now_ns {
                // Servers start after all events of this instant, so that a choice considers all present
                // requests.
                self.start(now_ns);
            }
        }
    }

    /// Cuts and restores the power. Resets everything except the NAND cache of a hybrid disk, the media cache of a
    /// shingled disk, and the counters. Returns the lost writes and the dropped operations.
    pub fn power_cut(&mut self) -> PowerCut {
        let mut dropped: Vec<&Request> = self.requests.iter().filter(|r| r.live).collect();
        dropped.sort_by_key(|r| r.order);
        let dropped = dropped.into_iter().map(|r| r.id).collect();
        let torn = self.write_under_heads();
        let cut = PowerCut { lost: self.buffer.lose(), torn, dropped };
        self.requests.clear();
        self.free.clear();
        self.host.clear();
        self.inside = 0;
        self.controller.clear();
        self.controller_until = NEVER;
        self.link.clear();
        self.link_until = NEVER;
        self.accepting.clear();
        self.flash_reading.clear();
        self.space_wait.clear();
        self.flushes.clear();
        self.foreground.clear();
        self.segments.clear();
        if let Some(bands) = &mut self.bands {
            bands.power_cut();
        }
        self.heads = Heads::Idle;
        self.medium_until = NEVER;
        self.link_ready = (NEVER, 0);
        self.head = Track::default();
        self.wish = None;
        cut
    }

    /// Starts the next operation on each idle component: controller, link and heads.
    fn start(&mut self, now_ns: u64) {
        while self.inside < self.spec.queue_max {
            let Some(slot) = self.host.pop_front() else { break };
            self.inside += 1;
            self.controller.push_back(slot);
        }
        if self.controller_until == NEVER && !self.controller.is_empty() {
            self.controller_until = now_ns + self.spec.command_ns;
        }
        if self.link_until == NEVER
            && let Some(&slot) = self.link.front()
        {
            let len = self.requests[slot as usize].len();
            self.link_until = now_ns + self.link_ns(len);
        }
        self.start_medium(now_ns);
    }

    /// Returns the transfer time of `len_bytes` on the link, ns.
    pub(super) fn link_ns(&self, len_bytes: u64) -> u64 {
        (len_bytes as f64 * 1e9 / self.spec.link_bytes_per_s + 0.5) as u64
    }

    /// Returns whether an operation is a write that is acknowledged from the buffer.
    fn is_cached(&self, op: &Op) -> bool {
        self.spec.write_cache && op.kind == OpKind::Write && !op.fua
    }

    /// Returns whether destaging is urgent, so that destages alternate with requests.
    pub(super) fn must_destage(&self) -> bool {
        !self.space_wait.is_empty() || !self.flushes.is_empty() || self.buffer.is_nearly_full()
    }

    /// Returns the sequence number below which all acknowledged writes must be durable before the
    /// pending flushes end; `None` without flushes.
    pub(super) fn flush_before(&self) -> Option<u64> {
        self.flushes.iter().map(|&(_, seq)| seq).max()
    }

    fn command_done(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        self.controller_until = NEVER;
        self.usage.command_ns += self.spec.command_ns;
        let Some(slot) = self.controller.pop_front() else { return };
        let request = &mut self.requests[slot as usize];
        request.phases.command_ns = self.spec.command_ns;
        request.since_ns = now_ns;
        match request.op.kind {
            OpKind::Read => self.read(now_ns, slot),
            OpKind::Write => {
                let bytes = request.buffer_bytes();
                if self.space_wait.is_empty() && self.buffer.has_space(bytes) {
                    self.buffer.reserve(bytes);
                    self.link.push_back(slot);
                } else {
                    self.usage.buffer_full += 1;
                    self.space_wait.push_back(slot);
                }
            }
            OpKind::WriteZeroes => self.take_in(now_ns, slot),
            OpKind::Flush => {
                self.flushes.push((slot, self.buffer.next_seq()));
                self.finish_flushes(now_ns, done);
            }
            OpKind::Trim => self.complete(now_ns, slot, done),
        }
    }

    /// Serves a read that the controller has processed, from the fastest level that has the data.
    fn read(&mut self, now_ns: u64, slot: u32) {
        let request = &self.requests[slot as usize];
        let (start, end, len) = (request.op.offset_bytes, request.end(), request.len());
        if self.buffer.covers(start, end) {
            self.usage.buffer_hits += 1;
            self.link.push_back(slot);
        } else if self.read_from_segment(now_ns, slot) {
            // The read was served, or waits for read-ahead in progress.
        } else if self.flash.holds(start, len) {
            self.usage.flash_hits += 1;
            self.flash_reading.push_back((now_ns + self.spec.flash_read_ns, slot));
        } else {
            self.line_up(slot);
        }
    }

    /// Queues a request for service by the heads.
    pub(super) fn line_up(&mut self, slot: u32) {
        let byte = self.requests[slot as usize].op.offset_bytes.min(self.spec.capacity_bytes - 1);
        self.requests[slot as usize].place = self.place_to_read(byte);
        self.foreground.push(slot);
    }

    fn link_done(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        self.link_until = NEVER;
        let Some(slot) = self.link.pop_front() else { return };
        let request = &self.requests[slot as usize];
        self.usage.link_ns += self.link_ns(request.len());
        let request = &mut self.requests[slot as usize];
        request.phases.link_ns += now_ns - request.since_ns;
        request.since_ns = now_ns;
        if request.op.kind == OpKind::Read {
            self.complete(now_ns, slot, done);
        } else {
            self.take_in(now_ns, slot);
        }
    }

    /// Continues a write whose data has arrived in the buffer.
    fn take_in(&mut self, now_ns: u64, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.seq = self.buffer.next_seq();
        let (start, len, end) = (request.op.offset_bytes, request.len(), request.end());
        let op = request.op;
        self.drop_stream_over(now_ns, start, end);
        self.segments.forget(start, end);
        // Cancels read-ahead of a segment that was dropped.
        self.wish = self.wish.filter(|&(segment, _)| self.segments.get(segment).end > 0);
        self.flash.forget(start, len);
        if self.is_cached(&op) {
            self.accepting.push_back((now_ns + self.spec.accept_ns, slot));
        } else {
            self.line_up(slot);
        }
    }

    /// Acknowledges a cached write.
    fn accepted(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        let Some((_, slot)) = self.accepting.pop_front() else { return };
        let request = &mut self.requests[slot as usize];
        request.phases.cache_ns += now_ns - request.since_ns;
        let write = WriteRange {
            id: request.id,
            offset_bytes: request.op.offset_bytes,
            len_bytes: request.len(),
        };
        if write.len_bytes > 0 {
            let seq = self.buffer.next_seq();
            self.note(Step::Accepted { id: write.id, seq });
            self.usage.absorbed_bytes += self.buffer.insert(write, &self.layout);
        }
        self.usage.cached_writes += 1;
        self.usage.cached_bytes += write.len_bytes;
        self.complete(now_ns, slot, done);
    }

    /// Admits waiting writes in order, as long as the buffer has space.
    pub(super) fn admit_writes(&mut self, now_ns: u64) {
        while let Some(&slot) = self.space_wait.front() {
            let request = &mut self.requests[slot as usize];
            if !self.buffer.has_space(request.buffer_bytes()) {
                return;
            }
            request.since_ns = now_ns;
            self.buffer.reserve(request.buffer_bytes());
            self.space_wait.pop_front();
            self.link.push_back(slot);
        }
    }

    /// Completes the flushes whose writes are all durable.
    pub(super) fn finish_flushes(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        let mut index = 0;
        while index < self.flushes.len() {
            let (slot, seq) = self.flushes[index];
            if self.buffer.durable_before(seq) {
                self.flushes.remove(index);
                self.complete(now_ns, slot, done);
            } else {
                index += 1;
            }
        }
    }

    /// Completes an operation: adds it to the counters and frees its entry in `requests`.
    pub(super) fn complete(&mut self, now_ns: u64, slot: u32, done: &mut Vec<u32>) {
        let request = &mut self.requests[slot as usize];
        request.live = false;
        request.phases.count = 1;
        request.phases.queue_ns = now_ns - request.submitted_ns - request.phases.serving_ns();
        self.phases[request.op.kind.index()].add(&request.phases);
        done.push(request.id);
        self.free.push(slot);
        self.inside -= 1;
    }
}
