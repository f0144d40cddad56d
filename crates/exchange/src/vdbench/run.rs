//! Converts a vdbench run definition to groups of jobs, one for each combination of its `for…` lists and I/O rates.

use super::case::{Case, Limits};
use super::parameters::{Definition, Kind, Parameter, Value};
use super::{General, MAX_GROUPS, Overrides};
use crate::fio::Job;
use crate::found::Found;

/// Parameters of a storage definition, in the order in which vdbench resolves abbreviations.
const OF_STORAGE: &str = "host hd lun count size threads hitarea offset align kstat instance replay journal \
    resetlun resetbus openflags range streams";
/// Parameters of a workload definition, in the order in which vdbench resolves abbreviations.
const OF_WORKLOADS: &str = "sd skew xfersize readpct rdpct writepct wrpct range hotband seekpct stride priority \
    iorate rhpct whpct hd host user openflags threads streams";
/// Parameters of a run definition, in the order in which vdbench resolves abbreviations.
const OF_RUNS: &str = "sd wd forxfersize forthreads forrdpct forrhpct forwhpct forseekpct forhitarea \
    forcompratio xfersize threads rdpct rhpct whpct seekpct hitarea compratio iorate maxdata \
    skew curve stopcurve elapsed interval warmup pause distribution startcmd start_cmd \
    endcmd end_cmd replay openflags mount";

/// Expands a keyword, which may be abbreviated to two letters, to its full name; None if it is unknown.
pub(super) fn canonical(kind: Kind, key: &str) -> Option<&'static str> {
    let list = match kind {
        Kind::Storage => OF_STORAGE,
        Kind::Workload => OF_WORKLOADS,
        _ => OF_RUNS,
    };
    let mut names = list.split(' ');
    let exact = names.clone().find(|full| *full == key);
    let full = exact.or_else(|| names.find(|full| key.len() >= 2 && full.starts_with(key)))?;
    // A run's lists have two names, such as `xfersize` and `forxfersize`.
    Some(if kind == Kind::Run { full.strip_prefix("for").unwrap_or(full) } else { full })
}

pub(super) fn find<'d>(definition: &'d Definition, full: &str) -> Option<&'d Parameter> {
    definition.last(|parameter| canonical(definition.kind, &parameter.key) == Some(full))
}

pub(super) fn first(parameter: &Parameter) -> &str {
    parameter.values.first().map_or("", |value| value.text.as_str())
}

/// State of the conversion of one run definition.
pub(super) struct Reading<'a, 'f> {
    pub(super) run: &'a Definition,
    pub(super) general: &'a General,
    pub(super) found: &'a mut Found<'f>,
}

/// Converts a run to groups of jobs. Adds errors about unsupported parameters to `found`.
pub(super) fn groups(
    run: &Definition,
    all: &[Definition],
    general: &General,
    overrides: &Overrides,
    found: &mut Found<'_>,
) -> Vec<Vec<Job>> {
    // Notes of a run belong to its own jobs only.
    let before = (found.notes.len(), found.traps.len());
    let mut reading = Reading { run, general, found };
    reading.sift(run);
    let workloads = reading.workloads(all);
    let shares = reading.skews(&workloads);
    let storage = reading.storage(&workloads, all);
    let points = reading.points();
    let limits = reading.limits(overrides, storage.len());
    if reading.found.is_refused() {
        return Vec::new();
    }
    if points.is_empty() {
        let words = "a list of the run has no values";
        reading.found.refuse(&run.span, words, "give values, or ascending ranges");
        return Vec::new();
    }
    let common = (reading.found.notes.len(), reading.found.traps.len());
    let mut groups = Vec::new();
    for point in points {
        if workloads.len() > 1 && point.rate.is_none() {
            let words = "simultaneous workloads without a rate share the threads of their storage, which can't be honoured";
            let help = "give the run an iorate, or use a run for each workload";
            reading.found.refuse(&run.span, words, help);
            return Vec::new();
        }
        let mut group = Vec::new();
        for (workload, share) in workloads.iter().zip(&shares) {
            let is_alone = workloads.len() == 1;
            let (storage, point, share) = (storage.as_slice(), &point, *share);
            let case = Case { workload, is_alone, storage, point, share, limits };
            group.extend(reading.job(&case));
            reading.found.notes.truncate(common.0);
            reading.found.traps.truncate(common.1);
        }
        groups.push(group);
    }
    reading.found.notes.truncate(before.0);
    reading.found.traps.truncate(before.1);
    groups
}

