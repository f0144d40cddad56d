//! A gauge: the number of resources in use, integrated over time.

/// Counts how many of a set of equal resources are in use, and integrates this number over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    used: u32,
    since_ns: u64,
    area_ns: u64,
}

impl Gauge {
    #[inline]
    pub(crate) fn add(&mut self, now_ns: u64) {
        self.settle(now_ns);
        self.used += 1;
    }

    #[inline]
    pub(crate) fn drop(&mut self, now_ns: u64) {
        self.settle(now_ns);
        self.used -= 1;
    }

    /// Sets the number of resources in use to zero. The integral is kept.
    pub(crate) fn clear(&mut self, now_ns: u64) {
        self.settle(now_ns);
        self.used = 0;
    }

    #[inline]
    fn settle(&mut self, now_ns: u64) {
        self.area_ns += u64::from(self.used) * (now_ns - self.since_ns);
        self.since_ns = now_ns;
    }

    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Returns the time integral of the number in use up to `now_ns`, in resources times ns.
    pub(crate) fn area_ns(&self, now_ns: u64) -> u64 {
        self.area_ns + u64::from(self.used) * (now_ns - self.since_ns)
    }
}
