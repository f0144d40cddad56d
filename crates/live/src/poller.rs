//! Threads that deliver completions when they are due.
//!
//! The **poller** of a server is a separate thread. A sleeping thread wakes 14 to 32 µs late at the median and up to
//! 70 µs late at p99, so the poller sets its timer early, and spins for the rest of the wait. An idle machine costs
//! nothing.
//!
//! A connection's thread that polls for its client's next request may take the **lead**: it delivers completions in
//! place of the poller. No thread then has to be woken between a request and its completion. Waking a thread takes 20
//! to 50 µs on a virtual machine, and somewhat less on a physical one.

use crate::counts::Looks;
use crate::served::{Live, NEVER, Sink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval before the next event during which a waiting thread spins instead of sleeping, ns.
const SPIN_NS: u64 = 70_000;
/// A connection's thread that delivers completions spins if the next event is nearer than this, ns, because
/// sleeping and waking would take longer.
const LEAD_NS: u64 = 200_000;
/// A connection's thread that delivers completions yields its CPU between polls if the next event is further
/// away than this, ns.
const YIELD_NS: u64 = 2_000;
/// Time after a client's last request, or the answer to it, for which the connection's thread polls for the next
/// request without sleeping, ns.
const FAST_CLIENT_NS: u64 = 80_000;
/// Whether this host has more than one CPU, so that connections' threads may spin.
static MAY_SPIN: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));
/// Interval at which an idle poller checks whether it must stop.
const IDLE: Duration = Duration::from_millis(200);
/// Longest sleep of a thread that waits without a poller, ns. An event that another thread schedules earlier is delayed
/// by at most this.
const WAIT_SLEEP_NS: u64 = 10_000_000;

/// Delivers completions when they are due, until `is_done` returns true or the clock reaches `until_ns`. It
/// lets a thread wait in a process that has no poller thread.
pub fn wait<S: Sink>(live: &Live<S>, until_ns: u64, is_done: impl Fn() -> bool) {
    let mut looks = Looks::default();
    while !is_done() {
        let (next_ns, now_ns) = advance(live, &mut looks);
        if now_ns >= until_ns {
            return;
        }
        let wait_ns = next_ns.min(until_ns).saturating_sub(now_ns);
        if wait_ns > 2 * SPIN_NS {
            let ns = (wait_ns - SPIN_NS).min(WAIT_SLEEP_NS);
            std::thread::sleep(Duration::from_nanos(ns));
            looks = Looks::default();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Delivers due completions. Returns the time of the next event and the current time, ns. `looks` holds the caller's
/// last two clock readings, and is updated.
#[inline]
pub fn advance<S: Sink>(live: &Live<S>, looks: &mut Looks) -> (u64, u64) {
    let (next_ns, now_ns) = (live.next_ns(), live.now_ns());
    *looks = Looks { before_ns: looks.now_ns, now_ns };
    if next_ns <= now_ns {
        live.try_poll(*looks);
        *looks = Looks::default();
    }
    (next_ns, now_ns)
}

/// The thread that delivers completions when they are due. Dropping this value stops the thread.
#[derive(Debug)]
pub struct Poller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    /// Starts the poller's thread, which delivers completions when they are due.
    ///
    /// # Errors
    /// The thread can't be created.
    pub fn start<S: Sink + 'static>(live: &Arc<Live<S>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, live) = (Arc::clone(&stop), Arc::clone(live));
        let work = move || {
            // Makes sleeps end as close to their time as possible.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            live.is_polled();
            let mut polls = Looks::default();
            while !flag.load(Ordering::Relaxed) {
                turn(&live, &mut polls);
            }
        };
        let thread = std::thread::Builder::new().name("poller".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// One iteration of the poller's loop. It delivers due completions, or sleeps, or spins once if the next
/// event is near.
fn turn<S: Sink>(live: &Live<S>, polls: &mut Looks) {
    if live.is_led() {
        // The leading thread wakes the poller when it leaves.
        std::thread::park_timeout(IDLE);
        *polls = Looks::default();
        return;
    }
    let next_ns = live.next_ns();
    let now_ns = live.now_ns();
    *polls = Looks { before_ns: polls.now_ns, now_ns };
    if next_ns <= now_ns {
        live.poll(*polls);
        *polls = Looks::default();
    } else if next_ns - now_ns > SPIN_NS {
        live.sleeps(next_ns);
        // An operation submitted before the poller announced its sleep has not woken it.
        if live.next_ns() >= next_ns {
            let wait = if next_ns == NEVER {
                IDLE
            } else {
                Duration::from_nanos(next_ns - now_ns - SPIN_NS).min(IDLE)
            };
            std::thread::park_timeout(wait);
        }
        live.sleeps(0);
        *polls = Looks::default();
    } else {
        std::hint::spin_loop();
    }
}

/// Lets a connection's thread deliver completions in place of the poller. The thread does so while it polls for its
/// client's next request. The thread hands delivery back before it sleeps, and when this value is dropped.
#[derive(Debug)]
pub struct Lead<S: Sink> {
    live: Arc<Live<S>>,
    leads: bool,
    polls: Looks,
    /// Time of the last request from the client, or of the last answer to the client, ns.
    busy_ns: u64,
    /// Whether the client's last request came within [`FAST_CLIENT_NS`] after the request or answer before it.
    is_fast: bool,
}

impl<S: Sink> Lead<S> {
    /// Whether this host has enough CPUs for connections' threads to spin and deliver completions.
    pub fn is_possible() -> bool {
        *MAY_SPIN
    }

    /// Creates the state for a connection's thread. The poller delivers completions until the thread calls
    /// [`Self::poll`].
    pub fn new(live: Arc<Live<S>>) -> Self {
        Self { live, leads: false, polls: Looks::default(), busy_ns: 0, is_fast: false }
    }

    /// Records that the client has submitted a request. From the request's time, [`Self::poll`] decides whether to keep
    /// polling.
    pub fn request_submitted(&mut self) {
        let now_ns = self.live.now_ns();
        self.is_fast = now_ns.saturating_sub(self.busy_ns) < FAST_CLIENT_NS;
        self.busy_ns = now_ns;
        self.polls = Looks::default();
    }

    /// Delivers due completions in place of the poller. Returns true if the caller should keep polling: the client is
    /// `owed` an answer and an event is due soon, or the client's next request may come soon. Returns false if this
    /// thread has handed delivery back to the poller, or another thread delivers.
    pub fn poll(&mut self, owed: bool) -> bool {
        if !self.leads {
            self.leads = *MAY_SPIN && self.live.take_lead();
            self.polls = Looks::default();
            if !self.leads {
                return false;
            }
        }
        let next_ns = self.live.next_ns();
        let now_ns = self.live.now_ns();
        self.polls = Looks { before_ns: self.polls.now_ns, now_ns };
        if next_ns <= now_ns {
            self.live.poll(self.polls);
            self.polls = Looks::default();
            if owed {
                self.busy_ns = now_ns;
                return true;
            }
        }
        let left_ns = next_ns.saturating_sub(now_ns);
        let soon = owed && left_ns < LEAD_NS;
        let is_fast = self.is_fast && now_ns.saturating_sub(self.busy_ns) < FAST_CLIENT_NS;
        if !(soon || is_fast) {
            self.leave();
            return false;
        }
        if left_ns > YIELD_NS {
            std::thread::yield_now();
        }
        true
    }

    /// Stops delivering completions on this thread; the poller takes over again.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.live.leave_lead();
        }
    }
}

impl<S: Sink> Drop for Lead<S> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
