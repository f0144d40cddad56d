//! The poller of a server: a thread that lets each completion happen at its time.
//!
//! A sleep ends late, by 14 to 32 µs at the median and up to 70 µs at p99, so it ends early on
//! purpose, and the rest is spun. An idle machine costs nothing.

use crate::counts::Looks;
use crate::served::{Live, NEVER, Sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The last part of a wait that is spun, ns.
const SPIN_NS: u64 = 70_000;
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

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
