//! Simulates the demand on some arrays of a candidate in virtual time. The arrays are intact, or a device or adapter
//! has failed. One simulation is called a cell.
//!
//! Arrivals are random, as from independent users. The measured window is long compared with the latency limit, so
//! that an unsustainable rate shows up as late or incomplete operations.

use crate::candidate::Candidate;
use crate::demand::{Demand, Limit, Loss, Tail};
use crate::search::Tried;
use iodyno_drive::{CellPlan, DriveError, Length, Modelled, Unobserved, drive_failing_model};
use iodyno_emulate::spec::{Kind, Part};
use iodyno_emulate::usage::{Resource, Snapshot};
use iodyno_emulate::{AdapterFault, Fault, Keeps, PartId, System};
use iodyno_measure::offered_rate::rate_met;
use iodyno_measure::{KindSummary, Quantity, Summary};
use iodyno_run::explain::{Share, shares};
use iodyno_run::{Emulated, Files, RunError, emulated};
use iodyno_targets::TargetName;
use iodyno_units::OpKind;
use iodyno_workload::{EmulationOptions, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MS: u64 = 1_000_000;
/// Minimum number of operations in a window for large and for small operations. Their 99th percentile is then
/// known to a few per cent.
const OPS_MIN: (f64, f64) = (1_500.0, 8_000.0);
/// Factor on the minimum number of operations if the 99.9th percentile is limited.
const OPS_P999: f64 = 4.0;
/// Size up to which operations count as small.
const SMALL_BYTES: f64 = 65_536.0;
const WINDOW_NS_MIN: u64 = 20 * MS;
/// Minimum window as a multiple of the latency limit. In an overload, most operations of such a window are
/// late.
const WINDOW_LIMITS: u64 = 10;
/// Minimum ramp for a demand with writes, and without writes, ns.
const RAMP_NS: (u64, u64) = (25 * MS, 10 * MS);
/// Minimum ramp in the search and in longer cells, as a multiple of the time in which writes fill the adapters' cache
/// from the level at which destaging starts. The search thus detects if more than a third of the writes is not
/// destaged. Longer cells double the ramp, and detect a twentieth.
const CACHE_TURNS: (f64, f64) = (3.0, 10.0);
/// Ramp of a cell on cloud volumes, ns: several times the window of their limits' token buckets.
const VOLUME_RAMP_NS: u64 = 1000 * MS;
/// Minimum window of a cell that confirms a result, without and with hard disks, ns.
const CONFIRM_NS_MIN: (u64, u64) = (500 * MS, 30_000 * MS);
/// Maximum length of the warm-up of a cell in the search, in simulated events.
const SEARCH_EVENTS_MAX: u64 = 4_000_000;
/// Maximum virtual time of a cell's window, ns.
const TIME_NS_MAX: f64 = 10_000e9;
/// Maximum net growth of a write buffer or write cache, as a fraction of the data written to it. With faster growth it
/// would fill up.
const FILL_SHARE_MAX: f64 = 0.01;
/// Name of a resource whose utilisation does not show an overload. Disk heads need less time for each command if more
/// commands are queued, and destage the disk's cache whenever they would be idle. A queue that grows or a cache that
/// fills up shows the overload instead.
pub(crate) const HEADS: &str = "heads";

/// Purpose of a simulation, which determines its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Shortest simulation: only decides the next step of a search.
    Search,
    /// Provides results to be shown: twice as long as in the search.
    Shown,
    /// Confirms a result: ten times as long as in the search.
    Confirm,
    /// Checks results in tests: forty times as long as in the search, after an unlimited warm-up.
    Soak,
}

impl Effort {
    /// Ramp and window as multiples of those in the search, then the minimum window, ns.
    fn times(self, has_disks: bool) -> (u64, u64, u64) {
        let confirm_ns = if has_disks { CONFIRM_NS_MIN.1 } else { CONFIRM_NS_MIN.0 };
        match self {
            Self::Search => (1, 1, 0),
            Self::Shown => (2, 2, 0),
            Self::Confirm => (2, 10, confirm_ns),
            Self::Soak => (4, 40, 4 * confirm_ns),
        }
    }
}

/// Condition in which a system is simulated: intact, with a failure, or with a changed setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// Intact, with the write cache on.
    Whole,
    /// A device of the first array is lost.
    DeviceLost,
    /// A device of the first array was replaced and is being rebuilt.
    Rebuild,
    /// One of a system's two adapters is lost, so that the other serves all arrays.
    AdapterLost,
    /// One of the links between a system's two adapters is down.
    LinkLost,
    /// Only this fraction (0 to 1) of the capacity contains data and is accessed. The system is intact.
    Filled(f64),
    /// The adapters' write cache is off.
    CacheOff,
}

