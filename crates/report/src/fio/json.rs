//! Formats runs as fio's `--output-format=json` and `json+` do.
//!
//! Counters that iodyno does not keep (`iodepth_submit`, `iodepth_complete`, `drop_ios`) are 0. `iodepth_level`
//! assigns all submissions to the bucket of the mean depth. All of fio's percentiles are present, as parsers expect;
//! those with too few samples are listed under `iodyno`, together with the verdicts and everything else for which fio
//! has no key.

use super::job::{self, Job};
use super::{VERSION, steady};
use crate::RunVerdict;
use iodyno_measure::{Cell, ClassStats, DiskUse, ErrorKind, Histogram, Interval, Level};
use iodyno_notebook::Run;
use iodyno_units::OpKind;
use serde_json::{Map, Value, json};

/// fio's default percentiles.
pub(super) const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Upper bounds of fio's latency buckets. The same bounds apply to the buckets in ns, µs and ms.
pub(super) const LATENCY_BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Kinds of operation that fio reports separately and calls data directions.
pub(super) const DIRECTIONS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Trim];

/// Variant of fio's JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `json`: latencies without the counts of their histograms.
    Json,
    /// `json+`: each latency also has the counts of its histogram, keyed by the midpoints of the buckets.
    JsonPlus,
}

/// Returns a run as one document in the format of fio's JSON output.
pub fn document(run: &Run, form: Form) -> Value {
    of_jobs(run, form, &job::of(run).collect::<Vec<_>>(), &steady::of_method(run))
}

/// Returns one document per job, with its file name. Tools such as fio-plot expect one job per file.
pub fn documents(run: &Run, form: Form) -> impl Iterator<Item = (String, Value)> {
    let steady = steady::of_method(run);
    job::of(run).map(move |job| {
        let name = format!("{}.{}.json", job.file_name(), job.number);
        (name, of_jobs(run, form, &[job], &steady))
    })
}

/// Builds one document for `jobs`. `steady` contains the method's `steadystate` objects, each with the index
/// of its cell.
fn of_jobs(run: &Run, form: Form, jobs: &[Job], steady: &[(usize, Value)]) -> Value {
    let end = run.ended.unwrap_or(run.started);
    let standing = RunVerdict::of(run);
    let mut out = json!({
        "fio version": format!("{VERSION} (iodyno {})", run.head.iodyno_version),
        "timestamp": end.as_second(),
        "timestamp_ms": end.as_millisecond(),
        "time": end.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        "global options": global_options(jobs),
        "jobs": jobs.iter().map(|job| of_job(run, form, job, steady)).collect::<Vec<_>>(),
        "iodyno": {
            "run": run.id,
            "name": run.head.name,
            "command": run.head.command,
            "level": standing.level.map(Level::name),
            "verdicts": standing.verdicts,
        },
    });
    // Not in each job, as in fio's client mode: parsers would expect several clients.
    if let Some(host) = run.head.machine_description().host_name {
        out["hostname"] = json!(host);
    }
    let disks = disk_util(jobs);
    if !disks.is_empty() {
        out["disk_util"] = disks.into();
    }
    out
}

