//! Decides whether a target may be written, and gives every reason why not.
//!
//! Nothing is destroyed by surprise. A block device is refused when it, a partition of it, the disk around it,
//! or anything built on any of these is in use or holds data; a file when iodyno did not create it. A refusal
//! is lifted only by the target's own name ([`Confirm`]), and a few never are: the disk that the system runs
//! from, mounted file systems and swap space in use, and targets that can't be written at all.
//!
//! The content of a device or of a file of iodyno's is judged by its signatures and by samples of all of it
//! ([`blank`](crate::blank)): only blank space and content that iodyno itself wrote may be overwritten.
//!
//! The other clients of an NBD export can't be seen from here: this machine has no mount of it, and an
//! exclusive opening does not keep other clients out. So an export that holds anything at all is refused,
//! recognised or not.
//!
//! Relations come from sysfs and device numbers, never from comparing names, so that links,
//! mapper aliases and partitions can't hide a mount. Exclusive opening by the kernel catches what
//! sysfs can't show, such as mounts of other namespaces.

mod elsewhere;
mod erase;

pub(crate) use elsewhere::locked;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::blank::Sampled;
use crate::error::{Refusal, RefusalCode, RefusedTarget, TargetError};
use crate::inspect::topology::device_of_path;
use crate::inspect::topology::{self, BlockNode, Relation, Relative};
use crate::inspect::{Inspection, Kind, mounts};
use crate::name::TargetName;
use crate::signature::{Content, Signature, SignatureKind};
use crate::sysroot::{DevNo, SysRoot};

pub(crate) use erase::allow_purge;

/// Mount points of the running system. Overwriting the device below any of these ends the system, and the
/// measurement with it.
const SYSTEM_MOUNTS: [&str; 6] = ["/", "/usr", "/etc", "/var", "/boot", "/boot/efi"];

/// The names given by `--destroy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirm(pub Vec<String>);

/// Every reason not to write to a target; none when it may be written.
pub fn check_writable(inspection: &Inspection, root: &SysRoot) -> Vec<Refusal> {
    check(inspection, root, true)
}

/// The same for a target that this process has open already: its own claim is no reason.
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
        Kind::File => {
            check_file(inspection, root, &mut refusals);
            let is_member = refusals.iter().any(|refusal| {
                matches!(
                    refusal.code,
                    RefusalCode::Member | RefusalCode::Mounted | RefusalCode::Swap
                )
            });
            if check_elsewhere && root.is_real() && inspection.exists && !is_member {
                elsewhere::check_file(inspection, &mut refusals);
            }
        }
        Kind::Block => check_block(inspection, root, check_elsewhere, &mut refusals),
    }
    // The gravest first; the codes are declared in that order.
    refusals.sort_by_key(|refusal| refusal.code as u8);
    refusals
}

/// Lifts refusals where one of the given names is the target's own. Returns the lifted refusals, for the
/// record.
///
/// # Errors
/// [`TargetError::Refused`] with all refusals when no name fits, or when one can't be lifted.
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

/// Of a target that holds a message log: leaves out what speaks only of its content, for a log's server goes on with
/// that. What else was recognised stays a reason.
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

/// Fails when a name that `--destroy` gave is none of these targets': it was misspelt, or belongs to
/// another run.
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
        problem: "--destroy gives a name that none of the targets has.".to_owned(),
        help: if names.is_empty() {
            "leave it out: nothing here can be destroyed.".to_owned()
        } else {
            format!("the names are: {}; or leave it out.", names.join(", "))
        },
    })
}

/// Whether a name given by `--destroy` is a target's own.
fn is_own_name(inspection: &Inspection, given: &str) -> bool {
    // A URI can be written in several ways, with or without percent signs.
    own_names(inspection).iter().any(|own| own == given)
        || inspection.kind == Kind::Nbd
            && TargetName::parse(given).is_ok_and(|given| given == inspection.name)
}

