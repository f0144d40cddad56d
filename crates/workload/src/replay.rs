//! A trace as a source of operations: when each is due, and where on the target it goes. Operations are always issued
//! in the trace's order. Of n workers, each takes every n-th operation.
//!
//! - Replay by time is an open loop: an operation is due at its time in the trace, whatever has completed. The times
//!   are absolute, so nothing drifts.
//! - Replay as fast as possible is a closed loop.
//! - Replay with think time waits, before each operation, until as many operations have completed as in the trace,
//!   and then for the trace's think time.

use crate::source::{Issue, Next, Outcome, Source, SourceEnd};
use crate::spec::{Content, MAX_DEPTH, MAX_THREADS, Percent, Spec};
use crate::trace::{Trace, TraceSize};
use crate::worker_index::WorkerIndex;
use core::fmt;
use iodyno_units::{Op, OpKind, human};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum number of block sizes in the workload that describes a trace.
const SIZES_MAX: usize = 64;
/// Minimum and maximum rate of the workload that describes a trace, operations per second.
const RATES_IOPS: core::ops::RangeInclusive<f64> = 0.001..=1e9;

/// Rule for the times at which the operations of a replayed trace are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Operations are due at the times recorded in the trace, divided by `speed`.
    Time {
        /// Speed factor, above 0: with 2, a minute of the trace takes 30 s.
        speed: f64,
    },
    /// Operations are due immediately: they are issued as fast as the queue depth permits, and the times of the trace
    /// are ignored.
    Fast,
    /// Each operation is due after the same number of completions as in the trace, plus the trace's think time divided
    /// by `speed`. Requires a single worker.
    Think {
        /// Divisor of the think times, above 0: with 2, they are half as long as in the trace.
        speed: f64,
    },
}

/// How addresses of a trace are mapped to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Addresses do not change. A trace that exceeds the target is refused.
    #[default]
    Exact,
    /// Addresses are scaled from the whole trace's address range to the target's size, whatever part of its time is
    /// replayed. Lengths of operations don't change.
    Scale,
    /// Addresses are taken modulo the target's size. An operation that would cross the target's end is moved to end
    /// there.
    Wrap,
}

/// A trace, and how its operations are issued again.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    pub trace: Arc<Trace>,
    /// Rule for the times at which the trace's operations are due.
    pub timing: Timing,
    /// How addresses of the trace are mapped to the target.
    pub fit: Fit,
    /// Offset on the target at which the trace's address 0 lies, bytes.
    pub offset_bytes: u64,
    /// Short description of the trace and its replay, as stored with the run. Replays with equal descriptions
    /// issue equal operations.
    pub words: String,
}

/// Error message for a trace that does not fit a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit(String);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Misfit {}

/// Settings of a replay's cell that the trace does not determine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayShape {
    /// Number of workers per target, which divide the trace's operations.
    pub threads: u32,
    /// Maximum number of operations in flight per worker.
    pub depth: u32,
    /// Content of writes, since a trace does not record it.
    pub content: Content,
}

impl Replay {
    /// Describes the trace as a workload with the same mix, sizes, range and rate. Code that prepares targets,
    /// chooses engines and shows results can then treat the replay like any other cell.
    ///
    /// # Errors
    /// The trace can't be a workload, because it only flushes.
    pub fn spec(&self, shape: &ReplayShape) -> Result<Spec, String> {
        let (trace, of) = (&self.trace, self.trace.summary());
        let mut text = String::from("schema = 1\n");
        let ReplayShape { threads, depth, content } = *shape;
        let depth = depth.clamp(1, MAX_DEPTH);
        let _ = writeln!(text, "threads = {}\ndepth = {depth}", threads.clamp(1, MAX_THREADS));
        let align_bytes = self.align_bytes();
        let _ = writeln!(text, "block = {align_bytes}\nalign = {align_bytes}");
        let end_bytes = of.end_bytes + self.offset_bytes;
        if self.fit == Fit::Exact && end_bytes > self.offset_bytes {
            let _ = writeln!(text, "active = \"{}..{end_bytes}\"", self.offset_bytes);
        }
        let kinds = OpKind::ALL.into_iter().filter(|kind| of.ops[kind.index()] > 0);
        let mix = kinds.clone().map(|kind| format!("{} = {}", kind.name(), of.ops[kind.index()]));
        let _ = writeln!(text, "mix = {{ {} }}", mix.collect::<Vec<_>>().join(", "));
        for kind in kinds.filter(|kind| *kind != OpKind::Flush) {
            let ops = of.ops[kind.index()];
            let _ =
                writeln!(text, "[{}]\nblock = [{}]", kind.name(), sizes(&of.sizes[kind.index()]));
            let sequential = of.sequential.get(kind.index()).copied().unwrap_or(0);
            if 2 * sequential >= ops {
                text.push_str("addresses = \"sequential\"\n");
            }
            if kind == OpKind::Write && of.fua > 0 {
                let share = Percent::from_fraction(of.fua as f64 / ops as f64);
                let _ = writeln!(text, "fua = \"{share}\"");
            }
        }
        if let Some(rate_iops) = self.rate_iops() {
            let _ = writeln!(
                text,
                "[arrivals]\nkind = \"open\"\nrate = {rate_iops}\nprocess = \"constant\""
            );
        }
        // All of it is measured, and the cell ends with its last operation.
        let _ = writeln!(text, "[limits]\nramp = \"0s\"\nops = {}", trace.len());
        let spec = Spec::from_toml(&text).map_err(|errors| {
            let words: Vec<&str> = errors.iter().map(|e| e.message.as_str()).collect();
            words.join("; ")
        })?;
        spec.with_content(content)
    }

