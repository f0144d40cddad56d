//! Communication of a rank (process of a run) with the other ranks: gathers and distributes values, shares out jobs,
//! and agrees on the start of a measurement.

use crate::board::Board;
use crate::clock::{ClockOffset, monotonic_ns};
use crate::lost::{Lost, Timing};
use crate::serve::{Command, Event, Server};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Delay between the agreement on a cell's start and the start, ns. Leaves time for messages in transit.
const START_AFTER_NS: u64 = 10_000_000;
/// Additional start delay per rank, ns, because messages are sent one after another and ranks may share
/// processors.
const START_RANK_NS: u64 = 500_000;

/// Interval at which [`Ranks::share_out`] reports how many jobs have begun.
const BEGUN_EVERY: Duration = Duration::from_millis(200);

/// Machine on which a rank runs, or container with its own host name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host name. Reports do not show it.
    pub name: String,
    /// Identifier of the running kernel (boot id). Ranks with the same identifier share a machine, even if host
    /// names differ.
    pub kernel: String,
    /// Number of processors that the rank may use.
    pub cpus: u32,
}

impl Host {
    /// Describes the host of this process.
    pub fn own() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let name = read("/proc/sys/kernel/hostname");
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Self { name, kernel: read("/proc/sys/kernel/random/boot_id"), cpus }
    }
}

/// Start time of a measurement, agreed on by all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonStart {
    /// Start time by this rank's CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// Offset of this rank's clock from rank 0's.
    pub clock: ClockOffset,
}

/// The ranks (processes) of a run, as seen by one of them, and communication with the others.
pub struct Ranks {
    rank: u32,
    hosts: Vec<Host>,
    link: Option<Mutex<Link>>,
    /// Number of batches of jobs distributed so far.
    batches: AtomicU64,
    board: Board,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size())
    }
}

struct Link {
    commands: Sender<Command>,
    events: Receiver<Event>,
    /// For each sending rank, messages that arrived before this rank waited for them.
    early: Vec<VecDeque<Vec<u8>>>,
    clocks: Option<Vec<ClockOffset>>,
    lost: Option<Lost>,
    /// For each rank, true if it has ended.
    left: Vec<bool>,
    /// Indices of jobs assigned to this rank but not begun.
    claimed: VecDeque<u64>,
}

impl Ranks {
    /// Creates the only rank of a run with a single process.
    pub fn alone() -> Self {
        let (hosts, board) = (vec![Host::own()], Board::new(1));
        Self { rank: 0, hosts, link: None, batches: AtomicU64::new(0), board }
    }

    /// Creates rank `rank` of `size`, and the channels for its server thread, which must run [`crate::serve`]. `stop`
    /// is set when a rank is lost.
    pub fn connected(
        rank: u32,
        size: u32,
        timing: Timing,
        stop: Arc<AtomicBool>,
    ) -> (Self, Server) {
        let (command_sender, commands) = channel();
        let (event_sender, events) = channel();
        let early = (0..size).map(|_| VecDeque::new()).collect();
        let left = vec![false; size as usize];
        let link = Link {
            commands: command_sender,
            events,
            early,
            clocks: None,
            lost: None,
            left,
            claimed: VecDeque::new(),
        };
        let hosts = vec![Host::default(); size as usize];
        let (batches, board) = (AtomicU64::new(0), Board::new(size));
        let link = Some(Mutex::new(link));
        let ranks = Self { rank, hosts, link, batches, board: board.clone() };
        (ranks, Server { commands, events: event_sender, timing, board, stop })
    }

    /// Exchanges the descriptions of hosts among all ranks. Must be called once, before any other communication.
    ///
    /// # Errors
    /// A rank is lost.
    pub fn meet(&mut self) -> Result<(), Lost> {
        self.meet_as(&Host::own())
    }

    /// Like [`Self::meet`], but describes this rank's host by `own`, for tests.
    ///
    /// # Errors
    /// A rank is lost.
    pub fn meet_as(&mut self, own: &Host) -> Result<(), Lost> {
        let hosts = self.gather(own)?;
        self.hosts = self.of_first(hosts.as_ref())?;
        Ok(())
    }

    /// Index of this rank among the ranks of the run, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks in the run.
    pub fn size(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// True for rank 0, which makes decisions and stores the results.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// True if there is only one rank.
    pub fn is_alone(&self) -> bool {
        self.hosts.len() == 1
    }

    /// Hosts of all ranks, in rank order.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Collects each rank's value at rank 0. Returns all values, in rank order, at rank 0, and `None` at the other
    /// ranks.
    ///
    /// # Errors
    /// A rank is lost.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Option<Vec<T>>, Lost> {
        self.gather_owned(copied(own))
    }

    fn gather_owned<T: Serialize + DeserializeOwned>(
        &self,
        own: T,
    ) -> Result<Option<Vec<T>>, Lost> {
        let Some(mut link) = self.link() else { return Ok(Some(vec![own])) };
        if self.rank != 0 {
            link.send(0, &own);
            return Ok(None);
        }
        let mut all = vec![own];
        for rank in 1..self.size() {
            all.push(link.value(rank)?);
        }
        Ok(Some(all))
    }

