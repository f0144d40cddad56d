//! The loop of a worker in real time. Each iteration queues the operations that its source provides, stamps and submits
//! them, and waits; then it stamps, checks and counts the completions.

mod content_check;
mod ending;

use super::batch_size::BatchSize;
use super::{Limits, SLEEP_MAX_NS, Worker, cover, failure_of, moves_data, note_failure, sleep_ns};
use crate::cpu::CpuTime;
use crate::engine::{Engine, Wait};
use crate::in_flight::{AT_SUBMISSION, InFlight, Slot};
use crate::latency_breakdown::{LatencyBreakdown, Span};
use crate::memory::Buffers;
use crate::recorder::{Recorder, Run};
use content_check::ContentCheck;
use ending::Closing;
use iodyno_measure::{Ended, ErrorKind, Hung};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Issue, Next, Outcome, Source};
use std::io;
use std::sync::atomic::Ordering;

/// Duration at the end of a wait that is spent spinning rather than sleeping, ns: about the p99 lateness of
/// sleeps. Measured lateness of timers: 14 to 32 µs at the median, 20 to 70 µs at p99.
const SPIN_BEFORE_NS: u64 = 60_000;
/// Number of operations that a verifying worker tries to claim before it waits for a completion.
const CLAIM_TRIES: u32 = 64;
/// Interval at which a worker that waits for other workers' completions queries its source, ns.
const REQUERY_NS: u64 = 100_000;

/// Timestamps of a submission by an iteration of the engine's loop.
struct Submitted {
    /// Time of the submission or, if nothing was queued, of the last check for completions, ns.
    at_ns: u64,
    /// Time that the engine took to submit the operations; `None` if this was not measured.
    handed_over: Option<Span>,
}

