//! The source of a parameter's value. A model is as good as its sources: every parameter of every
//! device states whether a publication prints it, or whether it was chosen so that a figure results.

use std::fmt;

/// The source of a value, the most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A publication prints it.
    Printed,
    /// A maker's data sheet or manual gives it.
    DataSheet,
    /// It follows from other values by documented arithmetic.
    Derived,
    /// It was chosen so that a measured or printed figure results.
    Fitted,
    /// It is usual for such a device; the value of this one is unknown.
    Assumed,
}

impl Source {
    /// Every source, in the order of the enumeration.
    pub const ALL: [Self; 5] =
        [Self::Printed, Self::DataSheet, Self::Derived, Self::Fitted, Self::Assumed];

    /// Its form in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::DataSheet => "data sheet",
            Self::Derived => "derived",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }

    /// The required content of the text after the colon.
    pub(crate) const fn wants(self) -> &'static str {
        match self {
            Self::Printed => "which publication and where in it",
            Self::DataSheet => "the model whose data sheet it is",
            Self::Derived => "how, from what",
            Self::Fitted => "to which figure",
            Self::Assumed => "why this value",
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
    /// Its source.
    pub from: Source,
    /// The file's details of the source: `Table 4, 4 KiB reads`.
    pub why: String,
}

/// How many of `parameters` are from each source, in the order of [`Source::ALL`].
pub fn count_by_source(parameters: &[Parameter]) -> [(Source, usize); Source::ALL.len()] {
    Source::ALL.map(|source| (source, parameters.iter().filter(|p| p.from == source).count()))
}
