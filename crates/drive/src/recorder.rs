//! Counts a worker's completions by interval, and sends each finished interval to the coordinator. Between two of these
//! messages nothing is allocated, locked or sent.

use crate::cpu::RunDelayReader;
use iodyno_measure::{
    ClassStats, ErrorCounts, ErrorKind, Histogram, Interval, RunDelay, StampQuality,
};
use iodyno_units::{Op, OpKind};
use std::sync::mpsc::Sender;

/// One worker's results for a finished interval, sent to the coordinator.
#[derive(Debug)]
pub(crate) struct IntervalMessage {
    /// Index, in the plan, of the target on which the worker runs.
    pub(crate) target: usize,
    /// Index of the interval in the measured window.
    pub(crate) index: usize,
    /// Statistics of the operations completed in the interval.
    pub(crate) interval: Box<Interval>,
    /// Time in the interval during which the worker waited for a processor, ns. Excludes the normal latency of
    /// wake-ups.
    pub(crate) starved_ns: u64,
}

/// Records one worker's completed operations.
#[derive(Debug)]
pub(crate) struct Recorder {
    target: usize,
    /// Statistics of the current interval, by [`OpKind::index`]. Every kind has an entry, so that counting needs
    /// no branch.
    current: [Box<ClassStats>; OpKind::COUNT],
    index: usize,
    window_start_ns: u64,
    interval_ns: u64,
    interval_end_ns: u64,
    sender: Sender<IntervalMessage>,
    run_delay: Option<RunDelayReader>,
    /// Time in the window during which the worker waited for a processor; `None` in virtual time and if unknown.
    pub(crate) waited: Option<RunDelay>,
    /// Uncertainty of the completions' timestamps.
    pub(crate) stamps: StampQuality,
    /// Delays of submissions after their scheduled times; `None` in closed loop.
    pub(crate) lateness: Option<Box<Histogram>>,
    /// Number of operations that completed in the measured window.
    pub(crate) ops: u64,
    /// Bytes of operations that completed in the measured window.
    pub(crate) bytes: u64,
    /// Number of operations that failed in the measured window.
    pub(crate) errors: u64,
}

/// Successive completions of operations of one kind that have the same timestamps, recorded as one batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) kind: OpKind,
    /// Number of operations in the batch.
    pub(crate) ops: u64,
    /// Bytes of all operations in the batch together.
    pub(crate) bytes: u64,
    /// Time at which the operations were submitted to the engine, ns.
    pub(crate) submitted_ns: u64,
    /// Scheduled start of the operations, ns; in closed loop equal to the submission.
    pub(crate) intended_ns: u64,
}

impl Recorder {
    /// Creates a recorder for one worker of `target`.
    pub(crate) fn new(
        target: usize,
        open: bool,
        interval_ns: u64,
        sender: Sender<IntervalMessage>,
    ) -> Self {
        Self {
            target,
            current: std::array::from_fn(|_| Self::fresh(open)),
            index: 0,
            window_start_ns: 0,
            interval_ns,
            interval_end_ns: u64::MAX,
            sender,
            run_delay: None,
            waited: None,
            stamps: StampQuality::default(),
            lateness: open.then(Box::default),
            ops: 0,
            bytes: 0,
            errors: 0,
        }
    }

    fn fresh(open: bool) -> Box<ClassStats> {
        Box::new(ClassStats { response: open.then(Histogram::new), ..ClassStats::default() })
    }

    /// Starts counting how long the calling thread, which must be the worker's, waits for a processor.
    pub(crate) fn follow_this_thread(&mut self) {
        self.run_delay = RunDelayReader::of_this_thread();
    }

    /// Starts the measured window. Discards what was recorded before, during the ramp.
    pub(crate) fn start_window(&mut self, start_ns: u64) {
        if let Some(reader) = &mut self.run_delay {
            reader.take();
            self.waited = Some(RunDelay::default());
        }
        for class in &mut self.current {
            class.errors = ErrorCounts::default();
        }
        self.window_start_ns = start_ns;
        self.interval_end_ns = start_ns + self.interval_ns;
    }

    /// True if the measured window has started.
    #[inline]
    pub(crate) fn measuring(&self) -> bool {
        self.interval_end_ns != u64::MAX
    }

    /// Counts `run.ops` operations of one kind that have the same timestamps.
    #[inline]
    pub(crate) fn completed(&mut self, run: &Run, completed_ns: u64) {
        if completed_ns >= self.interval_end_ns {
            self.roll(completed_ns);
        }
        let class = &mut self.current[run.kind.index()];
        class.service.record_n(completed_ns.saturating_sub(run.submitted_ns), run.ops);
        class.bytes += run.bytes;
        if let Some(response) = &mut class.response {
            response.record_n(completed_ns.saturating_sub(run.intended_ns), run.ops);
            if let Some(lateness) = &mut self.lateness {
                lateness.record_n(run.submitted_ns.saturating_sub(run.intended_ns), run.ops);
            }
        }
        self.ops += run.ops;
        self.bytes += run.bytes;
    }

    /// True if an operation failed in the ramp and the window has not started.
    pub(crate) fn failed_in_ramp(&self) -> bool {
        !self.measuring() && self.current.iter().any(|class| class.errors.total() > 0)
    }

    /// Counts a failed operation. A failure in the ramp is counted only if the window never starts.
    #[cold]
    pub(crate) fn failed(&mut self, op: &Op, kind: ErrorKind, errno: i32, now_ns: u64) {
        if now_ns >= self.interval_end_ns {
            self.roll(now_ns);
        }
        self.current[op.kind.index()].errors.add(kind, errno);
        self.errors += u64::from(self.measuring());
    }

    /// Sends the current interval, and begins the one that contains `now_ns`.
    #[cold]
    pub(crate) fn roll(&mut self, now_ns: u64) {
        let mut done = Box::new(Interval::default());
        for (class, slot) in self.current.iter_mut().zip(&mut done.classes) {
            if !class.is_empty() {
                *slot = Some(Box::new(class.take_trimmed()));
            }
        }
        let delay = self.run_delay.as_mut().map(RunDelayReader::take).unwrap_or_default();
        if let Some(waited) = &mut self.waited {
            waited.waited_ns += delay.waited_ns;
            waited.waits += delay.waits;
        }
        // Send errors are ignored: the receiver may have exited when the run is being abandoned.
        let _ = self.sender.send(IntervalMessage {
            target: self.target,
            index: self.index,
            interval: done,
            starved_ns: delay.starved_ns(),
        });
        self.index = ((now_ns - self.window_start_ns) / self.interval_ns) as usize;
        self.interval_end_ns = self.window_start_ns + (self.index as u64 + 1) * self.interval_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure in the ramp is counted if the window never starts. Otherwise it is not, because the ramp is not
    /// measured.
    #[test]
    fn failures_of_the_ramp_are_not_of_the_window() {
        let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };
        for (starts, expected) in [(true, 1), (false, 3)] {
            let (sender, receiver) = std::sync::mpsc::channel();
            let mut recorder = Recorder::new(0, false, 1000, sender);
            let fail = |recorder: &mut Recorder, now_ns| {
                recorder.failed(&op, ErrorKind::from_errno(5), 5, now_ns);
            };
            fail(&mut recorder, 10);
            fail(&mut recorder, 20);
            assert!(recorder.failed_in_ramp());
            if starts {
                recorder.start_window(100);
            }
            fail(&mut recorder, 200);
            recorder.roll(1200);
            let failed = receiver.recv().unwrap().interval.errors().total();
            assert_eq!(failed, expected, "the window starts: {starts}");
        }
    }
}
