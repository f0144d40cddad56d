//! A table: what stands behind a figure, and what is a table by itself.

/// A table of words and numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows, in a line.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
    /// What must be known to read it, each in a sentence.
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
    /// As people read it.
    pub text: String,
    /// Its value in the column's unit, where it is a number.
    pub value: Option<f64>,
    /// How it is to be taken.
    pub tone: Tone,
    /// Colours its ground: its place between the least (0) and the most (1) of its table.
    pub heat: Option<f64>,
    /// What is shown when it is pointed at, or read aloud; may be empty.
    pub note: String,
}

/// How something is to be taken. Never told by colour alone: a sign or a word goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is to be said of it.
    #[default]
    Plain,
    /// Of less weight.
    Dim,
    /// It is well.
    Good,
    /// To be known.
    Note,
    /// It limits what the numbers are worth.
    Warning,
    /// The numbers are worth nothing, or something failed.
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

    /// A number, as people read it and as it is.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value), ..Self::default() }
    }

    /// Nothing is known.
    pub fn none() -> Self {
        Self { text: "–".to_owned(), tone: Tone::Dim, ..Self::default() }
    }

    /// The same, to be taken so.
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
