//! A table: the data behind a figure, or a table of its own.

/// A table of words and numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Content of the table, in a line.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
    /// Remarks needed for reading the table, each a sentence.
    pub notes: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Head.
    pub title: String,
    /// Unit of the raw values, for data files: `ns`, `bytes/s`; may be empty.
    pub unit: String,
    /// The cells are numbers, aligned right.
    pub is_number: bool,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Cells.
    pub cells: Vec<Cell>,
    /// Heading of the rows that follow: its first cell spans the table.
    pub is_heading: bool,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Displayed text.
    pub text: String,
    /// Raw value in the column's unit, for a number.
    pub value: Option<f64>,
    /// Tone.
    pub tone: Tone,
    /// Position between the lowest (0) and highest value (1) of the table; colours the background.
    pub heat: Option<f64>,
    /// Text under the pointer, or read aloud; may be empty.
    pub note: String,
}

/// Tone of an item. Never shown by colour alone: a sign or a word accompanies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neutral.
    #[default]
    Plain,
    /// Secondary.
    Dim,
    /// A good result.
    Good,
    /// Information.
    Note,
    /// Limits the validity of the numbers.
    Warning,
    /// Failed, or the numbers must not be used.
    Bad,
}

impl Column {
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A column of numbers whose raw values have the unit `unit`.
    pub fn numbers(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), is_number: true }
    }
}

impl Cell {
    /// A cell of text.
    pub fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number, as displayed and raw.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value), ..Self::default() }
    }

    /// An unknown value.
    pub fn none() -> Self {
        Self { text: "–".to_owned(), tone: Tone::Dim, ..Self::default() }
    }

    /// Sets the tone.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, is_heading: false }
    }
}
