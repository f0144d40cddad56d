//! Decides whether a target may be written, and collects every reason why not.
//!
//! A block device is refused if it is in use or holds data, or if one of its partitions, its whole disk, or a device
//! built on any of these is in use. A file is refused if it is in use or iodyno did not create it. A refusal is lifted
//! only if the user gives the target's own name ([`Confirm`]). Some refusals can't be lifted: the system disk, mounted
//! file systems, active swap space, devices held exclusively, and targets that can't be written at all.
//!
//! The content of a device, or of a file that iodyno made, is judged by its signatures and by samples
//! ([`blank`](crate::blank)). Only blank space and content that iodyno itself wrote may be overwritten.
//!
//! An NBD export that holds any data is refused, even iodyno's own: other clients may use the export, and this machine
//! can neither see them nor keep them out.
//!
//! Relations between devices come from sysfs and device numbers, never from comparing names, so links, mapper aliases
//! and partitions can't hide a mount. An exclusive open reveals uses that sysfs can't show, such as mounts in other
//! namespaces.

mod elsewhere;
mod erase;
mod in_use;

pub(crate) use elsewhere::locked;

use std::path::Path;

use crate::blank::Sampled;
use crate::error::{Refusal, RefusalCode, RefusedTarget, TargetError};
use crate::inspect::topology::BlockNode;
use crate::inspect::{Inspection, Kind};
use crate::name::TargetName;
use crate::signature::{Content, Signature, SignatureKind};
use crate::sysroot::SysRoot;
use iodyno_units::human;

pub(crate) use elsewhere::open_same;
pub(crate) use erase::allow_purge;
use in_use::Uses;

/// Names given with `--destroy`: targets that may be overwritten or purged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirm(pub Vec<String>);

/// Every reason not to write a target; empty if it may be written.
pub fn check_writable(inspection: &Inspection, root: &SysRoot) -> Vec<Refusal> {
    check(inspection, root, true)
}

/// Like [`check_writable`], for a target that this process has opened: ignores this process's own exclusive
/// open.
pub(crate) fn check_through_descriptor(inspection: &Inspection, root: &SysRoot) -> Vec<Refusal> {
    check(inspection, root, false)
}

fn check(inspection: &Inspection, root: &SysRoot, check_elsewhere: bool) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    match inspection.kind {
        Kind::Null | Kind::Ram | Kind::Model => {}
        Kind::Nbd => check_nbd(inspection, &mut refusals),
        Kind::Char => check_char(inspection, &mut refusals),
        Kind::Other => refusals.push(Refusal {
            code: RefusalCode::NotStorage,
            found: format!("{} is a directory, a pipe or a socket.", shown(inspection)),
            mend: "Name a file or a device; in a directory, `scratch:@DIR` makes a file."
                .to_owned(),
        }),
        Kind::File => check_file(inspection, root, check_elsewhere, &mut refusals),
        Kind::Block => check_block(inspection, root, check_elsewhere, &mut refusals),
    }
    // The gravest first; the codes are declared in that order.
    refusals.sort_by_key(|refusal| refusal.code as u8);
    refusals
}

/// Lifts the refusals if the user named this target with `--destroy`. Returns the lifted refusals, for the
/// report.
///
/// # Errors
/// [`TargetError::Refused`] with all refusals if none of the names is the target's, or if a refusal can't be
/// lifted.
pub fn confirm(
    inspection: &Inspection,
    refusals: Vec<Refusal>,
    confirm: &Confirm,
) -> Result<Vec<Refusal>, TargetError> {
    if refusals.is_empty() {
        return Ok(refusals);
    }
    let can_be_lifted = refusals.iter().all(|refusal| refusal.code.can_be_lifted());
    if can_be_lifted && confirm.0.iter().any(|given| is_own_name(inspection, given)) {
        return Ok(refusals);
    }
    Err(TargetError::Refused(Box::new(RefusedTarget {
        target: shown(inspection),
        refusals,
        confirmed_by: if can_be_lifted { own_names(inspection) } else { Vec::new() },
        given: confirm.0.clone(),
    })))
}

/// Drops the refusals that a message log on the target causes. A server calls this if it will continue that log.
/// Refusals for other content remain.
pub fn with_log_kept(inspection: &Inspection, mut refusals: Vec<Refusal>) -> Vec<Refusal> {
    let Some(content) = &inspection.content else { return refusals };
    let is_log = |signature: &Signature| signature.kind == SignatureKind::MessageLog;
    if !content.signatures.iter().any(is_log) {
        return refusals;
    }
    refusals.retain(|refusal| {
        !matches!(
            refusal.code,
            RefusalCode::HoldsData
                | RefusalCode::ForeignFile
                | RefusalCode::Signature
                | RefusalCode::PartitionTable
        )
    });
    let others = content.signatures.iter().filter(|it| !is_log(it)).cloned().collect();
    check_content(&Content { signatures: others, ..Content::default() }, &mut refusals);
    refusals
}

