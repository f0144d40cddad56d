//! A server: one thing at a time, in the order in which it is asked.

/// See the module. Time is kept to the ps: whole ns alone would lose up to 1 % on short transfers.
/// A `u64` of them holds 213 days.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_ps: u64,
    /// Busy since the start, what is promised included, ps.
    busy_ps: u64,
}

impl Server {
    /// Takes the server from `now_ns` (or when it is free) for `ps`; gives when that ends, ns.
    /// The order of calls is the order of service: call it when the request is there, not before.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64, ps: u64) -> u64 {
        self.free_ps = self.free_ps.max(now_ns * 1000) + ps;
        self.busy_ps += ps;
        self.free_ps.div_ceil(1000)
    }

    /// What it had promised is void from `now_ns` on.
    pub(crate) fn reset(&mut self, now_ns: u64) {
        self.busy_ps = self.busy_ns(now_ns) * 1000;
        self.free_ps = self.free_ps.min(now_ns * 1000);
    }

    /// When it is free, ns.
    #[inline]
    pub(crate) fn free_ns(&self) -> u64 {
        self.free_ps.div_ceil(1000)
    }

    /// Busy until `now_ns` since the start, ns.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        let ahead = self.free_ps.saturating_sub(now_ns * 1000);
        self.busy_ps.saturating_sub(ahead) / 1000
    }
}

/// How long `bytes` take at a rate, ps.
pub(crate) fn transfer_ps(bytes: u64, bytes_per_s: f64) -> u64 {
    libm::round(bytes as f64 * 1e12 / bytes_per_s) as u64
}

/// A cost by the byte, in 1/4096 ps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerByte(u64);

impl PerByte {
    pub(crate) fn new(ps_per_byte: f64) -> Self {
        Self(libm::round(ps_per_byte * 4096.0) as u64)
    }

    /// What `bytes` cost, ps.
    #[inline]
    pub(crate) fn ps(self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.0) >> 12
    }
}
