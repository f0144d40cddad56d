//! Looks up devices and systems by name in the catalog, or by the path of a file.

use crate::files::Files;
use crate::outcome::RunError;
use iodyno_catalog::{File, FileError, Kind, Problem};
use iodyno_emulate::describe::{self, DescribedDevice, DescribedSystem, RuleBroken};

/// Result of looking up an emulated device or system.
pub(crate) enum Found {
    Device(Box<DescribedDevice>),
    /// A system with its description, and the file that contains it.
    System(Box<DescribedSystem>, File),
}

/// Finds a device or system by its name in the catalog or by the path of its file.
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
/// The name is unknown, or the file is invalid.
pub fn device(what: &str, files: &mut Files) -> Result<DescribedDevice, RunError> {
    let file = files.find(Kind::Device, what)?;
    let device = describe::device(&file.name, &file.text);
    Ok(device.map_err(|errors| Problem::of(&file, &errors))?)
}

/// Returns a system from the catalog or from a file, together with the name and text of the file that describes it.
/// Also reads the files from which the system inherits.
///
/// # Errors
/// The name is unknown, or the file is invalid.
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

/// Returns the one-line description of a device, or of a system if the catalog has no device of that name.
///
/// # Errors
/// The name is unknown, or the file is invalid.
pub fn summary(what: &str) -> Result<String, RunError> {
    Ok(match look_up(what, &mut Files::default())? {
        Found::Device(device) => device.summary,
        Found::System(system, _) => system.summary,
    })
}

/// Error for devices that violate rules of the system. Each violation points to its position in the system's
/// file.
pub(crate) fn refused(system: &DescribedSystem, file: &File, broken: &[RuleBroken]) -> RunError {
    let errors: Vec<FileError> = broken.iter().map(|b| system.error(b)).collect();
    Problem::of(file, &errors).into()
}
