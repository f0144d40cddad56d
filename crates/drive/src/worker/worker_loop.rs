//! The loop of a worker in real time. Each turn queues the operations that its source provides, stamps and submits
//! them, and waits; then it stamps, checks and counts the completions.

use super::batch_size::BatchSize;
use super::{
    Limits, SLEEP_MAX_NS, Worker, WorkerReport, cover, failure_of, note_failure, sleep_ns,
};
use crate::cpu::CpuTime;
use crate::engine::{Engine, Wait};
use crate::in_flight::{AT_SUBMISSION, InFlight, Share};
use crate::latency_breakdown::{LatencyBreakdown, Span};
use crate::memory::Buffers;
use crate::recorder::Run;
use crate::verify::VerifyMap;
use iodyno_measure::{Ended, ErrorKind, Hung, Verification};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Issue, Next, Outcome, Source};
use std::io;
use std::sync::atomic::Ordering;

/// Lateness of sleeps at their worst percent, ns; the rest of a wait is spun. Timers were measured to be 14 to 32 µs
/// late at the median, and 20 to 70 µs at p99.
const SPIN_BEFORE_NS: u64 = 60_000;
/// Timeout for a target that completes nothing after the end, ns: operations in flight then count as hung.
const GIVE_UP_NS: u64 = 4_000_000_000;
/// Extra timeout for the final flush, in ns per byte that the cell moved: dirty data may lie in the page cache, or in
/// a server's, and goes to its medium at 10 MB/s at least.
const FLUSH_NS_PER_BYTE: u64 = 100;
/// Maximum number of bytes for which the final flush's timeout is extended.
const FLUSH_BYTES_MAX: u64 = 16 << 30;
/// Interval at which a worker that waits for operations in flight at the end checks whether to give up, ns.
const DRAIN_CHECK_NS: u64 = 50_000_000;
/// Number of operations that a verifying worker tries before it waits for a completion.
const CLAIM_TRIES: u32 = 64;
/// Interval at which a worker that waits for completions of others queries its source, ns.
const REQUERY_NS: u64 = 100_000;

/// The flushes in flight, if content is verified.
#[derive(Debug, Default)]
struct Flushes {
    count: u32,
    /// Epoch of the first flush in flight: a flush proves at least that epoch.
    epoch: u32,
}

/// State of the loop.
pub(super) struct WorkerLoop<S: Source> {
    in_flight: InFlight<S::Token>,
    /// Slots queued since the last turn, which share a submission stamp.
    batch: Vec<u32>,
    batch_size: BatchSize,
    /// An operation from the source whose blocks are in flight, so that it waits for a completion.
    held: Option<Issue<S::Token>>,
    /// Whether the source is exhausted.
    is_source_done: bool,
    moved_bytes: u64,
    now_ns: u64,
    window_start_ns: u64,
    window_end_ns: u64,
    /// Time at which the loop next checks whether the worker's time is over, ns; 0: in each turn.
    look_ns: u64,
    /// Integral of operations in flight, up to `area_until_ns`.
    area: u128,
    area_until_ns: u64,
    carried_in_ns: i128,
    carried_out_ns: i128,
    round_trip: LatencyBreakdown,
    cpu_start: CpuTime,
    cpu_end: Option<CpuTime>,
    overlaps_skipped: u64,
    first_corruption: Option<String>,
    /// Verification counts; None if content is not verified.
    tally: Option<Box<Verification>>,
    flushes: Flushes,
    /// Set when the worker's time or share is over and its source issues its final operations.
    closing: Option<Closing>,
    pub(super) ended: Ended,
    hung: Option<Hung>,
}

/// Progress of a worker's final operations, such as a flush.
#[derive(Clone, Copy, Debug)]
struct Closing {
    /// Why the worker ends.
    why: Ended,
    /// Number of the worker's finished operations at the latest completion, and the time of that completion, ns.
    done: u64,
    since_ns: u64,
}

impl Flushes {
    fn begins(&mut self, map: &VerifyMap) {
        let epoch = map.flush_begins();
        if self.count == 0 {
            self.epoch = epoch;
        }
        self.count += 1;
    }

    #[inline]
    fn completed(&mut self, map: &VerifyMap, op: &Op, succeeded: bool) {
        if op.kind == OpKind::Flush {
            self.count -= 1;
            map.flushed(self.epoch, succeeded);
        }
    }
}

