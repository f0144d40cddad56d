//! Timing of a cell in virtual time: ends the warm-up, and begins and ends measured windows and batches. In a pilot (a
//! short measurement before the actual one), clones the machine and its workers before the window.

use super::EventLoop;
use crate::model::due_queue::NEVER;
use crate::model::fork::Begun;
use crate::model::settle::Settling;
use iodyno_measure::Ended;
use iodyno_workload::Source;
use std::sync::atomic::Ordering;

impl<S: Source> EventLoop<'_, S> {
    /// Clones the machine and its workers for a second cell, once. Does nothing after a failed operation: the second
    /// cell must then start from the beginning, to count the failure.
    #[cold]
    pub(super) fn fork(&mut self) {
        let Some(forking) = &mut self.forking else { return };
        if self.control.errors.load(Ordering::Relaxed) > 0 {
            return;
        }
        let begun = Begun {
            due_queue: self.due_queue.clone(),
            now_ns: self.now_ns,
            completions: self.completions,
        };
        forking.make(self.machine, &self.workers, begun);
    }

    /// Sets the start and end of every measured window, relative to `start_ns`.
    pub(super) fn set_windows(&mut self) {
        let (plan, start_ns) = (self.plan, self.start_ns);
        for worker in &mut self.workers {
            let limits = plan.cell_on(worker.target).spec.limits();
            worker.window_start_ns = start_ns + limits.start_after_ns + limits.ramp_ns;
            worker.until_ns = limits.time_ns.map_or(u64::MAX, |t| worker.window_start_ns + t);
        }
        let limits = plan.cell.spec.limits();
        let window_start_ns = start_ns + limits.start_after_ns + limits.ramp_ns;
        self.last_ns = match self.workers.iter().map(|w| w.until_ns).max() {
            // Workers may issue flushes or reads after their last planned operation.
            _ if plan.goes_on_at_end() => u64::MAX,
            None | Some(u64::MAX) => u64::MAX,
            Some(until_ns) => until_ns - 1,
        };
        self.next_window_ns = self.workers.iter().map(|w| w.window_start_ns).min().unwrap_or(NEVER);
        let settle = plan.cell.emulation.settle.as_ref();
        self.settling = settle.map(|s| Settling::new(s, plan.cell.seed, window_start_ns));
        self.bound_ns =
            self.settling.as_ref().map_or(self.last_ns, |s| self.last_ns.min(s.edge_ns - 1));
    }

    /// Ends the warm-up if the fill levels of all buffers and caches have stopped rising or falling. The cell then
    /// starts at the present time.
    #[cold]
    fn check_warm_up(&mut self) {
        let Some(warm_up) = &mut self.warm_up else { return };
        self.now_ns = self.bound_ns;
        let Some(warmed) = warm_up.check(self.machine, self.completions) else {
            self.bound_ns = warm_up.check_ns - 1;
            return;
        };
        (self.warm_up, self.warmed) = (None, Some(warmed));
        self.now_ns = self.bound_ns + 1;
        self.start_ns = self.now_ns;
        if let Some(events) = &self.plan.events {
            events.begin(self.start_ns);
        }
        self.set_windows();
        self.start_later_workers();
        self.pass(self.now_ns);
    }

    /// Abandons the warm-up of a cell that ends during it. Sets the times of windows, which are still missing.
    #[cold]
    pub(super) fn give_up_warm_up(&mut self) {
        if self.warm_up.take().is_some() {
            self.start_ns = self.now_ns;
            self.set_windows();
        }
    }

    /// Starts the sources of workers whose workload has a later start than the cell.
    pub(super) fn start_later_workers(&mut self) {
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let after_ns = self.plan.cell_on(worker.target).spec.limits().start_after_ns;
            if after_ns > 0 {
                worker.source.start(self.start_ns + after_ns);
                self.due_queue.set(index, self.start_ns + after_ns);
            }
        }
    }

    /// Ends a batch of events. May end the warm-up or the cell, or clone the machine and its workers.
    #[cold]
    pub(super) fn end_batch(&mut self) {
        if self.warm_up.is_some() {
            self.check_warm_up();
            return;
        }
        self.pass(self.bound_ns);
        if self.forking.is_some() {
            self.fork();
            self.bound_ns = self.last_ns;
            return;
        }
        let Some(settling) = &mut self.settling else { return };
        let end_ns = self.bound_ns + 1;
        self.settled = settling.next_batch();
        self.bound_ns = self.last_ns.min(settling.edge_ns - 1);
        if self.settled.is_some() {
            self.end_all(end_ns, Ended::Settled);
        }
    }

    #[cold]
    pub(super) fn begin_windows(&mut self) {
        if !self.measuring {
            self.measuring = true;
            self.before = self.machine.snapshot();
            self.levels.take(self.machine);
            if self.plan.cell.spec.log().is_some() {
                self.next_interval_ns = self.next_window_ns;
            }
        }
        let now_ns = self.now_ns;
        while self.next_interval_ns <= now_ns {
            self.by_interval.push(self.machine.snapshot());
            self.next_interval_ns += self.plan.cell.interval_ns();
        }
        for worker in &mut self.workers {
            if worker.measured || worker.window_start_ns > now_ns {
                continue;
            }
            let recorder = &mut self.recorders[worker.target];
            if !recorder.measuring() {
                recorder.start_window(worker.window_start_ns);
            }
            if worker.ended.is_none() {
                worker.begin_window();
            }
        }
        let later = self.workers.iter().map(|w| w.window_start_ns).filter(|&at| at > now_ns);
        self.next_window_ns = later.min().unwrap_or(NEVER).min(self.next_interval_ns);
    }
}
