//! Distributes the latencies of a fio job over time intervals according to its logs.

use super::latency::Values;
use super::log::{LogFile, LogKind, Row, bins};
use iodyno_catalog::Problem;
use iodyno_measure::{ClassStats, Histogram};
use iodyno_units::OpKind;
use std::collections::BTreeMap;

/// Maximum number of intervals of a job. A longer job gets longer intervals.
const INTERVALS_MAX: u64 = 10_000;
/// Interval for logs with a row per I/O, ms: the first for jobs shorter than a minute, the second for longer ones.
const INTERVAL_MS: [u64; 2] = [100, 1000];
/// Maximum relative excess of a log's total over the JSON's total. Rounded windows cause a small excess.
const EXCESS_MAX: f64 = 0.05;
/// Maximum relative difference in the number of operations between a log with a row per I/O and the JSON.
const MISSING_MAX: f64 = 0.01;

/// Maximum number of further intervals over which a row of a histogram log is spread. fio may write a row late, so that
/// the row covers more than one window.
const LATE_SLOTS_MAX: usize = 64;

/// Totals of one kind of operation, from the job's JSON.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) kind: OpKind,
    /// Number of operations that succeeded.
    pub(super) ops: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
    /// Latencies; None: fio recorded no distribution.
    pub(super) values: Option<Values>,
    /// Whether `values` include submission (lat), because fio kept neither percentiles nor bins of clat.
    pub(super) with_submission: bool,
    /// Latency bins, by midpoint in ns; empty without `json+`.
    pub(super) bins: BTreeMap<u64, u64>,
}

/// The logs of one job, with the durations of the measurement and of an interval.
#[derive(Debug)]
pub(super) struct Logs<'a> {
    files: Vec<(LogKind, &'a LogFile)>,
    window_ms: u64,
    interval_ms: u64,
    /// Time window of a log row, ms; 0: one row per I/O.
    averaged_ms: u64,
    has_maxima: bool,
    /// Offset subtracted from all log times, ms: they count from the start of the ramp, or from 1970 with
    /// `log_unix_epoch`.
    shift_ms: u64,
}

/// Statistics of one kind of operation, by interval.
#[derive(Debug)]
pub(super) struct Divided {
    pub(super) intervals: Vec<ClassStats>,
    /// Whether the latencies per interval are unknown, so that all intervals have the overall distribution.
    pub(super) is_spread: bool,
    /// Whether latencies are upper bounds, derived from percentiles.
    pub(super) is_by_percentiles: bool,
    pub(super) remark: Option<String>,
}

