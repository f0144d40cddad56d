//! Judges states, and remembers what it judged: a state whose content is known, or that agrees with an earlier one in
//! all that the checker read there, is not checked again.

use crate::check::{Check, CheckRun, Verdict, verdict};
use crate::history::Event;
use crate::trace::{Trace, Tracer, value};
use crate::tree::Tree;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, PoisonError};

/// How a verdict came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A state with the same content had been judged.
    SameContent,
    /// A state with the same content in all that the checker read had been judged.
    SameReads,
    /// The checker ran.
    Checked,
}

/// A judged state.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) source: Source,
    /// What the checker printed, if it ran.
    pub(crate) output: Vec<u8>,
    /// What the checker changed, if it ran.
    pub(crate) events: Vec<Event>,
}

/// Content of a state, and length of the output that it is judged against.
type Key = (u64, usize);

#[derive(Default)]
struct Known {
    contents: HashMap<Key, Verdict>,
    /// By the length of the output.
    traces: HashMap<usize, VecDeque<(Trace, Verdict)>>,
    /// States whose reads were known and that were checked nevertheless.
    spot_checks: u64,
    /// States that agreed in their reads.
    agreed: u64,
    /// Spot checks whose verdict differed.
    diverged: u64,
}

/// The first few states that agree with another in their reads are checked nevertheless, and then one in this number:
/// if a checker is not deterministic, its verdicts can't be reused.
const SPOT_CHECK_PERIOD: u64 = 64;
const SPOT_CHECKS_FIRST: u64 = 4;

/// Traces that a state is compared with, for each length of the output. More would cost more than the checks that they
/// save.
const TRACES_MAX: usize = 4096;

/// A checker with a memory.
pub(crate) struct Judge<'a> {
    check: &'a dyn Check,
    known: Mutex<Known>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(check: &'a dyn Check) -> Self {
        Self { check, known: Mutex::default() }
    }

    /// Number of spot checks, and of those with another verdict.
    pub(crate) fn spot_checks(&self) -> (u64, u64) {
        let known = self.lock();
        (known.spot_checks, known.diverged)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a state.
    ///
    /// # Errors
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
    /// Keeps a trace, and drops the oldest of too many.
    fn remember(&mut self, acknowledged: usize, trace: Trace, verdict: Verdict) {
        let traces = self.traces.entry(acknowledged).or_default();
        if traces.len() == TRACES_MAX {
            traces.pop_front();
        }
        traces.push_back((trace, verdict));
    }

    /// Verdict of a state that agrees in its reads, and whether it may be used without a spot check.
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