    /// Minimum duration of the replay, ns: the due time of the last operation. 0 if operations have no fixed due
    /// times.
    pub fn time_ns(&self) -> u64 {
        match self.timing {
            Timing::Time { speed } => divided(self.trace.summary().span_ns, speed),
            Timing::Fast | Timing::Think { .. } => 0,
        }
    }

    /// Mean rate at which operations are due, operations per second; None if operations have no fixed due times.
    fn rate_iops(&self) -> Option<f64> {
        let Timing::Time { speed } = self.timing else { return None };
        let span_s = self.trace.summary().span_ns as f64 / 1e9 / speed;
        let rate = self.trace.len() as f64 / span_s;
        Some(rate.clamp(*RATES_IOPS.start(), *RATES_IOPS.end()))
    }

    /// Largest alignment, bytes, that divides every length, and every address plus the offset.
    fn align_bytes(&self) -> u32 {
        let offset = 1_u32 << self.offset_bytes.trailing_zeros().min(30);
        self.trace.summary().align_bytes.min(offset)
    }

    /// Returns the mapping of the trace's addresses to a target with this capacity.
    ///
    /// # Errors
    /// The trace does not fit. The message includes the remedy.
    pub fn placement(&self, capacity_bytes: u64) -> Result<Placement, Misfit> {
        let of = self.trace.summary();
        let (align_bytes, offset_bytes) = (u64::from(self.align_bytes()), self.offset_bytes);
        let space_bytes = capacity_bytes.saturating_sub(offset_bytes) / align_bytes * align_bytes;
        let size = human::exact_size;
        if self.fit == Fit::Exact && of.end_bytes > space_bytes {
            let ends = self.trace.ops().map(|o| o.op.offset_bytes + u64::from(o.op.len_bytes));
            let beyond = ends.filter(|&end| end > space_bytes).count() as u64;
            return Err(Misfit(format!(
                "{} of the {} operations of the trace lie beyond the target's end: the trace ends at {}{}, and the target has {}; use a larger target (PATH?size={}), or --fit scale (addresses are multiplied) or --fit wrap (modulo the target's size)",
                human::whole(beyond),
                human::whole(self.trace.len() as u64),
                size(of.end_bytes + offset_bytes),
                if offset_bytes > 0 { " with --offset" } else { "" },
                size(capacity_bytes),
                (of.end_bytes + offset_bytes).next_multiple_of(1 << 20),
            )));
        }
        let largest =
            of.sizes.iter().flatten().map(|size| u64::from(size.bytes)).max().unwrap_or(0);
        if largest > space_bytes {
            return Err(Misfit(format!(
                "the trace has an operation of {}, but the target has only {}{}: use a larger target",
                size(largest),
                size(space_bytes),
                if offset_bytes > 0 { " from --offset on" } else { "" }
            )));
        }
        // Of the whole trace, so that a block of it has the same place in a replay of each part.
        let end_bytes = of.whole_end_bytes.max(of.end_bytes).max(1);
        Ok(Placement { fit: self.fit, offset_bytes, space_bytes, end_bytes, align_bytes })
    }
}

fn sizes(all: &[TraceSize]) -> String {
    let mut shown: Vec<TraceSize> = all.iter().take(SIZES_MAX).copied().collect();
    let largest = all.iter().max_by_key(|size| size.bytes);
    if let (Some(largest), Some(last)) =
        (largest, shown.last_mut().filter(|_| all.len() > SIZES_MAX))
        && !all[..SIZES_MAX].contains(largest)
    {
        // Buffers must be as large as the largest operation.
        *last = *largest;
    }
    let text = shown.iter().map(|s| format!("{{ size = {}, share = {} }}", s.bytes, s.ops));
    text.collect::<Vec<_>>().join(", ")
}

/// Maps the addresses of a trace to one target.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    fit: Fit,
    offset_bytes: u64,
    /// Usable size of the target from `offset_bytes` on, bytes.
    space_bytes: u64,
    /// Highest end address of the whole trace's operations, bytes.
    end_bytes: u64,
    align_bytes: u64,
}

