//! Stops a run in progress, as Ctrl-C in its terminal does: its process ends the measurement, and stores the results
//! so far.

use iodyno_notebook::Notebook;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::Path;

/// Sends SIGINT to the process that writes a run.
///
/// # Errors
/// The run has ended, its process is not visible to this one, or may not be signalled by this user.
pub(crate) fn stop(notebook: &Path, id: &str) -> Result<(), String> {
    let notebook = Notebook::open_existing(notebook).map_err(|e| e.to_string())?;
    let writer = || notebook.writing_process(id).map_err(|e| e.to_string());
    let gone = "the run has ended, or its process is in another container";
    let number = writer()?.ok_or(gone)?;
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(gone)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| e.to_string())?;
    // The number may have passed to another process before it was opened; afterwards the descriptor holds it.
    if writer()? != Some(number) {
        return Err(gone.to_owned());
    }
    pidfd_send_signal(&process, Signal::INT).map_err(|e| format!("process {number}: {e}"))
}
