//! A file that was found: its text and its origin.

use std::sync::Arc;

/// A file that was found, with all of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where the file comes from, as errors show it: the given path, or
    /// `catalog:workloads/NAME.toml`.
    pub origin: String,
    /// Name in results: the catalog name, or the file name without its suffix.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
    /// Whether another file named this one, rather than the user. Errors then show its line numbers but none of its
    /// text: the author of the other file may not be allowed to read this one.
    pub is_named_by_file: bool,
}

impl File {
    /// Marks a file as named by another file. Catalog files are public and stay unmarked.
    #[must_use]
    pub fn named_by_file(self) -> Self {
        Self { is_named_by_file: !self.is_in_catalog(), ..self }
    }
}
