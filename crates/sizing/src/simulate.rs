//! Cells in virtual time: a demand on some arrays of a candidate, whole or in part failed.
//!
//! Arrivals are random, so response times are those of users; the window is long against the limit of the latency, so
//! that a rate which is not sustained is seen to be late or short.

use crate::candidate::Candidate;
use crate::demand::{Demand, Limit, Loss, Tail};
use crate::search::Tried;
use iodyno_drive::{CellPlan, DriveError, Modelled, TargetPlan, Unobserved, drive_failing_model};
use iodyno_emulate::spec::{Kind, Part};
use iodyno_emulate::usage::Snapshot;
use iodyno_emulate::{AdapterFault, Fault, PartId, System};
use iodyno_measure::{Evidence, KindSummary, Quantity, Summary};
use iodyno_run::explain::{Share, shares};
use iodyno_run::{Emulated, Files, RunError, emulated};
use iodyno_target::TargetName;
use iodyno_units::OpKind;
use iodyno_workload::{CellSpec, EmulationOptions, Spec};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MS: u64 = 1_000_000;
/// Operations of a window, at least, large ones and small ones: their 99th percentile is known to some per cent.
const OPS_MIN: (f64, f64) = (1_500.0, 8_000.0);
/// Times as many for a limit of the 99.9th percentile.
const OPS_P999: f64 = 4.0;
/// Operations up to this many bytes are small.
const SMALL_BYTES: f64 = 65_536.0;
const WINDOW_NS_MIN: u64 = 20 * MS;
/// Length of a window as a multiple of the limit of the latency: where more arrives than completes, most are late then.
const WINDOW_LIMITS: u64 = 10;
/// Ramp for a demand with writes, and without.
const RAMP_NS: (u64, u64) = (25 * MS, 10 * MS);
/// A cache begins where it starts to write to devices; over so many times what is left until hosts wait, more than
/// devices take is seen: a third in the search, and a twentieth (with twice the ramp) in cells that are shown.
const CACHE_TURNS: (f64, f64) = (3.0, 10.0);
/// The shortest window of a cell that confirms an answer: without disks, and with them.
const CONFIRM_NS_MIN: (u64, u64) = (500 * MS, 30_000 * MS);
/// Effort of the warm-up of a cell in the search.
const SEARCH_EVENTS_MAX: u64 = 4_000_000;
/// The most virtual time of a cell's window.
const TIME_NS_MAX: f64 = 10_000e9;
/// What works itself is busy for this share of the time, at most, where a rate can be sustained: a buffer before it
/// hides for a while that it can't.
const BUSY_MAX: f64 = 0.98;
/// A store that keeps more than this share of what it takes in will be full.
const FILL_SHARE_MAX: f64 = 0.01;
/// The resource that works ahead: a disk writes what its cache holds whenever it has nothing else to do. That it is busy
/// all the time says nothing; whether the cache fills does.
pub(crate) const WORKS_AHEAD: &str = "heads";
/// The share of a rate that has to be completed; arrivals are random to about 1 %.
const COMPLETED_SHARE: f64 = 0.97;

/// How long a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// To decide what is tried next.
    Search,
    /// To show its figures.
    Shown,
    /// To confirm an answer: ten times as long as in the search.
    Confirm,
    /// To check answers in tests: forty times as long, after a warm-up of any length.
    Soak,
}

impl Effort {
    /// Length of ramp and window as multiples of those in the search; of the window at least so many ns.
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

/// The state of a system that a cell finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// All is well.
    Whole,
    /// A device of the first array is lost.
    DeviceLost,
    /// It was replaced, and is rebuilt.
    Rebuild,
    /// One adapter serves all arrays.
    AdapterLost,
    /// A link between the adapters is down.
    LinkLost,
    /// This share of the capacity holds data, 0 to 1, and is used.
    Filled(f64),
    /// The adapters' cache is off.
    CacheOff,
}

