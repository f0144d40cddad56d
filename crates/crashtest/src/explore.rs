//! Explores the states of a recorded run within a time limit: one state of each class in turn. A state equal to one
//! already judged is not checked again.

use crate::check::{Check, Verdict};
use crate::history::History;
use crate::job::Job;
use crate::judge::{Judge, Judged, Source};
use crate::minimise::{Finding, minimise};
use crate::rules::Rules;
use crate::states::{CLASSES, Choice, Class, StateId, States};
use crate::tree::Tree;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rules, limits and classes of an exploration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rules of the file system, which determine the possible states.
    pub rules: Rules,
    /// Classes of states to explore, such as [`Class::Torn`].
    pub classes: Vec<Class>,
    /// Maximum number of effects (parts of file operations) that a state of the class `subset` loses, or that it keeps.
    pub bound: usize,
    /// Unit of atomic writes, bytes; `None`: the unit that [`Plan::rules`] states.
    pub atomic_bytes: Option<u32>,
    /// Whether to explore a second power cut during the recovery of each state.
    pub again: bool,
    /// Time limit for all checks together.
    pub time: Duration,
    /// Number of checkers that run concurrently.
    pub workers: usize,
    /// Verdicts that end the exploration once each has been found. Empty: all states are judged.
    pub enough: Vec<Verdict>,
}

/// Number of states in a class, in total and judged.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClassCount {
    /// Name of the class, as in `--class`.
    pub class: &'static str,
    pub states: u64,
    /// Number of states of the class that were judged.
    pub judged: u64,
}

/// Result of an exploration: counts of states and verdicts, and the smallest wrong states.
#[derive(Debug, Default)]
pub struct Explored {
    /// Number of states by class. With [`Plan::again`] the last entry, `again`, counts the states after a second cut.
    pub classes: Vec<ClassCount>,
    /// Number of judged states by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Number of states not checked because their content equals that of an earlier state.
    pub same_content: u64,
    /// Number of states not checked because they equal an earlier state in all parts that the checker read.
    pub same_reads: u64,
    /// Number of runs of the checker, except those that minimise findings.
    pub checked: u64,
    /// Judged states from before the program's first output, when nothing was acknowledged. Fields: number of states,
    /// number of wrong states.
    pub before_output: (u64, u64),
    /// Spot checks of an assumption: states that differ only in unread data have the same verdict. Fields: number of
    /// checks, number of differing verdicts.
    pub spot_checks: (u64, u64),
    /// Smallest wrong states. First those after the program's first output, at most [`FINDINGS_MAX`] per verdict; then
    /// as many of the states before that output.
    pub findings: Vec<Finding>,
    /// Wall-clock time of the exploration.
    pub elapsed: Duration,
    /// Whether the exploration ended because its time was over.
    pub is_out_of_time: bool,
}

impl Explored {
    /// Whether all states of the plan were judged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.classes.iter().all(|count| count.judged == count.states)
    }

    /// Number of judged states that are wrong, over all verdicts.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        let is_wrong = |(verdict, _): &(&Verdict, &u64)| **verdict != Verdict::Consistent;
        self.verdicts.iter().filter(is_wrong).map(|(_, count)| count).sum()
    }
}

/// Maximum number of findings per verdict that are minimised and reported. Applies separately to states before and
/// after the program's first output.
pub const FINDINGS_MAX: usize = 3;
/// Maximum time for minimising a finding after the end of the exploration.
const MINIMISE_TIME: Duration = Duration::from_secs(5);
/// Maximum number of recoveries queued for exploration. States of any further recovery count as not judged.
const RECOVERIES_MAX: usize = 256;

/// Iterates over the states of a run, one of each class in turn. The order within a class is spread over the whole
/// class, so that even a short exploration samples all of it.
struct Cursor {
    job: Arc<Job>,
    classes: Vec<Spread>,
    turn: usize,
}

struct Spread {
    class: Class,
    /// For each epoch, number of states in all earlier epochs.
    starts: Vec<u64>,
    total: u64,
    stride: u64,
    next: u64,
}

impl Cursor {
    fn new(job: Arc<Job>, classes: &[Class]) -> Self {
        let classes = classes.iter().map(|class| Spread::new(&job.states, *class)).collect();
        Self { job, classes, turn: 0 }
    }

    fn next(&mut self) -> Option<StateId> {
        for _ in 0..self.classes.len() {
            self.turn = (self.turn + 1) % self.classes.len();
            if let Some(id) = self.classes[self.turn].next() {
                return Some(id);
            }
        }
        None
    }
}

impl Spread {
    fn new(states: &States, class: Class) -> Self {
        let mut total: u64 = 0;
        let mut starts = Vec::new();
        for epoch in 0..states.epochs.len() {
            starts.push(total);
            total = total.saturating_add(states.count(class, epoch));
        }
        // The golden section spreads any number of first states evenly.
        let mut stride = (total as f64 * 0.618_033_988_75) as u64 + 1;
        while greatest_common_divisor(stride, total) > 1 {
            stride += 1;
        }
        Self { class, starts, total, stride, next: 0 }
    }