    /// Distributes rank 0's value to all ranks. The argument is ignored at other ranks.
    ///
    /// # Errors
    /// A rank is lost.
    ///
    /// # Panics
    /// If rank 0 passes `None`.
    pub fn of_first<T: Serialize + DeserializeOwned>(&self, value: Option<&T>) -> Result<T, Lost> {
        if self.rank == 0 {
            let value = value.expect("rank 0 gives the value");
            if let Some(link) = self.link() {
                for rank in 1..self.size() {
                    link.send(rank, value);
                }
            }
            return Ok(copied(value));
        }
        let mut link = self.link().expect("every rank above 0 is connected to rank 0");
        link.value(0)
    }

    /// Exchanges values among all ranks. Every rank gets all values, in rank order.
    ///
    /// # Errors
    /// A rank is lost.
    pub fn all<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>, Lost> {
        let gathered = self.gather(own)?;
        self.of_first(gathered.as_ref())
    }

    /// Number of threads that this rank may use for computing. Ranks on the same machine divide its processors.
    pub fn threads_here(&self) -> usize {
        let Host { kernel, cpus, .. } = &self.hosts[self.rank as usize];
        let sharing = self.hosts.iter().filter(|host| host.kernel == *kernel).count();
        (*cpus as usize / sharing.max(1)).max(1)
    }

    /// Number of threads for computing, summed over all ranks.
    pub fn threads_in_all(&self) -> usize {
        let all = self.hosts.iter().map(|own| {
            let sharing = self.hosts.iter().filter(|host| host.kernel == own.kernel).count();
            (own.cpus as usize / sharing.max(1)).max(1)
        });
        all.sum()
    }

    /// Agrees with all ranks on a future start time of a measurement. Returns `None` if `is_ready` is false at some
    /// rank. Every rank must call this once for each measurement, even if the measurement has failed at that rank.
    ///
    /// # Errors
    /// A rank is lost.
    pub fn agree_on_start(&self, is_ready: bool) -> Result<Option<CommonStart>, Lost> {
        let Some(mut link) = self.link() else {
            let now = CommonStart { monotonic_ns: monotonic_ns(), clock: ClockOffset::default() };
            return Ok(is_ready.then_some(now));
        };
        if self.rank != 0 {
            link.send(0, &is_ready);
            return link.value(0);
        }
        let mut are_ready = is_ready;
        for rank in 1..self.size() {
            are_ready &= link.value::<bool>(rank)?;
        }
        let clocks = if are_ready { link.measured_clocks()? } else { Vec::new() };
        let wait_ns = START_AFTER_NS + u64::from(self.size()) * START_RANK_NS;
        let start_ns = monotonic_ns() + wait_ns;
        let start = |clock: &ClockOffset| CommonStart {
            monotonic_ns: clock.of_rank_ns(start_ns),
            clock: *clock,
        };
        for rank in 1..self.size() {
            link.send(rank, &clocks.get(rank as usize).map(start));
        }
        Ok(clocks.first().map(start))
    }

    /// Reports this rank's progress, as a value of any type. Rank 0 receives the latest report within half a second,
    /// and may miss earlier ones.
    pub fn say<T: Serialize>(&self, progress: &T) {
        self.board.write(self.rank, encoded(progress));
    }

    /// Latest progress report of each rank; `None` if the rank has sent none. Meaningful only at rank 0.
    pub fn said<T: DeserializeOwned>(&self) -> Vec<Option<T>> {
        let of = |rank| Some(self.board.read(rank)).filter(|words| !words.is_empty());
        (0..self.size()).map(|rank| of(rank).map(|words| decoded(&words))).collect()
    }

