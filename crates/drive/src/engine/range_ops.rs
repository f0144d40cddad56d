//! Flush, trim and write-zeroes as blocking system calls. psync and mmap always use them. The asynchronous engines use
//! them for operations without an asynchronous form.

use super::{FileMedium, negative_errno};
use iodyno_units::{Op, OpKind};
use std::os::fd::AsRawFd;

/// `_IO(0x12, 119)`: discard a byte range of a block device.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// `_IO(0x12, 127)`: zero a byte range of a block device.
const BLKZEROOUT: libc::c_ulong = 0x127F;

/// Executes a flush, trim or write-zeroes. Returns the length of its range in bytes, or the negative error
/// number.
pub(crate) fn carry_out(medium: &FileMedium, op: &Op) -> i32 {
    let fd = medium.fd.as_raw_fd();
    let range = [op.offset_bytes, u64::from(op.len_bytes)];
    let (offset, len) = (op.offset_bytes as libc::off_t, libc::off_t::from(op.len_bytes));
    // SAFETY: plain system calls on an open descriptor; the ioctls read `range`, which outlives
    // them.
    let result = unsafe {
        match op.kind {
            OpKind::Flush => libc::fdatasync(fd),
            OpKind::Trim if medium.is_block_device => libc::ioctl(fd, BLKDISCARD, range.as_ptr()),
            OpKind::WriteZeroes if medium.is_block_device => {
                libc::ioctl(fd, BLKZEROOUT, range.as_ptr())
            }
            OpKind::Trim => libc::fallocate(
                fd,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset,
                len,
            ),
            OpKind::WriteZeroes => libc::fallocate(
                fd,
                libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
                offset,
                len,
            ),
            OpKind::Read | OpKind::Write => return -libc::EINVAL,
        }
    };
    if result < 0 { negative_errno() } else { op.len_bytes as i32 }
}