impl Condition {
    /// With the usual effort of a warm-up.
    pub fn alone(self) -> (Self, u64) {
        (self, CellPlan::WARM_UP_EVENTS_MAX)
    }
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

/// What a cell gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations completed a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Response time, ns: the mean and the 99th percentile; None where nothing completed.
    pub mean_ns: Option<f64>,
    /// See `mean_ns`.
    pub p99_ns: Option<f64>,
    /// See `mean_ns`: the 99.9th percentile.
    pub p999_ns: Option<f64>,
    /// By kind of operation: the 99th and the 99.9th percentile, ns.
    pub of_kinds: Vec<(OpKind, Option<f64>, Option<f64>)>,
    /// A buffer or cache that fills: what arrives is more than what is done.
    pub fills: Option<String>,
    /// Some resource is busy because it works ahead.
    works_ahead: bool,
    /// Bytes a second that hosts and arrays write to each flash device; None without such devices.
    pub device_write_bytes_per_s: Option<f64>,
    /// Pages programmed for each page that a flash device is given.
    pub write_amplification: Option<f64>,
    /// Every resource, the busiest first.
    pub shares: Vec<Share>,
    /// The largest busy share of the devices' resources and the arrays' own, of which there are more with more arrays.
    pub array_busy: f64,
}

impl Measured {
    fn of(modelled: &Modelled, system: &System) -> Self {
        let mut all = modelled.cells[0].clone();
        modelled.cells[1..].iter().for_each(|cell| all.merge(cell));
        let summary = Summary::of(&all);
        let of_kind = |kind: &KindSummary| {
            let get = |tail: Tail| kind.response_time.get(Quantity::Quantile(tail.quantile()));
            (kind.kind, get(Tail::P99), get(Tail::P999))
        };
        let counts =
            modelled.usage.volumes.iter().filter_map(|v| v.counts).reduce(|a, b| a.plus(&b));
        let flash_devices =
            system.devices().filter(|d| matches!(d.device.kind, Kind::Flash(_))).count();
        let write_bytes = counts.map(|counts| counts.host_pages as f64 * 4096.0);
        let device_seconds = flash_devices as f64 * modelled.usage.at_ns as f64 / 1e9;
        let works_ahead = system
            .devices()
            .any(|d| matches!(&d.device.kind, Kind::Disk(disk) if disk.write_cache));
        Self {
            iops: summary.ops_per_s,
            bytes_per_s: summary.bytes_per_s,
            mean_ns: summary.get(Quantity::Mean),
            p99_ns: summary.get(Quantity::Quantile(0.99)),
            p999_ns: summary.get(Quantity::Quantile(0.999)),
            of_kinds: summary.kinds.iter().map(of_kind).collect(),
            fills: fills(&modelled.cells[0].evidence),
            works_ahead,
            device_write_bytes_per_s: write_bytes.map(|bytes| bytes / device_seconds.max(1e-9)),
            write_amplification: counts.map(|counts| counts.write_amplification()),
            array_busy: array_busy(system, &modelled.usage, works_ahead),
            shares: shares(system, &modelled.usage, summary.ops_per_s),
        }
    }

    /// The quantile that a limit is about, ns.
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

    /// Whether it holds a rate within the limits of a demand.
    pub fn holds(&self, rate_iops: f64, demand: &Demand) -> bool {
        let idle_heads = |name: &str| self.works_ahead && name.starts_with(WORKS_AHEAD);
        let mut active = self.shares.iter().filter(|share| !share.held && !idle_heads(&share.name));
        let is_sustained = self.fills.is_none() && active.all(|share| share.busy <= BUSY_MAX);
        let is_in_time =
            |limit: Limit| self.tail_ns(&limit).is_some_and(|ns| ns <= limit.ns as f64);
        is_sustained
            && demand.all_limits().all(is_in_time)
            && self.iops >= COMPLETED_SHARE * rate_iops
    }

    pub(crate) fn tried(&self, rate_iops: f64, demand: &Demand) -> Tried {
        let holds = self.holds(rate_iops, demand);
        Tried { holds, iops: self.iops, busy: self.array_busy }
    }

