//! The event loop in virtual time: processes the next completion or the next due time of all workers of a cell,
//! whichever is earlier.
//!
//! **Invariant:** between two checks for a stop or for a due progress report (every thousand events), the loop touches
//! only the machine, the workers and the recorders; it does not allocate, lock or format.

mod windows;

use super::done;
use super::due_queue::{DueQueue, NEVER};
use super::fork::{Begun, Forking};
use super::settle::{Settled, Settling};
use super::warm_up::{Fill, Levels, WarmUp, Warmed};
use super::worker::Worker;
use crate::early_end::EarlyEnd;
use crate::gather::{Gathering, TICK};
use crate::plan::CellPlan;
use crate::recorder::{IntervalMessage, Recorder, Run};
use crate::worker::{Control, failure_of, note_failure};
use crate::worker_threads::Done;
use iodyno_emulate::usage::Snapshot;
use iodyno_emulate::{Completion, Machine};
use iodyno_measure::Ended;
use iodyno_units::{IoError, Op};
use iodyno_workload::{Outcome, Source};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Number of simulated events between two checks. A check reads the stop flag, and reports progress if it is due.
const EVENTS_PER_CHECK: u32 = 1024;

/// Activity of the emulated machine's components during a cell.
pub(super) struct Used {
    /// Activity of the components during the measured window.
    pub(super) window: Snapshot,
    /// Activity in each interval of the measured window. Recorded only for message logs, otherwise empty.
    pub(super) by_interval: Vec<Snapshot>,
    /// For every buffer or cache of the machine: its fill level at the start and at the end of the window, and whether
    /// the level only rose or only fell in between.
    pub(super) stores: Vec<Fill>,
}

/// Simulates one cell by processing its events in order of time.
#[derive(Debug)]
pub(super) struct EventLoop<'a, S: Source> {
    plan: &'a CellPlan,
    stop: &'a AtomicBool,
    machine: &'a mut Machine,
    workers: Vec<Worker<S>>,
    /// Recorders of results, one per target.
    recorders: Vec<Recorder>,
    due_queue: DueQueue,
    /// When and how to clone the machine and the workers of a pilot cell; `None` for other cells.
    pub(super) forking: Option<Forking<S>>,
    /// True if the workers already began in a pilot run, from which this loop continues.
    has_begun: bool,
    /// Counts failed operations, and stops this cell, and no other, if there are too many.
    control: Control,
    working: usize,
    now_ns: u64,
    start_ns: u64,
    /// Next time at which the measured window of some workload starts, ns; [`NEVER`] once all have started.
    next_window_ns: u64,
    early_end: EarlyEnd,
    /// Time of the last event to process, ns. Later completions are not counted.
    last_ns: u64,
    /// Time up to which events may be processed before the loop must decide how to continue, ns: the end of the
    /// cell or of a batch.
    bound_ns: u64,
    /// The warm-up in progress, during which the times of windows are not yet known; `None` afterwards.
    warm_up: Option<WarmUp>,
    pub(super) warmed: Option<Warmed>,
    /// Fill levels of the machine's buffers and caches in the measured window.
    levels: Levels,
    settling: Option<Settling>,
    /// Precision reached by a cell that ended early because its result had settled; `None` for other cells.
    pub(super) settled: Option<Settled>,
    measuring: bool,
    /// Counters of the machine's components at the start of the measured window.
    before: Snapshot,
    /// Counters at the start of each interval of a message log's window, which show what delayed its messages.
    by_interval: Vec<Snapshot>,
    /// Time at which the next entry of `by_interval` is recorded, ns; [`NEVER`] if there is none.
    next_interval_ns: u64,
    completions: u64,
    check_after: u32,
    ticked_ns: u64,
}

