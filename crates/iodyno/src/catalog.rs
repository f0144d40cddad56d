//! Reads workload files: from the catalog by name, or by path.

use crate::failure::Failure;
use iodyno_catalog::{File, Kind, Problem, find};
use iodyno_workload::{Spec, Workload};

/// Reads a workload file: from the catalog by name, or by path. Errors are rendered at their
/// position.
pub(crate) fn workload(name_or_path: &str) -> Result<(File, Workload), Failure> {
    let file = find(Kind::Workload, name_or_path)?;
    let workload = Workload::from_toml(&file.text).map_err(|errors| Problem::of(&file, &errors))?;
    if let Workload::Group(group) = &workload {
        let unknown = group.unknown_members(is_single);
        if !unknown.is_empty() {
            return Err(Problem::of(&file, &unknown).into());
        }
    }
    Ok((file, workload))
}

fn is_single(name: &str) -> bool {
    let Ok(file) = find(Kind::Workload, name) else { return false };
    matches!(Workload::from_toml(&file.text), Ok(Workload::Single(_)))
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
