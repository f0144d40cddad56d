//! Errors of serving storage.

use iodyno_run::RunError;

/// Error of serving storage.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The request is invalid.
    #[error("{0}")]
    Input(String),
    /// The storage, a frontend or an address is not available, or failed.
    #[error("{0}")]
    Target(String),
    /// The name does not stand for emulated storage.
    #[error(transparent)]
    System(#[from] RunError),
}

impl ServeError {
    /// The error of an invalid request.
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self::Input(text.into())
    }

    /// The error of storage, a frontend or an address.
    pub(crate) fn target(text: impl Into<String>) -> Self {
        Self::Target(text.into())
    }
}
