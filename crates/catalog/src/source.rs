//! Source of a parameter's value. Each parameter of each device states whether it was published, assumed, or chosen
//! so that the model reproduces a known number.

use std::fmt;

/// Type of source of a parameter's value, ordered from most to least reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Printed in a publication.
    Printed,
    /// Stated in a manufacturer's data sheet or manual.
    DataSheet,
    /// Computed from other values by documented arithmetic.
    Derived,
    /// Chosen so that the model reproduces a measured or published number.
    Fitted,
    /// Typical of similar devices; the value for this device is unknown.
    Assumed,
}

impl Source {
    /// All types of source, from most to least reliable.
    pub const ALL: [Self; 5] =
        [Self::Printed, Self::DataSheet, Self::Derived, Self::Fitted, Self::Assumed];

    /// Name of the type of source in catalog files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::DataSheet => "data sheet",
            Self::Derived => "derived",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }

    /// Describes, for error messages, the explanation that must follow the source's name.
    pub(crate) const fn wants(self) -> &'static str {
        match self {
            Self::Printed => "the publication, and the page or table in it",
            Self::DataSheet => "the model that the data sheet describes",
            Self::Derived => "the method of derivation and the numbers that it uses",
            Self::Fitted => "the published number that the value is fitted to",
            Self::Assumed => "the reason for this value",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One parameter of a device or system with its source, as its file states them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Path of the parameter's key, such as `nand.read`.
    pub key: &'static str,
    /// Value as written in the file, including its unit, such as `80us`; empty if it follows from `rule`.
    pub text: String,
    /// The rule from which the value follows, in words, such as `per gib 3, at least 100`; `None` for a constant.
    pub rule: Option<String>,
    /// Whether the value was published, derived, fitted or assumed.
    pub from: Source,
    /// Details of the source: `Table 4, 4 KiB reads`.
    pub why: String,
}

/// Number of parameters from each type of source, in the order of [`Source::ALL`].
pub fn count_by_source(parameters: &[Parameter]) -> [(Source, usize); Source::ALL.len()] {
    Source::ALL.map(|source| (source, parameters.iter().filter(|p| p.from == source).count()))
}