impl Reading<'_, '_> {
    /// Notes or refuses all parameters of a definition that are not interpreted elsewhere.
    fn sift(&mut self, definition: &Definition) {
        for parameter in &definition.parameters {
            let Some(full) = canonical(definition.kind, &parameter.key) else {
                let words = format!("iodyno does not know vdbench's parameter `{}`", parameter.key);
                self.found.refuse(
                    &parameter.span,
                    words,
                    "remove the parameter if it does not matter",
                );
                continue;
            };
            let value = first(parameter);
            match full {
                "rhpct" | "whpct" if value != "0" => {
                    let words = "a percentage of cache hits can't be honoured";
                    let help =
                        "remove it, or use `hot-spots` or `recently-read` in a workload file";
                    self.found.refuse(&parameter.span, words, help);
                }
                "count" | "offset" | "journal" | "replay" | "streams" | "hotband" | "stride"
                | "priority" | "user" | "curve" | "stopcurve" | "mount" => {
                    let help = match full {
                        "count" => "use an `sd=` for each storage",
                        "curve" | "stopcurve" => {
                            "remove it: `iodyno run load-latency` draws a curve"
                        }
                        "stride" => "remove it, or use `strided` in a workload file",
                        _ => "remove it",
                    };
                    let words = format!("`{full}` can't be honoured");
                    self.found.refuse(&parameter.span, words, help);
                }
                "iorate" if definition.kind == Kind::Workload => {
                    let words = "a workload's own rate can't be honoured";
                    self.found.refuse(&parameter.span, words, "give the rate to the run");
                }
                "threads" if definition.kind == Kind::Workload => {
                    let words = "a workload's own threads can't be honoured";
                    self.found.refuse(&parameter.span, words, "give the threads to the storage");
                }
                "skew" if definition.kind == Kind::Run => {
                    let words = "a run's skew can't be honoured";
                    self.found.refuse(&parameter.span, words, "give each workload its skew");
                }
                "startcmd" | "start_cmd" | "endcmd" | "end_cmd" => {
                    let words = format!("`{full}`: iodyno does not run programs");
                    let help = "remove it, and run the program before or after iodyno";
                    self.found.refuse(&parameter.span, words, help);
                }
                "host" | "hd" if !matches!(value, "localhost" | "*") => {
                    let words = "a run uses only this host";
                    self.found.refuse(&parameter.span, words, "remove it");
                }
                "rhpct" | "whpct" | "hitarea" | "kstat" | "instance" | "resetlun" | "resetbus"
                | "pause" | "host" | "hd" => {
                    let words = format!("`{full}` has no effect on results");
                    self.found.note(&parameter.span, words);
                }
                _ => {}
            }
        }
    }

