//! A verdict and its level. [`crate::verdict`] judges cells.

use serde::{Deserialize, Serialize};

/// Severity of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The figure can be used as it is.
    Valid,
    /// Good to know; the figure stands.
    Note,
    /// The figure may be misleading.
    Warning,
    /// The figure must not be used.
    Invalid,
}

impl Level {
    /// Name in documents and in the notebook.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Invalid => "invalid",
        }
    }
}

/// One verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Stable name, upper case with underscores.
    pub code: String,
    /// Severity.
    pub level: Level,
    /// Reason, with the figures, and remedy.
    pub text: String,
}
