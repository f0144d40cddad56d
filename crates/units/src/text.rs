//! Cleans text that other programs, devices and people wrote. Escapes characters that are invisible, move a cursor or
//! reorder their surroundings (`\u{1b}`). Also formats lists in words.
//!
//! All output of iodyno uses [`is_hidden`]; the terminal, error messages, CSV, Markdown and pictures differ only in
//! the replacement of such characters.

use std::borrow::Cow;
use std::fmt::Display;

/// Whether a character is invisible, moves the cursor or reorders text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a character belongs to a script that is written from right to left.
fn is_right_to_left(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Escapes each invisible, control or reordering character of `text`, including line ends: the result is one line.
pub fn clean(text: &str) -> Cow<'_, str> {
    clean_but(text, |_| false)
}

/// Like [`clean`], but keeps line ends and tabs.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    clean_but(text, |c| matches!(c, '\n' | '\t'))
}

fn clean_but(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let escaped = |c: char| is_hidden(c) && !stays(c);
    // Most text is printable ASCII, of which nothing is hidden.
    let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
    if text.as_bytes().iter().all(is_printable) {
        return Cow::Borrowed(text);
    }
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if escaped(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Wraps `text` in a Unicode direction isolate if it contains right-to-left letters, so that the rest of its line is
/// not reordered. Call [`clean`] first, because it would escape the isolate's characters.
pub fn isolated(text: String) -> String {
    if text.chars().any(is_right_to_left) { format!("\u{2068}{text}\u{2069}") } else { text }
}

/// Returns the first `chars` characters of `text`, cleaned, for quoting in an error message.
pub fn quoted(text: &str, chars: usize) -> String {
    let mut out: String = clean(text.get(..text.len().min(8 * chars)).unwrap_or(text)).into();
    if let Some((at, _)) = out.char_indices().nth(chars) {
        out.truncate(at);
        out.push('…');
    } else if text.len() > 8 * chars && out.len() < text.len() {
        out.push('…');
    }
    out
}

/// Joins words to a list such as `a, b or c`. Empty for no words.
pub fn listed(words: impl IntoIterator<Item = impl Display>, conjunction: &str) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => {
            format!("{} {conjunction} {last}", first.join(", "))
        }
        _ => words.concat(),
    }
}

/// Formats a noun with a list of numbers: `no volume`, `volume 3`, `volumes 0, 2 and 4`.
pub fn numbered(noun: &str, numbers: impl IntoIterator<Item = impl Display>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    match numbers.as_slice() {
        [] => format!("no {noun}"),
        [one] => format!("{noun} {one}"),
        all => format!("{noun}s {}", listed(all, "and")),
    }
}

/// Quotes a word for the shell, with single quotes, if it contains special characters.
pub fn for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+~?".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('~') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_a_conjunction_before_the_last_word() {
        assert_eq!([listed([""; 0], "or"), listed(["a"], "or")], ["", "a"]);
        assert_eq!(listed(["a", "b"], "or"), "a or b");
        assert_eq!(listed(["a", "b", "c"], "and"), "a, b and c");
        let named = [&[][..], &[3], &[0, 2, 4]].map(|numbers| numbered("volume", numbers));
        assert_eq!(named, ["no volume", "volume 3", "volumes 0, 2 and 4"]);
    }

    #[test]
    fn words_are_quoted_as_a_shell_needs_it() {
        assert_eq!(for_shell("p99<500us"), "'p99<500us'");
        assert_eq!(for_shell("it's"), "'it'\\''s'");
        assert_eq!(for_shell("model:exflash-400g"), "model:exflash-400g");
        assert_eq!(for_shell(""), "''");
        assert_eq!(for_shell("model:x*32"), "'model:x*32'");
    }

    #[test]
    fn what_is_hidden_is_shown() {
        for (text, shown) in [
            ("plain µs ×", "plain µs ×"),
            ("\u{1b}[31mred\u{9b}0m", "\\u{1b}[31mred\\u{9b}0m"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("a\u{202e}gpj.exe", "a\\u{202e}gpj.exe"),
            ("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}"),
        ] {
            assert_eq!(clean(text), shown);
            assert_eq!(clean(&clean(text)), shown, "once is enough");
        }
        assert_eq!(clean_lines("a\n\tb\u{7}"), "a\n\tb\\u{7}");
        assert_eq!(quoted("\u{1b}abc", 3), "\\u{…");
        assert_eq!(quoted("abc", 3), "abc");
        assert!(quoted(&"é\u{7}".repeat(100_000), 20).chars().count() <= 21);
    }
}
