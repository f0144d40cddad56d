//! Reads workload files: of the catalog by their names, or by their paths.

use crate::failure::Failure;
use iodyno_catalog::{File, Kind, Problem, find, parse};
use iodyno_workload::{RawSpec, Spec, SpecError, Workload};

/// Reads a workload file: of the catalog by its name, or by its path. The errors are drawn at
/// their place.
pub(crate) fn workload(name_or_path: &str) -> Result<(File, Workload), Failure> {
    let file = find(Kind::Workload, name_or_path)?;
    let raw: RawSpec = parse(&file)?;
    let workload = Workload::from_raw(raw).map_err(|errors| problem(&file, &errors))?;
    if let Workload::Group(group) = &workload {
        let unknown = group.unknown_members(is_single);
        if !unknown.is_empty() {
            return Err(problem(&file, &unknown).into());
        }
    }
    Ok((file, workload))
}

fn is_single(name: &str) -> bool {
    let Ok(file) = find(Kind::Workload, name) else { return false };
    matches!(parse(&file).map(Workload::from_raw), Ok(Ok(Workload::Single(_))))
}

/// The single workloads of a file, by name: itself, or its members.
pub(crate) fn members(name_or_path: &str) -> Result<(String, Vec<(String, Spec)>), Failure> {
    let (file, workload) = workload(name_or_path)?;
    match workload {
        Workload::Single(spec) => Ok((file.name.clone(), vec![(file.name, *spec)])),
        Workload::Group(group) => {
            let mut members = Vec::new();
            for member in group.members {
                if let (file, Workload::Single(spec)) = self::workload(&member.name)? {
                    members.push((file.name, *spec));
                }
            }
            Ok((file.name, members))
        }
    }
}

/// The first error as a problem at its place; the others are named after it.
fn problem(file: &File, errors: &[SpecError]) -> Problem {
    let Some((first, rest)) = errors.split_first() else {
        return Problem::new(file.origin.as_str(), "the workload is not valid");
    };
    let problem = Problem::at(file, first.span.clone(), first.message.as_str(), first.help.clone());
    rest.iter().fold(problem, |p, e| p.also(e.span.clone(), e.message.as_str()))
}