/// Fails if a `--destroy` name matches none of the targets, because the name may be misspelt or meant for another run.
///
/// # Errors
/// [`TargetError::BadName`].
pub fn check_confirmed(targets: &[&Inspection], confirm: &Confirm) -> Result<(), TargetError> {
    let is_nothing = |given: &&String| !targets.iter().any(|target| is_own_name(target, given));
    let Some(given) = confirm.0.iter().find(is_nothing) else { return Ok(()) };
    let names: Vec<String> =
        targets.iter().filter_map(|target| own_names(target).into_iter().next()).collect();
    Err(TargetError::BadName {
        name: given.clone(),
        problem: "--destroy must name a target of this run.".to_owned(),
        help: if names.is_empty() {
            "leave --destroy out: it confirms that a file, a device or an export is overwritten, and this run has none.".to_owned()
        } else {
            format!("the targets' names are: {}; or leave --destroy out.", names.join(", "))
        },
    })
}

/// True if `given`, a name from `--destroy`, is one of the target's names.
fn is_own_name(inspection: &Inspection, given: &str) -> bool {
    // A URI can be written in several ways, with or without percent signs.
    own_names(inspection).iter().any(|own| own == given)
        || inspection.kind == Kind::Nbd
            && TargetName::parse(given).is_ok_and(|given| given == inspection.name)
}

