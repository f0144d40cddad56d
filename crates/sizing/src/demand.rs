//! Requirements on a system to be sized: workload, rate, latency limits and other conditions.

use crate::log_demand::LogDemand;
use iodyno_units::OpKind;
use iodyno_workload::{ActiveRange, ArrivalKind, Edge, Process, Spec};

/// Maximum operations per second issued by one simulated worker. An operation costs a core of the catalog's slowest host
/// 4 µs, so the core is at most 40 % busy.
const WORKER_IOPS_MAX: f64 = 100e3;

/// High percentile of response times that a demand can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    P99,
    P999,
}

impl Tail {
    /// The quantile as a fraction, 0 to 1.
    pub const fn quantile(self) -> f64 {
        match self {
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }

    /// Name of the quantile, such as `p99`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }
}

/// Upper bound of a percentile of response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Kind of operation to which the limit applies; `None`: it applies to all kinds together.
    pub of: Option<OpKind>,
    /// Percentile to which the limit applies.
    pub tail: Tail,
    /// Longest response time allowed at that percentile, ns.
    pub ns: u64,
}

/// A component whose loss the system must tolerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// One device in one array.
    Device,
    /// One of the two adapters of a system.
    Adapter,
    /// One of the links between the two adapters of a system.
    Link,
}

impl Loss {
    /// Description of the loss, such as `a device lost`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Device => "a device lost",
            Self::Adapter => "an adapter lost",
            Self::Link => "a lost link between adapters",
        }
    }
}

/// Requirements on a system: workload, rate, latency, capacity and lifetime.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Name of the workload, for display.
    pub name: String,
    /// Recorded run from which the workload was derived; `None`: the workload was not derived from a run.
    pub like: Option<String>,
    /// Message log from which the demand was derived; `None`: the demand was not derived from a log.
    pub log: Option<LogDemand>,
    /// Workload to simulate. The simulation replaces the rate, the arrival process, the queue depth and the limits that
    /// the workload itself specifies.
    pub spec: Spec,
    /// Required operations per second, over all systems together.
    pub rate_iops: f64,
    /// Maximum 99th percentile of the response times of all operations, ns.
    pub p99_ns: u64,
    /// Limits on response times in addition to `p99_ns`.
    pub limits: Vec<Limit>,
    /// Component whose loss must not prevent the system from meeting the demand; `None`: no loss is assumed.
    pub survive: Option<Loss>,
    /// Minimum life of flash devices by their rated endurance, years. `None`: the device's rated life is required; 0:
    /// any life suffices.
    pub life_years: Option<f64>,
    /// Minimum usable capacity, bytes.
    pub capacity_bytes: u64,
    /// Size of the working set on all systems together, bytes; `None`: each array uses the active range that the
    /// workload specifies.
    pub active_bytes: Option<u64>,
}

impl Demand {
    /// Creates a demand with these requirements only. Other limits and conditions may be set afterwards.
    pub const fn new(name: String, spec: Spec, rate_iops: f64, p99_ns: u64) -> Self {
        Self {
            name,
            like: None,
            log: None,
            spec,
            rate_iops,
            p99_ns,
            limits: Vec::new(),
            survive: None,
            life_years: None,
            capacity_bytes: 0,
            active_bytes: None,
        }
    }

    /// Creates the demand of a message log.
    ///
    /// # Errors
    /// The rates and sizes of the log are not possible. The error says why, as a sentence.
    pub fn of_log(log: LogDemand, p99_ns: u64) -> Result<Self, String> {
        let rate_iops = log.reads_per_s() + log.writes_per_s();
        let demand = Self::new("log".to_owned(), log.workload()?, rate_iops, p99_ns);
        Ok(Self { log: Some(log), ..demand })
    }

    /// All limits on response times. The first one is `p99_ns`, which applies to all operations together.
    pub fn all_limits(&self) -> impl Iterator<Item = Limit> + '_ {
        let first = Limit { of: None, tail: Tail::P99, ns: self.p99_ns };
        core::iter::once(first).chain(self.limits.iter().copied())
    }

    /// The longest of the demand's limits on response times, ns.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.all_limits().map(|limit| limit.ns).max().unwrap_or(0)
    }

    /// Returns the workload on one array, with random (Poisson) arrivals, as from independent users. `rate_iops` is the
    /// rate on one system, divided among its `arrays`. The working set is divided among the arrays of all systems:
    /// `all_arrays` arrays of `array_bytes` each.
    pub(crate) fn on_array(
        &self,
        rate_iops: f64,
        arrays: u32,
        all_arrays: u32,
        array_bytes: u64,
    ) -> Result<Spec, String> {
        let rate_iops = rate_iops / f64::from(arrays);
        // By Little's law more operations in flight would exceed the limit; the rest waits before the array.
        let waiting = 8.0 * rate_iops * self.longest_ns() as f64 / 1e9;
        let depth = (waiting as u32).clamp(64, 16_384);
        let threads = self.threads(rate_iops);
        let spec = self.spec.clone().with_threads(threads)?.with_depth(depth.div_ceil(threads))?;
        let spec = match self.active_bytes {
            Some(bytes) => spec.with_active(part(bytes, all_arrays, array_bytes))?,
            None => spec,
        };
        let spec = match spec.arrivals() {
            ArrivalKind::Closed { .. } => spec.with_think_time(0)?,
            ArrivalKind::Open { .. } => spec,
        };
        spec.with_rate(rate_iops, Some(Process::Poisson))
    }

    /// Number of workers that issue `rate_iops`. Only the storage may bind, so enough cores issue the operations.
    pub(crate) fn threads(&self, rate_iops: f64) -> u32 {
        let workers = (rate_iops / WORKER_IOPS_MAX).ceil() as u32;
        self.spec.threads().max(workers)
    }

    /// Mean size of the operations of one kind, bytes; 0 if the workload has none of this kind.
    pub fn mean_bytes(&self, kind: OpKind) -> f64 {
        let blocks = self.spec.blocks(kind);
        let shares: f64 = blocks.iter().map(|block| block.share).sum();
        let sum: f64 = blocks.iter().map(|block| f64::from(block.bytes) * block.share).sum();
        if shares > 0.0 { sum / shares } else { 0.0 }
    }

    /// Bytes per second that are written to all systems together.
    pub(crate) fn write_bytes_per_s(&self) -> f64 {
        let all: f64 = self.spec.kinds().map(|(_, share)| share).sum();
        let writes = self.spec.kinds().filter(|(kind, _)| *kind == OpKind::Write);
        let share: f64 = writes.map(|(_, share)| share).sum();
        self.rate_iops * share / all.max(f64::MIN_POSITIVE) * self.mean_bytes(OpKind::Write)
    }

    /// Fraction of writes among the operations, 0 to 1.
    pub fn write_share(&self) -> f64 {
        let of = |changes: bool| {
            let kinds = self.spec.kinds().filter(|(kind, _)| kind.changes_content() == changes);
            // (The sum of nothing is -0.)
            kinds.map(|kind| kind.1).sum::<f64>() + 0.0
        };
        of(true) / (of(true) + of(false)).max(f64::MIN_POSITIVE)
    }
}

/// Active range at the start of each array if `bytes` are spread evenly over all arrays.
fn part(bytes: u64, all_arrays: u32, array_bytes: u64) -> ActiveRange {
    let each = bytes.div_ceil(u64::from(all_arrays)).next_multiple_of(1 << 20);
    ActiveRange::between(Edge::Bytes(0), Edge::Bytes(each.min(array_bytes)))
}
