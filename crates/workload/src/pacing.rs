//! Pacing: decides when the next operation of a workload is due, in a closed loop, with think time, or in an open
//! loop. It is given the time and returns a step, without a clock or I/O, so the same pacing drives threads in real
//! time and machines in virtual time.
//!
//! - A **closed loop** issues a new operation as soon as one of the `depth` slots is free. With a think time, each
//!   slot acts as an independent user who thinks after each completion, while the operations of other users stay in
//!   flight.
//! - An **open loop** issues operations on an absolute schedule that nothing delays. An operation that finds no free
//!   slot is submitted late; its response time still counts from its due time.
//!
//! In both loops a worker may *pause* (fio's `thinktime`): after a number of operations, or a time, it waits until
//! all its operations have completed, and then thinks. It may also keep the number of its operations in *proportion*
//! to that of other workers (fio's `flow`).

use crate::arrivals::Arrivals;
use crate::spec::{ArrivalKind, Spec};
use crate::worker_index::WorkerIndex;
use iodyno_units::OpKind;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of overdue operations that are counted individually. A longer backlog is extrapolated.
const COUNTED_MAX: u64 = 1 << 20;

/// Interval at which a worker that is ahead checks whether other workers have caught up, ns. The interval is long
/// enough for the worker to sleep and leave its processor to the others.
const FLOW_NS: u64 = 100_000;

/// A worker may exceed its proportion by 1/`LEAD_SHARE` of all operations, and by at most [`LEAD_MAX`]
/// operations. Without this tolerance, workers would wait for one another at each operation.
const LEAD_SHARE: u64 = 128;
const LEAD_MAX: u64 = 32;

/// Next action of a worker, according to its pacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Issue one operation, due at this time, ns (same clock as `now_ns`). None in a closed loop, where it is due now.
    Issue(Option<u64>),
    /// Wait until this time, ns: no operation is due earlier. Completions can arrive in the meantime.
    WaitUntil(u64),
    /// Wait for a completion before issuing another operation.
    WaitCompletion,
    /// Issue no further operation.
    Done,
}

/// Decides when the next operation of a worker is due.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    mode: Mode,
    /// Start of the cell, ns. Arrival times are relative to it.
    start_ns: u64,
    pause: Option<Box<Pause>>,
    flow: Option<Box<Proportion>>,
    /// Whether the worker issues nothing while its flush is in flight.
    waits_for_flush: bool,
    is_flushing: bool,
}

/// Pauses that a worker makes between batches of operations, when none is in flight.
#[derive(Clone, Debug)]
struct Pause {
    think_ns: u64,
    /// Number of operations in a batch, of which `left` may still be issued.
    batch: u32,
    left: u32,
    /// Maximum duration of a batch, ns, after which it ends early; None: unlimited.
    after_ns: Option<u64>,
    in_flight: u32,
    /// Time before which the current batch may not start, ns.
    ready_ns: u64,
    /// Whether a pause delays the remaining schedule of an open loop.
    shifts: bool,
    /// Total delay of the schedule by pauses so far, ns.
    shifted_ns: u64,
}

impl Pause {
    /// Returns how the pause makes the worker wait; None: an operation may be issued now.
    fn step(&mut self, now_ns: u64) -> Option<Step> {
        let is_over = |after_ns| now_ns >= self.ready_ns.saturating_add(after_ns);
        if self.left < self.batch && self.after_ns.is_some_and(is_over) {
            self.left = 0;
            self.begin(now_ns);
        }
        if self.left == 0 {
            return Some(Step::WaitCompletion);
        }
        (self.ready_ns > now_ns).then_some(Step::WaitUntil(self.ready_ns))
    }

    /// Begins a pause if all operations of the batch were issued and have completed.
    fn begin(&mut self, now_ns: u64) {
        if self.in_flight == 0 && self.left == 0 {
            self.left = self.batch;
            self.ready_ns = now_ns + self.think_ns;
            self.shifted_ns += if self.shifts { self.think_ns } else { 0 };
        }
    }
}

/// One worker's weight in a [`Flow`], and the number of operations it has issued.
#[derive(Clone, Debug)]
struct Proportion {
    flow: Arc<Flow>,
    weight: u64,
    issued: u64,
}

impl Proportion {
    /// Whether the worker is too far ahead: its share of all operations exceeds its share of all weights by more
    /// than the tolerance.
    fn is_ahead(&self) -> bool {
        let all = self.flow.issued.load(Ordering::Relaxed);
        let weights = u128::from(self.flow.weights.load(Ordering::Relaxed));
        let lead = u128::from((all / LEAD_SHARE).min(LEAD_MAX));
        u128::from(self.issued) * weights
            > u128::from(self.weight) * u128::from(all) + lead * weights
    }
}

