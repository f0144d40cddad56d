//! Resolves the argument `<workload>` once, before anything else depends on it. Used by `run`, its flag `--with`,
//! `explain` and `size`.

use crate::failure::Failure;
use crate::hints;
use iodyno_catalog::File;
use iodyno_exchange::fio::{JobFile, Surroundings};
use iodyno_run::find_work::{self, Found};
use iodyno_units::text::for_shell;
use iodyno_workload::Spec;

pub(crate) use iodyno_run::find_work::Workloads;

/// Meaning of the argument `<workload>`: workloads, jobs of another tool, or a method.
#[derive(Debug)]
pub(crate) enum NamedWork {
    /// A workload of the catalog or of a file, or a group of workloads.
    Workloads(Workloads),
    Jobs(Jobs),
    Method(File),
}

/// Jobs of another benchmark tool, such as fio.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// Path of the job file, or the other tool's command line, as typed by the user.
    pub(crate) given: String,
    pub(crate) file: JobFile,
}

impl NamedWork {
    /// Resolves the argument `given` to workloads, jobs or a method. For jobs of another tool, `sections` selects
    /// jobs by name (all if empty), and `around` is their environment.
    ///
    /// # Errors
    /// The name is unknown, or its file is invalid.
    pub(crate) fn read(
        given: &str,
        sections: &[String],
        around: &dyn Surroundings,
    ) -> Result<Self, Failure> {
        if iodyno_exchange::is_foreign(given) {
            let file = iodyno_exchange::read(given, sections, around)?;
            return Ok(Self::Jobs(Jobs { given: given.to_owned(), file }));
        }
        hints::check_workload(given)?;
        Ok(match find_work::work(given)? {
            Found::Method(file) => Self::Method(file),
            Found::Workloads(workloads) => Self::Workloads(workloads),
        })
    }

    /// The name or path, for use in a message.
    pub(crate) fn shown(&self) -> &str {
        match self {
            Self::Workloads(workloads) => &workloads.name,
            Self::Jobs(jobs) => &jobs.given,
            Self::Method(file) => shown_method(file),
        }
    }

    /// Converts to workloads that run one after the other.
    ///
    /// # Errors
    /// This is a method, or has simultaneous jobs.
    pub(crate) fn into_workloads(self) -> Result<Workloads, Failure> {
        match self {
            Self::Workloads(workloads) => Ok(workloads),
            Self::Jobs(jobs) => jobs.one_by_one(|_| jobs.conversion()),
            Self::Method(_) => Err(Failure::input(format!(
                "`{}` is a method, and a workload is needed here: `iodyno catalog` lists both",
                self.shown()
            ))),
        }
    }

    /// Converts to a single workload, with its name.
    ///
    /// # Errors
    /// This is a method, or several workloads.
    pub(crate) fn into_workload(self) -> Result<(String, Spec), Failure> {
        let remedy = match &self {
            Self::Jobs(jobs) => jobs.conversion(),
            _ => "name one of them".to_owned(),
        };
        let Workloads { name, members } = self.into_workloads()?;
        let one = <[(String, Spec); 1]>::try_from(members).map_err(|members| {
            let names: Vec<String> = members.into_iter().map(|member| member.0).collect();
            let names = names.join(", ");
            Failure::input(format!(
                "`{name}` is several workloads ({names}), and one is needed here: {remedy}"
            ))
        });
        one.map(|[one]| one)
    }
}

impl Jobs {
    /// Converts jobs to workloads that run one after the other. `remedy` builds the end of the error message,
    /// from the name of the first simultaneous job.
    ///
    /// # Errors
    /// Some jobs run at the same time.
    pub(crate) fn one_by_one(
        &self,
        remedy: impl FnOnce(&str) -> String,
    ) -> Result<Workloads, Failure> {
        if let Some(group) = self.file.groups.iter().find(|group| group.len() > 1) {
            let names: Vec<&str> = group.iter().map(|job| job.name.as_str()).collect();
            return Err(Failure::input(format!(
                "`{}`: {} run at the same time, but here jobs must run one after the other: {}",
                self.given,
                names.join(" and "),
                remedy(names[0])
            )));
        }
        let members = self.file.jobs().map(|job| (job.name.clone(), job.spec.clone()));
        Ok(Workloads { name: self.file.name.clone(), members: members.collect() })
    }

    /// Suggestion for an error message where several jobs are not allowed: convert each to a workload file.
    fn conversion(&self) -> String {
        let given = for_shell(&self.given);
        format!("convert each to a workload file with `iodyno convert {given} -o FOLDER`")
    }
}

/// The name of a method in the catalog, or the path of its file.
pub(crate) fn shown_method(file: &File) -> &str {
    if file.is_in_catalog() { &file.name } else { &file.origin }
}
