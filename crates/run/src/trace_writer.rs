//! Writes the trace file of `--record-trace` on a thread of its own. The workers of a cell send their operations to
//! this thread. If the run fails, the file lacks the line that ends a complete trace.

use crate::outcome::RunError;
use iodyno_drive::{TraceEvent, TraceEvents};
use iodyno_exchange::trace::{OwnId, own_head, own_line, own_tail};
use iodyno_targets::output::NewFile;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Maximum number of batches of events that wait to be written; about 50 MB.
const BATCHES: usize = 256;

/// Handle of the thread that writes the trace file.
pub(crate) struct TraceWriter {
    thread: JoinHandle<io::Result<()>>,
    file: NewFile,
    name: String,
}

impl TraceWriter {
    /// Creates a new trace file, and returns its writer with the channel for events.
    pub(crate) fn create(path: &Path, targets: &[String]) -> Result<(Self, TraceEvents), RunError> {
        let file = NewFile::create(path)?;
        let name = path.display().to_string();
        let failed = |source| RunError::System { what: format!("writing `{name}`"), source };
        let mut to = file.file().map_err(failed)?;
        to.write_all(own_head(targets.iter().map(String::as_str)).as_bytes()).map_err(failed)?;
        let (sender, events) = sync_channel(BATCHES);
        let thread = std::thread::Builder::new()
            .name("trace-writer".to_owned())
            .spawn(move || write_all(&to, &events))
            .map_err(failed)?;
        Ok((Self { thread, file, name }, TraceEvents::new(sender)))
    }

    /// Waits until all events are written. The caller must have dropped the channel's sender. Returns an error if
    /// the trace is incomplete.
    pub(crate) fn finish(self) -> Result<(), String> {
        let result =
            self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")));
        self.file.keep();
        result.map_err(|e| {
            format!("`{}` could not be written completely, and is truncated: {e}", self.name)
        })
    }
}

fn write_all(mut to: &File, events: &Receiver<Vec<TraceEvent>>) -> io::Result<()> {
    let (mut text, mut operations) = (String::new(), 0);
    for batch in events {
        text.clear();
        for event in batch {
            let TraceEvent { at_ns, number, op, target, worker } = event;
            operations += u64::from(op.is_some());
            own_line(&mut text, at_ns, OwnId { target, worker, number }, op.as_ref());
        }
        to.write_all(text.as_bytes())?;
    }
    to.write_all(own_tail(operations).as_bytes())
}
