//! Rates, percentiles, latency buckets and verdicts on validity of a run in progress, read from the notebook. The run's
//! process writes to the notebook about once a second.
//!
//! An update reads only new intervals, whatever the length of the run, and several clients share it.

use iodyno_measure::{Histogram, Interval, IoKinds, Level, Verdict};
use iodyno_notebook::{Error, Notebook, Progress, Status};
use iodyno_units::OpKind;
use iodyno_units::text::clean;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two reads of a run from the notebook.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Number of intervals kept for the charts.
const POINTS_MAX: usize = 600;
/// Number of latest intervals that are read again. They may still grow, because workers deliver their parts separately.
const GROWING: usize = 3;
/// Maximum number of intervals per read. A long run is caught up in several reads.
const INTERVALS_PER_LOOK: usize = 4000;
/// Maximum number of runs whose state is kept.
const WATCHED_MAX: usize = 4;
/// Minimum time between two judgements, each of which reads all intervals of the measured cells.
const JUDGE_EVERY: Duration = Duration::from_secs(5);
/// Minimum ratio of the time between two judgements to the duration of one. Judging thus takes at most 0.5 % of the
/// time.
const JUDGE_REST: u32 = 200;
/// Maximum number of intervals that a judgement reads; longer series are coarsened.
const JUDGED_INTERVALS_MAX: u64 = 1000;
/// Number of latency rows of the heat map per factor of two.
const ROWS_AN_OCTAVE: f64 = 4.0;
/// Quantiles in the charts, besides the maximum.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// The runs in progress that pages show.
#[derive(Debug)]
pub(crate) struct Live {
    notebook: PathBuf,
    watched: Mutex<BTreeMap<String, Watched>>,
}

/// State of a run in progress, as last read for its page.
#[derive(Debug)]
struct Watched {
    looked: Instant,
    progress: Progress,
    /// Indices of the cells that are being measured: one per target.
    step: Vec<usize>,
    /// Sum of the first `settled` intervals, merged over the targets.
    total: Interval,
    /// Number of intervals that no longer grow. They are not read again.
    settled: usize,
    /// Latest intervals, for the charts. Those after the first `settled` intervals of the cells may still grow.
    points: VecDeque<Interval>,
    /// Number of intervals that have been read of each measured cell.
    count: usize,
    verdicts: Vec<Verdict>,
    judge_after: Instant,
}

impl Live {
    pub(crate) fn new(notebook: &Path) -> Self {
        Self { notebook: notebook.to_owned(), watched: Mutex::default() }
    }

    /// Progress of the run with this id or other selector.
    ///
    /// # Errors
    /// The notebook can't be read, or has no such run.
    pub(crate) fn progress(&self, id: &str) -> Result<Progress, Error> {
        Notebook::open_existing(&self.notebook)?.progress(id)
    }

    /// State of the run `id` for the page's script, with the intervals from `from` on.
    ///
    /// # Errors
    /// The notebook can't be read, or has no such run.
    pub(crate) fn data(&self, id: &str, from: usize) -> Result<Value, Error> {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(id) {
            let progress = self.progress(id)?;
            if all.len() >= WATCHED_MAX
                && let Some(oldest) = all.iter().min_by_key(|(_, of)| of.looked)
            {
                let oldest = oldest.0.clone();
                all.remove(&oldest);
            }
            all.insert(id.to_owned(), Watched::new(progress));
        }
        let watched = all.get_mut(id).expect("it was inserted");
        if watched.looked.elapsed() >= LOOK_EVERY {
            watched.look(&Notebook::open_existing(&self.notebook)?, id)?;
        }
        Ok(watched.json(from))
    }
}

impl Watched {
    fn new(progress: Progress) -> Self {
        let now = Instant::now();
        Self {
            looked: now.checked_sub(LOOK_EVERY).unwrap_or(now),
            progress,
            step: Vec::new(),
            total: Interval::default(),
            settled: 0,
            points: VecDeque::new(),
            count: 0,
            verdicts: Vec::new(),
            judge_after: now + JUDGE_EVERY,
        }
    }

    fn look(&mut self, notebook: &Notebook, id: &str) -> Result<(), Error> {
        self.looked = Instant::now();
        self.progress = notebook.progress(id)?;
        let measured = self.progress.cells.iter().filter(|cell| !cell.is_finished);
        let step: Vec<usize> = measured.map(|cell| cell.index).collect();
        // Between two steps, the last one stays visible.
        if step != self.step && !step.is_empty() {
            *self = Self { step, looked: self.looked, ..Self::new(self.progress.clone()) };
        }
        self.read(notebook, id)?;
        if self.judge_after <= self.looked && self.progress.status == Status::Running {
            self.judge(notebook, id)?;
        }
        Ok(())
    }

    /// Reads the intervals that are new or may have grown.
    fn read(&mut self, notebook: &Notebook, id: &str) -> Result<(), Error> {
        let mut new: Vec<Interval> = Vec::new();
        let mut count = usize::MAX;
        for &cell in &self.step {
            let found = notebook.intervals(id, cell, self.settled, INTERVALS_PER_LOOK)?;
            count = count.min(self.settled + found.len());
            for (at, interval) in found.iter().enumerate() {
                match new.get_mut(at) {
                    Some(merged) => merged.merge(interval),
                    None => new.push(interval.clone()),
                }
            }
        }
        if self.step.is_empty() {
            return Ok(());
        }
        new.truncate(count - self.settled);
        self.points.truncate(self.points.len() - (self.count - self.settled));
        let settle = new.len().saturating_sub(GROWING);
        for interval in &new[..settle] {
            self.total.merge(interval);
            self.total.trim();
        }
        self.points.extend(new);
        let surplus = self.points.len().saturating_sub(POINTS_MAX);
        self.points.drain(..surplus);
        self.settled += settle;
        self.count = count;
        Ok(())
    }

