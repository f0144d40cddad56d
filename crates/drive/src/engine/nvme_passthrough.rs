//! NVMe commands by io_uring (`IORING_OP_URING_CMD` on the character device of a namespace), without a file
//! system, a scheduler, or splitting and merging between the worker and the driver. Requires Linux 5.19.

use super::uring::{NoRequest, Requests, UringEngine, register_buffers, set_up, yes_no};
use super::{EngineOptions, FileMedium, NvmeNamespace, Seat};
use crate::memory::Buffers;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use iodyno_units::{Op, OpKind};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

/// `NVME_URING_CMD_IO` of linux/nvme_ioctl.h: `_IOWR('N', 0x80, struct nvme_uring_cmd)`, of 72 bytes.
const NVME_URING_CMD_IO: u32 = 3 << 30 | 72 << 16 | (b'N' as u32) << 8 | 0x80;

/// Opcode of the command Flush in the NVM command set. The next constants are the other opcodes.
const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE_ZEROES: u8 = 0x08;
const DATASET_MANAGEMENT: u8 = 0x09;
/// Force Unit Access bit in command dword 12.
const FUA: u32 = 1 << 30;
/// Deallocate attribute in command dword 11 of Dataset Management.
const DEALLOCATE: u32 = 1 << 2;
/// Maximum number of logical blocks per read, write or write-zeroes command: its block count has 16 bits.
const BLOCKS_MAX: u32 = 1 << 16;

/// The kernel's `struct nvme_uring_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    reserved_2: u32,
}

impl Command {
    /// The command as a submission queue entry contains it: the structure and 8 bytes of padding.
    fn bytes(self) -> [u8; 80] {
        const { assert!(size_of::<Command>() == 72, "the kernel's layout") };
        let mut bytes = [0; 80];
        // SAFETY: plain data of 72 bytes without padding, copied into 80.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const self).cast(), bytes.as_mut_ptr(), 72);
        }
        bytes
    }
}

/// One range of blocks to deallocate, as in a Dataset Management command.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    attributes: u32,
    blocks: u32,
    first_block: u64,
}

/// Runs a worker on an NVMe namespace by passthrough commands.
pub(super) fn run(file: &FileMedium, namespace: &NvmeNamespace, seat: impl Seat) -> io::Result<()> {
    let buffers = seat.buffers(file.memory_align_bytes as usize)?;
    let block_bytes = seat.block_bytes_max();
    let mut set_up = NvmeSetup::new(namespace.clone(), block_bytes, &buffers, seat.options())?;
    let (mut engine, facts) = set_up.engine();
    seat.run(&mut engine, Some(&buffers), facts);
    Ok(())
}

/// An io_uring with the large entries that NVMe commands need, and its registered resources. Belongs to the
/// worker's thread.
pub struct NvmeSetup<'a> {
    ring: IoUring<squeue::Entry128, cqueue::Entry32>,
    namespace: NvmeNamespace,
    buffers: &'a Buffers,
    fixed_buffers: bool,
    facts: BTreeMap<String, String>,
}

