//! Text for a terminal: the terminal's abilities, harmless text that fits, tables. The caller decides the content.
//!
//! Nothing here queries the terminal: the caller passes its width, and whether it shows colours and non-ASCII
//! characters. Text from files, devices and servers reaches a terminal only through [`clean`](text::clean).

mod lines;
pub mod table;
pub mod text;

pub use lines::Lines;

/// What the terminal can show: colours, width, symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colours (ANSI escape sequences) are supported.
    pub color: bool,
    /// Width in columns; less than 40 counts as 40.
    pub width: usize,
    /// Non-ASCII characters are supported.
    pub unicode: bool,
}

impl Style {
    /// Columns to fill: the width, at least 40.
    pub fn columns(self) -> usize {
        self.width.max(40)
    }

    /// Separator between the parts of a line: `·`, or its ASCII form.
    pub fn dot(self) -> &'static str {
        if self.unicode { " · " } else { " - " }
    }
}