impl<'a, S: Source> EventLoop<'a, S> {
    pub(super) fn new(
        plan: &'a CellPlan,
        stop: &'a AtomicBool,
        machine: &'a mut Machine,
        start_ns: u64,
        workers: Vec<Worker<S>>,
        recorders: Vec<Recorder>,
    ) -> Self {
        let warm_up = WarmUp::of(plan, machine, start_ns);
        let mut events = Self {
            plan,
            stop,
            machine,
            due_queue: DueQueue::new(workers.len()),
            forking: None,
            has_begun: false,
            control: Control::new(Arc::default(), plan.cell.errors_max, plan.flush_ns),
            working: workers.len(),
            workers,
            recorders,
            now_ns: start_ns,
            start_ns,
            next_window_ns: NEVER,
            early_end: EarlyEnd::new(plan),
            last_ns: u64::MAX,
            bound_ns: warm_up.as_ref().map_or(u64::MAX, |warm_up| warm_up.check_ns - 1),
            warm_up,
            warmed: None,
            levels: Levels::default(),
            settling: None,
            settled: None,
            measuring: false,
            before: Snapshot::default(),
            by_interval: Vec::new(),
            next_interval_ns: NEVER,
            completions: 0,
            check_after: 0,
            ticked_ns: plan.clock.now_ns(),
        };
        if events.warm_up.is_none() {
            events.set_windows();
        } else if let Some(trace) = &plan.events {
            trace.hold();
        }
        events
    }

    /// Continues from a pilot run whose workers have begun but whose measured window has not.
    pub(super) fn resume(&mut self, begun: Begun) {
        self.has_begun = true;
        self.due_queue = begun.due_queue;
        (self.now_ns, self.completions) = (begun.now_ns, begun.completions);
    }

    /// Sets when and how to clone the machine and the workers of this loop; `None`: never.
    pub(super) fn forks(&mut self, forking: Option<Forking<S>>) {
        if let Some(forking) = &forking {
            self.bound_ns = self.bound_ns.min(forking.before_ns - 1);
        }
        self.forking = forking;
    }

    /// Runs the cell until a limit is reached or the cell is stopped.
    ///
    /// # Errors
    /// Deadlock: operations are in flight, but nothing can complete and no worker is due.
    pub(super) fn run(
        &mut self,
        intervals: &Receiver<IntervalMessage>,
        gathering: &mut Gathering<'_>,
    ) -> io::Result<()> {
        self.pass(self.now_ns);
        if self.warm_up.is_none() {
            self.start_later_workers();
        }
        for index in 0..self.workers.len() {
            let target = self.workers[index].target;
            if !self.has_begun && self.plan.cell_on(target).spec.limits().start_after_ns == 0 {
                self.workers[index].source.start(self.start_ns);
                self.go_on(index);
            }
        }
        while self.working > 0 {
            if self.check_after == 0 {
                self.check_after = EVENTS_PER_CHECK;
                if let Some(why) = self.check(intervals, gathering) {
                    self.give_up_warm_up();
                    self.end_all(self.now_ns, why);
                    return Ok(());
                }
            }
            self.check_after -= 1;
            let (due_ns, due) = self.due_queue.first();
            let until_ns = due_ns.min(self.bound_ns);
            if let Some(completion) = self.machine.next_completion(until_ns) {
                self.pass(completion.at_ns);
                self.completed(&completion);
            } else if due_ns <= self.bound_ns && due_ns != NEVER {
                self.pass(due_ns);
                self.go_on(due);
            } else if self.bound_ns < self.last_ns
                && (due_ns != NEVER
                    || self.warm_up.is_some()
                    || self.machine.next_event().is_some())
            {
                self.end_batch();
            } else if self.last_ns == u64::MAX {
                return Err(io::Error::other(
                    "the emulated system made no progress although operations are in flight: this is a bug in iodyno, please report it",
                ));
            } else {
                self.pass(self.last_ns);
                self.end_all(self.last_ns + 1, Ended::Time);
            }
        }
        Ok(())
    }

