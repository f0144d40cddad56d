//! Interface of checkers, and the verdict from a checker's exit status and output.

use crate::folder::Watch;
use crate::history::Event;
use crate::program::Ended;
use crate::tree::Tree;

use serde::Serialize;
use std::io;

/// Verdict of a checker on one state that a power cut can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// The checker accepts the state.
    Consistent,
    /// The checker rejects the state, but accepts it when told that nothing was acknowledged: acknowledged data is
    /// missing.
    LostAcknowledged,
    /// The checker reports that the program does not start on the state.
    RefusesToOpen,
    /// The checker rejects the state for another reason than a refused start or missing acknowledged data, such as
    /// corruption.
    WrongContent,
    /// The checker could not judge: it was not found or not executable, or a signal ended it.
    CheckerFailed,
    /// The checker did not end within its time limit.
    Hangs,
}

impl Verdict {
    /// Name in upper case, such as `LOST_ACKNOWLEDGED`. A checker that prints it at the start of a line returns this
    /// verdict.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Consistent => "CONSISTENT",
            Self::LostAcknowledged => "LOST_ACKNOWLEDGED",
            Self::RefusesToOpen => "REFUSES_TO_OPEN",
            Self::WrongContent => "WRONG_CONTENT",
            Self::CheckerFailed => "CHECKER_FAILED",
            Self::Hangs => "HANGS",
        }
    }
}

/// Result of one run of a checker on a state.
#[derive(Clone, Debug)]
pub struct CheckRun {
    /// End of the checker: by itself, by a signal, or at its time limit.
    pub ended: Ended,
    /// Standard output and error of the checker. Overlong output is truncated.
    pub output: Vec<u8>,
    /// Operations recorded during the check: changes and syncs by the program's recovery or by the checker itself.
    pub events: Vec<Event>,
}

/// A checker: decides whether the files that a power cut can leave are correct.
pub trait Check: Sync {
    /// Runs the checker in a folder with the content of `tree`. `acknowledged` is the output of the program before the
    /// cut. `watch` is told which parts of the tree the checker reads.
    ///
    /// # Errors
    ///
    /// The folder can't be made, or the checker can't be started.
    fn check(
        &self,
        tree: &Tree,
        acknowledged: &[u8],
        watch: Box<dyn Watch>,
    ) -> io::Result<CheckRun>;
}

/// Exit statuses with which a shell reports that it did not find a program, or could not execute it.
const NOT_STARTED: [i32; 2] = [126, 127];
/// Exit status with which `timeout` reports that it ended the program.
const TIMED_OUT: i32 = 124;
/// Exit statuses with which a shell reports that a signal ended its program: 128 plus the signal's number.
const BY_SIGNAL: std::ops::RangeInclusive<i32> = 129..=159;

/// Whether a shell's exit status means that the program did not start, or was ended by a signal.
fn is_failure(code: i32) -> bool {
    NOT_STARTED.contains(&code) || BY_SIGNAL.contains(&code)
}

/// Derives the verdict from a single run. `None`: the checker rejects the state, but the run alone does not tell why.
pub(crate) fn verdict(checked: &CheckRun) -> Option<Verdict> {
    match checked.ended {
        Ended::TimedOut => Some(Verdict::Hangs),
        Ended::Exited(status) if status.code() == Some(TIMED_OUT) => Some(Verdict::Hangs),
        Ended::Exited(status) if status.success() => Some(Verdict::Consistent),
        Ended::Exited(status) if status.code().is_none_or(is_failure) => {
            Some(Verdict::CheckerFailed)
        }
        Ended::Exited(_) => checked.output.split(|byte| *byte == b'\n').find_map(|line| {
            [Verdict::LostAcknowledged, Verdict::RefusesToOpen, Verdict::WrongContent]
                .into_iter()
                .find(|verdict| first_word(line) == verdict.word().as_bytes())
        }),
    }
}

/// Returns the letters, digits and underscores at the start of a line.
fn first_word(line: &[u8]) -> &[u8] {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    &line[..line.iter().take_while(|byte| is_inside(byte)).count()]
}
