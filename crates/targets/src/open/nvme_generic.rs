//! Opens the character device of an NVMe namespace. The namespace's block device stays claimed while the character
//! device is open.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::Mode;

use super::{OpenOptions, flags, verb};
use crate::error::{TargetError, errno_of};
use crate::inspect::{Identity, Inspection};
use crate::ioctl;

/// Opcode of the NVMe command Identify, which returns the namespace's format.
const IDENTIFY: u8 = 0x06;
/// Timeout of the NVMe command Identify, ms.
const IDENTIFY_MS: u32 = 5_000;
/// Length of the page that Identify returns.
const IDENTIFY_BYTES: usize = 4096;

/// Passthrough access to an NVMe namespace, bypassing the block layer.
#[derive(Debug)]
pub struct NvmePassthrough {
    /// Descriptor of the character device.
    pub fd: OwnedFd,
    /// Namespace identifier (NSID), which every command to the namespace carries.
    pub namespace: u32,
    /// Logical block size in the namespace's present format, bytes.
    pub block_bytes: u32,
    /// Maximum transfer of one command, bytes: the kernel's limit for the block device, or 4 GiB if that is unknown.
    pub transfer_bytes_max: u64,
}

/// Opens an NVMe namespace's character device, and checks that it belongs to the inspected block device.
/// `None` for other targets.
pub(super) fn open(
    block: &OwnedFd,
    inspection: &Inspection,
    options: &OpenOptions,
) -> Result<Option<NvmePassthrough>, TargetError> {
    let Some(generic) = &inspection.generic else { return Ok(None) };
    let path = Path::new(&generic.path);
    let fd = rustix::fs::open(path, flags(options), Mode::empty())
        .map_err(|errno| TargetError::from_errno(verb(options), path, errno))?;
    let meta = fd.try_clone().and_then(|fd| std::fs::File::from(fd).metadata());
    let meta =
        meta.map_err(|error| TargetError::from_errno("look at it", path, errno_of(&error)))?;
    let number = |of: &OwnedFd| {
        ioctl::nvme_namespace(of)
            .map_err(|errno| TargetError::from_errno("learn its namespace", path, errno))
    };
    let namespace = number(&fd)?;
    if Identity::of(&meta) != generic.identity || namespace != number(block)? {
        return Err(TargetError::Changed {
            path: generic.path.clone(),
            problem: "another namespace replaced it".to_owned(),
        });
    }
    let (block_bytes, metadata_bytes) = format(&fd, namespace, path)?;
    if metadata_bytes > 0 {
        return Err(TargetError::Unsupported {
            path: generic.path.clone(),
            problem: format!("its blocks have {metadata_bytes} bytes of metadata."),
            help: "iodyno sends no metadata: measure the block device, whose driver adds the metadata."
                .to_owned(),
        });
    }
    let transfer_bytes_max = generic.transfer_bytes_max.unwrap_or(u64::from(u32::MAX));
    Ok(Some(NvmePassthrough { fd, namespace, block_bytes, transfer_bytes_max }))
}

/// Reads the sizes of a logical block and of its metadata, in bytes, with Identify Namespace.
fn format(fd: &OwnedFd, namespace: u32, path: &Path) -> Result<(u32, u16), TargetError> {
    let mut page = [0; IDENTIFY_BYTES];
    let command = ioctl::NvmeAdmin {
        opcode: IDENTIFY,
        nsid: namespace,
        cdw10: 0,
        cdw11: 0,
        timeout_ms: IDENTIFY_MS,
    };
    ioctl::nvme_admin(fd, &command, &mut page).map_err(|failure| match failure {
        ioctl::NvmeFailure::System(errno) => TargetError::from_errno("identify it", path, errno),
        ioctl::NvmeFailure::Status(_) => {
            TargetError::from_errno("identify it", path, rustix::io::Errno::IO)
        }
    })?;
    Ok(format_of(&page))
}

/// Parses block and metadata size from an Identify Namespace page. Bits 3:0 and 6:5 of FLBAS are the index of
/// the format in use.
fn format_of(page: &[u8; IDENTIFY_BYTES]) -> (u32, u16) {
    let number = usize::from(page[26] & 0xF) | usize::from(page[26] >> 5 & 3) << 4;
    let at = 128 + 4 * number;
    let metadata_bytes = u16::from_le_bytes([page[at], page[at + 1]]);
    (1_u32.checked_shl(page[at + 2].into()).unwrap_or(0), metadata_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_in_use_is_found() {
        let mut page = [0; IDENTIFY_BYTES];
        page[128..132].copy_from_slice(&[0, 0, 9, 0]);
        assert_eq!(format_of(&page), (512, 0));
        page[26] = 0x21;
        page[128 + 4 * 17..][..4].copy_from_slice(&[8, 0, 12, 0]);
        assert_eq!(format_of(&page), (4096, 8));
    }
}
