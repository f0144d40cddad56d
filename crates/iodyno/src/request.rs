//! Builds the request of a run from the flags that all measuring commands share and from properties of this process.

use crate::args::{Cli, Measuring};
use crate::failure::Failure;
use crate::{ranks, signals};
use iodyno_drive::EngineOptions;
use iodyno_run::{Files, Process, RanksRequest, RunRequest, Work};
use iodyno_targets::TargetName;
use std::ffi::OsString;
use std::path::PathBuf;

/// Default number of failed operations after which a run stops.
pub(crate) const MAX_ERRORS: u64 = 100;

impl Measuring {
    /// Builds the request of a run from these flags. Settings that have no flag in [`Measuring`] get
    /// their defaults.
    pub(crate) fn request(&self, targets: &[TargetName], name: String, work: Work) -> RunRequest {
        RunRequest {
            name,
            changed: None,
            work,
            repeats: self.repeat,
            thresholds: self.require.clone(),
            targets: targets.to_vec(),
            folder: std::env::current_dir().unwrap_or_default(),
            files: Files::default(),
            seed: self.seed,
            engine: self.engine,
            options: EngineOptions::default(),
            processors: self.cpus.clone(),
            system_clock: false,
            interval_ns: self.interval,
            errors_max: MAX_ERRORS,
            read_only: false,
            destroy: self.destroy.clone(),
            shard: None,
            ranks: RanksRequest::default(),
            record_trace: None,
        }
    }

    /// Path of the notebook for a new run; `None` with `--no-notebook`.
    pub(crate) fn notebook(&self, cli: &Cli) -> Result<Option<PathBuf>, Failure> {
        let notebook = (!self.no_notebook).then(|| ranks::notebook(cli.notebook.as_deref()));
        ranks::agreed(notebook.transpose())
    }
}

/// Converts a command line to the form in which it is stored with its run.
pub(crate) fn stored(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Describes this process: command line, version and notebook, as stored with a run.
pub(crate) fn process(command: Vec<String>, notebook: Option<PathBuf>) -> Process {
    Process {
        command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        notebook,
        resume: None,
        stop: signals::stop_flag(),
        ranks: ranks::of_process(),
    }
}
