//! The null model: predicts a value without any model of the device. A device model must be closer to the published
//! values than the null model.
//!
//! * Several devices: multiplies the published rate of one device by the number of devices. Latency is that of one
//!   device.
//! * Arrays: multiplies the data-sheet rates of one member by the number of members. A random write costs the
//!   textbook's member operations (RAID 10: two writes; RAID 5: two reads and two writes; RAID 6: three reads and three
//!   writes). For sequential writes, the rate is multiplied by the share of data in a stripe, and divided by the number
//!   of mirror copies. The upper bound is the bandwidth of the links.
//! * A mix of reads and writes on one device: combines the published values R of pure reads and W of pure writes of the
//!   same block size by time-sharing. With fractions r and w of operations, the rate is 1 / (r/R + w/W) and the latency
//!   r·R + w·W.
//! * A workload with the key `null`: takes the published value of the named workload on the same system, times
//!   `null_factor`.
//! * One device with an entry in `members`: takes the rates in its data sheet, limited by the bandwidths in the same
//!   data sheet. Reads and writes share the time.
//! * Threads on memory: takes the published latency of one thread with one outstanding operation. Multiplies the
//!   corresponding rate by the number of threads or, at the optimum operating point, of cores.
//! * A system with a `competitor`: simulates the same cell with the competitor's device file (`outcome.rs`).
//! * Think time: takes the latency without think time.
//!
//! The null model makes no prediction if the published value that its rule needs is missing.

use crate::cell::CellKey;
use crate::metric::{Metric, Recipe};
use crate::published::{Figure, Key};
use crate::study::Study;
use crate::testbed::MemberRates;
use crate::unit::Dimension;
use crate::wanted::{Wanted, Workload};
use iodyno_emulate::spec::Kind;
use iodyno_raid::SmallWrite;
use iodyno_targets::ArrayName;

/// Rule by which the null model (a prediction without a device model) predicts a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullModel {
    /// Scales the published value of one device to n devices: multiplies a rate by n, and leaves a latency unchanged.
    Devices,
    /// Combines the published values of pure reads and pure writes, which share the device's time.
    TimeSharing,
    /// Assumes that the latency equals the published one without think time.
    NoThink,
    /// Scales the published value of one thread to n threads: multiplies a rate by n, and leaves a latency unchanged.
    Threads,
    /// Scales the data-sheet rates of one member of an array: multiplies them by the number of members, and applies the
    /// write penalty of the RAID level. The upper bound is the bandwidth of the link.
    Members,
    /// Uses the rates in the data sheet of the device.
    DataSheet,
    /// Uses the published value of another workload, times a factor that the study states.
    OtherWorkload,
    /// Simulates the device with another device file, which the study names.
    Competitor,
}

impl NullModel {
    /// Description of the rule in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Devices => "one device times n",
            Self::TimeSharing => "time-sharing of reads and writes",
            Self::NoThink => "as without think time",
            Self::Threads => "one thread times n",
            Self::Members => "members times n with write penalties, at most the link",
            Self::DataSheet => "the data sheet",
            Self::Competitor => "this simulation with a competitor's constants",
            Self::OtherWorkload => "another workload's figure, times a factor",
        }
    }
}

