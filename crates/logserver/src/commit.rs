//! The committer: one thread that carries out what the log wants to be written and flushed. What is appended meanwhile
//! shares the next write.

use crate::shared::{Core, wait};
use iodyno_msglog::Action;

/// Runs until the server ends and nothing waits.
pub(crate) fn run(core: &Core) {
    let guard = FailsOnPanic(core);
    let mut shared = core.lock();
    loop {
        let failure = match shared.log.next_action() {
            Some(Action::Write { chunk, offset_bytes, len_bytes, buffer }) => {
                drop(shared);
                let result = core.storage.write_at(offset_bytes, &(*buffer).as_ref()[..len_bytes]);
                // Or the log could not use the buffer again.
                drop(buffer);
                shared = core.lock();
                shared.log.written(chunk, result.is_ok());
                result.err().map(|error| {
                    format!("a write of {len_bytes} bytes at byte {offset_bytes} failed: {error}")
                })
            }
            Some(Action::Flush) => {
                drop(shared);
                let result = core.storage.flush();
                shared = core.lock();
                shared.log.flushed(result.is_ok());
                result.err().map(|error| format!("a flush failed: {error}"))
            }
            None if shared.is_ending
                && (shared.log.chunks_waiting() == 0 || shared.log.is_broken()) =>
            {
                break;
            }
            None => {
                shared = wait(&core.work, shared);
                continue;
            }
        };
        if let Some(failure) = failure {
            shared.fail(failure);
        }
        if shared.take_persisted(core.limits.recent_chunks(&core.layout)) {
            shared.wake_followers();
        }
        core.space.notify_all();
    }
    drop(shared);
    core::mem::forget(guard);
}

/// A committer that panics persists nothing more, and its clients must know.
struct FailsOnPanic<'a>(&'a Core);

impl Drop for FailsOnPanic<'_> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.fail("the committer's thread has ended by a fault of iodyno".to_owned());
        self.0.space.notify_all();
    }
}
