//! Values to write, and the forms in which they are written.

use crate::spec::Address;

/// A form in which a specification is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// That of stored runs: every key, except sparse ones with their default.
    Stored,
    /// That of a file written by hand: no key with its default, except a few that are always of interest.
    Short,
}

/// A value to write. Variants are those whose text depends on the form.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// A time, ns.
    Time(u64),
    Addresses(Vec<Address>),
}

impl Value {
    /// A text without characters to escape, as a TOML string.
    pub(super) fn quoted(text: impl std::fmt::Display) -> Self {
        Self::Text(format!("\"{text}\""))
    }
}
