//! The file system that a file lies on: type, mount, space.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statfs, statx};
use serde::{Deserialize, Serialize};

use super::mounts::{self, Mount};
use crate::sysroot::{DevNo, SysRoot};

/// Names of file system types by the `f_type` of `statfs`, used for paths whose mount is not listed in
/// mountinfo. Numbers are from linux/magic.h and the sources of each file system.
const MAGIC: [(i64, &str); 22] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x2FC1_2FC1, "zfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x794C_7630, "overlay"),
    (0x6969, "nfs"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x4D44, "vfat"),
    (0x2011_BAB0, "exfat"),
    (0x7366_746E, "ntfs3"),
    (0x5346_544E, "ntfs"),
    (0x9FA0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1CD1, "devpts"),
    (0x0027_E0EB, "cgroup"),
];

/// Pseudo file systems, where a file can't be created or is created in memory.
const NOT_FOR_FILES: [&str; 14] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup",
    "cgroup2",
    "debugfs",
    "tracefs",
    "securityfs",
    "configfs",
    "bpf",
    "efivarfs",
    "mqueue",
    "pstore",
];

/// Properties of the file system that contains a file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Type as the kernel names it: ext4, xfs, tmpfs, …
    pub fs_type: String,
    pub mount_point: Option<String>,
    /// Mounted source: a device, a server's path, or a conventional word such as `tmpfs`.
    pub source: Option<String>,
    /// Options of this mount, such as `rw,noatime`.
    pub options: Option<String>,
    /// Options of the file system, which all its mounts share.
    pub super_options: Option<String>,
    /// True if the mount or the file system is read-only.
    pub read_only: Option<bool>,
    /// Block size that the file system prefers for I/O, bytes (`f_bsize`).
    pub block_bytes: Option<u64>,
    /// Total size of the file system, bytes, including space reserved for root.
    pub total_bytes: Option<u64>,
    /// Bytes available to an unprivileged user.
    pub free_bytes: Option<u64>,
    /// Mounted block device; `None` for network and memory file systems.
    pub dev: Option<DevNo>,
}

impl FileSystem {
    /// True if the file system keeps its files in memory, so that its free space is memory.
    pub fn is_memory(&self) -> bool {
        matches!(self.fs_type.as_str(), "tmpfs" | "ramfs")
    }

    /// True for `/proc`, `/dev` and the like, where iodyno creates no files.
    pub fn is_pseudo(&self) -> bool {
        NOT_FOR_FILES.contains(&self.fs_type.as_str())
    }
}

/// Mount that contains `path`: the mount whose id the kernel states for the path, otherwise the one with the longest
/// matching mount point on the device `dev`.
fn mount_of(root: &SysRoot, path: &Path, dev: DevNo) -> Option<Mount> {
    let mounts = mounts::mounts(root);
    let id = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)
        .ok()
        .filter(|st| st.stx_mask & StatxFlags::MNT_ID.bits() != 0)
        .map(|st| st.stx_mnt_id);
    if let Some(mount) = id.and_then(|id| mounts.iter().find(|mount| mount.id == id)) {
        return Some(mount.clone());
    }
    let holding =
        mounts.into_iter().filter(|mount| mount.dev == dev && path.starts_with(&mount.point));
    holding.max_by_key(|mount| mount.point.len())
}

/// Used fraction (0 to 1) of the file system that contains `path`. Like `df`, excludes space reserved for
/// root.
pub fn used_share(path: &Path) -> Option<f64> {
    let stat = statfs(path).ok()?;
    let used = stat.f_blocks.checked_sub(stat.f_bfree)?;
    let all = used + stat.f_bavail;
    (all > 0).then(|| used as f64 / all as f64)
}

/// Converts an entry of mountinfo to a `FileSystem` without sizes.
pub(crate) fn of_mount(root: &SysRoot, mount: Mount) -> FileSystem {
    let has_ro = |options: &str| options.split(',').any(|option| option == "ro");
    FileSystem {
        read_only: Some(has_ro(&mount.options) || has_ro(&mount.super_options)),
        dev: mount.devices(root).first().copied(),
        fs_type: mount.fs_type,
        mount_point: Some(mount.point),
        source: Some(mount.source),
        options: Some(mount.options),
        super_options: Some(mount.super_options),
        block_bytes: None,
        total_bytes: None,
        free_bytes: None,
    }
}

/// Reads the properties of the file system that contains an existing path.
pub(crate) fn file_system(root: &SysRoot, path: &Path) -> Option<FileSystem> {
    let stat = statfs(path).ok()?;
    let dev = DevNo::from_packed(std::fs::metadata(path).ok()?.dev());
    let mount = mount_of(root, path, dev);
    // The type of f_type differs by architecture; all known numbers fit 32 bits.
    let magic = i64::from(stat.f_type as u32);
    let by_magic = || {
        let known = MAGIC.iter().find(|(number, _)| *number == magic);
        known.map_or_else(|| format!("unknown ({magic:#x})"), |(_, name)| (*name).to_owned())
    };
    let block_bytes = stat.f_bsize as u64;
    let mut found = match mount {
        Some(mount) => of_mount(root, mount),
        None => FileSystem {
            fs_type: by_magic(),
            mount_point: None,
            source: None,
            options: None,
            super_options: None,
            read_only: None,
            block_bytes: None,
            total_bytes: None,
            free_bytes: None,
            dev: None,
        },
    };
    if dev.major != 0 {
        found.dev = Some(dev);
    }
    found.block_bytes = Some(block_bytes);
    found.total_bytes = Some(block_bytes.saturating_mul(stat.f_blocks));
    found.free_bytes = Some(block_bytes.saturating_mul(stat.f_bavail));
    Some(found)
}
