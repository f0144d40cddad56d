//! Who has the turn: the loop over completions and due times of all workers of a cell.
//!
//! **Invariant:** between two looks at the outside (every thousand turns) it touches nothing but
//! the machine, the workers and the recorders; it does not allocate, lock or format.

use super::done;
use super::dues::{Dues, NEVER};
use super::worker::Worker;
use crate::cell::{Gathering, TICK};
use crate::plan::CellPlan;
use crate::recorder::{IntervalMessage, Recorder, Run};
use crate::team::Done;
use crate::worker::{Control, failure_of, note_failure};
use iodyno_emulate::machine::Failure;
use iodyno_emulate::{Completion, Machine};
use iodyno_measure::Ended;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

/// Turns between two looks at the stop flag and at the clock of those who watch.
const TURNS_A_LOOK: u32 = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    plan: &'a CellPlan<'a>,
    stop: &'a AtomicBool,
    machine: Machine,
    workers: Vec<Worker>,
    /// One for each target.
    recorders: Vec<Recorder>,
    dues: Dues,
    /// Counts failures as the threads of real targets do; its stop flag is this cell's own.
    control: Control,
    working: usize,
    now_ns: u64,
    start_ns: u64,
    window_start_ns: u64,
    /// The last instant at which something may happen: nothing that completes later is counted.
    last_ns: u64,
    measuring: bool,
    completions: u64,
    look_after: u32,
    ticked_ns: u64,
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        plan: &'a CellPlan<'a>,
        stop: &'a AtomicBool,
        machine: Machine,
        workers: Vec<Worker>,
        recorders: Vec<Recorder>,
    ) -> Self {
        let limits = plan.spec.limits();
        let start_ns = machine.now_ns();
        let window_start_ns = start_ns + limits.ramp_ns;
        Self {
            plan,
            stop,
            machine,
            dues: Dues::new(workers.len()),
            control: Control {
                stop: Arc::new(AtomicBool::new(false)),
                start_ns: AtomicU64::new(start_ns),
                errors: AtomicU64::new(0),
                errors_max: plan.errors_max,
            },
            working: workers.len(),
            workers,
            recorders,
            now_ns: start_ns,
            start_ns,
            window_start_ns,
            last_ns: limits.time_ns.map_or(u64::MAX, |t| window_start_ns + t - 1),
            measuring: false,
            completions: 0,
            look_after: 0,
            ticked_ns: plan.clock.now_ns(),
        }
    }

    /// Works until a limit or the stop.
    ///
    /// # Errors
    /// When operations are in flight, nobody is due, and nothing will ever complete.
    pub(super) fn take(
        &mut self,
        intervals: &Receiver<IntervalMessage>,
        gathering: &mut Gathering<'_>,
    ) -> io::Result<()> {
        self.pass(self.now_ns);
        for index in 0..self.workers.len() {
            self.workers[index].issuer.start(self.start_ns);
            self.go_on(index);
        }
        while self.working > 0 {
            if self.look_after == 0 {
                self.look_after = TURNS_A_LOOK;
                if let Some(why) = self.look(intervals, gathering) {
                    self.end_all(self.now_ns, why);
                    return Ok(());
                }
            }
            self.look_after -= 1;
            let (due_ns, due) = self.dues.first();
            let until_ns = due_ns.min(self.last_ns);
            if let Some(completion) = self.machine.next_completion(until_ns) {
                self.pass(completion.at_ns);
                self.completed(&completion);
            } else if due_ns <= self.last_ns && due_ns != NEVER {
                self.pass(due_ns);
                self.go_on(due);
            } else if self.last_ns == u64::MAX {
                return Err(io::Error::other(
                    "the emulated system stands still with operations in flight: this is a fault of iodyno, please report it",
                ));
            } else {
                self.pass(self.last_ns);
                self.end_all(self.last_ns + 1, Ended::Time);
            }
        }
        Ok(())
    }

    /// Time passes; the window may begin.
    #[inline]
    fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if !self.measuring && now_ns >= self.window_start_ns {
            self.begin_window();
        }
    }

    #[cold]
    fn begin_window(&mut self) {
        self.measuring = true;
        for recorder in &mut self.recorders {
            recorder.start_window(self.window_start_ns);
        }
        for worker in self.workers.iter_mut().filter(|w| w.ended.is_none()) {
            worker.begin_window(self.window_start_ns);
        }
    }

    /// A worker has the turn: it ends, or issues what is due.
    #[inline]
    fn go_on(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let due_ns = if let Some(why) = worker.share_done() {
            worker.end(self.now_ns, why);
            self.working -= 1;
            NEVER
        } else {
            worker.issue(&mut self.machine, self.now_ns)
        };
        self.dues.set(index, due_ns);
    }

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        let index = (completion.token >> 32) as usize;
        let worker = &mut self.workers[index];
        if worker.ended.is_some() {
            // Nobody's: its worker was done when it came.
            return;
        }
        self.completions += 1;
        let slot = worker.take(completion.token as u32, self.now_ns);
        let len_bytes = slot.op.len_bytes;
        if completion.failure.is_some() {
            self.failed(completion, index, slot.op);
        } else {
            worker.succeeded(len_bytes, self.measuring);
            if self.measuring {
                let run = Run {
                    kind: slot.op.kind,
                    ops: 1,
                    bytes: u64::from(len_bytes),
                    submitted_ns: slot.submitted_ns,
                    intended_ns: slot.intended_ns.min(slot.submitted_ns),
                };
                self.recorders[worker.target].completed(&run, self.now_ns);
            }
        }
        self.go_on(index);
    }

    #[cold]
    fn failed(&mut self, completion: &Completion, index: usize, op: iodyno_units::Op) {
        let errno = match completion.failure {
            Some(Failure::OutOfRange) => libc::EINVAL,
            Some(Failure::Lost) => libc::ENODEV,
            Some(Failure::Medium) | None => libc::EIO,
        };
        let (kind, errno) = failure_of(-errno);
        let worker = &mut self.workers[index];
        worker.failed(self.measuring);
        let recorder = &mut self.recorders[worker.target];
        note_failure(&self.control, recorder, &op, kind, errno, self.now_ns);
        // Too many end the cell at once.
        self.look_after = 0;
    }

    /// Tells those who watch how far the cell is, and hears whether it shall stop.
    #[cold]
    fn look(
        &mut self,
        intervals: &Receiver<IntervalMessage>,
        gathering: &mut Gathering<'_>,
    ) -> Option<Ended> {
        if self.control.stop.load(Ordering::Relaxed) {
            return Some(Ended::Errors);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Some(Ended::Interrupted);
        }
        let real_ns = self.plan.clock.now_ns();
        if real_ns.saturating_sub(self.ticked_ns) >= TICK.as_nanos() as u64 {
            self.ticked_ns = real_ns;
            gathering.take_all(intervals);
            let errors = self.control.errors.load(Ordering::Relaxed);
            gathering.tick(self.plan, self.now_ns - self.start_ns, errors);
        }
        None
    }

    #[cold]
    fn end_all(&mut self, end_ns: u64, why: Ended) {
        for worker in self.workers.iter_mut().filter(|w| w.ended.is_none()) {
            worker.end(end_ns, why);
        }
        self.working = 0;
        self.now_ns = end_ns;
    }

    /// Hands the last intervals over.
    pub(super) fn close(&mut self) {
        for recorder in &mut self.recorders {
            if recorder.measuring() || recorder.failed_in_ramp() {
                recorder.roll(self.now_ns.max(self.window_start_ns));
            }
        }
    }

    /// The machine, what each worker tells, and how many operations completed.
    pub(super) fn into_parts(mut self) -> (Machine, Vec<Done>, u64) {
        let mut all = Vec::with_capacity(self.workers.len());
        for worker in &mut self.workers {
            all.push(done(worker.target, worker.report(self.window_start_ns)));
        }
        for (target, recorder) in self.recorders.iter_mut().enumerate() {
            // What the workers of a target share, one of them tells.
            if let Some(first) = all.iter_mut().find(|d| d.target == target) {
                first.report.lateness = recorder.lateness.take().map(|h| *h);
            }
        }
        (self.machine, all, self.completions)
    }
}
