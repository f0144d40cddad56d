//! Refusals, notes and traps that the reader of a foreign text collects. [`Found::spec`] parses the workload that the
//! reader generates, and reports a rule that it breaks at the option from which it came. fio's job files have their own
//! collector (`fio/reading.rs`): their options belong to sections of several files.

use crate::command_line::{self, Word};
use crate::fio::Note;
use iodyno_catalog::{File, FileError, Problem};
use iodyno_workload::Spec;
use std::ops::Range;

/// Refusals, notes and traps of one text.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) file: &'a File,
    refused: Vec<FileError>,
    pub(crate) notes: Vec<Note>,
    pub(crate) traps: Vec<Note>,
}

impl<'a> Found<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self { file, refused: Vec::new(), notes: Vec::new(), traps: Vec::new() }
    }

    /// Words of the command line after its program. Shell syntax around them is noted or refused, and shell variables
    /// are refused by name. None if anything was refused. `escapes`: a backslash escapes the next character.
    pub(crate) fn line(&mut self, line: &str, escapes: bool) -> Option<Vec<Word>> {
        match command_line::read(line, escapes) {
            Ok(read) => {
                for (span, words) in read.notes {
                    self.note(&span, words);
                }
                for word in &read.words {
                    let bare = unquoted(line.get(word.span.clone()).unwrap_or_default(), escapes);
                    if let Some(name) = variable(&bare).or_else(|| of_windows(&bare, escapes)) {
                        let words = format!(
                            "`{name}` is a variable of a shell, which iodyno does not replace"
                        );
                        self.refuse(&word.span, words, "write its value");
                    }
                }
                (!self.is_refused()).then_some(read.words)
            }
            Err(fault) => {
                self.refuse(&fault.span, fault.words, fault.help);
                None
            }
        }
    }

    /// Refuses the text at `span`: it changes the result and can't be honoured.
    pub(crate) fn refuse(
        &mut self,
        span: &Range<usize>,
        words: impl Into<String>,
        help: impl Into<String>,
    ) {
        let error = FileError::new(span.clone(), words);
        let help = help.into();
        self.refused.push(if help.is_empty() { error } else { error.with_help(help) });
    }

    /// Adds a remark on something that changes no result or needs an explanation; duplicates are dropped.
    pub(crate) fn note(&mut self, span: &Range<usize>, words: impl Into<String>) {
        let note = Note::new(self.at(span), words);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Warns about a setting whose result the writer of the text may not expect.
    pub(crate) fn trap(&mut self, span: &Range<usize>, words: impl Into<String>) {
        self.add_trap(Note::new(self.at(span), words));
    }

    /// Adds a warning about something on which a run also gives a verdict.
    pub(crate) fn judged_trap(&mut self, span: &Range<usize>, words: impl Into<String>) {
        self.add_trap(Note { is_judged: true, ..Note::new(self.at(span), words) });
    }

    fn add_trap(&mut self, trap: Note) {
        if !self.traps.contains(&trap) {
            self.traps.push(trap);
        }
    }

    /// Origin of the text, with the line number if the text has several lines.
    fn at(&self, span: &Range<usize>) -> String {
        if !self.file.text.trim_end().contains('\n') {
            return self.file.origin.clone();
        }
        let before = self.file.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("{}:{line}", self.file.origin)
    }

    pub(crate) fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Parses a workload file that has each key on a separate line. `place_of` maps a key to its position in the
    /// foreign text. None if the workload is not valid, which is refused, or if anything was refused before.
    pub(crate) fn spec(
        &mut self,
        toml: &str,
        place_of: impl Fn(&str) -> Range<usize>,
    ) -> Option<Spec> {
        if self.is_refused() {
            return None;
        }
        match Spec::from_toml(toml) {
            Ok(spec) => Some(spec),
            Err(errors) => {
                for error in errors {
                    let at = error.span.start.min(toml.len());
                    let start = toml[..at].rfind('\n').map_or(0, |newline| newline + 1);
                    let key = toml[start..].split(['=', ' ', ']']).next().unwrap_or_default();
                    let words = format!("this is not a valid workload: {}", error.message);
                    self.refuse(&place_of(key), words, error.help.unwrap_or_default());
                }
                None
            }
        }
    }

    /// All refusals as one problem.
    pub(crate) fn problem(mut self) -> Problem {
        self.refused.sort_by_key(|error| error.span.start);
        self.refused.dedup();
        Problem::of(self.file, &self.refused)
    }
}

/// The first variable of a text: `$NAME` or `${NAME}`.
pub(crate) fn variable(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices('$').find_map(|(at, _)| {
        let name = &text[at + 1..];
        if let Some(inner) = name.strip_prefix('{') {
            return Some(&text[at..at + inner.find('}')? + 3]);
        }
        let len = name.find(|c: char| !is_name(c)).unwrap_or(name.len());
        let begins = name.starts_with(|c: char| is_name(c) && !c.is_ascii_digit());
        begins.then(|| &text[at..at + 1 + len])
    })
}

/// First variable of the Windows shell, `%NAME%`. None with `escapes`: a Unix shell reads the line then.
fn of_windows(text: &str, escapes: bool) -> Option<&str> {
    let start = text.find('%').filter(|_| !escapes)?;
    let len = text[start + 1..].find('%')?;
    let name = &text[start + 1..start + 1 + len];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then(|| &text[start..start + len + 2])
}

/// A word without single-quoted text and escaped characters, where a shell replaces no variables.
fn unquoted(word: &str, escapes: bool) -> String {
    let (mut bare, mut is_quoted) = (String::new(), false);
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '\\' if escapes => drop(chars.next()),
            _ => bare.push(c),
        }
    }
    bare
}

/// Quotes a text as a TOML string of at most 100 characters; control characters become `_`.
pub(crate) fn quoted(text: &str) -> String {
    let visible: String =
        text.chars().map(|c| if c.is_control() { '_' } else { c }).take(100).collect();
    format!("\"{}\"", visible.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Job name from a text: at most 100 characters; control characters and commas become `_`.
pub(crate) fn name(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == ',' { '_' } else { c }).take(100).collect()
}

/// Parses digits with at most one letter K, M, G or T (powers of 1024).
///
/// # Errors
/// A message if the text is not a size.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: write digits and at most one of K, M, G, T");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let shift = match suffix {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}
