//! A token bucket in exact integer arithmetic. Levels are multiples of 1e-9 units, so a rate of whole units per
//! second adds an integer in every ns, and nothing is rounded.

/// Resolution of a bucket's level: parts per unit.
const PARTS: i128 = 1_000_000_000;

/// A token bucket. It gains `rate` units a second up to its size, and an operation takes its cost.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Units per second; at least 1.
    rate: u64,
    /// Size, in parts of a unit.
    size: i128,
    /// Level at `at_ns`, in parts of a unit. Negative after an operation that costs more than the bucket holds. Above
    /// the size if the start level exceeds the size, until the excess is used up.
    level: i128,
    at_ns: u64,
    /// Time until `at_ns` during which the bucket was not full, ns.
    filled_ns: u64,
}

impl Bucket {
    /// Creates a bucket with `start` units at time 0.
    pub(super) fn new(rate: u64, size: u64, start: u64) -> Self {
        let parts = |units: u64| i128::from(units) * PARTS;
        Self { rate: rate.max(1), size: parts(size), level: parts(start), at_ns: 0, filled_ns: 0 }
    }

    /// Adds the units gained until `now_ns`.
    pub(super) fn gain(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        if self.level < self.size {
            self.filled_ns += self.to_fill_ns().min(elapsed_ns);
            let gained = i128::from(elapsed_ns) * i128::from(self.rate);
            self.level = (self.level + gained).min(self.size);
        }
    }

    /// Time until the bucket is full if nothing is taken, ns.
    fn to_fill_ns(&self) -> u64 {
        let missing = u128::try_from(self.size - self.level).unwrap_or(0);
        u64::try_from(missing.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX)
    }

    /// Time up to `now_ns` during which the bucket was not full, ns. A server with this rate would be busy for the same
    /// time.
    pub(super) fn busy_ns(&self, now_ns: u64) -> u64 {
        self.filled_ns + self.to_fill_ns().min(now_ns.saturating_sub(self.at_ns))
    }

    /// Returns the earliest time, in ns, at which an operation of this cost can start if no other starts before. An
    /// operation that costs more than the size starts when the bucket is full, and later ones wait until its debt is
    /// paid.
    pub(super) fn ready_ns(&self, cost: u64) -> u64 {
        let needed = (i128::from(cost) * PARTS).min(self.size);
        let missing = u128::try_from(needed - self.level).unwrap_or(0);
        let wait_ns = missing.div_ceil(u128::from(self.rate));
        self.at_ns.saturating_add(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }

    pub(super) fn take(&mut self, cost: u64) {
        self.level -= i128::from(cost) * PARTS;
    }

    /// The level in whole units, rounded down; negative if in debt.
    pub(super) fn units(&self) -> i128 {
        self.level.div_euclid(PARTS)
    }
}
