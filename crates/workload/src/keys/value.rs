//! Values to write to a workload file, and the two forms of the file.

use crate::spec::Address;

/// Form in which a workload file is written: for storage with a run, or for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The form stored with runs: every key, except sparse keys that have their default.
    Stored,
    /// The form of a hand-written file: omits keys that have their default, except a few that are always of
    /// interest.
    Short,
}

/// A value to write to a workload file. A type whose text differs between the two forms has its own variant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// A time in ns, written with a unit.
    Time(u64),
    Addresses(Vec<Address>),
}

impl Value {
    /// Quotes a text as a TOML string. The text must not contain characters that need escaping.
    pub(super) fn quoted(text: impl std::fmt::Display) -> Self {
        Self::Text(format!("\"{text}\""))
    }
}
