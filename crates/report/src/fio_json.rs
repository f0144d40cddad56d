//! Runs in the format of fio 3's `--output-format=json`, for the many tools that read it.
//!
//! Each cell is a job of a group of its own, except steps of a method that issued nothing (fio has no job for
//! them) and the merged cell of several targets, whose operations are in the targets' jobs. fio's *clat* is our
//! service time (submission to completion), *lat* is our response time (from the intended start in open loop),
//! and *slat* is zero: submission is not timed separately. Of fio's default percentiles those that the samples
//! support are present; `N` is the number of samples. Counters that iodyno does not keep (`ctx`, `majf`,
//! `iodepth_submit`, …) are 0.

use iodyno_measure::{Cell, ClassStats, Ended, Histogram, Interval};
use iodyno_notebook::Run;
use iodyno_units::{OpKind, parse_duration_ns, parse_percent};
use serde_json::{Map, Value, json};

/// The version of fio whose keys these are.
const FIO_VERSION: &str = "fio-3.36";

/// fio's default percentiles.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Upper bounds of fio's latency buckets, in each of its three units.
const LATENCY_BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// A run as fio would have written it.
pub fn document(run: &Run) -> Value {
    let end = run.ended.unwrap_or(run.started);
    let is_step = |cell: &Cell| {
        let total = cell.total();
        cell.key.place.is_some() && total.ops() == 0 && total.errors().total() == 0
    };
    let issued = run.cells.iter().filter(|c| !c.key.is_of_all_targets() && !is_step(c));
    let jobs = issued.enumerate().map(|(i, cell)| job(run, i, cell));
    json!({
        "fio version": format!("{FIO_VERSION} (iodyno {})", run.head.iodyno_version),
        "timestamp": end.as_second(),
        "timestamp_ms": end.as_millisecond(),
        "time": end.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        "global options": {},
        "jobs": jobs.collect::<Vec<_>>(),
    })
}

fn job(run: &Run, group: usize, cell: &Cell) -> Value {
    let total = cell.total();
    let runtime_ms = cell.window_ns / 1_000_000;
    let workers = cell.resources.cpu_user_ns.len().max(1) as f64;
    let cpu_percent = |ns: &[u64]| {
        let share = ns.iter().sum::<u64>() as f64 / (cell.window_ns.max(1) as f64 * workers);
        json!(share * 100.0)
    };
    let errors = total.errors();
    let in_flight = cell.oio_mean() / f64::from(cell.key.threads.max(1));
    json!({
        "jobname": cell.key.name,
        "groupid": group,
        "job_start": run.started.as_millisecond(),
        "error": if errors.total() > 0 { errors.last_errno } else { 0 },
        "eta": 0,
        "elapsed": cell.window_ns.div_ceil(1_000_000_000),
        "job options": options(run, cell, &total),
        "read": direction(cell, &total, OpKind::Read),
        "write": direction(cell, &total, OpKind::Write),
        "trim": direction(cell, &total, OpKind::Trim),
        "sync": {
            "total_ios": total.class(OpKind::Flush).map_or(0, ClassStats::ops),
            "lat_ns": latency(total.class(OpKind::Flush).map(ClassStats::response_time), true),
        },
        "job_runtime": runtime_ms * u64::from(cell.key.threads),
        "usr_cpu": cpu_percent(&cell.resources.cpu_user_ns),
        "sys_cpu": cpu_percent(&cell.resources.cpu_system_ns),
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": depth_level(in_flight),
        "iodepth_submit": zeroes(&["0", "4", "8", "16", "32", "64", ">=64"]),
        "iodepth_complete": zeroes(&["0", "4", "8", "16", "32", "64", ">=64"]),
        "latency_ns": latency_buckets(&total, 1, false),
        "latency_us": latency_buckets(&total, 1_000, false),
        "latency_ms": latency_buckets(&total, 1_000_000, true),
        "total_err": errors.total(),
        "first_error": errors.last_errno,
        "latency_depth": cell.key.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    })
}

/// The options of an equivalent fio job, as text, as in fio's output.
fn options(run: &Run, cell: &Cell, total: &Interval) -> Value {
    let key = &cell.key;
    let engine = match key.engine.as_str() {
        "uring" => "io_uring",
        other => other,
    };
    let mut out = Map::new();
    let mut put = |name: &str, value: String| {
        out.insert(name.to_owned(), Value::from(value));
    };
    put("name", key.name.clone());
    put("filename", key.target.clone());
    put("ioengine", engine.to_owned());
    put("rw", pattern(run, cell, total));
    let ops = |kind| total.class(kind).map_or(0, ClassStats::ops);
    let (reads, writes) = (ops(OpKind::Read), ops(OpKind::Write));
    if reads > 0 && writes > 0 {
        let share = read_share(run, cell).unwrap_or(reads as f64 / (reads + writes) as f64);
        put("rwmixread", format!("{:.0}", share * 100.0));
    }
    put("bs", key.block_bytes().to_string());
    put("iodepth", key.depth.to_string());
    put("numjobs", key.threads.to_string());
    if let Some(direct) = cell.evidence.direct {
        put("direct", u8::from(direct).to_string());
    }
    if cell.evidence.active_bytes > 0 {
        put("size", cell.evidence.active_bytes.to_string());
    }
    if let Some(rate) = key.offered_iops {
        // fio's rate is that of each of its jobs.
        put("rate_iops", (rate / f64::from(key.threads.max(1))).to_string());
    }
    put("runtime", runtime(time_ns(run, cell)));
    Value::Object(out)
}

