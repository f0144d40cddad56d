//! The workers of a cell: creates them, starts their threads, sets up their engines, and collects their messages.

use crate::clock::Clock;
use crate::early_end::EarlyEnd;
use crate::engine::{Engine, EngineKind, EngineOptions, Facts, Seat, Wait};
use crate::limits::limits;
use crate::log_load;
use crate::memory::Buffers;
use crate::plan::{CellPlan, DriveError, TargetPlan, active_range, seed_of};
use crate::probe::{self, KernelWorkers};
use crate::realtime::thread_id;
use crate::recorder::{IntervalMessage, Recorder};
use crate::trace_recorder::{Recording, TraceEvents};
use crate::worker::{Control, Worker, WorkerReport};
use iodyno_measure::{Coverage, Ended};
use iodyno_msglog::{LoadOfTarget, LogSource};
use iodyno_units::OpKind;
use iodyno_workload::{
    ArrivalKind, CellSpec, Filler, Geometry, Replay, Shared, Source, Spec, Stream, TraceSource,
    WorkloadSource,
};
use std::any::Any;
use std::io;
use std::os::unix::thread::JoinHandleExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Lower bound of a worker's maximum number of outstanding operations in open loop. It overrides a lower depth.
const OPEN_SLOTS_MIN: u32 = 256;

/// Messages from a worker's thread to the coordinator.
pub(crate) enum WorkerMessage {
    Ready,
    SetUpFailed { target: usize, source: io::Error },
    Done(Box<Done>),
}

pub(crate) struct Done {
    pub(crate) target: usize,
    /// Index of the worker among its target's workers.
    pub(crate) number: u32,
    pub(crate) report: WorkerReport,
    pub(crate) facts: Facts,
    pub(crate) kernel_workers: KernelWorkers,
}

pub(crate) struct WorkerThreads {
    /// Thread ID of each worker, set once the worker runs.
    numbers: Vec<Arc<AtomicI32>>,
    pub(crate) intervals: Receiver<IntervalMessage>,
    pub(crate) messages: Receiver<WorkerMessage>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) control: Arc<Control>,
    /// Message-log load of each target; `None` for other workloads.
    pub(crate) logs: Vec<Option<Arc<LoadOfTarget>>>,
}

/// Creates the workers' threads. Each sets up its engine and waits for the cell's start.
pub(crate) fn spawn_workers(
    plan: &CellPlan,
    stop: &Arc<AtomicBool>,
    early_end: &EarlyEnd,
) -> Result<WorkerThreads, DriveError> {
    let control = Arc::new(Control::new(Arc::clone(stop), plan.cell.errors_max, plan.flush_ns));
    let (interval_sender, intervals) = channel();
    let (message_sender, messages) = channel();
    let (mut threads, mut numbers) = (Vec::new(), Vec::new());
    let logs = log_load::of_targets(plan, |target| slots(plan, target))?;
    for (index, target) in plan.targets.iter().enumerate() {
        let cell = plan.cell_on(index);
        let shared = shared(cell, target, seed_of(cell.seed, index))?;
        if let Some(map) = &target.verify {
            map.begin_cell();
        }
        for number in 0..cell.spec.threads() {
            let setup = WorkerSetup {
                index,
                number,
                target: target.clone(),
                options: plan.options,
                block_bytes_max: cell.spec.max_data_bytes(),
                fills: cell.spec.issues(OpKind::Write),
                messages: message_sender.clone(),
            };
            let of_thread = Arc::new(AtomicI32::new(0));
            numbers.push(Arc::clone(&of_thread));
            let parts = WorkerParts { plan, target: index, number, shared: &shared };
            let sender = &interval_sender;
            let build = Build { control: &control, sender, is_over: early_end.flag(index) };
            let thread = match (&cell.replay, &logs[index]) {
                (Some(replay), _) => setup.spawn(of_thread, &parts, parts.trace(replay)?, build),
                (None, Some(log)) => {
                    setup.spawn(of_thread, &parts, LogSource::new(log, number), build)
                }
                (None, None) => setup.spawn(of_thread, &parts, parts.stream(), build),
            };
            threads.push(thread.map_err(|source| DriveError::SetUp {
                target: target.name.clone(),
                engine: target.engine().name(),
                source,
                hint: "; use fewer --threads",
            })?);
        }
    }
    Ok(WorkerThreads { numbers, intervals, messages, threads, control, logs })
}

