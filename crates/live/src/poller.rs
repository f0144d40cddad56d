//! Polling threads that deliver completions when they are due.
//!
//! The **poller** of a server is a thread of its own. A sleep ends late, by 14 to 32 µs at the median and up to
//! 70 µs at p99, so it ends early on purpose, and the thread spins for the rest. An idle machine costs nothing.
//!
//! A connection's thread that polls for its client's next request may take the **lead** meanwhile: it spins
//! anyway, and when it does both, no thread has to be woken between a request and its completion. Waking a
//! thread takes 20 to 50 µs on a virtual machine, and a part of that on any machine.

use crate::counts::Looks;
use crate::served::{Live, NEVER, Sink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// The last part of a wait, in which the thread spins, ns.
const SPIN_NS: u64 = 70_000;
/// The leading thread spins for what is due within this, ns: a shorter sleep, and its waking, take as long.
const LEAD_NS: u64 = 200_000;
/// The leading thread yields while nothing is due within this, ns.
const YIELD_NS: u64 = 2_000;
/// A client that sends again within this is waited for awake, ns.
const FAST_CLIENT_NS: u64 = 80_000;
/// Whether there are processors for more than one thread that spins.
static MAY_SPIN: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));
/// Interval at which an idle poller checks whether it shall stop.
const IDLE: Duration = Duration::from_millis(200);
/// The longest sleep of a thread that waits without a poller, ns: another thread may cause an earlier event.
const WAIT_SLEEP_NS: u64 = 10_000_000;

/// Delivers completions when they are due, until `is_done`, or until an instant of the clock: the wait of a thread that has no
/// poller.
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

/// Delivers what is due; gives the time of the next event, and now. `looks` counts the polls of a spinning caller.
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

/// The poller's thread; see the module. Stops when it is dropped.
#[derive(Debug)]
pub struct Poller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread can't be created.
    pub fn start<S: Sink + 'static>(live: &Arc<Live<S>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, live) = (Arc::clone(&stop), Arc::clone(live));
        let work = move || {
            // Sleeps shall end as near to their time as possible.
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

/// Waits for the next event and delivers it; or a part of that.
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
        // An operation that came before the poller announced its sleep has not woken it.
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

/// A connection's thread that does the poller's work, while it polls for its client's next request. It leaves
/// the lead before it sleeps, and when it is dropped.
#[derive(Debug)]
pub struct Lead<S: Sink> {
    live: Arc<Live<S>>,
    leads: bool,
    polls: Looks,
    /// When the client last got or sent something.
    busy_ns: u64,
    /// The client spoke again soon the last time.
    is_fast: bool,
}

impl<S: Sink> Lead<S> {
    /// Whether threads may lead here at all.
    pub fn is_possible() -> bool {
        *MAY_SPIN
    }

    /// Does not lead yet.
    pub fn new(live: Arc<Live<S>>) -> Self {
        Self { live, leads: false, polls: Looks::default(), busy_ns: 0, is_fast: false }
    }

    /// The client sent a request, and it is submitted.
    pub fn request_submitted(&mut self) {
        let now_ns = self.live.now_ns();
        self.is_fast = now_ns.saturating_sub(self.busy_ns) < FAST_CLIENT_NS;
        self.busy_ns = now_ns;
        self.polls = Looks::default();
    }

    /// Delivers what is due. True when polling should go on: the client is `owed` an answer, and something is
    /// due soon; or it may send soon. Otherwise the thread leaves the lead, or another thread had it.
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

    /// Returns the work to the poller.
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
