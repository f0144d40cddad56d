//! Writes text in a picture: escaping, estimated width, truncation.
//!
//! Names come from foreign files and devices, and must not become markup, reverse the direction of other text, or
//! exceed the picture. Widths are estimates for a wide sans-serif font, so that labels fit in the reader's own font.

use iodyno_units::text;
use std::collections::VecDeque;
use std::fmt::Write as _;

use super::path::{Position, px};

/// Normal font size, in units of the picture.
pub(super) const SIZE: f64 = 12.0;
/// Font size of conditions, notes and point labels, in units of the picture.
pub(super) const SMALL: f64 = 11.0;

/// Cleans text for a picture without escaping it. Replaces control characters and line ends by spaces, and characters
/// that XML forbids by a replacement character. Removes other invisible characters.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\u{2028}' | '\u{2029}' => Some(' '),
            '\u{fffe}' | '\u{ffff}' => Some('\u{fffd}'),
            c if c.is_control() => Some(' '),
            c if text::is_hidden(c) => None,
            c => Some(c),
        })
        .collect()
}

/// Cleans text, and wraps it in direction isolates if it contains right-to-left letters.
pub(super) fn isolated(text: &str) -> String {
    text::isolated(clean(text))
}

/// Escapes text for use in an XML element or in a double-quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Estimated width of text at font size `size`, in pixels.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(share_of_em).sum::<f64>() * size
}

/// Widths of the printable ASCII characters in thousandths of an em. They are those of DejaVu Sans, the
/// widest font that browsers use for `sans-serif`.
#[rustfmt::skip]
const ADVANCES: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

fn share_of_em(c: char) -> f64 {
    match c {
        ' '..='~' => f64::from(ADVANCES[c as usize - ' ' as usize]) / 1000.0,
        '\u{2066}'..='\u{2069}' => 0.0,
        '·' => 0.32,
        '±' | '×' | '÷' => 0.84,
        '\u{a0}'..'\u{1100}' | '\u{2010}'..='\u{2013}' => 0.66,
        _ => 1.0,
    }
}

/// Truncates text with `…` to at most `width_max` at font size `size`; `None` if it fits.
fn cut(text: &str, size: f64, width_max: f64) -> Option<String> {
    let width_max = width_max / size;
    let mut used = 0.0;
    let mut fits = 0;
    for (at, c) in text.char_indices() {
        used += share_of_em(c);
        if used + share_of_em('…') <= width_max {
            fits = at + c.len_utf8();
        }
        if used > width_max {
            return Some(format!("{}…", text[..fits].trim_end()));
        }
    }
    None
}

/// Wraps text into at most `lines` lines of width `width_max`, and truncates the last one if necessary. Words
/// wider than a line are split.
pub(super) fn wrap(text: &str, size: f64, width_max: f64, lines: usize) -> Vec<String> {
    let text = clean(text);
    let mut out: Vec<String> = Vec::new();
    let mut words: VecDeque<&str> = text.split_whitespace().collect();
    while let Some(word) = words.pop_front() {
        let mut line = word.to_owned();
        let is_last = out.len() + 1 == lines;
        if let (Some(end), false) = (beyond(word, size, width_max), is_last) {
            words.push_front(&word[end..]);
            out.push(word[..end].to_owned());
            continue;
        }
        while let Some(next) = words.front() {
            let longer = format!("{line} {next}");
            let fits = width(&longer, size) <= width_max;
            if !fits && !is_last {
                break;
            }
            line = longer;
            words.pop_front();
            if !fits {
                break;
            }
        }
        let line = cut(&line, size, width_max).unwrap_or(line);
        out.push(line);
        if is_last {
            break;
        }
    }
    out
}

/// Byte offset at which a word exceeds the width, after at least one character; `None` if it fits.
fn beyond(word: &str, size: f64, width_max: f64) -> Option<usize> {
    let mut used = 0.0;
    let mut ends = word.char_indices().map(|(at, c)| {
        used += share_of_em(c) * size;
        (at, used > width_max)
    });
    ends.find(|(at, is_over)| *at > 0 && *is_over).map(|(at, _)| at)
}