/// Options that all jobs have in common. Each job repeats them, because parsers look in either place.
fn global_options(jobs: &[Job]) -> Map<String, Value> {
    let Some((first, others)) = jobs.split_first() else { return Map::new() };
    let is_shared = |name: &str, value: &Value| {
        name != "name" && others.iter().all(|job| job.options.get(name) == Some(value))
    };
    let shared = first.options.iter().filter(|(name, value)| is_shared(name, value));
    shared.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn of_job(run: &Run, form: Form, job: &Job, steady: &[(usize, Value)]) -> Value {
    let Job { cell, total, .. } = job;
    let runtime_ms = cell.window_ns / 1_000_000;
    let used = &cell.resources;
    let workers = used.cpu_user_ns.len().max(1) as f64;
    let cpu_percent = |ns: &[u64]| {
        let share = ns.iter().sum::<u64>() as f64 / (cell.window_ns.max(1) as f64 * workers);
        json!(share * 100.0)
    };
    let scheduling = used.scheduling.unwrap_or_default();
    let errors = total.errors();
    let in_flight = cell.oio_mean() / f64::from(cell.key.threads.max(1));
    let flushes = total.class(OpKind::Flush);
    let mut out = json!({
        "jobname": cell.key.name,
        "groupid": job.group,
        "job_start": run.started.as_millisecond(),
        "error": if errors.total() > 0 { errors.last_errno } else { 0 },
        "eta": 0,
        "elapsed": cell.window_ns.div_ceil(1_000_000_000),
        "job options": job.options,
        "read": direction(cell, total, OpKind::Read, form),
        "write": direction(cell, total, OpKind::Write, form),
        "trim": direction(cell, total, OpKind::Trim, form),
        "sync": {
            "total_ios": flushes.map_or(0, ClassStats::ops),
            "lat_ns": latency(flushes.map(ClassStats::response_time), form),
        },
        "job_runtime": runtime_ms * u64::from(cell.key.threads),
        "usr_cpu": cpu_percent(&used.cpu_user_ns),
        "sys_cpu": cpu_percent(&used.cpu_system_ns),
        "ctx": scheduling.context_switches,
        "majf": scheduling.major_faults,
        "minf": scheduling.minor_faults,
        "iodepth_level": depth_level(in_flight),
        "iodepth_submit": zeroes(&["0", "4", "8", "16", "32", "64", ">=64"]),
        "iodepth_complete": zeroes(&["0", "4", "8", "16", "32", "64", ">=64"]),
        "latency_ns": latency_buckets(total, 1, false),
        "latency_us": latency_buckets(total, 1_000, false),
        "latency_ms": latency_buckets(total, 1_000_000, true),
        "total_err": errors.total(),
        "first_error": errors.last_errno,
        "latency_depth": cell.key.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
        "iodyno": beside(run, cell, total, form),
    });
    let of_method = steady.iter().find(|(at, _)| *at == job.at).map(|(_, steady)| steady.clone());
    let of_cell = job.rule.as_ref().and_then(|rule| steady::of_cell(cell, rule));
    if let Some(steady) = of_cell.or(of_method) {
        out["steadystate"] = steady;
    }
    out
}

/// The job's additional object `iodyno`, with values that fio's format has no key for.
fn beside(run: &Run, cell: &Cell, total: &Interval, form: Form) -> Value {
    let unsupported = |kind: OpKind| {
        let service = &total.class(kind).filter(|stats| stats.ops() > 0)?.service;
        let of = PERCENTILES.iter().filter(|p| !service.supports(**p / 100.0));
        let names: Vec<String> = of.map(|p| format!("{p:.6}")).collect();
        (!names.is_empty()).then(|| (kind.name().to_owned(), json!(names)))
    };
    let unsupported: Map<_, _> = OpKind::ALL.into_iter().filter_map(unsupported).collect();
    let mut out = json!({
        "target": cell.key.target,
        "workload": cell.key.workload,
        "engine": cell.key.engine,
        "ended": cell.ended,
        "level": cell.level().map(Level::name),
        "verdicts": cell.verdicts,
        "unsupported_percentiles": unsupported,
        "latency_breakdown": cell.evidence.spent,
        "not_in_job_options": job::not_in_options(run, cell),
    });
    if total.class(OpKind::WriteZeroes).is_some() {
        out["write_zeroes"] = direction(cell, total, OpKind::WriteZeroes, form);
    }
    out
}

fn direction(cell: &Cell, total: &Interval, kind: OpKind, form: Form) -> Value {
    let stats = total.class(kind);
    let (ops, bytes) = stats.map_or((0, 0), |s| (s.ops(), s.bytes));
    let bytes_per_s = cell.per_second(bytes as f64);
    let samples = Samples::of(cell, kind);
    let (bw, iops) = (samples.spread(|s| s.0 / 1024.0), samples.spread(|s| s.1));
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes / 1024,
        "bw_bytes": bytes_per_s as u64,
        "bw": (bytes_per_s / 1024.0) as u64,
        "iops": cell.per_second(ops as f64),
        "runtime": if ops > 0 { cell.window_ns / 1_000_000 } else { 0 },
        "total_ios": ops,
        "short_ios": stats.map_or(0, |s| s.errors.of(ErrorKind::Short)),
        "drop_ios": 0,
        "slat_ns": latency(None, form),
        "clat_ns": latency(stats.map(|s| &s.service), form),
        "lat_ns": latency(stats.map(ClassStats::response_time), form),
        "bw_min": bw.min as u64,
        "bw_max": bw.max as u64,
        "bw_agg": if ops > 0 { 100.0 } else { 0.0 },
        "bw_mean": bw.mean,
        "bw_dev": bw.deviation,
        "bw_samples": samples.0.len(),
        "iops_min": iops.min as u64,
        "iops_max": iops.max as u64,
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation,
        "iops_samples": samples.0.len(),
    })
}

/// Throughput (bytes/s) and rate (operations/s) of each interval.
struct Samples(Vec<(f64, f64)>);

