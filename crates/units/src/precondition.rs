//! State of an emulated device when a measurement begins. The name of a target, a method's file or a study's file
//! specifies it. The crate `emulate` derives the device's contents from this state and from the workload.

use crate::{human, parse_size};
use core::fmt;

/// State of an emulated device at the start of a measurement. Real devices are used as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precondition {
    /// Steady state under the measured workload (workload-dependent preconditioning in SNIA's terms).
    #[default]
    Workload,
    /// Never written: fresh out of the box, or after a secure erase.
    Fresh,
    /// Written once, sequentially.
    Sequential,
    /// Written at random addresses until the steady state.
    Random {
        /// Block size of the random writes, bytes; `None`: the block size of the measured workload.
        block_bytes: Option<u32>,
    },
    /// State left by the previous measurement.
    Carried,
}

/// Error of parsing the precondition of an emulated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreconditionError {
    /// Problem with the text, as a sentence.
    pub problem: String,
    /// Correction that the user can make, such as `use state=fresh.`
    pub help: String,
}

/// Sector size, bytes. The block size of preconditioning writes must be a multiple of it.
const BLOCK_STEP_BYTES: u32 = 512;

impl Precondition {
    /// Keywords accepted in the name of a target. Methods and studies accept others.
    const IN_NAMES: &[&str] = &["auto", "fresh", "sequential", "random"];

    /// Keyword of the precondition in the name of a target.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Workload => "auto",
            Self::Fresh => "fresh",
            Self::Sequential => "sequential",
            Self::Random { .. } => "random",
            Self::Carried => "carried",
        }
    }

    /// Parses a keyword. `None` if it is not among `allowed`. [`Self::Workload`] is also called `own` (in methods)
    /// and `workload` (in studies).
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

    /// Parses the precondition in the name of a target: `auto`, `fresh`, `sequential`, `random`, `random:16KiB`.
    ///
    /// # Errors
    /// The text is not a precondition; see [`PreconditionError`].
    pub fn parse(text: &str) -> Result<Self, PreconditionError> {
        let refused =
            |problem: String, help: &str| Err(PreconditionError { problem, help: help.to_owned() });
        let Some(block) = text.strip_prefix("random:") else {
            let help = "use state=auto, state=fresh, state=sequential, state=random or state=random:16KiB.";
            let word = Self::of_word(text, Self::IN_NAMES);
            return word.map_or_else(|| refused(format!("`{text}` is not a state."), help), Ok);
        };
        match parse_size(block).map(u32::try_from) {
            Err(e) => {
                refused("the block size in `state=` is not a size.".to_owned(), &format!("{e}."))
            }
            Ok(Ok(bytes)) if bytes > 0 && bytes.is_multiple_of(BLOCK_STEP_BYTES) => {
                Ok(Self::Random { block_bytes: Some(bytes) })
            }
            Ok(_) => refused(
                format!("`{block}` is not a block size that a device accepts."),
                "use a multiple of 512 bytes that is less than 4GiB, such as 16KiB.",
            ),
        }
    }
}

/// Formats the precondition as in the name of a target: `auto`, `random:16KiB`.
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

    /// Formatting and parsing round-trip, and each type of file accepts only its own keywords.
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
