//! Formats tables for a terminal. Numbers are right-aligned with left-aligned units, or aligned at the decimal point.
//! If a table is too wide, columns are hidden by rank ([`fit`]), or the table is split into parts with the same labels
//! ([`in_parts`]).

use super::Style;
use super::text::{ISOLATE, ISOLATE_END, Role, clean, pad, paint, paragraph, width};
use crate::{Cell, Column, Table, Tone};

/// Number of blanks between columns.
const GAP: usize = 2;
/// Maximum width of a column header, in characters.
const HEAD_COLUMNS_MAX: usize = 40;

/// Formats a complete table: caption, rows, names of hidden columns, and notes.
pub fn whole(table: &Table, style: Style) -> Vec<String> {
    let (fitted, hidden) = fit(table, style.columns(), style);
    let aside = |text: &str| paragraph(&clean(text, usize::MAX, style), Role::Dim, style);
    let mut all = if table.caption.is_empty() { Vec::new() } else { aside(&table.caption) };
    all.extend(lines(&fitted, style));
    all.extend(remark(&hidden, style));
    all.extend(table.notes.iter().flat_map(|note| aside(note)));
    all
}

/// Formats the rows of a table with only the columns that fit the terminal.
pub fn fitted(table: &Table, style: Style) -> Vec<String> {
    lines(&fit(table, style.columns(), style).0, style)
}

/// Formats a remark that names the columns hidden by [`fit`].
pub fn remark(hidden: &[String], style: Style) -> Vec<String> {
    if hidden.is_empty() {
        return Vec::new();
    }
    let text =
        format!("columns hidden (terminal too narrow): {}; --json has all", hidden.join(", "));
    paragraph(&clean(&text, usize::MAX, style), Role::Dim, style)
}

/// Formats a line of headers, unless all are blank, and one line per row.
pub fn lines(table: &Table, style: Style) -> Vec<String> {
    let all = laid(table, style);
    let shown: Vec<&Laid> = all.iter().collect();
    let mut lines: Vec<String> = heads(&shown, style).into_iter().collect();
    let mut before = None;
    for (row, of) in table.rows.iter().enumerate() {
        if of.is_heading {
            lines.push(heading(&of.cells, style));
            before = None;
            continue;
        }
        lines.push(line(&shown, row, before, style));
        before = Some(row);
    }
    lines
}

/// Choice of the rows that [`in_parts`] prints in each part of a wide table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRows {
    /// All rows, even those without a value in the part.
    All,
    /// Rows with a known value in the part, and the headings above them.
    Known,
}

/// Formats a table too wide for the terminal as several parts below each other. Each part repeats the label
/// columns.
pub fn in_parts(table: &Table, rows: PartRows, style: Style) -> Vec<String> {
    let all = laid(table, style);
    let (labels, values): (Vec<&Laid>, Vec<&Laid>) = all.iter().partition(|it| it.is_label);
    let taken: usize = labels.iter().map(|it| it.width() + GAP).sum();
    let available = style.columns().saturating_sub(taken);
    let mut lines = Vec::new();
    let mut rest = values.as_slice();
    while !rest.is_empty() {
        let fits = |n: &usize| *n == 1 || width_of(rest[..*n].iter().copied()) <= available;
        let (part, others) = rest.split_at((1..=rest.len()).take_while(fits).count());
        rest = others;
        let shown: Vec<&Laid> = labels.iter().chain(part).copied().collect();
        lines.extend(heads(&shown, style));
        let (mut before, mut title) = (None, None);
        for (row, of) in table.rows.iter().enumerate() {
            if of.is_heading {
                title = Some(heading(&of.cells, style));
                before = None;
            } else if rows == PartRows::All
                || !part.iter().all(|it| matches!(it.fields[row], Field::Unknown))
            {
                lines.extend(title.take());
                lines.push(line(&shown, row, before, style));
                before = Some(row);
            }
        }
    }
    lines
}

/// Width of a table with all its columns, in characters.
pub fn total_width(table: &Table, style: Style) -> usize {
    width_of(&laid(table, style))
}

/// Removes columns, highest rank first, until the table fits into `available` characters. Returns the table
/// and the headers of the removed columns.
pub fn fit(table: &Table, available: usize, style: Style) -> (Table, Vec<String>) {
    let all = laid(table, style);
    let mut shown: Vec<usize> = (0..all.len()).collect();
    while width_of(shown.iter().map(|i| &all[*i])) > available {
        let ranked = shown.iter().enumerate().filter(|(_, i)| table.columns[**i].rank > 0);
        let Some((at, _)) = ranked.max_by_key(|(_, i)| table.columns[**i].rank) else { break };
        shown.remove(at);
    }
    let hidden = all.iter().enumerate().filter(|(i, _)| !shown.contains(i));
    let hidden = hidden.map(|(_, it)| it.head.clone()).collect();
    (table.selected(|i, _| shown.contains(&i)), hidden)
}

