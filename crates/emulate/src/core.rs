//! State shared by the components of a machine: time, the event queue, the requests, the host's cores and driver
//! threads, and completions that are not yet collected.

use crate::adapters::Pair;
use crate::completion::Completion;
use crate::content_event::{ContentEvent, UNIT_BYTES};
use crate::event::Queue;
use crate::part_id::PartId;
use crate::quota::Quota;
use crate::request::{NIL, Origin, Slab, State};
use crate::server::Server;
use crate::spec::Host;
use crate::values::Values;
use iodyno_units::rng::{self, Generator};
use iodyno_units::{IoError, Op};
use std::collections::VecDeque;

/// A driver thread for flash DIMMs, which accepts commands, polls the devices and copies data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// Index of the thread's core among all cores of the host.
    pub core: usize,
    /// Index of the CPU socket on which the thread runs.
    pub socket: u32,
    /// Interval between polls of a device, ns; 0: continuous.
    pub poll_ns: u64,
    /// Interval between polls of a device if the socket has more driver threads than cores, ns; 0:
    /// continuous.
    pub poll_crowded_ns: u64,
}

/// State shared by all components of an emulated machine.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub now: u64,
    pub queue: Queue,
    pub slab: Slab,
    pub done: VecDeque<Completion>,
    /// Child requests that ended during the current event, each with its error. Their parents are
    /// notified before the next event.
    pub ended: VecDeque<(u32, Option<IoError>)>,
    pub cores: Vec<Server>,
    pub threads: Vec<Thread>,
    /// Number of devices. Components numbered below this are devices; the others are arrays, adapter paths and read
    /// caches.
    pub devices: usize,
    /// The RAID adapters, if the system has any.
    pub adapters: Option<Box<Pair>>,
    /// Limits shared by all cloud volumes of the system; `None` without shared limits.
    pub shared: Option<Box<Quota>>,
    /// For each worker, the index of its core.
    pub worker_cores: Vec<usize>,
    /// Time to wake a sleeping worker, ns.
    pub wake_ns: u64,
    pub poll_rng: Generator,
    /// Number of host requests accepted.
    pub submitted: u64,
    /// Number of host requests completed, including failed ones.
    pub completed: u64,
    /// Number of host requests completed with an error.
    pub failed: u64,
    /// Content events that the library's caller has not collected yet; `None` if it does not track content.
    pub changes: Option<Vec<ContentEvent>>,
    /// Values in transit between components; `None` unless content is stored.
    pub values: Option<Box<Values>>,
}

impl Core {
    /// Creates the shared state of a machine. Driver threads and workers are added later.
    pub(crate) fn new(host: &Host, seed: u64) -> Self {
        Self {
            now: 0,
            queue: Queue::new(),
            slab: Slab::new(),
            done: VecDeque::new(),
            ended: VecDeque::new(),
            cores: vec![Server::default(); (host.sockets * host.cores_per_socket) as usize],
            threads: Vec::new(),
            devices: 0,
            adapters: None,
            shared: None,
            worker_cores: Vec::new(),
            wake_ns: host.wake_ns,
            poll_rng: rng::stream(seed, "poll", 0),
            submitted: 0,
            completed: 0,
            failed: 0,
            changes: None,
            values: None,
        }
    }

    /// Records a content event, if the library's caller tracks content.
    #[inline]
    pub(crate) fn tell(&mut self, change: ContentEvent) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// Returns the value that a write gives to a unit: the value stored for the request, otherwise the
    /// request's token.
    pub(crate) fn value(&self, slot: u32, unit: u64) -> u64 {
        let request = &self.slab[slot];
        let own = self.values.as_ref().and_then(|v| v.of(slot, unit - request.at / UNIT_BYTES));
        own.unwrap_or(request.token)
    }

    /// Removes and returns the next completion for the library's caller; `None` if there is none.
    #[inline]
    pub(crate) fn collect(&mut self) -> Option<Completion> {
        let done = self.done.pop_front();
        if let Some(values) = &mut self.values
            && done.is_some()
        {
            values.collected(self.completed - self.done.len() as u64);
        }
        done
    }