impl<'a> NvmeSetup<'a> {
    /// Sets up an io_uring for one worker on one namespace.
    ///
    /// # Errors
    /// The kernel does not support passthrough, or an I/O is longer than a command's maximum transfer.
    pub fn new(
        namespace: NvmeNamespace,
        block_bytes_max: u32,
        buffers: &'a Buffers,
        options: EngineOptions,
    ) -> io::Result<Self> {
        let most = namespace
            .transfer_bytes_max
            .min(u64::from(BLOCKS_MAX) * u64::from(namespace.block_bytes));
        if u64::from(block_bytes_max) > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "an NVMe command can move at most {most} bytes on this device, but the workload has blocks of {block_bytes_max}: use smaller blocks, or the block device, whose driver splits large blocks"
                ),
            ));
        }
        let (ring, mut facts) = set_up(buffers.slots(), options).map_err(|e| {
            if e.raw_os_error() == Some(libc::EINVAL) {
                io::Error::new(e.kind(), format!("{e} (NVMe commands by io_uring need Linux 5.19)"))
            } else {
                e
            }
        })?;
        let fixed_buffers = !options.plain
            // SAFETY: the region outlives the ring: both belong to this set-up, which borrows the buffers, and
            // dropping it unregisters them.
            && unsafe { register_buffers(&ring.submitter(), buffers.region(), &mut facts) };
        facts.insert("uring.registered_buffers".to_owned(), yes_no(fixed_buffers));
        let number = namespace.number;
        facts.insert(
            "uring.command".to_owned(),
            format!("NVME_URING_CMD_IO of namespace {number}, bypassing the block layer"),
        );
        Ok(Self { ring, namespace, buffers, fixed_buffers, facts })
    }

    /// Creates the engine that uses this ring. Also returns the io_uring options in effect.
    pub fn engine(&mut self) -> (UringEngine<'_, NvmeRequests<'_>>, BTreeMap<String, String>) {
        let slots = self.buffers.slots();
        let (submitter, sq, cq) = self.ring.split();
        let requests = NvmeRequests {
            namespace: &self.namespace,
            fd: types::Fd(self.namespace.fd.as_raw_fd()),
            buffers: self.buffers,
            fixed_buffers: self.fixed_buffers,
            block_shift: self.namespace.block_bytes.max(1).ilog2(),
            lens_bytes: vec![0; slots as usize].into(),
            ranges: vec![Range::default(); slots as usize].into(),
        };
        (UringEngine::new(submitter, sq, cq, requests, slots), self.facts.clone())
    }
}

/// Unregisters the buffers, which the kernel would otherwise hold until it releases the closed ring.
impl Drop for NvmeSetup<'_> {
    fn drop(&mut self) {
        if self.fixed_buffers {
            let _ = self.ring.submitter().unregister_buffers();
        }
    }
}

/// Builds NVMe commands for one namespace.
pub struct NvmeRequests<'a> {
    namespace: &'a NvmeNamespace,
    fd: types::Fd,
    buffers: &'a Buffers,
    fixed_buffers: bool,
    block_shift: u32,
    /// For each buffer number, the length of its operation in flight, bytes. Completions do not contain it.
    lens_bytes: Box<[u32]>,
    /// For each buffer number, the range of its trim in flight. The NVMe command contains a pointer to the range.
    ranges: Box<[Range]>,
}

impl Requests for NvmeRequests<'_> {
    type Sqe = squeue::Entry128;
    type Cqe = cqueue::Entry32;

    #[inline]
    fn request(&mut self, slot: u32, op: &Op) -> Result<squeue::Entry128, NoRequest> {
        let mut command = Command { namespace: self.namespace.number, ..Command::default() };
        let (first, blocks) =
            (op.offset_bytes >> self.block_shift, op.len_bytes >> self.block_shift);
        let mut fixed = false;
        match op.kind {
            OpKind::Read | OpKind::Write => {
                command.opcode = if op.kind == OpKind::Read { READ } else { WRITE };
                command.address = self.buffers.slot(slot) as u64;
                command.data_bytes = op.len_bytes;
                fixed = self.fixed_buffers;
            }
            OpKind::WriteZeroes => command.opcode = WRITE_ZEROES,
            OpKind::Flush => command.opcode = FLUSH,
            OpKind::Trim => {
                let range = &mut self.ranges[slot as usize];
                *range = Range { attributes: 0, blocks, first_block: first };
                command.opcode = DATASET_MANAGEMENT;
                command.address = (&raw const *range) as u64;
                command.data_bytes = size_of::<Range>() as u32;
                // One range: the count is zero-based.
                (command.cdw10, command.cdw11) = (0, DEALLOCATE);
            }
        }
        if matches!(op.kind, OpKind::Read | OpKind::Write | OpKind::WriteZeroes) {
            let Some(count) = blocks.checked_sub(1).filter(|count| *count < BLOCKS_MAX) else {
                return Err(NoRequest::Failed(-libc::EINVAL));
            };
            (command.cdw10, command.cdw11) = (first as u32, (first >> 32) as u32);
            command.cdw12 = count | if op.fua { FUA } else { 0 };
        }
        self.lens_bytes[slot as usize] = op.len_bytes;
        Ok(opcode::UringCmd80::new(self.fd, NVME_URING_CMD_IO)
            .cmd(command.bytes())
            .buf_index(fixed.then_some(0))
            .build())
    }

    #[inline]
    fn result(&self, slot: u32, result: i32) -> i32 {
        match result {
            0 => self.lens_bytes[slot as usize] as i32,
            // Errors of the system are already negative.
            ..0 => result,
            status => -errno_of(status),
        }
    }
}

