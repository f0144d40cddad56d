//! Environment in which iodyno reads jobs of other tools: included files, environment variables, devices, and the flags
//! of iodyno's own command line.

use crate::args::Run;
use iodyno_exchange::fio::{Process, Surroundings};
use iodyno_targets::TargetName;
use std::path::Path;

/// Environment in which `run` reads a job file. A flag of `run` replaces the job's option with the
/// same meaning.
#[derive(Debug)]
pub(crate) struct OfRun<'a>(pub(crate) &'a Run);

impl Surroundings for OfRun<'_> {
    fn included(&self, path: &Path) -> Result<String, String> {
        Process.included(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        Process.variable(name)
    }

    fn is_device(&self, path: &Path) -> Option<bool> {
        Process.is_device(path)
    }

    fn is_target(&self, path: &Path) -> bool {
        let Self(flags) = self;
        target_of(&flags.on, path).is_some()
    }

    fn gives(&self, flag: &str) -> bool {
        let given = &self.0.given;
        given.has(flag) || flag == "cpus" && given.has("numa")
    }
}

/// Index of the target that a job names as its file or device; None if it names none of them, or if
/// there is only one target, which needs no choice.
pub(crate) fn target_of(targets: &[TargetName], file: &Path) -> Option<usize> {
    if targets.len() < 2 {
        return None;
    }
    let real =
        |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.components().collect());
    let file = real(file.strip_prefix("./").unwrap_or(file));
    targets.iter().position(|target| match target {
        TargetName::Path { path, .. } => real(path) == file,
        _ => false,
    })
}

/// Environment in which `convert` reads a job file. The flags of a later run are unknown.
#[derive(Debug)]
pub(crate) struct OfConvert;

impl Surroundings for OfConvert {
    fn included(&self, path: &Path) -> Result<String, String> {
        Process.included(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        Process.variable(name)
    }

    fn is_device(&self, path: &Path) -> Option<bool> {
        Process.is_device(path)
    }

    fn gives(&self, _flag: &str) -> bool {
        true
    }
}
