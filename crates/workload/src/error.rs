//! What is wrong with a specification: where it stands in the text, what, and how to mend it.

use core::fmt;
use core::ops::Range;

/// One thing that is wrong with a workload's text. The caller has the text and draws the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The bytes of the text that are wrong; empty at 0 where it is the text as a whole.
    pub span: Range<usize>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for SpecError {}
