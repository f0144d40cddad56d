//! Builds one cell per fio job from its threads, logs and options.

use super::Target;
use super::failures::{count_failures, error_that_ended, has_latencies};
use super::group::{Group, group_of, groups, summed_threads};
use super::latency::Values;
use super::log::{LogFile, LogKind};
use super::output::{Job, Latency, Options, Output};
use super::series::{Logs, Totals};
use iodyno_catalog::Problem;
use iodyno_measure::{Cell, CellKey, Ended, Evidence, Interval, OtherTool};
use iodyno_units::{OpKind, parse_size, text::quoted};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum CPU time of a thread, ns: 13 days. The sum of all threads fits in 64 bits.
const CPU_NS_MAX: f64 = (1_u64 << 50) as f64;
/// Maximum length of a quoted name in a message, characters.
const QUOTE_CHARS: usize = 60;
/// A remark is made if the run times of two directions or threads differ by more than this fraction of the longer one.
const TIMES_APART: f64 = 0.02;
/// Maximum number of simultaneous jobs that a cell names.
const BESIDE_MAX: usize = 16;
/// Engines that have one I/O in flight per thread, whatever the depth.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// Engines that read and write files and block devices, through the page cache unless `direct=1` is set.
const FILE_ENGINES: [&str; 9] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "splice"];

#[derive(Debug)]
pub(super) struct JobCell {
    pub(super) target: Target,
    pub(super) options: Options,
    pub(super) cell: Cell,
    /// fio's group number; jobs of one group ran at the same time.
    groupid: i64,
}

pub(super) fn program(output: &Output) -> String {
    crate::shared::about(&output.version)
}

/// Builds a cell for each job that has latencies.
///
/// # Errors
/// No job has latencies; a log is damaged, or belongs to no job.
pub(super) fn of(
    origin: &str,
    output: &Output,
    logs: &[LogFile],
    remarks: &mut Vec<String>,
) -> Result<Vec<JobCell>, Problem> {
    let groups = groups(output);
    let mut files: Vec<Vec<(LogKind, &LogFile)>> = vec![Vec::new(); groups.len()];
    for log in logs {
        let (kind, number) = log.kind()?;
        files[group_of(log, number, &groups)?].push((kind, log));
    }
    let mut made: Vec<JobCell> = Vec::new();
    let mut reason = None;
    for (group, files) in groups.iter().zip(files) {
        let taken: BTreeSet<&str> = made.iter().map(|job| job.cell.key.name.as_str()).collect();
        let name = unique(&name(group.jobs[0]), &taken);
        let mut say =
            |what: String| remarks.push(format!("job `{}`: {what}", quoted(&name, QUOTE_CHARS)));
        about_logs(&files, &mut say);
        match cell(output, group, files, &name, &mut say)? {
            Ok(cell) => made.push(cell),
            Err(why) => {
                say(format!("not imported: {why}"));
                reason.get_or_insert((name, why));
            }
        }
    }
    if made.is_empty() {
        let what = match reason {
            Some((name, why)) => {
                format!("no job can be imported; `{}`: {why}", quoted(&name, QUOTE_CHARS))
            }
            None => {
                "the output has no jobs: give the output of a fio run that has finished".to_owned()
            }
        };
        return Err(Problem::new(origin, what));
    }
    let beside: Vec<Vec<String>> = (0..made.len()).map(|at| beside(&made, at)).collect();
    for (job, beside) in made.iter_mut().zip(beside) {
        job.cell.evidence.beside = beside;
    }
    Ok(made)
}

fn name(job: &Job) -> String {
    let name = crate::shared::name(job.name());
    match &job.hostname {
        Some(host) => crate::shared::name(&format!("{name}@{host}")),
        None => name,
    }
}

/// Returns `name`, with a number appended if it is in `taken`.
fn unique(name: &str, taken: &BTreeSet<&str>) -> String {
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut names = [name.to_owned()].into_iter().chain(numbered);
    names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
}

/// Adds remarks on logs without effect, and on logs whose latencies include submission.
fn about_logs(files: &[(LogKind, &LogFile)], say: &mut dyn FnMut(String)) {
    let has = |kind| files.iter().any(|(of, _)| *of == kind);
    // An empty log, such as that of clat with disable_clat=1, is neither.
    let has_first = |kind, is_each: bool| {
        let rows = files.iter().filter(|(of, _)| *of == kind);
        let mut first = rows.filter_map(|(of, file)| file.rows(*of, false).next()?.ok());
        first.any(|row| (row.block_bytes > 0) == is_each)
    };
    let is_each = |kind| has_first(kind, true);
    if has(LogKind::SubmissionLatency) {
        say("submission latencies (slat) have no place in a notebook, and were left out".to_owned());
    }
    if !is_each(LogKind::CompletionLatency) && is_each(LogKind::TotalLatency) {
        let why = if has(LogKind::CompletionLatency) {
            "its `_clat` logs have no row per I/O"
        } else {
            "no `_clat` log was given"
        };
        say(format!(
            "its latencies include submission: they come from its `_lat` logs, since {why}"
        ));
    }
    let latency = [LogKind::CompletionLatency, LogKind::TotalLatency];
    if latency.into_iter().any(|kind| has_first(kind, false)) {
        say("its latency logs were left out, since percentiles can't be computed from averages (log_avg_msec): measure with log_avg_msec=0 or log_hist_msec".to_owned());
    }
}