impl<'a> Logs<'a> {
    /// Collects the logs of one job. `averaged_ms`: value of `log_avg_msec` or `log_hist_msec`; 0: not set.
    ///
    /// # Errors
    /// A damaged row.
    pub(super) fn new(
        files: Vec<(LogKind, &'a LogFile)>,
        window_ms: u64,
        averaged_ms: u64,
        has_maxima: bool,
    ) -> Result<Self, Problem> {
        let per_io = INTERVAL_MS[usize::from(window_ms >= 60_000)];
        let averaged_ms = if averaged_ms > 0 { averaged_ms } else { window_of(&files, has_maxima) };
        let interval_ms = if averaged_ms > 0 { averaged_ms } else { per_io };
        let interval_ms =
            interval_ms.max(window_ms.div_ceil(INTERVALS_MAX)).clamp(1, window_ms.max(1));
        let mut logs = Self { files, window_ms, interval_ms, averaged_ms, has_maxima, shift_ms: 0 };
        if logs.files.is_empty() {
            logs.interval_ms = window_ms.max(1);
        }
        let mut last_ms = 0;
        for (kind, file) in &logs.files {
            for row in file.rows(*kind, has_maxima) {
                last_ms = last_ms.max(row?.time_ms);
            }
        }
        // fio ends its windows late by some ms.
        if last_ms > window_ms + averaged_ms.max(1000) {
            logs.shift_ms = last_ms + 1 - window_ms;
        }
        Ok(logs)
    }

    pub(super) fn window_ns(&self) -> u64 {
        self.window_ms * 1_000_000
    }

    pub(super) fn interval_ns(&self) -> u64 {
        self.interval_ms * 1_000_000
    }

    fn count(&self) -> usize {
        // Jobs take some ms longer than their runtime: no interval for these.
        let rest_ms = self.window_ms % self.interval_ms;
        let has_rest = rest_ms * 50 > self.interval_ms;
        (self.window_ms / self.interval_ms + u64::from(has_rest)).max(1) as usize
    }

    /// Index of the interval that contains a time, ms since the start of the measurement.
    fn slot(&self, time_ms: u64) -> usize {
        ((time_ms / self.interval_ms) as usize).min(self.count() - 1)
    }

    /// Rows for one kind of operation in all logs of one kind.
    fn rows(
        &self,
        log: LogKind,
        of: OpKind,
    ) -> impl Iterator<Item = (&'a LogFile, Result<Row<'a>, Problem>)> {
        let files = self.files.iter().filter(move |(kind, _)| *kind == log);
        let (has_maxima, shift_ms) = (self.has_maxima, self.shift_ms);
        files.flat_map(move |(_, file)| {
            let file: &'a LogFile = file;
            let rows = file.rows(log, has_maxima).map(move |row| {
                row.map(|row| Row { time_ms: row.time_ms.saturating_sub(shift_ms), ..row })
            });
            rows.filter(move |row| row.as_ref().map_or(true, |row| row.kind == of))
                .map(move |row| (file, row))
        })
    }

    /// Divides one kind of operation into intervals by the best log: one with each I/O, else histograms, else rates.
    /// None if the latencies are unknown.
    ///
    /// # Errors
    /// A damaged row, or a log from another job.
    pub(super) fn divide(&self, of: &Totals) -> Result<Option<Divided>, Problem> {
        for log in [LogKind::CompletionLatency, LogKind::TotalLatency] {
            if let Some(divided) = self.by_each_io(log, of)? {
                return Ok(Some(divided));
            }
        }
        if let Some(divided) = self.by_histograms(of)? {
            return Ok(Some(divided));
        }
        let Some(values) = &of.values else { return Ok(None) };
        let weights = match self.weights(LogKind::Iops, of)? {
            Some(weights) => weights,
            None => self.weights(LogKind::Bandwidth, of)?.unwrap_or_else(|| self.evenly()),
        };
        let counts = whole(&weights, values.count());
        let intervals = values.dealt(&counts).iter().map(Values::histogram).collect();
        Ok(Some(Divided {
            intervals: with_bytes(intervals, of.bytes),
            is_spread: counts.len() > 1,
            is_by_percentiles: values.only_percentiles,
            remark: of.with_submission.then(|| {
                format!(
                    "the latencies of its {name}s include submission: they are fio's lat, since it kept no percentiles of clat (clat_percentiles=0, disable_clat)",
                    name = of.kind.name()
                )
            }),
        }))
    }

    fn evenly(&self) -> Vec<f64> {
        let length = |i| self.interval_ms.min(self.window_ms.saturating_sub(i * self.interval_ms));
        (0..self.count() as u64).map(|i| length(i) as f64).collect()
    }

    fn by_each_io(&self, log: LogKind, of: &Totals) -> Result<Option<Divided>, Problem> {
        let mut slots: Vec<(Vec<u64>, u64)> = vec![Default::default(); self.count()];
        let (mut ops, mut at) = (0_u64, None);
        for (file, row) in self.rows(log, of.kind) {
            let row = row?;
            if row.block_bytes > 0 {
                if row.value > 1 << 60 || row.block_bytes > 1 << 32 {
                    return Err(file.wrong(row.line, "the latency or block size is out of range"));
                }
                let (values, bytes) = &mut slots[self.slot(row.time_ms)];
                values.push(row.value);
                *bytes = bytes.saturating_add(row.block_bytes);
                ops += 1;
                at = Some((file, row.line));
            }
        }
        let Some((file, line)) = at else { return Ok(None) };
        if ops.abs_diff(of.ops) as f64 > MISSING_MAX * of.ops as f64 {
            return Err(of_another_job(file, line, ops, of));
        }
        let remark = (ops != of.ops).then(|| {
            format!(
                "its logs contain {ops} of {} {}s: the figures come from the logs",
                of.ops,
                of.kind.name()
            )
        });
        let stats = |(values, bytes): (Vec<u64>, u64)| {
            let mut service = Histogram::new();
            for ns in values {
                service.record(ns);
            }
            service.trim();
            ClassStats { bytes, service, ..ClassStats::default() }
        };
        let intervals = slots.into_iter().map(stats).collect();
        Ok(Some(Divided { intervals, is_spread: false, is_by_percentiles: false, remark }))
    }

    fn by_histograms(&self, of: &Totals) -> Result<Option<Divided>, Problem> {
        let mut slots: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); self.count()];
        let mut left = of.bins.clone();
        let (mut ops, mut at) = (0_u64, None);
        let mut last_ms: BTreeMap<&str, u64> = BTreeMap::new();
        for (file, row) in self.rows(LogKind::Histogram, of.kind) {
            let row = row?;
            let found = bins(row.counts).ok_or_else(|| {
                file.wrong(row.line, "the row does not have the 1856 bins of a histogram log")
                    .with_help("import logs that were made without log_hist_coarseness")
            })?;
            at = Some((file, row.line));
            // A row ends its window, which is longer where fio was late.
            let began_ms = last_ms.insert(&file.origin, row.time_ms).unwrap_or(0);
            let middle = |edge_ms: u64| edge_ms.saturating_sub(self.averaged_ms.max(1) / 2);
            let last = self.slot(middle(row.time_ms));
            let first = self.slot(middle(began_ms.saturating_add(self.averaged_ms)));
            let first = first.clamp(last.saturating_sub(LATE_SLOTS_MAX), last);
            let window = (last - first + 1) as u64;
            // The operations of the row, from the first bin on, are dealt to its intervals in turn.
            let mut dealt = 0_u64;
            for (ns, n) in found {
                ops = ops.saturating_add(n);
                let of_bin = left.entry(ns).or_default();
                if ops > of.ops || (!of.bins.is_empty() && *of_bin < n) {
                    return Err(of_another_job(file, row.line, ops, of));
                }
                *of_bin = of_bin.saturating_sub(n);
                for (index, slot) in (0..window).zip(&mut slots[first..=last]) {
                    let of_slot = |first: u64| (first + window - 1 - index) / window;
                    let share = of_slot(dealt + n) - of_slot(dealt);
                    if share > 0 {
                        *slot.entry(ns).or_default() += share;
                    }
                }
                dealt += n;
            }
        }
        let Some((file, line)) = at else { return Ok(None) };
        if ops < of.ops && of.bins.is_empty() {
            return Err(file
                .wrong(
                    line,
                    format!(
                        "the log ends before the job: it contains {ops} of {} {}s",
                        of.ops,
                        of.kind.name()
                    ),
                )
                .with_help(
                    "import the log with the output of `--output-format=json+`, whose bins complete it",
                ));
        }
        if let Some(last) = slots.last_mut() {
            for (ns, n) in left {
                *last.entry(ns).or_default() += n;
            }
        }
        let mut slots: Vec<Values> = slots
            .into_iter()
            .map(|slot| slot.into_iter().filter(|(_, n)| *n > 0).collect())
            .map(|counts| Values { counts, ..Values::default() })
            .collect();
        if let Some(values) = of.values.as_ref().filter(|_| !of.with_submission) {
            values.refine(&mut slots);
        }
        let intervals = slots.iter().map(Values::histogram).collect();
        let intervals = with_bytes(intervals, of.bytes);
        Ok(Some(Divided { intervals, is_spread: false, is_by_percentiles: false, remark: None }))
    }

    /// Weight of each interval according to a log of rates; None without such a log.
    fn weights(&self, log: LogKind, of: &Totals) -> Result<Option<Vec<f64>>, Problem> {
        let is_bytes = log == LogKind::Bandwidth;
        let total = if is_bytes { of.bytes } else { of.ops } as f64;
        let mut weights = vec![0.0; self.count()];
        let (mut sum, mut at) = (0.0, None);
        let mut last_ms: BTreeMap<&str, u64> = BTreeMap::new();
        for (file, row) in self.rows(log, of.kind) {
            let row = row?;
            let before_ms = last_ms.insert(&file.origin, row.time_ms).unwrap_or(0);
            at = Some((file, row.line));
            if row.block_bytes > 0 {
                let one = if is_bytes { row.block_bytes as f64 } else { 1.0 };
                weights[self.slot(row.time_ms)] += one;
                sum += one;
            } else {
                // Windows without I/O have no row, and the first is longer.
                let most_ms = self.averaged_ms.max(1).saturating_mul(3) / 2;
                let since_ms = row.time_ms.saturating_sub(before_ms);
                let length_ms =
                    if since_ms <= most_ms { since_ms } else { self.averaged_ms.min(since_ms) };
                let unit = if is_bytes { 1024.0 } else { 1.0 };
                let per_ms = row.value as f64 * unit / 1000.0;
                self.add(&mut weights, row.time_ms - length_ms, row.time_ms, per_ms);
                sum += per_ms * length_ms as f64;
            }
        }
        let Some((file, line)) = at else { return Ok(None) };
        if sum > total * (1.0 + EXCESS_MAX) + 1.0 {
            let what = if is_bytes { "bytes" } else { "operations" };
            return Err(file
                .wrong(line, format!("the log has {sum:.0} {what}, but the job has {total}"))
                .with_help("import logs together with the JSON of the same job"));
        }
        // fio does not log the last, incomplete window.
        let covered_ms: u64 = last_ms.values().sum();
        let ends: Vec<u64> = last_ms.into_values().filter(|end| *end < self.window_ms).collect();
        let tail_ms: u64 = ends.iter().map(|end| self.window_ms - end).sum();
        let per_ms = (total - sum).max(0.0) / tail_ms.max(1) as f64;
        if per_ms < 2.0 * sum / covered_ms.max(1) as f64 {
            for end in ends {
                self.add(&mut weights, end, self.window_ms, per_ms);
            }
        }
        Ok(Some(weights))
    }

    /// Adds the time from `from_ms` to `to_ms` at rate `per_ms` to the weights of its intervals.
    fn add(&self, weights: &mut [f64], from_ms: u64, to_ms: u64, per_ms: f64) {
        let mut at_ms = from_ms;
        while at_ms < to_ms {
            let slot = self.slot(at_ms);
            let is_last = slot + 1 == weights.len();
            let end_ms =
                if is_last { to_ms } else { to_ms.min((slot as u64 + 1) * self.interval_ms) };
            weights[slot] += (end_ms - at_ms) as f64 * per_ms;
            at_ms = end_ms;
        }
    }
}

