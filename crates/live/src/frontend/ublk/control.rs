//! Commands to `/dev/ublk-control` that add, start, stop and delete devices. They are sent one at a time through an
//! io_uring with 128-byte entries.

use super::{DeviceFlags, abi};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Queue depth: maximum number of requests in flight that the kernel sends to a device.
pub(super) const DEPTH: u16 = 128;
/// Largest request that the kernel may send, bytes.
pub(super) const REQUEST_BYTES_MAX: u32 = 512 << 10;
/// Maximum number of attempts to open the character device, whose node appears shortly after the command that adds the
/// device.
const TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// A ublk device of the kernel; dropping this value deletes the device.
pub(super) struct Device {
    control: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    number: u32,
    added: bool,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Device {
    /// Adds a new ublk device. Its size must be set before it is started.
    pub(super) fn add() -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/ublk-control")?;
        let ring = IoUring::builder().build(2)?;
        let mut device = Self { control, ring, number: u32::MAX, added: false };
        let mut info = abi::device(DEPTH, REQUEST_BYTES_MAX);
        device.command(abi::ADD, &mut info, 0)?;
        (device.number, device.added) = (abi::device_number(&info), true);
        if !abi::copies(&info) {
            let why = "this kernel's ublk can't copy data with pread and pwrite, which requires Linux 6.5";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(device)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Opens the ublk character device (`/dev/ublkcN`), which transfers requests and data.
    pub(super) fn open(&self) -> io::Result<File> {
        let path = format!("/dev/ublkc{}", self.number);
        let open = || OpenOptions::new().read(true).write(true).open(Path::new(&path));
        let mut tries = 0;
        loop {
            match open() {
                Err(e) if e.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                    sleep(BETWEEN_TRIES);
                }
                opened => return opened,
            }
        }
    }

    pub(super) fn set_size(&mut self, size_bytes: u64, properties: DeviceFlags) -> io::Result<()> {
        let mut parameters = abi::parameters(size_bytes, REQUEST_BYTES_MAX, properties);
        self.command(abi::SET_PARAMETERS, &mut parameters, 0)
    }

    /// Makes the block device appear. The queue's thread must already be serving requests.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.command(abi::START, &mut [], u64::from(std::process::id()))
    }

    /// Removes the block device once its operations in flight have completed.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.command(abi::STOP, &mut [], 0)
    }

    /// Deletes the device. Its character device must be closed.
    pub(super) fn delete(&mut self) -> io::Result<()> {
        self.added = false;
        self.command(abi::DELETE, &mut [], 0)
    }

    fn command(&mut self, command: u32, buffer: &mut [u8], data: u64) -> io::Result<()> {
        let address = if buffer.is_empty() { 0 } else { buffer.as_mut_ptr() as u64 };
        let bytes = abi::control_command(self.number, address, buffer.len(), data);
        let fd = types::Fd(self.control.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, command).cmd(bytes).build();
        // SAFETY: the buffer outlives the command, whose completion is awaited below.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    done?;
                    break;
                }
            }
        }
        let result = self.ring.completion().next().map_or(-libc::EIO, |entry| entry.result());
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

impl Drop for Device {
    /// Deletes the ublk device unless it is already deleted, for instance after a failed start.
    fn drop(&mut self) {
        if self.added {
            let _ = self.delete();
        }
    }
}
