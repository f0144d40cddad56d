//! The source of a parameter's value. A model is as good as its sources: every parameter of every device states whether
//! it was published, or chosen so that the model reproduces a known number.

use std::fmt;

/// The source of a value. Sorted from the most to the least reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Printed in a publication.
    Printed,
    /// From a maker's data sheet or manual.
    DataSheet,
    /// Computed from other values by documented arithmetic.
    Derived,
    /// Chosen so that the model reproduces a measured or published number.
    Fitted,
    /// Typical of such a device; the value of this one is unknown.
    Assumed,
}

impl Source {
    /// Every source, in the order of the enumeration.
    pub const ALL: [Self; 5] =
        [Self::Printed, Self::DataSheet, Self::Derived, Self::Fitted, Self::Assumed];

    /// The source's name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::DataSheet => "data sheet",
            Self::Derived => "derived",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }

    /// What the text after the source and its colon must state, for errors.
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

/// One parameter of a device or system, as written in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key with its table, such as `nand.read`.
    pub key: &'static str,
    /// The value as written, unit included: `80us`.
    pub text: String,
    /// Source of the value.
    pub from: Source,
    /// Details of the source: `Table 4, 4 KiB reads`.
    pub why: String,
}

/// Number of parameters from each source, in the order of [`Source::ALL`].
pub fn count_by_source(parameters: &[Parameter]) -> [(Source, usize); Source::ALL.len()] {
    Source::ALL.map(|source| (source, parameters.iter().filter(|p| p.from == source).count()))
}
