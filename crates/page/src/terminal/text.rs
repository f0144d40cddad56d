//! Formats text for a terminal: removes control characters, measures width in columns, truncates, wraps, indents and
//! colours.

use super::Style;
use iodyno_units::text::{is_hidden, isolated};
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Begins a direction isolate: the enclosed text does not affect the direction of its neighbours.
pub(super) const ISOLATE: char = '\u{2068}';
/// Ends a direction isolate begun by [`ISOLATE`].
pub(super) const ISOLATE_END: char = '\u{2069}';

/// Role of a text in terminal output, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Normal text, in the terminal's default colour.
    Plain,
    /// Names and headings, in bold.
    Bold,
    /// Labels and secondary text, dimmed.
    Dim,
    /// Errors, in red.
    Red,
    /// Warnings, in yellow.
    Yellow,
    /// Successes, in green.
    Green,
}

/// Adds the escape sequences for the colour of `role`, if the terminal supports colours.
pub fn paint(text: &str, role: Role, style: Style) -> String {
    let code = match role {
        _ if !style.color || text.trim().is_empty() => return text.to_owned(),
        Role::Plain => return text.to_owned(),
        Role::Bold => "1",
        Role::Dim => "2",
        Role::Red => "31",
        Role::Yellow => "33",
        Role::Green => "32",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Display width of a text in character columns. The text must be clean and without escape sequences.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Makes untrusted text safe for a terminal and truncates it to `max` columns. Escapes control and invisible
/// characters, isolates right-to-left text, and substitutes ASCII for characters that the terminal cannot display.
pub fn clean(text: &str, max: usize, style: Style) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else if style.unicode || c.is_ascii() {
            out.push(c);
        } else {
            match ascii(c) {
                Some(word) => out.push_str(word),
                None => out.extend(c.escape_unicode()),
            }
        }
    }
    isolated(cut(&out, max, style))
}

/// Cleans text like [`clean`], but truncates its start, because the end of a path is more informative.
pub fn clean_path(text: &str, max: usize, style: Style) -> String {
    let whole = clean(text, usize::MAX, style);
    if width(&whole) <= max {
        return whole;
    }
    let mark = ellipsis(style);
    let mut left = max.saturating_sub(width(mark));
    let mut kept = Vec::new();
    for c in whole.chars().rev().filter(|c| !matches!(*c, ISOLATE | ISOLATE_END)) {
        let columns = c.width().unwrap_or(0);
        if columns > left || kept.len() > 4 * max {
            break;
        }
        left -= columns;
        kept.push(c);
    }
    let end: String = kept.into_iter().rev().collect();
    isolated(format!("{mark}{end}"))
}

fn ellipsis(style: Style) -> &'static str {
    if style.unicode { "…" } else { ".." }
}

/// Truncates a text to `max` columns and adds an ellipsis if it was longer. Also limits the number of
/// zero-width characters.
pub fn cut(text: &str, max: usize, style: Style) -> String {
    if width(text) <= max && text.chars().count() / 4 <= max {
        return text.to_owned();
    }
    let mark = ellipsis(style);
    let mut left = max.saturating_sub(width(mark));
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        let columns = c.width().unwrap_or(0);
        if columns > left || i / 4 > max {
            break;
        }
        left -= columns;
        out.push(c);
    }
    out + mark
}

/// ASCII substitute of a non-ASCII character used in iodyno's texts; None for other characters.
fn ascii(c: char) -> Option<&'static str> {
    Some(match c {
        'µ' | 'μ' => "u",
        '×' => "x",
        '±' => "+-",
        '–' | '—' | '−' | '·' => "-",
        '…' => "...",
        '’' | '‘' => "'",
        '“' | '”' => "\"",
        '≥' => ">=",
        '≤' => "<=",
        _ => return None,
    })
}

