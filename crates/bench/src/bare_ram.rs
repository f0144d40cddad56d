//! Measures the upper bound of the rate of `ram:` targets. Each thread copies random blocks of 4 KiB from a shared
//! region to its own buffer, prefetches the first cache lines of the next block, and takes a timestamp per copy. It has
//! no histogram, operation kinds or intervals.
//!
//! It runs as a child process (`iodyno-bench bare-ram SIZE THREADS SECONDS [BUFFERS [LINES]]`) and prints `ops seconds
//! user_seconds system_seconds`. BUFFERS (default 1) are used in turn; LINES (default 8) are prefetched.

use crate::bare::cpu_seconds;
use std::process::ExitCode;
use std::time::Instant;

const BLOCK: usize = 4096;
const LINE: usize = 64;

pub(crate) fn main(args: &[String]) -> ExitCode {
    let parsed = (|| {
        let size: usize = args.first()?.parse().ok()?;
        let threads: u64 = args.get(1)?.parse().ok()?;
        let seconds: f64 = args.get(2)?.parse().ok()?;
        let buffers: usize = args.get(3).map_or(Some(1), |n| n.parse().ok())?;
        let lines: usize = args.get(4).map_or(Some(8), |n| n.parse().ok())?;
        Some((size / BLOCK, threads, seconds, buffers.max(1), lines.min(BLOCK / LINE)))
    })();
    let Some((blocks @ 1.., threads, seconds, buffers, lines)) = parsed else {
        eprintln!("usage: bare-ram SIZE THREADS SECONDS [BUFFERS [LINES]]");
        return ExitCode::FAILURE;
    };
    match run(blocks, threads, seconds, buffers, lines) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bare-ram: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    blocks: usize,
    threads: u64,
    seconds: f64,
    buffers: usize,
    lines: usize,
) -> std::io::Result<String> {
    let region = map(blocks * BLOCK)?;
    region.fill(1);
    let region = &*region;
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let ops = std::thread::scope(|scope| {
        let all: Vec<_> = (1..=threads)
            .map(|n| scope.spawn(move || copies(region, n, seconds, buffers, lines)))
            .collect();
        all.into_iter().map(|t| t.join().unwrap_or(Ok(0))).sum::<std::io::Result<u64>>()
    })?;
    let (elapsed, after) = (begin.elapsed().as_secs_f64(), cpu_seconds());
    Ok(format!("{ops} {elapsed} {} {}", after.0 - cpu.0, after.1 - cpu.1))
}

/// Copies random blocks in one thread until the time is over. Returns the number of copies.
fn copies(
    region: &[u8],
    thread: u64,
    seconds: f64,
    buffers: usize,
    lines: usize,
) -> std::io::Result<u64> {
    let to = map(buffers * BLOCK)?;
    let blocks = (region.len() / BLOCK) as u64;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread);
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((u128::from(random) * u128::from(blocks)) >> 64) as usize * BLOCK
    };
    let begin = Instant::now();
    let (mut ops, mut ticks, mut next) = (0_u64, 0_u64, draw());
    let mut stamp = now();
    loop {
        for buffer in 0..buffers {
            let from = next;
            next = draw();
            for line in 0..lines {
                fetch(&region[next + line * LINE]);
            }
            to[buffer * BLOCK..][..BLOCK].copy_from_slice(&region[from..][..BLOCK]);
            let after = now();
            ticks = ticks.wrapping_add(after.wrapping_sub(stamp));
            stamp = after;
            ops += 1;
        }
        std::hint::black_box((&to, ticks));
        // Read the clock only about once in 2^12 operations.
        if ops & 0xFFF < buffers as u64 && begin.elapsed().as_secs_f64() >= seconds {
            return Ok(ops);
        }
    }
}

fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc reads a register; every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

fn fetch(at: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Maps zeroed memory, with huge pages if available. It is never freed.
pub(crate) fn map(len: usize) -> std::io::Result<&'static mut [u8]> {
    // SAFETY: an anonymous mapping at an address that the kernel chooses is exclusive, and never unmapped; advice about
    // it changes no content.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        libc::madvise(start, len, libc::MADV_HUGEPAGE);
        Ok(std::slice::from_raw_parts_mut(start.cast(), len))
    }
}
