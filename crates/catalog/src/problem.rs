//! Rendering of errors in a file (position, message, remedy). The output looks like rustc's, because rustc uses the
//! same renderer (`annotate-snippets`). No other module uses the renderer.

use core::fmt;
use core::ops::Range;
use std::borrow::Cow;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use iodyno_units::text::{clean, clean_lines, is_hidden};

use crate::error::FileError;
use crate::file::File;

/// One or more errors in a file. `Display` shows them with the affected lines, without colours or a trailing
/// newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    origin: String,
    text: Option<Arc<str>>,
    labels: Vec<(Range<usize>, String)>,
    message: String,
    help: Vec<String>,
    /// Whether the file's text must not be shown.
    is_withheld: bool,
}

impl Problem {
    /// Creates a problem that concerns a whole file, such as one that cannot be read.
    pub fn new(origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            origin: origin.into(),
            text: None,
            labels: Vec::new(),
            message: message.into(),
            help: Vec::new(),
            is_withheld: false,
        }
    }

    /// Creates a problem at the byte range `span` of a file, clipped to its text. For a file named by another file,
    /// only the line number is shown.
    pub fn at(
        file: &File,
        span: Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        let problem = Self {
            text: Some(Arc::clone(&file.text)),
            labels: vec![(within(&file.text, span), String::new())],
            help: help.into_iter().collect(),
            ..Self::new(file.origin.clone(), message)
        };
        if file.is_named_by_file { problem.withheld() } else { problem }
    }

    /// Replaces position, message and remedy by the line number alone, so that no text of the file is shown. Used for
    /// files that another file, rather than the user, names.
    #[must_use]
    pub fn withheld(self) -> Self {
        let Some((line, _)) = self.line_column() else { return self };
        let origin = format!("{}:{line}", self.origin);
        let message = "this file, to which another file refers, is not valid; the contents of such files are not shown";
        let help = "to see the errors, give the file's path on the command line".to_owned();
        Self { help: vec![help], is_withheld: true, ..Self::new(origin, message) }
    }

    /// Combines several errors in a file. The first is the title, the others become labels at their positions. All
    /// remedies are listed.
    pub fn of(file: &File, errors: &[FileError]) -> Self {
        let Some((first, rest)) = errors.split_first() else {
            return Self::new(file.origin.as_str(), "the file is not valid");
        };
        let mut problem = Self::at(file, first.span.clone(), first.message.as_str(), None);
        if problem.is_withheld {
            return problem;
        }
        problem.help = errors.iter().filter_map(|error| error.help.clone()).collect();
        problem.help.dedup();
        rest.iter().fold(problem, |p, e| p.also(e.span.clone(), e.message.as_str()))
    }

    /// Sets the suggested remedy, replacing earlier ones. No effect if the file's text is withheld.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        if !self.is_withheld {
            self.help = vec![help.into()];
        }
        self
    }

    /// Sets the label shown at the caret of [`Problem::at`].
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        if let Some(first) = self.labels.first_mut() {
            first.1 = label.into();
        }
        self
    }

    /// Adds a labelled position related to the problem, such as that of a contradicting key.
    #[must_use]
    pub fn also(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        if let Some(text) = &self.text {
            self.labels.push((within(text, span), label.into()));
        }
        self
    }

    /// Origin of the file: its path, or `catalog:FOLDER/NAME.toml`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Error message, one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Suggested remedy; with several errors, that of the first. `None` if there is none.
    pub fn help(&self) -> Option<&str> {
        self.help.first().map(String::as_str)
    }

    /// Line and column (in characters) of the problem, both counted from 1; `None` if it concerns the whole file.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        let before = &self.text.as_deref()?[..self.labels.first()?.0.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.split('\n').count();
        Some((line, before[line_start..].chars().count() + 1))
    }

    /// Renders the problem: message, file:line:column, the affected lines with carets, and the remedy. `color`
    /// adds ANSI escape sequences.
    pub fn render(&self, color: bool) -> String {
        let (message, origin) = (clean_lines(&self.message), clean(&self.origin));
        let help: Vec<_> = self.help.iter().map(|help| clean_lines(help)).collect();
        let text = self.text.as_deref().map(same_length);
        let labels: Vec<_> = self.labels.iter().map(|(span, it)| (span, clean(it))).collect();
        let title = Level::ERROR.primary_title(&*message);
        let mut group = match &text {
            Some(text) => {
                let marks = labels.iter().enumerate().map(|(i, (span, label))| {
                    let kind =
                        if i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                    let label = (!label.is_empty()).then_some(&**label);
                    kind.span((*span).clone()).label(label)
                });
                let snippet = Snippet::source(&**text).path(&*origin);
                Group::with_title(title).element(snippet.annotations(marks))
            }
            None => Group::with_title(title).element(Origin::path(&*origin)),
        };
        for help in &help {
            group = group.element(Level::HELP.message(&**help));
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

/// Replaces each invisible character by a visible one of the same length in bytes, so that positions stay
/// valid.
fn same_length(text: &str) -> Cow<'_, str> {
    let replaced = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t' | '\r');
    if !text.contains(replaced) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| match c {
        c if !replaced(c) => c,
        c if c.len_utf8() == 1 => '?',
        c if c.len_utf8() == 2 => '¿',
        c if c.len_utf8() == 3 => '\u{fffd}',
        _ => '\u{1f63f}',
    };
    Cow::Owned(text.chars().map(show).collect())
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl core::error::Error for Problem {}

/// Clips a byte range to `text` and extends it to character boundaries.
fn within(text: &str, span: Range<usize>) -> Range<usize> {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}
