//! A table whose numbers stand under each other: figures to the right, their units to the left in
//! a column of their own, columns that do not fit left out by rank.

use super::Style;
use super::text::{Role, pad, paint, width};
use std::borrow::Cow;

/// One field.
#[derive(Clone, Debug)]
pub enum Field {
    /// Nothing belongs here.
    Empty,
    /// A figure that is not known, or not supported by the samples.
    Missing,
    /// Words, to the left.
    Text(String, Role),
    /// A figure with its unit.
    Figure {
        /// To the right.
        number: String,
        /// Beside it, in a column of its own.
        unit: String,
        /// Its colour.
        role: Role,
    },
}

impl Field {
    /// A figure as `units::human` writes it: the unit after the last blank, if any.
    pub fn figure(text: &str, role: Role) -> Self {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        Self::Figure { number: number.to_owned(), unit: unit.to_owned(), role }
    }
}

/// One column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name; blank for columns that speak for themselves.
    pub head: Cow<'static, str>,
    /// Columns of rank 0 are always shown; of the others the lowest ranks that fit.
    pub rank: u8,
    /// Its fields, one a row.
    pub fields: Vec<Field>,
}

/// Blanks between two columns.
const GAP: usize = 2;

impl Column {
    /// A column without fields.
    pub fn new(head: impl Into<Cow<'static, str>>, rank: u8) -> Self {
        Self { head: head.into(), rank, fields: Vec::new() }
    }

    /// Columns that the numbers and the units take.
    fn parts(&self) -> (usize, usize) {
        let mut parts = (0, 0);
        for field in &self.fields {
            if let Field::Figure { number, unit, .. } = field {
                parts.0 = parts.0.max(width(number));
                parts.1 = parts.1.max(width(unit));
            }
            if matches!(field, Field::Missing) {
                parts.0 = parts.0.max(1);
            }
        }
        parts
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        let (number, unit) = self.parts();
        let figures = number + if unit > 0 { 1 + unit } else { 0 };
        let texts = self.fields.iter().map(|f| match f {
            Field::Text(text, _) => width(text),
            _ => 0,
        });
        texts.max().unwrap_or(0).max(figures).max(width(&self.head))
    }

    fn is_text(&self) -> bool {
        self.fields.iter().any(|f| matches!(f, Field::Text(..)))
    }

    fn render(&self, field: &Field, style: Style) -> String {
        let columns = self.width();
        let (number_width, unit_width) = self.parts();
        let figure = |number: &str, unit: &str, role| {
            let number = pad(number, number_width, true);
            let text = if unit_width > 0 {
                format!("{number} {}", pad(unit, unit_width, false))
            } else {
                number
            };
            let blanks = " ".repeat(columns.saturating_sub(width(&text)));
            let bare = text.trim_end();
            let tail = &text[bare.len()..];
            format!("{blanks}{}{tail}", paint(bare, role, style))
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

/// Columns that a table of these takes.
pub fn total_width<'a>(columns: impl IntoIterator<Item = &'a Column>) -> usize {
    columns.into_iter().map(|c| c.width() + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Keeps the columns that fit into `available`, the lowest ranks first; gives the heads of those
/// that were left out, in their order.
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

/// The line of heads and one line for each row.
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
