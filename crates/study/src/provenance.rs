//! Provenance of a simulated value: copied from the paper, fitted to it, derived from such values, or predicted. Only
//! predictions measure the quality of a model.

/// Origin of a simulated value, which determines whether it can test the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// The value was copied from the paper.
    Input,
    /// The published value was used to choose a model parameter.
    Fitted,
    /// The value follows arithmetically from input and fitted values.
    Derived,
    /// The value is neither input, nor fitted, nor derived from such values.
    Predicted,
}

impl Provenance {
    /// All kinds of provenance; predictions are last.
    pub const ALL: [Self; 4] = [Self::Input, Self::Fitted, Self::Derived, Self::Predicted];

    /// Name of the provenance in files and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Fitted => "fitted",
            Self::Derived => "derived",
            Self::Predicted => "predicted",
        }
    }
}
