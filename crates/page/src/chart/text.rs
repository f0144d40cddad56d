//! Text in a picture: escaping, estimated width, truncation.
//!
//! Names come from foreign files and devices, so no part of them may become markup, reverse the direction of
//! the text behind it, or run over the picture. No font is read here: widths are those of a wide
//! sans-serif face, which is enough to keep labels apart in the reader's own.

use iodyno_units::text;
use std::collections::VecDeque;
use std::fmt::Write as _;

use super::path::px;

/// Size of usual text in the picture, in its units.
pub(super) const SIZE: f64 = 12.0;
/// Size of small text: conditions, notes, labels of points.
pub(super) const SMALL: f64 = 11.0;

/// `text` for a picture, without escapes: control characters and line ends become spaces, characters that XML
/// forbids become a replacement character, other hidden ones are removed.
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

/// `text` cleaned, and isolated where it holds letters written from right to left.
pub(super) fn isolated(text: &str) -> String {
    text::isolated(clean(text))
}

/// `text` for XML, in an element or in an attribute in double quotes.
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

/// About how wide `text` is at `size`.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(share_of_em).sum::<f64>() * size
}

/// Thousandths of an em of each printable character of ASCII in DejaVu Sans, the widest of the faces that browsers take
/// for `sans-serif`.
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

/// `text` cut with `…` to at most `width_max` at `size`; None where it fits as it is.
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

/// Lines of `text` no wider than `width_max`, at most `lines` of them, the last one cut if need be. A word wider than
/// a line is continued on the next.
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

/// Where a word stops to fit into a line, behind one character at least; None where it fits.
fn beyond(word: &str, size: f64, width_max: f64) -> Option<usize> {
    let mut used = 0.0;
    let mut ends = word.char_indices().map(|(at, c)| {
        used += share_of_em(c) * size;
        (at, used > width_max)
    });
    ends.find(|(at, is_over)| *at > 0 && *is_over).map(|(at, _)| at)
}

/// The lines of [`wrap`] where they are broken between words alone, and none is cut.
pub(super) fn broken(text: &str, size: f64, width_max: f64, lines: usize) -> Option<Vec<String>> {
    let found = wrap(text, size, width_max, lines);
    let words = found.iter().flat_map(|line| line.split_whitespace());
    words.eq(clean(text).split_whitespace()).then_some(found)
}

/// Whether `lines` of [`wrap`] lack a part of `text`.
pub(super) fn is_cut(text: &str, lines: &[String]) -> bool {
    let text = clean(text);
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    let last = lines.last().is_some_and(|line| line.ends_with('…') && !text.ends_with('…'));
    last || letters(&text) != lines.iter().map(|line| letters(line)).sum::<usize>()
}

/// The anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Its position is its left end.
    Start,
    /// Its position is its middle.
    Middle,
    /// Its position is its right end.
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

/// A text element to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a> {
    /// Its position, on the base line.
    pub(super) at: (f64, f64),
    /// The end of it that is there.
    pub(super) anchor: Anchor,
    /// Classes besides that of the anchor; may be empty.
    pub(super) class: &'a str,
    /// Size of its letters, for the estimate; the style sheet sets it.
    pub(super) size: f64,
    /// Its largest width.
    pub(super) width_max: f64,
    /// Attributes besides; may be empty.
    pub(super) more: &'a str,
}

impl Label<'_> {
    /// Writes `text` here, cut to its largest width; a cut text is whole in a `title` within.
    pub(super) fn write(&self, out: &mut String, text: &str) {
        let text = isolated(text);
        let shown = cut(&text, self.size, self.width_max);
        let _ = write!(out, r#"<text x="{}" y="{}""#, px(self.at.0), px(self.at.1));
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

/// A usual label at a position.
pub(super) fn label(x: f64, y: f64, anchor: Anchor, width_max: f64) -> Label<'static> {
    Label { at: (x, y), anchor, class: "", size: SIZE, width_max, more: "" }
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
