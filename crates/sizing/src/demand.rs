//! The demand: a workload, its rate, the limit of its latency, and what else a system must have.

use crate::log_demand::LogDemand;
use iodyno_units::OpKind;
use iodyno_workload::{ActiveRange, ArrivalKind, Edge, Process, Spec};

/// The most operations a second that one worker issues: a core of the slowest host takes about a million.
const WORKER_IOPS_MAX: f64 = 250e3;

/// A quantile of response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
}

impl Tail {
    /// As a share, 0 to 1.
    pub const fn quantile(self) -> f64 {
        match self {
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }

    /// `p99`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }
}

/// A limit of response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Of reads or of writes; None: of all operations.
    pub of: Option<OpKind>,
    /// Of which quantile.
    pub tail: Tail,
    /// The most it may be, ns.
    pub ns: u64,
}

/// A part that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A device of one array.
    Device,
    /// An adapter of each pair.
    Adapter,
    /// A link between the adapters of each pair.
    Link,
}

impl Loss {
    /// `a device lost`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Device => "a device lost",
            Self::Adapter => "an adapter lost",
            Self::Link => "a link between adapters lost",
        }
    }
}

/// What a system must do.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The workload's name.
    pub name: String,
    /// The run whose workload it is; None: the workload of that name.
    pub like: Option<String>,
    /// The message log whose demand it is.
    pub log: Option<LogDemand>,
    /// The workload; its loop and its limits are replaced.
    pub spec: Spec,
    /// Operations a second, over the whole system.
    pub rate_iops: f64,
    /// 99 % of all operations take at most this long from their arrival on, ns.
    pub p99_ns: u64,
    /// Further limits.
    pub limits: Vec<Limit>,
    /// The loss with which the demand must be met; None: with all parts.
    pub survive: Option<Loss>,
    /// Years that flash must last by its rating; None: as many as it is rated for; 0: no condition.
    pub life_years: Option<f64>,
    /// Usable bytes, at least.
    pub capacity_bytes: u64,
    /// The bytes that the workload works on, over the whole system; None: those of its active range on each array.
    pub active_bytes: Option<u64>,
}

impl Demand {
    /// That of a message log.
    ///
    /// # Errors
    /// A log that can't be, in a sentence.
    pub fn of_log(log: LogDemand, p99_ns: u64, capacity_bytes: u64) -> Result<Self, String> {
        Ok(Self {
            name: "log".to_owned(),
            like: None,
            log: Some(log),
            spec: log.workload()?,
            rate_iops: log.reads_per_s() + log.writes_per_s(),
            p99_ns,
            limits: Vec::new(),
            survive: None,
            life_years: None,
            capacity_bytes,
            active_bytes: None,
        })
    }

    /// All limits of response times, that of the 99th percentile of all operations first.
    pub fn all_limits(&self) -> impl Iterator<Item = Limit> + '_ {
        let first = Limit { of: None, tail: Tail::P99, ns: self.p99_ns };
        core::iter::once(first).chain(self.limits.iter().copied())
    }

    /// The longest limit, ns.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.all_limits().map(|limit| limit.ns).max().unwrap_or(0)
    }

    /// The workload on one of so many arrays of all systems together, of so many bytes each, which together are offered
    /// `rate_iops`: arrivals are random (Poisson), so what users do.
    pub(crate) fn on_array(
        &self,
        rate_iops: f64,
        arrays: u32,
        all_arrays: u32,
        array_bytes: u64,
    ) -> Result<Spec, String> {
        let rate_iops = rate_iops / f64::from(arrays);
        // By Little's law more than this in flight is over the limit; what comes beyond it waits before the array.
        let waiting = 8.0 * rate_iops * self.longest_ns() as f64 / 1e9;
        let depth = (waiting as u32).clamp(64, 16_384);
        // The demand is the storage's: no core that issues it binds.
        let workers = (rate_iops / WORKER_IOPS_MAX).ceil() as u32;
        let threads = self.spec.threads().max(workers);
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

    /// Bytes of a mean operation of a kind; 0 without any.
    pub fn mean_bytes(&self, kind: OpKind) -> f64 {
        let blocks = self.spec.blocks(kind);
        let shares: f64 = blocks.iter().map(|block| block.share).sum();
        let sum: f64 = blocks.iter().map(|block| f64::from(block.bytes) * block.share).sum();
        if shares > 0.0 { sum / shares } else { 0.0 }
    }

    /// The share of writes among the operations, 0 to 1.
    pub fn write_share(&self) -> f64 {
        let of = |changes: bool| {
            let kinds = self.spec.kinds().filter(|(kind, _)| kind.changes_content() == changes);
            // (The sum of nothing is -0.)
            kinds.map(|kind| kind.1).sum::<f64>() + 0.0
        };
        of(true) / (of(true) + of(false)).max(f64::MIN_POSITIVE)
    }
}

/// The first part of an array, if so many bytes are spread over all.
fn part(bytes: u64, all_arrays: u32, array_bytes: u64) -> ActiveRange {
    let each = bytes.div_ceil(u64::from(all_arrays)).next_multiple_of(1 << 20);
    ActiveRange::between(Edge::Bytes(0), Edge::Bytes(each.min(array_bytes)))
}
