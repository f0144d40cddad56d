//! Finds out what suits a target: whether io_uring works here at all, and whether the kernel starts
//! requests of this target in line or hands them to worker threads.

use crate::engine::Engine as _;
use crate::engine::{EngineKind, EngineOptions, FileMedium, Medium, Wait, uring::UringSetup};
use crate::memory::Buffers;
use iodyno_units::{Op, OpKind};
use std::io;

/// The kernel's ring workers among this process's threads: how many there are now, and the CPU time
/// that they have used, ns. A worker that was idle for some seconds is gone, with its time.
pub fn kernel_workers() -> (u32, u64) {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return (0, 0) };
    let mut found = (0, 0);
    for task in tasks.flatten().map(|task| task.path()) {
        let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        if read("comm").starts_with("iou-wrk") {
            // schedstat: time on a processor, time waiting for one, slices.
            let used = read("schedstat").split_whitespace().next().and_then(|n| n.parse().ok());
            found = (found.0 + 1, found.1 + used.unwrap_or(0_u64));
        }
    }
    found
}

/// Reads a few blocks through a ring of its own, one at a time; true when the kernel used a worker
/// thread for them. Runs in a thread of its own, whose ring workers end with it.
fn hands_to_workers(medium: &FileMedium, block_bytes: u32) -> io::Result<bool> {
    let medium = medium.clone();
    let probe = move || -> io::Result<bool> {
        let before = kernel_workers().0;
        let len = u64::from(block_bytes);
        let buffers = Buffers::new(1, block_bytes as usize, medium.memory_align_bytes as usize)?;
        let capacity_bytes = medium.capacity_bytes;
        let mut setup = UringSetup::new(medium, &buffers, EngineOptions::default())?;
        let (mut engine, _) = setup.engine();
        for i in 0..4 {
            let offset_bytes = capacity_bytes / 4 / len * len * i;
            let op = Op { offset_bytes, len_bytes: block_bytes, kind: OpKind::Read, fua: false };
            if offset_bytes + len > capacity_bytes {
                break;
            }
            engine.queue(0, &op);
            let mut done = false;
            while !done {
                engine.turn(Wait::One)?;
                engine.drain(|_, _| done = true);
            }
        }
        Ok(kernel_workers().0 > before)
    };
    std::thread::spawn(probe).join().unwrap_or_else(|_| Err(io::Error::other("the probe panicked")))
}

/// The engine that suits a target at this depth, and why.
pub fn default_engine(medium: &Medium, depth: u32, block_bytes: u32) -> (EngineKind, String) {
    let file = match medium {
        Medium::Ram(_) => return (EngineKind::Ram, "memory of this process".to_owned()),
        Medium::Null(_) => return (EngineKind::Null, "no target".to_owned()),
        Medium::Model { .. } => return (EngineKind::Model, "emulated storage".to_owned()),
        Medium::Live { .. } => return (EngineKind::Live, "emulated storage".to_owned()),
        Medium::Nbd(_) => return (EngineKind::Nbd, "an NBD export".to_owned()),
        Medium::File(file) => file,
    };
    let other = if depth == 1 { EngineKind::Psync } else { EngineKind::Libaio };
    match hands_to_workers(file, block_bytes) {
        Ok(false) => (EngineKind::Uring, "io_uring starts requests in line here".to_owned()),
        Ok(true) => {
            let why = "io_uring would hand each request to a kernel worker thread here";
            (other, why.to_owned())
        }
        Err(e) => (other, format!("io_uring can't be used here ({e})")),
    }
}
