//! Measures the upper bound of the rate by an io_uring loop that only reads at random offsets. It sets up its ring as
//! iodyno's engine does, but has no clock, histogram or operation kinds.
//!
//! It runs as a child process (`iodyno-bench bare PATH SIZE DEPTH SECONDS [BATCH]`) and prints `ops seconds
//! user_seconds system_seconds`.

use io_uring::{EnterFlags, IoUring, opcode, types};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::Instant;

const BLOCK: u32 = 4096;

pub(crate) fn main(args: &[String]) -> ExitCode {
    let parsed = (|| {
        let size: u64 = args.get(1)?.parse().ok()?;
        let depth: u32 = args.get(2)?.parse().ok()?;
        let seconds: f64 = args.get(3)?.parse().ok()?;
        Some((args.first()?.clone(), size, depth, seconds))
    })();
    let Some((path, size, depth, seconds)) = parsed else {
        eprintln!("usage: bare PATH SIZE DEPTH SECONDS");
        return ExitCode::FAILURE;
    };
    match run(&path, size, depth, seconds) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bare: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &str, size: u64, depth: u32, seconds: f64) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut ring: IoUring = IoUring::builder()
        .setup_no_sqarray()
        .setup_defer_taskrun()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_cqsize(depth.next_power_of_two())
        .build(depth.next_power_of_two())?;
    let mut memory = vec![0_u8; (depth as usize + 1) * BLOCK as usize];
    let start = memory.as_mut_ptr().align_offset(BLOCK as usize);
    // SAFETY: `start` is within the first block of a vector that has one block to spare.
    let base = unsafe { memory.as_mut_ptr().add(start) };
    let iov = libc::iovec { iov_base: base.cast(), iov_len: (depth * BLOCK) as usize };
    ring.submitter().register_files(&[file.as_raw_fd()])?;
    // SAFETY: the memory outlives the ring's last completion, since all are drained below.
    unsafe { ring.submitter().register_buffers(&[iov])? };
    let (mut submitter, mut sq, mut cq) = ring.split();
    submitter.register_ring_fd()?;

    let blocks = size / u64::from(BLOCK);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut free: Vec<u32> = (0..depth).collect();
    let (mut ops, mut queued) = (0_u64, 0_u32);
    let begin = Instant::now();
    let cpu = cpu_seconds();
    loop {
        while let Some(slot) = free.pop() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = ((u128::from(random) * u128::from(blocks)) >> 64) as u64;
            // SAFETY: the slot is below `depth`.
            let buffer = unsafe { base.add((slot * BLOCK) as usize) };
            let entry = opcode::ReadFixed::new(types::Fixed(0), buffer, BLOCK, 0)
                .offset(block * u64::from(BLOCK))
                .build()
                .user_data(u64::from(slot));
            // SAFETY: the ring has space for `depth` entries, and the buffer is this slot's.
            unsafe { sq.push(&entry) }.map_err(std::io::Error::other)?;
            queued += 1;
        }
        sq.sync();
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: the entries are valid as stated above; no argument is passed.
        unsafe { submitter.enter::<libc::sigset_t>(queued, 1, flags, None)? };
        sq.sync();
        queued = sq.len() as u32;
        cq.sync();
        for entry in cq.by_ref() {
            if entry.result() != BLOCK as i32 {
                return Err(std::io::Error::from_raw_os_error(-entry.result()));
            }
            free.push(entry.user_data() as u32);
            ops += 1;
        }
        cq.sync();
        // Read the clock only about once in 2^14 operations.
        if ops & 0x3FFF < u64::from(depth) && begin.elapsed().as_secs_f64() >= seconds {
            break;
        }
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let after = cpu_seconds();
    while free.len() < depth as usize {
        submitter.submit_and_wait(1)?;
        cq.sync();
        free.extend(cq.by_ref().map(|e| e.user_data() as u32));
    }
    Ok(format!("{ops} {elapsed} {} {}", after.0 - cpu.0, after.1 - cpu.1))
}

/// CPU time that this process has used in user mode and in kernel mode, s.
pub(crate) fn cpu_seconds() -> (f64, f64) {
    // SAFETY: an all-zero rusage is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (s(usage.ru_utime), s(usage.ru_stime))
}
