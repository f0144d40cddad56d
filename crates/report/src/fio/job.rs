//! Represents the cells of a run as fio jobs, with the options of the nearest fio job, and with file names that
//! tools for fio's output recognize.

use super::not_in_options;
use super::steady::Rule;
use iodyno_measure::{Cell, ClassStats, Ended, Interval};
use iodyno_notebook::Run;
use iodyno_units::{OpKind, parse_duration_ns, parse_percent, parse_size};
use serde_json::{Map, Value};

/// A cell presented as a fio job.
pub(super) struct Job<'a> {
    /// Number of the job in the run, from 1, as in the names of fio's log files.
    pub(super) number: usize,
    /// Number of the job's group, from 0. As in fio without `new_group`, jobs of a group run at the same time.
    pub(super) group: usize,
    pub(super) cell: &'a Cell,
    /// Index of the cell among the run's cells, from 0.
    pub(super) at: usize,
    /// Sum of all intervals of the cell.
    pub(super) total: Interval,
    /// The options of the nearest fio job, as strings, as in fio's output.
    pub(super) options: Map<String, Value>,
    /// Steady-state rule that may end the job; `None` if it has none.
    pub(super) rule: Option<Rule>,
}

impl Job<'_> {
    /// File name prefix by which fio-plot finds files: `randread-iodepth-8-numjobs-1`.
    pub(super) fn file_name(&self) -> String {
        let key = &self.cell.key;
        let pattern = self.options["rw"].as_str().unwrap_or_default();
        format!("{pattern}-iodepth-{}-numjobs-{}", key.depth, key.threads)
    }
}

/// Iterates over the cells of a run that fio would report as jobs. Skips method steps without I/O, which fio
/// does not have, and merged cells, whose operations are in the jobs of their targets.
pub(super) fn of(run: &Run) -> impl Iterator<Item = Job<'_>> {
    let cells = run.cells.iter().enumerate();
    let cells = cells.filter(|(_, cell)| !cell.key.is_of_all_targets());
    let issued = cells.map(|(at, cell)| (at, cell, cell.total())).filter(|(_, cell, total)| {
        cell.key.place.is_none() || total.ops() > 0 || total.errors().total() > 0
    });
    let (mut group, mut before) = (0, None);
    issued.enumerate().map(move |(i, (at, cell, total))| {
        group += usize::from(before.is_some_and(|before| !are_simultaneous(run, before, cell)));
        before = Some(cell);
        let rule = said(run, cell, |spec| spec["limits"].get("steady").cloned());
        let rule = rule.and_then(|rule| Rule::of(&rule));
        let options = options(run, cell, &total, rule.as_ref());
        Job { number: i + 1, group, cell, at, total, options, rule }
    })
}

/// Whether two cells ran at the same time: one workload on two targets, or two workloads that run together.
fn are_simultaneous(run: &Run, a: &Cell, b: &Cell) -> bool {
    if a.key.repeat != b.key.repeat || a.key.place != b.key.place {
        return false;
    }
    if a.key.name == b.key.name {
        return a.key.target != b.key.target;
    }
    // Jobs on different targets are together only in the run's request.
    let listed = run.head.plan["request"]["work"]["cells"].as_array();
    let of = |step: &Value, cell: &Cell| {
        let beside = step["beside"].as_array().into_iter().flatten();
        std::iter::once(step).chain(beside).any(|one| one["name"] == cell.key.name.as_str())
    };
    a.evidence.beside.contains(&b.key.workload)
        || listed.into_iter().flatten().any(|step| of(step, a) && of(step, b))
}

/// The options of the nearest fio job, as strings, as in fio's output.
fn options(run: &Run, cell: &Cell, total: &Interval, rule: Option<&Rule>) -> Map<String, Value> {
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
    for (name, value) in block_options(run, cell, total) {
        put(name, value);
    }
    put("iodepth", key.depth.to_string());
    put("numjobs", key.threads.to_string());
    if let Some(direct) = cell.evidence.direct {
        put("direct", u8::from(direct).to_string());
    }
    if cell.evidence.active_bytes > 0 {
        put("size", cell.evidence.active_bytes.to_string());
    }
    if let Some(rate) = key.offered_iops {
        put("rate_iops", rates(run, cell, total, rate));
    }
    if writes > 0
        && let Some(every) = flush_every(run, cell).filter(|every| *every > 0)
    {
        put("fsync", every.to_string());
    }
    if writes > 0 && said(run, cell, is_synchronous) == Some(true) {
        put("sync", "dsync".to_owned());
    }
    if let Some(rule) = rule {
        put("steadystate", rule.limit());
        put("steadystate_duration", runtime(rule.window_ns));
        put("steadystate_ramp_time", runtime(rule.after_ns));
    }
    let ramp_ns = said(run, cell, |spec| parse_duration_ns(spec["limits"]["ramp"].as_str()?).ok());
    if let Some(ramp_ns) = ramp_ns.filter(|ns| *ns > 0) {
        put("ramp_time", runtime(ramp_ns));
    }
    put("runtime", runtime(time_ns(run, cell)));
    if cell.ended == Ended::Time {
        put("time_based", "1".to_owned());
    }
    out
}