impl<S: Source> WorkerLoop<S> {
    pub(super) fn new(slots: u32, batch_size: BatchSize, start_ns: u64, limits: &Limits) -> Self {
        let window_start_ns = start_ns + limits.ramp_ns;
        let window_end_ns = limits.time_ns.map_or(u64::MAX, |t| window_start_ns + t);
        Self {
            in_flight: InFlight::new(slots),
            batch: Vec::with_capacity(slots as usize),
            batch_size,
            held: None,
            is_source_done: false,
            moved_bytes: 0,
            now_ns: start_ns,
            window_start_ns,
            window_end_ns,
            look_ns: window_end_ns,
            area: 0,
            area_until_ns: start_ns,
            carried_in_ns: 0,
            carried_out_ns: 0,
            round_trip: LatencyBreakdown::new(start_ns),
            cpu_start: CpuTime::default(),
            cpu_end: None,
            overlaps_skipped: 0,
            first_corruption: None,
            tally: None,
            flushes: Flushes::default(),
            closing: None,
            ended: Ended::Time,
            hung: None,
        }
    }

    /// Integrates up to `at_ns` with `count` operations in flight.
    #[inline]
    fn integrate(&mut self, count: usize, at_ns: u64) {
        // A turn may end beyond the window; operations in flight after the window don't count.
        let at_ns = at_ns.min(self.window_end_ns);
        let passed = at_ns.saturating_sub(self.area_until_ns);
        self.area += u128::from(passed * count as u64);
        self.area_until_ns = at_ns.max(self.area_until_ns);
    }

    pub(super) fn work<E: Engine>(
        &mut self,
        w: &mut Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
    ) -> io::Result<()> {
        self.tally = w.verify.as_ref().map(|map| Box::new(map.tally()));
        let result = loop {
            if !w.recorder.measuring() && self.now_ns >= self.window_start_ns {
                self.begin_window(w);
            }
            if self.now_ns >= self.look_ns && self.is_over(w) {
                break Ok(());
            }
            if w.control.stop.load(Ordering::Relaxed) {
                let errors = w.control.errors.load(Ordering::Relaxed);
                let failed = w.control.failed.load(Ordering::Relaxed);
                let by_errors = errors > w.control.errors_max || failed;
                self.ended = if by_errors { Ended::Errors } else { Ended::Interrupted };
                break Ok(());
            }
            if w.is_over.load(Ordering::Relaxed) {
                self.ended = Ended::Settled;
                break Ok(());
            }
            if let Some(ended) = self.is_complete(w) {
                if self.closes(w, ended) {
                    continue;
                }
                self.ended = self.closing.map_or(ended, |closing| closing.why);
                break Ok(());
            }
            let wait = self.fill(w, engine, buffers);
            if let Err(e) = self.turn(w, engine, buffers, wait) {
                break Err(e);
            }
        };
        if self.closing.is_some() {
            w.control.closing.fetch_sub(1, Ordering::Relaxed);
        }
        self.end_window(w);
        let drained = self.drain(w, engine, buffers);
        if let Some(map) = &w.verify
            && drained.is_err()
            && self.hung.is_none()
        {
            self.in_flight.iter().for_each(|slot| map.abandon(&slot.op));
        }
        drained?;
        result
    }

    /// Called when the worker's time or share is over. Returns whether the source has final operations, such as a
    /// flush, which extend the window until they have completed.
    #[cold]
    fn closes(&mut self, w: &mut Worker<S>, why: Ended) -> bool {
        if self.closing.is_some() || !w.recorder.measuring() {
            return false;
        }
        if !w.source.close(self.now_ns, why == Ended::Time) {
            return false;
        }
        let done = w.recorder.ops + w.recorder.errors;
        self.closing = Some(Closing { why, done, since_ns: self.now_ns });
        w.control.closing_bytes.fetch_add(self.moved_bytes, Ordering::Relaxed);
        // Before the count: the coordinator must not take another worker's time for this one's.
        w.control.closing_until_ns.fetch_max(self.now_ns, Ordering::Relaxed);
        w.control.closing.fetch_add(1, Ordering::Release);
        self.held = None;
        (self.window_end_ns, self.look_ns) = (u64::MAX, 0);
        w.limits.share = Share::ALL;
        true
    }

