//! What every part of a machine works with: time, the queue of events, the requests, the host's
//! cores and driver threads, and what is done and not yet collected.

use crate::completion::Completion;
use crate::content_event::ContentEvent;
use crate::event::Queue;
use crate::request::{NIL, Slab, State};
use crate::server::Server;
use iodyno_units::IoError;
use iodyno_units::rng::Generator;
use std::collections::VecDeque;

/// A driver thread of flash DIMMs: takes commands in, looks whether data is there, and copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// Its core.
    pub core: usize,
    /// The socket that it runs on.
    pub socket: u32,
    /// How often it looks at a device, ns; 0: all the time.
    pub poll_ns: u64,
    /// The same when the socket has more threads than cores.
    pub poll_crowded_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub now: u64,
    pub queue: Queue,
    pub slab: Slab,
    pub done: VecDeque<Completion>,
    pub cores: Vec<Server>,
    pub threads: Vec<Thread>,
    /// By worker: its core.
    pub worker_cores: Vec<usize>,
    /// Waking a worker that sleeps, ns.
    pub wake_ns: u64,
    pub poll_rng: Generator,
    /// Host requests taken in, and given back.
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    /// What became of written data, where somebody follows it.
    pub changes: Option<Vec<ContentEvent>>,
}

impl Core {
    /// Somebody who follows content is told.
    #[inline]
    pub(crate) fn tell(&mut self, change: ContentEvent) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// The request acts in `state` at `time_ns`.
    #[inline(always)]
    pub(crate) fn at(&mut self, time_ns: u64, slot: u32, state: State) {
        debug_assert!(time_ns >= self.now, "an event in the past");
        self.slab[slot].state = state;
        self.queue.push(time_ns, slot);
    }

    /// The power fails: no request survives, and no core keeps what it had promised.
    pub(crate) fn power_cut(&mut self) {
        self.failed += self.submitted - self.completed;
        self.completed = self.submitted;
        self.queue.clear();
        self.slab = Slab::new();
        self.done.clear();
        for core in &mut self.cores {
            core.reset(self.now);
        }
    }

    /// A new request on a volume.
    #[inline(always)]
    pub(crate) fn add(&mut self, volume: u32) -> u32 {
        let slot = self.slab.add(volume);
        self.queue.reserve(self.slab.len());
        slot
    }

    /// When the worker of a host request hears that it is done at `end_ns`: later if it sleeps then,
    /// for it must be woken. (Asked when the end is scheduled: what else the worker may get to do
    /// until then is not foreseen.)
    #[inline(always)]
    pub(crate) fn heard_ns(&self, end_ns: u64, slot: u32) -> u64 {
        let on = self.worker_cores[self.slab[slot].worker as usize];
        if self.cores[on].free_ns() <= end_ns { end_ns + self.wake_ns } else { end_ns }
    }

    /// A host request is done: now.
    #[inline(always)]
    pub(crate) fn complete(&mut self, slot: u32, failure: Option<IoError>) {
        let request = &self.slab[slot];
        debug_assert!(request.parent == NIL && !request.internal);
        self.done.push_back(Completion {
            at_ns: self.now,
            token: request.token,
            volume: request.volume,
            worker: request.worker,
            failure,
        });
        self.completed += 1;
        self.failed += u64::from(failure.is_some());
        self.slab.remove(slot);
    }
}
