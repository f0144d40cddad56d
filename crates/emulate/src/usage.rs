//! What the parts of a machine did: which resource is busy, and where the time of an I/O goes.

/// A resource, or several alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What it is, such as `flash channels`.
    pub name: &'static str,
    /// The volume that it belongs to; None: the host's.
    pub volume: Option<u32>,
    /// How many there are.
    pub count: u32,
    /// Busy since the start, all together, ns.
    pub busy_ns: u64,
}

impl Resource {
    /// The share of its time that it was busy since `before` was taken, `elapsed_ns` ago: 0 to 1.
    pub fn share(&self, before: &Self, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 || self.count == 0 {
            return 0.0;
        }
        let busy = self.busy_ns.saturating_sub(before.busy_ns) as f64;
        busy / (elapsed_ns as f64 * f64::from(self.count))
    }
}

/// Time of all I/Os of a volume by phase, and how many there were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// What happens in it, such as `page in the cells`.
    pub name: &'static str,
    /// Reads, writes, or pages of reads: what it is counted by.
    pub of: Of,
    /// Together, ns.
    pub total_ns: u64,
    /// Of how many.
    pub count: u64,
}

/// What a phase is a phase of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// A host's read.
    #[default]
    Read,
    /// One flash page of a host's read.
    PageRead,
    /// A host's write.
    Write,
}

/// How many of something are in use, integrated over time.
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

    /// None is in use any more.
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

    /// Integral up to `now_ns`.
    pub(crate) fn area_ns(&self, now_ns: u64) -> u64 {
        self.area_ns + u64::from(self.used) * (now_ns - self.since_ns)
    }
}
