//! Provenance of a simulated value: copied from the paper, fitted to the paper, derived from copied or fitted values,
//! or predicted. Only predictions measure the quality of a model.

/// Origin of a simulated value, which determines whether it can test the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// The value was copied from the paper.
    Input,
    /// The published value was used to choose a model parameter.
    Fitted,
    /// The value follows by arithmetic from values that are input or fitted.
    Derived,
    /// The value is neither input nor fitted, and does not follow from such values alone.
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
