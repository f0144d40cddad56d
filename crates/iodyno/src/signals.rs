//! Signal handling: Ctrl-C and SIGTERM stop a run in an orderly way; a second signal ends the process at
//! once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Whether a signal has arrived. The stop flag can't tell, because too many failed operations also set
/// it.
static CAME: AtomicBool = AtomicBool::new(false);

/// Handler of Ctrl-C that does nothing. A child process inherits an ignored signal, but no handler.
extern "C" fn on_interrupt_of_command(_: libc::c_int) {}

extern "C" fn on_signal(signal: libc::c_int) {
    if let Some(stop) = STOP.get() {
        stop.store(true, Ordering::Relaxed);
    }
    if CAME.swap(true, Ordering::Relaxed) {
        // SAFETY: both calls may be made in a handler. The default action ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Returns the flag that SIGINT and SIGTERM set, and that stops a run. The first call installs the signal handlers.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = STOP.get_or_init(|| Arc::new(AtomicBool::new(false)));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only makes calls that are safe in a handler.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    Arc::clone(stop)
}

/// Returns the stop flag for a server that runs a command. Only SIGTERM sets the flag. The command gets Ctrl-C from the
/// terminal too, and decides how to react, as under a shell.
pub(crate) fn stop_flag_of_command() -> Arc<AtomicBool> {
    let stop = stop_flag();
    let ignore = on_interrupt_of_command as *const () as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGINT, ignore) };
    stop
}
