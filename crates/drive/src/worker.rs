//! One worker: its input, its start and end, and its report. It allocates everything before it
//! starts; its loop is in `worker/worker_loop.rs`.

mod batch_size;
#[cfg(test)]
mod batch_size_tests;
mod worker_loop;

use crate::clock::Clock;
use crate::engine::Engine;
use crate::in_flight::Share;
use crate::memory::Buffers;
use crate::recorder::Recorder;
use crate::verify::VerifyMap;
use batch_size::BatchSize;
use iodyno_measure::{
    Coverage, Ended, ErrorKind, Histogram, Hung, RunDelay, Scheduling, Spent, StampQuality,
    Verification,
};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Filler, Source};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use worker_loop::WorkerLoop;

/// A sleeping worker checks this often whether it must stop.
const SLEEP_MAX_NS: u64 = 50_000_000;
/// A worker that waits for the start checks this often whether the cell was stopped.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// State that all workers of a cell share.
#[derive(Debug)]
pub(crate) struct Control {
    /// Set by a signal, by too many errors, or by the coordinator.
    pub(crate) stop: Arc<AtomicBool>,
    /// When the ramp begins, ns; 0 until it is known.
    pub(crate) start_ns: AtomicU64,
    /// Failures so far, over all workers and targets.
    pub(crate) errors: AtomicU64,
    /// The run stops at this many.
    pub(crate) errors_max: u64,
    /// Some engine failed as a whole: the others stop too.
    pub(crate) failed: AtomicBool,
    /// When an operation last completed after its worker's end, ns: the coordinator waits for
    /// targets that are slow to complete what is in flight.
    pub(crate) drained_ns: AtomicU64,
    /// The longest time between the start and a worker's, ns.
    pub(crate) start_late_ns: AtomicU64,
    /// See [`crate::CellPlan::flush_ns`].
    pub(crate) flush_ns: u64,
    /// Workers that flush behind their last operation.
    pub(crate) closing: AtomicU32,
    /// Bytes that workers had moved when they began to.
    pub(crate) closing_bytes: AtomicU64,
    /// When one of those last had something completed, or began, ns.
    pub(crate) closing_since_ns: AtomicU64,
    /// When the last of them is given up, ns, if nothing completes until then.
    pub(crate) closing_until_ns: AtomicU64,
    /// Wakes the workers that wait for the start.
    started: (Mutex<()>, Condvar),
}

impl Control {
    /// Of a cell that has not begun.
    pub(crate) fn new(stop: Arc<AtomicBool>, errors_max: u64, flush_ns: u64) -> Self {
        Self {
            stop,
            start_ns: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            errors_max,
            failed: AtomicBool::new(false),
            drained_ns: AtomicU64::new(0),
            start_late_ns: AtomicU64::new(0),
            flush_ns,
            closing: AtomicU32::new(0),
            closing_bytes: AtomicU64::new(0),
            closing_since_ns: AtomicU64::new(0),
            closing_until_ns: AtomicU64::new(0),
            started: (Mutex::default(), Condvar::new()),
        }
    }

    /// The workers begin at this time, ns.
    pub(crate) fn start(&self, start_ns: u64) {
        let _lock = self.started.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.start_ns.store(start_ns, Ordering::Release);
        self.started.1.notify_all();
    }

    /// When the worker begins, ns, once that is known; None: the cell was stopped before.
    fn wait_for_start(&self) -> Option<u64> {
        let mut lock = self.started.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            match self.start_ns.load(Ordering::Acquire) {
                0 => {
                    let wait = self.started.1.wait_timeout(lock, STOP_CHECK);
                    lock = wait.unwrap_or_else(PoisonError::into_inner).0;
                }
                start_ns => return Some(start_ns),
            }
        }
    }
}

/// When a worker ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Before the measured window, ns.
    pub(crate) ramp_ns: u64,
    /// The measured window, ns.
    pub(crate) time_ns: Option<u64>,
    /// This worker's share.
    pub(crate) share: Share,
    /// Between the cell's start and this worker's, ns.
    pub(crate) start_after_ns: u64,
}

/// All inputs of a worker except its engine.
#[derive(Debug)]
pub(crate) struct Worker<S> {
    /// Shared with the others.
    pub(crate) control: Arc<Control>,
    /// When it ends.
    pub(crate) limits: Limits,
    /// Set when it is to end before: see `early_end`.
    pub(crate) is_over: Arc<AtomicBool>,
    /// The stamps' clock.
    pub(crate) clock: Clock,
    /// Operations to issue, and their times.
    pub(crate) source: S,
    /// Content of writes; None where no bytes move (null).
    pub(crate) filler: Option<Filler>,
    /// Verified content, where the workload has it.
    pub(crate) verify: Option<Arc<VerifyMap>>,
    /// Blocks that it wrote or read, where coverage must be proven.
    pub(crate) coverage: Option<Box<Coverage>>,
    /// Counts its completions.
    pub(crate) recorder: Recorder,
    /// Slots: the most operations in flight.
    pub(crate) slots: u32,
    /// The most operations that are submitted together, with one stamp; None where the rate of completions decides.
    pub(crate) submit_batch: Option<u32>,
}