    /// Resolves a list of names to definitions. The list may contain `*`, `name*`, and ranges such as
    /// `name1-name9`.
    fn named<'d>(
        &mut self,
        parameter: &Parameter,
        all: &'d [Definition],
        kind: Kind,
    ) -> Vec<&'d Definition> {
        let mut chosen: Vec<&Definition> = Vec::new();
        for value in &parameter.values {
            let before = chosen.len();
            let known = || all.iter().filter(|d| d.kind == kind);
            let text = value.text.as_str();
            let range = text.split_once('-').filter(|_| !known().any(|d| d.name == text));
            if let Some((from, to)) = range {
                for name in names_between(from, to).unwrap_or_default() {
                    if let Some(one) = known().find(|d| d.name == name) {
                        chosen.push(one);
                    } else {
                        let words = format!("`{name}` of the range `{text}` is not defined");
                        self.found.refuse(&value.span, words, "use defined names only");
                    }
                }
            } else if let Some(prefix) = text.strip_suffix('*') {
                chosen.extend(known().filter(|d| d.name.starts_with(prefix)));
            } else {
                chosen.extend(known().filter(|d| d.name == text));
            }
            if chosen.len() == before {
                let words = format!("`{text}` is not defined");
                self.found.refuse(&value.span, words, "define it above the line that names it");
            }
        }
        chosen.dedup();
        chosen.truncate(MAX_GROUPS);
        chosen
    }

    fn workloads<'d>(&mut self, all: &'d [Definition]) -> Vec<&'d Definition> {
        let chosen = if let Some(parameter) = find(self.run, "wd") {
            self.named(parameter, all, Kind::Workload)
        } else {
            self.found.refuse(&self.run.span, "the run names no workload", "set `wd=wd1`");
            Vec::new()
        };
        for workload in &chosen {
            self.sift(workload);
        }
        chosen
    }

    /// Each workload's fraction of the rate, from 0 to 1. Workloads without a `skew` divide the rest equally.
    fn skews(&mut self, workloads: &[&Definition]) -> Vec<f64> {
        let mut own: Vec<Option<f64>> = Vec::new();
        for workload in workloads {
            let value = find(workload, "skew").and_then(|p| p.values.first());
            own.push(value.and_then(|value| self.number(value)).filter(|skew| *skew > 0.0));
        }
        let given: f64 = own.iter().flatten().sum();
        let open = own.iter().filter(|skew| skew.is_none()).count();
        let is_whole = (given - 100.0).abs() < 0.001;
        if !own.is_empty() && is_whole != (open == 0) || given > 100.001 {
            let words = format!("the skews of the run's workloads add up to {given} %");
            let help = "skews must add up to 100 %; workloads without a skew share the rest evenly";
            self.found.refuse(&self.run.span, words, help);
        }
        let rest = (100.0 - given) / open.max(1) as f64;
        own.iter().map(|skew| skew.unwrap_or(rest) / 100.0).collect()
    }

    /// Returns the storage definitions of the run. Refuses workloads on different storage, and storage with
    /// different parameters.
    fn storage<'d>(
        &mut self,
        workloads: &[&Definition],
        all: &'d [Definition],
    ) -> Vec<&'d Definition> {
        let mut chosen: Option<Vec<&Definition>> = None;
        for workload in workloads {
            let Some(parameter) = find(self.run, "sd").or_else(|| find(workload, "sd")) else {
                let words = format!("the workload `{}` names no storage", workload.name);
                self.found.refuse(&workload.span, words, "set `sd=sd1`, or `sd=*`");
                continue;
            };
            let own = self.named(parameter, all, Kind::Storage);
            match &chosen {
                Some(before) if *before != own => {
                    let words = "workloads at the same time on different storage can't be honoured: all workloads of a run share its targets";
                    self.found.refuse(&parameter.span, words, "use a run for each");
                }
                _ => chosen = Some(own),
            }
        }
        let chosen = chosen.unwrap_or_default();
        for storage in &chosen {
            self.sift(storage);
        }
        if let Some((one, others)) = chosen.split_first() {
            for key in ["size", "threads", "align", "openflags", "range"] {
                let text = |d: &Definition| {
                    let values = find(d, key).map_or(&[][..], |p| &p.values);
                    values.iter().map(|value| value.text.clone()).collect::<Vec<_>>()
                };
                if let Some(other) = others.iter().find(|other| text(other) != text(one)) {
                    let words = format!("`{}` and `{}` differ in `{key}`", one.name, other.name);
                    let help =
                        "the targets of a run must have equal parameters: use a run for each";
                    self.found.refuse(&other.span, words, help);
                }
            }
        }
        chosen
    }

    /// Parses a value as a number with vdbench's suffixes; None if it is refused.
    pub(super) fn number(&mut self, value: &Value) -> Option<f64> {
        let read = number(&value.text);
        if read.is_none() {
            self.found.refuse(&value.span, format!("`{}` is not a number", value.text), "");
        }
        read
    }

    /// Parses a value as a whole number of bytes, threads or seconds; None if it is refused.
    pub(super) fn whole(&mut self, value: &Value) -> Option<u64> {
        let number = self.number(value)?;
        if !(0.0..=1e18).contains(&number) || number.fract() != 0.0 {
            let words = format!("`{}` is not a whole number", value.text);
            self.found.refuse(&value.span, words, "");
            return None;
        }
        Some(number as u64)
    }

    /// Parses a value as a time in seconds, with an optional suffix `s`, `m` or `h`; None if it is refused.
    fn seconds(&mut self, value: &Value) -> Option<u64> {
        let text = value.text.as_str();
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 'm')) => (&text[..at], 60),
            Some((at, 'h')) => (&text[..at], 3600),
            Some((at, 's')) => (&text[..at], 1),
            _ => (text, 1),
        };
        let read = digits.parse::<u32>().ok().map(|n| u64::from(n) * unit);
        if read.is_none() {
            let words = format!("`{text}` is not a time in seconds");
            self.found.refuse(&value.span, words, "use a form such as 60, 5m or 1h");
        }
        read
    }

    /// Determines the limits of the run. As in vdbench, `elapsed` includes an unmeasured first interval unless
    /// `warmup` is given; with `warmup`, `elapsed` begins after it.
    fn limits(&mut self, overrides: &Overrides, targets: usize) -> Limits {
        let mut seconds = |key: &str, other: &Option<String>| {
            if let Some(text) = other {
                let value = Value { text: text.clone(), span: self.run.span.clone() };
                return self.seconds(&value);
            }
            let value = find(self.run, key)?.values.first()?;
            self.seconds(value)
        };
        let elapsed_s = seconds("elapsed", &overrides.elapsed).unwrap_or(30);
        let interval_s = seconds("interval", &overrides.interval).unwrap_or(1);
        let warmup_s = seconds("warmup", &overrides.warmup).filter(|warmup| *warmup > 0);
        let run = self.run;
        let span = |key: &str| find(run, key).map_or(&run.span, |p| &p.span);
        if interval_s == 0 || elapsed_s / interval_s.max(1) < 2 {
            let words = "`elapsed` must be at least twice `interval`, as in vdbench";
            self.found.refuse(span("elapsed"), words, "raise `elapsed`, or shorten `interval`");
        }
        let mut bytes = None;
        if let Some(value) = find(run, "maxdata").and_then(|p| p.values.first()) {
            bytes = self.whole(value).map(|bytes| bytes / targets.max(1) as u64);
            if bytes.is_some_and(|bytes| bytes < 100) {
                let words = "`maxdata` as a multiple of the storage can't be honoured";
                self.found.refuse(&value.span, words, "give it in bytes, such as 200g");
            }
        }
        let words = format!(
            "a time series by interval is always kept; `--interval {interval_s}s` sets this interval"
        );
        if find(run, "interval").is_some() {
            self.found.note(span("interval"), words);
        }
        if let Some(ramp_s) = warmup_s {
            return Limits { ramp_s, time_s: elapsed_s, bytes };
        }
        let words = format!(
            "vdbench leaves the first interval, {interval_s} s, out of its totals: iodyno treats it as a ramp"
        );
        self.found.note(span("elapsed"), words);
        Limits { ramp_s: interval_s, time_s: elapsed_s.saturating_sub(interval_s), bytes }
    }
}

/// Expands a range of names such as `sd1` to `sd9`. None if the prefixes differ, the numbers don't ascend, or
/// there are too many names.
fn names_between(from: &str, to: &str) -> Option<Vec<String>> {
    let split = |name: &str| {
        let at = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        Some((name[..at].to_owned(), name[at..].parse::<u32>().ok()?))
    };
    let ((prefix, first), (other, last)) = (split(from)?, split(to)?);
    if prefix != other || first >= last || last - first > MAX_GROUPS as u32 {
        return None;
    }
    let others = (first + 1..=last).map(|number| format!("{prefix}{number}"));
    Some(std::iter::once(from.to_owned()).chain(others).collect())
}

/// Parses a number with an optional suffix k, m, g or t (powers of 1024).
pub(super) fn number(text: &str) -> Option<f64> {
    let (at, last) = text.char_indices().last()?;
    let shift = match last.to_ascii_lowercase() {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        _ => 0,
    };
    let digits = if shift > 0 { &text[..at] } else { text };
    let number = digits.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some(number * (1_u64 << shift) as f64)
}