/// Creates the state that the workers of one target share.
pub(crate) fn shared(
    cell: &CellSpec,
    target: &TargetPlan,
    seed: u64,
) -> Result<Arc<Shared>, DriveError> {
    let geometry = Geometry {
        capacity_bytes: target.medium.capacity_bytes(),
        align_bytes: target.align_bytes,
        workers: cell.part.over_range(0, cell.spec.threads()).of,
    };
    Shared::new(&cell.spec, seed, &geometry)
        .map_err(|e| DriveError::DoesNotFit { target: target.name.clone(), why: e.to_string() })
}

/// Maximum number of operations in flight per worker of a target.
pub(crate) fn slots(plan: &CellPlan, target: usize) -> u32 {
    let cell = plan.cell_on(target);
    if !plan.targets[target].engine().queues() {
        1
    } else if is_open(&cell.spec) && cell.replay.is_none() {
        cell.spec.depth().max(OPEN_SLOTS_MIN)
    } else {
        cell.spec.depth()
    }
}

/// Inputs from which one worker of a cell is built.
#[derive(Clone, Copy)]
pub(crate) struct WorkerParts<'a> {
    pub(crate) plan: &'a CellPlan,
    pub(crate) target: usize,
    /// Index of the worker among its target's workers.
    pub(crate) number: u32,
    pub(crate) shared: &'a Arc<Shared>,
}

/// Inputs for building workers: those common to all targets, and the flag that ends the workers of one
/// target.
#[derive(Clone, Copy)]
struct Build<'a> {
    control: &'a Arc<Control>,
    sender: &'a Sender<IntervalMessage>,
    is_over: &'a Arc<AtomicBool>,
}

impl WorkerParts<'_> {
    fn build<S: Source>(&self, source: S, build: Build<'_>) -> Worker<S> {
        let Build { control, sender, is_over } = build;
        let Self { plan, target, number, shared } = *self;
        let cell = plan.cell_on(target);
        Worker {
            control: Arc::clone(control),
            limits: limits(cell, shared, number),
            is_over: Arc::clone(is_over),
            clock: plan.clock,
            source,
            filler: Some(Filler::new(
                &cell.spec,
                seed_of(cell.seed, target),
                cell.part.over_range(number, cell.spec.threads()).index,
            )),
            verify: plan.targets[target].verify.clone(),
            coverage: coverage(plan, target, shared),
            recorder: Recorder::new(
                target,
                is_open(&cell.spec),
                cell.interval_ns(),
                sender.clone(),
            ),
            slots: self.slots(),
            submit_batch: if self.blocks() { Some(1) } else { cell.spec.submit_batch() },
        }
    }

    /// True if some of the worker's operations have no asynchronous form on its engine.
    fn blocks(&self) -> bool {
        let target = &self.plan.targets[self.target];
        let spec = &self.plan.cell_on(self.target).spec;
        let issues = spec.issues(OpKind::Trim) || spec.issues(OpKind::WriteZeroes);
        let is_file = target.medium.file().is_some_and(|file| file.passthrough.is_none());
        issues && is_file && target.engine().about().blocks_on_ranges
    }

    /// Maximum number of the worker's operations in flight.
    pub(crate) fn slots(&self) -> u32 {
        slots(self.plan, self.target)
    }

    /// Source of the workload's operations, generated from the cell's random seed.
    fn stream(&self) -> WorkloadSource {
        self.stream_of(seed_of(self.plan.cell_on(self.target).seed, self.target))
    }

    /// Source of the workload's operations, generated from the random seed `seed`.
    pub(crate) fn stream_of(&self, seed: u64) -> WorkloadSource {
        let CellSpec { spec, part, .. } = self.plan.cell_on(self.target);
        let mut stream =
            Stream::new(self.shared, part.over_range(self.number, spec.threads()).index);
        if let Some(walks) = &self.plan.walks {
            walks.go_on(self.target, self.number, &mut stream);
        }
        let of_rate = part.over_all(self.number, spec.threads());
        WorkloadSource::new(spec, seed, of_rate, self.slots(), stream)
            .in_flow(spec, &self.plan.flow)
    }

    /// Source of this worker's operations from a recorded trace.
    pub(crate) fn trace(&self, replay: &Replay) -> Result<TraceSource, DriveError> {
        let target = &self.plan.targets[self.target];
        let placement = replay.placement(target.medium.capacity_bytes()).map_err(|e| {
            DriveError::DoesNotFit { target: target.name.clone(), why: e.to_string() }
        })?;
        let CellSpec { spec, part, .. } = self.plan.cell_on(self.target);
        let of_trace = part.over_all(self.number, spec.threads());
        Ok(TraceSource::new(replay, placement, of_trace, self.slots()))
    }

    /// Wraps a source so that its operations are recorded in a trace; `clock` is `None` in virtual time.
    pub(crate) fn recorded<S>(
        &self,
        source: S,
        to: &TraceEvents,
        clock: Option<Clock>,
    ) -> Recording<S> {
        let delay_ns = self.plan.cell_on(self.target).spec.limits().start_after_ns;
        let (target, worker) = self.plan.place_in_trace(self.target, self.number);
        Recording::new(source, to.clone(), clock, delay_ns, target, worker)
    }
}

