//! Searches for the smallest wrong state: the one that loses the least and still has the same verdict.

use crate::check::Verdict;
use crate::job::Job;
use crate::judge::{Judge, Judged};
use crate::name::StateName;
use crate::states::{Choice, States};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A wrong state, minimised to as few lost effects of file operations as possible.
#[derive(Clone, Debug)]
pub struct Finding {
    pub verdict: Verdict,
    /// Name of the minimised state, as accepted by `--state`.
    pub name: StateName,
    /// Class of the wrong state before minimisation.
    pub class: &'static str,
    /// All states that the last power cut can leave. The cut interrupts the program's run, or the recovery from an
    /// earlier cut.
    pub states: Arc<States>,
    /// Effects of file operations that survive the power cut in the minimised state.
    pub choice: Choice,
    /// Output of the program under test up to the power cut.
    pub acknowledged: Vec<u8>,
    /// Output of the checker on the state.
    pub output: Vec<u8>,
}

impl Finding {
    /// Whether the program had printed nothing before the cut: it had acknowledged nothing, and was perhaps still
    /// creating its files.
    #[must_use]
    pub fn is_before_output(&self) -> bool {
        self.acknowledged.is_empty()
    }
}

/// Maximum number of states that are judged to minimise one finding.
const TRIALS_MAX: usize = 200;

/// Restores lost effects of a wrong state as long as the state keeps its verdict: first the torn part, then halves,
/// quarters and so on of the lost effects, down to single ones (delta debugging). Stops at the time or by the flag in
/// `until`.
///
/// # Errors
/// The checker can't be started.
pub(crate) fn minimise(
    judge: &Judge<'_>,
    job: &Job,
    epoch: usize,
    choice: Choice,
    judged: &Judged,
    class: &'static str,
    until: (Instant, &AtomicBool),
) -> io::Result<Finding> {
    let mut search = Search {
        judge,
        job,
        epoch,
        acknowledged: job.acknowledged(epoch),
        smallest: choice,
        judged,
        output: judged.output.clone(),
        trials: 0,
        until,
    };
    search.mend_torn()?;
    let mut length = search.lost().len().max(1);
    loop {
        let mut from = 0;
        while from < search.lost().len() {
            if !search.give_back(from, length)? {
                from += length;
            }
        }
        if length == 1 {
            break;
        }
        length = length.div_ceil(2);
    }
    let Search { smallest, acknowledged, output, .. } = search;
    Ok(Finding {
        verdict: judged.verdict,
        name: job.name(epoch, &smallest),
        class,
        states: Arc::clone(&job.states),
        choice: smallest,
        acknowledged,
        output,
    })
}

struct Search<'a> {
    judge: &'a Judge<'a>,
    job: &'a Job,
    epoch: usize,
    acknowledged: Vec<u8>,
    smallest: Choice,
    judged: &'a Judged,
    output: Vec<u8>,
    trials: usize,
    until: (Instant, &'a AtomicBool),
}

impl Search<'_> {
    /// Positions of the lost effects in [`Epoch::open`](crate::Epoch::open), without that of a torn write.
    fn lost(&self) -> Vec<usize> {
        let torn = self.smallest.torn.map(|torn| torn.position);
        let survives = &self.smallest.survives;
        (0..survives.len()).filter(|at| !survives[*at] && torn != Some(*at)).collect()
    }

    /// Restores the torn write as a whole, if the state stays wrong with it.
    fn mend_torn(&mut self) -> io::Result<()> {
        if let Some(torn) = self.smallest.torn {
            let mut mended = self.smallest.clone();
            mended.torn = None;
            let open = &self.job.states.epochs[self.epoch].open;
            self.job.states.keep(open, &mut mended.survives, torn.position);
            self.try_state(mended)?;
        }
        Ok(())
    }

    /// Restores `length` lost effects, starting at `from` in the list of them. Returns whether the state is still
    /// wrong.
    fn give_back(&mut self, from: usize, length: usize) -> io::Result<bool> {
        let open = &self.job.states.epochs[self.epoch].open;
        let lost = self.lost();
        let mut fuller = self.smallest.clone();
        for position in &lost[from..lost.len().min(from + length)] {
            self.job.states.keep(open, &mut fuller.survives, *position);
        }
        if let Some(torn) = fuller.torn {
            // Something that requires the torn write as a whole can't come back.
            if fuller.survives[torn.position] {
                return Ok(false);
            }
        }
        self.try_state(fuller)
    }

    fn try_state(&mut self, candidate: Choice) -> io::Result<bool> {
        let (deadline, stop) = self.until;
        let is_over = Instant::now() > deadline || stop.load(Ordering::Relaxed);
        if self.trials == TRIALS_MAX || is_over {
            return Ok(false);
        }
        self.trials += 1;
        let tree = self.job.tree(self.epoch, &candidate);
        let judged = self.judge.judge(&tree, &self.acknowledged)?;
        let is_wrong = judged.verdict == self.judged.verdict;
        if is_wrong {
            self.smallest = candidate;
            if !judged.output.is_empty() {
                self.output = judged.output;
            }
        }
        Ok(is_wrong)
    }
}
