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

/// State shared by all workers of a cell and their coordinator.
#[derive(Debug)]
pub(crate) struct Control {
    /// True once all workers must stop, because of a signal, too many errors, or the coordinator.
    pub(crate) stop: Arc<AtomicBool>,
    /// Start of the ramp, ns; 0 until it is known.
    pub(crate) start_ns: AtomicU64,
    /// Number of failed operations so far, over all workers and targets.
    pub(crate) errors: AtomicU64,
    /// Maximum number of failed operations. One more stops the run.
    pub(crate) errors_max: u64,
    /// True once an engine has failed as a whole, which stops all workers.
    pub(crate) failed: AtomicBool,
    /// Time of the last completion at a worker that had already ended, ns. The coordinator continues to wait
    /// while slow targets still complete operations.
    pub(crate) drained_ns: AtomicU64,
    /// Longest delay of a worker's start after the planned time, ns.
    pub(crate) start_late_ns: AtomicU64,
    /// Timeout for the final flush, ns; see [`crate::CellPlan::flush_ns`].
    pub(crate) flush_ns: u64,
    /// Number of workers now issuing their final operations: flushes, or reads of the blocks written.
    pub(crate) closing: AtomicU32,
    /// Bytes transferred by the workers in `closing` before their final operations.
    pub(crate) closing_bytes: AtomicU64,
    /// Time at which a worker in `closing` last completed an operation or began its final operations, ns.
    pub(crate) closing_since_ns: AtomicU64,
    /// Latest deadline of the workers in `closing`, ns. A worker that reaches its deadline is abandoned; each
    /// completion moves the deadline.
    pub(crate) closing_until_ns: AtomicU64,
    /// Wakes the workers that wait for the cell's start.
    started: (Mutex<()>, Condvar),
}

impl Control {
    /// Creates the shared state of a cell before its start.
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

    /// Sets the start time of the workers, ns, and wakes them.
    pub(crate) fn start(&self, start_ns: u64) {
        let _lock = self.started.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.start_ns.store(start_ns, Ordering::Release);
        self.started.1.notify_all();
    }

    /// Waits until the start time is set, and returns it, ns. `None` if the cell is stopped before.
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

/// Limits on a worker's duration, operations and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Duration of the ramp before the measured window, ns.
    pub(crate) ramp_ns: u64,
    /// Duration of the measured window, ns; `None` without a time limit.
    pub(crate) time_ns: Option<u64>,
    /// Limits on the operations or bytes that the worker measures.
    pub(crate) share: Share,
    /// Delay from the cell's start to this worker's start, ns.
    pub(crate) start_after_ns: u64,
}

/// Everything that a worker needs to run, except its engine.
#[derive(Debug)]
pub(crate) struct Worker<S> {
    /// State shared by all workers of the cell.
    pub(crate) control: Arc<Control>,
    pub(crate) limits: Limits,
    /// True once the worker must end before its limits; see `early_end`.
    pub(crate) is_over: Arc<AtomicBool>,
    pub(crate) clock: Clock,
    /// Source of the worker's operations and of their scheduled times.
    pub(crate) source: S,
    /// Generates the content of writes; `None` if no data is transferred (null engine).
    pub(crate) filler: Option<Filler>,
    /// Map of the target's verifiable content; `None` if content is not verified.
    pub(crate) verify: Option<Arc<VerifyMap>>,
    /// Map of blocks that the worker wrote or read; `None` unless the run must prove that it covered all.
    pub(crate) coverage: Option<Box<Coverage>>,
    pub(crate) recorder: Recorder,
    /// Maximum number of the worker's operations in flight.
    pub(crate) slots: u32,
    /// Maximum number of operations to submit together, with one timestamp. `None`: chosen from the rate of
    /// completions.
    pub(crate) submit_batch: Option<u32>,
}

