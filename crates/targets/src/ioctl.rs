//! System calls without a safe wrapper: FIEMAP, NVMe admin commands, SCSI generic, discards and similar calls
//! on block devices.
//!
//! All of this crate's `unsafe` is here. Each function takes and returns plain data; callers interpret the bytes.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use crate::sysroot::DevNo;
use rustix::io::{Errno, Result};

/// Maximum number of extents per FIEMAP call. At 56 bytes each, the buffer stays below 16 KiB.
const FIEMAP_BATCH: usize = 256;
/// `_IOWR('f', 11, struct fiemap)`, linux/fs.h: list a file's extents.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
/// linux/fiemap.h: write dirty pages back first, so that delayed allocation does not hide extents.
const FIEMAP_FLAG_SYNC: u32 = 1;
/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`, linux/nvme_ioctl.h: send an admin command.
const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xC048_4E41;
/// `_IO('N', 0x40)`, linux/nvme_ioctl.h: get the namespace identifier (NSID) of a block device.
const NVME_IOCTL_ID: libc::c_ulong = 0x4E40;
/// scsi/sg.h: send a SCSI command and wait for its completion.
const SG_IO: libc::c_ulong = 0x2285;
/// `_IO(0x12, 119)`, linux/fs.h: discard a byte range of a block device.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// `_IO(0x12, 97)`, linux/fs.h: write back and drop a block device's pages in the page cache.
const BLKFLSBUF: libc::c_ulong = 0x1261;
/// `_IO(0x12, 95)`, linux/fs.h: re-read the partition table.
const BLKRRPART: libc::c_ulong = 0x125F;

/// linux/loop.h: query a loop device's backing.
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;

/// `_IOWR(0xfd, 12, struct dm_ioctl)`, linux/dm-ioctl.h: get the targets of a device-mapper device.
const DM_TABLE_STATUS: libc::c_ulong = 0xC138_FD0C;
/// linux/dm-ioctl.h: return the table's parameters rather than its status.
const DM_STATUS_TABLE_FLAG: u32 = 1 << 4;
/// linux/dm-ioctl.h: the result did not fit the buffer.
const DM_BUFFER_FULL_FLAG: u32 = 1 << 8;
/// linux/dm-ioctl.h: do not flush queued I/O first.
const DM_NOFLUSH_FLAG: u32 = 1 << 11;
/// linux/dm-ioctl.h: have the kernel wipe its copy of the buffer, which may contain a key.
const DM_SECURE_DATA_FLAG: u32 = 1 << 15;

/// asm-generic/fcntl.h: choose the signal that reports a broken lease.
const F_SETSIG: libc::c_int = 10;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FiemapExtent {
    pub(crate) logical_bytes: u64,
    pub(crate) physical_bytes: u64,
    pub(crate) length_bytes: u64,
    reserved64: [u64; 2],
    pub(crate) flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with space for [`FIEMAP_BATCH`] extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; FIEMAP_BATCH],
}

/// Reads up to [`FIEMAP_BATCH`] extents at or after `start_bytes`; none at the end of the file.
pub(crate) fn fiemap(
    fd: impl AsFd,
    start_bytes: u64,
    length_bytes: u64,
) -> Result<Vec<FiemapExtent>> {
    let mut map = Box::new(Fiemap {
        start: start_bytes,
        length: length_bytes,
        flags: FIEMAP_FLAG_SYNC,
        mapped_extents: 0,
        extent_count: FIEMAP_BATCH as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); FIEMAP_BATCH],
    });
    // SAFETY: the structure has the kernel's layout, its extent_count gives the true length of the
    // array behind the header, and the box outlives the call.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut *map) };
    if rc < 0 {
        return Err(last_errno());
    }
    Ok(map.extents[..(map.mapped_extents as usize).min(FIEMAP_BATCH)].to_vec())
}

/// True if another process has a regular file open or mapped for writing. `file` must be open for reading:
/// the kernel grants a read lease only while no process can write.
pub(crate) fn is_open_for_writing(file: impl AsFd) -> Result<bool> {
    let fd = file.as_fd().as_raw_fd();
    // If a process opens the file right now, the kernel breaks the lease and sends a signal. Choose one that is ignored
    // by default, since SIGIO would end the program.
    // SAFETY: the descriptor is open, and the arguments are plain numbers.
    let granted = unsafe {
        if libc::fcntl(fd, F_SETSIG, libc::SIGURG) < 0 {
            return Err(last_errno());
        }
        libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK)
    };
    if granted < 0 {
        return match last_errno() {
            Errno::AGAIN => Ok(true),
            errno => Err(errno),
        };
    }
    // SAFETY: as above.
    unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
    Ok(false)
}

/// True if another process has a record lock on any byte of the file, as virtual machines have on their disk
/// images.
pub(crate) fn has_record_lock(file: impl AsFd) -> Result<bool> {
    // SAFETY: all fields are plain numbers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    // SAFETY: the descriptor is open, and the structure outlives the call.
    let rc = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if rc < 0 { Err(last_errno()) } else { Ok(i32::from(lock.l_type) != libc::F_UNLCK) }
}

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: [u32; 4],
    names_and_key: [u8; 64 + 64 + 32],
    init: [u64; 2],
}

/// Identifies the file or block device behind a loop device: packed number of the file system that holds the file or the
/// device node, its inode number, and the packed number of the block device (for a file, 0 or the file system's number).
pub(crate) fn loop_backing(fd: impl AsFd) -> Result<(u64, u64, u64)> {
    let mut info = LoopInfo64 {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: [0; 4],
        names_and_key: [0; 160],
        init: [0; 2],
    };
    // SAFETY: the structure has the kernel's layout and outlives the call.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) };
    if rc < 0 { Err(last_errno()) } else { Ok((info.device, info.inode, info.rdevice)) }
}

/// Length of `struct dm_ioctl`, linux/dm-ioctl.h, in 8-byte words.
const DM_HEADER_WORDS: usize = 39;
/// Length of `struct dm_target_spec`, linux/dm-ioctl.h, in bytes.
const DM_TARGET_BYTES: usize = 40;
/// Length of the buffer for one device-mapper table, in 8-byte words.
const DM_BUFFER_WORDS: usize = 4096;

/// Type and status of each target of a device-mapper device. `wants_table` returns parameters instead of the
/// status; they may contain encryption keys. Needs a descriptor of the driver's control node.
pub(crate) fn dm_targets(
    control: impl AsFd,
    dev: DevNo,
    wants_table: bool,
) -> Result<Vec<(String, String)>> {
    let mut buffer = vec![0_u64; DM_BUFFER_WORDS];
    let (header_bytes, all_bytes) = (DM_HEADER_WORDS * 8, DM_BUFFER_WORDS * 8);
    let table = if wants_table { DM_STATUS_TABLE_FLAG } else { 0 };
    let flags = DM_NOFLUSH_FLAG | DM_SECURE_DATA_FLAG | table;
    let pair = |low: u32, high: u32| u64::from(low) | (u64::from(high) << 32);
    // The low half comes first on all supported platforms: version 4.0.0, lengths, flags, device number.
    buffer[0] = pair(4, 0);
    buffer[1] = pair(0, all_bytes as u32);
    buffer[2] = pair(header_bytes as u32, 0);
    buffer[3] = pair(0, flags);
    let minor = u64::from(dev.minor);
    buffer[5] = (minor & 0xFF) | (u64::from(dev.major) << 8) | ((minor & !0xFF) << 12);
    // SAFETY: the buffer has the kernel's layout and states its own length.
    let rc = unsafe {
        libc::ioctl(control.as_fd().as_raw_fd(), DM_TABLE_STATUS as _, buffer.as_mut_ptr())
    };
    if rc < 0 {
        return Err(last_errno());
    }
    if (buffer[3] >> 32) as u32 & DM_BUFFER_FULL_FLAG != 0 {
        return Err(Errno::NOBUFS);
    }
    let (start, count) = (buffer[2] as u32 as usize, (buffer[2] >> 32) as u32);
    let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(dm_specs(bytes.get(start..).unwrap_or_default(), count))
}

/// Parses `count` structures `dm_target_spec`, each followed by a zero-terminated text. Returns type and
/// text.
fn dm_specs(bytes: &[u8], count: u32) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    };
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let Some(spec) = bytes.get(at..).filter(|spec| spec.len() >= DM_TARGET_BYTES) else {
            break;
        };
        found.push((text(&spec[24..DM_TARGET_BYTES]), text(&spec[DM_TARGET_BYTES..])));
        // The `next` offset counts from the first target.
        at = u32::from_le_bytes([spec[20], spec[21], spec[22], spec[23]]) as usize;
        if at == 0 {
            break;
        }
    }
    found
}

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct NvmePassthru {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// An NVMe admin command, reduced to the fields that this crate uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NvmeAdmin {
    pub(crate) opcode: u8,
    pub(crate) nsid: u32,
    pub(crate) cdw10: u32,
    pub(crate) cdw11: u32,
    pub(crate) timeout_ms: u32,
}

/// Failure of an NVMe command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NvmeFailure {
    /// The system call failed: the command did not reach the controller, or the controller did not respond.
    System(Errno),
    /// The controller's completion status: code in bits 7:0, type in bits 10:8.
    Status(u16),
}

/// Sends an NVMe admin command. `data` is sent or filled, depending on the command. Its length must be a
/// multiple of 4, or 0 for a command without data.
pub(crate) fn nvme_admin(
    fd: impl AsFd,
    command: &NvmeAdmin,
    data: &mut [u8],
) -> core::result::Result<(), NvmeFailure> {
    let mut passthru = NvmePassthru {
        opcode: command.opcode,
        nsid: command.nsid,
        addr: if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 },
        data_len: data.len() as u32,
        cdw10: command.cdw10,
        cdw11: command.cdw11,
        timeout_ms: command.timeout_ms,
        ..NvmePassthru::default()
    };
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the structure has the kernel's layout, and addr and data_len describe `data`, which
    // is borrowed mutably and outlives the call.
    let rc = unsafe { libc::ioctl(fd, NVME_IOCTL_ADMIN_CMD as _, &raw mut passthru) };
    match rc {
        0 => Ok(()),
        rc if rc < 0 => Err(NvmeFailure::System(last_errno())),
        status => Err(NvmeFailure::Status(status as u16)),
    }
}

/// Reads a log page with Get Log Page (opcode 02h) for the whole controller (namespace FFFFFFFFh). The length
/// of `page` must be a multiple of 4.
///
/// # Errors
/// The system's error, or `EIO` if the controller completes the command with an error status.
pub(crate) fn nvme_log_page(fd: impl AsFd, log_id: u8, page: &mut [u8]) -> Result<()> {
    let dwords = (page.len() / 4) as u32;
    let command = NvmeAdmin {
        opcode: 0x02,
        nsid: 0xFFFF_FFFF,
        // Number of dwords, minus one: the low 16 bits in bits 31:16.
        cdw10: u32::from(log_id) | ((dwords - 1) & 0xFFFF) << 16,
        cdw11: (dwords - 1) >> 16,
        timeout_ms: 5_000,
    };
    nvme_admin(fd, &command, page).map_err(|failure| match failure {
        NvmeFailure::System(errno) => errno,
        NvmeFailure::Status(_) => Errno::IO,
    })
}

/// Reads the NVMe namespace identifier (NSID) of a block device.
pub(crate) fn nvme_namespace(fd: impl AsFd) -> Result<u32> {
    // SAFETY: the call takes no argument and gives a number back.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), NVME_IOCTL_ID as _) };
    if rc < 0 { Err(last_errno()) } else { Ok(rc as u32) }
}

/// Discards a byte range of a block device; offset and length must be multiples of its logical block size.
pub(crate) fn block_discard(fd: impl AsFd, offset_bytes: u64, length_bytes: u64) -> Result<()> {
    let range = [offset_bytes, length_bytes];
    // SAFETY: the call reads two numbers of 64 bits, which outlive it.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), BLKDISCARD as _, range.as_ptr()) };
    if rc < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Writes back a block device's dirty pages, and drops its pages from the page cache.
pub(crate) fn block_flush_buffers(fd: impl AsFd) -> Result<()> {
    // SAFETY: the call takes no argument that it reads.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), BLKFLSBUF as _, 0) };
    if rc < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Has the kernel re-read a block device's partition table.
pub(crate) fn block_reread_partitions(fd: impl AsFd) -> Result<()> {
    // SAFETY: the call takes no argument.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), BLKRRPART as _) };
    if rc < 0 { Err(last_errno()) } else { Ok(()) }
}

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgIo {
    interface_id: libc::c_int,
    dxfer_direction: libc::c_int,
    cmd_len: libc::c_uchar,
    mx_sb_len: libc::c_uchar,
    iovec_count: libc::c_ushort,
    dxfer_len: libc::c_uint,
    dxferp: *mut libc::c_void,
    cmdp: *const libc::c_uchar,
    sbp: *mut libc::c_uchar,
    timeout_ms: libc::c_uint,
    flags: libc::c_uint,
    pack_id: libc::c_int,
    usr_ptr: *mut libc::c_void,
    status: libc::c_uchar,
    masked_status: libc::c_uchar,
    msg_status: libc::c_uchar,
    sb_len_wr: libc::c_uchar,
    host_status: libc::c_ushort,
    driver_status: libc::c_ushort,
    resid: libc::c_int,
    duration: libc::c_uint,
    info: libc::c_uint,
}

pub(crate) enum ScsiData<'a> {
    Nothing,
    ToHost(&'a mut [u8]),
    ToDevice(&'a [u8]),
}

/// Timeout of a SCSI command that only reads.
const READ_TIMEOUT_MS: u32 = 5_000;

/// Sends one SCSI command that reads into `data`.
///
/// # Errors
/// As [`scsi`].
pub(crate) fn scsi_read(fd: impl AsFd, command: &[u8], data: &mut [u8]) -> Result<()> {
    scsi(fd, command, ScsiData::ToHost(data), READ_TIMEOUT_MS)
}

/// Sends one SCSI command.
///
/// # Errors
/// The system's error, or `EIO` if the device, the host adapter or the driver reports an error.
pub(crate) fn scsi(
    fd: impl AsFd,
    command: &[u8],
    data: ScsiData<'_>,
    timeout_ms: u32,
) -> Result<()> {
    const SG_DXFER_NONE: libc::c_int = -1;
    const SG_DXFER_TO_DEV: libc::c_int = -2;
    const SG_DXFER_FROM_DEV: libc::c_int = -3;
    /// Bit 3 of the SCSI driver's status. It only reports that sense data is present, so is not an error by
    /// itself.
    const DRIVER_SENSE: u16 = 0x08;
    let (direction, address, length) = match data {
        ScsiData::Nothing => (SG_DXFER_NONE, std::ptr::null_mut(), 0),
        ScsiData::ToHost(data) => (SG_DXFER_FROM_DEV, data.as_mut_ptr(), data.len()),
        // In this direction the kernel only reads the buffer.
        ScsiData::ToDevice(data) => (SG_DXFER_TO_DEV, data.as_ptr().cast_mut(), data.len()),
    };
    let mut sense = [0_u8; 32];
    let mut io = SgIo {
        interface_id: libc::c_int::from(b'S'),
        dxfer_direction: direction,
        cmd_len: command.len() as u8,
        mx_sb_len: sense.len() as u8,
        iovec_count: 0,
        dxfer_len: length as u32,
        dxferp: address.cast(),
        cmdp: command.as_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout_ms,
        flags: 0,
        pack_id: 0,
        usr_ptr: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sb_len_wr: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: the structure has the kernel's layout; the three pointers and their lengths describe
    // slices that outlive the call, and only what goes to the host and `sense` are written.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), SG_IO as _, &raw mut io) };
    if rc < 0 {
        return Err(last_errno());
    }
    let failed = io.status != 0 || io.host_status != 0 || io.driver_status & !DRIVER_SENSE != 0;
    if failed { Err(Errno::IO) } else { Ok(()) }
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks structure sizes against bits 29 to 16 of the ioctl numbers, which encode them.
    #[test]
    fn structures_have_the_size_that_the_kernel_expects() {
        assert_eq!(size_of::<NvmePassthru>() as libc::c_ulong, NVME_IOCTL_ADMIN_CMD >> 16 & 0x3FFF);
        let header = std::mem::offset_of!(Fiemap, extents);
        assert_eq!(header as libc::c_ulong, FS_IOC_FIEMAP >> 16 & 0x3FFF);
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(size_of::<LoopInfo64>(), 232);
        #[cfg(target_pointer_width = "64")]
        assert_eq!(size_of::<SgIo>(), 88);
    }
}
