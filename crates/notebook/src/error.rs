//! Errors of a notebook, each with the remedy.

use std::path::PathBuf;

/// A failure to open, read or write a notebook.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A newer version of iodyno wrote the notebook.
    #[error(
        "`{}` is a notebook of version {found}, but this iodyno supports versions up to {known}: \
         use a newer iodyno, or name another file with --notebook", path.display()
    )]
    Newer {
        /// Path of the notebook.
        path: PathBuf,
        /// Version of the notebook's format.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The file is not a notebook. Nothing was written to it.
    #[error(
        "`{}` is not an iodyno notebook: it is {what}; the file was not changed; name another file \
         with --notebook", path.display()
    )]
    Foreign {
        /// Path of the notebook.
        path: PathBuf,
        /// What the file is instead, such as `an SQLite file of another program`.
        what: &'static str,
    },
    /// The file, or its folder, can't be written.
    #[error(
        "the notebook `{}` can't be written: {why}; name a file on writable storage with \
         --notebook, or run without a notebook: `run --no-notebook`", path.display()
    )]
    NotWritable {
        /// Path of the notebook.
        path: PathBuf,
        /// The system's or SQLite's reason.
        why: String,
    },
    /// The file exists but can't be read.
    #[error(
        "the notebook `{}` can't be read: {why}; name another file with --notebook",
        path.display()
    )]
    NotReadable {
        /// Path of the notebook.
        path: PathBuf,
        /// The system's or SQLite's reason.
        why: String,
    },
    /// The file does not exist.
    #[error(
        "there is no notebook at `{}`: `iodyno run` makes one, or name the right file with \
         --notebook", path.display()
    )]
    Missing {
        /// Path of the notebook.
        path: PathBuf,
    },
    /// The location of the default notebook is unknown.
    #[error(
        "the notebook has no default path, because neither XDG_DATA_HOME nor HOME names an \
         absolute path: name a file with --notebook"
    )]
    NoHome,
    /// Another process held the file for too long.
    #[error(
        "the notebook `{}` was locked by another process for more than {seconds} s: find the \
         iodyno or SQLite tool that has the notebook open", path.display()
    )]
    Busy {
        /// Path of the notebook.
        path: PathBuf,
        /// Time waited, seconds.
        seconds: u64,
    },
    /// No run matches the selector.
    #[error(
        "there is no run `{selector}` in `{}`: `iodyno ls` lists the runs; name a run by its id, \
         the beginning of its id, `last` or `last~1`, and for `compare` also by its name", path.display()
    )]
    UnknownRun {
        /// The user's text for selecting a run.
        selector: String,
        /// Path of the notebook.
        path: PathBuf,
    },
    /// The notebook holds no run yet, so `last` selects none.
    #[error("there is no run in `{}` yet: `iodyno run` makes one", path.display())]
    NoRuns {
        /// Path of the notebook.
        path: PathBuf,
    },
    /// Several runs have an id with this beginning.
    #[error("`{prefix}` is the beginning of several runs' ids: {}; write more characters", candidates.join(", "))]
    AmbiguousRun {
        /// Beginning of an id, as the user gave it.
        prefix: String,
        /// Ids of the matching runs, oldest first; at most ten.
        candidates: Vec<String>,
    },
    /// Content of a run differs from anything that this program writes.
    #[error("run {run} in the notebook `{}` is damaged: {what}", path.display())]
    Damaged {
        /// Path of the notebook.
        path: PathBuf,
        /// Id of the run.
        run: String,
        /// The damage, as a clause.
        what: String,
    },
    /// The file is marked as a notebook, but its tables differ from those of this program.
    #[error(
        "`{}` is not a valid notebook: {what}; the notebook was not read: restore it from a \
         backup, or copy it again from the machine that measured", path.display()
    )]
    Altered {
        /// Path of the notebook.
        path: PathBuf,
        /// The invalid part, as a clause.
        what: String,
    },
    /// A value exceeds the limit of a row.
    #[error(
        "the notebook `{}` can't store a value of more than {most}, but {doing} needs a larger \
         value: nothing was written", path.display()
    )]
    TooBig {
        /// Path of the notebook.
        path: PathBuf,
        /// Action that needs the value, such as `beginning a run`.
        doing: &'static str,
        /// Size of the largest possible value, such as `8 MiB`.
        most: String,
    },
    /// A run needs more memory than a reader may use.
    #[error(
        "run {run} in the notebook `{}` was not read: it needs more memory than iodyno allows for \
         a run (enough for {cells} cells)", path.display(), cells = crate::CELLS_PLANNED_MAX
    )]
    TooLarge {
        /// Path of the notebook.
        path: PathBuf,
        /// Id of the run.
        run: String,
    },
    /// Any other error of SQLite.
    #[error("the notebook `{}` failed while {doing}: {source}", path.display())]
    Sqlite {
        /// Path of the notebook.
        path: PathBuf,
        /// Action that failed, such as `listing runs`.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

impl Error {
    /// Whether the selector of a run is at fault, rather than the notebook.
    pub fn is_of_selector(&self) -> bool {
        matches!(self, Self::UnknownRun { .. } | Self::NoRuns { .. } | Self::AmbiguousRun { .. })
    }
}
