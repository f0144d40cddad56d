//! Formats runs in version 3 of fio's terse format (`--minimal`): one line per job, with fields separated by `;`.
//! Contains reads and writes only. Times are in microseconds, and all values equal those in the JSON.

use super::json::{self, Form, LATENCY_BOUNDS, PERCENTILES};
use iodyno_notebook::Run;
use iodyno_units::text::clean;
use serde_json::Value;
use std::fmt::Write as _;

/// Number of percentile fields in a line; unused fields are `0%=0`.
const PERCENTILES_MAX: usize = 20;

/// Returns the run in fio's terse format, one line per job.
pub fn text(run: &Run) -> String {
    let document = json::document(run, Form::Json);
    let jobs = document["jobs"].as_array().into_iter().flatten();
    let lines = jobs.map(|job| line(&document, job) + "\n");
    lines.collect()
}

fn line(document: &Value, job: &Value) -> String {
    let text = |value: &Value| clean(value.as_str().unwrap_or_default()).replace(';', "_");
    let mut out = format!(
        "3;{};{};{};{}",
        text(&document["fio version"]),
        text(&job["jobname"]),
        job["groupid"],
        job["error"]
    );
    for direction in [&job["read"], &job["write"]] {
        of_direction(&mut out, direction);
    }
    for name in ["usr_cpu", "sys_cpu"] {
        let _ = write!(out, ";{:.6}%", float(&job[name]));
    }
    for name in ["ctx", "majf", "minf"] {
        let _ = write!(out, ";{}", job[name]);
    }
    for name in ["1", "2", "4", "8", "16", "32", ">=64"] {
        let _ = write!(out, ";{:.1}%", float(&job["iodepth_level"][name]));
    }
    // Everything below a microsecond belongs to the first bucket.
    let below: f64 = LATENCY_BOUNDS.iter().map(|b| float(&job["latency_ns"][b.to_string()])).sum();
    for (i, bound) in LATENCY_BOUNDS.iter().enumerate() {
        let first = if i == 0 { below } else { 0.0 };
        let _ = write!(out, ";{:.2}%", first + float(&job["latency_us"][bound.to_string()]));
    }
    let bounds = LATENCY_BOUNDS.iter().map(u64::to_string);
    for bound in bounds.chain(["2000", ">=2000"].map(str::to_owned)) {
        let _ = write!(out, ";{:.2}%", float(&job["latency_ms"][bound]));
    }
    for disk in document["disk_util"].as_array().into_iter().flatten() {
        let _ = write!(out, ";{}", text(&disk["name"]));
        let names = ["read_ios", "write_ios", "read_merges", "write_merges"];
        for name in names.into_iter().chain(["read_ticks", "write_ticks", "in_queue"]) {
            let _ = write!(out, ";{}", disk[name]);
        }
        let _ = write!(out, ";{:.2}%", float(&disk["util"]));
    }
    out
}

fn of_direction(out: &mut String, of: &Value) {
    let iops = float(&of["iops"]) as u64;
    let _ = write!(out, ";{};{};{iops};{}", of["io_kbytes"], of["bw"], of["runtime"]);
    for name in ["slat_ns", "clat_ns"] {
        of_latency(out, &of[name]);
    }
    let percentile = &of["clat_ns"]["percentile"];
    for i in 0..PERCENTILES_MAX {
        let known = PERCENTILES.get(i).map(|p| format!("{p:.6}"));
        let _ = match known.and_then(|p| Some((percentile.get(&p)?.as_u64()?, p))) {
            Some((ns, p)) => write!(out, ";{p}%={}", ns / 1000),
            None => write!(out, ";0%=0"),
        };
    }
    of_latency(out, &of["lat_ns"]);
    let (mean, deviation) = (float(&of["bw_mean"]), float(&of["bw_dev"]));
    let share = float(&of["bw_agg"]);
    let _ = write!(out, ";{};{};{share:.6}%;{mean:.6};{deviation:.6}", of["bw_min"], of["bw_max"]);
}

fn of_latency(out: &mut String, of: &Value) {
    let whole = |name: &str| of[name].as_u64().unwrap_or(0) / 1000;
    let (mean, deviation) = (float(&of["mean"]) / 1e3, float(&of["stddev"]) / 1e3);
    let _ = write!(out, ";{};{};{mean:.6};{deviation:.6}", whole("min"), whole("max"));
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
