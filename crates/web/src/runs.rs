//! The list of runs, kept in memory and updated when the notebook's file changes. The result of a run that used a
//! method (a measurement procedure) requires reading the whole run, so a background thread adds these results later.

use iodyno_measure::Level;
use iodyno_notebook::{Error, Notebook, RunSummary, Status};
use iodyno_report::{Standing, headline, listed_level, listed_result};
use iodyno_units::text::clean;
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Minimum time between two checks whether the notebook has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pause of the background thread if it has nothing to do, and while a run is in progress, which it must not disturb.
const REST: Duration = Duration::from_millis(500);
/// Maximum number of a run's targets that the list names.
const TARGETS_MAX: usize = 3;

/// A run as a line of the list. Texts are cleaned, and not escaped.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) id: String,
    /// Start, ms since 1970.
    pub(crate) started_ms: i64,
    /// Start, UTC, to the minute.
    pub(crate) started: String,
    pub(crate) status: &'static str,
    /// `valid`, `warning` or `invalid`; empty while the run is in progress, and if nothing was judged.
    pub(crate) level: &'static str,
    pub(crate) name: String,
    pub(crate) targets: String,
    pub(crate) result: String,
    /// First rate in the result, by which results are sorted.
    rate: Rate,
}

/// Rate that a result shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Rate {
    #[default]
    None,
    Bytes(f64),
    Operations(f64),
}

impl Rate {
    /// Finds the first rate in a run's headline, such as `most: 119 k IOPS, lowest latency: 76.9 µs`. The text is the
    /// only form of a method's result.
    fn first_in(headline: &str) -> Self {
        let text = headline.replace("/s", " /s").replace("B /s", " B/s");
        let words = text.split_whitespace().map(|word| word.trim_end_matches([',', ')']));
        let words: Vec<&str> = words.collect();
        let rate = |words: &[&str]| {
            let number = words.first()?.parse::<f64>().ok().filter(|number| number.is_finite())?;
            let scale = match *words.get(1)? {
                "k" => Some(1e3),
                "M" => Some(1e6),
                "G" => Some(1e9),
                "T" => Some(1e12),
                _ => None,
            };
            let rate = number * scale.unwrap_or(1.0);
            match *words.get(1 + usize::from(scale.is_some()))? {
                "B/s" => Some(Self::Bytes(rate)),
                "IOPS" | "/s" => Some(Self::Operations(rate)),
                _ => None,
            }
        };
        (0..words.len()).find_map(|at| rate(&words[at..])).unwrap_or_default()
    }

    /// Sort key for the page's script: the kind of rate, and its value.
    fn key(self) -> (u8, f64) {
        match self {
            Self::None => (0, 0.0),
            Self::Bytes(rate) => (1, rate),
            Self::Operations(rate) => (2, rate),
        }
    }
}

impl Line {
    pub(crate) fn is_running(&self) -> bool {
        self.status == Status::Running.name()
    }

    /// Text of the verdict, so that it does not depend on colour alone.
    pub(crate) fn mark(&self) -> &'static str {
        match (self.level, self.status) {
            ("valid", _) => "✓ VALID",
            ("warning", _) => "! warning",
            ("invalid", _) => "✗ INVALID",
            (_, "running") => "● running",
            _ => "–",
        }
    }
}

/// The list of runs, as last read from the notebook.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Version of the list; increases with each change.
    pub(crate) version: u64,
    /// Runs, the oldest first.
    pub(crate) lines: Vec<Line>,
    /// Number of runs whose result is not known yet.
    pub(crate) pending: usize,
}

impl Listing {
    /// The listing for the page's script: an object with a row per run, oldest first.
    pub(crate) fn json(&self) -> String {
        let row = |of: &Line| {
            json!([
                of.id,
                of.started_ms,
                of.status,
                of.level,
                of.name,
                of.targets,
                of.result,
                of.rate.key()
            ])
        };
        let rows: Vec<_> = self.lines.iter().map(row).collect();
        json!({ "version": self.version, "pending": self.pending, "runs": rows }).to_string()
    }
}

/// Size and modification time of the notebook's file and of its write-ahead log.
type Stamp = [Option<(u64, SystemTime)>; 2];

#[derive(Debug, Default)]
struct State {
    summaries: Vec<RunSummary>,
    /// Standings of the runs of a method, by id, each with the end that the run had when it was judged. No standing:
    /// the run can't be read.
    standings: HashMap<String, (Option<iodyno_notebook::Timestamp>, Option<Standing>)>,
    stamp: Option<Stamp>,
    looked: Option<Instant>,
    /// Whether the listing must be rebuilt.
    is_stale: bool,
    listing: Arc<Listing>,
}

/// The list of a notebook's runs, kept up to date.
#[derive(Debug)]
pub(crate) struct Runs {
    path: PathBuf,
    state: Mutex<State>,
}

