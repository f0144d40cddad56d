//! Tables with aligned numbers: either right-aligned with left-aligned units, or aligned at the decimal point. Columns
//! that do not fit are omitted by rank ([`fit`]), or continue below with the same labels, as in a paper
//! ([`lines_in_parts`]).

use super::Style;
use super::text::{Role, pad, paint, width};
use std::borrow::Cow;

/// A field of a table.
#[derive(Clone, Debug)]
pub enum Field {
    /// Intentionally blank.
    Empty,
    /// A number that is unknown, or not supported by the samples.
    Missing,
    /// Text, left-aligned.
    Text(String, Role),
    /// A number with its unit; in a column of decimals, the part before the decimal point, and the rest.
    Figure {
        /// Right-aligned part.
        number: String,
        /// Left-aligned part after the number.
        unit: String,
        /// Role, which determines the colour.
        role: Role,
    },
}

impl Field {
    /// A number as written by `units::human`, with an optional unit after the first blank.
    pub fn figure(text: &str, role: Role) -> Self {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        Self::Figure { number: number.to_owned(), unit: unit.to_owned(), role }
    }

    /// A number in a column of decimals, with any marks.
    pub fn decimal(text: &str, role: Role) -> Self {
        // A mark after an integer takes the place of the point.
        let is_before = |c: char| c.is_ascii_digit() || matches!(c, '-' | '<' | '>' | '=' | '~');
        let at = text.find(|c: char| !is_before(c)).filter(|at| *at > 0).unwrap_or(text.len());
        Self::Figure { number: text[..at].to_owned(), unit: text[at..].to_owned(), role }
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Head; blank if none is needed.
    pub head: Cow<'static, str>,
    /// Columns of rank 0 are always shown; of the others, the lowest ranks that fit.
    pub rank: u8,
    /// Decimals: no blank before the text after the point.
    is_decimal: bool,
    /// Fields, one per row.
    pub fields: Vec<Field>,
}

/// Blanks between columns.
const GAP: usize = 2;

impl Column {
    /// A column without fields.
    pub fn new(head: impl Into<Cow<'static, str>>, rank: u8) -> Self {
        Self { head: head.into(), rank, is_decimal: false, fields: Vec::new() }
    }

    /// A column of decimals without fields.
    pub fn decimals(head: impl Into<Cow<'static, str>>) -> Self {
        Self { is_decimal: true, ..Self::new(head, 0) }
    }

    /// A column with these fields, without a head, always shown.
    pub fn unnamed(fields: Vec<Field>) -> Self {
        Self { fields, ..Self::new("", 0) }
    }

    /// Widths of the numbers, and of the units with the blank before them.
    fn parts(&self) -> (usize, usize) {
        let mut parts = (0, 0);
        for field in &self.fields {
            if let Field::Figure { number, unit, .. } = field {
                let gap = usize::from(!self.is_decimal && !unit.is_empty());
                parts.0 = parts.0.max(width(number));
                parts.1 = parts.1.max(gap + width(unit));
            }
            if matches!(field, Field::Missing) {
                parts.0 = parts.0.max(1);
            }
        }
        parts
    }

    /// Width in columns.
    pub fn width(&self) -> usize {
        let (number, unit) = self.parts();
        let texts = self.fields.iter().map(|f| match f {
            Field::Text(text, _) => width(text),
            _ => 0,
        });
        texts.max().unwrap_or(0).max(number + unit).max(width(&self.head))
    }

    /// Head of a column of decimals: right-aligned with their whole parts, if it fits.
    fn head_of_decimals(&self) -> String {
        let (columns, (number, unit)) = (self.width(), self.parts());
        let end =
            if self.is_decimal { (columns - unit).max(width(&self.head)).max(number) } else { 0 };
        pad(&pad(&self.head, end, true), columns, false)
    }

    /// True if two rows have the same text.
    fn is_same_text(&self, a: usize, b: usize) -> bool {
        matches!((&self.fields[a], &self.fields[b]), (Field::Text(a, _), Field::Text(b, _)) if a == b)
    }

    fn is_text(&self) -> bool {
        self.fields.iter().any(|f| matches!(f, Field::Text(..)))
    }