impl Placement {
    /// Returns the operation with its address mapped to the target.
    #[inline]
    pub fn place(&self, op: Op) -> Op {
        if op.kind == OpKind::Flush {
            return op;
        }
        let at_bytes = match self.fit {
            Fit::Exact => op.offset_bytes,
            Fit::Scale => {
                let scaled = u128::from(op.offset_bytes) * u128::from(self.space_bytes)
                    / u128::from(self.end_bytes);
                scaled as u64 / self.align_bytes * self.align_bytes
            }
            Fit::Wrap => op.offset_bytes % self.space_bytes,
        };
        let at_bytes = match self.fit {
            Fit::Exact => at_bytes,
            _ => at_bytes.min(self.space_bytes - u64::from(op.len_bytes)),
        };
        Op { offset_bytes: self.offset_bytes + at_bytes, ..op }
    }
}

/// Source of one worker's share of a trace's operations.
#[derive(Debug)]
pub struct TraceSource {
    trace: Arc<Trace>,
    timing: Timing,
    placement: Placement,
    start_ns: u64,
    next: usize,
    /// Number of workers of the target. Each worker issues every `step`-th operation.
    step: usize,
    /// With [`Timing::Think`]: number of completions so far. `ends_ns` is a ring of the times of the latest ones.
    completions: u64,
    ends_ns: Box<[u64]>,
}

impl TraceSource {
    /// Creates the source of one worker, with at most `slots` operations in flight. The workers divide the trace's
    /// operations.
    pub fn new(replay: &Replay, placement: Placement, worker: WorkerIndex, slots: u32) -> Self {
        let thinks = matches!(replay.timing, Timing::Think { .. });
        Self {
            trace: Arc::clone(&replay.trace),
            timing: replay.timing,
            placement,
            start_ns: 0,
            next: worker.index as usize,
            step: worker.of as usize,
            completions: 0,
            ends_ns: vec![0; if thinks { slots as usize + 1 } else { 0 }].into(),
        }
    }

    /// Due time of the next operation, whose time in the trace is `at_ns`; None if it must wait for completions.
    #[inline]
    fn due(&self, at_ns: u64, now_ns: u64) -> Option<u64> {
        match self.timing {
            Timing::Time { speed } => Some(self.start_ns + divided(at_ns, speed)),
            Timing::Fast => Some(now_ns),
            Timing::Think { speed } => {
                let wait = self.trace.wait(self.next);
                let since_ns = match wait.completions {
                    0 => self.start_ns,
                    count if count > self.completions => return None,
                    // The trace had more operations in flight than there are slots: this one is late.
                    count if self.completions - count >= self.ends_ns.len() as u64 => {
                        return Some(now_ns);
                    }
                    count => self.ends_ns[count as usize % self.ends_ns.len()],
                };
                Some(since_ns + divided(wait.think_ns, speed))
            }
        }
    }
}

/// Divides a duration by the speed factor, ns. Exact at speed 1.
#[inline]
fn divided(ns: u64, speed: f64) -> u64 {
    if speed.to_bits() == 1.0_f64.to_bits() { ns } else { (ns as f64 / speed + 0.5) as u64 }
}

impl Source for TraceSource {
    type Token = ();

    fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    #[inline]
    fn next(&mut self, now_ns: u64, free: usize) -> Next<()> {
        let Some((at_ns, op)) = self.trace.get(self.next) else { return Next::Done };
        let Some(due_ns) = self.due(at_ns, now_ns) else { return Next::WaitCompletion };
        if due_ns > now_ns {
            return Next::WaitUntil(due_ns);
        }
        if free == 0 {
            return Next::WaitCompletion;
        }
        self.next += self.step;
        let due_ns = matches!(self.timing, Timing::Time { .. }).then_some(due_ns);
        Next::Issue(Issue { op: self.placement.place(op), due_ns, token: () })
    }

    #[inline]
    fn completed(&mut self, _op: &Op, (): (), _outcome: Outcome, now_ns: u64) {
        if !self.ends_ns.is_empty() {
            self.completions += 1;
            let slot = self.completions as usize % self.ends_ns.len();
            self.ends_ns[slot] = now_ns;
        }
    }

    fn end(&mut self, end_ns: u64) -> SourceEnd {
        let Timing::Time { speed } = self.timing else { return SourceEnd::default() };
        let at_ns = (end_ns.saturating_sub(self.start_ns) as f64 * speed) as u64;
        let due = self.trace.due_before(at_ns).saturating_sub(self.next);
        SourceEnd { backlog_ops: due.div_ceil(self.step) as u64, ..SourceEnd::default() }
    }
}

#[cfg(test)]
mod tests;
