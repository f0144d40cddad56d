//! Who lets each completion happen at its time.
//!
//! The **poller** of a server is a thread of its own. A sleep ends late, by 14 to 32 µs at the median and up
//! to 70 µs at p99, so it ends early on purpose, and the rest is spun. An idle machine costs nothing.
//!
//! A connection's thread that looks for its client's next request may take the **lead** meanwhile: it spins
//! anyway, and when it does both, nobody has to be woken between a request and its completion. To wake a
//! thread takes 20 to 50 µs on a virtual machine, and some of that on any.

use crate::counts::Looks;
use crate::served::{Live, NEVER, Sink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// The last part of a wait that is spun, ns.
const SPIN_NS: u64 = 70_000;
/// Who leads spins for what is due within this, ns: to sleep for less, and be woken for it, takes as long.
const LEAD_NS: u64 = 200_000;
/// Who leads lets others run while nothing is due within this, ns.
const YIELD_NS: u64 = 2_000;
/// A client that speaks again within this is waited for awake, ns.
const BRISK_NS: u64 = 80_000;
/// There are processors for more than one thread that spins.
static SPARE: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));
/// An idle poller looks this often whether it shall stop.
const IDLE: Duration = Duration::from_millis(200);

/// See the module. Stops when it is dropped.
#[derive(Debug)]
pub struct Poller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    /// Starts it.
    ///
    /// # Errors
    /// The thread can't be made.
    pub fn start<S: Sink + 'static>(live: &Arc<Live<S>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, live) = (Arc::clone(&stop), Arc::clone(live));
        let work = move || {
            // Sleeps end as near to their time as can be.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            live.is_polled();
            let mut looks = Looks::default();
            while !flag.load(Ordering::Relaxed) {
                turn(&live, &mut looks);
            }
        };
        let thread = std::thread::Builder::new().name("poller".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Waits for the next event and lets it happen; or a part of that.
fn turn<S: Sink>(live: &Live<S>, looks: &mut Looks) {
    if live.is_led() {
        // Who leads wakes it when they leave.
        std::thread::park_timeout(IDLE);
        *looks = Looks::default();
        return;
    }
    let next_ns = live.next_ns();
    let now_ns = live.now_ns();
    *looks = Looks { before_ns: looks.now_ns, now_ns };
    if next_ns <= now_ns {
        live.poll(*looks);
        *looks = Looks::default();
    } else if next_ns - now_ns > SPIN_NS {
        live.sleeps(next_ns);
        // What came before the poller said that it sleeps, it has not been woken for.
        if live.next_ns() >= next_ns {
            let wait = if next_ns == NEVER {
                IDLE
            } else {
                Duration::from_nanos(next_ns - now_ns - SPIN_NS).min(IDLE)
            };
            std::thread::park_timeout(wait);
        }
        live.sleeps(0);
        *looks = Looks::default();
    } else {
        std::hint::spin_loop();
    }
}

/// A connection's thread as the one that does the poller's work, while it looks for its client's next
/// request. It leaves before it sleeps, and when it is dropped.
#[derive(Debug)]
pub struct Lead<S: Sink> {
    live: Arc<Live<S>>,
    leads: bool,
    looks: Looks,
    /// When the client last got something, or said something.
    busy_ns: u64,
    /// The client spoke again soon the last time.
    brisk: bool,
}

impl<S: Sink> Lead<S> {
    /// Whether threads may lead here at all.
    pub fn is_possible() -> bool {
        *SPARE
    }

    /// Nobody leads yet.
    pub fn new(live: Arc<Live<S>>) -> Self {
        Self { live, leads: false, looks: Looks::default(), busy_ns: 0, brisk: false }
    }

    /// The client said something, and it is submitted.
    pub fn heard(&mut self) {
        let now_ns = self.live.now_ns();
        self.brisk = now_ns.saturating_sub(self.busy_ns) < BRISK_NS;
        self.busy_ns = now_ns;
        self.looks = Looks::default();
    }

    /// Lets happen what is due. True when it is worth looking on: the client is `owed` an answer, and something
    /// is due soon; or it may speak soon. Otherwise the lead is left, or was another's.
    pub fn look(&mut self, owed: bool) -> bool {
        if !self.leads {
            self.leads = *SPARE && self.live.take_lead();
            self.looks = Looks::default();
            if !self.leads {
                return false;
            }
        }
        let next_ns = self.live.next_ns();
        let now_ns = self.live.now_ns();
        self.looks = Looks { before_ns: self.looks.now_ns, now_ns };
        if next_ns <= now_ns {
            self.live.poll(self.looks);
            self.looks = Looks::default();
            if owed {
                self.busy_ns = now_ns;
                return true;
            }
        }
        let left_ns = next_ns.saturating_sub(now_ns);
        let soon = owed && left_ns < LEAD_NS;
        let brisk = self.brisk && now_ns.saturating_sub(self.busy_ns) < BRISK_NS;
        if !(soon || brisk) {
            self.leave();
            return false;
        }
        if left_ns > YIELD_NS {
            std::thread::yield_now();
        }
        true
    }

    /// The poller does its work again.
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
