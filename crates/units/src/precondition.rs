//! In which state a cell is to find an emulated device: as the name of a target, a method or a study asks for it.
//! What the device then is, with all that the workload decides, is `emulate`'s.

use crate::{human, parse_size};
use core::fmt;

/// What happened to an emulated device before a cell. A real device is as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precondition {
    /// What the cell's own workload makes of it after long: SNIA's workload-dependent preconditioning.
    #[default]
    Workload,
    /// Nothing: fresh out of the box, or after a secure erase.
    Fresh,
    /// It was written once, in order.
    Sequential,
    /// It was written at random, until steady state.
    Random {
        /// In blocks of this many bytes; None takes the cell's own.
        block_bytes: Option<u32>,
    },
    /// It is as the cell before left it.
    Carried,
}

/// Why a text is no precondition, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreconditionError {
    /// What is wrong.
    pub problem: String,
    /// How to mend it.
    pub help: String,
}

/// Blocks of writes are multiples of the smallest sector, bytes.
const BLOCK_STEP_BYTES: u32 = 512;

impl Precondition {
    /// The words that stand in the name of a target.
    const IN_NAMES: &[&str] = &["auto", "fresh", "sequential", "random"];

    /// Its word, as the name of a target has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Workload => "auto",
            Self::Fresh => "fresh",
            Self::Sequential => "sequential",
            Self::Random { .. } => "random",
            Self::Carried => "carried",
        }
    }

    /// Reads a word, one of those that may stand there. Methods and studies call
    /// [`Self::Workload`] `own` and `workload`.
    pub fn of_word(word: &str, allowed: &[&str]) -> Option<Self> {
        let all = [
            ("own", Self::Workload),
            ("workload", Self::Workload),
            ("auto", Self::Workload),
            ("fresh", Self::Fresh),
            ("sequential", Self::Sequential),
            ("random", Self::Random { block_bytes: None }),
            ("carried", Self::Carried),
        ];
        all.into_iter().find(|(w, _)| *w == word && allowed.contains(w)).map(|(_, it)| it)
    }

    /// Reads what stands in the name of a target: `auto`, `fresh`, `sequential`, `random`, `random:16KiB`.
    ///
    /// # Errors
    /// See [`PreconditionError`].
    pub fn parse(text: &str) -> Result<Self, PreconditionError> {
        let refused =
            |problem: String, help: &str| Err(PreconditionError { problem, help: help.to_owned() });
        let Some(block) = text.strip_prefix("random:") else {
            let help = "write state=auto, state=fresh, state=sequential, state=random or state=random:16KiB.";
            let word = Self::of_word(text, Self::IN_NAMES);
            return word.map_or_else(|| refused(format!("`{text}` is not a state."), help), Ok);
        };
        match parse_size(block).map(u32::try_from) {
            Err(e) => refused("the block of its state can't be read.".to_owned(), &format!("{e}.")),
            Ok(Ok(bytes)) if bytes > 0 && bytes.is_multiple_of(BLOCK_STEP_BYTES) => {
                Ok(Self::Random { block_bytes: Some(bytes) })
            }
            Ok(_) => refused(
                format!("`{block}` is not a block that a device can be written in."),
                "write a multiple of 512 bytes under 4GiB, such as 16KiB.",
            ),
        }
    }
}

/// As the name of a target has it: `auto`, `random:16KiB`.
impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::Random { block_bytes: Some(bytes) } => {
                write!(f, ":{}", human::exact_size((*bytes).into()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed is read again as the same, and each file has its own words.
    #[test]
    fn text_and_back() {
        let random = |block_bytes| Precondition::Random { block_bytes };
        let all = [Precondition::Workload, Precondition::Fresh, Precondition::Sequential];
        for it in all.into_iter().chain([None, Some(512), Some(1536), Some(16 << 10)].map(random)) {
            assert_eq!(Precondition::parse(&it.to_string()), Ok(it), "{it}");
        }
        for text in ["", "own", "workload", "carried", "random:", "random:0", "random:513", "Fresh"]
        {
            assert!(Precondition::parse(text).is_err(), "{text}");
        }
        let of_method = |word| Precondition::of_word(word, &["own", "carried"]);
        assert_eq!(of_method("own"), Some(Precondition::Workload));
        assert_eq!(of_method("carried"), Some(Precondition::Carried));
        assert_eq!((of_method("auto"), of_method("fresh")), (None, None));
    }
}