/// Maximum number of sizes in fio's `bssplit`.
const SPLIT_MAX: usize = 64;

/// A block size in bytes, and its fraction of the operations.
type Size = (u64, f64);

/// fio's option `bs` (per kind of operation if the sizes differ), and `bssplit` or `bsrange` if one kind has
/// several sizes.
fn block_options(run: &Run, cell: &Cell, total: &Interval) -> Vec<(&'static str, String)> {
    let one = vec![("bs", cell.key.block_bytes().to_string())];
    if varied(cell, "block").is_some() {
        return one;
    }
    let issued = |kind: &OpKind| total.class(*kind).map_or(0, ClassStats::ops) > 0;
    let mut kinds = vec![OpKind::Read, OpKind::Write, OpKind::Trim];
    while kinds.last().is_some_and(|kind| !issued(kind)) {
        kinds.pop();
    }
    let sizes = |kind: &OpKind| -> Option<Vec<Size>> {
        if issued(kind) { said(run, cell, |spec| blocks_of(spec, *kind)) } else { Some(Vec::new()) }
    };
    let Some(all) = kinds.iter().map(sizes).collect::<Option<Vec<_>>>() else { return one };
    match all.iter().map(Vec::len).max() {
        None => one,
        Some(0 | 1) => vec![("bs", by_kind(&all, first))],
        Some(2..=SPLIT_MAX) => [one, vec![("bssplit", by_kind(&all, split))]].concat(),
        Some(_) => [one, vec![("bsrange", by_kind(&all, range))]].concat(),
    }
}

/// Formats the block sizes with `word`: once if all kinds of operation have the same sizes, otherwise per
/// kind, separated by commas and empty for kinds that are not issued.
fn by_kind(all: &[Vec<Size>], word: fn(&[Size]) -> String) -> String {
    let mut used = all.iter().filter(|sizes| !sizes.is_empty());
    match used.next() {
        Some(sizes) if used.all(|other| other == sizes) => word(sizes),
        _ => all.iter().map(|sizes| word(sizes)).collect::<Vec<_>>().join(","),
    }
}

fn first(sizes: &[Size]) -> String {
    sizes.first().map_or(String::new(), |(bytes, _)| bytes.to_string())
}

/// Formats the smallest and largest block size for fio's option `bsrange`.
fn range(sizes: &[Size]) -> String {
    let bytes = || sizes.iter().map(|(bytes, _)| *bytes);
    bytes().min().zip(bytes().max()).map_or(String::new(), |(a, b)| format!("{a}-{b}"))
}

/// Formats block sizes for fio's option `bssplit`, with whole percentages. The last size takes the remainder
/// to 100 %.
fn split(sizes: &[Size]) -> String {
    let all: f64 = sizes.iter().map(|(_, share)| share).sum();
    let percent = |share: f64| format!("/{:.0}", share * 100.0 / all.max(f64::MIN_POSITIVE));
    let word = |(at, (bytes, share)): (usize, &Size)| {
        let share = if at + 1 < sizes.len() { percent(*share) } else { String::new() };
        format!("{bytes}{share}")
    };
    sizes.iter().enumerate().map(word).collect::<Vec<_>>().join(":")
}

/// Block sizes of one kind of operation, with their fractions. Sizes specified for the kind take precedence
/// over those for all kinds. None if the specification has neither or can't be read.
fn blocks_of(spec: &Value, kind: OpKind) -> Option<Vec<Size>> {
    let tables = [&spec[kind.name()]["block"], &spec["all"]["block"], &spec["block"]];
    let block = tables.into_iter().find(|block| !block.is_null())?;
    let size = |text: &Value| parse_size(text.as_str()?).ok();
    match block.as_array() {
        None => Some(vec![(size(block)?, 1.0)]),
        Some(list) => {
            list.iter().map(|one| Some((size(&one["size"])?, one["share"].as_f64()?))).collect()
        }
    }
}

/// Looks up a value in the run's workload specifications: in the one named like the cell, or else in those named like
/// the cell's workload. None if several have different values.
fn said<T: PartialEq>(run: &Run, cell: &Cell, what: impl Fn(&Value) -> Option<T>) -> Option<T> {
    let all = &run.head.workloads;
    let is_own = all.iter().any(|w| w.name == cell.key.name);
    let name = if is_own { &cell.key.name } else { &cell.key.workload };
    let mut all = all.iter().filter(|w| w.name == *name);
    let first = what(&all.next()?.spec)?;
    all.all(|w| what(&w.spec).as_ref() == Some(&first)).then_some(first)
}

/// Share of reads in the job, 0 to 1; None if unknown.
fn read_share(run: &Run, cell: &Cell) -> Option<f64> {
    if let Some(share) = varied(cell, "read") {
        return parse_percent(share).ok();
    }
    said(run, cell, |spec| {
        let of = |kind: &str| spec["mix"][kind].as_f64();
        let (read, write) = (of("read")?, of("write")?);
        (read + write > 0.0).then(|| read / (read + write))
    })
}