    /// Whether the worker's time is over: that of its window, or the timeout of its final operations.
    #[cold]
    fn is_over(&mut self, w: &mut Worker<S>) -> bool {
        if self.closing.is_none() && !self.closes(w, Ended::Time) {
            return true;
        }
        let Some(closing) = &mut self.closing else { return false };
        let done = w.recorder.ops + w.recorder.errors;
        if done > closing.done {
            (closing.done, closing.since_ns) = (done, self.now_ns);
        }
        // A flush takes as long as writing its data; operations in flight before it don't.
        let is_flush = self.in_flight.iter().all(|slot| slot.op.kind == OpKind::Flush);
        let patience_ns = if is_flush {
            let bytes = w.control.closing_bytes.load(Ordering::Relaxed).min(FLUSH_BYTES_MAX);
            w.control.flush_ns + bytes * FLUSH_NS_PER_BYTE
        } else {
            GIVE_UP_NS
        };
        let until_ns = closing.since_ns.saturating_add(patience_ns);
        // A worker that waits in the flush itself can't check; the coordinator does.
        w.control.closing_since_ns.fetch_max(closing.since_ns, Ordering::Relaxed);
        w.control.closing_until_ns.fetch_max(until_ns, Ordering::Relaxed);
        if self.now_ns < until_ns {
            return false;
        }
        self.hangs();
        true
    }

    /// Gives up the operations in flight.
    fn hangs(&mut self) {
        let submitted_ns = self.in_flight.iter().map(|slot| slot.submitted_ns);
        let oldest_ns = self.now_ns.saturating_sub(submitted_ns.min().unwrap_or(self.now_ns));
        let ops = self.in_flight.len() as u64;
        self.hung = Some(Hung { ops, oldest_ns, stuck_workers: 0 });
        self.ended = Ended::Hung;
    }

    /// Waits for the remaining operations in flight: they belong to no window, but the kernel holds their buffers.
    /// Gives up a target that completes none of them.
    #[cold]
    fn drain<E: Engine>(
        &mut self,
        w: &mut Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
    ) -> io::Result<()> {
        // A worker that already hangs at its end has used up its time.
        let patience_ns = if self.hung.is_some() { 0 } else { GIVE_UP_NS };
        let mut give_up_ns = w.clock.now_ns() + patience_ns;
        let mut has_checked = false;
        while self.in_flight.len() > 0 {
            self.now_ns = w.clock.now_ns();
            let now_ns = self.now_ns;
            // A worker that had no processor meanwhile checks once more.
            if now_ns >= give_up_ns && has_checked {
                self.hangs();
                if let Some(map) = &w.verify {
                    self.in_flight.iter().for_each(|slot| map.abandon(&slot.op));
                }
                engine.cancel();
                engine.turn(Wait::AtMostNs(DRAIN_CHECK_NS))?;
                engine.drain(|slot, _| {
                    self.in_flight.end(slot);
                });
                return Ok(());
            }
            has_checked = now_ns >= give_up_ns;
            engine.turn(Wait::AtMostNs(DRAIN_CHECK_NS))?;
            let before = self.in_flight.len();
            let (in_flight, moved) = (&mut self.in_flight, &mut self.moved_bytes);
            let (tally, flushes) = (&mut self.tally, &mut self.flushes);
            engine.drain(|slot, result| {
                let op = &in_flight.end(slot).op;
                *moved += result.max(0) as u64;
                let succeeded = result == op.len_bytes as i32;
                if let Some(coverage) = &mut w.coverage
                    && succeeded
                {
                    cover(coverage, op);
                }
                if let (Some(map), Some(tally)) = (&w.verify, tally.as_deref_mut()) {
                    let len = op.len_bytes as usize;
                    // SAFETY: the operation has completed, and no other is issued.
                    let bytes = buffers.map(|b| unsafe { &*b.bytes(slot, len) });
                    flushes.completed(map, op, succeeded);
                    let _ = map.complete(op, succeeded, bytes.unwrap_or_default(), tally);
                }
            });
            if self.in_flight.len() < before {
                let now_ns = w.clock.now_ns();
                w.control.drained_ns.fetch_max(now_ns, Ordering::Relaxed);
                give_up_ns = now_ns + GIVE_UP_NS;
            }
        }
        Ok(())
    }