    fn render(&self, field: &Field, style: Style) -> String {
        let columns = self.width();
        let (number_width, unit_width) = self.parts();
        let figure = |number: &str, unit: &str, role| {
            let gap = if self.is_decimal || unit.is_empty() { "" } else { " " };
            let unit = pad(&format!("{gap}{unit}"), unit_width, false);
            let text = pad(number, number_width, true) + &unit;
            let blanks = columns.saturating_sub(width(&text));
            let bare = text.trim_end();
            let from = if self.is_decimal { bare.len() - bare.trim_start().len() } else { 0 };
            let (left, right) = (" ".repeat(blanks + from), &text[bare.len()..]);
            format!("{left}{}{right}", paint(&bare[from..], role, style))
        };
        match field {
            Field::Empty => " ".repeat(columns),
            Field::Missing => figure(if style.unicode { "–" } else { "-" }, "", Role::Dim),
            Field::Figure { number, unit, role } => figure(number, unit, *role),
            Field::Text(text, role) => {
                let blanks = " ".repeat(columns.saturating_sub(width(text)));
                paint(text, *role, style) + &blanks
            }
        }
    }
}

/// Width of a table with these columns.
pub fn total_width<'a>(columns: impl IntoIterator<Item = &'a Column>) -> usize {
    columns.into_iter().map(|c| c.width() + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Keeps the columns that fit into `available`, lowest ranks first. Returns the heads of the others, in their original
/// order.
pub fn fit(columns: &mut Vec<Column>, available: usize) -> Vec<Cow<'static, str>> {
    let mut left_out = Vec::new();
    let heads: Vec<Cow<'static, str>> = columns.iter().map(|c| c.head.clone()).collect();
    while total_width(columns.iter()) > available {
        let ranked = columns.iter().enumerate().filter(|(_, c)| c.rank > 0);
        let Some((i, _)) = ranked.max_by_key(|(_, c)| c.rank) else { break };
        left_out.push(columns.remove(i).head);
    }
    left_out.sort_by_key(|head| heads.iter().position(|h| h == head));
    left_out
}

/// The line of heads and one line per row.
pub fn lines(columns: &[Column], style: Style) -> Vec<String> {
    let gap = " ".repeat(GAP);
    let heads: Vec<String> = columns
        .iter()
        .map(|c| paint(&pad(&c.head, c.width(), !c.is_text()), Role::Dim, style))
        .collect();
    let rows = columns.iter().map(|c| c.fields.len()).max().unwrap_or(0);
    let mut lines = vec![heads.join(&gap)];
    for row in 0..rows {
        let fields = columns.iter().map(|c| c.render(&c.fields[row], style));
        lines.push(fields.collect::<Vec<_>>().join(&gap));
    }
    lines
}

/// Formats a table: a line of heads and one per row, repeated for the columns that did not fit. Of rows with equal
/// labels only the first shows them. Omits rows without known values, and headings (rows with only a label) without
/// rows.
pub fn lines_in_parts(labels: &[Column], columns: &[Column], style: Style) -> Vec<String> {
    let gap = " ".repeat(GAP);
    let available =
        style.columns().saturating_sub(labels.iter().map(|c| c.width() + GAP).sum::<usize>());
    let mut lines = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let fit = |n: &usize| *n == 1 || total_width(&rest[..*n]) <= available;
        let (part, others) = rest.split_at((1..=rest.len()).take_while(fit).count());
        rest = others;
        let shown = || labels.iter().chain(part);
        if shown().any(|c| !c.head.trim().is_empty()) {
            let heads = shown().map(|c| {
                // Trailing blanks stay unpainted, so that they can be cut at the end of a line.
                let head = c.head_of_decimals();
                let bare = head.trim_end();
                paint(bare, Role::Dim, style) + &head[bare.len()..]
            });
            lines.push(heads.collect::<Vec<_>>().join(&gap));
        }
        let (mut before, mut heading) = (None, None);
        for row in 0..part.first().map_or(0, |c| c.fields.len()) {
            let all = |is: fn(&Field) -> bool| part.iter().all(|c| is(&c.fields[row]));
            if all(|field| matches!(field, Field::Missing)) {
                continue;
            }
            let is_heading = all(|field| matches!(field, Field::Empty));
            if is_heading {
                before = None;
            }
            let is_known = |i, c: &Column| i == 0 && before.is_some_and(|b| c.is_same_text(b, row));
            let field = |(i, c): (usize, &Column)| {
                c.render(if is_known(i, c) { &Field::Empty } else { &c.fields[row] }, style)
            };
            let line = shown().enumerate().map(field).collect::<Vec<_>>().join(&gap);
            if is_heading {
                heading = Some(line);
            } else {
                lines.extend(heading.take());
                lines.push(line);
                before = Some(row);
            }
        }
    }
    lines
}
