//! Formats the intervals of a run as fio's log files: bandwidth, IOPS and latency as with `log_avg_msec`, and
//! histograms as with `log_hist_msec`. Each interval is one log window.
//!
//! A row is `ms, value, direction, 0, 0`. The time is the end of the log window, counted from the end of the cell's
//! ramp. The value is KiB/s, operations per second, or the mean latency in ns. The direction is 0 for reads,
//! 1 for writes, 2 for trims. Unlike fio, the logs of bandwidth and IOPS have rows of 0 for windows without
//! operations, so that stalls are visible. A row of a histogram log is `ms, direction, block size, counts…`.

use super::bins;
use super::job::{self, Job};
use super::json::DIRECTIONS;
use iodyno_measure::{ClassStats, Histogram};
use iodyno_notebook::Run;
use std::fmt::Write as _;

/// A kind of fio log: the kind's part of the file name, and a function that computes the value logged for an
/// interval (None: no row) from its statistics and its length in seconds.
type Log = (&'static str, fn(Option<&ClassStats>, f64) -> Option<f64>);

const LOGS: [Log; 4] = [
    ("bw", |of, seconds| Some(of.map_or(0, |s| s.bytes) as f64 / 1024.0 / seconds)),
    ("iops", |of, seconds| Some(of.map_or(0, ClassStats::ops) as f64 / seconds)),
    ("clat", |of, _| of?.service.mean_ns()),
    ("lat", |of, _| of?.response_time().mean_ns()),
];

/// Returns the log files of all jobs, each with its name. A column of the histogram logs sums 2^`coarseness`
/// of fio's bins, at most 2^[`COARSENESS_MAX`](super::COARSENESS_MAX).
pub fn files(run: &Run, coarseness: u8) -> impl Iterator<Item = (String, String)> {
    job::of(run).flat_map(move |job| {
        let name = |kind: &str| format!("{}_{kind}.{}.log", job.file_name(), job.number);
        let mut files: Vec<_> = LOGS.iter().map(|log| (name(log.0), rows(&job, log))).collect();
        files.push((name("clat_hist"), histograms(&job, coarseness)));
        files
    })
}

/// Iterates over the log entries of a job: end of the interval in ms, its length in s, index of the
/// direction, and that direction's statistics.
fn windows<'a>(
    job: &'a Job,
) -> impl Iterator<Item = (u64, f64, usize, Option<&'a ClassStats>)> + 'a {
    let cell = job.cell;
    let mut end_ns = 0_u64;
    cell.series.iter().zip(cell.interval_lengths_ns()).flat_map(move |(interval, length_ns)| {
        end_ns = end_ns.saturating_add(length_ns);
        let (end_ms, seconds) = (end_ns.div_ceil(1_000_000), length_ns.max(1) as f64 / 1e9);
        let issued =
            DIRECTIONS.iter().enumerate().filter(|(_, kind)| job.total.class(**kind).is_some());
        issued.map(move |(number, kind)| (end_ms, seconds, number, interval.class(*kind)))
    })
}

fn rows(job: &Job, (name, value): &Log) -> String {
    let mut out = String::new();
    for (end_ms, seconds, direction, stats) in windows(job) {
        let is_latency = matches!(*name, "clat" | "lat");
        if is_latency && !job.cell.has_latency_over_time(DIRECTIONS[direction]) {
            continue;
        }
        if let Some(value) = value(stats, seconds) {
            let _ = writeln!(out, "{end_ms}, {}, {direction}, 0, 0", value.round() as u64);
        }
    }
    out
}

fn histograms(job: &Job, coarseness: u8) -> String {
    let mut out = String::new();
    let block_bytes = job.cell.key.block_bytes();
    for (end_ms, _, direction, stats) in windows(job) {
        let service: Option<&Histogram> = stats.map(|s| &s.service).filter(|h| h.count() > 0);
        let is_known = job.cell.has_latency_over_time(DIRECTIONS[direction]);
        let Some(service) = service.filter(|_| is_known) else { continue };
        let _ = write!(out, "{end_ms}, {direction}, {block_bytes}");
        for count in bins::columns(service, coarseness) {
            let _ = write!(out, ", {count}");
        }
        out.push('\n');
    }
    out
}
