//! Mounts of this process and of other mount namespaces (`/proc/PID/mountinfo`), and swap space (`/proc/swaps`).
//!
//! Mounts are compared by device number, never by name: a name can be a symbolic link, a mapper alias or a name in
//! another namespace. [`topology`](super::topology) finds the devices that share data with a target's device.

use std::collections::BTreeSet;
use std::path::Path;

use super::topology::{BlockNode, device_of_path};
use crate::sysroot::{DevNo, SysRoot};

/// A mount, parsed from one line of `/proc/PID/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    pub(crate) dev: DevNo,
    pub(crate) point: String,
    pub(crate) options: String,
    pub(crate) fs_type: String,
    pub(crate) source: String,
    pub(crate) super_options: String,
}

/// A swap device or file, parsed from one line of `/proc/swaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Swap {
    pub(crate) path: String,
}

/// Decodes the kernel's octal escapes, such as `\040` for a space.
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let octal = bytes
            .get(i + 1..i + 4)
            .filter(|digits| bytes[i] == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        if let Some(digits) = octal {
            let value = digits.iter().fold(0_u32, |value, d| value * 8 + u32::from(d - b'0'));
            out.push(value as u8);
            i += 4;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Parses a line of mountinfo, such as
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
/// A lone dash ends the optional fields (proc(5)).
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let id = left.next()?.parse().ok()?;
    let _parent = left.next()?;
    let dev = left.next()?.parse().ok()?;
    let _root = left.next()?;
    let point = unescape(left.next()?);
    let options = left.next()?.to_owned();
    let mut right = right.split(' ');
    Some(Mount {
        id,
        dev,
        point,
        options,
        fs_type: unescape(right.next()?),
        source: unescape(right.next()?),
        super_options: right.next().unwrap_or_default().to_owned(),
    })
}

pub(crate) fn mounts(root: &SysRoot) -> Vec<Mount> {
    let text = root.read("proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

/// Mounts that exist only in other mount namespaces, such as those of containers. Each comes with a process
/// in that namespace: `name (process PID)`. Namespaces without a process are not found.
pub(crate) fn mounts_elsewhere(root: &SysRoot) -> Vec<(Mount, String)> {
    let namespace =
        |process: &str| std::fs::read_link(root.path("proc").join(process).join("ns/mnt")).ok();
    let mut seen: BTreeSet<_> = namespace("self").into_iter().collect();
    // A mount's number is unique in the whole system.
    let mut known: BTreeSet<u64> = mounts(root).iter().map(|mount| mount.id).collect();
    let mut found = Vec::new();
    for pid in root.list("proc").into_iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
        if namespace(&pid).is_some_and(|namespace| !seen.insert(namespace)) {
            continue;
        }
        let text = root.read(format!("proc/{pid}/mountinfo")).unwrap_or_default();
        let mut process = None;
        for mount in text.lines().filter_map(parse_mount) {
            if known.insert(mount.id) {
                let named = || {
                    let name = root.read(format!("proc/{pid}/comm"));
                    format!("{} (process {pid})", name.as_deref().unwrap_or("a process"))
                };
                found.push((mount, process.get_or_insert_with(named).clone()));
            }
        }
    }
    found
}

pub(crate) fn swaps(root: &SysRoot) -> Vec<Swap> {
    let text = root.read("proc/swaps").unwrap_or_default();
    let paths = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths.map(|path| Swap { path: unescape(path) }).collect()
}

impl Mount {
    /// Block devices in use by this mount, as far as mountinfo lists them. For file systems with several devices or
    /// subvolumes (btrfs), mountinfo shows only an anonymous device number and one member device.
    pub(crate) fn devices(&self, root: &SysRoot) -> Vec<DevNo> {
        if self.dev.major != 0 {
            return vec![self.dev];
        }
        device_of_path(root, &self.source).into_iter().collect()
    }
}

/// All member devices of mounted btrfs and bcachefs file systems, as `(device, file system)`. mountinfo does
/// not list them.
pub(crate) fn multi_device_members(root: &SysRoot) -> Vec<(DevNo, String)> {
    let mut members = Vec::new();
    let number =
        |path: &Path| crate::sysroot::read(&path.join("dev")).and_then(|text| text.parse().ok());
    for id in root.list("sys/fs/btrfs") {
        let devices = root.path("sys/fs/btrfs").join(&id).join("devices");
        for name in crate::sysroot::list(&devices) {
            let of_name = || BlockNode::by_name(root, &name).map(|node| node.dev);
            if let Some(dev) = number(&devices.join(&name)).or_else(of_name) {
                members.push((dev, format!("btrfs {id}")));
            }
        }
    }
    for id in root.list("sys/fs/bcachefs") {
        let folder = root.path("sys/fs/bcachefs").join(&id);
        for name in crate::sysroot::list(&folder) {
            if let Some(dev) = number(&folder.join(&name).join("block")) {
                members.push((dev, format!("bcachefs {id}")));
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_with_optional_fields_and_escapes() {
        let line = r"36 35 8:17 /sub /mnt/my\040disk rw,noatime master:1 shared:2 - ext4 /dev/sdb1 rw,errors=continue";
        let mount = parse_mount(line).unwrap();
        assert_eq!(mount.id, 36);
        assert_eq!(mount.dev, DevNo { major: 8, minor: 17 });
        assert_eq!(mount.point, "/mnt/my disk");
        assert_eq!(mount.fs_type, "ext4");
        assert_eq!(mount.source, "/dev/sdb1");
        assert_eq!(mount.super_options, "rw,errors=continue");
        assert_eq!(parse_mount("not a mount line"), None);
    }

    /// Tests one process in this mount namespace, two in another, and one whose namespace can't be read.
    #[test]
    fn mounts_of_other_namespaces_count_once() {
        let tree = crate::inspect::fake::Tree::new();
        tree.mounts(&[("8:1", "/", "ext4", "/dev/sda1")]);
        let line = |id: u64, dev: &str| format!("{id} 1 {dev} / /m rw - ext4 /dev/x rw\n");
        for (pid, namespace, lines) in [
            ("7", "1", line(20, "8:1")),
            ("8", "2", line(50, "8:1") + &line(51, "8:16")),
            ("9", "2", line(50, "8:1") + &line(51, "8:16")),
            ("10", "", line(20, "8:1") + &line(51, "8:16") + &line(60, "8:32")),
        ] {
            tree.file(&format!("proc/{pid}/mountinfo"), lines);
            tree.file(&format!("proc/{pid}/comm"), "postgres\n");
            if !namespace.is_empty() {
                let link = tree.path(&format!("proc/{pid}/ns/mnt"));
                std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(format!("mnt:[{namespace}]"), link).unwrap();
            }
        }
        let own = tree.path("proc/self/ns/mnt");
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("mnt:[1]", own).unwrap();
        let found = mounts_elsewhere(&tree.root());
        let found: Vec<_> = found.iter().map(|(mount, by)| (mount.id, by.as_str())).collect();
        // Process 10 comes first.
        let (ten, eight) = ("postgres (process 10)", "postgres (process 8)");
        assert_eq!(found, [(51, ten), (60, ten), (50, eight)]);
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape(r"a\134b\x\04"), r"a\b\x\04");
    }
}
