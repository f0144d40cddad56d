//! Present users of a target: mounts in all namespaces, swap space, layers, exclusive holders and writers. The search
//! covers the target, everything that shares data with it, and the files and devices that store the data of loop
//! devices.
//!
//! Mounts are found in two ways: in the mount tables of all processes, and by the kernel's exclusive hold on the device
//! of a mounted file system. The second way also finds mounts in a namespace that has no process because only a bind
//! mount or a single thread keeps it.

use std::collections::BTreeSet;
use std::fs;

use super::elsewhere;
use crate::error::{Refusal, RefusalCode};
use crate::inspect::mounts::{self, Mount, Swap};
use crate::inspect::topology::{
    self, Backing, BlockNode, Relation, Relative, built_on, device_of_path,
};
use crate::inspect::{Identity, Inspection};
use crate::sysroot::{DevNo, SysRoot};

/// Mount points of the running system. Overwriting a device mounted at one of them would crash the system.
const SYSTEM_MOUNTS: [&str; 6] = ["/", "/usr", "/etc", "/var", "/boot", "/boot/efi"];

/// Mounts, swap and other uses of storage on this machine, read once per check.
pub(super) struct Uses<'a> {
    root: &'a SysRoot,
    mounts: Vec<Mount>,
    /// Mounts in other mount namespaces, each with a process in that namespace.
    mounts_elsewhere: Vec<(Mount, String)>,
    /// Members of multi-device file systems, each with its file system's name.
    members: Vec<(DevNo, String)>,
    swaps: Vec<Swap>,
    swap_devices: Vec<DevNo>,
    /// True: also search for other processes that use the target. False once this process itself has opened it.
    looks_elsewhere: bool,
}

impl<'a> Uses<'a> {
    pub(super) fn read(root: &'a SysRoot, looks_elsewhere: bool) -> Self {
        let swaps = mounts::swaps(root);
        let swap_devices = swaps.iter().filter_map(|swap| device_of_path(root, &swap.path));
        Self {
            root,
            mounts: mounts::mounts(root),
            mounts_elsewhere: mounts::mounts_elsewhere(root),
            members: mounts::multi_device_members(root),
            swap_devices: swap_devices.collect(),
            swaps,
            looks_elsewhere,
        }
    }

    /// Adds a refusal for each use of a block device, such as a mount or swap.
    pub(super) fn check_device(&self, target: &BlockNode, refusals: &mut Vec<Refusal>) {
        let relatives = topology::relatives(self.root, target);
        self.check(&relatives, &BTreeSet::new(), refusals);
        let mut known = relatives.iter().map(|relative| relative.node.dev).collect();
        self.check_beneath(target, &mut known, refusals);
    }

    /// Adds a refusal for each use of a file, such as swap or a loop device.
    pub(super) fn check_file(&self, inspection: &Inspection, refusals: &mut Vec<Refusal>) {
        let Some(path) = &inspection.canonical_path else { return };
        let identity = inspection.identity;
        let is_swap = self.is_swap_file(path, identity);
        if is_swap {
            refusals.push(Refusal {
                code: RefusalCode::Swap,
                found: "It is in use as swap space.".to_owned(),
                mend: format!("Release it with `swapoff {path}`, or choose another file."),
            });
        }
        let has_loops = self.check_loops_on_file(path, identity, &BTreeSet::new(), refusals);
        if self.looks_elsewhere && has_loops {
            // The loop device itself has the file open for writing.
            elsewhere::check_backing_file(path, identity, refusals);
        } else if self.looks_elsewhere && !is_swap {
            // The kernel has a swap file open for writing.
            elsewhere::check_file(inspection, refusals);
        }
    }

    fn points(&self, dev: DevNo) -> Vec<&str> {
        let on_it = self.mounts.iter().filter(|mount| mount.devices(self.root).contains(&dev));
        on_it.map(|mount| mount.point.as_str()).collect()
    }

    /// The refusal for a mounted device; `None` if it is not mounted.
    fn mounted(&self, node: &BlockNode, who: &str) -> Option<Refusal> {
        let points = self.points(node.dev);
        if let Some(system) = points.iter().find(|point| SYSTEM_MOUNTS.contains(point)) {
            return Some(Refusal {
                code: RefusalCode::SystemDisk,
                found: format!("{who} is mounted at {system} and holds the running system."),
                mend: "Choose another device.".to_owned(),
            });
        }
        let (found, mend) = if !points.is_empty() {
            (
                format!("is mounted at {}.", points.join(" and ")),
                format!("Unmount it with `umount {}`.", points[0]),
            )
        } else if let Some((mount, by)) =
            self.mounts_elsewhere.iter().find(|(m, _)| m.devices(self.root).contains(&node.dev))
        {
            let point = &mount.point;
            (
                format!("is mounted at {point} in another mount namespace, that of {by}."),
                "Unmount it there, or end the container or service that uses it.".to_owned(),
            )
        } else {
            let (_, fs) = self.members.iter().find(|(dev, _)| *dev == node.dev)?;
            (
                format!("belongs to a mounted file system ({fs})."),
                "Unmount that file system, or remove the device from it.".to_owned(),
            )
        };
        Some(Refusal { code: RefusalCode::Mounted, found: format!("{who} {found}"), mend })
    }