    #[cold]
    fn begin_window(&mut self, w: &mut Worker<S>) {
        w.recorder.start_window(self.window_start_ns);
        self.area = 0;
        self.area_until_ns = self.window_start_ns;
        self.integrate(self.in_flight.len(), self.now_ns);
        let start_ns = i128::from(self.window_start_ns);
        self.carried_in_ns =
            self.in_flight.iter().map(|s| start_ns - i128::from(s.submitted_ns)).sum();
        self.cpu_start = CpuTime::now();
    }

    #[cold]
    fn end_window(&mut self, w: &mut Worker<S>) {
        self.window_end_ns = self.window_end_ns.min(self.now_ns).max(self.window_start_ns);
        if w.recorder.measuring() {
            self.integrate(self.in_flight.len(), self.window_end_ns);
            let end_ns = self.window_end_ns;
            let within: u64 =
                self.in_flight.iter().map(|s| end_ns.saturating_sub(s.submitted_ns)).sum();
            self.carried_out_ns += i128::from(within);
            self.cpu_end = Some(CpuTime::now());
        }
    }

    /// Why this worker ends: its share is complete, or its source is exhausted. None if neither.
    #[inline]
    fn is_complete(&self, w: &Worker<S>) -> Option<Ended> {
        if self.is_source_done && self.in_flight.len() == 0 {
            return Some(Ended::Ops);
        }
        let done = w.recorder.ops + w.recorder.errors;
        w.limits.share.is_done(done, w.recorder.bytes, &w.source)
    }

    /// Whether one more operation would exceed this worker's share.
    #[inline]
    fn is_share_issued(&self, w: &Worker<S>) -> bool {
        let done = w.recorder.ops + w.recorder.errors;
        w.limits.share.is_issued(done, w.recorder.bytes, &w.source, &self.in_flight)
    }

    /// Queues the operations that are due. Returns the time for which the turn may wait.
    #[inline]
    fn fill<E: Engine>(
        &mut self,
        w: &mut Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
    ) -> Wait {
        while self.batch.len() < self.batch_size.now() && !self.is_share_issued(w) {
            let Some(slot) = self.in_flight.next_slot() else { break };
            let issue = match self.held {
                Some(held) => held,
                None => match w.source.next(self.now_ns, self.in_flight.free()) {
                    Next::Issue(issue) => issue,
                    Next::WaitUntil(due_ns) => return self.wait_until(w, due_ns),
                    Next::WaitCompletion if S::WAITS_FOR_OTHERS => {
                        return self.wait_until(w, self.now_ns + REQUERY_NS);
                    }
                    Next::WaitCompletion => break,
                    Next::Done => {
                        self.is_source_done = true;
                        break;
                    }
                },
            };
            let issue = if w.verify.is_some() {
                self.held = Some(issue);
                let Some(claimed) = self.claim_held(w) else { break };
                claimed
            } else {
                issue
            };
            let op = issue.op;
            if op.kind == OpKind::Write
                && let Some(buffers) = buffers
            {
                // SAFETY: the slot was free, so no operation uses its buffer.
                let bytes = unsafe { buffers.bytes(slot, op.len_bytes as usize) };
                if S::HAS_CONTENT {
                    w.source.fill(&op, issue.token, bytes);
                } else if let Some(map) = &w.verify {
                    map.fill(&op, bytes);
                } else if let Some(filler) = &mut w.filler {
                    filler.stamp(bytes, &op);
                }
            }
            self.in_flight.begin(&issue, 0);
            engine.queue(slot, &op);
            self.batch.push(slot);
        }
        // Batches fill the queue without waiting for each other.
        let goes_on = self.batch.len() == self.batch_size.now() && self.in_flight.free() > 0;
        if goes_on { Wait::No } else { Wait::One }
    }

    /// The held operation, or a replacement whose blocks have no operation in flight, because content is verified.
    /// None if it must wait for a completion.
    // Passed through `held`, so that the operation in `fill` stays in registers when nothing is verified.
    fn claim_held(&mut self, w: &mut Worker<S>) -> Option<Issue<S::Token>> {
        let (Some(map), Some(issue)) = (&w.verify, &mut self.held) else { return None };
        for _ in 0..CLAIM_TRIES {
            if map.claim(&issue.op) {
                if issue.op.kind == OpKind::Flush {
                    self.flushes.begins(map);
                }
                return self.held.take();
            }
            issue.op = w.source.replace(&issue.op)?;
            self.overlaps_skipped += 1;
        }
        None
    }