impl Condition {
    /// Faults to inject before the cell.
    const fn faults(self) -> &'static [Fault] {
        const LOSE: Fault = Fault::Lose { part: PartId(0) };
        match self {
            Self::DeviceLost => &[LOSE],
            Self::AdapterLost => &[Fault::Adapters(AdapterFault::Lose { adapter: 1 })],
            Self::LinkLost => &[Fault::Adapters(AdapterFault::LinkDown { link: 0 })],
            Self::Rebuild => &[LOSE, Fault::Replace { part: PartId(0) }],
            Self::Whole | Self::Filled(_) | Self::CacheOff => &[],
        }
    }
}

/// State of a simulated system at the start of the measured window.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Injected failure, or changed setting; [`Condition::Whole`] for an intact system.
    pub condition: Condition,
    /// Maximum length of the warm-up, in simulated SSD events.
    pub warm_up_events_max: u64,
}

impl State {
    /// An intact system, with the default limit on the length of the warm-up.
    pub const WHOLE: Self =
        Self { condition: Condition::Whole, warm_up_events_max: CellPlan::WARM_UP_EVENTS_MAX };
}

/// Length of a simulation, and the condition in which the system is simulated.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Purpose of the simulation, which determines its length.
    pub effort: Effort,
    /// Injected failure, or changed setting; [`Condition::Whole`] for an intact system.
    pub condition: Condition,
}

impl From<Loss> for Condition {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Device => Self::DeviceLost,
            Loss::Adapter => Self::AdapterLost,
            Loss::Link => Self::LinkLost,
        }
    }
}

/// Results of a simulation: rates, latencies and utilisation.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Completed operations per second.
    pub iops: f64,
    /// Bytes completed per second.
    pub bytes_per_s: f64,
    /// Mean response time, ns; `None` if nothing completed.
    pub mean_ns: Option<f64>,
    /// 99th percentile of response time, ns; `None` if nothing completed.
    pub p99_ns: Option<f64>,
    /// 99.9th percentile of response time, ns; `None` if nothing completed.
    pub p999_ns: Option<f64>,
    /// For each kind of operation: the 99th and the 99.9th percentile of response time, ns; each is `None` if nothing
    /// completed.
    pub of_kinds: Vec<(OpKind, Option<f64>, Option<f64>)>,
    /// Name of a write buffer or write cache that fills up, because writes arrive faster than they leave; `None` if all
    /// are steady. Read caches that fill up don't count: they only make later reads faster.
    pub fills: Option<String>,
    /// True if the queue at a volume grew throughout the window, so that the rate is not sustainable.
    pub(crate) queue_grows: bool,
    /// Bytes per second that the host wrote.
    pub(crate) host_write_bytes_per_s: f64,
    /// Bytes per second written to one flash device; `None` without flash.
    pub device_write_bytes_per_s: Option<f64>,
    /// Write amplification of the flash devices: pages programmed per page written; `None` without flash.
    pub write_amplification: Option<f64>,
    /// Utilisation of all resources, busiest first.
    pub shares: Vec<Share>,
    /// Highest utilisation among the resources of devices and arrays. More arrays add capacity to these resources.
    pub array_busy: f64,
    /// Names of the resources of devices and arrays.
    array_resources: BTreeSet<&'static str>,
}

impl Measured {
    fn of(modelled: &Modelled) -> Self {
        let system = modelled.machine.system();
        let summary = Summary::of(&modelled.merged());
        let rates: Vec<f64> =
            modelled.cells.iter().map(|cell| Summary::of(cell).ops_per_s).collect();
        let write = summary.kinds.iter().find(|kind| kind.kind == OpKind::Write);
        let of_kind = |kind: &KindSummary| {
            let get = |tail: Tail| kind.response_time.get(Quantity::Quantile(tail.quantile()));
            (kind.kind, get(Tail::P99), get(Tail::P999))
        };
        let counts = modelled.flash_counts();
        let flash_devices =
            system.devices().filter(|d| matches!(d.device.kind, Kind::Flash(_))).count();
        let write_bytes = counts.map(|counts| counts.host_pages as f64 * 4096.0);
        let device_seconds = flash_devices as f64 * modelled.usage.at_ns as f64 / 1e9;
        Self {
            iops: summary.ops_per_s,
            bytes_per_s: summary.bytes_per_s,
            mean_ns: summary.get(Quantity::Mean),
            p99_ns: summary.get(Quantity::Quantile(0.99)),
            p999_ns: summary.get(Quantity::Quantile(0.999)),
            of_kinds: summary.kinds.iter().map(of_kind).collect(),
            fills: fills(modelled),
            queue_grows: modelled.cells.iter().filter_map(rate_met).any(|met| !met.is_met()),
            host_write_bytes_per_s: write.map_or(0.0, |write| write.bytes_per_s),
            device_write_bytes_per_s: write_bytes.map(|bytes| bytes / device_seconds.max(1e-9)),
            write_amplification: counts.map(|counts| counts.write_amplification()),
            array_busy: array_busy(system, &modelled.usage),
            array_resources: array_resources(system, &modelled.usage).map(|of| of.name).collect(),
            shares: shares(system, &modelled.usage, &rates),
        }
    }

