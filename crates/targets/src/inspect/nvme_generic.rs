//! Character device of an NVMe namespace (`/dev/ng0n1`). Commands to this device bypass the block layer. Inspection and
//! guard use the block device of the same namespace.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Identity;
use crate::error::TargetError;
use crate::sysroot::{DevNo, SysRoot};

/// Character device of an NVMe namespace. All other results of the inspection describe the block device of the same
/// namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmeGeneric {
    /// Path of the character device, without symbolic links.
    pub path: String,
    /// Identity of the character device. If it changes, another device has taken the path.
    pub identity: Identity,
    /// Maximum transfer of one command, bytes. This is the kernel's limit for the block device.
    pub transfer_bytes_max: Option<u64>,
}

/// Block device of the NVMe namespace that a character device belongs to; `None` for other character devices.
///
/// # Errors
/// [`TargetError::Unsupported`] if the namespace has no block device, since its content is then unknown.
pub(super) fn block_device(
    path: &Path,
    meta: &Metadata,
    root: &SysRoot,
) -> Result<Option<(PathBuf, NvmeGeneric)>, TargetError> {
    let DevNo { major, minor } = DevNo::from_packed(meta.rdev());
    let Ok(node) = fs::canonicalize(root.path(format!("sys/dev/char/{major}:{minor}"))) else {
        return Ok(None);
    };
    let class = fs::canonicalize(node.join("subsystem")).unwrap_or_default();
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(rest) = name.strip_prefix("ng").filter(|_| class.ends_with("nvme-generic")) else {
        return Ok(None);
    };
    let none = |problem: String| TargetError::Unsupported {
        path: path.display().to_string(),
        problem,
        help: "iodyno needs the namespace's block device to check its content and users; name a \
             namespace that has a block device."
            .to_owned(),
    };
    let block = format!("nvme{rest}");
    let of_block = root.path(format!("sys/class/block/{block}"));
    let parent = |node: &Path| fs::canonicalize(node.join("device")).ok();
    if parent(&of_block).is_none() || parent(&of_block) != parent(&node) {
        return Err(none(format!("its namespace has no block device {block}.")));
    }
    let file = path.with_file_name(&block);
    let is_same = fs::metadata(&file).is_ok_and(|meta| {
        let DevNo { major, minor } = DevNo::from_packed(meta.rdev());
        let number = root.read(format!("sys/class/block/{block}/dev"));
        meta.file_type().is_block_device() && number == Some(format!("{major}:{minor}"))
    });
    if !is_same {
        return Err(none(format!("{} is not the namespace's block device.", file.display())));
    }
    let limit = format!("sys/class/block/{block}/queue/max_hw_sectors_kb");
    let generic = NvmeGeneric {
        path: path.display().to_string(),
        identity: Identity::of(meta),
        transfer_bytes_max: root.read_u64(limit).map(|kib| kib * 1024),
    };
    Ok(Some((file, generic)))
}
