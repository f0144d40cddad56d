//! Claims the backing of a loop device, at any depth: a file by a lock, a device by an exclusive open. Otherwise a file
//! and its loop device, or two loop devices on one file, could be opened at the same time.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::file;
use crate::error::{Refusal, RefusalCode, TargetError};
use crate::guard::{self, Confirm};
use crate::inspect::Inspection;
use crate::inspect::topology::{Backing, BlockNode};
use crate::sysroot::SysRoot;

/// Error if another process has opened the device exclusively.
pub(super) fn taken(inspection: &Inspection, path: &Path) -> TargetError {
    let refusal = Refusal {
        code: RefusalCode::Held,
        found: format!(
            "{} is held open exclusively by another process or the kernel.",
            path.display()
        ),
        mend: format!("Find the holder with `lsof {}` and end it.", path.display()),
    };
    // `Held` is never lifted, so this always gives an error.
    match guard::confirm(inspection, vec![refusal], &Confirm::default()) {
        Err(error) => error,
        Ok(_) => unreachable!("no name is given"),
    }
}

/// Exclusively opens the backing of each loop device at or below a device.
///
/// # Errors
/// [`TargetError::Refused`] if another process has claimed one of them.
pub(super) fn beneath(
    inspection: &Inspection,
    lifted: &[Refusal],
    root: &SysRoot,
) -> Result<Vec<OwnedFd>, TargetError> {
    let device = inspection.identity.and_then(|identity| identity.device);
    let mut open: Vec<BlockNode> =
        device.and_then(|dev| BlockNode::by_number(root, dev)).into_iter().collect();
    let is_member = lifted.iter().any(|refusal| refusal.code == RefusalCode::Member);
    let (mut seen, mut claims) = (BTreeSet::new(), Vec::new());
    while let Some(node) = open.pop() {
        if !seen.insert(node.dev) {
            continue;
        }
        open.extend(node.whole_disk().into_iter().chain(node.slaves(root)));
        let Some(backing) = Backing::of(root, &node) else { continue };
        let path = Path::new(&backing.path);
        if let Some(dev) = backing.device(root) {
            let Some(below) = BlockNode::by_number(root, dev) else { continue };
            let path = below.node_path();
            let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
            match rustix::fs::open(&path, flags, Mode::empty()) {
                Ok(fd) => claims.push(fd),
                Err(Errno::BUSY) if !is_member => return Err(taken(inspection, Path::new(&path))),
                // The node is missing here, or must not be opened.
                Err(_) => {}
            }
            open.push(below);
        } else if let Some(file) = guard::open_same(path, backing.identity) {
            let fd = OwnedFd::from(file);
            file::lock(&fd, inspection, path)?;
            claims.push(fd);
        }
    }
    Ok(claims)
}
