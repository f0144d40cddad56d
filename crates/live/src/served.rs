//! A machine driven by the clock: operations enter it when they are submitted, and completions leave it when they are
//! due in the model.
//!
//! No thread owns the time. Each thread that waits advances the machine to *now*: the poller of a server
//! (`poller.rs`), or a load generator that spins for its completion. [`Live::next_ns`] gives the time of the next
//! event without a lock.
//!
//! - Machine time is the real time since the start, divided by the dilation.
//! - The transport of a frontend takes time on the way in and out. The machine may run ahead by that time
//!   ([`Options::transport`]), so that a completion reaches the client when it is due. The machine advances only to
//!   the times of its events, so an idle machine starts an operation at the time of submission. The time to wake a
//!   thread for a request is deducted from the request's submission time.
//! - The bytes of an operation are copied at its submission, so that a copy does not delay the completion. A read
//!   thus returns the content at submission, as a device may do for concurrent reads and writes. Reads of an array
//!   copy their data at completion, and only into the sink's buffer.
//! - If the machine lags because this computer simulates too slowly, its events are processed in turns of limited
//!   length, and the simulated time is held back ([`Live::held_back_ns`]).
//! - A power cut fails operations in flight, and ends the clients' [attachments](Attached).
//! - Writes that the host refuses do not change the machine's decisions (see `store`). While refused data remains,
//!   operations that need space in the backing file fail too.

mod array_bytes;
mod array_folder;
mod array_operations;
mod attached;
mod clock;
mod faults;
mod interface_faults;
mod limits;
mod operations;
mod resync;
mod shutdown;
mod stores;
mod taken;
mod volume_folder;

pub use array_folder::{ArrayFolder, DescribedArray, volume_folders};
pub use attached::{Attached, Client, HangUp};
pub use stores::{store_of, stores_in_memory, stores_needed};
pub use volume_folder::VolumeFolder;

use crate::counts::{Counts, Looks};
use crate::data_log::DataLog;
use crate::record::Recorder;
use crate::store::Store;
use crate::transport::{Followed, Transport};
use clock::Clock;
pub(crate) use clock::HELD_BACK_SHARE;
use iodyno_emulate::{Fault, Machine, PartId};
use iodyno_units::{IoError, Op};
use limits::Limits;
use operations::{Completed, Inner};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Function that reads a monotonic clock, ns.
pub type Now = fn() -> u64;

/// Value of [`Live::next_ns`] if no event is pending.
pub const NEVER: u64 = u64::MAX;

/// Longest time for which a thread that advances the machine keeps the lock while events are due, ns of real time.
const TURN_NS: u64 = 5_000_000;
/// Number of the machine's steps between two readings of the clock in a turn.
const STEPS_PER_LOOK: u32 = 32;
/// Pause between two turns if events are still due, in which other threads get the lock.
const LAGGING_PAUSE: Duration = Duration::from_micros(100);

/// Receiver of an operation's completion.
pub trait Sink: Send {
    /// Receives the result of an operation. Called in the order of completions, without any lock held.
    fn done(self, result: Result<(), IoError>);

    /// Receives the results of several operations at once. By default, calls [`Self::done`] for each.
    fn all_done(completed: Vec<(Self, Result<(), IoError>)>)
    where
        Self: Sized,
    {
        for (sink, result) in completed {
            sink.done(result);
        }
    }

    /// Destination buffer of a read that was submitted with [`Payload::ReadIntoSink`].
    fn buffer(&mut self) -> &mut [u8] {
        &mut []
    }
}

/// Data buffer of an operation.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Buffer that a read fills at submission; after a failed read its content is undefined. Not for arrays,
    /// whose data is known only at completion: their reads fail unless they use [`Self::ReadIntoSink`].
    Read(&'a mut [u8]),
    /// The read fills [`Sink::buffer`] at completion.
    ReadIntoSink,
    /// Data of a write, copied at submission.
    Write(&'a [u8]),
    /// No data: the volume does not store content, or the operation has no data.
    None,
}

/// Options for running an emulated machine in real time: time scale, and compensation of transport latency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Factor by which all simulated times are stretched in real time, above 0; `None`: 1.
    pub dilation: Option<f64>,
    /// Latency of the transport (such as NBD) to subtract from simulated latencies; `None`: not compensated.
    pub transport: Option<Transport>,
}

