//! A table: the data behind a figure, or a table of its own. HTML, Markdown, CSV and the terminal render it.

use crate::Quantity;

/// A table with typed columns; rows may be grouped under headings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Content of the table, in a line.
    pub caption: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
    /// Remarks needed for reading the table, each a sentence.
    pub notes: Vec<String>,
}

/// Head, unit and layout of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Head of the column.
    pub title: String,
    /// Shorter head for a terminal; may be empty.
    pub short: String,
    /// Unit of the raw values, for data files: `ns`, `bytes/s`; may be empty.
    pub unit: String,
    /// The cells are numbers, aligned right.
    pub is_number: bool,
    /// The cells are numbers in one unit, aligned at the decimal point on a terminal.
    pub is_decimal: bool,
    /// The column names its row. On a terminal, a repeated label is shown once, and labels are repeated with each part
    /// of a wide table.
    pub is_label: bool,
    /// Columns of rank 0 are always shown. If a terminal is too narrow, the highest ranks are hidden first.
    pub rank: u8,
}

/// A row of cells, or a heading above several rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// One cell per column.
    pub cells: Vec<Cell>,
    /// Heading of the rows that follow: its first cell spans the table.
    pub is_heading: bool,
}

/// A cell: a text for display, and the raw value behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Displayed text.
    pub text: String,
    /// Raw value in the column's unit, for a number.
    pub value: Option<f64>,
    /// Tone, shown as a colour, with a sign or a word.
    pub tone: Tone,
    /// Position between the lowest (0) and highest value (1) of the table; colours the background.
    pub heat: Option<f64>,
    /// Text shown under the pointer, and read aloud by screen readers; may be empty.
    pub note: String,
}

/// Tone of an item. Never shown by colour alone: a sign or a word accompanies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No emphasis.
    #[default]
    Plain,
    /// Less important than the rest.
    Dim,
    /// A name, or the most important number of a row.
    Strong,
    /// A good result.
    Good,
    /// A note that does not limit the validity of the numbers.
    Note,
    /// Limits the validity of the numbers.
    Warning,
    /// Failed, or the numbers must not be used.
    Bad,
}

impl Table {
    /// A table with these columns, and no rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), ..Self::default() }
    }

    /// Adds a row with one cell per column.
    pub fn push(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(Row::from(cells.into()));
    }

    /// The table with the columns that `keeps` selects by number and content.
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

    /// The table with its labels as headings of the rows that they name.
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

    /// The table without columns whose cells are all empty or unknown. Labels stay.
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
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A column that names its rows.
    pub fn label(title: impl Into<String>) -> Self {
        Self { is_label: true, ..Self::words(title) }
    }

    /// A column of numbers whose raw values have the unit `unit`.
    pub fn numbers(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), is_number: true, ..Self::default() }
    }

    /// A column of numbers that are displayed in one unit.
    pub fn decimals(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { is_decimal: true, ..Self::numbers(title, unit) }
    }

    /// Sets the shorter head for terminals.
    #[must_use]
    pub fn short(self, head: impl Into<String>) -> Self {
        Self { short: head.into(), ..self }
    }

    /// Sets how early the column is hidden on a narrow terminal ([`Column::rank`]).
    #[must_use]
    pub fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

impl Cell {
    /// A cell of text.
    pub fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number: its displayed text, and its raw value.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value), ..Self::default() }
    }

    /// A number of this quantity; unknown if it is missing or not finite.
    pub fn of(quantity: Quantity, value: impl Into<Option<f64>>) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        value.map_or_else(Self::none, |value| Self::number(quantity.words(value), value))
    }

    /// An unknown value.
    pub fn none() -> Self {
        Self { text: UNKNOWN.to_owned(), tone: Tone::Dim, ..Self::default() }
    }

    /// A blank cell.
    pub fn empty() -> Self {
        Self::default()
    }

    /// True for an unknown value.
    pub fn is_none(&self) -> bool {
        self.text == UNKNOWN
    }

    /// True for a blank cell.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Sets the cell's tone.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// Text of an unknown value.
const UNKNOWN: &str = "–";

impl Row {
    /// A heading of the rows that follow.
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

    /// Equal labels in consecutive rows become one heading; those of other columns don't count.
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