/// Replaces non-ASCII characters in iodyno's own text by ASCII if the terminal requires it. The text may
/// contain colours.
pub fn shown(text: &str, style: Style) -> Cow<'_, str> {
    if style.unicode || text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match ascii(c) {
            Some(word) => out.push_str(word),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Pads text to `columns` with blanks, before it if `right_aligned`, otherwise after it. Longer text is unchanged.
pub fn pad(text: &str, columns: usize, right_aligned: bool) -> String {
    let blanks = " ".repeat(columns.saturating_sub(width(text)));
    if right_aligned { blanks + text } else { format!("{text}{blanks}") }
}

/// Wraps text to lines of at most `columns`, between words; words longer than a line are split.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let columns_of_word = width(word);
        if used > 0 && used + 1 + columns_of_word > columns {
            lines.push(String::new());
            used = 0;
        }
        if used > 0 {
            lines.last_mut().expect("there is a line").push(' ');
            used += 1;
        }
        for c in word.chars() {
            let columns_of_c = c.width().unwrap_or(0);
            if used + columns_of_c > columns {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().expect("there is a line").push(c);
            used += columns_of_c;
        }
    }
    lines
}

/// Formats a line that consists of a label, padded to `columns`, and a value. Cleans the value, which is
/// untrusted.
pub fn labelled(label: &str, columns: usize, value: &str, style: Style) -> String {
    format!("  {} {}\n", pad(label, columns, false), clean(value, usize::MAX, style))
}

/// Wraps a text to the terminal's width and colours it by `role`.
pub fn paragraph(text: &str, role: Role, style: Style) -> Vec<String> {
    wrap(text, style.columns()).iter().map(|line| paint(line, role, style)).collect()
}

/// Wraps `text` after `start`, which is `columns` wide and may contain colours. Further lines are indented by
/// `columns`.
pub fn hanging(start: &str, columns: usize, text: &str, style: Style) -> Vec<String> {
    let indent = " ".repeat(columns);
    let lines = wrap(text, style.columns().saturating_sub(columns)).into_iter().enumerate();
    lines.map(|(i, line)| if i == 0 { start } else { &indent }.to_owned() + &line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNICODE: Style = Style { color: false, width: 80, unicode: true };
    const ASCII: Style = Style { color: false, width: 80, unicode: false };

    #[test]
    fn names_can_do_no_harm() {
        assert_eq!(
            clean("a\u{1b}[31mb\r\n\t\u{9b}1m", 99, UNICODE),
            "a\\u{1b}[31mb\\r\\n\\t\\u{9b}1m"
        );
        assert_eq!(clean("a\u{202e}gpj.exe", 99, UNICODE), "a\\u{202e}gpj.exe");
        assert_eq!(clean("דיסק", 99, UNICODE), "\u{2068}דיסק\u{2069}");
        assert_eq!(clean("12 µs × é", 99, ASCII), "12 us x \\u{e9}");
        assert_eq!(clean("日本語", 5, UNICODE), "日本…");
        assert_eq!(labelled("of", 4, "a\u{1b}[1m\nדיסק", ASCII).lines().count(), 1);
        assert_eq!(clean_path("/dev/disk/by-id/nvme-1", 10, UNICODE), "…id/nvme-1");
        let stacked = clean(&format!("a{}", "\u{301}".repeat(10_000)), 10, UNICODE);
        assert!(stacked.chars().count() < 50 && stacked.ends_with('…'));
    }

    #[test]
    fn lines_hang_below_the_first() {
        let narrow = Style { width: 40, ..UNICODE };
        let lines = hanging("word  ", 6, &"seven a ".repeat(8), narrow);
        assert!(lines.len() == 2 && lines[0].starts_with("word  seven a"), "{lines:?}");
        assert!(lines[1].starts_with("      seven") && lines.iter().all(|l| width(l) <= 40));
    }

    #[test]
    fn lines_never_exceed_their_width() {
        let text = "the quick brown fox jumps over the lazydogwithaverylongname 日本語日本語";
        for columns in 2..40 {
            let lines = wrap(text, columns);
            assert!(lines.iter().all(|l| width(l) <= columns), "{columns}: {lines:?}");
            let letters = |t: &str| t.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(letters(&lines.concat()), letters(text));
        }
    }
}
