//! Looks up the options of a sysbench command line by name, and collects errors and notes about the line.

use super::options::{ALIASES, HONOURED, NOTED};
use crate::command_line::Word;
use crate::found::{Found, size};
use crate::option_line::{Opt, OptionLine};
use iodyno_units::nearest;
use std::ops::Range;

/// A parsed command line, with the refusals, notes and warnings found in it.
pub(super) type Reading<'a, 'f> = OptionLine<'a, 'f, &'static str>;

impl<'a, 'f> Reading<'a, 'f> {
    /// Divides the words into test, command and options. Notes or refuses options without effect. None if the
    /// test is not `fileio`.
    pub(super) fn new(words: Vec<Word>, found: &'a mut Found<'f>) -> Option<Self> {
        let mut reading = Self { found, options: Vec::new(), more: () };
        let (mut test, mut command) = (None, None);
        for word in words {
            if let Some(option) = word.text.strip_prefix("--") {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (option, None),
                };
                if name == "test" {
                    test = Some((value.unwrap_or_default(), word.span));
                } else {
                    reading.option(name, value, word.span);
                }
            } else if test.is_none() {
                test = Some((word.text, word.span));
            } else if command.is_none() {
                command = Some((word.text, word.span));
            } else {
                let help = "give a value as --NAME=VALUE";
                reading.found.refuse(&word.span, format!("`{}` is not an option", word.text), help);
            }
        }
        reading.check(test, command).then_some(reading)
    }

    fn option(&mut self, given: &str, value: Option<String>, span: Range<usize>) {
        let is_flag = ["validate", "file-fsync-all", "file-fsync-end"].contains(&given);
        if value.is_none() && !is_flag && !NOTED.iter().any(|(name, _)| *name == given) {
            let help = "give a value as --NAME=VALUE";
            self.found.refuse(&span, format!("`--{given}` has no value"), help);
            return;
        }
        let name = ALIASES.iter().find(|(old, _)| *old == given).map_or(given, |(_, name)| name);
        if let Some((name, _)) = HONOURED.iter().find(|(n, _)| *n == name) {
            self.options.push(Opt { name, value, span });
        } else if let Some((_, why)) = NOTED.iter().find(|(n, _)| *n == name) {
            self.found.note(&span, format!("`--{given}`: {why}"));
        } else if name.starts_with("mysql-") || name.starts_with("pgsql-") {
            self.found.note(&span, format!("`--{given}`: `fileio` uses no database"));
        } else if name == "config-file" {
            let words = "`--config-file` can't be honoured: iodyno does not read the file";
            self.found.refuse(&span, words, "give its options on the command line");
        } else {
            let known = HONOURED.iter().chain(NOTED).map(|(name, _)| *name);
            let near = nearest(name, known).map(|near| format!("did you mean `--{near}`? "));
            let words = format!("sysbench's `fileio` has no option `--{given}`");
            let help =
                format!("{}remove the option if it does not matter", near.unwrap_or_default());
            self.found.refuse(&span, words, help);
        }
    }

    /// Refuses tests other than `fileio`, and commands other than `run`. Returns whether the test is `fileio`.
    fn check(
        &mut self,
        test: Option<(String, Range<usize>)>,
        command: Option<(String, Range<usize>)>,
    ) -> bool {
        let all = self.found.all();
        let is_fileio = test.as_ref().is_some_and(|(test, _)| test == "fileio");
        match test {
            _ if is_fileio => {}
            Some((test, span)) => {
                let words = format!("`{test}` is not a test of storage");
                self.found.refuse(&span, words, "iodyno runs only sysbench's `fileio` test");
            }
            None => self.found.refuse(&all, "no test is named", "use `sysbench fileio … run`"),
        }
        match command {
            Some((command, _)) if command == "run" => {}
            Some((command, span)) => {
                let help = match command.as_str() {
                    "prepare" => {
                        "iodyno creates its target itself, and `--on scratch:2GiB --fill` writes all of it first; use the command `run`"
                    }
                    "cleanup" => {
                        "at its end a run removes the file that it created; use the command `run`"
                    }
                    _ => "use `sysbench fileio … run`",
                };
                self.found.refuse(&span, format!("`{command}` issues no test I/O"), help);
            }
            None => self.found.refuse(&all, "no command is given", "add `run` at the end"),
        }
        is_fileio
    }

    /// Value of an option: the last one given, or the default.
    pub(super) fn text(&self, name: &'static str) -> String {
        let default = HONOURED.iter().find(|(n, _)| *n == name).map_or("", |(_, default)| default);
        match self.find(name).map(|opt| opt.value.clone()) {
            Some(Some(value)) => value,
            // A flag may stand alone.
            Some(None) if matches!(default, "on" | "off") => "on".to_owned(),
            Some(None) => String::new(),
            None => default.to_owned(),
        }
    }

    /// Adds a remark on the effect of an option.
    pub(super) fn remark(&mut self, name: &'static str, words: &str) {
        self.note(name, format!("`--{name}`: {words}"));
    }

    /// Value of an option as a whole number that is at least `least`. Returns `least` if the value is refused.
    pub(super) fn count(&mut self, name: &'static str, least: u64) -> u64 {
        let text = self.text(name);
        match text.parse::<u64>() {
            Ok(number) if number >= least && u32::try_from(number).is_ok() => number,
            _ => {
                let words = format!("`--{name}={text}` is not a whole number of at least {least}");
                self.refuse(name, words, "");
                least
            }
        }
    }

    pub(super) fn size(&mut self, name: &'static str) -> u64 {
        let text = self.text(name);
        match size(&text) {
            Ok(bytes) if bytes > 0 => bytes,
            Ok(_) => {
                self.refuse(name, format!("`--{name}` must be above 0"), "");
                1
            }
            Err(why) => {
                self.refuse(name, why, "");
                1
            }
        }
    }

    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        match self.text(name).as_str() {
            "on" | "true" | "1" => true,
            "off" | "false" | "0" => false,
            other => {
                self.refuse(name, format!("`--{name}={other}` is neither on nor off"), "");
                false
            }
        }
    }
}