/// Names that `--destroy` accepts for a target: kernel name, serial number and paths of a device, name and
/// paths of a file, URI of an export. A disk's serial number does not confirm its partitions.
fn own_names(inspection: &Inspection) -> Vec<String> {
    let mut names = Vec::new();
    if inspection.is_scratch() {
        return names;
    }
    if inspection.kind == Kind::Nbd {
        names.push(inspection.name.to_string());
    }
    if inspection.kind == Kind::Block
        && let Some(device) = &inspection.device
    {
        names.push(device.kernel_name.clone());
        if device.partition_of.is_none() {
            names.extend([&device.serial, &device.wwid].into_iter().flatten().cloned());
        }
    }
    names.extend([&inspection.path, &inspection.canonical_path].into_iter().flatten().cloned());
    if inspection.kind == Kind::File {
        let file_name = inspection.path.as_deref().and_then(|path| Path::new(path).file_name());
        names.extend(file_name.map(|name| name.to_string_lossy().into_owned()));
    }
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn shown(inspection: &Inspection) -> String {
    inspection.path.clone().unwrap_or_else(|| inspection.name.to_string())
}

fn check_char(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    if !inspection.is_harmless_char() {
        refusals.push(Refusal {
            code: RefusalCode::CharDevice,
            found: format!("{} is a character device.", shown(inspection)),
            mend: "The only character devices that can be measured are /dev/zero, /dev/null and /dev/full.".to_owned(),
        });
    }
}

fn check_file(
    inspection: &Inspection,
    root: &SysRoot,
    look_elsewhere: bool,
    refusals: &mut Vec<Refusal>,
) {
    if let Some(fs) = &inspection.file_system
        && fs.read_only == Some(true)
    {
        let place = fs.mount_point.as_deref().unwrap_or("its place");
        refusals.push(Refusal {
            code: RefusalCode::ReadOnly,
            found: format!("The file system at {place} is mounted read-only."),
            mend: "Choose another file system, or measure with --read-only.".to_owned(),
        });
    }
    if !inspection.exists {
        return;
    }
    check_ownership(inspection, refusals);
    if let Some(content) = &inspection.content {
        check_content(content, refusals);
    }
    let uses = Uses::read(root, look_elsewhere && root.is_real());
    uses.check_file(inspection, refusals);
}

/// Refuses a file unless its content is marked as created by iodyno and its length still matches that mark.
fn check_ownership(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    let len_bytes = inspection.whole_bytes.unwrap_or(0);
    let found = match inspection.marker {
        Some(marker) if marker.fits(len_bytes) => {
            let findings = inspection.sampled.as_ref().and_then(Sampled::findings);
            match findings {
                Some(findings) => format!(
                    "iodyno made this file, but another program has written to it since: {findings}."
                ),
                // A signature in the file is a refusal of its own.
                None if inspection.sampled.is_some() || inspection.content.is_some() => return,
                None => return unreadable(inspection, refusals),
            }
        }
        Some(_) => "iodyno made a file of this name, but its length has changed since: another \
                    program wrote to it."
            .to_owned(),
        None => "iodyno did not make this file, and can't distinguish test data of another tool, \
                 such as fio, from valuable data."
            .to_owned(),
    };
    let new = "name a new file and its size, and iodyno creates it";
    let (found, mend) = match inspection.size_bytes.filter(|bytes| *bytes > len_bytes) {
        Some(bytes) => (
            format!(
                "{found} The file has {}, and would have to grow to the requested {}.",
                human::size(len_bytes),
                human::size(bytes)
            ),
            format!("Leave the size out and measure with --read-only; or {new}."),
        ),
        None => (found, format!("Measure with --read-only; or {new}.")),
    };
    refusals.push(Refusal { code: RefusalCode::ForeignFile, found, mend });
}

fn check_content(content: &Content, refusals: &mut Vec<Refusal>) {
    for signature in &content.signatures {
        let is_table = signature.kind == SignatureKind::PartitionTable;
        refusals.push(Refusal {
            code: if is_table { RefusalCode::PartitionTable } else { RefusalCode::Signature },
            found: format!(
                "It holds {} ({}, found at byte {}).",
                signature.kind.noun(),
                signature.name,
                signature.offset_bytes
            ),
            mend: "Choose a target that is empty.".to_owned(),
        });
    }
}

/// Refuses an NBD export unless it is empty according to its block status or to samples of its content.
fn check_nbd(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    if inspection.nbd.as_ref().is_some_and(|export| export.read_only) {
        refusals.push(Refusal {
            code: RefusalCode::ReadOnly,
            found: "The server exports it read-only.".to_owned(),
            mend: "Measure with --read-only and a workload that only reads, or have the server \
                   allow writing."
                .to_owned(),
        });
    }
    check_capacity(inspection, refusals);
    let holds_data = inspection.nbd.as_ref().and_then(|export| export.holds_data);
    match &inspection.content {
        Some(content) if !content.signatures.is_empty() => check_content(content, refusals),
        Some(_) if holds_data == Some(false) => {}
        Some(_) if holds_data == Some(true) => refusals.push(Refusal {
            code: RefusalCode::HoldsData,
            found: "The export holds data, and iodyno can't tell whether other clients use it."
                .to_owned(),
            mend: "Choose an export that is empty, or measure with a workload that only reads."
                .to_owned(),
        }),
        _ => unreadable(inspection, refusals),
    }
}

/// Refuses a target of size zero: a drive without a medium, a device that was not set up, or an empty export.
fn check_capacity(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    if inspection.whole_bytes == Some(0) {
        refusals.push(Refusal {
            code: RefusalCode::ReadOnly,
            found: "It has no capacity.".to_owned(),
            mend: match inspection.kind {
                Kind::Nbd => {
                    "Have the server export a device or file with a size above 0.".to_owned()
                }
                _ => "Insert a medium, or set the device up: a size for zram, a file for a loop \
                      device."
                    .to_owned(),
            },
        });
    }
}

/// Refuses a target whose content could not be read, since it may hold data.
fn unreadable(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    refusals.push(Refusal {
        code: RefusalCode::UnknownContent,
        found: format!(
            "It could not be read ({}), so its content is unknown.",
            inspection.unreadable.as_deref().unwrap_or("unknown reason")
        ),
        mend: match inspection.kind {
            Kind::Nbd => "Find out why the server can't read it.".to_owned(),
            _ => "Find out why it can't be read; reading a device usually needs root.".to_owned(),
        },
    });
}

fn check_block(
    inspection: &Inspection,
    root: &SysRoot,
    look_elsewhere: bool,
    refusals: &mut Vec<Refusal>,
) {
    check_capacity(inspection, refusals);
    match (&inspection.content, &inspection.sampled) {
        (Some(content), _) if !content.signatures.is_empty() => check_content(content, refusals),
        (Some(_), Some(sampled)) => {
            if let Some(findings) = sampled.findings() {
                refusals.push(Refusal {
                    code: RefusalCode::HoldsData,
                    found: format!("It holds data of an unknown kind: {findings}."),
                    mend: "Choose a device that is blank, or that an earlier run of iodyno filled."
                        .to_owned(),
                });
            }
        }
        _ => unreadable(inspection, refusals),
    }
    let device = inspection.identity.and_then(|identity| identity.device);
    let Some(target) = device.and_then(|dev| BlockNode::by_number(root, dev)) else {
        refusals.push(Refusal {
            code: RefusalCode::UnknownContent,
            found: "/sys does not show the device, so its partitions and the devices built on it are unknown.".to_owned(),
            mend: "Run iodyno where /sys is mounted and shows the device.".to_owned(),
        });
        return;
    };
    Uses::read(root, look_elsewhere && root.is_real()).check_device(&target, refusals);
}

#[cfg(test)]
mod tests;