impl Runs {
    /// Starts to keep the list of a notebook, which need not exist yet.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn new(path: &Path) -> std::io::Result<Arc<Self>> {
        let runs = Arc::new(Self { path: path.to_owned(), state: Mutex::default() });
        let kept = Arc::clone(&runs);
        std::thread::Builder::new().name("standings".to_owned()).spawn(move || {
            // The first reader need not wait for the whole list. Errors are that reader's.
            let _ = kept.listing();
            loop {
                if !kept.add_standing() {
                    std::thread::sleep(REST);
                }
            }
        })?;
        Ok(runs)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp(&self) -> Stamp {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        [self.path.as_path(), Path::new(&log)].map(|path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.len(), found.modified().ok()?))
        })
    }

    /// Returns the list as it is now.
    ///
    /// # Errors
    /// The notebook can't be read.
    pub(crate) fn listing(&self) -> Result<Arc<Listing>, Error> {
        let mut state = self.lock();
        if state.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.look(&mut state)?;
        }
        if state.is_stale {
            state.is_stale = false;
            let version = state.listing.version + 1;
            state.listing = Arc::new(state.listing(version));
        }
        Ok(Arc::clone(&state.listing))
    }

    /// Whether a run is in progress, which other work of this machine would disturb.
    pub(crate) fn has_running(&self) -> bool {
        self.listing().is_ok_and(|listing| listing.lines.iter().any(Line::is_running))
    }

    fn look(&self, state: &mut State) -> Result<(), Error> {
        let stamp = self.stamp();
        // A run whose process was killed changes without a write.
        let is_same = state.stamp.as_ref() == Some(&stamp)
            && !state.summaries.iter().any(|run| run.status == Status::Running);
        if !is_same {
            let changed = if stamp[0].is_none() {
                let had = !state.summaries.is_empty();
                state.summaries.clear();
                had
            } else {
                Notebook::open_existing(&self.path)?.update_list(&mut state.summaries)?
            };
            state.is_stale |= changed;
            state.stamp = Some(stamp);
        }
        state.looked = Some(Instant::now());
        Ok(())
    }

    /// Finds the result of one run of a method. Returns false if there is nothing to do, or a run is in progress.
    fn add_standing(&self) -> bool {
        let next = {
            let state = self.lock();
            if state.summaries.iter().any(|run| run.status == Status::Running) {
                return false;
            }
            let next = state.summaries.iter().rev().find(|run| state.is_pending(run));
            next.map(|run| (run.id.clone(), run.ended))
        };
        let Some((id, ended)) = next else { return false };
        let run = Notebook::open_existing(&self.path).and_then(|notebook| notebook.load(&id));
        let standing = run.ok().map(|run| Standing::of(&run));
        let mut state = self.lock();
        state.standings.insert(id, (ended, standing));
        state.is_stale = true;
        true
    }
}

impl State {
    /// Whether the result of a run has yet to be computed.
    fn is_pending(&self, run: &RunSummary) -> bool {
        let of = self.standings.get(&run.id);
        run.has_method
            && run.status != Status::Running
            && of.is_none_or(|(ended, _)| *ended != run.ended)
    }

    fn listing(&self, version: u64) -> Listing {
        let lines = self.summaries.iter().map(|run| self.line(run)).collect();
        let pending = self.summaries.iter().filter(|run| self.is_pending(run)).count();
        Listing { version, lines, pending }
    }

    fn line(&self, run: &RunSummary) -> Line {
        let is_pending = self.is_pending(run);
        let standing = self.standings.get(&run.id).filter(|_| !is_pending);
        let standing = standing.and_then(|of| of.1.as_ref());
        let mut targets =
            run.targets.iter().take(TARGETS_MAX).cloned().collect::<Vec<_>>().join(", ");
        if run.targets.len() > TARGETS_MAX {
            let _ = write!(targets, " and {} more", run.targets.len() - TARGETS_MAX);
        }
        let result = if is_pending { "…".to_owned() } else { listed_result(run, standing) };
        // The reason for a failure is not a result.
        let has_result = !is_pending && !matches!(run.status, Status::Failed(_));
        let headline = if has_result { headline(run, standing) } else { String::new() };
        Line {
            id: run.id.clone(),
            started_ms: run.started.as_millisecond(),
            started: run.started.strftime("%Y-%m-%d %H:%M").to_string(),
            status: run.status.name(),
            level: match listed_level(run, standing).filter(|_| !is_pending) {
                None => "",
                Some(Level::Invalid) => "invalid",
                Some(Level::Warning) => "warning",
                Some(_) => "valid",
            },
            name: clean(&run.name).into_owned(),
            targets: clean(&targets).into_owned(),
            result: clean(&result).into_owned(),
            rate: Rate::first_in(&headline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_sorted_by_the_rate_that_they_show() {
        for (headline, rate) in [
            ("92.3 k IOPS", Rate::Operations(92.3e3)),
            ("950 IOPS (mean of 3)", Rate::Operations(950.0)),
            ("random-read 1.23 M IOPS, seq-read 2.10 GB/s", Rate::Operations(1.23e6)),
            ("seq 4 512 kB/s, random-read 119 k IOPS", Rate::Bytes(512e3)),
            ("950 B/s and 5.1 k flushes/s (p99 48 µs)", Rate::Bytes(950.0)),
            ("most on model:exflash-400g: 119 k IOPS", Rate::Operations(119e3)),
            ("rounds: steady state, lowest latency: 76.9 µs, most: 8 IOPS", Rate::Operations(8.0)),
            ("highest rate with p99 at most 1.00 ms: 15.2 k/s", Rate::Operations(15.2e3)),
            ("highest rate with p99 at most 1.00 ms: 950/s", Rate::Operations(950.0)),
            ("8 threads: × 3.20", Rate::None),
            ("– IOPS", Rate::None),
            ("", Rate::None),
        ] {
            assert_eq!(Rate::first_in(headline), rate, "{headline}");
        }
    }
}