/// Creates an empty coverage map of the active range; `None` unless the run must prove that it covered all
/// blocks.
pub(crate) fn coverage(plan: &CellPlan, target: usize, shared: &Shared) -> Option<Box<Coverage>> {
    let cell = plan.cell_on(target);
    cell.fill_passes?;
    let (start_bytes, _) = shared.active_bytes();
    // A remainder shorter than a block is never written, and must show as missing.
    let end_bytes = active_range(&cell.spec, plan.targets[target].medium.capacity_bytes()).end;
    let block_bytes = u64::from(cell.spec.max_data_bytes()).max(1);
    Some(Box::new(Coverage::new(start_bytes, end_bytes, block_bytes)))
}

pub(crate) fn is_open(spec: &Spec) -> bool {
    matches!(spec.arrivals(), ArrivalKind::Open { .. })
}

/// Inputs of a worker's thread other than the worker itself: its target and its channels.
struct WorkerSetup {
    index: usize,
    /// Index of this worker among its target's workers.
    number: u32,
    target: TargetPlan,
    options: EngineOptions,
    block_bytes_max: u32,
    fills: bool,
    messages: Sender<WorkerMessage>,
}

impl WorkerSetup {
    /// Starts the thread of a worker with this source of operations. If the plan requests a trace, the operations are
    /// recorded. The thread stores its ID.
    fn spawn<S: Source + 'static>(
        self,
        of_thread: Arc<AtomicI32>,
        parts: &WorkerParts<'_>,
        source: S,
        build: Build<'_>,
    ) -> io::Result<JoinHandle<()>> {
        match &parts.plan.events {
            None => self.start(of_thread, parts.build(source, build)),
            Some(to) => {
                let source = parts.recorded(source, to, Some(parts.plan.clock));
                self.start(of_thread, parts.build(source, build))
            }
        }
    }

    fn start<S: Source + 'static>(
        self,
        of_thread: Arc<AtomicI32>,
        worker: Worker<S>,
    ) -> io::Result<JoinHandle<()>> {
        let name = format!("worker-{}-{}", self.index, self.number);
        std::thread::Builder::new().name(name).spawn(move || {
            of_thread.store(thread_id(), Ordering::Relaxed);
            self.work(worker);
        })
    }

    /// Runs a worker to its end. Always reports the end, even after a panic; otherwise the coordinator would wait
    /// forever.
    fn work<S: Source>(self, worker: Worker<S>) {
        let control = Arc::clone(&worker.control);
        let seat = WorkerAtEngine { setup: &self, worker };
        let work = AssertUnwindSafe(|| self.target.medium.run(seat));
        match catch_unwind(work) {
            Ok(Ok(())) => {}
            Ok(Err(source)) => {
                let failed = WorkerMessage::SetUpFailed { target: self.index, source };
                let _ = self.messages.send(failed);
            }
            Err(panic) => self.report_panic(&control, panic.as_ref(), 0),
        }
    }

    fn report_panic(&self, control: &Control, panic: &(dyn Any + Send), left_in_flight: usize) {
        control.failed.store(true, Ordering::Relaxed);
        control.stop.store(true, Ordering::Relaxed);
        let report = WorkerReport {
            ended: Ended::Errors,
            engine_error: Some(panicked(panic)),
            left_in_flight,
            ..WorkerReport::default()
        };
        self.send_done(report, Facts::new(), KernelWorkers::default());
    }

    fn send_done(&self, report: WorkerReport, facts: Facts, kernel_workers: KernelWorkers) {
        let (target, number) = (self.index, self.number);
        let done = Done { target, number, report, facts, kernel_workers };
        // A send error means that the coordinator has given up this worker.
        let _ = self.messages.send(WorkerMessage::Done(Box::new(done)));
    }

    fn run<S: Source, E: Engine>(
        &self,
        worker: Worker<S>,
        engine: &mut E,
        buffers: Option<&Buffers>,
        facts: Facts,
    ) {
        let _ = self.messages.send(WorkerMessage::Ready);
        let control = Arc::clone(&worker.control);
        let report = match catch_unwind(AssertUnwindSafe(|| worker.run(engine, buffers))) {
            Ok(report) => WorkerReport { map_sync: engine.map_sync(), ..report },
            Err(panic) => {
                self.report_panic(&control, panic.as_ref(), 1);
                // The number of operations in flight is unknown: keep the engine and the buffers for the life of the
                // process.
                keep_until_exit();
            }
        };
        let left = if engine.lends_buffers() { report.left_in_flight } else { 0 };
        let uring = self.target.engine() == EngineKind::Uring;
        let kernel_workers = if uring { probe::kernel_workers() } else { KernelWorkers::default() };
        self.send_done(report, facts, kernel_workers);
        linger(engine, left);
    }
}

