//! Sign and word for each [`Tone`] (the severity of an item, such as good or warning). HTML shows both in addition to
//! the tone's colour. Markdown has no colours, and shows the sign or word alone.

use crate::Tone;

/// One-character sign of a tone; empty for a neutral tone.
pub(crate) const fn sign(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain | Tone::Dim | Tone::Strong => "",
        Tone::Good => "✓",
        Tone::Note => "i",
        Tone::Warning => "!",
        Tone::Bad => "✗",
    }
}

/// Word that describes a tone, such as `Warning`; empty for a neutral tone.
pub(crate) const fn word(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain | Tone::Dim | Tone::Strong => "",
        Tone::Good => "OK",
        Tone::Note => "Note",
        Tone::Warning => "Warning",
        Tone::Bad => "Failed",
    }
}

pub(crate) const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Dim => "dim",
        Tone::Strong => "strong",
        Tone::Good => "good",
        Tone::Note => "note",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}
