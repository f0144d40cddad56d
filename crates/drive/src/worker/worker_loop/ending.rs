//! The end of a worker's loop: its final operations, the wait for operations in flight, a target that hangs, and the
//! report.

use super::{WorkerLoop, sum_of};
use crate::engine::{Engine, Wait};
use crate::in_flight::Share;
use crate::memory::Buffers;
use crate::worker::{Worker, WorkerReport, cover};
use iodyno_measure::{Ended, Hung};
use iodyno_units::OpKind;
use iodyno_workload::Source;
use std::io;
use std::sync::atomic::Ordering;

/// Timeout for a target that completes nothing after the worker's end, ns. Operations in flight then count as
/// hung.
const GIVE_UP_NS: u64 = 4_000_000_000;
/// Extra timeout for the final flush, in ns per byte that the cell transferred. Assumes that dirty data in
/// the page cache or in a server's cache is written at 10 MB/s at least.
const FLUSH_NS_PER_BYTE: u64 = 100;
/// Maximum number of bytes for which the final flush's timeout is extended.
const FLUSH_BYTES_MAX: u64 = 16 << 30;
/// Interval at which a worker that waits for its last operations in flight checks whether to abandon them,
/// ns.
const DRAIN_CHECK_NS: u64 = 50_000_000;

/// Progress of a worker's final operations, such as a flush, for detecting a hung target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    /// Limit that the worker reached before its final operations.
    pub(super) why: Ended,
    /// Number of operations that the worker had finished at its last progress, at `since_ns`.
    done: u64,
    since_ns: u64,
}

impl<S: Source> WorkerLoop<S> {
    /// Asks the source for final operations, such as a flush, at the end of the worker's time or at another limit.
    /// Returns true if there are any; the window then lasts until they have ended.
    #[cold]
    pub(super) fn closes(&mut self, w: &mut Worker<S>, why: Ended) -> bool {
        if self.closing.is_some() || !w.recorder.measuring() {
            return false;
        }
        if !w.source.close(self.now_ns, why == Ended::Time) {
            return false;
        }
        let done = w.recorder.ops + w.recorder.errors;
        self.closing = Some(Closing { why, done, since_ns: self.now_ns });
        w.control.closing_bytes.fetch_add(self.moved_bytes + self.covered_bytes, Ordering::Relaxed);
        // Before the count: the coordinator must not take another worker's time for this one's.
        w.control.closing_until_ns.fetch_max(self.now_ns, Ordering::Relaxed);
        w.control.closing.fetch_add(1, Ordering::Release);
        self.held = None;
        (self.window_end_ns, self.look_ns) = (u64::MAX, 0);
        w.limits.share = Share::ALL;
        true
    }

    /// True if the worker's window is over or its final operations have timed out.
    #[cold]
    pub(super) fn is_over(&mut self, w: &mut Worker<S>) -> bool {
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

    /// Records the operations in flight as hung, and abandons them.
    fn hangs(&mut self) {
        let submitted_ns = self.in_flight.iter().map(|slot| slot.submitted_ns);
        let oldest_ns = self.now_ns.saturating_sub(submitted_ns.min().unwrap_or(self.now_ns));
        let ops = self.in_flight.len() as u64;
        self.hung = Some(Hung { ops, oldest_ns, stuck_workers: 0 });
        self.ended = Ended::Hung;
    }

    /// Waits for the operations still in flight. They are not measured, but the kernel still uses their buffers.
    /// Abandons a target that completes none of them.
    #[cold]
    pub(super) fn drain<E: Engine>(
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
            // A worker that had no processor in that time checks once more.
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
            let in_flight = &mut self.in_flight;
            let (moved, covered) = (&mut self.moved_bytes, &mut self.covered_bytes);
            let check = &mut self.check;
            engine.drain(|slot, result| {
                let op = &in_flight.end(slot).op;
                *sum_of(op, moved, covered) += result.max(0) as u64;
                let succeeded = result == op.len_bytes as i32;
                if let Some(coverage) = &mut w.coverage
                    && succeeded
                {
                    cover(coverage, op);
                }
                if let Some(map) = &w.verify {
                    let _ = check.completed(map, op, succeeded, buffers, slot);
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

    pub(in crate::worker) fn report(
        self,
        mut w: Worker<S>,
        engine_error: Option<io::Error>,
    ) -> WorkerReport {
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
            first_corruption: self.check.first_corruption,
            verification: self.check.tally,
            coverage: w.coverage.take(),
            ended: self.ended,
            engine_error,
            hung: self.hung,
            left_in_flight,
            ..WorkerReport::default()
        }
    }
}