    /// What limits it as its load grows: the busiest resource that works itself.
    pub fn binds(&self) -> Option<&Share> {
        self.shares.iter().find(|share| !share.held)
    }
}

/// The store that kept more of what it took in than a rate that is sustained allows, in the warm-up or over the window.
fn fills(evidence: &Evidence) -> Option<String> {
    let unsteady = evidence.warm_up.as_ref().and_then(|warm_up| {
        let rises = warm_up.net_share.is_some_and(|share| share > FILL_SHARE_MAX);
        warm_up.unsteady.clone().filter(|_| rises)
    });
    let rising = evidence.stores.iter().find(|level| {
        let gain = level.end_bytes as f64 - level.start_bytes as f64;
        level.one_way && gain > FILL_SHARE_MAX * level.taken_bytes as f64
    });
    unsteady.or_else(|| rising.map(|level| level.store.clone()))
}

/// See [`Measured::array_busy`]: by resource the mean over all that work themselves.
fn array_busy(system: &System, usage: &Snapshot, works_ahead: bool) -> f64 {
    let mut busy: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for resource in usage.volumes.iter().flat_map(|volume| &volume.resources) {
        let part = resource.part.map(|part| &system.parts[part.index()]);
        let is_ahead = works_ahead && resource.name == WORKS_AHEAD;
        if matches!(part, Some(Part::Device(_) | Part::Array(_))) && !resource.held && !is_ahead {
            let (sum, count) = busy.entry(resource.name).or_default();
            *sum += resource.share(usage.at_ns);
            *count += 1;
        }
    }
    busy.into_values().map(|(sum, count)| sum / f64::from(count)).fold(0.0, f64::max)
}

/// Some arrays of a candidate; `all_arrays` are those of all systems beside one another.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    /// Of this kind.
    pub of: &'a Candidate,
    /// So many in this system.
    pub arrays: u32,
    /// Those of all systems.
    pub all_arrays: u32,
}

impl Arrays<'_> {
    /// The name of the system as a target.
    pub fn target(&self, condition: Condition) -> String {
        let cache = if condition == Condition::CacheOff { "?cache=off" } else { "" };
        format!("{}{cache}", self.of.target(self.arrays))
    }
}

/// One system under its share of a demand.
///
/// # Errors
/// A workload that does not fit, a system that can't be built, and an interruption.
pub fn under(
    demand: &Demand,
    arrays: Arrays<'_>,
    rate_iops: f64,
    (effort, condition): (Effort, Condition),
    stop: &Arc<AtomicBool>,
) -> Result<Measured, RunError> {
    let spec = demand
        .on_array(rate_iops, arrays.arrays, arrays.all_arrays, arrays.of.array_bytes)
        .map_err(|why| RunError::Impossible(format!("{}: {why}", demand.name)))?;
    let window_ns = (ops_min(demand) / rate_iops * 1e9).min(TIME_NS_MAX) as u64;
    let window_ns = window_ns.max(WINDOW_NS_MIN).max(WINDOW_LIMITS * demand.longest_ns());
    let ramp_ns = if demand.write_share() > 0.0 { RAMP_NS.0 } else { RAMP_NS.1 };
    let (turns, events_max) = match effort {
        Effort::Search => (CACHE_TURNS.0, SEARCH_EVENTS_MAX),
        Effort::Shown | Effort::Confirm => (CACHE_TURNS.1, CellPlan::WARM_UP_EVENTS_MAX),
        Effort::Soak => (CACHE_TURNS.1, u64::MAX / 2),
    };
    let ramp_ns = ramp_ns.max((turns * cache_turn_ns(demand, arrays, rate_iops)) as u64);
    let has_disks = matches!(arrays.of.device.device.kind, Kind::Disk(_));
    let (ramps, windows, least_ns) = effort.times(has_disks);
    let lengths_ns = (ramps * ramp_ns, (windows * window_ns).max(least_ns));
    run(&arrays.target(condition), spec, lengths_ns, (condition, events_max), stop)
}

