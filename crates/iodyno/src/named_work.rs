//! Resolves `<workload>` of `run`, once, before anything else depends on it.

use crate::args::Run;
use crate::failure::Failure;
use crate::hints;
use crate::job_surroundings::OfRun;
use iodyno_catalog::File;
use iodyno_exchange::fio::JobFile;
use iodyno_run::find_work;
use iodyno_workload::Spec;

/// The work that `<workload>` names.
#[derive(Debug)]
pub(crate) enum NamedWork {
    /// A verification pass, which needs no workload.
    Verification,
    /// A workload of the catalog or of a file, or a group of them.
    Workloads(Workloads),
    /// Jobs of another tool.
    Jobs(JobFile),
    /// The file of a method.
    Method(File),
}

/// One workload, or a group of them, by name.
#[derive(Debug)]
pub(crate) struct Workloads {
    /// Name of the workload or the group.
    pub(crate) name: String,
    /// The workload, or the members of the group.
    pub(crate) members: Vec<(String, Spec)>,
}

impl NamedWork {
    /// Reads the work that the flags name.
    ///
    /// # Errors
    /// The name is unknown, or its file is invalid.
    pub(crate) fn read(flags: &Run) -> Result<Self, Failure> {
        let name = &flags.workload;
        if flags.verify_only {
            return Ok(Self::Verification);
        }
        if iodyno_exchange::is_foreign(name) {
            return Ok(Self::Jobs(iodyno_exchange::read(name, &flags.section, &OfRun(flags))?));
        }
        hints::check_workload(name)?;
        if let Some(file) = find_work::method_file(name)? {
            return Ok(Self::Method(file));
        }
        let (name, members) = find_work::members(name)?;
        Ok(Self::Workloads(Workloads { name, members }))
    }
}
