//! What is wrong with the text of a file: where it stands, what, and how to mend it. A caller that has
//! the file draws it as a [`Problem`](crate::Problem).

use core::fmt;
use core::ops::Range;

/// One thing that is wrong with a file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The bytes of the text that are wrong; empty at 0 where it is the text as a whole.
    pub span: Range<usize>,
    /// The named rule that is broken, such as `raw-above-capacity`; most rules have no name.
    pub rule: Option<&'static str>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
}

impl FileError {
    /// An error at a place.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, rule: None, message: message.into(), help: None }
    }

    /// The way to mend it; none where the text is empty.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into()).filter(|help| !help.is_empty());
        self
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for FileError {}

/// A rule that what was read breaks, at a key rather than at a place of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key as a path, such as `nand.read` or `read.addresses[1].window`.
    pub path: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
}