/// Prediction of the null model for a row, in the row's unit. None if there is none.
pub(crate) fn null(study: &Study, row: &Wanted) -> Option<(NullModel, f64)> {
    let (metric, at) = (row.metric?, row.at?);
    let (model, value) = if let Some(array) = study.systems[at.system].array {
        let without_think = Some(array).filter(|_| at.think_ns == 0)?;
        (NullModel::Members, of_members(study, metric, &at, without_think)?)
    } else if at.devices > 1 {
        (NullModel::Devices, several(study, row, metric, at.devices)?)
    } else if at.think_ns > 0 {
        (NullModel::NoThink, thinking(study, row, metric, at.think_ns as f64)?)
    } else if matches!(study.systems[at.system].device.kind, Kind::Memory(_))
        && row.key.threads != Some(1)
        && !metric.over_depths()
        && (row.key.threads.is_some()
            || matches!(
                row.recipe,
                Recipe::AtOptimum(..) | Recipe::Lowest(_) | Recipe::Highest(_) | Recipe::Mean(_)
            ))
    {
        (NullModel::Threads, threads(study, row, metric, &at)?)
    } else if let Some((other, factor)) = &study.workloads[at.workload].null {
        let key = Key { workload: other.clone(), ..row.key.clone() };
        let value = printed(study, &key).filter(|_| key != row.key)?;
        (NullModel::OtherWorkload, value * factor)
    } else if let Some(rates) = rates(study, &at) {
        let workload = &study.workloads[at.workload];
        let iops = data_sheet(rates, workload, &at);
        (NullModel::DataSheet, of_rate(workload, metric, &at, iops)?)
    } else {
        (NullModel::TimeSharing, mixed(study, row, metric)?)
    };
    Some((model, value / row.unit.scale()))
}

/// Published value with this key, in the base unit of its dimension. Ignores the key's table or figure, and
/// skips flagged values.
fn printed(study: &Study, key: &Key) -> Option<f64> {
    let same = |f: &&Figure| {
        let other = Key { figure: key.figure.clone(), ..f.key.clone() };
        other == *key && !f.is_flagged()
    };
    study.printed.iter().find(same).map(|f| f.value * f.unit.scale())
}

/// Data-sheet rates of the device in a cell; None if unknown.
fn rates<'a>(study: &'a Study, at: &CellKey) -> Option<&'a MemberRates> {
    let device = &study.systems[at.system].device.name;
    study.members.iter().find(|rates| rates.device == *device)
}

/// Operations per second of one device according to its data sheet. The rates of random operations are of 4 KiB, so
/// for large blocks the bandwidth is the bound.
fn data_sheet(rates: &MemberRates, workload: &Workload, at: &CellKey) -> f64 {
    let block = f64::from(at.block_bytes);
    let (mut read, mut write) = (rates.bytes_per_s.0 / block, rates.bytes_per_s.1 / block);
    if workload.random {
        read = read.min(rates.random_iops.0);
        write = write.min(rates.random_iops.1);
    }
    1.0 / (workload.read / read + (1.0 - workload.read) / write)
}

/// Converts a rate, operations per second, to the value of a metric; None for metrics that the rate does not
/// determine.
fn of_rate(workload: &Workload, metric: Metric, at: &CellKey, iops: f64) -> Option<f64> {
    let block = f64::from(at.block_bytes);
    match metric {
        Metric::Iops | Metric::IopsMax | Metric::IopsSteady => Some(iops),
        Metric::MessagesPerS => Some(iops * f64::from(at.block_bytes / workload.message_bytes?)),
        Metric::Bandwidth | Metric::BandwidthPeak => Some(iops * block),
        Metric::BandwidthRead => Some(iops * block * workload.read),
        Metric::BandwidthWrite => Some(iops * block * (1.0 - workload.read)),
        _ => None,
    }
}

fn of_members(study: &Study, metric: Metric, at: &CellKey, array: ArrayName) -> Option<f64> {
    let (bench, workload) = (&study.systems[at.system], &study.workloads[at.workload]);
    let rates = rates(study, at)?;
    let block = f64::from(at.block_bytes);
    let a_device = if workload.random {
        // Reads and writes of members for each write.
        let SmallWrite { reads, writes } = array.level.small_write(array.members as usize);
        let (reads, writes) = (reads as f64, writes as f64);
        let share = 1.0 - workload.read;
        let (read_iops, write_iops) = rates.random_iops;
        // An operation that is larger than a strip occupies several members.
        let pieces = array.strip_bytes.map_or(1.0, |strip| (block / strip as f64).ceil().max(1.0));
        1.0 / (pieces * ((workload.read + share * reads) / read_iops + share * writes / write_iops))
    } else {
        let n = f64::from(array.members);
        // Reads skip parity, which takes no time on flash.
        let data = (n - array.level.parities() as f64) / n;
        let copies = array.level.copies(array.members as usize) as f64;
        let (read, write) = rates.bytes_per_s;
        1.0 / (workload.read / read + (1.0 - workload.read) * copies / (write * data)) / block
    };
    let link_iops = bench.link_bytes_per_s.map_or(f64::INFINITY, |link| link / block);
    let devices = f64::from(at.devices);
    let iops = (devices * a_device).min(link_iops);
    match metric {
        Metric::UsefulDevices => Some((link_iops / a_device).min(devices)),
        _ => of_rate(workload, metric, at, iops),
    }
}

