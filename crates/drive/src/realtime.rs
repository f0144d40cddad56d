//! Real-time scheduling of a server's threads, so that other programs on the processors do not delay the server.

use std::io;

/// Real-time priority of the threads: the lowest that the policy has.
const PRIORITY: i32 = 1;

/// ID of the calling thread. The C library has `gettid` since glibc 2.30 only.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call has no arguments, and always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Gives all other threads of this process the real-time policy `SCHED_RR`; threads that they create inherit it. The
/// calling thread, and commands that it starts, keep theirs.
///
/// # Errors
/// The threads can't be listed, or this process has no permission (`CAP_SYS_NICE`, or `ulimit -r`).
pub fn raise_other_threads() -> io::Result<()> {
    let own = thread_id();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        let thread = name.to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(thread) = thread.filter(|thread| *thread != own) else { continue };
        let param = libc::sched_param { sched_priority: PRIORITY };
        // SAFETY: `param` is valid during the call, which changes no memory.
        let result = unsafe { libc::sched_setscheduler(thread, libc::SCHED_RR, &raw const param) };
        let error = io::Error::last_os_error();
        // (A thread that has ended since it was listed.)
        if result == -1 && error.raw_os_error() != Some(libc::ESRCH) {
            return Err(error);
        }
    }
    Ok(())
}