    /// Adds refusals for mounts, swap, layers, holders and writers of the devices in `relatives`. Ignores layers
    /// in `known`.
    fn check(&self, relatives: &[Relative], known: &BTreeSet<DevNo>, refusals: &mut Vec<Refusal>) {
        // Devices whose exclusive holder is known.
        let mut explained = BTreeSet::new();
        for relative in relatives {
            let who = relative.subject();
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
            if let Some(refusal) = self.mounted(node, &who) {
                refusals.push(refusal);
                explained.insert(node.dev);
            }
            if self.swap_devices.contains(&node.dev) {
                refusals.push(Refusal {
                    code: RefusalCode::Swap,
                    found: format!("{who} is in use as swap space."),
                    mend: format!("Release it with `swapoff {}`.", node.node_path()),
                });
                explained.insert(node.dev);
            }
            if !node.holders(self.root).is_empty() {
                explained.insert(node.dev);
            }
            for holder in built_on(self.root, node) {
                if !known.contains(&holder.dev) {
                    refusals.push(self.member(&holder, &who));
                }
            }
        }
        if self.looks_elsewhere {
            elsewhere::check(relatives, &explained, refusals);
        }
    }

    /// Refusal for a device that the device `holder` is built on. Uses of `holder` itself are refused separately.
    fn member(&self, holder: &BlockNode, who: &str) -> Refusal {
        let points = self.points(holder.dev);
        let mounted = if points.is_empty() {
            String::new()
        } else {
            format!(", mounted at {}", points.join(" and "))
        };
        Refusal {
            code: RefusalCode::Member,
            found: format!("{who} is in use by {}{mounted}.", holder.describe()),
            mend: if holder.is_loop() {
                format!(
                    "Detach it with `losetup -d {0}`, or measure {0} itself.",
                    holder.node_path()
                )
            } else {
                format!("Stop {0} first, or measure {0} itself.", holder.name)
            },
        }
    }

    fn is_swap_file(&self, path: &str, identity: Option<Identity>) -> bool {
        self.swaps.iter().any(|swap| self.is_same(&swap.path, None, path, identity))
    }

    /// True if two names refer to the same file or device. Identities take precedence over paths if known.
    fn is_same(
        &self,
        other: &str,
        other_identity: Option<Identity>,
        path: &str,
        identity: Option<Identity>,
    ) -> bool {
        let of_path = || {
            let meta = fs::metadata(self.root.path(other.strip_prefix('/')?)).ok()?;
            Some(Identity::of(&meta))
        };
        match (other_identity.or_else(of_path), identity) {
            (Some(other), Some(own)) if own.device.is_some() => own.device == other.device,
            (Some(other), Some(own)) => own == other,
            _ => other == path,
        }
    }

    /// Adds refusals for loop devices backed by a file, and for all uses of those loop devices. Returns true if
    /// the file backs any.
    fn check_loops_on_file(
        &self,
        path: &str,
        identity: Option<Identity>,
        known: &BTreeSet<DevNo>,
        refusals: &mut Vec<Refusal>,
    ) -> bool {
        let on_it = |(node, backing): &(BlockNode, Backing)| {
            !known.contains(&node.dev)
                && self.is_same(&backing.path, backing.identity, path, identity)
        };
        let loops = topology::loop_devices(self.root).into_iter().filter(on_it);
        let loops: Vec<BlockNode> = loops.map(|(node, _)| node).collect();
        for node in &loops {
            refusals.push(self.member(node, "It"));
        }
        let has_any = !loops.is_empty();
        self.check(&topology::relatives_on_file(self.root, loops, known), known, refusals);
        has_any
    }

    /// Checks the backing files of all loop devices below this device. Writes pass through to the backing file or
    /// device, and would overwrite its other users' data. `known` contains the devices already checked.
    fn check_beneath(
        &self,
        node: &BlockNode,
        known: &mut BTreeSet<DevNo>,
        refusals: &mut Vec<Refusal>,
    ) {
        for below in node.whole_disk().into_iter().chain(node.slaves(self.root)) {
            // For the disk of a partition, and for members, only the layers beneath count.
            if known.insert(below.dev) || node.is_partition() {
                self.check_beneath(&below, known, refusals);
            }
        }
        let Some(backing) = Backing::of(self.root, node) else { return };
        let Backing { path, identity } = &backing;
        let mut found = Vec::new();
        if let Some(dev) = backing.device(self.root) {
            let below = BlockNode::by_number(self.root, dev).filter(|_| !known.contains(&dev));
            let Some(below) = below else { return };
            let relatives = topology::relatives_but(self.root, &below, known);
            self.check(&relatives, known, &mut found);
            known.extend(relatives.iter().map(|relative| relative.node.dev));
            self.check_beneath(&below, known, &mut found);
        } else {
            if self.is_swap_file(path, *identity) {
                found.push(Refusal {
                    code: RefusalCode::Swap,
                    found: "It is in use as swap space.".to_owned(),
                    mend: format!("Release it with `swapoff {path}`."),
                });
            }
            self.check_loops_on_file(path, *identity, known, &mut found);
            if self.looks_elsewhere {
                elsewhere::check_backing_file(path, *identity, &mut found);
            }
        }
        for refusal in &mut found {
            refusal.found =
                format!("Its blocks are stored in {path}. For that file: {}", refusal.found);
        }
        refusals.append(&mut found);
    }
}
