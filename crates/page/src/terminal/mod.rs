//! Text for a terminal: what the terminal can show, text that is harmless and fits, tables. What the text
//! says is the caller's.
//!
//! Nothing here asks the terminal anything: the caller says how wide it is, whether it shows colours, and
//! whether it shows more than ASCII. Text from files, devices and servers reaches a terminal only through
//! [`clean`](text::clean).

pub mod table;
pub mod text;

/// What the terminal can do.
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
