//! One rate limit: the cost of each operation, and the token buckets that must contain this cost before the operation
//! starts.

use super::bucket::Bucket;
use crate::spec::{Counted, Limit, LimitOf};
use crate::store::{Keeps, Store};
use iodyno_units::{Op, OpKind};

/// A bucket, with the name of the limit that it enforces and the time that requests waited for it.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    pub(super) name: &'static str,
    pub(super) bucket: Bucket,
    /// Whether the bucket holds burst credits.
    holds_credits: bool,
    /// Total time during which the first request of at least one line waited for this bucket, ns. Excludes a wait in
    /// progress.
    waited_ns: u64,
    /// Number of lines whose first request waits for this bucket now, and the time since which at least one does, ns.
    held: (u32, u64),
}

impl Gauge {
    /// Records that the first request of a line begins to wait for the bucket.
    pub(super) fn hold(&mut self, now_ns: u64) {
        self.held = if self.held.0 == 0 { (1, now_ns) } else { (self.held.0 + 1, self.held.1) };
    }

    /// Records that the first request of a line no longer waits for the bucket.
    pub(super) fn release(&mut self, now_ns: u64) {
        self.held.0 -= 1;
        if self.held.0 == 0 {
            self.waited_ns += now_ns - self.held.1;
        }
    }

    /// Returns the time during which the limit was in use, ns. For a rate, this is the time during which its bucket was
    /// not full. For credits, it is the time during which the first request of at least one line waited, because
    /// credits refill even if no request needs them.
    pub(super) fn busy_ns(&self, now_ns: u64) -> u64 {
        if !self.holds_credits {
            return self.bucket.busy_ns(now_ns);
        }
        let held_ns = if self.held.0 > 0 { now_ns.saturating_sub(self.held.1) } else { 0 };
        self.waited_ns + held_ns
    }
}

/// The operation that was counted last, which the next one may continue.
#[derive(Clone, Copy, Debug)]
struct Last {
    kind: OpKind,
    end_bytes: u64,
    /// Bytes of the operation's last accounting unit that are paid for and not yet used.
    room_bytes: u64,
}

/// Names, in reports, of a limit's rate and of its burst rate.
const fn names(limit: &Limit) -> [&'static str; 2] {
    match (limit.counts, limit.of) {
        (Counted::Operations, LimitOf::All) => ["IOPS limit", "IOPS limit while credits last"],
        (Counted::Operations, LimitOf::Reads) => {
            ["IOPS limit of reads", "IOPS limit of reads while credits last"]
        }
        (Counted::Operations, LimitOf::Writes) => {
            ["IOPS limit of writes", "IOPS limit of writes while credits last"]
        }
        (Counted::Bytes, LimitOf::All) => {
            ["throughput limit", "throughput limit while credits last"]
        }
        (Counted::Bytes, LimitOf::Reads) => {
            ["throughput limit of reads", "throughput limit of reads while credits last"]
        }
        (Counted::Bytes, LimitOf::Writes) => {
            ["throughput limit of writes", "throughput limit of writes while credits last"]
        }
    }
}

/// State of one rate limit: its token buckets, and the operation that it counted last.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    of: LimitOf,
    counted: Counted,
    account_bytes: Option<u64>,
    merges: bool,
    last: Option<Last>,
    /// Whether the limit belongs to an instance, whose volumes share it.
    is_shared: bool,
    /// Maximum number of credits; `None` for a limit without credits.
    credits_max: Option<u64>,
    /// Total cost of all operations so far, in units.
    taken: u64,
    /// The limit's token buckets. Without credits: one for the rate. With credits: one for the credits, which gains
    /// the rate, and one for the burst rate.
    pub(super) gauges: Vec<Gauge>,
}

impl Meter {
    /// Creates the meter of a device's own limit.
    pub(super) fn new(limit: &Limit) -> Self {
        Self::named(limit, names(limit), false)
    }

    /// Creates the meter of a limit that the volumes of an instance share.
    pub(super) fn shared(limit: &Limit) -> Self {
        let names = match limit.counts {
            Counted::Operations => {
                ["IOPS limit of the instance", "IOPS limit of the instance while credits last"]
            }
            Counted::Bytes => [
                "throughput limit of the instance",
                "throughput limit of the instance while credits last",
            ],
        };
        Self::named(limit, names, true)
    }