/// A worker on its thread, waiting for its engine to be set up.
struct WorkerAtEngine<'a, S> {
    setup: &'a WorkerSetup,
    worker: Worker<S>,
}

impl<S: Source> Seat for WorkerAtEngine<'_, S> {
    fn number(&self) -> u32 {
        self.setup.number
    }

    fn slots(&self) -> u32 {
        self.worker.slots
    }

    fn block_bytes_max(&self) -> u32 {
        self.setup.block_bytes_max
    }

    fn options(&self) -> EngineOptions {
        self.setup.options
    }

    fn buffers(&self, align_bytes: usize) -> io::Result<Buffers> {
        let WorkerSetup { block_bytes_max, fills, .. } = *self.setup;
        let Worker { slots, filler, .. } = &self.worker;
        let buffers = Buffers::new(*slots, block_bytes_max as usize, align_bytes)?;
        for slot in 0..*slots {
            // SAFETY: no operation has been issued yet, and the slice ends with this statement.
            let bytes = unsafe { buffers.bytes(slot, block_bytes_max as usize) };
            match filler {
                Some(filler) if fills => filler.prepare(bytes),
                // Touch the memory, so that no page fault occurs in the measurement.
                _ => bytes.fill(0),
            }
        }
        Ok(buffers)
    }

    fn run<E: Engine>(mut self, engine: &mut E, buffers: Option<&Buffers>, facts: Facts) {
        if buffers.is_none() {
            self.worker.filler = None;
        }
        self.setup.run(self.worker, engine, buffers, facts);
    }
}

fn keep_until_exit() -> ! {
    loop {
        std::thread::park();
    }
}

