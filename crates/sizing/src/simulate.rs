//! Cells in virtual time: a demand on some arrays of a candidate, whole or in part failed.
//!
//! Arrivals are random, so response times are those of users; the window is long against the limit of the latency, so
//! that a rate which is not sustained is seen to be late or short.

use crate::candidate::Candidate;
use crate::demand::Demand;
use crate::search::Tried;
use iodyno_drive::{CellPlan, DriveError, Modelled, TargetPlan, Unobserved, drive_failing_model};
use iodyno_emulate::spec::{Kind, Part};
use iodyno_emulate::usage::Snapshot;
use iodyno_emulate::{AdapterFault, Fault, PartId, System};
use iodyno_measure::{Quantity, Summary};
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
/// Operations up to this many bytes are small.
const SMALL_BYTES: f64 = 65_536.0;
const WINDOW_NS_MIN: u64 = 20 * MS;
/// A window is so many times as long as the limit of the latency: where more arrives than completes, most are late then.
const WINDOW_LIMITS: u64 = 10;
/// So long earlier writes have an effect; and reads.
const RAMP_NS: (u64, u64) = (25 * MS, 10 * MS);
/// A cell whose figures are shown is so many times as long as one of the search.
const SHOWN: u64 = 2;
/// A cache begins where it starts to write to devices; over so many times what is left until hosts wait, more than
/// devices take is seen: a third in the search, and a twentieth (with [`SHOWN`]) in cells that are shown.
const CACHE_TURNS: (f64, f64) = (3.0, 10.0);
/// The most time for disks' buffers to fill, in the search and in cells that are shown.
const FILL_NS_MAX: (u64, u64) = (500 * MS, 30_000 * MS);
/// The most virtual time of a cell's window.
const TIME_NS_MAX: f64 = 10_000e9;
/// What works itself is busy for this share of the time, at most, where a rate can be sustained: a buffer before it
/// hides for a while that it can't.
const BUSY_MAX: f64 = 0.98;
/// The share of a rate that has to be completed; arrivals are random to about 1 %.
const COMPLETED_SHARE: f64 = 0.97;

/// How long a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// To decide what is tried next.
    Search,
    /// To show its figures.
    Shown,
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
    /// This share of the capacity holds data, 0 to 1, and is used.
    Filled(f64),
    /// The adapters' cache is off.
    CacheOff,
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
        Self {
            iops: summary.ops_per_s,
            bytes_per_s: summary.bytes_per_s,
            mean_ns: summary.get(Quantity::Mean),
            p99_ns: summary.get(Quantity::Quantile(0.99)),
            array_busy: array_busy(system, &modelled.usage),
            shares: shares(system, &modelled.usage, summary.ops_per_s),
        }
    }

    /// Whether it holds a rate within a limit.
    pub fn holds(&self, rate_iops: f64, p99_ns: u64) -> bool {
        let is_sustained = self.binds().is_none_or(|share| share.busy <= BUSY_MAX);
        let is_in_time = self.p99_ns.is_some_and(|ns| ns <= p99_ns as f64);
        is_sustained && is_in_time && self.iops >= COMPLETED_SHARE * rate_iops
    }

    pub(crate) fn tried(&self, rate_iops: f64, p99_ns: u64) -> Tried {
        let holds = self.holds(rate_iops, p99_ns);
        Tried { holds, iops: self.iops, busy: self.array_busy }
    }

    /// What limits it as its load grows: the busiest resource that works itself.
    pub fn binds(&self) -> Option<&Share> {
        self.shares.iter().find(|share| !share.held)
    }
}

/// See [`Measured::array_busy`]: by resource the mean over all that work themselves.
fn array_busy(system: &System, usage: &Snapshot) -> f64 {
    let mut busy: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for resource in usage.volumes.iter().flat_map(|volume| &volume.resources) {
        let part = resource.part.map(|part| &system.parts[part.index()]);
        if matches!(part, Some(Part::Device(_) | Part::Array(_))) && !resource.held {
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
    let window_ns = window_ns.max(WINDOW_NS_MIN).max(WINDOW_LIMITS * demand.p99_ns);
    let writes = demand.write_share();
    let ramp_ns = if writes > 0.0 { RAMP_NS.0 } else { RAMP_NS.1 };
    let (times, fill_ns_max, turns) = match effort {
        Effort::Search => (1, FILL_NS_MAX.0, CACHE_TURNS.0),
        Effort::Shown => (SHOWN, FILL_NS_MAX.1, CACHE_TURNS.1),
    };
    let ramp_ns = ramp_ns
        .max(buffers_fill_ns(demand, arrays, rate_iops).min(fill_ns_max))
        .max((turns * cache_turn_ns(demand, arrays, rate_iops)) as u64);
    let lengths_ns = (times * ramp_ns, times * window_ns);
    run(&arrays.target(condition), spec, lengths_ns, condition, stop)
}

/// Operations of a window, at least: fewer large ones, which each cost as much as many small ones.
fn ops_min(demand: &Demand) -> f64 {
    let reads = 1.0 - demand.write_share();
    let bytes =
        reads * demand.mean_bytes(OpKind::Read) + (1.0 - reads) * demand.mean_bytes(OpKind::Write);
    (OPS_MIN.1 * SMALL_BYTES / bytes.max(1.0)).clamp(OPS_MIN.0, OPS_MIN.1)
}

/// Hosts write so long what the adapters' caches take from where they begin to write to devices until hosts wait, ns.
fn cache_turn_ns(demand: &Demand, arrays: Arrays<'_>, rate_iops: f64) -> f64 {
    let Some(adapters) = &arrays.of.adapters else { return 0.0 };
    let Some(cache) = &adapters.cache else { return 0.0 };
    let bytes = f64::from(adapters.count) * cache.destage_ramp_bytes as f64;
    let bytes_per_s = demand.write_share() * rate_iops * demand.mean_bytes(OpKind::Write);
    if bytes_per_s == 0.0 { 0.0 } else { bytes / bytes_per_s * 1e9 }
}

/// Until the disks' write buffers are full, and so have no effect on a long load, ns.
fn buffers_fill_ns(demand: &Demand, arrays: Arrays<'_>, rate_iops: f64) -> u64 {
    let Kind::Disk(disk) = &arrays.of.device.device.kind else { return 0 };
    let writes_per_s = demand.write_share() * rate_iops;
    if !disk.write_cache || writes_per_s == 0.0 {
        return 0;
    }
    let devices = f64::from(arrays.arrays * arrays.of.members);
    let bytes_per_s = writes_per_s * demand.mean_bytes(OpKind::Write) / devices;
    (disk.buffer_bytes as f64 / bytes_per_s * 1e9) as u64
}

/// Any target under any workload, the same on each of its volumes.
///
/// # Errors
/// As [`under`].
pub fn run(
    target: &str,
    spec: Spec,
    (ramp_ns, window_ns): (u64, u64),
    condition: Condition,
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
    let plan = CellPlan::new(cell, targets.collect());
    let (lose, replace) = (Fault::Lose { part: PartId(0) }, Fault::Replace { part: PartId(0) });
    let faults: &[Fault] = match condition {
        Condition::DeviceLost => &[lose],
        Condition::AdapterLost => &[Fault::Adapters(AdapterFault::Lose { adapter: 1 })],
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