/// The names that confirm a target: kernel name, serial number and paths of a device, paths and
/// name of a file, URI of an export. A partition is not confirmed by its disk's serial number.
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
            mend: "Of these only /dev/zero, /dev/null and /dev/full can be measured.".to_owned(),
        });
    }
}

fn check_file(inspection: &Inspection, root: &SysRoot, refusals: &mut Vec<Refusal>) {
    if let Some(fs) = &inspection.file_system
        && fs.read_only == Some(true)
    {
        let place = fs.mount_point.as_deref().unwrap_or("its place");
        refusals.push(Refusal {
            code: RefusalCode::ReadOnly,
            found: format!("The file system at {place} is mounted read-only."),
            mend: "Choose another place, or measure with --read-only.".to_owned(),
        });
    }
    if !inspection.exists {
        return;
    }
    check_ownership(inspection, refusals);
    if let Some(content) = &inspection.content {
        check_content(content, refusals);
    }
    let Some(path) = &inspection.canonical_path else { return };
    for swap in mounts::swaps(root) {
        if is_same(root, inspection, &swap.path) {
            refusals.push(Refusal {
                code: RefusalCode::Swap,
                found: "It is in use as swap space.".to_owned(),
                mend: format!("Release it with `swapoff {path}`, or choose another file."),
            });
        }
    }
    let is_it = |file: &str| is_same(root, inspection, file);
    check_loops_on_file(root, &is_it, &BTreeSet::new(), refusals);
}

/// A file may be written when its mark shows that iodyno created it, and its length still fits.
fn check_ownership(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    let len_bytes = inspection.whole_bytes.unwrap_or(0);
    let found = match inspection.marker {
        Some(marker) if marker.fits(len_bytes) => {
            let findings = inspection.sampled.as_ref().and_then(Sampled::findings);
            match findings {
                Some(findings) => format!(
                    "iodyno made this file, but another program has written to it since: {findings}."
                ),
                // A signature that it holds is a refusal of its own.
                None if inspection.sampled.is_some() || inspection.content.is_some() => return,
                None => return unreadable(inspection, refusals),
            }
        }
        Some(_) => "iodyno made a file of this name, but its length has changed since: another \
                    program wrote to it."
            .to_owned(),
        None => "It is a file that iodyno did not make.".to_owned(),
    };
    refusals.push(Refusal {
        code: RefusalCode::ForeignFile,
        found,
        mend: "Name a file that is not there yet, with a size, and iodyno makes it; or measure \
               with --read-only."
            .to_owned(),
    });
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

/// An export may be written when it is empty, according to its block status or to samples of it.
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
    let holds_data = inspection.nbd.as_ref().and_then(|export| export.holds_data);
    match &inspection.content {
        Some(content) if !content.signatures.is_empty() => check_content(content, refusals),
        Some(_) if holds_data == Some(false) => {}
        Some(_) if holds_data == Some(true) => refusals.push(Refusal {
            code: RefusalCode::HoldsData,
            found: "It holds data, and an export's other users can't be seen from here.".to_owned(),
            mend: "Choose an export that is empty, or measure with a workload that only reads."
                .to_owned(),
        }),
        _ => unreadable(inspection, refusals),
    }
}