/// Converts a command's NVMe status to the error number that the kernel's block layer would return.
#[cold]
fn errno_of(status: i32) -> i32 {
    // Type and code, without the bits for more information and retries.
    match status & 0x7FF {
        0x01 => libc::EOPNOTSUPP,
        0x02 => libc::EINVAL,
        0x80 | 0x81 => libc::ENOSPC,
        0x280 | 0x281 | 0x287 => libc::ENODATA,
        0x282..=0x284 => libc::EILSEQ,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    fn with(op: Op, check: impl Fn(&[u8; 80], u64)) {
        let buffers = Buffers::new(2, 4096, 4096).unwrap();
        let fd: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let namespace = NvmeNamespace {
            fd: Arc::new(fd),
            number: 3,
            block_bytes: 512,
            transfer_bytes_max: 1 << 20,
        };
        let mut requests = NvmeRequests {
            namespace: &namespace,
            fd: types::Fd(namespace.fd.as_raw_fd()),
            buffers: &buffers,
            fixed_buffers: false,
            block_shift: 9,
            lens_bytes: vec![0; 2].into(),
            ranges: vec![Range::default(); 2].into(),
        };
        let entry = requests.request(1, &op).unwrap();
        // SAFETY: an entry of 128 bytes of plain data; the command begins at byte 48.
        let bytes = unsafe { std::mem::transmute_copy::<_, [u8; 128]>(&entry) };
        let address = if op.kind == OpKind::Trim {
            (&raw const requests.ranges[1]) as u64
        } else {
            buffers.slot(1) as u64
        };
        check(bytes[48..].try_into().unwrap(), address);
        assert_eq!(requests.result(1, 0), op.len_bytes as i32);
        assert_eq!(requests.result(1, -5), -5);
        assert_eq!(requests.result(1, 0x4281), -libc::ENODATA);
    }

    fn word(bytes: &[u8; 80], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Checks the bytes of commands against the NVMe specification and linux/nvme_ioctl.h.
    #[test]
    fn commands_are_those_of_the_specification() {
        let op = |kind, fua| Op { offset_bytes: (1 << 42) + 1024, len_bytes: 4096, kind, fua };
        for (kind, fua, opcode, data_bytes) in [
            (OpKind::Read, false, 2, 4096),
            (OpKind::Write, true, 1, 4096),
            (OpKind::WriteZeroes, false, 8, 0),
        ] {
            with(op(kind, fua), |bytes, address| {
                assert_eq!((bytes[0], word(bytes, 4)), (opcode, 3));
                let pointer = u64::from(word(bytes, 24)) | u64::from(word(bytes, 28)) << 32;
                assert_eq!(pointer, if data_bytes > 0 { address } else { 0 });
                assert_eq!(word(bytes, 36), data_bytes);
                // The first block is 2^33 + 2, and the number of blocks is zero-based.
                assert_eq!((word(bytes, 40), word(bytes, 44)), (2, 2));
                assert_eq!(word(bytes, 48), 7 | u32::from(fua) << 30);
            });
        }
        with(Op { offset_bytes: 0, len_bytes: 0, kind: OpKind::Flush, fua: false }, |bytes, _| {
            assert_eq!((bytes[0], word(bytes, 4)), (0, 3));
            assert!(bytes[8..].iter().all(|b| *b == 0));
        });
        with(op(OpKind::Trim, false), |bytes, address| {
            assert_eq!((bytes[0], word(bytes, 36)), (9, 16));
            let pointer = u64::from(word(bytes, 24)) | u64::from(word(bytes, 28)) << 32;
            assert_eq!(pointer, address);
            assert_eq!((word(bytes, 40), word(bytes, 44)), (0, 4));
        });
    }
}
