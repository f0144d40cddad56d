//! A table: the data behind a figure, or a table by itself.

/// A table of words and numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its content, in a line.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
    /// Remarks needed to read it, each in a sentence.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Its head.
    pub title: String,
    /// The unit of the raw values of its cells, for data files: `ns`, `bytes/s`; may be empty.
    pub unit: String,
    /// Its cells are numbers: set to the right.
    pub is_number: bool,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its cells.
    pub cells: Vec<Cell>,
    /// It heads the rows that follow: its first cell spans the table.
    pub is_heading: bool,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its displayed text.
    pub text: String,
    /// Its value in the column's unit, where it is a number.
    pub value: Option<f64>,
    /// Its tone.
    pub tone: Tone,
    /// Colours its ground: its position between the least (0) and the most (1) of its table.
    pub heat: Option<f64>,
    /// Text under the pointer, or read aloud; may be empty.
    pub note: String,
}

/// The tone of an item. Never shown by colour alone: a sign or a word goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neutral.
    #[default]
    Plain,
    /// Of less weight.
    Dim,
    /// A good result.
    Good,
    /// Information.
    Note,
    /// It limits the value of the numbers.
    Warning,
    /// The numbers must not be used, or something failed.
    Bad,
}

impl Column {
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A column of numbers whose raw values have `unit`.
    pub fn numbers(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), is_number: true }
    }
}

impl Cell {
    /// Words.
    pub fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number, as displayed and as it is.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value), ..Self::default() }
    }

    /// Unknown.
    pub fn none() -> Self {
        Self { text: "–".to_owned(), tone: Tone::Dim, ..Self::default() }
    }

    /// The same, with this tone.
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