    /// Simulated value of the percentile that `limit` restricts, ns; `None` if nothing completed.
    pub fn tail_ns(&self, limit: &Limit) -> Option<f64> {
        let (p99, p999) = match limit.of {
            None => (self.p99_ns, self.p999_ns),
            Some(kind) => {
                let of = self.of_kinds.iter().find(|of| of.0 == kind);
                of.map_or((None, None), |of| (of.1, of.2))
            }
        };
        match limit.tail {
            Tail::P99 => p99,
            Tail::P999 => p999,
        }
    }

    /// Whether the system sustained the rate and met all latency limits of the demand.
    pub fn holds(&self, rate_iops: f64, demand: &Demand) -> bool {
        self.shortfall(rate_iops, demand).is_none()
    }

    /// Whether the resource belongs to devices or arrays, so that more arrays add capacity.
    pub(crate) fn is_of_arrays(&self, share: &Share) -> bool {
        self.array_resources.contains(share.name.as_str())
    }

    pub(crate) fn tried(&self, rate_iops: f64, demand: &Demand) -> Tried {
        let holds = self.holds(rate_iops, demand);
        Tried { holds, iops: self.iops, busy: self.array_busy }
    }
}

/// Name of a write buffer or write cache that filled up in the warm-up or the window, so that the rate is not
/// sustainable; `None` if none did.
fn fills(modelled: &Modelled) -> Option<String> {
    let evidence = &modelled.cells[0].evidence;
    let stores = modelled.machine.stores();
    let is_dirty =
        |name: &str| stores.iter().any(|store| store.keeps == Keeps::Dirty && store.name == name);
    let unsteady = evidence.warm_up.as_ref().and_then(|warm_up| {
        let rises = warm_up.net_share.is_some_and(|share| share > FILL_SHARE_MAX);
        warm_up.unsteady.as_ref().filter(|_| rises)
    });
    let rising = evidence.stores.iter().filter(|level| {
        let gain = level.end_bytes as f64 - level.start_bytes as f64;
        level.one_way && gain > FILL_SHARE_MAX * level.taken_bytes as f64
    });
    let mut all = unsteady.into_iter().chain(rising.map(|level| &level.store));
    all.find(|name| is_dirty(name)).cloned()
}

/// Resources of devices and arrays.
fn array_resources<'a>(
    system: &'a System,
    usage: &'a Snapshot,
) -> impl Iterator<Item = &'a Resource> {
    let all = usage.volumes.iter().flat_map(|volume| &volume.resources);
    all.filter(|resource| {
        let part = resource.part.map(|part| &system.parts[part.index()]);
        matches!(part, Some(Part::Device(_) | Part::Array(_)))
    })
}

/// Computes [`Measured::array_busy`]: averages utilisation over all resources of the same name, and returns
/// the highest mean.
fn array_busy(system: &System, usage: &Snapshot) -> f64 {
    let mut busy: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for resource in array_resources(system, usage).filter(|of| !of.held && of.name != HEADS) {
        let (sum, count) = busy.entry(resource.name).or_default();
        *sum += resource.share(usage.at_ns);
        *count += 1;
    }
    busy.into_values().map(|(sum, count)| sum / f64::from(count)).fold(0.0, f64::max)
}

/// Number of arrays of a candidate: in one system, and in all equal systems together.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    /// Candidate to which the arrays belong.
    pub of: &'a Candidate,
    /// Number of arrays in one system.
    pub arrays: u32,
    /// Number of arrays in all systems together.
    pub all_arrays: u32,
}

impl Arrays<'_> {
    /// Name of the emulated target for simulating the system under a condition.
    pub fn target(&self, condition: Condition) -> String {
        let target = self.of.target(self.arrays);
        match condition {
            Condition::CacheOff if target.contains('?') => format!("{target}&cache=off"),
            Condition::CacheOff => format!("{target}?cache=off"),
            _ => target,
        }
    }
}