    /// Executes all jobs, each at one of the ranks, and returns the results at all ranks. All ranks must call this with
    /// the same jobs. Rank 0 hands them out in order, one at a time to each of `threads` threads per rank. A result is
    /// `None` if its job did not begin because an earlier one failed. `for_others` reduces a result to the part needed
    /// by ranks other than rank 0. At rank 0, `begun` receives the number of jobs begun at all ranks, several times per
    /// second.
    ///
    /// # Errors
    /// A rank is lost.
    ///
    /// # Panics
    /// If `work` panics.
    pub fn share_out<J: Sync, T, E>(
        &self,
        threads: usize,
        jobs: &[J],
        work: impl Fn(&J) -> Result<T, E> + Sync,
        for_others: impl Fn(&T) -> T,
        begun: &mut dyn FnMut(usize),
    ) -> Result<Vec<Option<Result<T, E>>>, Lost>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Serialize + DeserializeOwned + Send + Clone,
    {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        self.board.set_handed_out(0);
        let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let done: Mutex<Vec<(u64, Result<T, E>)>> = Mutex::default();
        let claim = || {
            if let Some(mut link) = self.link() {
                return link.claim(batch);
            }
            let index = next.fetch_add(1, Ordering::Relaxed);
            self.board.set_handed_out(index + 1);
            Ok(index)
        };
        let of_thread = || -> Result<(), Lost> {
            while !failed.load(Ordering::Relaxed) {
                let index = claim()?;
                let Some(job) = usize::try_from(index).ok().and_then(|at| jobs.get(at)) else {
                    break;
                };
                let result = work(job);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let of_thread = &of_thread;
            let (at_work, ended) = channel::<()>();
            let threads: Vec<_> = (0..threads.clamp(1, jobs.len().max(1)))
                .map(|_| {
                    let at_work = at_work.clone();
                    scope.spawn(move || {
                        let _at_work = at_work;
                        of_thread()
                    })
                })
                .collect();
            drop(at_work);
            // Nothing is ever sent: the channel closes with the last thread.
            while self.is_first()
                && ended.recv_timeout(BEGUN_EVERY) == Err(RecvTimeoutError::Timeout)
            {
                begun(jobs.len().min(self.board.handed_out() as usize));
            }
            let ends = threads.into_iter().map(|thread| thread.join().expect("a job panicked"));
            ends.fold(Ok(()), Result::and)
        })?;
        let own = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Option<Result<T, E>>> = (0..jobs.len()).map(|_| None).collect();
        if self.is_alone() {
            for (index, result) in own {
                all[index as usize] = Some(result);
            }
            return Ok(all);
        }
        if let Some(of_ranks) = self.gather_owned(own)? {
            for (index, result) in of_ranks.into_iter().flatten() {
                all[index as usize] = Some(result);
            }
            let thin = |result: &Result<T, E>| match result {
                Ok(result) => Ok(for_others(result)),
                Err(e) => Err(e.clone()),
            };
            let thin: Vec<Option<Result<T, E>>> =
                all.iter().map(|result| result.as_ref().map(thin)).collect();
            self.of_first(Some(&thin))?;
            return Ok(all);
        }
        self.of_first(None)
    }

    /// Tells the server thread whether the rank is measuring. During a measurement the thread sleeps longer, to
    /// disturb less.
    pub fn measures(&self, measures: bool) {
        if let Some(link) = self.link() {
            let _ = link.commands.send(Command::Quiet(measures));
        }
    }

    pub fn lost(&self) -> Option<Lost> {
        let mut link = self.link()?;
        while let Ok(event) = link.events.try_recv() {
            link.take(event);
        }
        link.lost
    }

    /// Ends this rank's participation in the run, and stops its server thread.
    pub fn leave(&self) {
        if let Some(link) = self.link() {
            let _ = link.commands.send(Command::Leave);
        }
    }

    fn link(&self) -> Option<MutexGuard<'_, Link>> {
        Some(self.link.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Encodes and decodes a value. The result equals the value that another rank receives.
fn copied<T: Serialize + DeserializeOwned>(value: &T) -> T {
    decoded(&encoded(value))
}

/// Encodes a value as CBOR, which supports numbers that JSON does not.
fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("values of a run can be written");
    bytes
}

/// Decodes a value. All ranks run the same version of the program, so they agree on the encoding.
fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> T {
    ciborium::from_reader(bytes).unwrap_or_else(|e| {
        panic!(
            "ranks run different versions of iodyno, or are out of step: {e} in {} bytes",
            bytes.len()
        )
    })
}

impl Link {
    fn send<T: Serialize>(&self, to: u32, value: &T) {
        // If the server thread has ended, the wait for an answer fails.
        let _ = self.commands.send(Command::Send(to, encoded(value)));
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Received(from, message) => self.early[from as usize].push_back(message),
            Event::Clocks(clocks) => self.clocks = Some(clocks),
            Event::Lost(lost) => self.lost = Some(lost),
            Event::Left(rank) => self.left[rank as usize] = true,
            Event::Claimed(index) => self.claimed.push_back(index),
        }
    }

    fn wait<T>(&mut self, mut look: impl FnMut(&mut Self) -> Option<T>) -> Result<T, Lost> {
        loop {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            if let Some(lost) = self.lost {
                return Err(lost);
            }
            match self.events.recv_timeout(Duration::from_secs(1)) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                // This rank's server thread panicked, so this rank itself is lost.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Lost { rank: 0, silent: Duration::ZERO });
                }
            }
        }
    }

    fn value<T: DeserializeOwned>(&mut self, from: u32) -> Result<T, Lost> {
        let bytes = self.wait(|link| {
            let left = Lost { rank: from, silent: Duration::ZERO };
            let message = link.early[from as usize].pop_front().map(Ok);
            message.or_else(|| link.left[from as usize].then_some(Err(left)))
        })?;
        Ok(decoded(&bytes?))
    }

    /// Requests the next job of a batch from rank 0. Returns the job's index.
    fn claim(&mut self, batch: u64) -> Result<u64, Lost> {
        let _ = self.commands.send(Command::Claim(batch));
        self.wait(|link| link.claimed.pop_front())
    }

    fn measured_clocks(&mut self) -> Result<Vec<ClockOffset>, Lost> {
        self.clocks = None;
        let _ = self.commands.send(Command::MeasureClocks);
        self.wait(|link| link.clocks.take())
    }
}
