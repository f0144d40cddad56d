//! Adaptive busy polling of a socket, for both client and server, before the thread sleeps.
//!
//! The peer answers within microseconds, while waking a thread takes longer and costs the peer time too. If both ends
//! sleep, they run in turn; if both poll, they run in parallel.
//!
//! The polling time adapts like the kernel's halt polling (`virt/kvm/kvm_main.c`): it grows after a short wait, and is
//! reset to zero after a long one. The number of polling threads is at most half the number of processors, and polling
//! threads yield to others. Before it sleeps, a thread yields and checks the socket once more: on few processors, the
//! peer may need this thread's processor to send.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum polling time of a server thread. Kept short because the server's other threads need processors.
pub(crate) const POLL_MAX_SERVER: Duration = Duration::from_micros(80);
/// Maximum polling time of a client thread, which only waits for replies: about the time of a flash read.
pub(crate) const POLL_MAX_CLIENT: Duration = Duration::from_micros(250);
/// Polling time after the first short wait.
const POLL_FIRST: Duration = Duration::from_micros(20);

static POLLING: AtomicUsize = AtomicUsize::new(0);
static POLLING_MAX: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from) / 2);

/// Permit to poll. The number of threads that hold one is at most half the number of processors.
struct PollSlot;

impl PollSlot {
    fn take() -> Option<Self> {
        let taken = POLLING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |polling| {
            (polling < *POLLING_MAX).then_some(polling + 1)
        });
        taken.is_ok().then(|| Self)
    }
}

impl Drop for PollSlot {
    fn drop(&mut self) {
        POLLING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adaptive polling time of one thread: grows after short waits, and is reset to zero after a long one.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    polling_time: Duration,
    max: Duration,
}

impl BusyPoll {
    /// Creates the state of a thread that has not waited yet. `max` is its maximum polling time.
    pub(crate) fn new(max: Duration) -> Self {
        Self { polling_time: Duration::ZERO, max }
    }

    /// Returns the result of `get`. Polls with `get(false)` first, then blocks in `get(true)`. If `block` is false,
    /// calls `get(false)` once.
    pub(crate) fn get(
        &mut self,
        block: bool,
        mut get: impl FnMut(bool) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        if !block {
            return get(false);
        }
        let since = Instant::now();
        if !self.polling_time.is_zero()
            && let Some(_slot) = PollSlot::take()
        {
            while since.elapsed() < self.polling_time {
                if let Some(got) = get(false)? {
                    return Ok(Some(got));
                }
                std::thread::yield_now();
            }
        }
        std::thread::yield_now();
        if let Some(got) = get(false)? {
            return Ok(Some(got));
        }
        let got = get(true)?;
        self.waited(since.elapsed());
        Ok(got)
    }

    fn waited(&mut self, time: Duration) {
        self.polling_time = if time > self.max {
            Duration::ZERO
        } else {
            (2 * self.polling_time).clamp(POLL_FIRST, self.max)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_time_grows_with_short_waits_and_ends_with_a_long_one() {
        let mut busy_poll = BusyPoll::new(POLL_MAX_SERVER);
        let short = Duration::from_micros(30);
        for expected in [20, 40, 80, 80] {
            busy_poll.waited(short);
            assert_eq!(busy_poll.polling_time, Duration::from_micros(expected));
        }
        busy_poll.waited(2 * POLL_MAX_SERVER);
        assert_eq!(busy_poll.polling_time, Duration::ZERO);
    }

    /// One test for several cases, because the number of polling threads is global to the process.
    #[test]
    fn input_that_arrives_while_polling_is_taken_without_waiting() {
        POLLING.store(*POLLING_MAX, Ordering::Relaxed);
        assert!(PollSlot::take().is_none());
        let mut asked = Vec::new();
        let mut busy_poll = BusyPoll { polling_time: POLL_MAX_SERVER, max: POLL_MAX_SERVER };
        for (block, all) in [(true, &[false, true][..]), (false, &[false])] {
            asked.clear();
            let got = busy_poll.get(block, |wait| {
                asked.push(wait);
                Ok(wait.then_some(1))
            });
            assert_eq!((got.unwrap(), &asked[..]), (block.then_some(1), all));
        }
        // A thread that got no slot releases none.
        assert_eq!(POLLING.swap(0, Ordering::Relaxed), *POLLING_MAX);
        if *POLLING_MAX == 0 {
            return;
        }
        let long = Duration::from_secs(1000);
        let mut busy_poll = BusyPoll { polling_time: long, max: long };
        let mut polls = 0;
        let got = busy_poll.get(true, |wait| {
            assert!(!wait);
            polls += 1;
            Ok((polls == 3).then_some(28))
        });
        assert_eq!(got.unwrap(), Some(28));
        assert_eq!(POLLING.load(Ordering::Relaxed), 0);
    }
}
