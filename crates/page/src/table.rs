//! Tables, either in a document or with the data of a figure. A table can be rendered as HTML, Markdown, CSV or
//! terminal text.

use crate::Quantity;

/// A table with typed columns, whose rows may be grouped under headings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// One-line description of the table's content.
    pub caption: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows from top to bottom. A row has one cell per column; a heading has a single cell.
    pub rows: Vec<Row>,
    /// Sentences that help to read the table, shown below it.
    pub notes: Vec<String>,
}

/// Header, unit and layout of a table column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Header of the column in full.
    pub title: String,
    /// Shorter header of the column for a terminal; empty to use the title.
    pub short: String,
    /// Unit of the raw values, for data files: `ns`, `bytes/s`; may be empty.
    pub unit: String,
    /// Whether the cells contain numbers, which are aligned right.
    pub is_number: bool,
    /// Whether the cells contain numbers in one unit, which a terminal aligns at the decimal point.
    pub is_decimal: bool,
    /// Whether the column labels its rows. A terminal omits a label equal to that of the row above, and repeats
    /// the label columns in each part of a wide table.
    pub is_label: bool,
    /// Priority for hiding on a narrow terminal: columns of the highest rank are hidden first, those of rank 0
    /// never.
    pub rank: u8,
}

/// A row of cells, or a heading above several rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Cells of the row, one per column; a heading has a single cell.
    pub cells: Vec<Cell>,
    /// Whether the row is a heading of the rows below. Its first cell spans the table.
    pub is_heading: bool,
}

/// A table cell: displayed text, and the raw value of a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Text displayed in the cell, with the number already formatted.
    pub text: String,
    /// Raw value in the column's unit; `None` if the cell is not a number.
    pub value: Option<f64>,
    /// Emphasis or severity of the cell, shown by colour and by a sign or word.
    pub tone: Tone,
    /// Position of the value between the table's lowest (0) and highest (1), shown as background colour; `None`
    /// for no colour.
    pub heat: Option<f64>,
    /// Tooltip, also read by screen readers; may be empty.
    pub note: String,
}

/// Emphasis or severity of an item. It is never shown by colour alone, but also by a sign or word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Normal text, without emphasis.
    #[default]
    Plain,
    /// Less important than the rest.
    Dim,
    /// Emphasised, such as a name or the most important number of a row.
    Strong,
    /// A good result, such as a limit that was met.
    Good,
    /// A note that does not limit the validity of the numbers.
    Note,
    /// A problem that limits the validity of the numbers.
    Warning,
    /// A failure, or numbers that must not be used.
    Bad,
}

impl Table {
    /// Creates a table without rows, caption and notes.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), ..Self::default() }
    }

    /// Adds a row with one cell per column.
    pub fn push(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(Row::from(cells.into()));
    }

    /// Copies the table with only the columns for which `keeps` returns true. The arguments of `keeps` are the column's
    /// index and the column.
    #[must_use]
    pub fn selected(&self, keeps: impl Fn(usize, &Column) -> bool) -> Self {
        let keeps: Vec<bool> =
            self.columns.iter().enumerate().map(|(i, column)| keeps(i, column)).collect();
        let row = |row: &Row| Row { cells: kept(&row.cells, &keeps), is_heading: row.is_heading };
        Self {
            columns: kept(&self.columns, &keeps),
            rows: self
                .rows
                .iter()
                .map(|it| if it.is_heading { it.clone() } else { row(it) })
                .collect(),
            ..self.clone()
        }
    }

    /// Copies the table with the label columns replaced by heading rows.
    #[must_use]
    pub fn under_headings(&self) -> Self {
        let labels = self.selected(|_, column| column.is_label);
        let others = self.selected(|_, column| !column.is_label);
        let mut rows: Vec<Row> = Vec::new();
        let mut before = None;
        for (label, row) in labels.rows.into_iter().zip(others.rows) {
            if before.as_ref() != Some(&label) {
                let texts: Vec<&str> = label.cells.iter().map(|cell| cell.text.as_str()).collect();
                rows.push(Row::heading(texts.join("  ")));
            }
            rows.push(row);
            before = Some(label);
        }
        Self { rows, ..others }
    }

    /// Copies the table without columns whose cells are all empty or unknown. Label columns are kept.
    #[must_use]
    pub fn without_blank_columns(&self) -> Self {
        self.selected(|i, column| {
            let mut cells = self.rows.iter().filter_map(|row| row.cells.get(i));
            column.is_label || cells.any(|cell| !cell.is_empty() && !cell.is_none())
        })
    }
}

fn kept<T: Clone>(all: &[T], keeps: &[bool]) -> Vec<T> {
    all.iter().zip(keeps).filter(|(_, keeps)| **keeps).map(|(it, _)| it.clone()).collect()
}

impl Column {
    /// Creates a column of text, which a terminal aligns left.
    pub fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Creates a column that labels its rows.
    pub fn label(title: impl Into<String>) -> Self {
        Self { is_label: true, ..Self::words(title) }
    }

    /// Creates a column of numbers whose raw values are in `unit`.
    pub fn numbers(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), is_number: true, ..Self::default() }
    }

    /// Creates a column of numbers in `unit` that a terminal aligns at the decimal point.
    pub fn decimals(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { is_decimal: true, ..Self::numbers(title, unit) }
    }

    /// Sets the shorter header that terminals use.
    #[must_use]
    pub fn short(self, head: impl Into<String>) -> Self {
        Self { short: head.into(), ..self }
    }

    /// Sets the priority for hiding the column on a narrow terminal ([`Column::rank`]).
    #[must_use]
    pub fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

impl Cell {
    /// Creates a cell of text, without a raw value.
    pub fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a cell for a number, from its displayed text and its raw value.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value), ..Self::default() }
    }

    /// Creates a cell for a value of a quantity. The cell shows an unknown value if `value` is `None` or not finite.
    pub fn of(quantity: Quantity, value: impl Into<Option<f64>>) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        value.map_or_else(Self::none, |value| Self::number(quantity.words(value), value))
    }

    /// Creates a cell for an unknown value, shown as a dash.
    pub fn none() -> Self {
        Self { text: UNKNOWN.to_owned(), tone: Tone::Dim, ..Self::default() }
    }

    /// Creates a blank cell, which is left empty rather than shown as unknown.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Whether the cell is an unknown value.
    pub fn is_none(&self) -> bool {
        self.text == UNKNOWN
    }

    /// Whether the cell displays no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Sets the emphasis or severity, which determines colour and weight of the text.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// Displayed text of an unknown value.
const UNKNOWN: &str = "–";

impl Row {
    /// Creates a heading for the rows below.
    pub fn heading(text: impl Into<String>) -> Self {
        Self { cells: vec![Cell::words(text)], is_heading: true }
    }
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, is_heading: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive rows with equal labels get a single heading; other columns have no influence.
    #[test]
    fn labels_become_headings() {
        let mut table =
            Table::new([Column::label("cell"), Column::words("figure"), Column::label("load")]);
        for (cell, figure, load) in
            [("a", "x", "1"), ("a", "y", "1"), ("a", "x", "2"), ("b", "x", "2")]
        {
            table.push([cell, figure, load].map(Cell::words));
        }
        let headed = table.under_headings();
        assert_eq!(headed.columns, [Column::words("figure")]);
        let texts: Vec<&str> = headed.rows.iter().map(|row| row.cells[0].text.as_str()).collect();
        assert_eq!(texts, ["a  1", "x", "y", "a  2", "x", "b  2", "x"]);
        assert!(headed.rows.iter().all(|row| row.is_heading == row.cells[0].text.contains("  ")));
    }
}
