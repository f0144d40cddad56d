//! Collects errors, notes and warnings about the text of another tool, and builds the job ([`Found::job`]). If the
//! resulting workload is invalid, the error is reported at the option that set the invalid value. fio job files have
//! their own collector (`fio/reading.rs`).

use crate::command_line::{self, Word};
use crate::fio::{Job, Note};
use crate::shared::of_key;
use iodyno_catalog::{File, FileError, Problem};
use iodyno_units::OpKind;
use iodyno_workload::Draft;
use std::ops::Range;

/// The result of reading a job: its workload, and settings of the run.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) workload: Draft,
    pub(crate) engine: Option<&'static str>,
    pub(crate) direct: bool,
    pub(crate) filename: Option<String>,
}

/// Refusals, notes and warnings found in one text.
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

    /// Splits a command line, and returns the words after the program's name. Notes or refuses shell syntax, and
    /// refuses shell variables by name. None if anything was refused. `escapes`: whether a backslash escapes the
    /// next character.
    pub(crate) fn line(&mut self, line: &str, escapes: bool) -> Option<Vec<Word>> {
        match command_line::read(line, escapes) {
            Ok(read) => {
                for (span, words) in read.notes {
                    self.note(&span, words);
                }
                for word in &read.words {
                    let bare = unquoted(line.get(word.span.clone()).unwrap_or_default(), escapes);
                    if let Some(name) = variable(&bare).or_else(|| of_windows(&bare, escapes)) {
                        let words =
                            format!("`{name}` is a shell variable, which iodyno does not expand");
                        self.refuse(&word.span, words, "give its value");
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

    /// Refuses the text at `span`, because it affects results and can't be honoured.
    pub(crate) fn refuse(
        &mut self,
        span: &Range<usize>,
        words: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.refused.push(FileError::new(span.clone(), words).with_help(help));
    }

    /// Adds a remark on text that has no effect on results or needs an explanation. Duplicates are dropped.
    pub(crate) fn note(&mut self, span: &Range<usize>, words: impl Into<String>) {
        let note = Note::new(self.at(span), words);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a warning about a setting whose effect the author may not expect.
    pub(crate) fn trap(&mut self, span: &Range<usize>, words: impl Into<String>) {
        self.add_trap(Note::new(self.at(span), words));
    }

    /// Adds a warning about a problem on which the run also gives a verdict.
    pub(crate) fn judged_trap(&mut self, span: &Range<usize>, words: impl Into<String>) {
        self.add_trap(Note { is_judged: true, ..Note::new(self.at(span), words) });
    }

    fn add_trap(&mut self, trap: Note) {
        if !self.traps.contains(&trap) {
            self.traps.push(trap);
        }
    }

    /// Formats the origin of the text and, if it has several lines, the line number.
    fn at(&self, span: &Range<usize>) -> String {
        if !self.file.text.trim_end().contains('\n') {
            return self.file.origin.clone();
        }
        let before = self.file.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("{}:{line}", self.file.origin)
    }

    /// Byte range of the whole text.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.file.text.len()
    }

    pub(crate) fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Builds a job. If the workload breaks a rule, refuses the option that `options` lists for the key, or else
    /// the text at `all`. None if anything is refused.
    pub(crate) fn job(
        &mut self,
        made: Made,
        options: &[(&str, Range<usize>)],
        all: &Range<usize>,
    ) -> Option<Job> {
        if self.is_refused() {
            return None;
        }
        match made.workload.check() {
            Ok(spec) => Some(Job {
                name: made.name,
                toml: spec.to_short_toml(),
                spec,
                engine: made.engine,
                direct: made.direct,
                uncached: false,
                drop_cache: None,
                filename: made.filename,
                file: None,
                notes: self.notes.clone(),
                traps: self.traps.clone(),
                check: None,
            }),
            Err(faults) => {
                for fault in faults {
                    let words = format!("this is not a valid workload: {}", fault.message);
                    let span = of_key(options, &fault.path).unwrap_or(all);
                    self.refuse(span, words, fault.help.unwrap_or_default());
                }
                None
            }
        }
    }

    /// Converts all refusals into one error.
    pub(crate) fn problem(mut self) -> Problem {
        self.refused.sort_by_key(|error| error.span.start);
        self.refused.dedup();
        Problem::of(self.file, &self.refused)
    }
}

/// Name of the first shell variable in a text: `$NAME` or `${NAME}`.
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

/// Name of the first variable `%NAME%` of the Windows shell; None if `escapes` is set, because the line is
/// then for a Unix shell.
fn of_windows(text: &str, escapes: bool) -> Option<&str> {
    let start = text.find('%').filter(|_| !escapes)?;
    let len = text[start + 1..].find('%')?;
    let name = &text[start + 1..start + 1 + len];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then(|| &text[start..start + len + 2])
}

/// Removes single-quoted text and escaped characters, in which a shell does not replace variables.
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

/// Sets the shares of reads and writes in the mix from a percentage of reads. A share of 0 is not set.
pub(crate) fn read_write_mix(workload: &mut Draft, read_percent: f64) {
    for (kind, share) in [(OpKind::Read, read_percent), (OpKind::Write, 100.0 - read_percent)] {
        if share > 0.0 {
            workload.mix(kind, share);
        }
    }
}

/// Parses a size: digits with an optional suffix K, M, G or T (powers of 1024).
///
/// # Errors
/// A message if the text is not a size.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: use digits and at most one of K, M, G, T");
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
