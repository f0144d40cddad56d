//! The judgement of a state by a checker.

use crate::folder::Watch;
use crate::history::Event;
use crate::program::Ended;
use crate::tree::Tree;

use serde::Serialize;
use std::io;

/// How a checker judged a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// The checker accepts the state.
    Consistent,
    /// The checker rejects the state, but accepts it if told that nothing was acknowledged: the state lacks something
    /// that the program had acknowledged.
    LostAcknowledged,
    /// The checker says that the program does not start on the state.
    RefusesToOpen,
    /// The checker rejects the state for other reasons.
    WrongContent,
    /// The checker could not judge: it was not found or not executable, or a signal ended it.
    CheckerFailed,
    /// The checker did not end within its time limit.
    Hangs,
}

impl Verdict {
    /// The verdict's word in output.
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

/// One run of a checker.
#[derive(Clone, Debug)]
pub struct CheckRun {
    /// How it ended.
    pub ended: Ended,
    /// The checker's standard output and error, truncated.
    pub output: Vec<u8>,
    /// Its changes of the folder: recovery, and its own writes.
    pub events: Vec<Event>,
}

/// Runs a checker on a state.
pub trait Check: Sync {
    /// Runs the checker in a folder with this content. `watch` is told what it reads.
    ///
    /// # Errors
    /// The folder can't be made, or the checker can't be started.
    fn check(
        &self,
        tree: &Tree,
        acknowledged: &[u8],
        watch: Box<dyn Watch>,
    ) -> io::Result<CheckRun>;
}

/// Exit statuses by which a shell says that it found no program, or could not execute it.
const NOT_STARTED: [i32; 2] = [126, 127];
/// Exit statuses by which a shell says that a signal ended its program: 128 and the signal's number.
const BY_SIGNAL: std::ops::RangeInclusive<i32> = 129..=159;

/// Whether an exit status of a shell says that its program did not start or was ended by a signal.
fn is_failure(code: i32) -> bool {
    NOT_STARTED.contains(&code) || BY_SIGNAL.contains(&code)
}

/// The verdict that a single run gives; `None`: the state is rejected, for a reason that the run does not tell.
pub(crate) fn verdict(checked: &CheckRun) -> Option<Verdict> {
    match checked.ended {
        Ended::TimedOut => Some(Verdict::Hangs),
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

/// First letters, digits and underscores of a line.
fn first_word(line: &[u8]) -> &[u8] {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    &line[..line.iter().take_while(|byte| is_inside(byte)).count()]
}
