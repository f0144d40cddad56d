//! Text for a terminal: its abilities, text that is harmless and fits, tables. The content of the text is up to
//! the caller.
//!
//! Nothing here queries the terminal: the caller passes its width, and whether it shows colours and more than
//! ASCII. Text from files, devices and servers reaches a terminal only through [`clean`](text::clean).

pub mod table;
pub mod text;

/// The abilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// It shows colours (ANSI escape sequences).
    pub color: bool,
    /// Its width in columns; under 40 is taken for 40.
    pub width: usize,
    /// It shows more than ASCII.
    pub unicode: bool,
}

impl Style {
    /// Columns to fill: its width, 40 at least.
    pub fn columns(self) -> usize {
        self.width.max(40)
    }

    /// Between the parts of a line.
    pub fn dot(self) -> &'static str {
        if self.unicode { " · " } else { " - " }
    }
}
