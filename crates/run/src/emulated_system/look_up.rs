//! Lookup of a device or a system by a name of the catalog, or by the path of a file.

use crate::files::Files;
use crate::outcome::RunError;
use iodyno_catalog::{File, FileError, Kind, Problem, list};
use iodyno_emulate::describe::{self, DescribedDevice, DescribedSystem, RuleBroken};

/// A device or a system that was found.
pub(crate) enum Found {
    /// A device.
    Device(Box<DescribedDevice>),
    /// A system, and the file that describes it.
    System(Box<DescribedSystem>, File),
}

/// Finds a device or a system by its name or by its file's path.
pub(crate) fn look_up(what: &str, files: &mut Files) -> Result<Found, RunError> {
    let is_system = match files.find(Kind::Device, what) {
        // A path is found as any kind: the file's `kind` decides.
        Ok(file) => file.kind() == Some(Kind::System),
        Err(unknown) => {
            if files.find(Kind::System, what).is_err() {
                return Err(unknown.into());
            }
            true
        }
    };
    if is_system {
        let (system, file) = system(what, files)?;
        return Ok(Found::System(Box::new(system), file));
    }
    Ok(Found::Device(Box::new(device(what, files)?)))
}

/// Returns a device from the catalog or from a file.
///
/// # Errors
/// An unknown name, and an invalid file.
pub fn device(what: &str, files: &mut Files) -> Result<DescribedDevice, RunError> {
    let file = files.find(Kind::Device, what)?;
    let device = describe::device(&file.name, &file.text);
    Ok(device.map_err(|errors| Problem::of(&file, &errors))?)
}

/// Returns a system from the catalog or from a file, and that file. Also reads the files on which the system is based.
///
/// # Errors
/// An unknown name, and an invalid file.
pub fn system(what: &str, files: &mut Files) -> Result<(DescribedSystem, File), RunError> {
    let file = files.find(Kind::System, what)?;
    let system = describe::system(&file.name, &file.text, &mut |base| {
        let base =
            files.find(Kind::System, base).map_err(|problem| problem.message().to_owned())?;
        Ok(base.text.to_string())
    });
    let system = system.map_err(|errors| Problem::of(&file, &errors))?;
    Ok((system, file))
}

/// The catalog's devices, then its systems, each with its kind and a one-line description.
///
/// # Errors
/// In practice none: the catalog's own files are tested.
pub fn catalog_entries() -> Result<Vec<(String, Kind, String)>, RunError> {
    let mut entries = Vec::new();
    let mut files = Files::default();
    for (name, _) in list(Kind::Device) {
        let about = device(name, &mut files)?.summary;
        entries.push((name.to_owned(), Kind::Device, about));
    }
    for (name, _) in list(Kind::System) {
        let about = system(name, &mut files)?.0.summary;
        entries.push((name.to_owned(), Kind::System, about));
    }
    Ok(entries)
}

/// The error for violated rules on a system's devices, each at its position in the system's file.
pub(crate) fn refused(system: &DescribedSystem, file: &File, broken: &[RuleBroken]) -> RunError {
    let errors: Vec<FileError> = broken.iter().map(|b| system.error(b)).collect();
    Problem::of(file, &errors).into()
}
