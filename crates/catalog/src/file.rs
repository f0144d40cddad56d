//! A file that was found: its text, and where it came from.

use std::sync::Arc;

/// A file that was found, with all of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it came from, as errors show it: the path that was given, or
    /// `catalog:workloads/NAME.toml`.
    pub origin: String,
    /// What it is called in results: the catalog's name, or the path's last part without its suffix.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
}