/// An emulated machine that runs in real time, with the content of its volumes.
#[derive(Debug)]
pub struct Live<S> {
    inner: Mutex<Inner<S>>,
    next_ns: AtomicU64,
    /// Thread of the poller, for waking it. It sleeps until `asleep_until_ns`; 0 means that it is awake.
    sleeper: Mutex<Option<Thread>>,
    asleep_until_ns: AtomicU64,
    /// Whether a connection's thread delivers completions in place of the poller: see
    /// [`Lead`](crate::poller::Lead).
    led: AtomicBool,
    clock: Clock,
    transport: Followed,
    capacities_bytes: Vec<u64>,
    /// Current size of each volume, and whether the volume is full.
    limits: Box<[Limits]>,
}

impl<S: Sink> Live<S> {
    /// Starts to run a machine in real time. `stores` has one store per device for its content, or is empty. A store
    /// smaller than its device limits the volume's size; an array's members need full-sized stores. If adapters have a
    /// cache, each volume that they present has one more store, of the volume's size, for the cached data.
    ///
    /// # Panics
    /// If the number of stores differs from [`stores_needed`].
    pub fn new(machine: Machine, stores: Vec<Store>, options: &Options, now: Now) -> Self {
        let volumes = machine.volumes();
        let of_machine = (0..volumes).map(|v| machine.capacity_bytes(v));
        let of_stores =
            (0..volumes).map(|v| store_of(&machine, &stores, v).map(Store::capacity_bytes));
        let of_both = of_machine.zip(of_stores);
        let capacities_bytes: Vec<u64> = of_both
            .map(|(device, store)| store.map_or(device, |bytes| bytes.min(device)))
            .collect();
        Self {
            inner: Mutex::new(Inner::new(machine, stores)),
            next_ns: AtomicU64::new(NEVER),
            sleeper: Mutex::new(None),
            asleep_until_ns: AtomicU64::new(0),
            led: AtomicBool::new(false),
            clock: Clock::new(now, options.dilation),
            transport: Followed::new(options.transport),
            limits: capacities_bytes.iter().map(|&bytes| Limits::none(bytes)).collect(),
            capacities_bytes,
        }
    }

    /// Starts recording the operations and faults that the machine receives.
    pub fn record(&self, recorder: Recorder) {
        self.lock().recorder = Some(recorder);
    }

    /// Starts logging the writes of the only volume, with their bytes.
    pub fn log_data(&self, log: DataLog) {
        self.lock().data_log = Some(log);
    }

    /// Writes buffered entries of the record and of the data log to their files, so that they survive a kill of this
    /// process.
    pub fn flush_record(&self) {
        let inner = &mut *self.lock();
        if let Some(recorder) = &mut inner.recorder {
            recorder.flush();
        }
        if let Some(log) = &mut inner.data_log {
            log.flush();
        }
    }

    /// Sets the folder of each array, in which the array's state is saved from now on. Members that a folder
    /// lists as missing are lost immediately; for a member that is itself an array, all its devices are lost.
    pub fn keep_arrays(&self, folders: Vec<(PartId, ArrayFolder)>) {
        let mut lost = BTreeSet::new();
        for (part, folder) in &folders {
            self.look(|machine, _, _| {
                let members = machine.array_state_of(*part).map(|state| state.members);
                let missing = folder.missing();
                let missing = missing.iter().filter_map(|m| members.as_ref()?.get(m).copied());
                lost.extend(missing.flat_map(|member| machine.system().devices_below(member)));
            });
        }
        // A folder that already lists a member as missing is not rewritten.
        for part in lost {
            self.inject(Fault::Lose { part });
        }
        self.lock().folders = folders;
    }

    /// Removes the files and folders that this server created, unless they contain data. Called when a server could not
    /// start.
    pub fn abandon(&self) {
        let inner = self.lock();
        let machine = &inner.machine;
        let is_clean = (0..machine.volumes()).all(|volume| !machine.has_unflushed_rows(volume));
        for store in &inner.stores {
            if is_clean { store.abandon() } else { store.remove_made() }
        }
        inner.folders.iter().for_each(|(_, folder)| folder.remove_made());
    }

    /// Messages about the first failed write to the backing files or memory, and about errors that ended the record or
    /// the data log early.
    pub fn troubles(&self) -> Vec<String> {
        let inner = self.lock();
        let record = inner.recorder.as_ref().and_then(Recorder::failure);
        let log = inner.data_log.as_ref().and_then(DataLog::failure);
        inner.trouble.clone().into_iter().chain(record).chain(log).collect()
    }

