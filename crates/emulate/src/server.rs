//! A server: serves one request at a time, in the order of calls.
//!
//! Servers keep time in ticks of 1/1024 ns, because whole ns would lose up to 1 % on short transfers. Ticks are
//! converted by a shift; ps would need a division several times per I/O. A `u64` of ticks holds 208 days.

/// Log2 of the number of ticks per ns.
const TICK_BITS: u32 = 10;

#[inline]
pub(crate) const fn ticks(ns: u64) -> u64 {
    ns << TICK_BITS
}

/// Converts ticks to ns, rounded down.
#[inline]
pub(crate) const fn whole_ns(ticks: u64) -> u64 {
    ticks >> TICK_BITS
}

/// Converts ticks to ns, rounded up.
#[inline]
pub(crate) const fn passed_ns(ticks: u64) -> u64 {
    whole_ns(ticks + (1 << TICK_BITS) - 1)
}

/// The schedule of a resource that serves one request at a time, in order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_ticks: u64,
    /// Busy time since the start in ticks, including scheduled work.
    busy_ticks: u64,
}

impl Server {
    /// Occupies the server for `cost_ticks`, starting at `now_ns` or when it becomes free. Returns the end, ns.
    /// Requests are served in the order of calls, so the call must not precede the request's arrival.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64, cost_ticks: u64) -> u64 {
        self.free_ticks = self.free_ticks.max(ticks(now_ns)) + cost_ticks;
        self.busy_ticks += cost_ticks;
        passed_ns(self.free_ticks)
    }

    /// Cancels all scheduled work from `now_ns` on.
    pub(crate) fn reset(&mut self, now_ns: u64) {
        self.busy_ticks = ticks(self.busy_ns(now_ns));
        self.free_ticks = self.free_ticks.min(ticks(now_ns));
    }

    /// Time at which the server becomes free, ns.
    #[inline]
    pub(crate) fn free_ns(&self) -> u64 {
        passed_ns(self.free_ticks)
    }

    /// Busy time from the start to `now_ns`, ns.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        let ahead = self.free_ticks.saturating_sub(ticks(now_ns));
        whole_ns(self.busy_ticks.saturating_sub(ahead))
    }
}

/// Returns the duration of a transfer, in ticks.
pub(crate) fn transfer_ticks(bytes: u64, bytes_per_s: f64) -> u64 {
    libm::round(bytes as f64 * (1e9 * ticks(1) as f64) / bytes_per_s) as u64
}

/// A cost per byte, in units of 1/4096 tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerByte(u64);

impl PerByte {
    pub(crate) fn new(ns_per_byte: f64) -> Self {
        Self(libm::round(ns_per_byte * (4096.0 * ticks(1) as f64)) as u64)
    }

    /// Returns the cost of `bytes` bytes, in ticks.
    #[inline]
    pub(crate) fn ticks(self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.0) >> 12
    }
}