#[derive(Clone, Debug)]
enum Mode {
    Closed,
    /// Closed loop with think time: times at which idle slots may be used again, ns. They are in ascending order,
    /// because all slots have the same think time.
    Think {
        think_ns: u64,
        ready_ns: VecDeque<u64>,
    },
    /// Refills the queue in bursts: fills all slots, then issues nothing until at most `low` operations are in
    /// flight.
    Refill {
        low: u32,
        depth: u32,
        in_flight: u32,
        fills: bool,
    },
    /// A closed loop with pauses or in proportion to other workloads.
    Gated,
    Open {
        arrivals: Arrivals,
        next_ns: u64,
    },
    /// Issues the final operations one after the other, once all `slots` are free; `left` operations remain.
    Closing {
        slots: u32,
        left: u32,
    },
}

/// Counters shared by workers that issue operations in proportion to their weights.
#[derive(Debug, Default)]
pub struct Flow {
    issued: AtomicU64,
    weights: AtomicU64,
}

impl Pacing {
    /// Creates the pacing of one worker, with at most `slots` operations in flight. The workers divide the workload's
    /// rate.
    ///
    /// # Panics
    /// If the worker's index is not below the number of workers.
    pub(crate) fn new(spec: &Spec, seed: u64, worker: WorkerIndex, slots: u32) -> Self {
        let batches = spec.batches();
        let mut pacing = match (Arrivals::new(spec, seed, worker), spec.arrivals()) {
            (Some(arrivals), _) => Self::open(arrivals),
            (None, ArrivalKind::Closed { think_time_ns, think_drains }) => {
                Self::closed(slots, think_time_ns, think_drains)
            }
            (None, ArrivalKind::Open { .. }) => unreachable!("an open loop has arrivals"),
        };
        if batches.pause_ns > 0 {
            pacing.pauses(batches.pause_ns, slots);
        }
        if let Some(pause) = &mut pacing.pause {
            let whole = if batches.think_after_ns.is_some() { u32::MAX } else { pause.batch };
            let batch = batches.think_after.unwrap_or(whole);
            (pause.batch, pause.left) = (batch, batch);
            pause.after_ns = batches.think_after_ns;
            pause.shifts = batches.think_shifts;
        }
        if let (Mode::Closed, Some(low)) = (&pacing.mode, batches.refill_at)
            && low < slots
        {
            pacing.mode = Mode::Refill { low, depth: slots, in_flight: 0, fills: true };
        }
        pacing.waits_for_flush = spec.flush_waits();
        if let (Mode::Closed, true) = (&pacing.mode, pacing.waits_for_flush) {
            pacing.mode = Mode::Gated;
        }
        pacing
    }

    /// Whether the pacing depends on the operations of other workers.
    pub(crate) fn is_in_flow(&self) -> bool {
        self.flow.is_some()
    }

    /// Joins a flow: from now on, the worker's operations stay in proportion to those of the flow's other
    /// workers.
    pub(crate) fn join(&mut self, flow: &Arc<Flow>, weight: u32) {
        flow.weights.fetch_add(weight.into(), Ordering::Relaxed);
        let (flow, weight) = (Arc::clone(flow), weight.into());
        self.flow = Some(Box::new(Proportion { flow, weight, issued: 0 }));
        if let Mode::Closed = self.mode {
            self.mode = Mode::Gated;
        }
    }

    /// Adds pauses of `think_ns` between batches of `batch` operations.
    fn pauses(&mut self, think_ns: u64, batch: u32) {
        self.pause = Some(Box::new(Pause {
            think_ns,
            batch,
            left: batch,
            after_ns: None,
            in_flight: 0,
            ready_ns: 0,
            shifts: false,
            shifted_ns: 0,
        }));
    }

    /// Creates the pacing of a closed loop with `depth` operations in flight. With `think_drains`, all of them
    /// complete before the think time begins.
    pub(crate) fn closed(depth: u32, think_ns: u64, think_drains: bool) -> Self {
        let mode = match (think_ns, think_drains) {
            (0, _) => Mode::Closed,
            (_, false) => {
                let mut ready_ns = VecDeque::with_capacity(depth as usize);
                ready_ns.resize(depth as usize, 0);
                Mode::Think { think_ns, ready_ns }
            }
            (_, true) => Mode::Gated,
        };
        let is_gated = matches!(mode, Mode::Gated);
        let mut pacing = Self::in_mode(mode);
        if is_gated {
            pacing.pauses(think_ns, depth);
        }
        pacing
    }

    fn in_mode(mode: Mode) -> Self {
        let (waits_for_flush, is_flushing) = (false, false);
        Self { mode, start_ns: 0, pause: None, flow: None, waits_for_flush, is_flushing }
    }

    /// Creates the pacing of an open loop, whose operations are due at the times of `arrivals`.
    pub(crate) fn open(mut arrivals: Arrivals) -> Self {
        let next_ns = arrivals.next_ns();
        Self::in_mode(Mode::Open { arrivals, next_ns })
    }

