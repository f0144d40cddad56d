//! Failures by kind, each with its exit code. The text comes from the component that detected the
//! failure, and states the problem, its place and the remedy.

use iodyno_catalog::Problem;
use iodyno_run::{NotKept, RunError};
use iodyno_serving::ServeError;
use iodyno_targets::TargetError;
use iodyno_units::text::clean_lines;

/// Error message of a failed command. Its kind determines the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    text: String,
    /// Error in a file, to be printed with its position; None: only `text` is printed.
    problem: Option<Box<Problem>>,
}

/// Exit code if the command succeeded but a result misses a required threshold.
pub(crate) const NOT_HELD: u8 = 6;
/// Exit code of `crashtest` if a state after a power cut is wrong; equal to the code for wrong content found by
/// verification.
pub(crate) const WRONG_STATES: u8 = 4;
/// Exit code of a comparison in which at least one metric is worse.
pub(crate) const SLOWER: u8 = 7;
/// Exit code of an inconclusive comparison: no metric was found to be worse, but some are undecided. Also the code of a
/// replay whose record was truncated, so that its events can't be compared.
pub(crate) const OPEN: u8 = 8;
/// Exit code of a run whose method failed: steady state was not reached, or a stage measured nothing. Also the code of
/// a fit if the measured device does not behave like any candidate, if the twin predicts worse than the nearest cells,
/// or if most cells have warnings.
pub(crate) const METHOD_FAILED: u8 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fault,
    Input,
    Refused,
    Target,
    Notebook,
    Method,
    Interrupted,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Fault,
        Self::Input,
        Self::Refused,
        Self::Target,
        Self::Notebook,
        Self::Method,
        Self::Interrupted,
    ];

    const fn exit_code(self) -> u8 {
        match self {
            Self::Fault => 1,
            Self::Input => 2,
            Self::Refused => 3,
            Self::Target => 4,
            Self::Notebook => 5,
            Self::Method => METHOD_FAILED,
            Self::Interrupted => 130,
        }
    }

    fn of_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|kind| kind.exit_code() == code).unwrap_or(Self::Fault)
    }
}

/// Prefix of an error message on standard error.
const HEADING: &str = "error: ";

impl Failure {
    /// Creates a failure. A [`HEADING`] at the start of `text` is removed; messages from other processes
    /// and components may have one.
    fn new(kind: Kind, mut text: String) -> Self {
        while let Some(words) = text.strip_prefix(HEADING) {
            text = words.to_owned();
        }
        Self { kind, text, problem: None }
    }

    /// Creates the failure for invalid input: a flag, a file or a combination of them.
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self::new(Kind::Input, text.into())
    }

    /// Creates the failure of a command that the user stopped before anything was stored.
    pub(crate) fn interrupted(text: impl Into<String>) -> Self {
        Self::new(Kind::Interrupted, text.into())
    }

    /// Creates the failure of a target: it can't be opened, or it failed during the run.
    pub(crate) fn target(text: impl Into<String>) -> Self {
        Self::new(Kind::Target, text.into())
    }

    /// Creates the failure for a run that could not be stored in its notebook. The results were already printed.
    pub(crate) fn not_kept(run: &NotKept) -> Self {
        let where_it_is = match &run.instead {
            Ok(path) => format!(
                "this run was stored in a separate notebook instead: `iodyno --notebook {} show last`",
                path.display()
            ),
            Err(why) => {
                format!("this run was not stored, and could not be stored elsewhere: {why}")
            }
        };
        Self::new(Kind::Notebook, format!("{}; {where_it_is}", run.why))
    }

    /// Creates the failure of a method whose measurements do not suffice for a result.
    pub(crate) fn method(text: impl Into<String>) -> Self {
        Self::new(Kind::Method, text.into())
    }

    /// Recreates the failure of another process from its exit code and message.
    pub(crate) fn of_code(exit_code: u8, text: String) -> Self {
        Self::new(Kind::of_code(exit_code), text)
    }

    /// Whether the user's input is at fault.
    pub(crate) fn is_of_input(&self) -> bool {
        self.kind == Kind::Input
    }

    /// Appends text to the error message.
    pub(crate) fn with(mut self, words: &str) -> Self {
        self.text += words;
        self
    }

    /// The error message without the prefix `error:`.
    pub(crate) fn words(&self) -> String {
        match &self.problem {
            Some(problem) => problem.render(false).trim_end().to_owned(),
            None => self.text.clone(),
        }
    }

    /// Creates the failure for a notebook that can't be used.
    pub(crate) fn notebook(text: impl Into<String>) -> Self {
        Self::new(Kind::Notebook, text.into())
    }

    /// Creates the failure to write to `what`, such as standard output or a file.
    pub(crate) fn output(what: &str, e: &std::io::Error) -> Self {
        Self::new(Kind::Target, format!("{what}: {e}"))
    }

    /// Exit code of the failure. `iodyno --help` lists all codes.
    pub(crate) fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }

    /// Formats the error message for standard error.
    pub(crate) fn render(&self, color: bool) -> String {
        match &self.problem {
            Some(problem) => format!("{}\n", problem.render(color).trim_end()),
            // The text may quote a file, a server or a device.
            None if color => format!("\x1b[1;31merror\x1b[0m: {}\n", clean_lines(&self.text)),
            None => format!("{HEADING}{}\n", clean_lines(&self.text)),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { kind: Kind::Input, text: String::new(), problem: Some(Box::new(problem)) }
    }
}

impl From<TargetError> for Failure {
    fn from(e: TargetError) -> Self {
        Self::new(Kind::of_code(e.exit_code()), e.to_string())
    }
}

impl From<iodyno_notebook::Error> for Failure {
    fn from(e: iodyno_notebook::Error) -> Self {
        let kind = if e.is_of_selector() { Kind::Input } else { Kind::Notebook };
        Self::new(kind, e.to_string())
    }
}

impl From<ServeError> for Failure {
    fn from(e: ServeError) -> Self {
        match e {
            ServeError::Input(text) => Self::input(text),
            ServeError::Target(text) => Self::target(text),
            ServeError::System(e) => e.into(),
        }
    }
}

impl From<RunError> for Failure {
    fn from(e: RunError) -> Self {
        match e {
            RunError::File(problem) => (*problem).into(),
            _ => Self::new(Kind::of_code(e.exit_code()), e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that already starts with `error:` does not get a second prefix.
    #[test]
    fn a_failure_has_one_heading() {
        for text in ["no such thing", "error: no such thing", "error: error: no such thing"] {
            assert_eq!(Failure::input(text).render(false), "error: no such thing\n");
            assert_eq!(Failure::of_code(4, text.to_owned()).words(), "no such thing");
        }
    }
}