/// Names of other jobs that ran on the same target at the same time; beyond [`BESIDE_MAX`], only the number of further
/// jobs.
fn beside(made: &[JobCell], at: usize) -> Vec<String> {
    let own = &made[at];
    let is_beside = |(other, job): &(usize, &JobCell)| {
        *other != at && job.groupid == own.groupid && job.target == own.target
    };
    let mut others = made.iter().enumerate().filter(is_beside);
    let named = others.by_ref().take(BESIDE_MAX).map(|(_, job)| job.cell.key.name.clone());
    let mut names: Vec<String> = named.collect();
    match others.count() {
        0 => {}
        more => names.push(format!("{more} others")),
    }
    names
}

/// Builds the cell of a group. The inner error is the reason why the job can't be imported.
fn cell(
    output: &Output,
    group: &Group,
    files: Vec<(LogKind, &LogFile)>,
    name: &str,
    say: &mut dyn FnMut(String),
) -> Result<Result<JobCell, String>, Problem> {
    let first = group.jobs[0];
    if first.mixed.is_some() && first.read.is_none() {
        let why = "unified_rw_reporting=1 mixes reads and writes: use `none` or `both`";
        return Ok(Err(why.to_owned()));
    }
    let mut options = output.global.clone();
    options.extend(first.options.clone());
    if let Some(error) = error_that_ended(group, &options)
        && !has_latencies(group)
    {
        return Ok(Err(format!("fio stopped the job with {error} before any I/O completed")));
    }
    let logs = logs(group, &options, files, say)?;
    let mut cell =
        Cell { window_ns: logs.window_ns(), interval_ns: logs.interval_ns(), ..Cell::default() };
    let numjobs = options.get("numjobs").map_or("1", String::as_str);
    if group.jobs.len() == 1 && summed_threads(first) > numjobs.parse().unwrap_or(1) {
        say(format!(
            "fio summed {} threads under this name, but numjobs={numjobs}: group_reporting merges several jobs into one entry, with the name of the first and the options of the last",
            group.threads
        ));
    }
    let mut tool = OtherTool { program: program(output), ..OtherTool::default() };
    let (mut sizes, mut failed) = (Vec::new(), Vec::new());
    for kind in [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Flush] {
        let of = totals(group, kind);
        failed.push((kind, of.ops, of.failed));
        if of.ops == 0 {
            continue;
        }
        let name = kind.name();
        let Some(divided) = logs.divide(&of)? else {
            return Ok(Err(format!(
                "fio kept no latencies of its {name}s (gtod_reduce, disable_clat), or too few percentiles: measure with --output-format=json+, or import the job's `_clat` logs too"
            )));
        };
        divided.remark.into_iter().for_each(&mut *say);
        tool.only_percentiles |= divided.is_by_percentiles;
        if divided.is_spread {
            tool.spread_evenly.push(name.to_owned());
        }
        let counted: u64 = divided.intervals.iter().map(|stats| stats.service.count()).sum();
        if counted.abs_diff(of.ops) > of.ops / 1000 {
            say(format!(
                "fio recorded the latencies of only {counted} of {} {name}s: rates count only these",
                of.ops
            ));
        }
        if kind != OpKind::Flush {
            sizes.push((of.bytes / of.ops, of.ops));
        }
        if cell.series.is_empty() {
            cell.series.resize_with(divided.intervals.len(), Interval::default);
        }
        for (interval, stats) in cell.series.iter_mut().zip(divided.intervals) {
            if !stats.is_empty() {
                interval.classes[kind.index()] = Some(Box::new(stats));
            }
        }
    }
    if cell.series.is_empty() {
        return Ok(Err("no I/O completed".to_owned()));
    }
    let target = target(first, &options);
    cell.key = key(group, name, &target, &sizes, &options);
    count_failures(&mut cell, group, &failed, say);
    circumstances(&mut cell, group, tool, &options);
    cell.facts = facts(&cell, &options);
    Ok(Ok(JobCell { target, options, cell, groupid: first.groupid }))
}