/// Value of an axis such as `read` or `fsync`, as text; None if the method does not vary that axis.
fn varied<'a>(cell: &'a Cell, axis: &str) -> Option<&'a str> {
    let at = &cell.key.place.as_ref()?.at;
    at.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
}

/// Number of writes per flush in the cell; 0: no flushes; None: unknown.
fn flush_every(run: &Run, cell: &Cell) -> Option<u64> {
    match varied(cell, "fsync") {
        Some(every) => every.parse().ok(),
        None => said(run, cell, |spec| spec["write"]["flush_every"].as_u64()),
    }
}

/// Whether all writes are durable when they complete; None if the specification does not say.
fn is_synchronous(spec: &Value) -> Option<bool> {
    let share = spec["write"]["fua"].as_str().or_else(|| spec["all"]["fua"].as_str())?;
    Some(parse_percent(share) == Ok(1.0))
}

/// Settings of the cell's workload that the options of its fio job lack, beginning with the trace that it replayed.
pub(super) fn not_in_options(run: &Run, cell: &Cell) -> Vec<String> {
    let trace = cell.evidence.trace.iter().map(|trace| format!("trace = {trace}"));
    trace
        .chain(said(run, cell, |spec| Some(not_in_options::of(spec))).unwrap_or_default())
        .collect()
}

/// Offered rate per thread, for fio's rate option: one number for a single kind of operation, otherwise one
/// per kind in fio's order, empty for kinds that are not issued. Rounded to whole numbers, as fio requires.
fn rates(run: &Run, cell: &Cell, total: &Interval, rate: f64) -> String {
    let rate = rate / f64::from(cell.key.threads.max(1));
    let in_words = |rate: f64| if rate < 1.0 { rate } else { rate.round() }.to_string();
    let ops = |kind: OpKind| total.class(kind).map_or(0, ClassStats::ops);
    let mut kinds = vec![OpKind::Read, OpKind::Write, OpKind::Trim];
    if kinds.iter().filter(|kind| ops(**kind) > 0).count() < 2 {
        return in_words(rate);
    }
    while kinds.last().is_some_and(|kind| ops(*kind) == 0) {
        kinds.pop();
    }
    let all: u64 = kinds.iter().map(|kind| ops(*kind)).sum();
    let read_share =
        read_share(run, cell).filter(|_| ops(OpKind::Read) + ops(OpKind::Write) == all);
    let of = |kind: &OpKind| match (kind, read_share) {
        (OpKind::Read, Some(share)) => share,
        (OpKind::Write, Some(share)) => 1.0 - share,
        _ => ops(*kind) as f64 / all as f64,
    };
    let word =
        |kind: &OpKind| if ops(*kind) > 0 { in_words(rate * of(kind)) } else { String::new() };
    kinds.iter().map(word).collect::<Vec<_>>().join(",")
}

/// Duration of the job, ns: its time limit if that ended it, otherwise the length of the window, rounded to ms.
fn time_ns(run: &Run, cell: &Cell) -> u64 {
    let asked = said(run, cell, |spec| parse_duration_ns(spec["limits"]["time"].as_str()?).ok());
    let measured_ns = (cell.window_ns + 500_000) / 1_000_000 * 1_000_000;
    asked.filter(|_| cell.ended == Ended::Time).unwrap_or(measured_ns)
}

/// Formats a duration for a fio option: whole seconds without a unit, others in a smaller unit.
fn runtime(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000_000) => (ns / 1_000_000_000).to_string(),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns.div_ceil(1000)),
    }
}

/// Value of fio's option `rw`, such as `randrw`: the mix of operations and the address pattern.
fn pattern(run: &Run, cell: &Cell, total: &Interval) -> String {
    let issued = |kind: &OpKind| total.class(*kind).map_or(0, ClassStats::ops) > 0;
    let kinds = [OpKind::Read, OpKind::Write, OpKind::Trim].into_iter().filter(issued);
    let sequential = said(run, cell, |spec| {
        let mut patterns = kinds.clone().flat_map(|kind| patterns(spec, kind)).peekable();
        Some(patterns.peek().is_some() && patterns.all(|p| p == "sequential"))
    });
    let kinds: Vec<OpKind> = kinds.collect();
    let word = match kinds.as_slice() {
        [OpKind::Read, OpKind::Write, ..] => "rw",
        [OpKind::Write, ..] => "write",
        [OpKind::Trim] => "trim",
        _ => "read",
    };
    if sequential == Some(true) { word.to_owned() } else { format!("rand{word}") }
}

/// Address patterns for one kind of operation: those specified for the kind, otherwise those for all kinds.
fn patterns(spec: &Value, kind: OpKind) -> impl Iterator<Item = &str> {
    let of = |scope: &str| spec[scope]["addresses"].as_array().filter(|list| !list.is_empty());
    let list = of(kind.name()).or_else(|| of("all"));
    list.into_iter().flatten().filter_map(|address| address["pattern"].as_str())
}