    /// Advances virtual time to `now_ns`, and begins the measured windows that are due.
    #[inline]
    fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if now_ns >= self.next_window_ns {
            self.begin_windows();
        }
    }

    /// Lets a worker issue the operations that are due, or ends the worker if it is complete.
    #[inline]
    fn go_on(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let mut due_ns = NEVER;
        let mut why = worker.is_complete();
        if self.now_ns >= worker.until_ns {
            why = Some(Ended::Time);
        }
        if why.is_some_and(|why| worker.closes(self.now_ns, why)) {
            why = None;
        }
        if why.is_none() {
            due_ns = worker.issue(self.machine, self.now_ns);
            why = worker.is_source_at_end().then_some(Ended::Ops);
        }
        self.due_queue.set(index, due_ns);
        if let Some(why) = why {
            self.end(index, why);
        }
    }

    /// Ends a worker. If it is the last of its workload, other workloads may end with it.
    #[cold]
    fn end(&mut self, index: usize, why: Ended) {
        let target = self.workers[index].target;
        self.workers[index].end(self.now_ns, why);
        self.working -= 1;
        if self.early_end.worker_ended(target, &self.plan.cell_on(target).name) {
            self.end_workloads(|of| of != target);
        }
    }

    /// Ends all workers of the targets that `is_over` selects.
    #[cold]
    fn end_workloads(&mut self, is_over: impl Fn(usize) -> bool) {
        for (index, worker) in self.workers.iter_mut().enumerate() {
            if worker.ended.is_none() && is_over(worker.target) {
                worker.end(self.now_ns, Ended::Settled);
                self.due_queue.set(index, NEVER);
                self.working -= 1;
            }
        }
    }

    /// Makes all workers due now, so that those waiting for other workers' completions query their sources again.
    /// They do so in the order of their numbers.
    fn requery_sources(&mut self) {
        for (index, worker) in self.workers.iter().enumerate() {
            if worker.ended.is_none() {
                self.due_queue.set(index, self.now_ns);
            }
        }
    }

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        let index = (completion.token >> 32) as usize;
        let worker = &mut self.workers[index];
        if worker.ended.is_some() {
            // Not counted, since its worker has ended.
            return;
        }
        if self.now_ns >= worker.until_ns && !worker.closes(self.now_ns, Ended::Time) {
            self.due_queue.set(index, NEVER);
            self.end(index, Ended::Time);
            return;
        }
        self.completions += 1;
        let outcome =
            if completion.failure.is_none() { Outcome::Succeeded } else { Outcome::Failed };
        let slot = worker.take(completion.token as u32, outcome, self.now_ns);
        let len_bytes = slot.op.len_bytes;
        if let Some(failure) = completion.failure {
            self.failed(failure, index, slot.op);
        } else {
            worker.succeeded(&slot.op);
            if worker.measured {
                let run = Run {
                    kind: slot.op.kind,
                    ops: 1,
                    bytes: u64::from(len_bytes),
                    submitted_ns: slot.submitted_ns,
                    intended_ns: slot.intended_ns.min(slot.submitted_ns),
                };
                if let Some(settling) = &mut self.settling {
                    settling.completed(self.now_ns.saturating_sub(run.submitted_ns));
                }
                self.recorders[worker.target].completed(&run, self.now_ns);
                if let Some(forking) = &mut self.forking
                    && forking.is_due_after(worker)
                {
                    self.check_after = 0;
                }
            }
        }
        self.go_on(index);
        if S::WAITS_FOR_OTHERS {
            self.requery_sources();
        }
    }

    #[cold]
    fn failed(&mut self, failure: IoError, index: usize, op: Op) {
        let (kind, errno) = failure_of(-failure.errno());
        let worker = &mut self.workers[index];
        worker.failed();
        let recorder = &mut self.recorders[worker.target];
        note_failure(&self.control, recorder, &op, kind, errno, self.now_ns);
        // Too many failures end the cell immediately.
        self.check_after = 0;
    }

    /// Reports progress to the observer, and checks whether the cell must stop.
    #[cold]
    fn check(
        &mut self,
        intervals: &Receiver<IntervalMessage>,
        gathering: &mut Gathering<'_>,
    ) -> Option<Ended> {
        if self.forking.as_ref().is_some_and(Forking::is_due) {
            self.fork();
        }
        if self.control.stop.load(Ordering::Relaxed) {
            return Some(Ended::Errors);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Some(Ended::Interrupted);
        }
        if self.measuring {
            self.levels.look(self.machine);
        }
        if self.early_end.watches() {
            gathering.take_all(intervals);
            let ended = self.early_end.judge(gathering.cells(), self.now_ns - self.start_ns);
            if !ended.is_empty() {
                self.end_workloads(|target| ended.contains(&target));
            }
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

    /// Sends the workers' last measured intervals to the coordinator.
    pub(super) fn close(&mut self) {
        let mut until_ns = vec![0; self.recorders.len()];
        for worker in &self.workers {
            let end_ns = worker.ended.map_or(self.now_ns, |(end_ns, _)| end_ns);
            let until_ns = &mut until_ns[worker.target];
            *until_ns = end_ns.max(worker.window_start_ns).max(*until_ns);
        }
        for (recorder, until_ns) in self.recorders.iter_mut().zip(until_ns) {
            if recorder.measuring() || recorder.failed_in_ramp() {
                recorder.roll(until_ns);
            }
        }
    }

    /// Number of operations in flight at the cell's end, and the time of the end, ns.
    pub(super) fn left(&self) -> (u64, u64) {
        let in_flight = |worker: &Worker<S>| worker.in_flight().count() as u64;
        (self.workers.iter().map(in_flight).sum(), self.now_ns)
    }

    /// Returns the activity of the machine's components, each worker's report, the number of completed
    /// operations, and which workloads ended early.
    pub(super) fn into_parts(mut self) -> (Used, Vec<Done>, u64, EarlyEnd) {
        let after = self.machine.snapshot();
        if self.measuring {
            self.levels.take(self.machine);
        }
        let window = after.since(if self.measuring { &self.before } else { &after });
        let mut by_interval = std::mem::take(&mut self.by_interval);
        by_interval.push(after);
        let by_interval = by_interval.windows(2).map(|two| two[1].since(&two[0])).collect();
        let usage = Used { window, by_interval, stores: self.levels.of_window() };
        let mut all = Vec::with_capacity(self.workers.len());
        let mut number = 0;
        for worker in &mut self.workers {
            // The workers of a target are adjacent.
            let follows = all.last().is_some_and(|d: &Done| d.target == worker.target);
            number = if follows { number + 1 } else { 0 };
            all.push(done(worker.target, number, worker.report()));
        }
        for (target, recorder) in self.recorders.iter_mut().enumerate() {
            // The first worker of a target reports the figures that all of them share.
            if let Some(first) = all.iter_mut().find(|d| d.target == target) {
                first.report.lateness = recorder.lateness.take().map(|h| *h);
            }
        }
        (usage, all, self.completions, self.early_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::limits;
    use crate::model::test_system::{plan, system};
    use crate::model::worker::At;
    use iodyno_measure::ErrorKind;
    use iodyno_units::OpKind;
    use iodyno_workload::{Geometry, Shared, Spec, Stream, WorkerIndex, WorkloadSource};
    use std::sync::mpsc::channel;

    /// Completions are replaced by failures in this test.
    #[test]
    fn failures_are_counted_by_kind_and_too_many_end_the_cell() {
        let spec = "schema = 1\ndepth = 4\n[mix]\nread = 1\n[limits]\nramp = \"0s\"";
        let spec = Spec::from_toml(spec).unwrap();
        let plan = plan(&spec, 1_000_000_000, 2);
        let geometry = Geometry { capacity_bytes: 1 << 20, align_bytes: 512, workers: 1 };
        let shared = Shared::new(&spec, 1, &geometry).unwrap();
        let stream = Stream::new(&shared, 0);
        let source = WorkloadSource::new(&spec, 1, WorkerIndex::ALONE, 4, stream);
        let mut machine = Machine::new(&system(), 1).unwrap();
        let worker = Worker::new(
            0,
            At { machine_number: machine.add_worker(0), ..At::default() },
            source,
            4,
            limits(&plan.cell, &shared, 0).share,
            None,
        );
        let (sender, intervals) = channel();
        let recorder = Recorder::new(0, false, plan.cell.interval_ns(), sender);
        let stop = AtomicBool::new(false);
        let mut events =
            EventLoop::new(&plan, &stop, &mut machine, 0, vec![worker], vec![recorder]);
        events.pass(0);
        events.go_on(0);
        let (mut cells, mut observer) = (Vec::new(), crate::Unobserved);
        let mut gathering = Gathering::new(&mut cells, &mut observer);
        let failures = [None, Some(IoError::Io), Some(IoError::OutOfRange), Some(IoError::Gone)];
        for (i, failure) in failures.into_iter().enumerate() {
            events.check_after = 1;
            assert_eq!(events.check(&intervals, &mut gathering), None);
            let at_ns = 1000 * (i as u64 + 1);
            events.pass(at_ns);
            events.completed(&Completion { at_ns, token: 0, volume: 0, worker: 0, failure });
            assert_eq!(events.check_after == 0, failure.is_some(), "a failure is checked at once");
        }
        assert_eq!(events.check(&intervals, &mut gathering), Some(Ended::Errors));
        assert!(!stop.load(Ordering::Relaxed), "other cells continue");
        events.close();
        let message = intervals.try_recv().unwrap();
        let reads = message.interval.class(OpKind::Read).unwrap();
        assert_eq!((reads.ops(), reads.bytes), (1, 4096));
        let kinds: Vec<_> = reads.errors.iter().collect();
        assert_eq!(kinds, [(ErrorKind::Io, 1), (ErrorKind::Gone, 1), (ErrorKind::Other, 1)]);
    }
}