/// A table column with its cells formatted.
struct Laid {
    head: String,
    is_label: bool,
    is_number: bool,
    is_decimal: bool,
    fields: Vec<Field>,
}

/// The formatted text of a cell.
#[derive(PartialEq)]
enum Field {
    Blank,
    Unknown,
    Text(String, Role),
    /// A number, split for alignment: at the decimal point in a column of decimals, otherwise before the unit.
    Figure(String, String, Role),
}

/// Formats the cells of all columns. Rows below headings are indented.
fn laid(table: &Table, style: Style) -> Vec<Laid> {
    let is_grouped = table.rows.iter().any(|row| row.is_heading);
    let column = |(i, column): (usize, &Column)| Laid {
        head: clean(
            if column.short.is_empty() { &column.title } else { &column.short },
            HEAD_COLUMNS_MAX,
            style,
        ),
        is_label: column.is_label,
        is_number: column.is_number,
        is_decimal: column.is_decimal,
        fields: table
            .rows
            .iter()
            .map(|row| match row.cells.get(i) {
                Some(cell) if !row.is_heading => {
                    let indent = if is_grouped && i == 0 { "  " } else { "" };
                    field(cell, column, indent, style)
                }
                _ => Field::Blank,
            })
            .collect(),
    };
    table.columns.iter().enumerate().map(column).collect()
}

fn field(cell: &Cell, column: &Column, indent: &str, style: Style) -> Field {
    let text = format!("{indent}{}", harmless(&cell.text, style));
    let role = role(cell.tone);
    if cell.is_empty() {
        return Field::Blank;
    }
    if cell.is_none() {
        return Field::Unknown;
    }
    let (number, rest) = if column.is_decimal {
        // A mark after an integer takes the place of the point.
        let is_before = |c: char| c.is_ascii_digit() || matches!(c, '-' | '<' | '>' | '=' | '~');
        let at = text.find(|c: char| !is_before(c)).filter(|at| *at > 0).unwrap_or(text.len());
        text.split_at(at)
    } else if column.is_number {
        text.rsplit_once(' ').unwrap_or((&text, ""))
    } else {
        return Field::Text(text, role);
    };
    Field::Figure(number.to_owned(), rest.to_owned(), role)
}

/// Cleans a text that may contain parts already cleaned by the caller, and leaves these parts unchanged.
fn harmless(text: &str, style: Style) -> String {
    let isolated = text.split_once(ISOLATE).and_then(|(before, rest)| {
        let (inner, after) = rest.split_once(ISOLATE_END)?;
        Some((before, clean(inner, usize::MAX, style), after))
    });
    match isolated {
        Some((before, inner, after)) if inner.starts_with(ISOLATE) => {
            format!("{}{inner}{}", clean(before, usize::MAX, style), harmless(after, style))
        }
        _ => clean(text, usize::MAX, style),
    }
}

/// Returns the role of a text with this tone in terminal output. The role determines the text's colour.
pub const fn role(tone: Tone) -> Role {
    match tone {
        Tone::Plain | Tone::Note => Role::Plain,
        Tone::Dim => Role::Dim,
        Tone::Strong => Role::Bold,
        Tone::Good => Role::Green,
        Tone::Warning => Role::Yellow,
        Tone::Bad => Role::Red,
    }
}

