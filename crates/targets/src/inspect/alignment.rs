//! Alignment of offsets, lengths and addresses for direct I/O.
//!
//! Since Linux 6.1 `statx` reports it (`STATX_DIOALIGN`). Older kernels and some file systems don't; then the logical
//! block of the underlying device is used. Both can be wrong, so an opened file is probed as well
//! ([`open`](crate::open)).

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use serde::{Deserialize, Serialize};

/// linux/stat.h: the alignment of reads may be finer than that of writes.
const STATX_DIO_READ_ALIGN: u32 = 0x0002_0000;

/// Required alignment of I/O on a target, and its preferred sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// Logical block: the smallest I/O.
    pub logical_block_bytes: Option<u64>,
    /// Physical block: the smallest write without read-modify-write.
    pub physical_block_bytes: Option<u64>,
    /// Preferred I/O size for throughput.
    pub io_optimal_bytes: Option<u64>,
    /// Required multiple of a direct I/O's offset and length. 0: no direct I/O.
    pub direct_offset_bytes: Option<u64>,
    /// Required multiple for direct reads, if the file system reports a finer one.
    pub direct_read_offset_bytes: Option<u64>,
    /// Required multiple of a direct I/O's memory address. 0: no direct I/O.
    pub direct_memory_bytes: Option<u64>,
    /// Source of the direct alignment: `statx` or `logical block`.
    pub source: Option<String>,
}

impl Alignment {
    fn take(&mut self, st: &Statx) {
        if st.stx_mask & StatxFlags::DIOALIGN.bits() != 0 {
            self.direct_offset_bytes = Some(u64::from(st.stx_dio_offset_align));
            self.direct_memory_bytes = Some(u64::from(st.stx_dio_mem_align));
            self.source = Some("statx".to_owned());
        } else if let Some(block_bytes) = self.logical_block_bytes {
            self.direct_offset_bytes = Some(block_bytes);
            self.direct_memory_bytes = Some(block_bytes);
            self.source = Some("logical block".to_owned());
        }
        if st.stx_mask & STATX_DIO_READ_ALIGN != 0 && st.stx_dio_read_offset_align != 0 {
            self.direct_read_offset_bytes = Some(u64::from(st.stx_dio_read_offset_align));
        }
    }

    fn mask() -> StatxFlags {
        StatxFlags::DIOALIGN | StatxFlags::from_bits_retain(STATX_DIO_READ_ALIGN)
    }

    /// Fills in the direct alignment of a path.
    pub(crate) fn read_path(&mut self, path: &Path) {
        if let Ok(st) = statx(CWD, path, AtFlags::empty(), Self::mask()) {
            self.take(&st);
        }
    }

    /// Fills in the direct alignment of an open file.
    pub(crate) fn read_fd(&mut self, fd: impl AsFd) {
        if let Ok(st) = statx(fd, "", AtFlags::EMPTY_PATH, Self::mask()) {
            self.take(&st);
        }
    }
}
