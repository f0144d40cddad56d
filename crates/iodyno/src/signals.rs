//! Ctrl-C and SIGTERM stop a run in order; a second one ends the process at once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

extern "C" fn on_signal(signal: libc::c_int) {
    let again = STOP.get().is_some_and(|stop| stop.swap(true, Ordering::Relaxed));
    if again {
        // SAFETY: both calls may be made in a handler. The default action ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// The flag that a signal sets; handlers are installed at the first call.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = STOP.get_or_init(|| Arc::new(AtomicBool::new(false)));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does only what a handler may.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    Arc::clone(stop)
}