    /// Sets the start of the cell, ns. Due times are relative to it.
    pub(crate) fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        if let Some(pause) = &mut self.pause {
            pause.ready_ns = start_ns;
        }
    }

    /// Returns the next action of the worker at `now_ns`, if `free` of its slots are unused.
    #[expect(
        clippy::inline_always,
        reason = "inlined to keep an operation in registers: see `Stream::next_op`"
    )]
    #[inline(always)]
    pub(crate) fn step(&mut self, now_ns: u64, free: usize) -> Step {
        if free == 0 {
            return Step::WaitCompletion;
        }
        if let Mode::Closed = self.mode {
            return Step::Issue(None);
        }
        self.timed_step(now_ns, free)
    }

    /// Ends the regular operations. Once the operations in flight have completed and all `slots` are free, issues
    /// `count` final operations one after the other.
    pub(crate) fn close(&mut self, slots: u32, count: u32) {
        self.mode = Mode::Closing { slots, left: count };
        (self.pause, self.flow) = (None, None);
        (self.waits_for_flush, self.is_flushing) = (false, false);
    }

    fn timed_step(&mut self, now_ns: u64, free: usize) -> Step {
        if self.is_flushing {
            return Step::WaitCompletion;
        }
        if let Some(step) = self.pause.as_mut().and_then(|pause| pause.step(now_ns)) {
            return step;
        }
        if self.flow.as_ref().is_some_and(|flow| flow.is_ahead()) {
            return Step::WaitUntil(now_ns + FLOW_NS);
        }
        let step = self.step_of_mode(now_ns, free);
        if let Step::Issue(_) = step {
            if let Some(pause) = &mut self.pause {
                pause.left -= 1;
                pause.in_flight += 1;
            }
            if let Some(flow) = &mut self.flow {
                flow.issued += 1;
                flow.flow.issued.fetch_add(1, Ordering::Relaxed);
            }
        }
        step
    }

    fn step_of_mode(&mut self, now_ns: u64, free: usize) -> Step {
        match &mut self.mode {
            Mode::Closed | Mode::Gated => Step::Issue(None),
            Mode::Think { ready_ns, .. } => match ready_ns.front() {
                Some(&t) if t <= now_ns => {
                    ready_ns.pop_front();
                    Step::Issue(None)
                }
                Some(&t) => Step::WaitUntil(t),
                None => Step::WaitCompletion,
            },
            Mode::Refill { depth, in_flight, fills, .. } => {
                if !*fills {
                    return Step::WaitCompletion;
                }
                *in_flight += 1;
                *fills = *in_flight < *depth;
                Step::Issue(None)
            }
            Mode::Open { arrivals, next_ns } => {
                let shifted_ns = self.pause.as_ref().map_or(0, |pause| pause.shifted_ns);
                let due_ns = self.start_ns + *next_ns + shifted_ns;
                if due_ns > now_ns {
                    return Step::WaitUntil(due_ns);
                }
                *next_ns = arrivals.next_ns();
                Step::Issue(Some(due_ns))
            }
            Mode::Closing { slots, .. } if free < *slots as usize => Step::WaitCompletion,
            Mode::Closing { left: 0, .. } => Step::Done,
            Mode::Closing { left, .. } => {
                *left -= 1;
                Step::Issue(None)
            }
        }
    }

    /// Notes that the latest step issued an operation of this kind.
    #[inline]
    pub(crate) fn issued(&mut self, kind: OpKind) {
        if self.waits_for_flush && kind == OpKind::Flush {
            self.is_flushing = true;
        }
    }

    /// Notes that an operation completed at `now_ns`. Think times and pauses count from then.
    #[inline]
    pub(crate) fn completed(&mut self, kind: OpKind, now_ns: u64) {
        if let Mode::Closed = self.mode {
            return;
        }
        // At most one flush is in flight if the worker waits for it.
        self.is_flushing &= kind != OpKind::Flush;
        if let Some(pause) = &mut self.pause {
            pause.in_flight -= 1;
            pause.begin(now_ns);
        }
        match &mut self.mode {
            Mode::Closed | Mode::Gated | Mode::Open { .. } | Mode::Closing { .. } => {}
            Mode::Refill { low, in_flight, fills, .. } => {
                *in_flight -= 1;
                *fills |= *in_flight <= *low;
            }
            Mode::Think { think_ns, ready_ns } => ready_ns.push_back(now_ns + *think_ns),
        }
    }

    /// Returns the number of operations that were due before `end_ns` but not issued; 0 for a closed loop.
    pub(crate) fn backlog(&mut self, end_ns: u64) -> u64 {
        let Mode::Open { arrivals, next_ns } = &mut self.mode else { return 0 };
        let (mut backlog, first_ns) = (0, *next_ns);
        let shifted_ns = self.pause.as_ref().map_or(0, |pause| pause.shifted_ns);
        let end_ns = end_ns.saturating_sub(self.start_ns + shifted_ns);
        while *next_ns < end_ns {
            backlog += 1;
            *next_ns = arrivals.next_ns();
            if backlog == COUNTED_MAX {
                // This far behind, a count by the mean gap is accurate enough.
                let passed_ns = (*next_ns - first_ns).max(1);
                let all_ns = end_ns.saturating_sub(first_ns).max(passed_ns);
                return (backlog as f64 * (all_ns as f64 / passed_ns as f64)) as u64;
            }
        }
        backlog
    }
}

#[cfg(test)]
#[path = "pacing_tests.rs"]
mod tests;
