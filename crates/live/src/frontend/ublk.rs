//! The ublk frontend: each volume is a block device of this kernel, `/dev/ublkbN`. Needs Linux 6.5 or newer with the
//! module `ublk_drv`, and a user who may open `/dev/ublk-control`.
//!
//! A volume has one queue thread, which takes requests from the kernel's queue and submits them to the machine. The
//! kernel accepts answers from the queue thread only, so the thread that advances the machine puts completions into the
//! queue thread's mailbox and signals its eventfd. Data is transferred by `pread` and `pwrite` on the character device
//! (`UBLK_F_USER_COPY`), so only the table of requests is shared with the kernel.
//!
//! | module | what it is |
//! |---|---|
//! | `abi` | the kernel's structures and numbers (`linux/ublk_cmd.h`) |
//! | `control` | adds, starts, stops and deletes devices |
//! | `queue` | the thread of a volume |
//!
//! The library `libublk` is not used: it needs libclang at build time and brings its own executor, but only seven
//! commands of the kernel's interface are needed here.

mod abi;
mod control;
mod queue;

use super::Served;
use super::nbd::WORKERS;
use crate::served::Sink;
use control::Device;
use iodyno_units::IoError;
pub(crate) use queue::Mailbox;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A pending reply to the kernel.
#[derive(Debug)]
pub struct Reply {
    to: Arc<Mailbox>,
    tag: u16,
    /// Data of a read; empty for other operations.
    bytes: Vec<u8>,
    len_bytes: u32,
}

impl Sink for Reply {
    fn done(self, result: Result<(), IoError>) {
        let result = match result {
            Ok(()) => self.len_bytes as i32,
            Err(error) => -error.errno(),
        };
        self.to.put(self.tag, result, self.bytes);
    }

    fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Properties that the kernel reports for a ublk block device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFlags {
    /// Whether the kernel should treat the device as a rotating disk.
    pub rotational: bool,
    /// Whether the kernel must refuse writes to the device.
    pub read_only: bool,
}

/// A ublk block device on this host, removed when dropped. After that, processes that have it open get
/// errors. Once the emulated power has failed, every operation fails, because the page cache holds data that
/// the device lost.
#[derive(Debug)]
pub struct Block {
    device: Option<Device>,
    thread: Option<JoinHandle<()>>,
    node: PathBuf,
}

impl Block {
    /// Creates a ublk block device for a volume.
    ///
    /// # Errors
    /// The kernel has no ublk, is older than 6.5, or denies ublk to this user.
    pub fn of(live: &Arc<Served>, volume: u32, properties: DeviceFlags) -> io::Result<Self> {
        let mut device = Device::add()?;
        device.set_size(live.capacity_bytes(volume), properties)?;
        let queue = queue::Queue::open(&device, Arc::clone(live), volume, volume * WORKERS)?;
        let thread = std::thread::Builder::new()
            .name(format!("ublk {volume}"))
            .spawn(move || queue.serve())?;
        let node = PathBuf::from(format!("/dev/ublkb{}", device.number()));
        let started = device.start();
        let block = Self { device: Some(device), thread: Some(thread), node };
        started.map(|()| block)
    }

    /// Path of the device node, such as `/dev/ublkb0`.
    pub fn node(&self) -> &std::path::Path {
        &self.node
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(mut device) = self.device.take() else { return };
        // `stop` waits for operations in flight, while the poller still runs. Then the kernel returns every pending
        // fetch to the queue's thread, which ends.
        let _ = device.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = device.delete();
    }
}
