//! Renders a document as GitHub Flavored Markdown, for issues, pull requests and wikis, with figures as separate SVG
//! files.
//!
//! Foreign text is escaped. Control characters, and those that reverse the direction of text, become `�`.

use iodyno_units::text::is_hidden;
use std::fmt::Write;

use crate::chart::{self, Look};
use crate::document::Verdict;
use crate::{Block, Document, Figure, Table, Tone, name, tone};

/// Renders a document as Markdown. Figures are links to `figures/ID.svg`; [`files`] returns these files.
pub fn text(document: &Document) -> String {
    let mut out = String::new();
    let title = if document.title.is_empty() { "Untitled" } else { &document.title };
    paragraph(&mut out, &format!("# {}", plain(title)));
    if !document.stamp.is_empty() {
        paragraph(&mut out, &format!("> **{}**", plain(&document.stamp)));
    }
    if !document.about.is_empty() {
        let lines: Vec<String> = document.about.iter().map(|line| plain(line)).collect();
        paragraph(&mut out, &lines.join(" · "));
    }
    for section in &document.sections {
        paragraph(&mut out, &format!("## {}", plain(&section.title)));
        if section.folded {
            paragraph(&mut out, "<details><summary>Show</summary>");
        }
        for block in &section.blocks {
            self::block(&mut out, block, &document.stamp);
        }
        if section.folded {
            paragraph(&mut out, "</details>");
        }
    }
    if !document.made_by.is_empty() {
        paragraph(&mut out, &format!("---\n\n{}", plain(&document.made_by)));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Renders each figure as a stand-alone SVG file. Returns pairs of file name and content. The document's stamp is added
/// to each figure's conditions.
pub fn files(document: &Document) -> Vec<(String, Vec<u8>)> {
    let figures = document.sections.iter().flat_map(|section| &section.blocks);
    let figures = figures.flat_map(|block| match block {
        Block::Figure(figure) => std::slice::from_ref(figure),
        Block::Gallery(figures) => figures,
        _ => &[],
    });
    let file = |figure: &Figure| {
        let mut figure = figure.clone();
        if !document.stamp.is_empty() {
            let words = [document.stamp.as_str(), figure.conditions.as_str()];
            let words: Vec<&str> = words.into_iter().filter(|it| !it.is_empty()).collect();
            figure.conditions = words.join(" · ");
        }
        let svg = chart::svg(&figure, Look::Alone);
        (format!("{}.svg", name::safe(&figure.id)), svg.into_bytes())
    };
    figures.map(file).collect()
}

fn block(out: &mut String, block: &Block, stamp: &str) {
    match block {
        Block::Text(text) => paragraph(out, &plain(text)),
        Block::Headlines(headlines) => {
            for it in headlines {
                let mut line =
                    format!("- {}: {}**{}**", plain(&it.name), sign(it.tone), plain(&it.value));
                for beside in std::iter::once(&it.interval).chain(&it.beside) {
                    if !beside.is_empty() {
                        let _ = write!(line, ", {}", plain(beside));
                    }
                }
                let _ = writeln!(out, "{line}");
            }
            out.push('\n');
        }
        Block::Verdicts(verdicts) => {
            for it in verdicts {
                let _ = writeln!(out, "{}", verdict(it));
            }
            out.push('\n');
        }
        Block::Figure(figure) => self::figure(out, figure, stamp),
        Block::Gallery(figures) => {
            for figure in figures {
                self::figure(out, figure, stamp);
            }
        }
        Block::Table(table) => self::table(out, table),
        Block::Facts(topics) => {
            for (topic, facts) in topics {
                paragraph(out, &format!("### {}", plain(topic)));
                for (name, value) in facts {
                    let _ = writeln!(out, "- {}: {}", plain(name), plain(value));
                }
                out.push('\n');
            }
        }
        Block::Code { caption, text } => {
            if !caption.is_empty() {
                paragraph(out, &format!("{}:", plain(caption)));
            }
            paragraph(out, &code(&shown(text)));
        }
    }
}

/// Formats a code block. Text with `<` becomes an escaped `pre` element, since some renderers would take it
/// for markup; other text is fenced.
fn code(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    if text.contains('<') {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        return format!("<pre><code>{text}\n</code></pre>");
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

fn verdict(it: &Verdict) -> String {
    let mut line = format!("- {}", sign(it.tone));
    let word = tone::word(it.tone);
    if !word.is_empty() {
        let _ = write!(line, "**{word}.** ");
    }
    line.push_str(&plain(&it.text));
    let is_word = it.code.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !it.code.is_empty() {
        let mark = if is_word { "`" } else { "" };
        let code = if is_word { it.code.clone() } else { plain(&it.code) };
        let _ = write!(line, " {mark}{code}{mark}");
    }
    if !it.of.is_empty() {
        let of: Vec<String> = it.of.iter().map(|cell| plain(cell)).collect();
        let _ = write!(line, " ({})", of.join(", "));
    }
    line
}

fn figure(out: &mut String, figure: &Figure, stamp: &str) {
    let alt = if figure.summary.is_empty() { &figure.title } else { &figure.summary };
    let title = plain(&figure.title);
    paragraph(out, &format!("### {title}"));
    paragraph(out, &format!("![{}](figures/{}.svg)", plain(alt), name::safe(&figure.id)));
    let words = [stamp, figure.conditions.as_str()].map(plain);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    if !words.is_empty() {
        paragraph(out, &format!("*{}*", words.join(" · ")));
    }
    notes(out, &figure.notes);
}

fn table(out: &mut String, table: &Table) {
    if !table.caption.is_empty() {
        paragraph(out, &format!("**{}**", plain(&table.caption)));
    }
    if !table.columns.is_empty() {
        let heads: Vec<String> = table.columns.iter().map(|it| plain(&it.title)).collect();
        let rules = table.columns.iter().map(|it| if it.is_number { "---:" } else { "---" });
        let _ = writeln!(out, "| {} |", heads.join(" | "));
        let _ = writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "));
        for row in &table.rows {
            let cells: Vec<String> = row
                .cells
                .iter()
                .map(|cell| {
                    let text = format!("{}{}", sign(cell.tone), plain(&cell.text));
                    if row.is_heading && !text.is_empty() { format!("**{text}**") } else { text }
                })
                .collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out.push('\n');
    }
    notes(out, &table.notes);
}

fn notes(out: &mut String, notes: &[String]) {
    for note in notes {
        let _ = writeln!(out, "- {}", plain(note));
    }
    if !notes.is_empty() {
        out.push('\n');
    }
}

fn paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "{text}\n");
}

/// Sign of a tone followed by a space; empty for a neutral tone.
fn sign(tone: Tone) -> String {
    let sign = tone::sign(tone);
    // A lone `i` would look like a word of the text.
    if sign.is_empty() || sign == "i" { String::new() } else { format!("{sign} ") }
}

/// Replaces invisible characters, and characters that reverse the direction of text.
fn shown(text: &str) -> String {
    let show = |c: char| match c {
        '\n' | '\t' => c,
        c if is_hidden(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(show).collect()
}

/// Joins text to one line and escapes Markdown characters.
fn plain(text: &str) -> String {
    let text = shown(text).replace(['\n', '\t'], " ");
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied().unwrap_or(' ');
        let escape = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' => true,
            // An underscore within a word is not emphasis.
            '_' => !(before.is_alphanumeric() && after.is_alphanumeric()),
            '!' => after == '[',
            '#' | '+' | '-' | '=' => out.is_empty(),
            '.' | ')' => after == ' ' && !out.is_empty() && out.chars().all(|c| c.is_ascii_digit()),
            _ => false,
        };
        if escape {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}
