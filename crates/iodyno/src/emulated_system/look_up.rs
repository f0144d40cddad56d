//! Lookup of a device or a system by a name of the catalog, or by the path of a file.

use crate::failure::Failure;
use iodyno_catalog::{File, FileError, Kind, Problem, find, list};
use iodyno_emulate::describe::{self, DescribedDevice, DescribedSystem, RuleBroken};

/// The result of the lookup.
pub(crate) enum Found {
    /// A device.
    Device(Box<DescribedDevice>),
    /// A system, and its file.
    System(Box<DescribedSystem>, File),
}

/// A device or a system, by its name or by its file's path.
pub(crate) fn look_up(what: &str) -> Result<Found, Failure> {
    let is_system = match find(Kind::Device, what) {
        // A path is found whatever the file contains: its `kind` decides.
        Ok(file) => file.kind() == Some(Kind::System),
        Err(unknown) => {
            if find(Kind::System, what).is_err() {
                return Err(unknown.into());
            }
            true
        }
    };
    if is_system {
        let (system, file) = system(what)?;
        return Ok(Found::System(Box::new(system), file));
    }
    Ok(Found::Device(Box::new(device(what)?)))
}

/// A device from the catalog, or from a file.
pub(crate) fn device(what: &str) -> Result<DescribedDevice, Failure> {
    let file = find(Kind::Device, what)?;
    let device = describe::device(&file.name, &file.text);
    Ok(device.map_err(|errors| Problem::of(&file, &errors))?)
}

/// A system from the catalog, or from a file.
pub(crate) fn system(what: &str) -> Result<(DescribedSystem, File), Failure> {
    let file = find(Kind::System, what)?;
    let system = describe::system(&file.name, &file.text);
    let system = system.map_err(|errors| Problem::of(&file, &errors))?;
    Ok((system, file))
}

/// The catalog's devices, then its systems, with one line about each.
pub(crate) fn all() -> Result<Vec<(String, Kind, String)>, Failure> {
    let mut entries = Vec::new();
    for (name, _) in list(Kind::Device) {
        let about = device(name)?.summary;
        entries.push((name.to_owned(), Kind::Device, about));
    }
    for (name, _) in list(Kind::System) {
        let about = system(name)?.0.summary;
        entries.push((name.to_owned(), Kind::System, about));
    }
    Ok(entries)
}

/// Rules of population that a server violates, each at its place in the server's file.
pub(crate) fn refused(system: &DescribedSystem, file: &File, broken: &[RuleBroken]) -> Failure {
    let errors: Vec<FileError> = broken.iter().map(|b| system.error(b)).collect();
    Problem::of(file, &errors).into()
}
