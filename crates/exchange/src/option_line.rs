//! Looks up the options of a command line that defines a single job, and reports errors, notes and warnings at their
//! positions.

use crate::command_line::{self, Word};
use crate::fio::{Job, JobFile};
use crate::found::{Found, Made};
use crate::shared::about;
use iodyno_catalog::Problem;
use iodyno_workload::Draft;
use std::ops::Range;

/// An option on a command line. Its value is None if the option has none.
pub(crate) struct Opt<N> {
    pub(crate) name: N,
    pub(crate) value: Option<String>,
    pub(crate) span: Range<usize>,
}

/// Options of a command line, and the errors, notes and warnings about it. `more` holds state that is specific to the
/// tool.
pub(crate) struct OptionLine<'a, 'f, N, T = ()> {
    pub(crate) found: &'a mut Found<'f>,
    pub(crate) options: Vec<Opt<N>>,
    pub(crate) more: T,
}

/// Reads a command line that describes one job. `escapes`: whether a backslash escapes the next character.
pub(crate) fn one_job(
    line: &str,
    escapes: bool,
    read: impl FnOnce(Vec<Word>, &mut Found<'_>) -> Option<Job>,
) -> Result<JobFile, Problem> {
    let file = command_line::file(line);
    let mut found = Found::new(&file);
    let job = found.line(line, escapes).and_then(|words| read(words, &mut found));
    match job {
        Some(job) if !found.is_refused() => {
            Ok(JobFile { name: job.name.clone(), groups: vec![vec![job]] })
        }
        _ => Err(found.problem()),
    }
}

impl<N: Copy + PartialEq, T> OptionLine<'_, '_, N, T> {
    /// Finds the last option with this name, which is the one that counts.
    pub(crate) fn find(&self, name: N) -> Option<&Opt<N>> {
        self.options.iter().rev().find(|opt| opt.name == name)
    }

    pub(crate) fn is_given(&self, name: N) -> bool {
        self.find(name).is_some()
    }

    /// Value of an option, empty if it has none; None if the option is not given.
    pub(crate) fn value(&self, name: N) -> Option<String> {
        self.find(name).map(|opt| opt.value.clone().unwrap_or_default())
    }

    /// Byte range of an option; the whole line if the option is not given.
    pub(crate) fn span(&self, name: N) -> Range<usize> {
        self.find(name).map_or(self.found.all(), |opt| opt.span.clone())
    }

    pub(crate) fn refuse(&mut self, name: N, words: impl Into<String>, help: impl Into<String>) {
        self.found.refuse(&self.span(name), words, help);
    }

    pub(crate) fn note(&mut self, name: N, words: impl Into<String>) {
        self.found.note(&self.span(name), words);
    }

    pub(crate) fn trap(&mut self, name: N, words: impl Into<String>) {
        self.found.trap(&self.span(name), words);
    }

    /// Adds a warning about a problem on which the run also gives a verdict.
    pub(crate) fn judged_trap(&mut self, name: N, words: impl Into<String>) {
        self.found.judged_trap(&self.span(name), words);
    }

    /// Creates a workload whose description is the command line.
    pub(crate) fn draft(&self) -> Draft {
        let words: Vec<&str> = self.found.file.text.split_whitespace().collect();
        Draft::new(about(&words.join(" ")))
    }

    /// Builds the job. `options` lists, for each key of the workload, the option that sets it.
    pub(crate) fn job<const K: usize>(
        &mut self,
        made: Made,
        options: [(&str, N); K],
    ) -> Option<Job> {
        let options = options.map(|(key, name)| (key, self.span(name)));
        self.found.job(made, &options, &self.found.all())
    }
}
