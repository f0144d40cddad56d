//! Accounting of the memory that all clients share, beyond a fixed amount per connection. Each purpose has its own
//! pool, so that none can starve another. A request that gets no memory waits for a moment, uses less, or is refused.
//! While a request waits, a client that holds memory but reads nothing loses that memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a request that waits for memory tries again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Amount of freed memory after which unused heap memory is returned to the operating system, bytes.
const TRIM_BYTES: usize = 32 << 20;
/// Minimum size of buffers that malloc maps directly, so that freeing them immediately returns the memory,
/// bytes.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 128 << 10;

/// Configures malloc to keep little unused memory: limits the number of arenas, and maps large buffers
/// directly.
pub(crate) fn keep_little() {
    #[cfg(target_env = "gnu")]
    {
        let heaps = thread::available_parallelism().map_or(2, usize::from).max(2);
        // SAFETY: both calls only set a parameter of malloc.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, heaps as libc::c_int);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
}

fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only returns free memory to the system.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A pool of the clients' shared memory for one purpose, with its own limit.
#[derive(Debug)]
pub(crate) struct Part {
    max_bytes: usize,
    used_bytes: AtomicUsize,
    /// Number of requests that wait for memory of this pool.
    waiting: AtomicUsize,
    released_bytes: Arc<AtomicUsize>,
}

/// Accounting of the memory that all clients share, in one pool per purpose.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Memory freed since unused heap memory was last returned to the operating system, bytes.
    released_bytes: Arc<AtomicUsize>,
    /// Memory pool for receive buffers.
    pub(crate) received: Arc<Part>,
    /// Memory pool for queued requests and parsed filters.
    pub(crate) requests: Arc<Part>,
    /// Memory pool for snapshots: their references, and the superseded values that they keep alive.
    pub(crate) snapshots: Arc<Part>,
    /// Memory pool for read-ahead buffers.
    pub(crate) readers: Arc<Part>,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let released_bytes = Arc::<AtomicUsize>::default();
        let part = |bytes| {
            Arc::new(Part {
                released_bytes: Arc::clone(&released_bytes),
                max_bytes: bytes,
                used_bytes: AtomicUsize::default(),
                waiting: AtomicUsize::default(),
            })
        };
        Self {
            received: part(bytes / 8),
            requests: part(bytes / 8),
            snapshots: part(bytes / 4),
            readers: part(bytes / 2),
            released_bytes,
        }
    }

    /// Returns unused heap memory to the operating system if much was freed since the last time. Called at
    /// intervals.
    pub(crate) fn trim(&self) {
        if self.released_bytes.load(Ordering::Relaxed) >= TRIM_BYTES {
            self.released_bytes.store(0, Ordering::Relaxed);
            trim();
        }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        let parts = [&self.received, &self.requests, &self.snapshots, &self.readers];
        parts.map(|part| part.used_bytes.load(Ordering::Relaxed)).iter().sum()
    }
}

impl Part {
    /// Reserves memory of the pool; `None` if not enough is left.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut charge = Charge::none(self);
        charge.resize(bytes).then_some(charge)
    }

    /// Reserves memory of the pool. If not enough is left, waits until the deadline or until `goes_on` returns
    /// false.
    pub(crate) fn take_until(
        self: &Arc<Self>,
        bytes: usize,
        deadline: Instant,
        goes_on: impl Fn() -> bool,
    ) -> Option<Charge> {
        let mut charge = Charge::none(self);
        charge.resize_until(bytes, deadline, goes_on).then_some(charge)
    }

    /// Registers a request as waiting for memory. Dropping the returned value ends the registration.
    pub(crate) fn wait(self: &Arc<Self>) -> Waits {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(Arc::clone(self))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Registration of a request that waits for memory; see [`Part::wait`].
#[derive(Debug)]
pub(crate) struct Waits(Arc<Part>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A reservation of memory in a pool, released when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    part: Arc<Part>,
    bytes: usize,
}

impl Charge {
    /// Creates a reservation of 0 bytes in a pool, to be resized later.
    pub(crate) fn none(part: &Arc<Part>) -> Self {
        Self { part: Arc::clone(part), bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the size of the reservation. Returns false, without a change, if the pool has not enough memory
    /// left.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let Part { max_bytes, used_bytes, .. } = &*self.part;
        let before = self.bytes;
        let changed = |used: usize| Some(used - before + bytes);
        let fits = |used: usize| changed(used).filter(|after| *after <= *max_bytes);
        let order = Ordering::Relaxed;
        let is_done = if bytes <= before {
            used_bytes.fetch_update(order, order, changed)
        } else {
            used_bytes.fetch_update(order, order, fits)
        };
        if is_done.is_ok() {
            self.part.released_bytes.fetch_add(before.saturating_sub(bytes), order);
            self.bytes = bytes;
        }
        is_done.is_ok()
    }

    /// Changes the size like [`Self::resize`], but waits for memory until the deadline or until `goes_on` returns
    /// false.
    pub(crate) fn resize_until(
        &mut self,
        bytes: usize,
        deadline: Instant,
        goes_on: impl Fn() -> bool,
    ) -> bool {
        if self.resize(bytes) {
            return true;
        }
        let _waits = self.part.wait();
        loop {
            thread::sleep(LOOK_EVERY);
            if self.resize(bytes) {
                return true;
            }
            if Instant::now() >= deadline || !goes_on() {
                return false;
            }
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.part.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.part.released_bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_limited_and_comes_back() {
        let memory = Memory::new(800);
        let part = &memory.requests;
        let mut first = part.take(60).unwrap();
        assert!(part.take(41).is_none() && !first.resize(101));
        let second = part.take(40).unwrap();
        assert!(first.resize(10) && memory.used_bytes() == 50);
        drop(second);
        assert!(first.resize(100) && !first.resize(101) && first.bytes() == 100);
        // The other parts are unaffected.
        assert!(memory.snapshots.take(200).is_some());
        let now = Instant::now();
        assert!(part.take_until(1, now, || true).is_none() && !part.is_wanted());
        std::thread::scope(|scope| {
            let far = now + Duration::from_secs(60);
            let waits = scope.spawn(move || part.take_until(50, far, || true).is_some());
            while !part.is_wanted() {
                thread::yield_now();
            }
            assert!(first.resize(50));
            assert!(waits.join().unwrap());
        });
        drop(first);
        assert_eq!(memory.used_bytes(), 0);
    }
}