/// A worker's final report. Its measured intervals are sent separately.
#[derive(Debug, Default)]
pub(crate) struct WorkerReport {
    /// Start and end of the measured window, ns.
    pub(crate) window: (u64, u64),
    /// User and system CPU time in the window, ns; `None` in virtual time.
    pub(crate) cpu_ns: Option<(u64, u64)>,
    /// The thread's context switches and page faults in the window; `None` in virtual time.
    pub(crate) scheduling: Option<Scheduling>,
    /// Time in the window during which the thread waited for a processor; `None` in virtual time and if unknown.
    pub(crate) run_delay: Option<RunDelay>,
    /// Bytes that reads and writes transferred from the start to the last completion.
    pub(crate) moved_bytes: u64,
    /// Integral of the number of operations in flight over the window.
    pub(crate) outstanding_area_ns: u128,
    /// Summed time that the operations in flight at the window's start had already taken, ns; see
    /// [`iodyno_measure::Resources`].
    pub(crate) carried_in_ns: i128,
    /// Summed time within the window of the operations that are in flight at its end, ns; see
    /// [`iodyno_measure::Resources`].
    pub(crate) carried_out_ns: i128,
    /// Uncertainty of the completions' timestamps.
    pub(crate) stamps: StampQuality,
    /// Time spent in each phase of an operation, sampled in some iterations of the engine's loop.
    pub(crate) spent: Vec<Spent>,
    /// Delays of submissions after their scheduled times; `None` in closed loop.
    pub(crate) lateness: Option<Histogram>,
    /// Number of operations due but not submitted at the end; 0 in closed loop.
    pub(crate) backlog_ops: u64,
    /// Number of operations replaced by others because their blocks were in use by operations in flight.
    pub(crate) overlaps_skipped: u64,
    /// Number of operations that used a random address because there was no recent address to repeat yet.
    pub(crate) recent_misses: u64,
    /// Final positions of the worker's sequential cursors, for workloads that continue in the next cell.
    pub(crate) walked: Vec<u64>,
    /// Description of the first corruption that verification found; `None` if it found none.
    pub(crate) first_corruption: Option<String>,
    /// Counts of verified content; `None` if content is not verified.
    pub(crate) verification: Option<Box<Verification>>,
    /// Map of blocks that the worker wrote or read; `None` unless the run must prove that it covered all.
    pub(crate) coverage: Option<Box<Coverage>>,
    /// True if the kernel granted MAP_SYNC; `None` if the engine maps nothing.
    pub(crate) map_sync: Option<bool>,
    /// Why the worker ended: a limit, a stop, the end of its source, or a failure.
    pub(crate) ended: Ended,
    /// Error that ended the engine; `None` if the engine did not fail.
    pub(crate) engine_error: Option<io::Error>,
    /// Operations that were in flight when the worker abandoned an unresponsive target; `None` if the target responded.
    pub(crate) hung: Option<Hung>,
    /// Number of operations that never completed. The engine may still use their buffers.
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
    /// Runs the worker: waits for the start, issues operations until a limit or a stop, drains those in flight,
    /// and reports.
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

/// Whether operations of this kind transfer their bytes. Trims and zeroes only name them.
#[inline]
pub(crate) const fn moves_data(kind: OpKind) -> bool {
    matches!(kind, OpKind::Read | OpKind::Write)
}

/// Adds the blocks of a completed read or write to the coverage map. Not inlined, since few cells need it.
#[inline(never)]
pub(crate) fn cover(coverage: &mut Coverage, op: &Op) {
    if moves_data(op.kind) {
        coverage.add(op.offset_bytes, op.len_bytes.into());
    }
}

/// Kind of failure and error number for the result of a failed completion.
#[cold]
pub(crate) fn failure_of(result: i32) -> (ErrorKind, i32) {
    if result >= 0 {
        return (ErrorKind::Short, 0);
    }
    let errno = -result;
    (ErrorKind::from_errno(errno), errno)
}

/// Counts a failed operation, and stops the run if there are too many.
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