    fn next(&mut self) -> Option<StateId> {
        if self.next == self.total {
            return None;
        }
        let at = u128::from(self.next) * u128::from(self.stride) % u128::from(self.total);
        self.next += 1;
        let at = at as u64;
        let epoch = self.starts.partition_point(|start| *start <= at) - 1;
        Some(StateId { class: self.class, epoch, number: at - self.starts[epoch] })
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// State of an exploration that all workers share.
struct Shared<'a> {
    plan: &'a Plan,
    judge: Judge<'a>,
    until: Instant,
    stop: &'a AtomicBool,
    report: &'a (dyn Fn(u64, u64) + Sync),
    progress: Mutex<Progress>,
}

struct Progress {
    program: Cursor,
    recoveries: VecDeque<Cursor>,
    /// Whether the last state handed out belongs to a recovery.
    was_recovery: bool,
    busy: usize,
    judged: BTreeMap<&'static str, u64>,
    /// Total number of states of all recoveries.
    again: u64,
    explored: Explored,
    failed: Option<io::Error>,
}

/// Name of the class of states after a second cut.
const AGAIN: &str = "again";

/// Explores the states that a power cut during a run can leave. Setting `stop` ends the exploration early. Calls
/// `progress` with the numbers of judged and of wrong states.
///
/// # Errors
///
/// The checker can't be started.
pub fn explore(
    history: History,
    plan: &Plan,
    check: &dyn Check,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> io::Result<Explored> {
    let started = Instant::now();
    let program = Cursor::new(
        Arc::new(Job::new(history, plan.rules, plan.bound, plan.atomic_bytes)),
        &plan.classes,
    );
    let shared = Shared {
        plan,
        judge: Judge::new(check),
        until: started + plan.time,
        stop,
        report: progress,
        progress: Mutex::new(Progress {
            program,
            recoveries: VecDeque::new(),
            was_recovery: false,
            busy: 0,
            judged: BTreeMap::new(),
            again: 0,
            explored: Explored::default(),
            failed: None,
        }),
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.workers.max(1) {
            scope.spawn(|| shared.work());
        }
    });
    let is_out_of_time = Instant::now() >= shared.until;
    let spot_checks = shared.judge.spot_checks();
    let progress = shared.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = progress.failed {
        return Err(error);
    }
    let mut explored = progress.explored;
    let judged = |class: &'static str| progress.judged.get(class).copied().unwrap_or(0);
    explored.classes = progress
        .program
        .classes
        .iter()
        .map(|spread| {
            let class = spread.class.name();
            ClassCount { class, states: spread.total, judged: judged(class) }
        })
        .collect();
    if plan.again {
        let (states, judged) = (progress.again, judged(AGAIN));
        explored.classes.push(ClassCount { class: AGAIN, states, judged });
    }
    explored.findings.sort_by_key(Finding::is_before_output);
    explored.spot_checks = spot_checks;
    explored.elapsed = started.elapsed();
    explored.is_out_of_time = !explored.is_complete() && is_out_of_time;
    Ok(explored)
}

/// Interval at which an idle worker checks for a new recovery, while other workers may still find one.
const TICK: Duration = Duration::from_millis(1);

impl Shared<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while Instant::now() < self.until && !self.stop.load(Ordering::Relaxed) {
            let next = {
                let mut progress = self.lock();
                if progress.failed.is_some() || progress.has_each(&self.plan.enough) {
                    return;
                }
                let next = progress.next();
                progress.busy += usize::from(next.is_some());
                if next.is_none() && progress.busy == 0 {
                    return;
                }
                next
            };
            let Some((job, id)) = next else {
                std::thread::sleep(TICK);
                continue;
            };
            let result = self.judge_state(&job, id);
            let mut progress = self.lock();
            progress.busy -= 1;
            if let Err(error) = result {
                progress.failed.get_or_insert(error);
            }
        }
    }

    fn judge_state(&self, job: &Arc<Job>, id: StateId) -> io::Result<()> {
        let Some(choice) = job.states.choice(id) else { return Ok(()) };
        let tree = job.tree(id.epoch, &choice);
        let acknowledged = job.acknowledged(id.epoch);
        let judged = self.judge.judge(&tree, &acknowledged)?;
        let is_recovery = job.is_recovery();
        let class = if is_recovery { AGAIN } else { id.class.name() };
        let (is_new, all, wrong) = {
            let mut progress = self.lock();
            let is_new = progress.count(class, &judged, acknowledged.is_empty());
            (is_new, progress.explored.verdicts.values().sum(), progress.explored.wrong())
        };
        (self.report)(all, wrong);
        if judged.verdict == Verdict::Consistent {
            if self.plan.again && !is_recovery && !judged.events.is_empty() {
                self.add_recovery(job, id, &choice, tree, judged, acknowledged);
            }
        } else if is_new {
            // A smaller state than the device's own may be one that it never leaves.
            let is_exact = id.class == Class::Model;
            let end = if is_exact { Instant::now() } else { self.until + MINIMISE_TIME };
            let until = (end, self.stop);
            let finding = minimise(&self.judge, job, id.epoch, choice, &judged, class, until)?;
            self.lock().add_finding(finding);
        }
        Ok(())
    }

    /// Queues the states of a recovery for exploration.
    fn add_recovery(
        &self,
        job: &Job,
        id: StateId,
        choice: &Choice,
        tree: Tree,
        judged: Judged,
        acknowledged: Vec<u8>,
    ) {
        let Plan { rules, bound, atomic_bytes, .. } = *self.plan;
        let history = History { start: tree, events: judged.events };
        let recovery = Job::new(history, rules, bound, atomic_bytes)
            .after(job.name(id.epoch, choice), acknowledged);
        let cursor = Cursor::new(Arc::new(recovery), &self.plan.classes);
        let states: u64 = cursor.classes.iter().map(|spread| spread.total).sum();
        let mut progress = self.lock();
        progress.again = progress.again.saturating_add(states);
        if progress.recoveries.len() < RECOVERIES_MAX {
            progress.recoveries.push_back(cursor);
        }
    }
}