/// A worker's report at its end, beside its intervals.
#[derive(Debug, Default)]
pub(crate) struct WorkerReport {
    /// When the window began and ended, ns.
    pub(crate) window: (u64, u64),
    /// CPU time in the window, ns: user, system. None in virtual time.
    pub(crate) cpu_ns: Option<(u64, u64)>,
    /// What the kernel counted of its thread in the window. None in virtual time.
    pub(crate) scheduling: Option<Scheduling>,
    /// How long it waited for a processor in the window. None in virtual time, and where that is not known.
    pub(crate) run_delay: Option<RunDelay>,
    /// Bytes moved from the start to the last completion.
    pub(crate) moved_bytes: u64,
    /// Operations in flight, integrated over the window.
    pub(crate) outstanding_area_ns: u128,
    /// See [`iodyno_measure::Resources`].
    pub(crate) carried_in_ns: i128,
    /// See [`iodyno_measure::Resources`].
    pub(crate) carried_out_ns: i128,
    /// Resolution of the stamps.
    pub(crate) stamps: StampQuality,
    /// Phase times, by the stamps of some turns.
    pub(crate) spent: Vec<Spent>,
    /// Open loop.
    pub(crate) lateness: Option<Histogram>,
    /// Open loop: due and not submitted at the end.
    pub(crate) backlog_ops: u64,
    /// Operations replaced since their block was in flight.
    pub(crate) overlaps_skipped: u64,
    /// Draws of a recently used block before there was one.
    pub(crate) recent_misses: u64,
    /// Positions of its sequential cursors.
    pub(crate) walked: Vec<u64>,
    /// The first corruption that verification found.
    pub(crate) first_corruption: Option<String>,
    /// Findings of verification, where content is verified.
    pub(crate) verification: Option<Box<Verification>>,
    /// Blocks that it wrote, where coverage must be proven.
    pub(crate) coverage: Option<Box<Coverage>>,
    /// See [`iodyno_measure::Evidence`].
    pub(crate) map_sync: Option<bool>,
    /// Why it ended.
    pub(crate) ended: Ended,
    /// The engine itself failed.
    pub(crate) engine_error: Option<io::Error>,
    /// Operations in flight when the target was given up.
    pub(crate) hung: Option<Hung>,
    /// Operations that have not completed: the engine may hold their buffers.
    pub(crate) left_in_flight: usize,
}

fn sleep_ns(ns: u64) {
    let ns = ns.min(SLEEP_MAX_NS);
    let t = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: a valid timespec; the remainder is not needed.
    unsafe { libc::nanosleep(&raw const t, std::ptr::null_mut()) };
}

impl<S: Source> Worker<S> {
    /// Waits for the start, works until a limit or the stop, drains, and reports.
    pub(crate) fn run<E: Engine>(
        mut self,
        engine: &mut E,
        buffers: Option<&Buffers>,
    ) -> WorkerReport {
        // SAFETY: sets this thread's timer slack only: sleeps end as close to their time as possible.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        self.recorder.follow_this_thread();
        let never = |ended| WorkerReport { cpu_ns: Some((0, 0)), ended, ..WorkerReport::default() };
        let Some(start_ns) = self.control.wait_for_start() else {
            return never(Ended::Interrupted);
        };
        let start_ns = start_ns + self.limits.start_after_ns;
        loop {
            // A worker that starts after others may be ended before it has begun.
            if self.limits.start_after_ns > 0 {
                if self.control.stop.load(Ordering::Relaxed) {
                    return never(Ended::Interrupted);
                }
                if self.is_over.load(Ordering::Relaxed) {
                    return never(Ended::Settled);
                }
            }
            match start_ns.saturating_sub(self.clock.now_ns()) {
                0 => break,
                // Many workers do not occupy the processors until then.
                left_ns @ 200_000.. => sleep_ns(left_ns - 100_000),
                _ => std::hint::spin_loop(),
            }
        }
        let late_ns = self.clock.now_ns().saturating_sub(start_ns);
        self.control.start_late_ns.fetch_max(late_ns, Ordering::Relaxed);
        self.source.start(start_ns);
        let batch_size =
            BatchSize::new(self.slots, engine.batch_max(), self.submit_batch, start_ns);
        let mut state = WorkerLoop::new(self.slots, batch_size, start_ns, &self.limits);
        let mut engine_error = state.work(&mut self, engine, buffers).err();
        if state.ended == Ended::Errors && engine_error.is_none() {
            // The operations in flight at the loss were enough to stop the run.
            engine_error = engine.lost();
        }
        if engine_error.is_some() {
            state.ended = Ended::Errors;
            self.control.failed.store(true, Ordering::Relaxed);
            self.control.stop.store(true, Ordering::Relaxed);
        }
        state.report(self, engine_error)
    }
}

/// Counts a read or write that completed. Apart from the loop: nearly every cell has no use for it.
#[inline(never)]
pub(crate) fn cover(coverage: &mut Coverage, op: &Op) {
    if matches!(op.kind, OpKind::Read | OpKind::Write) {
        coverage.add(op.offset_bytes, op.len_bytes.into());
    }
}

/// The kind of failure that a completion's result stands for.
#[cold]
pub(crate) fn failure_of(result: i32) -> (ErrorKind, i32) {
    if result >= 0 {
        return (ErrorKind::Short, 0);
    }
    let errno = -result;
    (ErrorKind::from_errno(errno), errno)
}

/// Counts a failure, and stops the run when there are too many.
#[cold]
pub(crate) fn note_failure(
    control: &Control,
    recorder: &mut Recorder,
    op: &Op,
    kind: ErrorKind,
    errno: i32,
    now_ns: u64,
) {
    recorder.failed(op, kind, errno, now_ns);
    if control.errors.fetch_add(1, Ordering::Relaxed) + 1 > control.errors_max {
        control.stop.store(true, Ordering::Relaxed);
    }
}
