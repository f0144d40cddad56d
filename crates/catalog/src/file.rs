//! A file that was found: its text and its origin.

use std::sync::Arc;

/// A file that was found, with all of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its origin, as errors show it: the given path, or
    /// `catalog:workloads/NAME.toml`.
    pub origin: String,
    /// Its name in results: the catalog's name, or the path's last part without its suffix.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
    /// Another file named it, rather than the user. Errors show its lines' numbers and nothing of its text: whoever
    /// wrote that file may not be allowed to read this one.
    pub is_named_by_file: bool,
}

impl File {
    /// The same, named by another file.
    #[must_use]
    pub fn named_by_file(self) -> Self {
        Self { is_named_by_file: !self.is_in_catalog(), ..self }
    }
}