fn width_of<'a>(columns: impl IntoIterator<Item = &'a Laid>) -> usize {
    columns.into_iter().map(|it| it.width() + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Formats the line of column headers; None if all are blank.
fn heads(shown: &[&Laid], style: Style) -> Option<String> {
    if shown.iter().all(|it| it.head.trim().is_empty()) {
        return None;
    }
    let heads = shown.iter().map(|it| {
        let head = it.padded_head();
        // Trailing blanks stay unpainted, so that they can be cut at the end of a line.
        let bare = head.trim_end();
        paint(bare, Role::Dim, style) + &head[bare.len()..]
    });
    Some(joined(heads))
}

fn heading(cells: &[Cell], style: Style) -> String {
    paint(&cells.first().map_or(String::new(), |it| harmless(&it.text, style)), Role::Bold, style)
}

/// Formats a row. Leading labels equal to those of the row `before` are left blank.
fn line(shown: &[&Laid], row: usize, before: Option<usize>, style: Style) -> String {
    let mut is_known = before.is_some();
    joined(shown.iter().map(|it| {
        is_known &= it.is_label && before.is_some_and(|at| it.fields[at] == it.fields[row]);
        if is_known { " ".repeat(it.width()) } else { it.render(&it.fields[row], style) }
    }))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

impl Laid {
    /// Maximum widths of both parts of the column's numbers; the second includes the blank before the unit.
    fn parts(&self) -> (usize, usize) {
        let mut parts = (0, 0);
        for field in &self.fields {
            if let Field::Figure(number, unit, _) = field {
                parts.0 = parts.0.max(width(number));
                parts.1 = parts.1.max(self.gap(unit).len() + width(unit));
            }
            if matches!(field, Field::Unknown) {
                parts.0 = parts.0.max(1);
            }
        }
        parts
    }

    fn gap(&self, unit: &str) -> &'static str {
        if self.is_decimal || unit.is_empty() { "" } else { " " }
    }

    fn width(&self) -> usize {
        let (number, unit) = self.parts();
        let texts = self.fields.iter().map(|field| match field {
            Field::Text(text, _) => width(text),
            _ => 0,
        });
        texts.max().unwrap_or(0).max(number + unit).max(width(&self.head))
    }

    /// Pads the header: left-aligned above text, right-aligned above numbers, and right-aligned with the decimal
    /// point above decimals if it fits.
    fn padded_head(&self) -> String {
        let (columns, (number, unit)) = (self.width(), self.parts());
        let end = match (self.is_decimal, self.is_number) {
            (true, _) => (columns - unit).max(width(&self.head)).max(number),
            (false, true) => columns,
            (false, false) => 0,
        };
        pad(&pad(&self.head, end, true), columns, false)
    }

    fn render(&self, field: &Field, style: Style) -> String {
        let columns = self.width();
        match field {
            Field::Blank => " ".repeat(columns),
            Field::Unknown => {
                let sign = if style.unicode { "–" } else { "-" };
                if self.is_number {
                    self.figure(sign, "", Role::Dim, style)
                } else {
                    paint(sign, Role::Dim, style) + &" ".repeat(columns - 1)
                }
            }
            Field::Figure(number, unit, role) => self.figure(number, unit, *role, style),
            Field::Text(text, role) => {
                let blanks = " ".repeat(columns.saturating_sub(width(text)));
                paint(text, *role, style) + &blanks
            }
        }
    }

    fn figure(&self, number: &str, unit: &str, role: Role, style: Style) -> String {
        let (number_width, unit_width) = self.parts();
        let unit = pad(&format!("{}{unit}", self.gap(unit)), unit_width, false);
        let text = pad(number, number_width, true) + &unit;
        let blanks = self.width().saturating_sub(width(&text));
        let bare = text.trim_end();
        let from = if self.is_decimal { bare.len() - bare.trim_start().len() } else { 0 };
        let (left, right) = (" ".repeat(blanks + from), &text[bare.len()..]);
        format!("{left}{}{right}", paint(&bare[from..], role, style))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: false, width: 40, unicode: true };

    fn sample() -> Table {
        let columns = [
            Column::label("cell"),
            Column::numbers("completed", "1/s").short("rate"),
            Column::decimals("error", "").ranked(2),
            Column::words("binds first").ranked(1),
        ];
        let mut table = Table::new(columns);
        table.rows.push(crate::Row::heading("reads"));
        let row = |name: &str, rate: Cell, error: Cell, words: &str| {
            [Cell::words(name), rate, error, Cell::words(words)]
        };
        table.push(row("a", Cell::words("1.2 k/s"), Cell::words("-0.5"), "controller, 98 %"));
        table.push(row("a", Cell::words("800 /s"), Cell::words("10"), "link"));
        table.push(row("\u{1b}[1m", Cell::none(), Cell::none(), ""));
        table
    }

    #[test]
    fn numbers_and_units_are_aligned_and_labels_are_shown_once() {
        let table = sample();
        let text = lines(&table, Style { width: 80, ..STYLE }).join("\n");
        let expected = "\
cell            rate  error  binds first
reads
  a          1.2 k/s   -0.5  controller, 98 %
             800 /s    10    link
  \\u{1b}[1m    –        –";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_narrow_terminal_hides_the_highest_rank_or_continues_below() {
        let table = sample();
        let (fitted, hidden) = fit(&table, 40, STYLE);
        assert_eq!((fitted.columns.len(), hidden.join(" ")), (3, "error".to_owned()));
        let text = whole(&table, STYLE).join(" ");
        assert!(
            text.ends_with("columns hidden (terminal too narrow): error; --json has all"),
            "{text}"
        );
        let all = in_parts(&table, PartRows::All, STYLE);
        let parts = in_parts(&table, PartRows::Known, STYLE);
        assert!(all.len() > parts.len());
        assert!(parts.iter().all(|line| width(line) <= 40), "{parts:#?}");
        // Rows without known values are left out.
        assert_eq!(parts.iter().filter(|line| line.starts_with("  a")).count(), 2, "{parts:#?}");
        assert_eq!(parts.iter().filter(|line| line.starts_with("reads")).count(), 2);
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        for text in ["דיסק", "a\u{1b}[31m", "a \u{2068}b\u{2069}", "דיסק on דיסק", "µs ×"]
        {
            let once = clean(text, 30, STYLE);
            assert_eq!(harmless(&once, STYLE), once, "{text:?}");
        }
        assert!(!harmless("\u{202e}\u{2068}", STYLE).contains(['\u{202e}', '\u{2068}']));
    }
}
