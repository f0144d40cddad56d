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

/// Maximum time that a worker sleeps without checking whether it must stop, ns.
const SLEEP_MAX_NS: u64 = 50_000_000;
/// Interval at which a worker that waits for the start checks whether the cell was stopped.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// State that all workers of a cell share.
#[derive(Debug)]
pub(crate) struct Control {
    /// Set by a signal, by too many errors, or by the coordinator.
    pub(crate) stop: Arc<AtomicBool>,
    /// Start of the ramp, ns; 0 until it is known.
    pub(crate) start_ns: AtomicU64,
    /// Number of failures so far, over all workers and targets.
    pub(crate) errors: AtomicU64,
    /// Maximum number of failures; one more stops the run.
    pub(crate) errors_max: u64,
    /// Whether some engine failed as a whole, which stops all workers.
    pub(crate) failed: AtomicBool,
    /// Time of the last completion after its worker's end, ns: the coordinator waits for targets that are slow to
    /// complete operations in flight.
    pub(crate) drained_ns: AtomicU64,
    /// Longest delay of a worker's start, ns.
    pub(crate) start_late_ns: AtomicU64,
    /// See [`crate::CellPlan::flush_ns`].
    pub(crate) flush_ns: u64,
    /// Number of workers that issue their final operations: flushes, or reads of the written blocks.
    pub(crate) closing: AtomicU32,
    /// Bytes that the workers counted in `closing` had moved before their final operations.
    pub(crate) closing_bytes: AtomicU64,
    /// Time at which a worker counted in `closing` last completed an operation, or began its final ones, ns.
    pub(crate) closing_since_ns: AtomicU64,
    /// Time at which the last worker counted in `closing` is given up if nothing completes until then, ns.
    pub(crate) closing_until_ns: AtomicU64,
    /// Wakes the workers that wait for the start.
    started: (Mutex<()>, Condvar),
}

impl Control {
    /// The state of a cell that has not begun.
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

    /// Sets the time at which the workers begin, ns, and wakes them.
    pub(crate) fn start(&self, start_ns: u64) {
        let _lock = self.started.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.start_ns.store(start_ns, Ordering::Release);
        self.started.1.notify_all();
    }

    /// Waits for the worker's start time, ns. None if the cell was stopped before.
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

/// The limits of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Duration of the ramp before the measured window, ns.
    pub(crate) ramp_ns: u64,
    /// Duration of the measured window, ns; None without a time limit.
    pub(crate) time_ns: Option<u64>,
    /// The worker's share of operations or bytes.
    pub(crate) share: Share,
    /// Delay from the cell's start to this worker's start, ns.
    pub(crate) start_after_ns: u64,
}

/// A worker's inputs, apart from its engine.
#[derive(Debug)]
pub(crate) struct Worker<S> {
    /// State shared with the other workers.
    pub(crate) control: Arc<Control>,
    /// The limits that end the worker.
    pub(crate) limits: Limits,
    /// Set when the worker must end before its limits: see `early_end`.
    pub(crate) is_over: Arc<AtomicBool>,
    /// The clock of all timestamps.
    pub(crate) clock: Clock,
    /// Source of operations and their times.
    pub(crate) source: S,
    /// Content of writes; None if no bytes move (null).
    pub(crate) filler: Option<Filler>,
    /// The map of verified content; None if the workload does not verify.
    pub(crate) verify: Option<Arc<VerifyMap>>,
    /// Blocks that the worker wrote or read; None unless coverage must be proven.
    pub(crate) coverage: Option<Box<Coverage>>,
    /// Counts the worker's completions.
    pub(crate) recorder: Recorder,
    /// Number of slots: the maximum number of operations in flight.
    pub(crate) slots: u32,
    /// Maximum number of operations that are submitted together, with one stamp; None: decided by the rate of
    /// completions.
    pub(crate) submit_batch: Option<u32>,
}

/// A worker's final report, in addition to its intervals.
#[derive(Debug, Default)]
pub(crate) struct WorkerReport {
    /// Start and end of the window, ns.
    pub(crate) window: (u64, u64),
    /// CPU time in the window, ns: user, system. None in virtual time.
    pub(crate) cpu_ns: Option<(u64, u64)>,
    /// The thread's context switches and page faults in the window. None in virtual time.
    pub(crate) scheduling: Option<Scheduling>,
    /// Time that the thread waited for a processor in the window. None in virtual time, and where unknown.
    pub(crate) run_delay: Option<RunDelay>,
    /// Bytes moved from the start to the last completion.
    pub(crate) moved_bytes: u64,
    /// Integral of operations in flight over the window.
    pub(crate) outstanding_area_ns: u128,
    /// Time before the window of operations carried into it; see [`iodyno_measure::Resources`].
    pub(crate) carried_in_ns: i128,
    /// Time within the window of operations carried out of it; see [`iodyno_measure::Resources`].
    pub(crate) carried_out_ns: i128,
    /// Resolution of the stamps.
    pub(crate) stamps: StampQuality,
    /// Phase times, from the stamps of some turns.
    pub(crate) spent: Vec<Spent>,
    /// Open loop: delays of submissions after the intended start.
    pub(crate) lateness: Option<Histogram>,
    /// Open loop: operations that were due but not submitted at the end.
    pub(crate) backlog_ops: u64,
    /// Operations that were replaced because their blocks were in flight.
    pub(crate) overlaps_skipped: u64,
    /// Draws of a recently used block before any had been used.
    pub(crate) recent_misses: u64,
    /// Positions of the worker's sequential cursors.
    pub(crate) walked: Vec<u64>,
    /// The first corruption that verification found.
    pub(crate) first_corruption: Option<String>,
    /// Verification counts; None if content is not verified.
    pub(crate) verification: Option<Box<Verification>>,
    /// Blocks that the worker wrote or read; None unless coverage must be proven.
    pub(crate) coverage: Option<Box<Coverage>>,
    /// Whether the kernel granted MAP_SYNC; None if the engine maps nothing.
    pub(crate) map_sync: Option<bool>,
    /// Why the worker ended.
    pub(crate) ended: Ended,
    /// The error if the engine itself failed.
    pub(crate) engine_error: Option<io::Error>,
    /// Operations in flight when the target was given up.
    pub(crate) hung: Option<Hung>,
    /// Number of operations that have not completed: the engine may hold their buffers.
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
        // SAFETY: sets only this thread's timer slack, so that sleeps end as close to their time as possible.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        self.recorder.follow_this_thread();
        let never = |ended| WorkerReport { cpu_ns: Some((0, 0)), ended, ..WorkerReport::default() };
        let Some(start_ns) = self.control.wait_for_start() else {
            return never(Ended::Interrupted);
        };
        let start_ns = start_ns + self.limits.start_after_ns;
        loop {
            // A worker that starts later than others may be ended before it has begun.
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
                // Sleep first, so that many workers don't occupy the processors until the start.
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
            // The operations in flight at the loss sufficed to stop the run.
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

/// Counts a completed read or write. Separate from the loop: few cells need it.
#[inline(never)]
pub(crate) fn cover(coverage: &mut Coverage, op: &Op) {
    if matches!(op.kind, OpKind::Read | OpKind::Write) {
        coverage.add(op.offset_bytes, op.len_bytes.into());
    }
}

/// The kind of failure, and the error number, that a completion's result represents.
#[cold]
pub(crate) fn failure_of(result: i32) -> (ErrorKind, i32) {
    if result >= 0 {
        return (ErrorKind::Short, 0);
    }
    let errno = -result;
    (ErrorKind::from_errno(errno), errno)
}

/// Counts a failure, and stops the run if there are too many.
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
