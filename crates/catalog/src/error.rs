//! An error in the text of a file: position, message and remedy. [`Problem`](crate::Problem) renders it with the
//! affected lines.

use core::fmt;
use core::ops::Range;

/// An error in a file's text, such as an unknown key or a violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Byte range of the error; `0..0` if it concerns the text as a whole.
    pub span: Range<usize>,
    /// Name of the violated rule, such as `raw-above-capacity`; `None` for most rules.
    pub rule: Option<&'static str>,
    /// Error message, one sentence.
    pub message: String,
    /// Suggested remedy; `None` if there is none.
    pub help: Option<String>,
}

impl FileError {
    /// Creates an error at a position in the text, without a remedy.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, rule: None, message: message.into(), help: None }
    }

    /// Adds a suggested remedy, unless `help` is empty.
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

/// A violated rule, located by the path of a key instead of a position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key as a path, such as `nand.read` or `read.addresses[1].window`.
    pub path: String,
    /// Error message, one sentence.
    pub message: String,
    /// Suggested remedy; `None` if there is none.
    pub help: Option<String>,
}
