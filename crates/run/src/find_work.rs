//! Looks up workloads and methods by name in the catalog, or by the path of a file. A name resolves to a list of
//! workloads, or to a method with all of its inputs.

use iodyno_catalog::{File, FileError, Kind, Problem, find, list};
use iodyno_exchange::{fio, is_foreign};
use iodyno_method::{Choice, Method, MethodSource, is_method};
use iodyno_workload::{Spec, Workload};
use std::collections::BTreeMap;

/// Reads a workload file from the catalog or from a path. Accepts a job file of another tool, such as fio, if it
/// contains a single job.
///
/// # Errors
/// The name is unknown, or the file is invalid; the error states the position in the file.
pub fn workload(name_or_path: &str) -> Result<(File, Workload), Problem> {
    read_workload(name_or_path, NamedBy::User)
}

/// Whether the user or a file named a workload. Errors quote a file's content only if the user named the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    User,
    File,
}

fn read_workload(name_or_path: &str, by: NamedBy) -> Result<(File, Workload), Problem> {
    if is_foreign(name_or_path) {
        let jobs = iodyno_exchange::read(name_or_path, &[], &fio::Process);
        let jobs = jobs.map_err(|problem| match by {
            NamedBy::User => problem,
            NamedBy::File => problem.withheld(),
        })?;
        let mut all = jobs.groups.into_iter().flatten();
        let (Some(job), None) = (all.next(), all.next()) else {
            let message = "the file has several jobs, but only one workload can be used here";
            return Err(Problem::new(name_or_path, message).with_help("run the file alone with `iodyno run`, or convert its jobs to workload files: `iodyno convert job.fio -o FOLDER`"));
        };
        let (name, origin) = (jobs.name, name_or_path.to_owned());
        let file = File { origin, name, text: job.toml.into(), is_named_by_file: false };
        return Ok((file, Workload::Single(Box::new(job.spec))));
    }
    let mut file = find(Kind::Workload, name_or_path)?;
    if by == NamedBy::File {
        file = file.named_by_file();
    }
    let workload = parsed(&file)?;
    Ok((file, workload))
}

fn parsed(file: &File) -> Result<Workload, Problem> {
    let workload = Workload::from_toml(&file.text).map_err(|errors| Problem::of(file, &errors))?;
    if let Workload::Group(group) = &workload {
        let unknown = group.unknown_members(is_single);
        if !unknown.is_empty() {
            return Err(Problem::of(file, &unknown));
        }
    }
    Ok(workload)
}

fn is_single(name: &str) -> bool {
    let Ok(file) = find(Kind::Workload, name) else { return false };
    matches!(Workload::from_toml(&file.text), Ok(Workload::Single(_)))
}

/// Content of a file that a user names as the work of a run.
#[derive(Debug)]
pub enum Found {
    Method(File),
    /// A single workload, or a group.
    Workloads(Workloads),
}

/// A single workload, or a named group of workloads.
#[derive(Debug)]
pub struct Workloads {
    /// Name of the workload or the group.
    pub name: String,
    /// Name and specification of the workload, or of each member of the group.
    pub members: Vec<(String, Spec)>,
}

/// Reads a method, a workload or a group of workloads, by name or path.
///
/// # Errors
/// The name is unknown, or the file is invalid; the error states the position in the file.
pub fn work(name_or_path: &str) -> Result<Found, Problem> {
    let is_in_methods = list(Kind::Method).any(|(name, _)| name == name_or_path);
    let kind = if is_in_methods { Kind::Method } else { Kind::Workload };
    let file = find(kind, name_or_path)?;
    if is_method(&file.text) {
        return Ok(Found::Method(file));
    }
    let members = match parsed(&file)? {
        Workload::Single(spec) => vec![(file.name.clone(), *spec)],
        Workload::Group(group) => {
            let mut members = Vec::new();
            for member in group.members {
                let (file, workload) = read_workload(&member.name, NamedBy::File)?;
                if let Workload::Single(spec) = workload {
                    members.push((file.name, *spec));
                }
            }
            members
        }
    };
    Ok(Found::Workloads(Workloads { name: file.name, members }))
}

/// Collects the inputs of a method: its file, the workload files that it names (with the members of groups), and the
/// user's choices.
///
/// # Errors
/// A workload is unknown or invalid.
pub fn method_source(file: File, choice: Choice) -> Result<MethodSource, Problem> {
    let mut workloads = BTreeMap::new();
    for name in Method::workloads_named(&file.text) {
        add_workload(&name, &mut workloads)?;
    }
    let text = file.text.to_string();
    Ok(MethodSource { name: file.name, text, workloads, choice, sweep: None })
}

fn add_workload(name: &str, all: &mut BTreeMap<String, String>) -> Result<(), Problem> {
    let (file, workload) = read_workload(name, NamedBy::File)?;
    if let Workload::Group(group) = &workload {
        for member in &group.members {
            add_workload(&member.name, all)?;
        }
    }
    all.insert(name.to_owned(), file.text.to_string());
    Ok(())
}

/// Builds a method from all of its inputs.
///
/// # Errors
/// The first error, with its position in the file. Errors in a choice or a sweep have no position.
pub fn method(source: MethodSource) -> Result<Method, Problem> {
    let file = File {
        origin: source.name.clone(),
        name: source.name.clone(),
        text: source.text.as_str().into(),
        is_named_by_file: false,
    };
    Method::new(source).map_err(|errors| problem(&file, &errors))
}

fn problem(file: &File, errors: &[FileError]) -> Problem {
    if let Some(first) = errors.first().filter(|first| first.span.is_empty()) {
        let message = match &first.help {
            Some(help) => format!("{}; {help}", first.message),
            None => first.message.clone(),
        };
        return Problem::new(file.origin.as_str(), message);
    }
    Problem::of(file, errors)
}
