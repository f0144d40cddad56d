//! Judges states and remembers the verdicts. A state gets an earlier verdict without a check if its content is known,
//! or if it equals an earlier state in all parts that the checker read.

use crate::check::{Check, CheckRun, Verdict, verdict};
use crate::history::Event;
use crate::trace::{Trace, Tracer, value};
use crate::tree::Tree;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Origin of a verdict: a run of the checker, or an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An earlier state with the same content had been judged.
    SameContent,
    /// An earlier state had been judged whose content is the same in all parts that the checker read.
    SameReads,
    /// The checker ran on this state.
    Checked,
}

/// Verdict on a state, and how it was found.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) source: Source,
    /// Output of the checker; empty if it did not run.
    pub(crate) output: Vec<u8>,
    /// Changes by the checker; empty if it did not run.
    pub(crate) events: Vec<Event>,
}

/// Hash of a state's content, and length of the output against which the state is judged.
type Key = (u64, usize);

#[derive(Default)]
struct Known {
    contents: HashMap<Key, Verdict>,
    /// Traces with their verdicts, by the length of the output against which the state was judged.
    traces: HashMap<usize, VecDeque<(Trace, Verdict)>>,
    /// Number of states that were checked although an earlier state with the same reads has a verdict.
    spot_checks: u64,
    /// Number of states that equal an earlier one in all parts that the checker read.
    agreed: u64,
    /// Number of spot checks whose verdict differed from the known one.
    diverged: u64,
}

/// Interval of spot checks: of the states that equal an earlier one in all parts read, the first few and then 1 in this
/// number are checked nevertheless. If a verdict then differs, the checker is not deterministic, and every such state
/// is checked from then on.
const SPOT_CHECK_PERIOD: u64 = 64;
const SPOT_CHECKS_FIRST: u64 = 4;

/// Maximum number of traces kept per length of the output. Comparing more would cost more time than it saves.
const TRACES_MAX: usize = 4096;

/// A checker that reuses its earlier verdicts.
pub(crate) struct Judge<'a> {
    check: &'a dyn Check,
    known: Mutex<Known>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(check: &'a dyn Check) -> Self {
        Self { check, known: Mutex::default() }
    }

    /// Number of spot checks, and number of those with another verdict than the known one.
    pub(crate) fn spot_checks(&self) -> (u64, u64) {
        let known = self.lock();
        (known.spot_checks, known.diverged)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a state, by the checker or from an earlier verdict.
    ///
    /// # Errors
    ///
    /// The checker can't be started.
    pub(crate) fn judge(&self, tree: &Tree, acknowledged: &[u8]) -> io::Result<Judged> {
        let key = (tree.content_hash(), acknowledged.len());
        let expected = {
            let mut known = self.lock();
            if let Some(verdict) = known.contents.get(&key) {
                return Ok(Judged::known(*verdict, Source::SameContent));
            }
            match known.by_reads(tree, acknowledged.len()) {
                Some((verdict, true)) => {
                    known.contents.insert(key, verdict);
                    return Ok(Judged::known(verdict, Source::SameReads));
                }
                found => found.map(|(verdict, _)| verdict),
            }
        };
        let (tracer, trace) = Tracer::new();
        let checked = self.check.check(tree, acknowledged, Box::new(tracer))?;
        let mut trace = taken(&trace);
        let verdict = self.verdict_of(&checked, tree, acknowledged, &mut trace)?;
        let mut known = self.lock();
        known.contents.insert(key, verdict);
        match expected {
            Some(expected) if expected != verdict => known.diverged += 1,
            Some(_) => {}
            None => known.remember(acknowledged.len(), trace, verdict),
        }
        let CheckRun { output, events, .. } = checked;
        Ok(Judged { verdict, source: Source::Checked, output, events })
    }

    fn verdict_of(
        &self,
        checked: &CheckRun,
        tree: &Tree,
        acknowledged: &[u8],
        trace: &mut Trace,
    ) -> io::Result<Verdict> {
        if let Some(verdict) = verdict(checked) {
            return Ok(verdict);
        }
        if acknowledged.is_empty() {
            return Ok(Verdict::WrongContent);
        }
        // The verdict depends on what either run reads.
        let (tracer, second) = Tracer::new();
        let without = self.check.check(tree, &[], Box::new(tracer))?;
        trace.extend(taken(&second));
        Ok(match verdict(&without) {
            Some(Verdict::Consistent) => Verdict::LostAcknowledged,
            _ => Verdict::WrongContent,
        })
    }
}

impl Known {
    /// Keeps a trace with its verdict. Drops the oldest trace if there are too many.
    fn remember(&mut self, acknowledged: usize, trace: Trace, verdict: Verdict) {
        let traces = self.traces.entry(acknowledged).or_default();
        if traces.len() == TRACES_MAX {
            traces.pop_front();
        }
        traces.push_back((trace, verdict));
    }

    /// Returns the verdict on an earlier state that equals this one in all parts that the checker read, and whether the
    /// verdict may be used without a spot check. `None` if there is no such state.
    fn by_reads(&mut self, tree: &Tree, acknowledged: usize) -> Option<(Verdict, bool)> {
        let agrees = |(trace, _): &&(Trace, Verdict)| {
            trace.iter().all(|(item, known)| value(item, tree) == *known)
        };
        let (_, verdict) = self.traces.get(&acknowledged)?.iter().rev().find(agrees)?;
        let verdict = *verdict;
        self.agreed += 1;
        let is_spot = self.diverged > 0
            || self.agreed <= SPOT_CHECKS_FIRST
            || self.agreed.is_multiple_of(SPOT_CHECK_PERIOD);
        self.spot_checks += u64::from(is_spot);
        Some((verdict, !is_spot))
    }
}

fn taken(trace: &Mutex<Trace>) -> Trace {
    std::mem::take(&mut *trace.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Judged {
    fn known(verdict: Verdict, source: Source) -> Self {
        Self { verdict, source, output: Vec::new(), events: Vec::new() }
    }
}
