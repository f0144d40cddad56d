//! An error in the text of a file: its position, the message, and the remedy. A caller that has
//! the file draws it as a [`Problem`](crate::Problem).

use core::fmt;
use core::ops::Range;

/// One error in a file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The wrong bytes of the text; empty at 0 where it is the text as a whole.
    pub span: Range<usize>,
    /// The name of the violated rule, such as `raw-above-capacity`; most rules have no name.
    pub rule: Option<&'static str>,
    /// The message, in one sentence.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl FileError {
    /// An error at a position.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, rule: None, message: message.into(), help: None }
    }

    /// Adds the remedy; none where the text is empty.
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

/// A violated rule, at a key rather than at a position of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key as a path, such as `nand.read` or `read.addresses[1].window`.
    pub path: String,
    /// The message, in one sentence.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}
