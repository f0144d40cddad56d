//! Errors of a notebook, each with a remedy.

use crate::Status;
use std::path::PathBuf;

/// A failure to open, read or write a notebook.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The notebook was written by a newer version of iodyno, in an unknown format.
    #[error(
        "`{}` is a notebook of version {found}, but this iodyno supports versions up to {known}: \
         use a newer iodyno, or name another file with --notebook", path.display()
    )]
    Newer {
        path: PathBuf,
        /// Format version of the notebook.
        found: i64,
        /// Newest format version that this program supports.
        known: i64,
    },
    /// The file is not a notebook. Nothing was written to it.
    #[error(
        "`{}` is not an iodyno notebook: it is {what}; the file was not changed; name another file \
         with --notebook", path.display()
    )]
    Foreign {
        path: PathBuf,
        /// Type that the file was found to have, such as `an SQLite file of another program`.
        what: &'static str,
    },
    /// The notebook's file or its folder is not writable.
    #[error(
        "the notebook `{}` can't be written: {why}; name a file on writable storage with \
         --notebook, or run without a notebook: `run --no-notebook`", path.display()
    )]
    NotWritable {
        path: PathBuf,
        /// Reason given by the operating system or SQLite.
        why: String,
    },
    /// The notebook's file exists but can't be read.
    #[error(
        "the notebook `{}` can't be read: {why}; name another file with --notebook",
        path.display()
    )]
    NotReadable {
        path: PathBuf,
        /// Reason given by the operating system or SQLite.
        why: String,
    },
    /// The notebook's file does not exist.
    #[error(
        "there is no notebook at `{}`: `iodyno run` makes one, or name the right file with \
         --notebook", path.display()
    )]
    Missing {
        /// Path at which no notebook exists.
        path: PathBuf,
    },
    /// The default notebook has no path, because `XDG_DATA_HOME` and `HOME` are not usable.
    #[error(
        "the notebook has no default path, because neither XDG_DATA_HOME nor HOME names an \
         absolute path: name a file with --notebook"
    )]
    NoHome,
    /// Another process kept the notebook locked until the timeout.
    #[error(
        "the notebook `{}` was locked by another process for more than {seconds} s: find the \
         iodyno or SQLite tool that has the notebook open", path.display()
    )]
    Busy {
        path: PathBuf,
        /// Timeout that expired, seconds.
        seconds: u64,
    },
    /// The text that selects a run matches none.
    #[error(
        "there is no run `{selector}` in `{}`: `iodyno ls` lists the runs; name a run by its id, \
         the beginning of its id, `last`, `last~1`, or its name", path.display()
    )]
    UnknownRun {
        /// Text by which the user selected a run: an id, a prefix of it, `last` or a name.
        selector: String,
        path: PathBuf,
    },
    /// The notebook has no runs yet, so `last` does not select one.
    #[error("there is no run in `{}` yet: `iodyno run` makes one", path.display())]
    NoRuns {
        /// Path of the empty notebook.
        path: PathBuf,
    },
    /// Several runs have ids that start with the given prefix.
    #[error("`{prefix}` is the beginning of several runs' ids: {}; give more characters", candidates.join(", "))]
    AmbiguousRun {
        /// Prefix of a run's id as entered by the user.
        prefix: String,
        /// Ids of the matching runs, oldest first; at most ten.
        candidates: Vec<String>,
    },
    /// Several runs have the given name, and one is needed.
    #[error("`{name}` is the name of {runs} runs, but one is needed: give an id (latest first: {})", latest.join(", "))]
    AmbiguousName {
        name: String,
        runs: usize,
        /// Ids of the runs, latest first; at most ten.
        latest: Vec<String>,
    },
    /// The run can't be resumed, because a process is measuring it.
    #[error("{run} is still running: another process measures it")]
    Running {
        /// Id of the run.
        run: String,
    },
    /// The run can't be resumed, because it is finished.
    #[error("{run} is finished, so there is nothing to resume; `iodyno show {run}` shows it")]
    Finished {
        /// Id of the run.
        run: String,
    },
    /// The stored content of a run is invalid.
    #[error("run {run} in the notebook `{}` is damaged: {what}", path.display())]
    Damaged {
        path: PathBuf,
        /// Id of the damaged run.
        run: String,
        /// Description of the damage, as a clause.
        what: String,
    },
    /// The file is marked as a notebook, but its tables differ from those of this program.
    #[error(
        "`{}` is not a valid notebook: {what}; the notebook was not read: restore it from a \
         backup, or copy it again from the machine that measured", path.display()
    )]
    Altered {
        path: PathBuf,
        /// Description of the invalid table or column, as a clause.
        what: String,
    },
    /// A value is larger than a row of the notebook may hold.
    #[error(
        "the notebook `{}` can't store a value of more than {most}, but {doing} needs a larger \
         value: nothing was written", path.display()
    )]
    TooBig {
        path: PathBuf,
        /// Action that tried to store the value, such as `beginning a run`.
        doing: &'static str,
        /// Maximum size of a value, such as `8 MiB`.
        most: String,
    },
    /// Reading a run needs more memory than the limit allows.
    #[error(
        "run {run} in the notebook `{}` was not read: it needs more memory than iodyno allows for \
         a run (enough for {cells} cells)", path.display(), cells = crate::CELLS_PLANNED_MAX
    )]
    TooLarge {
        path: PathBuf,
        /// Id of the run that is too large.
        run: String,
    },
    /// Any other SQLite error.
    #[error("the notebook `{}` failed while {doing}: {source}", path.display())]
    Sqlite {
        path: PathBuf,
        /// Action that failed, such as `listing runs`.
        doing: &'static str,
        source: rusqlite::Error,
    },
}

impl Error {
    /// Whether the error is in the user's selection of a run, not in the notebook.
    pub fn is_of_selector(&self) -> bool {
        matches!(
            self,
            Self::UnknownRun { .. }
                | Self::NoRuns { .. }
                | Self::AmbiguousRun { .. }
                | Self::AmbiguousName { .. }
                | Self::Running { .. }
                | Self::Finished { .. }
        )
    }

    /// Returns the error of a resume of run `id` if a run with this status can't be resumed.
    pub fn of_resume(id: &str, status: &Status) -> Option<Self> {
        let run = id.to_owned();
        match status {
            Status::Running => Some(Self::Running { run }),
            Status::Finished => Some(Self::Finished { run }),
            Status::Interrupted | Status::Crashed | Status::Failed(_) => None,
        }
    }
}
