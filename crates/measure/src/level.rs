//! Verdicts on cells, and their levels of severity. [`crate::verdict`] derives the verdicts.

use serde::{Deserialize, Serialize};

/// Severity of a verdict, least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The figures can be used as they are.
    Valid,
    /// A remark that does not limit the use of the figures.
    Note,
    /// The figures may be misleading.
    Warning,
    /// The figures must not be used.
    Invalid,
}

impl Level {
    /// Name in JSON and in the notebook.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Invalid => "invalid",
        }
    }
}

/// One judgement on a cell: its code, severity and explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Stable name, upper case with underscores.
    pub code: String,
    pub level: Level,
    /// Explanation for people: the reason, with its numbers, and the remedy.
    pub text: String,
}