fn several(study: &Study, row: &Wanted, metric: Metric, devices: u32) -> Option<f64> {
    let n = f64::from(devices);
    let one = || printed(study, &Key { devices: Some(1), ..row.key.clone() });
    match metric {
        Metric::IopsMax | Metric::Iops | Metric::Bandwidth => Some(one()? * n),
        Metric::LatencyMean
        | Metric::LatencyP99
        | Metric::Knee
        | Metric::Depth95
        | Metric::IopsVsNoThink
        | Metric::LatencyVsNoThink => one(),
        Metric::IopsMaxVsOne | Metric::BandwidthVsOne => Some(n),
        Metric::LatencyVsOne => Some(1.0),
        _ => None,
    }
}

fn thinking(study: &Study, row: &Wanted, metric: Metric, think_ns: f64) -> Option<f64> {
    let workload = &study.workloads[row.at?.workload];
    let latency = || {
        let metric = Metric::LatencyMean.name().to_owned();
        printed(study, &Key { workload: workload.name.clone(), metric, ..row.key.clone() })
    };
    match metric {
        Metric::LatencyMean => latency(),
        Metric::LatencyVsNoThink => Some(1.0),
        Metric::IopsVsNoThink => {
            let latency_ns = latency()?;
            Some(latency_ns / (latency_ns + think_ns))
        }
        _ => None,
    }
}

/// Prediction for several threads, if each is as fast as a single one.
fn threads(study: &Study, row: &Wanted, metric: Metric, at: &CellKey) -> Option<f64> {
    let alone = Metric::LatencyMeanAlone.name();
    let first = study.workloads[at.workload].name.clone();
    let key = Key {
        workload: first,
        metric: alone.to_owned(),
        queue_depth: None,
        threads: None,
        ..row.key.clone()
    };
    let latency_ns = printed(study, &key)?;
    let host = &study.systems[at.system].host;
    let n = row.key.threads.unwrap_or(host.sockets * host.cores_per_socket);
    match metric.dimension() {
        Dimension::Rate => Some(f64::from(n) * 1e9 / latency_ns),
        Dimension::Throughput => Some(f64::from(n) * f64::from(at.block_bytes) * 1e9 / latency_ns),
        Dimension::Time if metric == Metric::LatencyMean => Some(latency_ns),
        _ => None,
    }
}

fn mixed(study: &Study, row: &Wanted, metric: Metric) -> Option<f64> {
    let mix = &study.workloads[row.at?.workload];
    if mix.read <= 0.0 || mix.read >= 1.0 {
        return None;
    }
    let pure = |read: f64| {
        let same = |w: &&Workload| w.random == mix.random;
        let mut of_kind = study.workloads.iter().filter(same);
        let exactly = |w: &&Workload| w.read.total_cmp(&read).is_eq();
        let workload = of_kind.find(exactly)?.name.clone();
        printed(study, &Key { workload, ..row.key.clone() })
    };
    let (reads, writes) = (pure(1.0)?, pure(0.0)?);
    match metric {
        Metric::IopsMax
        | Metric::Iops
        | Metric::IopsSteady
        | Metric::IopsFresh
        | Metric::Bandwidth => Some(1.0 / (mix.read / reads + (1.0 - mix.read) / writes)),
        Metric::LatencyMean => Some(mix.read * reads + (1.0 - mix.read) * writes),
        _ => None,
    }
}
