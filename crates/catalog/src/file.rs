//! A file from the catalog or the file system: text, name and origin.

use std::sync::Arc;

/// A file from the catalog or the file system, with its complete text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Origin of the file for error messages: the path given by the user, or `catalog:workloads/NAME.toml`.
    pub origin: String,
    /// Name in results: the catalog name, or the file name without its suffix.
    pub name: String,
    /// Complete text of the file, to which the byte ranges of errors refer.
    pub text: Arc<str>,
    /// Whether another file, rather than the user, named this one. Errors then show only line numbers and no text,
    /// because the author of the other file may not be allowed to read this one.
    pub is_named_by_file: bool,
}

impl File {
    /// Marks the file as named by another file, so that errors quote none of its text. No effect on catalog files,
    /// which are public.
    #[must_use]
    pub fn named_by_file(self) -> Self {
        Self { is_named_by_file: !self.is_in_catalog(), ..self }
    }
}