    fn named(limit: &Limit, [rate, burst]: [&'static str; 2], is_shared: bool) -> Self {
        let of_window = |rate: u64| {
            let units = u128::from(rate) * u128::from(limit.window_ns) / 1_000_000_000;
            u64::try_from(units).unwrap_or(u64::MAX).max(1)
        };
        let gauge = |name, rate, most, start, holds_credits| {
            let bucket = Bucket::new(rate, most, start);
            Gauge { name, bucket, holds_credits, waited_ns: 0, held: (0, 0) }
        };
        let full = |name, rate| gauge(name, rate, of_window(rate), of_window(rate), false);
        let gauges = match &limit.credits {
            None => vec![full(rate, limit.rate)],
            Some(credits) => {
                vec![
                    gauge(rate, limit.rate, credits.most, credits.start, true),
                    full(burst, credits.burst),
                ]
            }
        };
        let Limit { of, counts, account_bytes, merges, .. } = *limit;
        let credits_max = limit.credits.as_ref().map(|credits| credits.most);
        Self {
            of,
            counted: counts,
            account_bytes,
            merges,
            last: None,
            is_shared,
            credits_max,
            taken: 0,
            gauges,
        }
    }

    /// Whether the limit counts only reads, or only writes.
    pub(super) fn is_of_one_kind(&self) -> bool {
        self.of != LimitOf::All
    }

    fn counts(&self, kind: OpKind) -> bool {
        match self.of {
            LimitOf::All => true,
            LimitOf::Reads => kind == OpKind::Read,
            LimitOf::Writes => kind != OpKind::Read,
        }
    }

    /// Returns the cost of an operation, in units of the limit.
    fn cost(&self, op: &Op) -> u64 {
        let len_bytes = u64::from(op.len_bytes);
        match (self.account_bytes, self.counted) {
            (None, Counted::Operations) => 1,
            (None, Counted::Bytes) => len_bytes,
            (Some(account_bytes), counts) => {
                let begun = (len_bytes - self.merged_bytes(op)).div_ceil(account_bytes);
                if counts == Counted::Operations { begun } else { begun * account_bytes }
            }
        }
    }

    /// Returns how many bytes of an operation the previous operation has already paid for.
    fn merged_bytes(&self, op: &Op) -> u64 {
        let continued =
            self.last.filter(|last| last.kind == op.kind && last.end_bytes == op.offset_bytes);
        continued.map_or(0, |last| last.room_bytes.min(op.len_bytes.into()))
    }

    /// Returns the time from which the limit allows an operation, and the index of the bucket that is the last to
    /// allow it.
    pub(super) fn ready_ns(&mut self, now_ns: u64, op: &Op) -> (u64, usize) {
        if !self.counts(op.kind) {
            return (now_ns, 0);
        }
        let cost = self.cost(op);
        let mut latest = (now_ns, 0);
        for (index, gauge) in self.gauges.iter_mut().enumerate() {
            gauge.bucket.gain(now_ns);
            let ready_ns = if cost == 0 { now_ns } else { gauge.bucket.ready_ns(cost) };
            if ready_ns > latest.0 {
                latest = (ready_ns, index);
            }
        }
        latest
    }

    /// Returns the burst credits at `now_ns`; `None` without credits.
    pub(super) fn credits(&self, now_ns: u64) -> Option<Store> {
        let (most, mut bucket) = (self.credits_max?, self.gauges.first()?.bucket.clone());
        bucket.gain(now_ns);
        let name = match (self.counted, self.is_shared) {
            (Counted::Operations, false) => "IOPS burst credits",
            (Counted::Bytes, false) => "throughput burst credits",
            (Counted::Operations, true) => "IOPS burst credits of the instance",
            (Counted::Bytes, true) => "throughput burst credits of the instance",
        };
        let held_bytes = u64::try_from(bucket.units()).unwrap_or(0);
        Some(Store {
            name,
            keeps: Keeps::Credits,
            held_bytes,
            capacity_bytes: most,
            passed_bytes: self.taken,
            choice_bytes: 0,
        })
    }

    /// Returns the burst credits left at `now_ns`, as a fraction from 0 to 1 of the most that the limit holds; `None`
    /// without credits.
    pub(super) fn credits_share(&self, now_ns: u64) -> Option<f64> {
        let (most, mut bucket) = (self.credits_max?, self.gauges.first()?.bucket.clone());
        bucket.gain(now_ns);
        Some((bucket.units().max(0) as f64 / most.max(1) as f64).min(1.0))
    }

    /// Charges all buckets of the limit with the cost of an operation.
    pub(super) fn take(&mut self, op: &Op) {
        if !self.counts(op.kind) {
            return;
        }
        let cost = self.cost(op);
        self.taken += cost;
        for gauge in &mut self.gauges {
            gauge.bucket.take(cost);
        }
        if let Some(account_bytes) = self.account_bytes
            && self.merges
        {
            let merged_bytes = self.merged_bytes(op);
            let new_bytes = u64::from(op.len_bytes) - merged_bytes;
            let room_bytes = match self.last {
                Some(last) if new_bytes == 0 => last.room_bytes - merged_bytes,
                _ => new_bytes.next_multiple_of(account_bytes) - new_bytes,
            };
            let end_bytes = op.offset_bytes + u64::from(op.len_bytes);
            self.last = Some(Last { kind: op.kind, end_bytes, room_bytes });
        }
    }
}