/// The logs of a group, with the length of its window.
fn logs<'a>(
    group: &Group,
    options: &Options,
    files: Vec<(LogKind, &'a LogFile)>,
    say: &mut dyn FnMut(String),
) -> Result<Logs<'a>, Problem> {
    let option = |name: &str| options.get(name).map(String::as_str);
    let all = group.jobs.iter().flat_map(|job| job.directions());
    let times: Vec<u64> =
        all.filter(|(_, of)| of.total_ios > 0).map(|(_, of)| of.runtime).collect();
    let window_ms = times.iter().copied().max().unwrap_or(group.jobs[0].runtime);
    if times.iter().any(|ms| (*ms as f64) < window_ms as f64 * (1.0 - TIMES_APART)) {
        say(format!(
            "its threads or directions ran for different times: rates are computed over the longest time, {window_ms} ms"
        ));
    }
    let is_histogram = files.iter().any(|(kind, _)| *kind == LogKind::Histogram);
    let averaged = if is_histogram { "log_hist_msec" } else { "log_avg_msec" };
    let averaged_ms = option(averaged).and_then(|ms| ms.parse().ok()).unwrap_or(0);
    let has_maxima = option("log_window_value").or_else(|| option("log_max_value")) == Some("both");
    Logs::new(files, window_ms, u64::min(averaged_ms, 1 << 40), has_maxima)
}

/// Figures of one kind of operation, summed over the threads.
fn totals(group: &Group, kind: OpKind) -> Totals {
    let mut all = Totals {
        kind,
        ops: 0,
        failed: 0,
        bytes: 0,
        values: None,
        with_submission: false,
        bins: BTreeMap::new(),
    };
    let mut parts = Vec::new();
    let mut add = |ops: u64, bytes: u64, errors: u64, latencies: [Option<&Latency>; 2]| {
        // fio counts failed operations too, but keeps no latency of them. With disable_clat only lat has a count.
        let counts = latencies.into_iter().flatten().filter_map(|of| of.count);
        let values = counts.max().unwrap_or(ops);
        let failed = u64::min(errors, ops.saturating_sub(values));
        let ops = ops - failed;
        all.failed += failed;
        if ops == 0 {
            return;
        }
        all.ops += ops;
        all.bytes += bytes;
        let [own, with_submission] = latencies.map(|of| Values::of(of?, ops));
        all.with_submission |= own.is_none() && with_submission.is_some();
        parts.push(own.or(with_submission));
        if let Some(latency) = latencies[0] {
            latency.bins.iter().for_each(|(ns, n)| *all.bins.entry(*ns).or_default() += n);
        }
    };
    for job in &group.jobs {
        match &job.sync {
            Some(sync) if kind == OpKind::Flush => {
                // fio 3.33 does not count calls of fdatasync, but keeps their latencies.
                let timed = sync.lat_ns.as_ref().and_then(|of| of.count).unwrap_or(0);
                add(sync.total_ios.max(timed), 0, 0, [sync.lat_ns.as_ref(), None]);
            }
            _ => {}
        }
        for (_, of) in job.directions().filter(|(of, _)| *of == kind) {
            let latencies = [of.clat_ns.as_ref(), of.lat_ns.as_ref()];
            // An error that ends a job may fail all its I/Os in flight.
            let errors =
                if job.error != 0 && job.total_err == 0 { u64::MAX } else { job.total_err };
            add(of.total_ios, of.io_bytes, errors, latencies);
        }
    }
    let values: Option<Vec<Values>> = parts.into_iter().collect();
    all.values = values.filter(|parts| !parts.is_empty()).map(|parts| Values::merged(&parts));
    all
}

fn key(
    group: &Group,
    name: &str,
    target: &Target,
    sizes: &[(u64, u64)],
    options: &Options,
) -> CellKey {
    let all: u64 = sizes.iter().map(|(_, ops)| ops).sum();
    let mut blocks: BTreeMap<u32, f64> = BTreeMap::new();
    for (bytes, ops) in sizes {
        let bytes = u32::try_from(*bytes).unwrap_or(u32::MAX);
        *blocks.entry(bytes).or_default() += *ops as f64 / all.max(1) as f64;
    }
    let mut blocks: Vec<(u32, f64)> = blocks.into_iter().collect();
    blocks.sort_by(|a, b| b.1.total_cmp(&a.1));
    let engine = options.get("ioengine").map_or("psync", String::as_str);
    let depth = options.get("iodepth").and_then(|n| n.parse().ok()).unwrap_or(1);
    CellKey {
        name: name.to_owned(),
        target: target.name.clone(),
        workload: name.to_owned(),
        engine: if engine == "io_uring" { "uring".to_owned() } else { crate::shared::name(engine) },
        threads: group.threads,
        depth: if SYNCHRONOUS.contains(&engine) { 1 } else { u32::clamp(depth, 1, 1 << 20) },
        blocks,
        offered_iops: offered(group, options),
        ..CellKey::default()
    }
}