    fn judge(&mut self, notebook: &Notebook, id: &str) -> Result<(), Error> {
        let runs = notebook.load_several_merged(id, Some(JUDGED_INTERVALS_MAX), true)?;
        let cells =
            runs.iter().flat_map(|run| &run.cells).skip(self.step.first().copied().unwrap_or(0));
        self.verdicts.clear();
        for verdict in cells.flat_map(|cell| &cell.verdicts) {
            if verdict.level > Level::Valid && !self.verdicts.contains(verdict) {
                self.verdicts.push(verdict.clone());
            }
        }
        self.verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
        let rest = (self.looked.elapsed() * JUDGE_REST).max(JUDGE_EVERY);
        self.judge_after = Instant::now() + rest;
        Ok(())
    }

    fn interval_s(&self) -> f64 {
        let cell = self.progress.cells.iter().find(|cell| self.step.contains(&cell.index));
        cell.map_or(1.0, |cell| cell.interval_ns.max(1) as f64 / 1e9)
    }

    fn json(&self, from: usize) -> Value {
        let mut sum = self.total.clone();
        let growing = self.count - self.settled;
        for interval in self.points.iter().skip(self.points.len() - growing) {
            sum.merge(interval);
        }
        let kinds: Vec<OpKind> = sum.kinds().collect();
        let counted = IoKinds::of(kinds.iter().copied());
        let seconds = self.count as f64 * self.interval_s();
        let first = self.count - self.points.len();
        // What may have grown since is sent again.
        let skip = from.min(self.settled).saturating_sub(first);
        let points = self.points.iter().enumerate().skip(skip);
        let points = points.map(|(at, of)| self.point(first + at, of, &kinds, counted));
        let totals = kinds.iter().filter_map(|&kind| {
            let stats = sum.class(kind)?;
            let [p50, p99, p999, max] = latencies(stats.response_time());
            Some(json!({
                "kind": kind.name(), "iops": per_s(stats.ops(), seconds),
                "p50_ns": p50, "p99_ns": p99, "p999_ns": p999, "max_ns": max,
            }))
        });
        let cells = &self.progress.cells;
        let name = cells.iter().find(|cell| self.step.contains(&cell.index));
        let targets = cells.iter().filter(|cell| self.step.contains(&cell.index));
        let verdicts = self.verdicts.iter().map(|verdict| {
            json!({ "level": verdict.level.name(), "code": verdict.code, "text": clean(&verdict.text) })
        });
        json!({
            "name": clean(&self.progress.name),
            "status": self.progress.status.name(),
            "step": self.step.first(),
            "cell": clean(name.map_or("", |cell| &cell.name)),
            "targets": targets.map(|cell| clean(&cell.target)).collect::<Vec<_>>(),
            "finished": cells.iter().filter(|cell| cell.is_finished).count(),
            "interval_s": self.interval_s(),
            "seconds": seconds,
            "iops": per_s(sum.ios(counted), seconds),
            "bytes_per_s": per_s(sum.bytes(), seconds),
            "errors": sum.errors().total(),
            "rows_an_octave": ROWS_AN_OCTAVE,
            "kinds": kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
            "totals": totals.collect::<Vec<_>>(),
            "verdicts": verdicts.collect::<Vec<_>>(),
            "points": points.collect::<Vec<_>>(),
        })
    }

    /// Formats an interval: its number, IOPS, bytes/s and errors, then a list per kind of operation. That list has the
    /// percentiles, the maximum, and the rows of the heat map with their numbers of operations.
    fn point(&self, index: usize, of: &Interval, kinds: &[OpKind], counted: IoKinds) -> Value {
        let seconds = self.interval_s();
        let each = kinds.iter().map(|&kind| match of.class(kind) {
            Some(stats) if stats.ops() > 0 => {
                let response_time = stats.response_time();
                let [p50, p99, p999, max] = latencies(response_time);
                json!([p50, p99, p999, max, rows(response_time)])
            }
            _ => Value::Null,
        });
        json!([
            index,
            per_s(of.ios(counted), seconds),
            per_s(of.bytes(), seconds),
            of.errors().total(),
            each.collect::<Vec<_>>()
        ])
    }
}

fn per_s(n: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (n as f64 / seconds).round() } else { 0.0 }
}

/// Percentiles that the samples support, and the maximum, ns.
fn latencies(of: &Histogram) -> [Option<u64>; 4] {
    let [p50, p99, p999] = QUANTILES.map(|q| of.supported_quantile_ns(q));
    [p50, p99, p999, of.max_ns()]
}

/// Counts the operations per row of the heat map. A row is a range of latencies on a logarithmic scale.
fn rows(of: &Histogram) -> Vec<(i64, u64)> {
    let mut rows: BTreeMap<i64, u64> = BTreeMap::new();
    for bucket in of.buckets() {
        let middle_ns = bucket.middle_ns().max(1.0);
        let row = (middle_ns.log2() * ROWS_AN_OCTAVE).floor() as i64;
        *rows.entry(row).or_default() += bucket.count;
    }
    rows.into_iter().collect()
}
