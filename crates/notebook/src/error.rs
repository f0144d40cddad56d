//! Errors of a notebook, each with the remedy.

use std::path::PathBuf;

/// A failure to open, read or write a notebook.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Written by a newer program.
    #[error(
        "`{}` is a notebook of version {found}, and this iodyno knows versions up to {known}: \
         use a newer iodyno, or name another file with --notebook", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// Not a notebook at all. Nothing was written to it.
    #[error(
        "`{}` is not a notebook of iodyno: it is {what}; it was left as it is, name another file \
         with --notebook", path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its type.
        what: &'static str,
    },
    /// It, or the folder that it would be in, can't be written.
    #[error(
        "the notebook `{}` can't be written: {why}; name a file on writable storage with \
         --notebook, or keep nothing with `run --no-notebook`", path.display()
    )]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The system's or SQLite's reason.
        why: String,
    },
    /// It is there and can't be read.
    #[error(
        "the notebook `{}` can't be read: {why}; name another file with --notebook",
        path.display()
    )]
    NotReadable {
        /// The file.
        path: PathBuf,
        /// The system's or SQLite's reason.
        why: String,
    },
    /// There is no such file.
    #[error(
        "there is no notebook at `{}`: `iodyno run` makes one, or name the right file with \
         --notebook", path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The place of the default notebook is unknown.
    #[error(
        "where to keep the notebook is not known, because neither XDG_DATA_HOME nor HOME names \
         an absolute path: name a file with --notebook"
    )]
    NoHome,
    /// Another process held the file for too long.
    #[error(
        "the notebook `{}` was locked by another process for more than {seconds} s: see which \
         iodyno or SQLite tool has it open", path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited, seconds.
        seconds: u64,
    },
    /// There is no run of this name.
    #[error(
        "there is no run `{selector}` in `{}`: `iodyno ls` lists the runs; a run is named by its \
         id, the beginning of its id, `last` or `last~1`, and for `compare` by its name", path.display()
    )]
    UnknownRun {
        /// The run's name as given.
        selector: String,
        /// The file.
        path: PathBuf,
    },
    /// The notebook holds no run yet, so `last` is none.
    #[error("there is no run in `{}` yet: `iodyno run` makes one", path.display())]
    NoRuns {
        /// The file.
        path: PathBuf,
    },
    /// Several runs begin like this.
    #[error("`{prefix}` is the beginning of several runs: {}; write one more character", candidates.join(", "))]
    AmbiguousRun {
        /// The run's name as given.
        prefix: String,
        /// Ids of the runs that begin like it, oldest first; at most ten.
        candidates: Vec<String>,
    },
    /// Something in the file is not what this program wrote.
    #[error("run {run} in the notebook `{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The damage.
        what: String,
    },
    /// It is marked as a notebook, but its content is not as this program writes notebooks.
    #[error(
        "`{}` is not as iodyno makes notebooks: {what}; it was not read: take it from a backup, or from the \
         iodyno that measured", path.display()
    )]
    Altered {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// A value that is too large for a row.
    #[error(
        "the notebook `{}` takes no value of more than {most}, and {doing} needs a larger one: nothing of it was \
         written", path.display()
    )]
    TooBig {
        /// The file.
        path: PathBuf,
        /// The action.
        doing: &'static str,
        /// The most that a row takes, in words.
        most: String,
    },
    /// A run takes more memory than a reader may use.
    #[error(
        "run {run} in the notebook `{}` was not read: it takes more memory than iodyno gives to a run (a run of \
         up to {cells} cells has enough)", path.display(), cells = crate::CELLS_PLANNED_MAX
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
    },
    /// Anything else that SQLite refuses.
    #[error("the notebook `{}` failed while {doing}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The action.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

impl Error {
    /// Whether the name of a run is wrong, rather than the notebook.
    pub fn is_of_selector(&self) -> bool {
        matches!(self, Self::UnknownRun { .. } | Self::NoRuns { .. } | Self::AmbiguousRun { .. })
    }
}
