//! Explores the states of a recorded run within a time limit: takes classes in turn, and does not check a state that
//! equals a judged one.

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

/// Parameters of an exploration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rules of the file system.
    pub rules: Rules,
    /// Classes of states.
    pub classes: Vec<Class>,
    /// Largest number of effects that a state of the class `subset` loses or keeps.
    pub bound: usize,
    /// Unit of atomic writes, bytes; `None`: that of the rules.
    pub atomic_bytes: Option<u32>,
    /// Whether a second power cut is explored, during the recovery of each state.
    pub again: bool,
    /// Time limit for all checks.
    pub time: Duration,
    /// Number of checkers at a time.
    pub workers: usize,
    /// Verdicts that end the exploration once each has a finding. Empty: all states are judged.
    pub enough: Vec<Verdict>,
}

/// States of a class: how many there are, and how many were judged.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClassCount {
    /// Class, as `--class` takes it.
    pub class: &'static str,
    /// States in the class.
    pub states: u64,
    /// Judged states.
    pub judged: u64,
}

/// Result of an exploration.
#[derive(Debug, Default)]
pub struct Explored {
    /// States by class. With [`Plan::again`] the last entry, `again`, counts the states after a second cut.
    pub classes: Vec<ClassCount>,
    /// Judged states by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Judged states that had the content of an earlier one.
    pub same_content: u64,
    /// Judged states that agreed with an earlier one in all that its checker read.
    pub same_reads: u64,
    /// Runs of the checker, without those that minimise.
    pub checked: u64,
    /// Judged states from before the program's first output, when it had promised nothing; and wrong ones of them.
    pub before_output: (u64, u64),
    /// Number of states checked although an earlier one agreed in all that its checker read, and number of them with
    /// another verdict.
    pub spot_checks: (u64, u64),
    /// Smallest wrong states: at most [`FINDINGS_MAX`] of each verdict from after the program's first output, then as
    /// many from before it.
    pub findings: Vec<Finding>,
    /// Time that the checks took.
    pub elapsed: Duration,
}

impl Explored {
    /// Whether all states of the plan were judged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.classes.iter().all(|count| count.judged == count.states)
    }

    /// Number of wrong states.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        let is_wrong = |(verdict, _): &(&Verdict, &u64)| **verdict != Verdict::Consistent;
        self.verdicts.iter().filter(is_wrong).map(|(_, count)| count).sum()
    }
}

/// Findings of each verdict that are minimised and reported, from before and from after the first output.
pub const FINDINGS_MAX: usize = 3;
/// Time after the exploration that a finding may take to be reduced.
const MINIMISE_TIME: Duration = Duration::from_secs(5);
/// Recoveries whose states wait to be explored. States of further ones count as not judged.
const RECOVERIES_MAX: usize = 256;

/// Hands out the states of a run: one of each class in turn, and of a class in an order that is spread over all of
/// them, so that a short time sees something of everything.
struct Cursor {
    job: Arc<Job>,
    classes: Vec<Spread>,
    turn: usize,
}

struct Spread {
    class: Class,
    /// For each epoch, the number of states of all earlier ones.
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

/// Everything that the workers share.
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
    /// States of recoveries, all of them.
    again: u64,
    explored: Explored,
    failed: Option<io::Error>,
}

/// Name of the class of states after a second cut.
const AGAIN: &str = "again";

/// Explores the states of a run.
///
/// `stop` ends the exploration early. `progress` is told the number of judged states, and of wrong ones.
///
/// # Errors
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
    Ok(explored)
}

/// Interval between looks for a new recovery, while the other workers may still find one.
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

    /// Queues the states of a recovery.
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
    /// The next state: of the program's run and of a recovery in turn.
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

    /// Recoveries take turns, too.
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

    /// Counts a judged state. True: a wrong one that should be minimised.
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

    /// Whether there is a finding with each of these verdicts; false if there are none to be found.
    fn has_each(&self, verdicts: &[Verdict]) -> bool {
        let findings = &self.explored.findings;
        !verdicts.is_empty()
            && verdicts.iter().all(|wanted| findings.iter().any(|f| f.verdict == *wanted))
    }

    /// Whether another finding of this kind is wanted.
    fn has_room(&self, verdict: Verdict, is_before_output: bool) -> bool {
        let is_alike = |known: &&Finding| {
            known.verdict == verdict && known.is_before_output() == is_before_output
        };
        self.explored.findings.iter().filter(is_alike).count() < FINDINGS_MAX
    }

    /// Keeps a finding unless another one has the same smallest state, or there are enough of its kind.
    fn add_finding(&mut self, finding: Finding) {
        let is_known = self.explored.findings.iter().any(|known| known.name == finding.name);
        if !is_known && self.has_room(finding.verdict, finding.is_before_output()) {
            self.explored.findings.push(finding);
        }
    }
}

/// The classes with these names. Without names: all classes of what may survive, or on a device what it keeps.
///
/// # Errors
/// A name is unknown, or only a device has the class.
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
            format!("no class of states `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(class).collect()
}