/// Requested rate of all threads together (`rate_iops` or `rate`), operations per second; None without these options.
fn offered(group: &Group, options: &Options) -> Option<f64> {
    let mut rate = 0.0;
    for (at, (_, of)) in
        group.jobs[0].directions().enumerate().filter(|(_, (_, of))| of.total_ios > 0)
    {
        // One number is for each direction; an empty one is no limit.
        let one = |option: &str| -> Option<f64> {
            let words: Vec<&str> = options.get(option)?.split(',').collect();
            let word = words.get(at).or(words.last().filter(|_| words.len() < 3))?;
            parse_size(word.trim()).ok().filter(|rate| *rate > 0).map(|rate| rate as f64)
        };
        let block_bytes = of.io_bytes as f64 / of.total_ios as f64;
        rate += one("rate_iops").or_else(|| Some(one("rate")? / block_bytes.max(1.0)))?;
    }
    (rate > 0.0).then(|| rate * f64::from(group.threads))
}

fn target(job: &Job, options: &Options) -> Target {
    let option = |name: &str| options.get(name).map(String::as_str);
    let file = match (option("filename"), option("directory")) {
        (Some(file), Some(directory)) => format!("{directory}/{file}"),
        (Some(file), None) => file.to_owned(),
        (None, Some(directory)) => format!("{directory}/{}", job.name()),
        (None, None) => job.name().to_owned(),
    };
    let (name, kind) = match option("ioengine") {
        Some("null") => ("null:".to_owned(), "null"),
        _ if file.starts_with("/dev/") => (file, "block"),
        _ => (file, "file"),
    };
    let host = job.hostname.as_ref().map_or(String::new(), |host| format!("{host}:"));
    Target { name: crate::shared::name(&format!("{host}{name}")), kind }
}

/// Sets the evidence, CPU time, and reason for the end of a cell, as far as fio reports them.
fn circumstances(cell: &mut Cell, group: &Group, tool: OtherTool, options: &Options) {
    let direct = direct(options);
    let failed = error_that_ended(group, options);
    cell.evidence = Evidence {
        in_process: options.get("ioengine").is_some_and(|engine| engine == "null"),
        direct,
        why_not_direct: (direct == Some(false)).then(|| "fio's direct=1 was not set".to_owned()),
        forced_share: if is_synchronous(options) { 1.0 } else { 0.0 },
        failure: failed.as_ref().map(|error| format!("fio reports {error}")),
        other_tool: Some(tool),
        ..Evidence::default()
    };
    cell.ended = match failed {
        Some(_) => Ended::Errors,
        None if options.contains_key("runtime") => Ended::Time,
        None => Ended::Bytes,
    };
    let cpu_ns = |share: fn(&Job) -> f64| -> u64 {
        let of = |job: &&Job| share(job) / 100.0 * job.runtime as f64 * 1e6;
        let all: f64 = group.jobs.iter().map(of).sum();
        (all / f64::from(group.threads)).min(CPU_NS_MAX) as u64
    };
    // fio has the sum of the threads.
    let threads = group.threads as usize;
    cell.resources.cpu_user_ns = vec![cpu_ns(|job| job.usr_cpu); threads];
    cell.resources.cpu_system_ns = vec![cpu_ns(|job| job.sys_cpu); threads];
    let total = cell.total();
    cell.resources.moved_bytes = total.bytes();
    // By Little's law: fio does not count the operations in flight.
    cell.resources.outstanding_area_ns = total.iter().map(|(_, of)| of.service.sum_ns()).sum();
}

/// Whether fio bypassed the page cache; None for engines that do not read and write files.
fn direct(options: &Options) -> Option<bool> {
    let engine = options.get("ioengine").map_or("psync", String::as_str);
    let is_on = |option: &str| options.get(option)?.parse::<u8>().ok().map(|on| on != 0);
    let given = is_on("direct").or_else(|| is_on("buffered").map(|on| !on));
    given.or_else(|| FILE_ENGINES.contains(&engine).then_some(false))
}

/// Whether each write was durable when it completed.
fn is_synchronous(options: &Options) -> bool {
    options.get("sync").is_some_and(|value| matches!(value.as_str(), "1" | "sync" | "dsync"))
}

/// Program and options of the job, for display.
fn facts(cell: &Cell, options: &Options) -> BTreeMap<String, String> {
    let words: Vec<String> = options
        .iter()
        .filter(|(name, _)| !name.starts_with("write_") && *name != "name")
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let tool = cell.evidence.other_tool.as_ref();
    let facts = [
        ("measured by", tool.map_or(String::new(), |tool| tool.program.clone())),
        ("options", quoted(&words.join(" "), 1000)),
    ];
    facts.into_iter().map(|(name, words)| (name.to_owned(), words)).collect()
}