impl Progress {
    /// Returns the next state to judge, alternately from the program's run and from a recovery; `None` if none is left.
    fn next(&mut self) -> Option<(Arc<Job>, StateId)> {
        self.was_recovery = !self.was_recovery;
        if self.was_recovery
            && let Some(next) = self.next_of_recovery()
        {
            return Some(next);
        }
        match self.program.next() {
            Some(id) => Some((Arc::clone(&self.program.job), id)),
            None => self.next_of_recovery(),
        }
    }

    /// Returns the next state of a recovery. Recoveries take turns. `None` if none has a state left.
    fn next_of_recovery(&mut self) -> Option<(Arc<Job>, StateId)> {
        while let Some(mut cursor) = self.recoveries.pop_front() {
            if let Some(id) = cursor.next() {
                let job = Arc::clone(&cursor.job);
                self.recoveries.push_back(cursor);
                return Some((job, id));
            }
        }
        None
    }

    /// Counts a judged state. Returns true if the checker ran on it, and the result has space for another finding with
    /// its verdict. `is_before_output`: whether the cut came before the program's first output.
    fn count(&mut self, class: &'static str, judged: &Judged, is_before_output: bool) -> bool {
        *self.judged.entry(class).or_default() += 1;
        *self.explored.verdicts.entry(judged.verdict).or_default() += 1;
        if is_before_output {
            self.explored.before_output.0 += 1;
            self.explored.before_output.1 += u64::from(judged.verdict != Verdict::Consistent);
        }
        match judged.source {
            Source::SameContent => self.explored.same_content += 1,
            Source::SameReads => self.explored.same_reads += 1,
            Source::Checked => self.explored.checked += 1,
        }
        judged.source == Source::Checked && self.has_room(judged.verdict, is_before_output)
    }

    /// Whether each of these verdicts has a finding; false for an empty list.
    fn has_each(&self, verdicts: &[Verdict]) -> bool {
        let findings = &self.explored.findings;
        !verdicts.is_empty()
            && verdicts.iter().all(|wanted| findings.iter().any(|f| f.verdict == *wanted))
    }

    /// Whether the result has space for another finding with this verdict. Findings from before and after the program's
    /// first output are counted separately.
    fn has_room(&self, verdict: Verdict, is_before_output: bool) -> bool {
        let is_alike = |known: &&Finding| {
            known.verdict == verdict && known.is_before_output() == is_before_output
        };
        self.explored.findings.iter().filter(is_alike).count() < FINDINGS_MAX
    }

    /// Adds a finding, unless its state is already listed, or enough findings have its verdict.
    fn add_finding(&mut self, finding: Finding) {
        let is_known = self.explored.findings.iter().any(|known| known.name == finding.name);
        if !is_known && self.has_room(finding.verdict, finding.is_before_output()) {
            self.explored.findings.push(finding);
        }
    }
}

/// Parses names of classes of states. Without names, returns [`Class::Model`] if an emulated device executed the log,
/// otherwise all other classes.
///
/// # Errors
///
/// A name is unknown, or names [`Class::Model`] although no emulated device executed the log.
pub fn classes_named(names: &[String], is_on_device: bool) -> Result<Vec<Class>, String> {
    let known: Vec<Class> =
        CLASSES.into_iter().chain(is_on_device.then_some(Class::Model)).collect();
    if names.is_empty() {
        return Ok(if is_on_device { vec![Class::Model] } else { known });
    }
    let class = |name: &String| {
        known.iter().copied().find(|class| class.name() == name).ok_or_else(|| {
            if name == Class::Model.name() {
                return "the class `model` needs --from with the log of a block device, and --device".to_owned();
            }
            let known: Vec<&str> = known.iter().map(|class| class.name()).collect();
            format!("there is no class of states `{name}`: the classes are {}", known.join(", "))
        })
    };
    names.iter().map(class).collect()
}
