//! Identity of a block device that survives a restart.
//!
//! Names such as `sdb1` and `dm-3` are assigned anew at each boot, so they identify nothing. An identity is unique per
//! device. For a partition, it is the identity of the disk plus the partition's position. For a loop device, it is the
//! identity of the backing file or device plus the range that the loop device covers.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::topology::BlockNode;
use super::topology::device_of_path;
use crate::sysroot::SysRoot;

/// Maximum number of stacked devices to follow; a device with more below it gets no identity.
const DEPTH_MAX: u32 = 32;

/// Identity of a device that survives a restart; `None` if there is none.
pub(super) fn lasting_id(root: &SysRoot, node: &BlockNode) -> Option<String> {
    of(root, node, 0)
}

fn of(root: &SysRoot, node: &BlockNode, depth: u32) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    if node.is_partition() {
        let disk = of(root, &node.whole_disk()?, depth + 1)?;
        let (number, start) = (node.attr_u64("partition")?, node.attr_u64("start")?);
        return Some(format!("{disk} partition {number} from sector {start}"));
    }
    if node.is_loop() {
        let file = node.attr("loop/backing_file")?;
        let below = if let Some(dev) = device_of_path(root, &file) {
            of(root, &BlockNode::by_number(root, dev)?, depth + 1)?
        } else {
            let meta = fs::metadata(root.path(file.strip_prefix('/')?)).ok()?;
            format!("{file} inode {}", meta.ino())
        };
        let (offset, limit) = (node.attr_u64("loop/offset")?, node.attr_u64("loop/sizelimit")?);
        return Some(format!("loop at {offset} limit {limit} on {below}"));
    }
    if node.dir.join("dm").exists() {
        return node
            .attr("dm/uuid")
            .filter(|uuid| is_unique(uuid))
            .map(|uuid| format!("dm {uuid}"));
    }
    if node.dir.join("md").exists() {
        return node
            .attr("md/uuid")
            .filter(|uuid| says_anything(uuid))
            .map(|id| format!("md {id}"));
    }
    let names = ["wwid", "device/wwid", "serial", "device/serial"];
    let known = names.iter().find_map(|name| node.attr(name)).or_else(|| scsi_serial(node));
    known.filter(|id| says_anything(id))
}

/// True if a device-mapper uuid is unique. cryptsetup's `CRYPT-PLAIN-name`, for a device without a header,
/// contains only a name chosen by the user, unlike `CRYPT-LUKS2-(32 digits)-name`.
fn is_unique(dm_uuid: &str) -> bool {
    let mut parts = dm_uuid.split('-');
    parts.next() != Some("CRYPT")
        || parts
            .nth(1)
            .is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// False if a serial number consists only of zeroes, as on some devices.
fn says_anything(id: &str) -> bool {
    id.bytes().any(|byte| byte.is_ascii_alphanumeric() && byte != b'0')
}

/// Reads a SCSI device's serial number: page 80h of its vital product data, without the 4-byte header.
pub(super) fn scsi_serial(disk: &BlockNode) -> Option<String> {
    let page = std::fs::read(disk.dir.join("device/vpd_pg80")).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}