/// A value of the cell's workload; None if workloads of that name in the run differ in it.
fn said<T: PartialEq>(run: &Run, cell: &Cell, what: impl Fn(&Value) -> Option<T>) -> Option<T> {
    let mut all = run.head.workloads.iter().filter(|w| w.name == cell.key.workload);
    let first = what(&all.next()?.spec)?;
    all.all(|w| what(&w.spec).as_ref() == Some(&first)).then_some(first)
}

/// The job's share of reads, 0 to 1; None where it is not known.
fn read_share(run: &Run, cell: &Cell) -> Option<f64> {
    let varied = cell.key.place.as_ref().and_then(|p| p.at.iter().find(|(axis, _)| axis == "read"));
    if let Some((_, share)) = varied {
        return parse_percent(share).ok();
    }
    said(run, cell, |spec| {
        let of = |kind: &str| spec["mix"][kind].as_f64();
        let (read, write) = (of("read")?, of("write")?);
        (read + write > 0.0).then(|| read / (read + write))
    })
}

/// The job's time limit if that ended it, else the measured time, in whole ms.
fn time_ns(run: &Run, cell: &Cell) -> u64 {
    let asked = said(run, cell, |spec| parse_duration_ns(spec["limits"]["time"].as_str()?).ok());
    let measured_ns = (cell.window_ns + 500_000) / 1_000_000 * 1_000_000;
    asked.filter(|_| cell.ended == Ended::Time).unwrap_or(measured_ns)
}

/// A time as an option of fio: whole seconds without a unit, shorter ones with it.
fn runtime(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000_000) => (ns / 1_000_000_000).to_string(),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns.div_ceil(1000)),
    }
}

/// fio's word for the mix and the addresses. Without another pattern it is sequential.
fn pattern(run: &Run, cell: &Cell, total: &Interval) -> String {
    let spec = run.head.workloads.iter().find(|w| w.name == cell.key.workload).map(|w| &w.spec);
    let issued = |kind: &OpKind| total.class(*kind).map_or(0, ClassStats::ops) > 0;
    let kinds = [OpKind::Read, OpKind::Write, OpKind::Trim].into_iter().filter(issued);
    let sequential = spec.is_some_and(|spec| {
        let mut patterns = kinds.clone().flat_map(|kind| patterns(spec, kind)).peekable();
        patterns.peek().is_some() && patterns.all(|p| p == "sequential")
    });
    let kinds: Vec<OpKind> = kinds.collect();
    let word = match kinds.as_slice() {
        [OpKind::Read, OpKind::Write, ..] => "rw",
        [OpKind::Write, ..] => "write",
        [OpKind::Trim] => "trim",
        _ => "read",
    };
    if sequential { word.to_owned() } else { format!("rand{word}") }
}

/// The address patterns of one kind of operation: its own, or those of the specification for all kinds.
fn patterns(spec: &Value, kind: OpKind) -> impl Iterator<Item = &str> {
    let of = |scope: &str| spec[scope]["addresses"].as_array().filter(|list| !list.is_empty());
    let list = of(kind.name()).or_else(|| of("all"));
    list.into_iter().flatten().filter_map(|address| address["pattern"].as_str())
}

fn direction(cell: &Cell, total: &Interval, kind: OpKind) -> Value {
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
        "short_ios": stats.map_or(0, |s| s.errors.of(iodyno_measure::ErrorKind::Short)),
        "drop_ios": 0,
        "slat_ns": latency(None, false),
        "clat_ns": latency(stats.map(|s| &s.service), true),
        "lat_ns": latency(stats.map(ClassStats::response_time), true),
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

/// Bytes a second and operations a second of each interval.
struct Samples(Vec<(f64, f64)>);

#[derive(Default)]
struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Samples {
    /// None for a kind that did not occur in the cell.
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

fn latency(histogram: Option<&Histogram>, percentiles: bool) -> Value {
    let Some(h) = histogram.filter(|h| h.count() > 0) else {
        return json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    };
    let mut out = json!({
        "min": h.min_ns(),
        "max": h.max_ns(),
        "mean": h.mean_ns(),
        "stddev": h.stddev_ns(),
        "N": h.count(),
    });
    if percentiles {
        let of = |&p: &f64| {
            let ns = h.supported_quantile_ns(p / 100.0)?;
            Some((format!("{p:.6}"), json!(ns)))
        };
        out["percentile"] = Value::Object(PERCENTILES.iter().filter_map(of).collect());
    }
    out
}

/// Percent of the reads, writes and trims in each of fio's buckets of one unit; the buckets of all
/// three units together hold all of them.
fn latency_buckets(total: &Interval, unit_ns: u64, is_last: bool) -> Value {
    let data = [OpKind::Read, OpKind::Write, OpKind::Trim];
    let histograms: Vec<&Histogram> =
        data.iter().filter_map(|&k| total.class(k)).map(ClassStats::response_time).collect();
    let all: u64 = histograms.iter().map(|h| h.count()).sum();
    let share = |from_ns: u64, below_ns: u64| {
        let within = histograms.iter().flat_map(|h| h.buckets());
        let n: u64 =
            within.filter(|b| (from_ns..below_ns).contains(&b.low_ns)).map(|b| b.count).sum();
        json!(n as f64 * 100.0 / all.max(1) as f64)
    };
    let mut out = Map::new();
    // Faster operations belong to the smaller unit.
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

/// fio counts the depth at each submission. Only the mean is known here: all submissions go into its bucket.
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
