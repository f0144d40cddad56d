//! The error with which a server of emulated storage ends.

use iodyno_run::RunError;

/// Reason why storage could not be served. Each variant has its own exit code.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The request is invalid.
    #[error("{0}")]
    Input(String),
    /// The storage, a frontend such as FUSE, or a network address is not available or has failed.
    #[error("{0}")]
    Target(String),
    /// The emulated system that the request names can't be built, for example because its name is unknown.
    #[error(transparent)]
    System(#[from] RunError),
}

impl ServeError {
    /// Creates the error of an invalid request.
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self::Input(text.into())
    }

    /// Creates the error of storage, a frontend or an address that is not available.
    pub(crate) fn target(text: impl Into<String>) -> Self {
        Self::Target(text.into())
    }
}