/// Like [`wrap`], but `None` if a word would be split or the text truncated.
pub(super) fn broken(text: &str, size: f64, width_max: f64, lines: usize) -> Option<Vec<String>> {
    let found = wrap(text, size, width_max, lines);
    let words = found.iter().flat_map(|line| line.split_whitespace());
    words.eq(clean(text).split_whitespace()).then_some(found)
}

/// Whether `lines`, a result of [`wrap`], omit a part of `text`.
pub(super) fn is_cut(text: &str, lines: &[String]) -> bool {
    let text = clean(text);
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    let last = lines.last().is_some_and(|line| line.ends_with('…') && !text.ends_with('…'));
    last || letters(&text) != lines.iter().map(|line| letters(line)).sum::<usize>()
}

/// Alignment of a text relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The text starts at the position.
    Start,
    /// The text is centred on the position.
    Middle,
    /// The text ends at the position.
    End,
}

impl Anchor {
    fn class(self) -> &'static str {
        match self {
            Self::Start => "",
            Self::Middle => "m",
            Self::End => "e",
        }
    }
}

/// Position and style of a text element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a> {
    /// Position of the text on its baseline.
    pub(super) at: Position,
    /// Alignment of the text relative to the position.
    pub(super) anchor: Anchor,
    /// CSS classes other than that of the anchor; may be empty.
    pub(super) class: &'a str,
    /// Font size for estimating the width; the style sheet sets the displayed size.
    pub(super) size: f64,
    /// Maximum width in pixels; longer text is truncated.
    pub(super) width_max: f64,
    /// Additional attributes of the SVG element; may be empty.
    pub(super) more: &'a str,
}

impl Label<'_> {
    /// Writes `text`, truncated to the maximum width. If truncated, the full text becomes a tooltip.
    pub(super) fn write(&self, out: &mut String, text: &str) {
        let text = isolated(text);
        let shown = cut(&text, self.size, self.width_max);
        let _ = write!(out, r#"<text x="{}" y="{}""#, px(self.at.x), px(self.at.y));
        let anchor = self.anchor.class();
        let gap = if anchor.is_empty() || self.class.is_empty() { "" } else { " " };
        if !(anchor.is_empty() && self.class.is_empty()) {
            let _ = write!(out, r#" class="{anchor}{gap}{}""#, self.class);
        }
        out.push_str(self.more);
        match shown {
            Some(shown) => {
                let closed = if shown.starts_with('\u{2068}') { "\u{2069}" } else { "" };
                let _ = write!(
                    out,
                    ">{}{closed}<title>{}</title></text>",
                    escape(&shown),
                    escape(&text)
                );
            }
            None => {
                let _ = write!(out, ">{}</text>", escape(&text));
            }
        }
    }
}

/// Creates a label of normal size without additional classes or attributes.
pub(super) fn label(x: f64, y: f64, anchor: Anchor, width_max: f64) -> Label<'static> {
    Label { at: Position { x, y }, anchor, class: "", size: SIZE, width_max, more: "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_width_and_whole_in_its_title() {
        let long = "x".repeat(10_000);
        let mut out = String::new();
        label(0.0, 0.0, Anchor::Start, 100.0).write(&mut out, &long);
        let shown = &out[out.find('>').unwrap() + 1..out.find("<title>").unwrap()];
        assert!(shown.ends_with('…') && width(shown, SIZE) <= 100.0, "{shown}");
        assert!(out.contains(&format!("<title>{long}</title>")));
        for line in wrap(&"word ".repeat(500), SIZE, 200.0, 3) {
            assert!(width(&line, SIZE) <= 200.0);
        }
        assert_eq!(wrap(&"word ".repeat(500), SIZE, 200.0, 3).len(), 3);
        assert_eq!(wrap("one two", SIZE, 200.0, 3), ["one two"]);
    }

    #[test]
    fn no_part_of_a_name_affects_the_text_behind_it() {
        assert_eq!(clean("a\u{202e}b\u{0}c\nd\u{ffff}"), "ab c d\u{fffd}");
        assert_eq!(isolated("שלום"), "\u{2068}שלום\u{2069}");
        assert_eq!(escape("<a b='\"'>&"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;");
    }
}