/// A target that can't be read may hold anything.
fn unreadable(inspection: &Inspection, refusals: &mut Vec<Refusal>) {
    refusals.push(Refusal {
        code: RefusalCode::UnknownContent,
        found: format!(
            "It could not be read, so what it holds is unknown ({}).",
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
    check_elsewhere: bool,
    refusals: &mut Vec<Refusal>,
) {
    match (&inspection.content, &inspection.sampled) {
        (Some(content), _) if !content.signatures.is_empty() => check_content(content, refusals),
        (Some(_), Some(sampled)) => {
            if let Some(findings) = sampled.findings() {
                refusals.push(Refusal {
                    code: RefusalCode::HoldsData,
                    found: format!("It holds data of a kind that is not recognised: {findings}."),
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
            found: "Its relations to other devices are unknown: /sys does not show it.".to_owned(),
            mend: "Run where /sys is mounted and shows the device.".to_owned(),
        });
        return;
    };
    let relatives = topology::relatives(root, &target);
    check_use(root, &relatives, &BTreeSet::new(), refusals);
    let mut known = relatives.iter().map(|relative| relative.node.dev).collect();
    check_beneath(root, &target, &mut known, refusals);
    if check_elsewhere && root.is_real() {
        let already_explained = refusals.iter().any(|refusal| {
            matches!(
                refusal.code,
                RefusalCode::SystemDisk
                    | RefusalCode::Mounted
                    | RefusalCode::Swap
                    | RefusalCode::Member
            )
        });
        elsewhere::check(&relatives, already_explained, refusals);
    }
}

/// The name of a relative at the beginning of a sentence.
fn subject(relative: &Relative) -> String {
    let name = &relative.node.name;
    match relative.relation {
        Relation::Itself => "It".to_owned(),
        Relation::Partition => format!("Its partition {name}"),
        Relation::WholeDisk => format!("The disk that it is a part of, {name},"),
        Relation::Holder => match &relative.on {
            Some(on) => format!("The device built on it, {} (on {on}),", relative.node.describe()),
            None => format!("The device built on it, {},", relative.node.describe()),
        },
    }
}

/// Mounts, swap and layers, on the target and everything that shares data with it. Layers that are known
/// already are left out.
fn check_use(
    root: &SysRoot,
    relatives: &[Relative],
    known: &BTreeSet<DevNo>,
    refusals: &mut Vec<Refusal>,
) {
    let mounts = mounts::mounts(root);
    let members = mounts::multi_device_members(root);
    let swap_devices: Vec<_> =
        mounts::swaps(root).iter().filter_map(|swap| device_of_path(root, &swap.path)).collect();
    for relative in relatives {
        let who = subject(relative);
        let node = &relative.node;
        if relative.relation == Relation::Itself && node.attr_u64("ro") == Some(1) {
            refusals.push(Refusal {
                code: RefusalCode::ReadOnly,
                found: "It is set read-only.".to_owned(),
                mend: format!(
                    "Measure with --read-only, or allow writing with `blockdev --setrw {}`.",
                    node.node_path()
                ),
            });
        }
        let points: Vec<&str> = mounts
            .iter()
            .filter(|mount| mount.devices(root).contains(&node.dev))
            .map(|mount| mount.point.as_str())
            .collect();
        if let Some(system) = points.iter().find(|point| SYSTEM_MOUNTS.contains(point)) {
            refusals.push(Refusal {
                code: RefusalCode::SystemDisk,
                found: format!("{who} is mounted at {system}: the running system is on it."),
                mend: "Choose another device.".to_owned(),
            });
        } else if !points.is_empty() {
            refusals.push(Refusal {
                code: RefusalCode::Mounted,
                found: format!("{who} is mounted at {}.", points.join(" and ")),
                mend: format!("Unmount it with `umount {}`.", points[0]),
            });
        } else if let Some((_, fs)) = members.iter().find(|(dev, _)| *dev == node.dev) {
            refusals.push(Refusal {
                code: RefusalCode::Mounted,
                found: format!("{who} belongs to a mounted file system ({fs})."),
                mend: "Unmount that file system, or remove the device from it.".to_owned(),
            });
        }
        if swap_devices.contains(&node.dev) {
            refusals.push(Refusal {
                code: RefusalCode::Swap,
                found: format!("{who} is in use as swap space."),
                mend: format!("Release it with `swapoff {}`.", node.node_path()),
            });
        }
        for holder in topology::built_on(root, node) {
            if !known.contains(&holder.dev) {
                refusals.push(member(&holder, &who, root));
            }
        }
    }
}

/// A refusal for a device that another one is built on. The use of that one is a refusal of its own.
fn member(holder: &BlockNode, who: &str, root: &SysRoot) -> Refusal {
    let points: Vec<String> = mounts::mounts(root)
        .iter()
        .filter(|mount| mount.devices(root).contains(&holder.dev))
        .map(|mount| mount.point.clone())
        .collect();
    let mounted = if points.is_empty() {
        String::new()
    } else {
        format!(", mounted at {}", points.join(" and "))
    };
    Refusal {
        code: RefusalCode::Member,
        found: format!("{who} is in use below {}{mounted}.", holder.describe()),
        mend: if holder.is_loop() {
            format!(
                "Detach it with `losetup -d {}`, or measure that device itself.",
                holder.node_path()
            )
        } else {
            format!("Stop {} first, or measure that device itself.", holder.name)
        },
    }
}

/// True when `path` is the inspected file or device, under any name.
fn is_same(root: &SysRoot, inspection: &Inspection, path: &str) -> bool {
    let Some(relative) = path.strip_prefix('/') else { return false };
    let (Some(identity), Ok(meta)) = (inspection.identity, fs::metadata(root.path(relative)))
    else {
        return inspection.canonical_path.as_deref() == Some(path);
    };
    let other = crate::inspect::Identity::of(&meta);
    if identity.device.is_some() { identity.device == other.device } else { identity == other }
}

/// The loop devices on a file, and the use of all that is built on them. `is_it` recognises the file by a path.
fn check_loops_on_file(
    root: &SysRoot,
    is_it: &dyn Fn(&str) -> bool,
    known: &BTreeSet<DevNo>,
    refusals: &mut Vec<Refusal>,
) {
    let on_it = |(node, file): &(BlockNode, String)| !known.contains(&node.dev) && is_it(file);
    let loops = topology::loop_devices(root).into_iter().filter(on_it);
    let loops: Vec<BlockNode> = loops.map(|(node, _)| node).collect();
    for node in &loops {
        refusals.push(member(node, "It", root));
    }
    check_use(root, &topology::relatives_on_file(root, loops, known), known, refusals);
}

/// A device that lies on others writes into the file or device below each loop device among these: everything
/// else that uses that file or device would be overwritten. `known` are the devices that were checked.
fn check_beneath(
    root: &SysRoot,
    node: &BlockNode,
    known: &mut BTreeSet<DevNo>,
    refusals: &mut Vec<Refusal>,
) {
    for below in node.whole_disk().into_iter().chain(node.slaves(root)) {
        // Of a disk whose partition is the target, and of members, only what is beneath counts.
        if known.insert(below.dev) || node.is_partition() {
            check_beneath(root, &below, known, refusals);
        }
    }
    let Some(file) = node.attr("loop/backing_file") else { return };
    let mut found = Vec::new();
    if let Some(dev) = device_of_path(root, &file) {
        let below = BlockNode::by_number(root, dev).filter(|_| !known.contains(&dev));
        let Some(below) = below else { return };
        let relatives = topology::relatives_but(root, &below, known);
        check_use(root, &relatives, known, &mut found);
        known.extend(relatives.iter().map(|relative| relative.node.dev));
        check_beneath(root, &below, known, &mut found);
    } else {
        let identity = |path: &str| {
            let meta = fs::metadata(root.path(path.strip_prefix('/')?)).ok()?;
            Some(crate::inspect::Identity::of(&meta))
        };
        let backing = identity(&file);
        let is_it = |path: &str| path == file || backing.is_some() && identity(path) == backing;
        if mounts::swaps(root).iter().any(|swap| is_it(&swap.path)) {
            found.push(Refusal {
                code: RefusalCode::Swap,
                found: "It is in use as swap space.".to_owned(),
                mend: format!("Release it with `swapoff {file}`."),
            });
        }
        check_loops_on_file(root, &is_it, known, &mut found);
    }
    for refusal in &mut found {
        refusal.found = format!("Its blocks lie in {file}, for which holds: {}", refusal.found);
    }
    refusals.append(&mut found);
}

#[cfg(test)]
mod tests;