    /// Number of volumes that the emulated system presents to its hosts.
    pub fn volumes(&self) -> u32 {
        self.capacities_bytes.len() as u32
    }

    /// Capacity of each volume, bytes, by volume number. A resize does not change them.
    pub fn capacities_bytes(&self) -> &[u64] {
        &self.capacities_bytes
    }

    /// Capacity of a volume, bytes: the capacity of its device or array, or of its store if the store is smaller. A
    /// resize does not change the capacity.
    pub fn capacity_bytes(&self, volume: u32) -> u64 {
        self.capacities_bytes[volume as usize]
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time on the real clock at which the next event must be delivered, ns: the due time minus the transport's
    /// latency. [`NEVER`] if no event is pending. Lock-free.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns.load(Ordering::SeqCst)
    }

    /// Submits an operation. Returns the time on the real clock at which the emulated host issued it, ns.
    pub fn submit(&self, worker: u32, volume: u32, op: &Op, payload: Payload<'_>, sink: S) -> u64 {
        self.submit_of(Client::default(), worker, volume, op, payload, sink)
    }

    /// Submits an operation of a client, like [`Self::submit`]. The operation fails if the client's attachment to the
    /// volume has ended or must report a loss.
    pub fn submit_of(
        &self,
        client: Client<'_>,
        worker: u32,
        volume: u32,
        op: &Op,
        payload: Payload<'_>,
        sink: S,
    ) -> u64 {
        let mut completed = Vec::new();
        let mut inner = self.lock();
        let now_ns = self.now_ns();
        self.advance(&mut inner, now_ns, Looks::default(), &mut completed);
        let refused = client.attached.and_then(|attached| inner.losses.refuse(attached, op));
        let refused = refused.or_else(|| self.refuses(&inner, volume, op));
        let refused = refused.or_else(|| inner.backing_refuses(volume, op));
        let (mut op, mut instead) = (*op, None);
        let met = if let Some(error) = refused {
            Err(error)
        } else {
            let (at_ns, size_bytes) = (self.machine_ns(now_ns), self.size_bytes(volume));
            inner.meets_fault(at_ns, (volume, size_bytes), &mut op, &payload, &mut instead)
        };
        let payload = instead.as_deref().map_or(payload, Payload::Write);
        let met = match met {
            Ok(met) => met,
            Err(error) => {
                inner.counts[volume as usize].errors[op.kind.index()] += 1;
                self.plan(&mut inner);
                drop(inner);
                completed.push((sink, Err(error)));
                deliver(completed);
                return now_ns;
            }
        };
        let at_ns =
            self.machine_ns(now_ns.saturating_sub(client.waited_ns)).max(inner.submitted_ns);
        inner.submitted_ns = at_ns;
        let issued_ns = inner.submit(at_ns, (worker, volume), &op, payload, met, sink);
        self.plan(&mut inner);
        drop(inner);
        deliver(completed);
        self.real_ns(issued_ns)
    }

    /// Delivers due completions. `looks` has the last two clock readings of a spinning caller; other callers pass the
    /// default.
    pub fn poll(&self, looks: Looks) {
        self.deliver_due(self.lock(), looks);
    }

    /// Delivers due completions like [`Self::poll`], but does nothing if another thread holds the lock.
    #[inline]
    pub fn try_poll(&self, looks: Looks) {
        if let Ok(inner) = self.inner.try_lock() {
            self.deliver_due(inner, looks);
        }
    }

    fn deliver_due(&self, mut inner: MutexGuard<'_, Inner<S>>, looks: Looks) {
        let mut completed = Vec::new();
        let lags = self.advance(&mut inner, self.now_ns(), looks, &mut completed);
        self.plan(&mut inner);
        drop(inner);
        deliver(completed);
        if lags {
            // The lock is not fair: without a pause, other threads would never get it.
            std::thread::sleep(LAGGING_PAUSE);
        }
    }