/// Simulates one system under its part of a demand.
///
/// # Errors
/// The workload does not fit the system, the system can't be built, or the simulation is interrupted.
pub fn under(
    demand: &Demand,
    arrays: Arrays<'_>,
    rate_iops: f64,
    How { effort, condition }: How,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, RunError> {
    let spec = demand
        .on_array(rate_iops, arrays.arrays, arrays.all_arrays, arrays.of.array_bytes)
        .map_err(|why| RunError::Impossible(format!("{}: {why}", demand.name)))?;
    let window_ns = window_ns(demand, rate_iops);
    let ramp_ns = if demand.write_share() > 0.0 { RAMP_NS.0 } else { RAMP_NS.1 };
    let (turns, events_max) = match effort {
        Effort::Search => (CACHE_TURNS.0, SEARCH_EVENTS_MAX),
        Effort::Shown | Effort::Confirm => (CACHE_TURNS.1, CellPlan::WARM_UP_EVENTS_MAX),
        Effort::Soak => (CACHE_TURNS.1, u64::MAX / 2),
    };
    let ramp_ns = ramp_ns.max((turns * cache_turn_ns(demand, arrays, rate_iops)) as u64);
    let has_disks = matches!(arrays.of.device.device.kind, Kind::Disk(_));
    let (ramps, windows, least_ns) = effort.times(has_disks);
    let length =
        Length { ramp_ns: ramps * ramp_ns, window_ns: (windows * window_ns).max(least_ns) };
    let state = State { condition, warm_up_events_max: events_max };
    run(&arrays.target(condition), spec, length, state, stop)
}

/// Window of a cell in the search, ns.
fn window_ns(demand: &Demand, rate_iops: f64) -> u64 {
    let window_ns = (ops_min(demand) / rate_iops * 1e9).min(TIME_NS_MAX) as u64;
    window_ns.max(WINDOW_NS_MIN).max(WINDOW_LIMITS * demand.longest_ns())
}

/// Length of a cell that confirms cloud volumes. The ramp empties the token buckets of their limits.
pub(crate) fn volume_length(demand: &Demand) -> Length {
    let (_, windows, least_ns) = Effort::Confirm.times(false);
    let window_ns = (windows * window_ns(demand, demand.rate_iops)).max(least_ns);
    Length { ramp_ns: VOLUME_RAMP_NS, window_ns }
}

/// Minimum number of operations in a window. Lower for large operations, each of which costs as much
/// simulation time as many small ones.
fn ops_min(demand: &Demand) -> f64 {
    let reads = 1.0 - demand.write_share();
    let bytes =
        reads * demand.mean_bytes(OpKind::Read) + (1.0 - reads) * demand.mean_bytes(OpKind::Write);
    let times = if demand.all_limits().any(|l| l.tail == Tail::P999) { OPS_P999 } else { 1.0 };
    times * (OPS_MIN.1 * SMALL_BYTES / bytes.max(1.0)).clamp(OPS_MIN.0, OPS_MIN.1)
}

/// Time in which writes at this rate fill the adapters' caches, from the level at which destaging starts to the level
/// at which hosts must wait, ns.
fn cache_turn_ns(demand: &Demand, arrays: Arrays<'_>, rate_iops: f64) -> f64 {
    let Some(adapters) = &arrays.of.adapters else { return 0.0 };
    let Some(cache) = &adapters.cache else { return 0.0 };
    let bytes = f64::from(adapters.count) * cache.destage_ramp_bytes as f64;
    let bytes_per_s = demand.write_share() * rate_iops * demand.mean_bytes(OpKind::Write);
    if bytes_per_s == 0.0 { 0.0 } else { bytes / bytes_per_s * 1e9 }
}

/// Simulates an emulated target. Each of its volumes gets the same workload.
///
/// # Errors
/// The workload does not fit the target, the target can't be built, or the simulation is interrupted.
pub fn run(
    target: &str,
    mut spec: Spec,
    length: Length,
    state: State,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, RunError> {
    let wrong = |why: String| RunError::Impossible(why);
    let condition = state.condition;
    let mut options = EmulationOptions::default();
    if let Condition::Filled(share) = condition {
        options.fill = Some(share);
        let active = format!("0%..{}%", share * 100.0).parse().map_err(wrong)?;
        spec = spec.with_active(active).map_err(wrong)?;
    }
    let mut found = system(target)?;
    if let (Condition::AdapterLost, Some(adapters)) = (condition, &mut found.system.adapters) {
        // The state after the partner has taken over.
        adapters.failover_ns = 0;
    }
    let mut plan = found.experiment(target, spec, length, &options)?;
    plan.warm_up_events_max = Some(state.warm_up_events_max);
    let modelled = drive_failing_model(&plan, condition.faults(), stop, &mut Unobserved)?;
    if stop.load(Ordering::Relaxed) {
        return Err(RunError::Interrupted);
    }
    Ok(Measured::of(&modelled))
}

/// Builds the emulated system that a target's name describes.
fn system(name: &str) -> Result<Emulated, RunError> {
    let (target, mut files) = (TargetName::parse(name)?, Files::default());
    emulated(core::slice::from_ref(&target), &mut files)?.ok_or_else(|| {
        let (target, why) = (name.to_owned(), "the device is not emulated".to_owned());
        RunError::Drive(DriveError::DoesNotFit { target, why })
    })
}
