//! The committer: one thread that executes the log's writes and flushes. Messages appended during a write share the
//! next write.

use crate::shared::{ChunkBuffer, Core, wait};
use iodyno_msglog::Action;
use std::sync::PoisonError;

/// Writes and flushes the log's chunks until the server ends and no chunk is left.
pub(crate) fn run(core: &Core) {
    let guard = FailsOnPanic(core);
    let mut shared = core.lock();
    // Whether the last wait ended by its timeout.
    let mut is_idle = false;
    loop {
        let failure = match shared.log.next_action() {
            Some(Action::Write { chunk, offset_bytes, len_bytes, buffer }) => {
                drop(shared);
                let result = core.storage.write_at(offset_bytes, &(*buffer).as_ref()[..len_bytes]);
                // The log can reuse a buffer only if no other reference to it exists.
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
            None if shared.log.wants_end() && (shared.is_ending || is_idle) => {
                let chunk_bytes = core.layout.chunk_bytes as usize;
                shared.log.append_end(&mut || ChunkBuffer(core.storage.buffer(chunk_bytes)));
                continue;
            }
            None if shared.is_ending
                && (shared.log.chunks_waiting() == 0 || shared.log.is_broken()) =>
            {
                break;
            }
            None if shared.log.wants_end() => {
                let waited = core.work.wait_timeout(shared, core.limits.idle);
                let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (shared, is_idle) = (after, timeout.timed_out());
                continue;
            }
            None => {
                shared = wait(&core.work, shared);
                continue;
            }
        };
        is_idle = false;
        if let Some(failure) = failure {
            shared.fail(failure);
        }
        if shared.take_persisted(core) {
            shared.wake_followers();
        }
        core.space.notify_all();
    }
    drop(shared);
    core::mem::forget(guard);
}

/// Guard that marks the log as failed if the committing thread panics, so that clients learn that nothing
/// more is persisted.
struct FailsOnPanic<'a>(&'a Core);

impl Drop for FailsOnPanic<'_> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.fail("the thread that writes the log ended unexpectedly: this is a bug in iodyno, please report it".to_owned());
        self.0.space.notify_all();
    }
}