/// Length of the first window, ms; 0 for logs with a row per I/O.
fn window_of(files: &[(LogKind, &LogFile)], has_maxima: bool) -> u64 {
    let first = |(kind, file): &(LogKind, &LogFile)| {
        let row = file.rows(*kind, has_maxima).next()?.ok()?;
        (*kind == LogKind::Histogram || row.block_bytes == 0).then_some(row.time_ms)
    };
    files.iter().find_map(first).unwrap_or(0)
}

fn of_another_job(file: &LogFile, line: usize, ops: u64, of: &Totals) -> Problem {
    let words =
        format!("the log has {ops} {}s up to this row, but the job has {}", of.kind.name(), of.ops);
    file.wrong(line, words).with_help("import logs together with the JSON of the same job")
}

/// Whole numbers with the sum `sum`, nearly proportional to `weights`.
fn whole(weights: &[f64], sum: u64) -> Vec<u64> {
    let all: f64 = weights.iter().sum();
    let (mut up_to, mut before) = (0.0, 0);
    let mut counts: Vec<u64> = weights
        .iter()
        .map(|weight| {
            up_to += weight;
            let now = if all > 0.0 { (up_to / all * sum as f64).round() as u64 } else { 0 };
            let now = now.clamp(before, sum);
            std::mem::replace(&mut before, now).abs_diff(now)
        })
        .collect();
    if let Some(last) = counts.last_mut() {
        *last += sum - before;
    }
    counts
}

/// Distributes `bytes` over the intervals, in proportion to their numbers of operations.
fn with_bytes(histograms: Vec<Histogram>, bytes: u64) -> Vec<ClassStats> {
    let counts: Vec<f64> = histograms.iter().map(|of| of.count() as f64).collect();
    let stats = |(service, bytes)| ClassStats { bytes, service, ..ClassStats::default() };
    histograms.into_iter().zip(whole(&counts, bytes)).map(stats).collect()
}
