//! Probes a target for a suitable engine: whether io_uring works on it at all, and whether the kernel executes its
//! requests inline or hands them to worker threads.

use crate::engine::uring::UringSetup;
use crate::engine::{Engine as _, EngineKind, EngineOptions, FileEngine, FileMedium, Medium, Wait};
use crate::memory::Buffers;
use iodyno_units::{Op, OpKind};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

/// io_uring worker threads that the kernel has created in this process. Excludes threads that the kernel has ended
/// after some seconds of idle time.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelWorkers {
    /// Number of worker threads that exist now.
    pub count: u32,
    /// CPU time that the existing worker threads have used, ns.
    pub cpu_ns: u64,
}

/// Counts the kernel's io_uring worker threads in this process.
pub fn kernel_workers() -> KernelWorkers {
    let mut found = KernelWorkers::default();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return found };
    for task in tasks.flatten().map(|task| task.path()) {
        let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        if read("comm").starts_with("iou-wrk") {
            // schedstat: time on a processor, time waiting for one, slices.
            let used = read("schedstat").split_whitespace().next().and_then(|n| n.parse().ok());
            found.count += 1;
            found.cpu_ns += used.unwrap_or(0_u64);
        }
    }
    found
}

/// Load with which a probe tests an engine, equal to that of the workload to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Outstanding I/Os per worker.
    pub depth: u32,
    /// Outstanding I/Os of all workers together.
    pub outstanding: u32,
    /// Size of each I/O, bytes.
    pub block_bytes: u32,
    /// Offset of the first byte that the probe may access.
    pub start_bytes: u64,
    /// Offset after the last byte that the probe may access.
    pub end_bytes: u64,
    /// True if the workload writes. The probe then writes back the data that it read.
    pub writes: bool,
}

/// Number of blocks that the probe reads, and writes back if the workload writes, one at a time.
const BLOCKS: u64 = 4;
/// Pause between two writes of the probe. File systems and devices record the time of the last write in ticks of the
/// kernel's clock. The first write after a tick must update that time, so it may not be executed inline.
const TICK: Duration = Duration::from_millis(11);
/// Maximum number of I/Os that a probe has outstanding.
const BURST_MAX: u64 = 1024;
const BURST_BYTES_MAX: u64 = 64 << 20;

/// Issues a few operations through a temporary io_uring. Returns true if the kernel used a worker thread for
/// them. Runs in its own thread, so that such workers end with it.
fn hands_to_workers(medium: &FileMedium, load: Load) -> io::Result<bool> {
    let medium = medium.clone();
    let probe = move || -> io::Result<bool> {
        let before = kernel_workers().count;
        let has_workers = || kernel_workers().count > before;
        let len = u64::from(load.block_bytes);
        let writable = medium.writable;
        let start = load.start_bytes.next_multiple_of(len);
        let space = load.end_bytes.min(medium.capacity_bytes).saturating_sub(start);
        let align = medium.memory_align_bytes as usize;
        // A full queue makes io_uring wait in a worker thread.
        let burst = u64::from(load.outstanding).min(BURST_MAX).min(BURST_BYTES_MAX / len);
        let burst = burst.min(space / (2 * len)).max(1);
        let buffers = Buffers::new(burst as u32, load.block_bytes as usize, align)?;
        let mut setup = UringSetup::new(medium, &buffers, EngineOptions::default())?;
        let (mut engine, _) = setup.engine();
        let op = |kind, offset_bytes| Op { offset_bytes, len_bytes: len as u32, kind, fua: false };
        let mut carry_out = |ops: &[Op]| -> io::Result<bool> {
            for (slot, op) in ops.iter().enumerate() {
                engine.queue(slot as u32, op);
            }
            let (mut done, mut whole) = (0, true);
            while done < ops.len() {
                engine.turn(Wait::One)?;
                engine.drain(|_, result| {
                    done += 1;
                    whole &= result == len as i32;
                });
            }
            Ok(whole)
        };
        for i in 0..BLOCKS {
            let at = space / BLOCKS / len * len * i;
            if at + len > space {
                break;
            }
            let at = start + at;
            let whole = carry_out(&[op(OpKind::Read, at)])?;
            if load.writes && writable && whole {
                carry_out(&[op(OpKind::Write, at)])?;
                std::thread::sleep(TICK);
            }
            if has_workers() {
                return Ok(true);
            }
        }
        if burst > 1 {
            // Every second block: close together but not merged.
            let reads: Vec<Op> =
                (0..burst).map(|i| op(OpKind::Read, start + 2 * len * i)).collect();
            carry_out(&reads)?;
        }
        Ok(has_workers())
    };
    std::thread::spawn(probe).join().unwrap_or_else(|_| Err(io::Error::other("the probe panicked")))
}

/// Chooses the best engine for a target under this load, and states the reason.
pub fn default_engine(medium: &Medium, load: Load) -> (EngineKind, String) {
    let why = match medium {
        Medium::File(file) => {
            let (engine, why) = default_file_engine(file, load);
            return (engine.kind(), why);
        }
        Medium::Ram(_) => "memory of this process",
        Medium::Null(_) => "no target",
        Medium::Model { .. } | Medium::Live { .. } => "emulated storage",
        Medium::Nbd(_) => "an NBD export",
    };
    (medium.engine(), why.to_owned())
}

fn is_character_device(file: &FileMedium) -> bool {
    let found = file.fd.try_clone().and_then(|fd| std::fs::File::from(fd).metadata());
    found.is_ok_and(|found| found.file_type().is_char_device())
}

fn default_file_engine(file: &FileMedium, load: Load) -> (FileEngine, String) {
    if file.passthrough.is_some() {
        return (FileEngine::Uring, "NVMe commands are sent by io_uring".to_owned());
    }
    let other = if load.depth == 1 { FileEngine::Psync } else { FileEngine::Libaio };
    match hands_to_workers(file, load) {
        Ok(false) => (
            FileEngine::Uring,
            "io_uring submits requests without worker threads on this target".to_owned(),
        ),
        // The kernel's other asynchronous interface needs operations that most drivers of these devices lack.
        Ok(true) if other == FileEngine::Libaio && is_character_device(file) => {
            (FileEngine::Uring, "libaio can't be used on character devices".to_owned())
        }
        Ok(true) => {
            let depth = match load.depth {
                1 => "each worker has one I/O in flight".to_owned(),
                n => format!("a worker has up to {n} I/Os in flight"),
            };
            let why = "io_uring would hand requests to kernel worker threads on this target";
            (other, format!("{why}, and {depth}"))
        }
        Err(e) => (other, format!("io_uring can't be used here ({e})")),
    }
}
