//! How long either end of a connection looks for what comes next before it sleeps.
//!
//! The other end answers within microseconds, and to be woken takes longer than that, on a virtual
//! machine several times as long; the other end pays for it too, for it has to do the waking. With many
//! requests in flight two ends that sleep take turns, while two that look work at the same time. So where
//! the last waits were short, the thread looks for a while first. How long follows what it met, as the kernel's own halt polling does
//! (`virt/kvm/kvm_main.c`): a wait that looking would have covered makes it longer, one far beyond makes
//! it none. Threads that look are never more than half of the
//! processors, and give way to others; one that may not look gives way once and looks once, for where
//! processors are few the other end has more to say when it has had its turn.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest look of a server, which serves others meanwhile.
pub(crate) const LOOK_MAX_SERVER: Duration = Duration::from_micros(80);
/// The longest look of a client, which is there to see when an answer comes: what flash takes.
pub(crate) const LOOK_MAX_CLIENT: Duration = Duration::from_micros(250);
/// The first look.
const LOOK_FIRST: Duration = Duration::from_micros(20);

static LOOKING: AtomicUsize = AtomicUsize::new(0);
static LOOKING_MAX: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from) / 2);

/// One of the threads that look.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let taken = LOOKING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looking| {
            (looking < *LOOKING_MAX).then_some(looking + 1)
        });
        taken.is_ok().then(|| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    look: Duration,
    max: Duration,
}

impl BusyPoll {
    /// Looks for `max` at most.
    pub(crate) fn new(max: Duration) -> Self {
        Self { look: Duration::ZERO, max }
    }

    /// Gets what `get` brings: by looking for it, then by waiting, which is `get(true)`. With `block`
    /// false, what is there at once.
    pub(crate) fn get(
        &mut self,
        block: bool,
        mut get: impl FnMut(bool) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        if !block {
            return get(false);
        }
        let since = Instant::now();
        if !self.look.is_zero()
            && let Some(_place) = Place::take()
        {
            while since.elapsed() < self.look {
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
        self.look = if time > self.max {
            Duration::ZERO
        } else {
            (2 * self.look).clamp(LOOK_FIRST, self.max)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_short_waits_and_ends_with_a_long_one() {
        let mut patience = BusyPoll::new(LOOK_MAX_SERVER);
        let short = Duration::from_micros(30);
        for expected in [20, 40, 80, 80] {
            patience.waited(short);
            assert_eq!(patience.look, Duration::from_micros(expected));
        }
        patience.waited(2 * LOOK_MAX_SERVER);
        assert_eq!(patience.look, Duration::ZERO);
    }

    /// One test, for the places are the process's.
    #[test]
    fn what_comes_while_it_looks_is_taken_without_waiting() {
        LOOKING.store(*LOOKING_MAX, Ordering::Relaxed);
        assert!(Place::take().is_none());
        let mut asked = Vec::new();
        let mut patience = BusyPoll { look: LOOK_MAX_SERVER, max: LOOK_MAX_SERVER };
        for (block, all) in [(true, &[false, true][..]), (false, &[false])] {
            asked.clear();
            let got = patience.get(block, |wait| {
                asked.push(wait);
                Ok(wait.then_some(1))
            });
            assert_eq!((got.unwrap(), &asked[..]), (block.then_some(1), all));
        }
        // Who got no place gives none back.
        assert_eq!(LOOKING.swap(0, Ordering::Relaxed), *LOOKING_MAX);
        if *LOOKING_MAX == 0 {
            return;
        }
        let long = Duration::from_secs(1000);
        let mut patience = BusyPoll { look: long, max: long };
        let mut looks = 0;
        let got = patience.get(true, |wait| {
            assert!(!wait);
            looks += 1;
            Ok((looks == 3).then_some(28))
        });
        assert_eq!(got.unwrap(), Some(28));
        assert_eq!(LOOKING.load(Ordering::Relaxed), 0);
    }
}