    /// The kind of wait for a turn in which nothing is due before `due_ns`.
    fn wait_until(&mut self, w: &Worker<S>, due_ns: u64) -> Wait {
        let until_ns = due_ns.min(self.window_end_ns);
        let left_ns = until_ns.saturating_sub(self.now_ns);
        if self.in_flight.len() == 0 {
            if left_ns > SPIN_BEFORE_NS {
                sleep_ns(left_ns - SPIN_BEFORE_NS);
            }
            // The loop, not this function, notices the end of the ramp or a stop during a wait.
            let look_ns = until_ns.min(self.now_ns + SLEEP_MAX_NS);
            while w.clock.now_ns() < look_ns {
                std::hint::spin_loop();
                let is_stopped = || w.control.stop.load(Ordering::Relaxed);
                if left_ns > SPIN_BEFORE_NS && (is_stopped() || w.is_over.load(Ordering::Relaxed)) {
                    break;
                }
            }
            Wait::No
        } else if left_ns > 2 * SPIN_BEFORE_NS && self.batch.is_empty() {
            Wait::AtMostNs((left_ns - SPIN_BEFORE_NS).min(SLEEP_MAX_NS))
        } else {
            Wait::No
        }
    }

    /// One turn of the engine: stamp, submit, wait, stamp, record.
    #[inline]
    fn turn<E: Engine>(
        &mut self,
        w: &mut Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
        wait: Wait,
    ) -> io::Result<()> {
        let mut handed_over = None;
        let looked_ns = if self.batch.is_empty() {
            self.now_ns
        } else {
            let submitted_ns = w.clock.now_ns();
            self.integrate(self.in_flight.len() - self.batch.len(), submitted_ns);
            for &slot in &self.batch {
                self.in_flight.set_submitted(slot, submitted_ns);
            }
            if w.recorder.measuring() && self.round_trip.is_due() {
                if engine.submit()? {
                    let (ops, to_ns) = (self.batch.len() as u64, w.clock.now_ns());
                    handed_over = Some(Span { ops, from_ns: submitted_ns, to_ns });
                } else {
                    self.round_trip.never();
                }
            }
            self.batch.clear();
            submitted_ns
        };
        let wait = if self.in_flight.len() == 0 { Wait::No } else { wait };
        engine.turn(wait)?;
        let now_ns = w.clock.now_ns();
        self.integrate(self.in_flight.len(), now_ns);
        self.now_ns = now_ns;
        let counts = w.recorder.measuring() && now_ns < self.window_end_ns;
        let (in_flight, source) = (&mut self.in_flight, &mut w.source);
        let first_corruption = &mut self.first_corruption;
        let (tally, flushes) = (&mut self.tally, &mut self.flushes);
        let window_end_ns = self.window_end_ns;
        // The window ended while this turn waited: its completions are not counted, but were in flight until then.
        let too_late = w.recorder.measuring() && !counts;
        let carried_out_ns = &mut self.carried_out_ns;
        let (mut reaped, mut moved_bytes) = (0, 0);
        let mut run = Run {
            kind: OpKind::Read,
            ops: 0,
            bytes: 0,
            submitted_ns: 0,
            intended_ns: AT_SUBMISSION,
        };
        engine.drain(|index, result| {
            let slot = in_flight.end(index);
            let len_bytes = slot.op.len_bytes;
            reaped += 1;
            moved_bytes += result.max(0) as u64;
            if too_late {
                *carried_out_ns += i128::from(window_end_ns.saturating_sub(slot.submitted_ns));
            }
            let mut failure = (result != len_bytes as i32).then(|| failure_of(result));
            if let (Some(map), Some(tally)) = (&w.verify, tally.as_deref_mut()) {
                // SAFETY: the operation has completed, and the slot is not used again before this
                // closure returns.
                let bytes = buffers.map(|b| unsafe { &*b.bytes(index, len_bytes as usize) });
                let succeeded = failure.is_none();
                flushes.completed(map, &slot.op, succeeded);
                let checked = map.complete(&slot.op, succeeded, bytes.unwrap_or_default(), tally);
                if let Err(what) = checked {
                    // The block was read nevertheless.
                    if let Some(coverage) = &mut w.coverage {
                        cover(coverage, &slot.op);
                    }
                    failure = Some((ErrorKind::Corrupt, libc::EILSEQ));
                    first_corruption.get_or_insert_with(|| what.to_string());
                }
            }
            if S::HAS_CONTENT
                && failure.is_none()
                && slot.op.kind == OpKind::Read
                && let Some(buffers) = buffers
            {
                // SAFETY: as above.
                let bytes = unsafe { &*buffers.bytes(index, len_bytes as usize) };
                if !source.check(&slot.op, bytes) {
                    failure = Some((ErrorKind::Corrupt, libc::EILSEQ));
                }
            }
            let outcome = if failure.is_none() { Outcome::Succeeded } else { Outcome::Failed };
            source.completed(&slot.op, slot.token, outcome, now_ns);
            if let Some((kind, errno)) = failure {
                // Failures in the ramp count, too: they are as real, and the reader must see them.
                let at_ns = now_ns.min(window_end_ns.saturating_sub(1));
                note_failure(&w.control, &mut w.recorder, &slot.op, kind, errno, at_ns);
            } else {
                // Writes in the ramp count, too.
                if let Some(coverage) = &mut w.coverage {
                    cover(coverage, &slot.op);
                }
                if !counts {
                    return;
                }
                let intended_ns = slot.intended_ns.min(slot.submitted_ns);
                let same = run.kind == slot.op.kind
                    && run.submitted_ns == slot.submitted_ns
                    && run.intended_ns == intended_ns;
                if !same {
                    if run.ops > 0 {
                        w.recorder.completed(&run, now_ns);
                    }
                    let submitted_ns = slot.submitted_ns;
                    run = Run { kind: slot.op.kind, ops: 0, bytes: 0, submitted_ns, intended_ns };
                }
                run.ops += 1;
                run.bytes += u64::from(len_bytes);
            }
        });
        if run.ops > 0 {
            w.recorder.completed(&run, now_ns);
        }
        self.moved_bytes += moved_bytes;
        if E::HANDS_OVER {
            self.batch_size.completed(reaped, now_ns);
        }
        if reaped > 0 && counts {
            // A single completion is stamped on arrival: either it was waited for, or the engine executed it in this
            // turn.
            let span_ns = if reaped > 1 { now_ns - looked_ns } else { 0 };
            w.recorder.stamps.add(reaped, span_ns);
        }
        if let Some(handed_over) = handed_over {
            let counted = Span { ops: reaped, from_ns: now_ns, to_ns: w.clock.now_ns() };
            self.round_trip.add(handed_over, counted);
        }
        Ok(())
    }

