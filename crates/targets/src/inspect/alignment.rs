//! Alignment of offsets, lengths and addresses for direct I/O.
//!
//! Since Linux 6.1 `statx` reports this alignment (`STATX_DIOALIGN`). Where a kernel or file system does not, the
//! logical block size of the underlying device is used. Both can be wrong, so an opened file is probed as well
//! ([`open`](crate::open)).

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use serde::{Deserialize, Serialize};

/// Flag of linux/stat.h: request the alignment of direct reads, which may be finer than that of writes.
const STATX_DIO_READ_ALIGN: u32 = 0x0002_0000;

/// A target's required alignment of I/O, and its preferred I/O sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// Logical block size, bytes: the smallest possible I/O.
    pub logical_block_bytes: Option<u64>,
    /// Physical block size, bytes: the smallest write without read-modify-write.
    pub physical_block_bytes: Option<u64>,
    /// Preferred I/O size for throughput, bytes.
    pub io_optimal_bytes: Option<u64>,
    /// Offset and length of a direct I/O must be multiples of this, bytes. 0: direct I/O is not supported.
    pub direct_offset_bytes: Option<u64>,
    /// Offset and length of a direct read must be multiples of this, bytes. `None` if the same as for writes.
    pub direct_read_offset_bytes: Option<u64>,
    /// Memory address of a direct I/O must be a multiple of this, bytes. 0: direct I/O is not supported.
    pub direct_memory_bytes: Option<u64>,
    /// Source of the direct-I/O alignment: `statx` or `logical block`.
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

    /// Reads the alignment for direct I/O of the file at `path`.
    pub(crate) fn read_path(&mut self, path: &Path) {
        if let Ok(st) = statx(CWD, path, AtFlags::empty(), Self::mask()) {
            self.take(&st);
        }
    }

    /// Reads the alignment for direct I/O of an open file.
    pub(crate) fn read_fd(&mut self, fd: impl AsFd) {
        if let Ok(st) = statx(fd, "", AtFlags::EMPTY_PATH, Self::mask()) {
            self.take(&st);
        }
    }
}