/// Operations of a window, at least: fewer large ones, which each cost as much as many small ones.
fn ops_min(demand: &Demand) -> f64 {
    let reads = 1.0 - demand.write_share();
    let bytes =
        reads * demand.mean_bytes(OpKind::Read) + (1.0 - reads) * demand.mean_bytes(OpKind::Write);
    let times = if demand.all_limits().any(|l| l.tail == Tail::P999) { OPS_P999 } else { 1.0 };
    times * (OPS_MIN.1 * SMALL_BYTES / bytes.max(1.0)).clamp(OPS_MIN.0, OPS_MIN.1)
}

/// Hosts write so long what the adapters' caches take from where they begin to write to devices until hosts wait, ns.
fn cache_turn_ns(demand: &Demand, arrays: Arrays<'_>, rate_iops: f64) -> f64 {
    let Some(adapters) = &arrays.of.adapters else { return 0.0 };
    let Some(cache) = &adapters.cache else { return 0.0 };
    let bytes = f64::from(adapters.count) * cache.destage_ramp_bytes as f64;
    let bytes_per_s = demand.write_share() * rate_iops * demand.mean_bytes(OpKind::Write);
    if bytes_per_s == 0.0 { 0.0 } else { bytes / bytes_per_s * 1e9 }
}

/// Any target under any workload, the same on each of its volumes.
///
/// # Errors
/// As [`under`].
pub fn run(
    target: &str,
    spec: Spec,
    (ramp_ns, window_ns): (u64, u64),
    (condition, warm_up_events_max): (Condition, u64),
    stop: &Arc<AtomicBool>,
) -> Result<Measured, RunError> {
    let wrong = |why: String| RunError::Impossible(why);
    let mut spec =
        spec.with_ramp(ramp_ns).and_then(|spec| spec.with_time(window_ns)).map_err(wrong)?;
    let mut options = EmulationOptions::default();
    if let Condition::Filled(share) = condition {
        options.fill = Some(share);
        let active = format!("0%..{}%", share * 100.0).parse().map_err(wrong)?;
        spec = spec.with_active(active).map_err(wrong)?;
    }
    let mut found = system(target)?;
    if let (Condition::AdapterLost, Some(adapters)) = (condition, &mut found.system.adapters) {
        // As it is when the partner has taken over.
        adapters.failover_ns = 0;
    }
    let system = found.before(&spec, &options);
    let targets = (0..).zip(&found.volumes);
    let targets = targets.map(|(n, volume)| TargetPlan::model(volume.name.clone(), &system, n));
    let mut cell = CellSpec::new(target, spec);
    (cell.interval_ns, cell.errors_max) = (Some(ramp_ns.max(window_ns)), u64::MAX);
    let mut plan = CellPlan::new(cell, targets.collect());
    plan.warm_up_events_max = Some(warm_up_events_max);
    let (lose, replace) = (Fault::Lose { part: PartId(0) }, Fault::Replace { part: PartId(0) });
    let faults: &[Fault] = match condition {
        Condition::DeviceLost => &[lose],
        Condition::AdapterLost => &[Fault::Adapters(AdapterFault::Lose { adapter: 1 })],
        Condition::LinkLost => &[Fault::Adapters(AdapterFault::LinkDown { link: 0 })],
        Condition::Rebuild => &[lose, replace],
        _ => &[],
    };
    let modelled = drive_failing_model(&plan, faults, stop, &mut Unobserved)?;
    if stop.load(Ordering::Relaxed) {
        return Err(RunError::Interrupted);
    }
    Ok(Measured::of(&modelled, &system))
}

/// The system of a target.
fn system(name: &str) -> Result<Emulated, RunError> {
    emulated(&[TargetName::parse(name)?], &mut Files::default())?.ok_or_else(|| {
        let (target, why) = (name.to_owned(), "it is not emulated".to_owned());
        RunError::Drive(DriveError::DoesNotFit { target, why })
    })
}
