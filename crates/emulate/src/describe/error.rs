//! What is wrong with a device or system file: where it stands in the text, what, which rule it
//! breaks if it is one of the named ones, and how to mend it.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong with a file's text. The caller has the text and draws the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormError {
    /// The bytes of the text that are wrong; empty at 0 where it is the text as a whole.
    pub span: Range<usize>,
    /// The named rule that is broken (see `rules`); none where a key or value can't be read at all.
    pub rule: Option<&'static str>,
    /// What is wrong, in one sentence; it names the rule.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FormError {}
