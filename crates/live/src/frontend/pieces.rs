//! Requests that are split into several operations.

use iodyno_units::IoError;
use std::sync::{Mutex, PoisonError};

type Answer = Box<dyn FnOnce(Result<(), IoError>) + Send>;

/// A request that was split into several operations. Each operation has a reference; dropping the last one sends the
/// reply.
pub struct Pieces {
    answer: Mutex<Option<Answer>>,
    failed: Mutex<Option<IoError>>,
}

impl Pieces {
    /// `answer` sends the reply to the whole request.
    pub fn new(answer: impl FnOnce(Result<(), IoError>) + Send + 'static) -> Self {
        Self { answer: Mutex::new(Some(Box::new(answer))), failed: Mutex::default() }
    }

    /// Records the result of one of the operations. If several fail, the reply has the error of the last one.
    pub fn done(&self, result: Result<(), IoError>) {
        if let Err(error) = result {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let failed = *self.failed.get_mut().unwrap_or_else(PoisonError::into_inner);
        let answer = self.answer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            answer(failed.map_or(Ok(()), Err));
        }
    }
}

impl core::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pieces").field("failed", &self.failed).finish_non_exhaustive()
    }
}
