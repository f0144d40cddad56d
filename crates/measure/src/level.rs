//! A verdict, and how much it weighs. Cells are judged in [`crate::verdict`].

use serde::{Deserialize, Serialize};

/// How much a verdict weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The number can be used as it is.
    Valid,
    /// Good to know; the number stands.
    Note,
    /// The number may not mean what it seems to.
    Warning,
    /// The number must not be used.
    Invalid,
}

impl Level {
    /// Its name in documents and in the notebook.
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
    /// Weight.
    pub level: Level,
    /// The reason, with the figures, and how to mend it.
    pub text: String,
}