/// State of a worker's main loop.
pub(super) struct WorkerLoop<S: Source> {
    in_flight: InFlight<S::Token>,
    /// Indices of the operations queued since the last iteration. They share a submission timestamp.
    batch: Vec<u32>,
    batch_size: BatchSize,
    /// Operation that is issued only after a completion, because an operation in flight uses its blocks; `None` if
    /// there is none.
    held: Option<Issue<S::Token>>,
    /// Whether the worker's source has no further operation.
    is_source_done: bool,
    /// Bytes that reads and writes transferred.
    moved_bytes: u64,
    /// Bytes that other operations, such as trims, covered.
    covered_bytes: u64,
    now_ns: u64,
    window_start_ns: u64,
    window_end_ns: u64,
    /// Time at which the loop next checks its time limit, ns; 0: in each iteration.
    look_ns: u64,
    /// Integral of the number of operations in flight, up to `area_until_ns`.
    area: u128,
    area_until_ns: u64,
    carried_in_ns: i128,
    carried_out_ns: i128,
    round_trip: LatencyBreakdown,
    cpu_start: CpuTime,
    cpu_end: Option<CpuTime>,
    overlaps_skipped: u64,
    check: ContentCheck,
    /// State of the final operations, such as a flush, after the worker reached a limit; `None` before.
    closing: Option<Closing>,
    pub(super) ended: Ended,
    hung: Option<Hung>,
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
            covered_bytes: 0,
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
            check: ContentCheck::new(None),
            closing: None,
            ended: Ended::Time,
            hung: None,
        }
    }

    /// Extends the integral of operations in flight up to `at_ns`, with `count` in flight.
    #[inline]
    fn integrate(&mut self, count: usize, at_ns: u64) {
        // An iteration may end beyond the window; operations in flight after the window don't count.
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
        self.check = ContentCheck::new(w.verify.as_deref());
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

    #[cold]
    fn begin_window(&mut self, w: &mut Worker<S>) {
        w.recorder.start_window(self.window_start_ns);
        w.limits.share.end_ramp(self.moved_bytes + self.covered_bytes);
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

    /// Why the worker ends: it has reached a limit or its source is exhausted. `None` if neither.
    #[inline]
    fn is_complete(&self, w: &Worker<S>) -> Option<Ended> {
        if self.is_source_done && self.in_flight.len() == 0 {
            return Some(Ended::Ops);
        }
        let done = w.recorder.ops + w.recorder.errors;
        w.limits.share.is_done(done, w.recorder.bytes, &w.source)
    }

    /// True if completed operations and those in flight together reach the worker's limit, so that no more may be
    /// issued.
    #[inline]
    fn is_share_issued(&self, w: &Worker<S>) -> bool {
        let done = w.recorder.ops + w.recorder.errors;
        w.limits.share.is_issued(done, w.recorder.bytes, &w.source, &self.in_flight)
    }

    /// Queues the operations that are due. Returns how long the next iteration of the engine's loop may wait.
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

    /// Returns the operation in `held`, or a replacement whose blocks have no operation in flight, as
    /// verification requires. `None` if the worker must wait for a completion first.
    // Passed through `held`, so that the operation in `fill` stays in registers when nothing is verified.
    fn claim_held(&mut self, w: &mut Worker<S>) -> Option<Issue<S::Token>> {
        let (Some(map), Some(issue)) = (&w.verify, &mut self.held) else { return None };
        for _ in 0..CLAIM_TRIES {
            if map.claim(&issue.op) {
                self.check.claimed(map, &issue.op);
                return self.held.take();
            }
            issue.op = w.source.replace(&issue.op)?;
            self.overlaps_skipped += 1;
        }
        None
    }

    /// How the engine should wait in an iteration if nothing is due before `due_ns`.
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

    /// Runs one iteration of the engine's loop: submits, waits, and reaps completions.
    #[inline]
    fn turn<E: Engine>(
        &mut self,
        w: &mut Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
        wait: Wait,
    ) -> io::Result<()> {
        let Submitted { at_ns, handed_over } = self.submit(w, engine)?;
        let wait = if self.in_flight.len() == 0 { Wait::No } else { wait };
        engine.turn(wait)?;
        let now_ns = w.clock.now_ns();
        self.integrate(self.in_flight.len(), now_ns);
        self.now_ns = now_ns;
        let counts = w.recorder.measuring() && now_ns < self.window_end_ns;
        let reaped = self.reap(w, engine, buffers, counts);
        if E::HANDS_OVER {
            self.batch_size.completed(reaped, now_ns);
        }
        if reaped > 0 && counts {
            // A single completion is stamped on arrival: either it was waited for, or the engine executed it in this
            // iteration.
            let span_ns = if reaped > 1 { now_ns - at_ns } else { 0 };
            w.recorder.stamps.add(reaped, span_ns);
        }
        if let Some(handed_over) = handed_over {
            let counted = Span { ops: reaped, from_ns: now_ns, to_ns: w.clock.now_ns() };
            self.round_trip.add(handed_over, counted);
        }
        Ok(())
    }

    /// Timestamps the queued operations. If the phases of this iteration are measured, also submits the operations,
    /// rather than leave that to the wait.
    #[inline]
    fn submit<E: Engine>(&mut self, w: &Worker<S>, engine: &mut E) -> io::Result<Submitted> {
        if self.batch.is_empty() {
            return Ok(Submitted { at_ns: self.now_ns, handed_over: None });
        }
        let mut handed_over = None;
        let at_ns = w.clock.now_ns();
        self.integrate(self.in_flight.len() - self.batch.len(), at_ns);
        for &slot in &self.batch {
            self.in_flight.set_submitted(slot, at_ns);
        }
        if w.recorder.measuring() && self.round_trip.is_due() {
            if engine.submit()? {
                let (ops, to_ns) = (self.batch.len() as u64, w.clock.now_ns());
                handed_over = Some(Span { ops, from_ns: at_ns, to_ns });
            } else {
                self.round_trip.never();
            }
        }
        self.batch.clear();
        Ok(Submitted { at_ns, handed_over })
    }

    /// Reaps the operations that completed in this iteration. Records them if `counts`. Returns their number.
    #[inline]
    fn reap<E: Engine>(
        &mut self,
        w: &mut Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
        counts: bool,
    ) -> u64 {
        let (now_ns, window_end_ns) = (self.now_ns, self.window_end_ns);
        // The window ended while this iteration waited: its completions are not counted, but were in flight until then.
        let too_late = w.recorder.measuring() && !counts;
        let (mut reaped, mut moved_bytes, mut covered_bytes) = (0, 0, 0);
        let mut run = Run {
            kind: OpKind::Read,
            ops: 0,
            bytes: 0,
            submitted_ns: 0,
            intended_ns: AT_SUBMISSION,
        };
        let (in_flight, check) = (&mut self.in_flight, &mut self.check);
        let carried_out_ns = &mut self.carried_out_ns;
        engine.drain(|index, result| {
            let slot = in_flight.end(index);
            reaped += 1;
            *sum_of(&slot.op, &mut moved_bytes, &mut covered_bytes) += result.max(0) as u64;
            if too_late {
                *carried_out_ns += i128::from(window_end_ns.saturating_sub(slot.submitted_ns));
            }
            let failure = failure(w, check, buffers, index, &slot.op, result);
            let outcome = if failure.is_none() { Outcome::Succeeded } else { Outcome::Failed };
            w.source.completed(&slot.op, slot.token, outcome, now_ns);
            if let Some((kind, errno)) = failure {
                // Failures in the ramp count, too: they are as real, and the reader must see them.
                let at_ns = now_ns.min(window_end_ns.saturating_sub(1));
                note_failure(&w.control, &mut w.recorder, &slot.op, kind, errno, at_ns);
            } else {
                // Writes in the ramp count, too.
                if let Some(coverage) = &mut w.coverage {
                    cover(coverage, &slot.op);
                }
                if counts {
                    count(&mut w.recorder, &mut run, &slot, now_ns);
                }
            }
        });
        if run.ops > 0 {
            w.recorder.completed(&run, now_ns);
        }
        self.moved_bytes += moved_bytes;
        self.covered_bytes += covered_bytes;
        reaped
    }
}

/// The sum to which an operation's bytes belong: of data that moved, or of other operations.
#[inline]
fn sum_of<'a>(op: &Op, moved: &'a mut u64, covered: &'a mut u64) -> &'a mut u64 {
    if moves_data(op.kind) { moved } else { covered }
}

/// Why the completed operation with this index failed; `None` if it succeeded.
#[inline]
fn failure<S: Source>(
    w: &mut Worker<S>,
    check: &mut ContentCheck,
    buffers: Option<&Buffers>,
    index: u32,
    op: &Op,
    result: i32,
) -> Option<(ErrorKind, i32)> {
    const CORRUPT: (ErrorKind, i32) = (ErrorKind::Corrupt, libc::EILSEQ);
    let mut failure = (result != op.len_bytes as i32).then(|| failure_of(result));
    if let Some(map) = &w.verify
        && let Err(wrong) = check.completed(map, op, failure.is_none(), buffers, index)
    {
        check.first_corruption.get_or_insert_with(|| wrong.to_string());
        // The block was read nevertheless.
        if let Some(coverage) = &mut w.coverage {
            cover(coverage, op);
        }
        failure = Some(CORRUPT);
    }
    if S::HAS_CONTENT
        && failure.is_none()
        && op.kind == OpKind::Read
        && let Some(buffers) = buffers
    {
        // SAFETY: the operation has completed, and the slot is not used again before the next iteration.
        let bytes = unsafe { &*buffers.bytes(index, op.len_bytes as usize) };
        if !w.source.check(op, bytes) {
            failure = Some(CORRUPT);
        }
    }
    failure
}

/// Adds a completion to `run` if kind and timestamps match. Otherwise records `run` and begins a new one.
#[inline]
fn count<T>(recorder: &mut Recorder, run: &mut Run, slot: &Slot<T>, now_ns: u64) {
    let Slot { op, submitted_ns, .. } = *slot;
    let intended_ns = slot.intended_ns.min(submitted_ns);
    let same =
        run.kind == op.kind && run.submitted_ns == submitted_ns && run.intended_ns == intended_ns;
    if !same {
        if run.ops > 0 {
            recorder.completed(run, now_ns);
        }
        *run = Run { kind: op.kind, ops: 0, bytes: 0, submitted_ns, intended_ns };
    }
    run.ops += 1;
    run.bytes += u64::from(op.len_bytes);
}