#[derive(Default)]
struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Samples {
    /// Samples of one kind of operation; empty if the kind did not occur in the cell.
    fn of(cell: &Cell, kind: OpKind) -> Self {
        if cell.series.iter().all(|i| i.class(kind).is_none()) {
            return Self(Vec::new());
        }
        let rates = cell.series.iter().zip(cell.interval_lengths_ns()).map(|(interval, ns)| {
            let seconds = ns.max(1) as f64 / 1e9;
            let stats = interval.class(kind);
            let per_second = |n: u64| n as f64 / seconds;
            (per_second(stats.map_or(0, |s| s.bytes)), per_second(stats.map_or(0, ClassStats::ops)))
        });
        Self(rates.collect())
    }

    fn spread(&self, of: impl Fn(&(f64, f64)) -> f64) -> Spread {
        if self.0.is_empty() {
            return Spread::default();
        }
        let n = self.0.len() as f64;
        let mean = self.0.iter().map(&of).sum::<f64>() / n;
        // fio divides by n - 1.
        let squares: f64 = self.0.iter().map(|s| (of(s) - mean).powi(2)).sum();
        Spread {
            min: self.0.iter().map(&of).fold(f64::INFINITY, f64::min),
            max: self.0.iter().map(&of).fold(0.0, f64::max),
            mean,
            deviation: if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
        }
    }
}

fn latency(histogram: Option<&Histogram>, form: Form) -> Value {
    let Some(h) = histogram.filter(|h| h.count() > 0) else {
        return json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    };
    let percentile = |&p: &f64| Some((format!("{p:.6}"), json!(h.quantile_ns(p / 100.0)?)));
    let mut out = json!({
        "min": h.min_ns(),
        "max": h.max_ns(),
        "mean": h.mean_ns(),
        "stddev": h.stddev_ns(),
        "N": h.count(),
        "percentile": PERCENTILES.iter().filter_map(percentile).collect::<Map<_, _>>(),
    });
    if form == Form::JsonPlus {
        // The same bucket middles as for percentiles.
        let bins = h.buckets().map(|b| ((b.low_ns + b.width_ns / 2).to_string(), json!(b.count)));
        out["bins"] = Value::Object(bins.collect());
    }
    out
}

/// Percentage of reads, writes and trims per latency bucket, for the buckets in one unit (ns, µs or ms). `is_last` adds
/// the buckets above 1000 ms. The percentages of all three units add up to 100 %.
fn latency_buckets(total: &Interval, unit_ns: u64, is_last: bool) -> Value {
    let issued = DIRECTIONS.into_iter().filter_map(|kind| total.class(kind));
    let histograms: Vec<&Histogram> = issued.map(|stats| &stats.service).collect();
    let all: u64 = histograms.iter().map(|h| h.count()).sum();
    let share = |from_ns: u64, below_ns: u64| {
        let within = histograms.iter().flat_map(|h| h.buckets());
        let n: u64 =
            within.filter(|b| (from_ns..below_ns).contains(&b.low_ns)).map(|b| b.count).sum();
        json!(n as f64 * 100.0 / all.max(1) as f64)
    };
    let mut out = Map::new();
    // Faster operations are in the buckets of the smaller unit.
    let mut from_ns = if unit_ns == 1 { 0 } else { unit_ns };
    for bound in LATENCY_BOUNDS {
        out.insert(bound.to_string(), share(from_ns, bound * unit_ns));
        from_ns = bound * unit_ns;
    }
    if is_last {
        out.insert("2000".to_owned(), share(from_ns, 2 * from_ns));
        out.insert(">=2000".to_owned(), share(2 * from_ns, u64::MAX));
    }
    Value::Object(out)
}

/// The disks' I/O, summed over the jobs; `util` is the percentage of time with an I/O in flight.
fn disk_util(jobs: &[Job]) -> Vec<Value> {
    let mut disks: Vec<DiskUse> = Vec::new();
    for used in jobs.iter().filter_map(|job| job.cell.evidence.disk_use.as_ref()) {
        match disks.iter_mut().find(|disk| disk.name == used.name) {
            Some(disk) => disk.add(used),
            None => disks.push(used.clone()),
        }
    }
    let of = |disk: &DiskUse| {
        let busy = disk.busy_ms as f64 * 1e6 / disk.elapsed_ns.max(1) as f64;
        json!({
            "name": disk.name,
            "read_ios": disk.reads,
            "write_ios": disk.writes,
            "read_sectors": disk.read_bytes / 512,
            "write_sectors": disk.written_bytes / 512,
            "read_merges": disk.read_merges,
            "write_merges": disk.write_merges,
            "read_ticks": disk.read_ms,
            "write_ticks": disk.write_ms,
            "in_queue": disk.queue_ms,
            "util": (busy * 100.0).min(100.0),
        })
    };
    disks.iter().map(of).collect()
}

/// Distribution of the queue depth at submission, in fio's form. Only the mean depth is known, so its bin has
/// 100 %.
fn depth_level(in_flight: f64) -> Value {
    let names = ["1", "2", "4", "8", "16", "32", ">=64"];
    let mut out = zeroes(&names);
    if in_flight > 0.0 {
        let bucket = (in_flight.round().max(1.0) as u64).ilog2() as usize;
        out[names[bucket.min(names.len() - 1)]] = json!(100.0);
    }
    out
}

fn zeroes(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!(0.0))).collect::<Map<_, _>>().into()
}
