//! Builds a text line by line, formatted for the terminal.

use super::Style;
use super::text::{Role, clean, hanging, pad, paint, shown};

/// Builder for terminal output, line by line.
pub struct Lines {
    style: Style,
    text: String,
}

impl Lines {
    /// Creates an empty text for a terminal with these capabilities.
    pub const fn new(style: Style) -> Self {
        Self { style, text: String::new() }
    }

    pub const fn style(&self) -> Style {
        self.style
    }

    /// Adds a line, which may contain colours. Symbols that the terminal cannot display are replaced by ASCII.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(&shown(line.trim_end(), self.style));
        self.text.push('\n');
    }

    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a heading: the subject in bold, and the origin of its numbers dimmed.
    pub fn heading(&mut self, subject: &str, origin: &str) {
        let subject = paint(&clean(subject, usize::MAX, self.style), Role::Bold, self.style);
        self.line(&format!("{subject}  {}", paint(origin, Role::Dim, self.style)));
        self.blank();
    }

    /// Adds a label, padded to `columns`, followed by wrapped text.
    pub fn labelled(&mut self, label: &str, columns: usize, words: &str) {
        let label = paint(&pad(label, columns, false), Role::Dim, self.style);
        let words = clean(words, usize::MAX, self.style);
        for line in hanging(&format!("  {label}  "), 2 + columns + 2, &words, self.style) {
            self.line(&line);
        }
    }

    pub fn end(self) -> String {
        self.text
    }
}