    /// Schedules the next event of a request at `time_ns`. `state` is the state that the request
    /// then has, and determines what happens.
    #[inline(always)]
    pub(crate) fn at(&mut self, time_ns: u64, slot: u32, state: State) {
        debug_assert!(time_ns >= self.now, "an event in the past");
        self.slab[slot].state = state;
        self.queue.push(time_ns, slot);
    }

    /// Processes a power failure: drops all requests and the scheduled work of every core.
    pub(crate) fn power_cut(&mut self) {
        if self.names_values() {
            self.end_given();
        }
        self.failed += self.submitted - self.completed;
        self.completed = self.submitted;
        self.queue.clear();
        self.slab = Slab::new();
        self.done.clear();
        self.ended.clear();
        if let Some(shared) = &mut self.shared {
            shared.clear(self.now);
        }
        if let Some(values) = &mut self.values {
            values.power_cut();
        }
        for core in &mut self.cores {
            core.reset(self.now);
        }
    }

    /// Creates a request for the internal work of a component. Returns its index.
    #[inline(always)]
    pub(crate) fn add(&mut self, part: PartId) -> u32 {
        let slot = self.slab.add(part);
        self.queue.reserve(self.slab.len());
        slot
    }

    /// Creates a request to a component, from a host or another component. Returns its index.
    #[inline(always)]
    pub(crate) fn request(&mut self, part: PartId, origin: Origin, op: &Op, token: u64) -> u32 {
        let slot = self.add(part);
        let request = &mut self.slab[slot];
        request.token = token;
        request.at = op.offset_bytes;
        request.len = op.len_bytes;
        request.kind = op.kind;
        request.fua = op.fua;
        request.origin = origin;
        slot
    }

    /// Sends a request to another component on behalf of the request `parent`, as an event at the current time. When
    /// the new request ends, the component of `parent` is notified.
    pub(crate) fn ask(&mut self, part: PartId, parent: u32, op: &Op, token: u64) -> u32 {
        self.ask_at(self.now, part, parent, op, token)
    }

    /// Same as [`Self::ask`], but the request arrives at `at_ns`.
    pub(crate) fn ask_at(
        &mut self,
        at_ns: u64,
        part: PartId,
        parent: u32,
        op: &Op,
        token: u64,
    ) -> u32 {
        let child = self.request(part, Origin::Parent(parent), op, token);
        self.at(at_ns, child, State::Issued);
        child
    }

    /// Returns the host's worker on whose behalf a request is executed; `None` for a component's
    /// internal work.
    pub(crate) fn worker_of(&self, slot: u32) -> Option<u32> {
        let mut request = &self.slab[slot];
        loop {
            let waits = match request.origin {
                Origin::Host { worker, .. } => return Some(worker),
                Origin::Parent(waits) => waits,
                Origin::Own => request.parent,
            };
            if waits == NIL {
                return None;
            }
            request = &self.slab[waits];
        }
    }

    /// Returns the time at which the sender of a request learns that the request ends at `end_ns`. A worker that sleeps
    /// at that time learns it after its wake-up time. Assumes that the worker gets no further work before `end_ns`.
    #[inline(always)]
    pub(crate) fn notified_ns(&self, end_ns: u64, slot: u32) -> u64 {
        let Origin::Host { worker, .. } = self.slab[slot].origin else { return end_ns };
        let on = self.worker_cores[worker as usize];
        if self.cores[on].free_ns() <= end_ns { end_ns + self.wake_ns } else { end_ns }
    }

    /// Completes a request from a host or another component at the current time.
    #[inline(always)]
    pub(crate) fn complete(&mut self, slot: u32, failure: Option<IoError>) {
        let request = &self.slab[slot];
        debug_assert!(request.parent == NIL && !request.internal);
        debug_assert!(request.origin != Origin::Own, "nothing waits for it");
        let Origin::Host { volume, worker } = request.origin else {
            self.ended.push_back((slot, failure));
            return;
        };
        let token = request.token;
        self.done.push_back(Completion { at_ns: self.now, token, volume, worker, failure });
        self.completed += 1;
        if let Some(values) = &mut self.values {
            values.completed(slot, self.completed, failure.is_some());
        }
        self.failed += u64::from(failure.is_some());
        self.slab.remove(slot);
    }
}
