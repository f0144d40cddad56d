//! Capabilities of the terminal: colours, symbols, width.

use crate::args::{Shown, When};
use crate::terminals::Terminals;
use iodyno_page::terminal::Style;
use iodyno_report::terminal::Detail;

fn colors(when: When, is_terminal: bool) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none(),
    }
}

/// Whether to use colours on standard error.
pub(crate) fn colors_stderr(when: When) -> bool {
    colors(when, Terminals::of_process().err)
}

/// Colours, width and character set of results on standard output.
pub(crate) fn for_stdout(when: When) -> Style {
    let Terminals { out, columns, .. } = Terminals::of_process();
    Style { color: colors(when, out), width: columns.into(), unicode: speaks_unicode() }
}

/// Converts the flags for the level of detail.
pub(crate) const fn detail(shown: Shown) -> Detail {
    Detail { notes: shown.notes || shown.verbose, all: shown.verbose }
}

/// The style of the progress line on standard error.
pub(crate) fn for_stderr(when: When) -> Style {
    Style { color: colors_stderr(when), ..for_stdout(When::Never) }
}

/// Whether the locale is UTF-8. Also applies to a pipe, because its reader presumably has the same locale.
fn speaks_unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
        .is_none_or(|v| {
            let v = v.to_uppercase();
            v.contains("UTF-8") || v.contains("UTF8")
        })
}