/// Keeps an abandoned engine and its buffers until the kernel has returned all operations in flight or the
/// process ends. Dropping them would wait for the kernel, or free memory to which it still writes.
fn linger<E: Engine>(engine: &mut E, mut left: usize) {
    while left > 0 {
        if engine.turn(Wait::One).is_err() {
            keep_until_exit();
        }
        engine.drain(|_, _| left = left.saturating_sub(1));
    }
}

impl WorkerThreads {
    /// True if a worker's thread is running or waiting for a processor, so is only late and not stuck.
    pub(crate) fn is_any_running(&self) -> bool {
        self.numbers.iter().zip(&self.threads).filter(|(_, thread)| !thread.is_finished()).any(
            |(number, _)| {
                let path = format!("/proc/self/task/{}/stat", number.load(Ordering::Relaxed));
                let stat = std::fs::read_to_string(path).unwrap_or_default();
                // The state follows the name, which ends with the last bracket.
                stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
            },
        )
    }

    /// Wakes workers that wait for a completion, so that they check whether to end. Skips workers whose engine waits in
    /// the operation itself, because a signal could make the operation fail.
    pub(crate) fn wake(&self, plan: &CellPlan) {
        let signal = wake_signal();
        let of_target =
            |target| std::iter::repeat_n(target, plan.cell_on(target).spec.threads() as usize);
        let targets = (0..plan.targets.len()).flat_map(of_target);
        for (target, thread) in targets.zip(&self.threads) {
            let waits = plan.targets[target].engine().about().is_wakeable;
            if waits && !thread.is_finished() {
                // SAFETY: the thread was not joined, so its handle is valid; the signal has a handler.
                unsafe { libc::pthread_kill(thread.as_pthread_t(), signal) };
            }
        }
    }
}

/// The signal that interrupts a system call in which a worker waits. Its handler does nothing.
fn wake_signal() -> libc::c_int {
    extern "C" fn nothing(_: libc::c_int) {}
    static INSTALLED: OnceLock<libc::c_int> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let signal = libc::SIGRTMIN() + 3;
        // SAFETY: a zeroed action is valid, and its handler does nothing. Without SA_RESTART, so that the system call
        // returns.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        signal
    })
}

/// Converts a worker's panic to an error of the run.
fn panicked(panic: &(dyn Any + Send)) -> io::Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    io::Error::other(format!(
        "a worker panicked ({}), which is a bug in iodyno: please report it",
        text.unwrap_or("no message")
    ))
}

/// Waits until every worker is set up. Returns false if the cell is stopped before.
pub(crate) fn wait_until_ready(plan: &CellPlan, team: &WorkerThreads) -> Result<bool, DriveError> {
    let mut ready = 0;
    while ready < team.threads.len() {
        let (target, source) = match team.messages.recv() {
            Ok(WorkerMessage::Ready) => {
                ready += 1;
                continue;
            }
            // The worker was ready, and obeyed the stop.
            Ok(WorkerMessage::Done(done)) if done.report.ended == Ended::Interrupted => {
                return Ok(false);
            }
            Ok(WorkerMessage::SetUpFailed { target, source }) => (target, source),
            // The worker panicked before it was ready.
            Ok(WorkerMessage::Done(done)) => {
                let why = || io::Error::other("a worker thread ended during its start");
                (done.target, done.report.engine_error.unwrap_or_else(why))
            }
            Err(_) => return Ok(false),
        };
        // The others wait for a start that will not come.
        team.control.stop.store(true, Ordering::Relaxed);
        return Err(set_up_error(plan, target, source));
    }
    Ok(true)
}

fn set_up_error(plan: &CellPlan, target: usize, source: io::Error) -> DriveError {
    let plan = &plan.targets[target];
    let engine = plan.engine().about();
    let hint = match ((engine.hint)(&source), source.raw_os_error()) {
        ("", Some(libc::ENOMEM)) => "; use a smaller --depth or --block",
        (hint, _) => hint,
    };
    DriveError::SetUp { target: plan.name.clone(), engine: engine.name, source, hint }
}
