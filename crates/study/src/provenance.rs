//! The provenance of our figures: taken from the paper, used to choose a parameter, arithmetic on such figures,
//! or a prediction. Only predictions measure the quality of a model.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// Taken from the print.
    Input,
    /// A parameter was chosen by it.
    Fitted,
    /// It follows from inputs and fitted figures alone.
    Derived,
    /// No parameter follows from it.
    Predicted,
}

impl Provenance {
    /// Every basis.
    pub const ALL: [Self; 4] = [Self::Input, Self::Fitted, Self::Derived, Self::Predicted];

    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Fitted => "fitted",
            Self::Derived => "derived",
            Self::Predicted => "predicted",
        }
    }
}
