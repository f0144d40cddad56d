//! Limits costly scans to half of the processors, so that cheap requests are served immediately during any number of
//! scans. Scans wait in order of arrival, and give way to the next after some milliseconds.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Limits the number of concurrent costly scans, and admits waiting scans in order of arrival.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: VecDeque<Arc<Condvar>>,
}

impl State {
    fn wake_first(&self) {
        if let Some(first) = self.waiting.front().filter(|_| self.free > 0) {
            first.notify_one();
        }
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::with_places((processors / 2).max(1))
    }

    pub(crate) fn with_places(free: usize) -> Self {
        Self { state: Mutex::new(State { free, waiting: VecDeque::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to `within` for permission to scan; `None` on timeout.
    pub(crate) fn pass(&self, within: Duration) -> Option<Pass<'_>> {
        let mut state = self.lock();
        if state.free > 0 && state.waiting.is_empty() {
            state.free -= 1;
            return Some(Pass(self));
        }
        let deadline = Instant::now() + within;
        let own = Arc::new(Condvar::new());
        state.waiting.push_back(Arc::clone(&own));
        loop {
            let is_first = state.waiting.front().is_some_and(|first| Arc::ptr_eq(first, &own));
            let passes = is_first && state.free > 0;
            let left = deadline.saturating_duration_since(Instant::now());
            if passes || left.is_zero() {
                state.waiting.retain(|it| !Arc::ptr_eq(it, &own));
                state.free -= usize::from(passes);
                state.wake_first();
                return passes.then(|| Pass(self));
            }
            state = own.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Permission for one costly scan, given back when dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.free += 1;
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_come_back() {
        let gate = Gate::new();
        let mut places: Vec<_> = std::iter::from_fn(|| gate.pass(Duration::ZERO)).collect();
        assert!(!places.is_empty() && gate.pass(Duration::from_millis(1)).is_none());
        places.pop();
        assert!(gate.pass(Duration::ZERO).is_some());
    }

    /// Waiting scans are admitted in order of arrival. A scan that releases its permission and asks again goes
    /// last.
    #[test]
    fn those_that_wait_pass_in_their_order() {
        let gate = Gate::new();
        let far = Duration::from_secs(60);
        let mut places: Vec<_> = std::iter::from_fn(|| gate.pass(Duration::ZERO)).collect();
        let first = places.pop().unwrap();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..3 {
                let (gate, order) = (&gate, &order);
                scope.spawn(move || {
                    let _pass = gate.pass(far).unwrap();
                    order.lock().unwrap().push(number);
                });
                while gate.lock().waiting.len() <= number {
                    thread::yield_now();
                }
            }
            drop(first);
            let _pass = gate.pass(far).unwrap();
            order.lock().unwrap().push(3);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }
}