    /// Advances the machine to the real time `now_ns`, but works for about [`TURN_NS`] at most. Returns whether events
    /// are still due then.
    fn advance(
        &self,
        inner: &mut Inner<S>,
        now_ns: u64,
        looks: Looks,
        completed: &mut Completed<S>,
    ) -> bool {
        let ahead_ns = self.transport.ahead_ns();
        // The transport's estimate may have decreased since, but machine time must not.
        let until_ns = self.machine_ns(now_ns.saturating_add(ahead_ns)).max(inner.machine.now_ns());
        let (mut steps, mut lags, mut until_ns) = (0_u32, false, until_ns);
        while let Some(next_ns) = inner.machine.next_event()
            && next_ns <= until_ns
        {
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_LOOK)
                && next_ns > inner.machine.now_ns()
                && self.now_ns().saturating_sub(now_ns) > TURN_NS
            {
                self.hold_back(next_ns);
                lags = true;
                until_ns = next_ns - 1;
                break;
            }
            let done = inner.machine.next_completion(next_ns);
            inner.settle();
            if let Some(done) = done {
                let due_ns = self.real_ns(done.at_ns).saturating_sub(ahead_ns);
                inner.completed(&done, looks.late(due_ns, now_ns), completed);
            }
        }
        while let Some((_, sink, result)) = inner.held.take_due(until_ns) {
            completed.push((sink, result));
        }
        lags
    }

    /// Publishes the time of the next event, and wakes the poller if it would otherwise oversleep.
    fn plan(&self, inner: &mut Inner<S>) {
        let next = [inner.machine.next_event(), inner.held.next_ns()].into_iter().flatten().min();
        let next_ns =
            next.map_or(NEVER, |next| self.real_ns(next).saturating_sub(self.transport.ahead_ns()));
        // The poller makes its two accesses in the opposite order: at least one of the two sees the other's.
        self.next_ns.store(next_ns, Ordering::SeqCst);
        if next_ns < self.asleep_until_ns.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the poller's thread, which delivers completions.
    pub fn wake(&self) {
        let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*sleeper {
            thread.unpark();
        }
    }

    /// Registers the calling thread as the poller.
    pub(crate) fn is_polled(&self) {
        let mut sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        *sleeper = Some(std::thread::current());
    }

    /// Publishes the real time until which the poller sleeps, ns, so that other threads wake it for an earlier
    /// event. 0: the poller is awake.
    pub(crate) fn sleeps(&self, until_ns: u64) {
        self.asleep_until_ns.store(until_ns, Ordering::SeqCst);
    }

    /// Updates the estimate of the transport's latency: a client received an answer `after_ns` after it was sent.
    pub fn taken(&self, after_ns: u64) {
        self.transport.taken(after_ns);
    }

    /// Estimated time to wake a frontend's thread, ns of real time; 0 if the transport is not compensated.
    pub fn waking_ns(&self) -> u64 {
        self.transport.waking_ns()
    }

    /// Current estimate of the transport's latencies; None if they are not compensated.
    pub fn transport(&self) -> Option<Transport> {
        self.transport.now()
    }

    /// Whether a connection's thread delivers completions in place of the poller.
    pub(crate) fn is_led(&self) -> bool {
        self.led.load(Ordering::Acquire)
    }

    /// Lets the calling thread deliver completions in place of the poller. Returns false if another thread
    /// already does.
    pub(crate) fn take_lead(&self) -> bool {
        !self.led.swap(true, Ordering::AcqRel)
    }

    /// Hands the delivery of completions back to the poller, and wakes it.
    pub(crate) fn leave_lead(&self) {
        self.led.store(false, Ordering::Release);
        self.wake();
    }

    /// Returns the largest delivery delay of a volume's completions since the last call, ns of real time, and resets
    /// it.
    pub fn take_longest_late_ns(&self, volume: u32) -> u64 {
        let mut inner = self.lock();
        inner
            .counts
            .get_mut(volume as usize)
            .map_or(0, |of| std::mem::take(&mut of.longest_late_ns))
    }

    /// Advances the machine to the current time, and calls `f` with the machine, the stores and each volume's
    /// counters.
    pub fn look<T>(&self, f: impl FnOnce(&mut Machine, &mut [Store], &[Counts]) -> T) -> T {
        let mut completed = Vec::new();
        let mut inner = self.lock();
        self.advance(&mut inner, self.now_ns(), Looks::default(), &mut completed);
        let Inner { machine, stores, counts, .. } = &mut *inner;
        let seen = f(machine, stores, counts);
        self.plan(&mut inner);
        drop(inner);
        deliver(completed);
        seen
    }
}

fn deliver<S: Sink>(completed: Completed<S>) {
    if !completed.is_empty() {
        S::all_done(completed);
    }
}
