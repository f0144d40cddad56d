//! Where a parameter's value is from. A model is as good as its sources: every parameter of every
//! device says whether a publication prints it, or whether it was chosen so that a figure comes out.

use std::fmt;

/// Where a value is from, the most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A publication prints it.
    Printed,
    /// A maker's data sheet or manual gives it.
    DataSheet,
    /// It follows from other values by arithmetic that is written down.
    Derived,
    /// It was chosen so that a measured or printed figure comes out.
    Fitted,
    /// It is usual for such a device; nothing is known of this one.
    Assumed,
}

impl Source {
    /// Every source, in the order of the enumeration.
    pub const ALL: [Self; 5] =
        [Self::Printed, Self::DataSheet, Self::Derived, Self::Fitted, Self::Assumed];

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::DataSheet => "data sheet",
            Self::Derived => "derived",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }

    /// What the text after the colon says.
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

/// One parameter of a device or system, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key with its table, such as `nand.read`.
    pub key: &'static str,
    /// The value as it is written, unit included: `80us`.
    pub text: String,
    /// Where it is from.
    pub from: Source,
    /// What the file says of that: `Table 4, 4 KiB reads`.
    pub why: String,
}

/// How many of `parameters` are from each source, in the order of [`Source::ALL`].
pub fn count_by_source(parameters: &[Parameter]) -> [(Source, usize); Source::ALL.len()] {
    Source::ALL.map(|source| (source, parameters.iter().filter(|p| p.from == source).count()))
}
