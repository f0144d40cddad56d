//! Capabilities of the terminal: colours, symbols, width.

use crate::args::{Shown, When};
use iodyno_page::terminal::Style;
use iodyno_report::terminal::Detail;
use std::io::IsTerminal;

/// Width where none is known: for files, pipes and logs.
const WIDTH: usize = 100;

/// Whether to colour the output to `stream`.
pub(crate) fn colors(when: When, stream: &impl IsTerminal) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    }
}

/// The style of results.
pub(crate) fn for_stdout(when: When) -> Style {
    Style { color: colors(when, &std::io::stdout()), width: width(), unicode: speaks_unicode() }
}

/// What of a run is shown.
pub(crate) const fn detail(shown: Shown) -> Detail {
    Detail { notes: shown.notes || shown.verbose, all: shown.verbose }
}

/// The style of the live line.
pub(crate) fn for_stderr(when: When) -> Style {
    Style { color: colors(when, &std::io::stderr()), ..for_stdout(When::Never) }
}

/// Columns of the terminal, from the terminal itself or from COLUMNS.
fn width() -> usize {
    for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: an all-zero winsize is valid, and the ioctl fills it or fails.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
        };
        if let Some(size) = size
            && size.ws_col > 0
        {
            return usize::from(size.ws_col);
        }
    }
    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(WIDTH)
}

/// Whether the locale is UTF-8. A pipe has no locale of its own; its reader shares ours.
fn speaks_unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
        .is_none_or(|v| {
            let v = v.to_uppercase();
            v.contains("UTF-8") || v.contains("UTF8")
        })
}