    pub(super) fn report(self, mut w: Worker<S>, engine_error: Option<io::Error>) -> WorkerReport {
        let measured = w.recorder.measuring();
        if measured || w.recorder.failed_in_ramp() {
            w.recorder.roll(self.window_end_ns);
        }
        let cpu_end = self.cpu_end.unwrap_or(self.cpu_start);
        let left_in_flight = self.in_flight.len();
        let source = w.source.end(self.window_end_ns);
        WorkerReport {
            window: (self.window_start_ns, self.window_end_ns),
            cpu_ns: Some(cpu_end.since(&self.cpu_start)),
            scheduling: Some(cpu_end.scheduling_since(&self.cpu_start)),
            run_delay: w.recorder.waited,
            moved_bytes: self.moved_bytes,
            outstanding_area_ns: if measured { self.area } else { 0 },
            carried_in_ns: self.carried_in_ns,
            carried_out_ns: self.carried_out_ns,
            stamps: w.recorder.stamps,
            spent: self.round_trip.spent(),
            lateness: w.recorder.lateness.take().map(|h| *h),
            backlog_ops: if measured { source.backlog_ops } else { 0 },
            overlaps_skipped: self.overlaps_skipped,
            recent_misses: source.recent_misses,
            walked: source.walked,
            first_corruption: self.first_corruption,
            verification: self.tally,
            coverage: w.coverage.take(),
            ended: self.ended,
            engine_error,
            hung: self.hung,
            left_in_flight,
            ..WorkerReport::default()
        }
    }
}
