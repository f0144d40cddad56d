//! Formats text and tables for a terminal with given capabilities, and makes untrusted text safe.
//!
//! The caller passes the terminal's width, and whether it shows colours and non-ASCII characters. Text from files,
//! devices and servers reaches a terminal only through [`clean`](text::clean).

mod lines;
pub mod table;
pub mod text;

pub use lines::Lines;

/// Capabilities of the terminal: colours, width and character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colours (ANSI escape sequences) are supported.
    pub color: bool,
    /// Width in character columns; less than 40 is treated as 40.
    pub width: usize,
    /// Whether non-ASCII characters are supported.
    pub unicode: bool,
}

impl Style {
    /// Usable width in character columns, at least 40.
    pub fn columns(self) -> usize {
        self.width.max(40)
    }

    /// Separator between items of a line: `·`, or an ASCII substitute.
    pub fn dot(self) -> &'static str {
        if self.unicode { " · " } else { " - " }
    }
}
