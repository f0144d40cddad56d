//! The provenance of our figures: taken from the paper, used to choose a parameter, arithmetic on such figures,
//! or a prediction. Only predictions measure the quality of a model.

/// Where a figure of ours comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// Taken from the paper.
    Input,
    /// Used to choose a parameter.
    Fitted,
    /// Follows from inputs and fitted figures alone.
    Derived,
    /// Independent of printed figures that were taken or used to choose a parameter.
    Predicted,
}

impl Provenance {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Input, Self::Fitted, Self::Derived, Self::Predicted];

    /// Name in files and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Fitted => "fitted",
            Self::Derived => "derived",
            Self::Predicted => "predicted",
        }
    }
}
