//! Parses the lines of a fio job file: sections with their options, `[global]`, comments, included files and
//! variables.

use super::options::canonical;
use super::{Refusal, Surroundings};
use iodyno_catalog::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Maximum nesting depth of included files, and maximum number of files.
const MAX_INCLUDES: usize = 16;

/// Maximum number of options of a section.
const MAX_OPTIONS: usize = 1000;

/// Maximum length of an option, bytes.
const MAX_OPTION_BYTES: usize = 8192;

/// A byte range in the job file or an included file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) span: Range<usize>,
}

impl Place {
    pub(super) const START: Self = Self { file: 0, span: 0..0 };

    /// Formats the file and the line number, such as `job.fio:3`.
    pub(super) fn at(&self, files: &[File]) -> String {
        let Some(file) = files.get(self.file) else { return String::new() };
        let line = file.text[..self.span.start].matches('\n').count() + 1;
        format!("{}:{line}", file.origin)
    }
}

/// An option of a section. Its value is None if the option has no `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opt {
    pub(super) name: String,
    /// Canonical name of the option.
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) place: Place,
    /// Error message if the option's value contains a variable that can't be replaced; otherwise None.
    pub(super) unset: Option<String>,
}

/// A job: its name and options. Options of preceding `[global]` sections come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) place: Place,
    /// Options in the order of the file. They are in `Arc`s because jobs share the options of `[global]`.
    pub(super) options: Vec<Arc<Opt>>,
    /// Number of leading options from `[global]`.
    pub(super) from_global: usize,
}

impl Section {
    /// Finds the last option with this name, which is the one that counts. Returns it with its index.
    pub(super) fn find(&self, name: &str) -> Option<(usize, &Opt)> {
        let all = self.options.iter().enumerate();
        all.rev().find(|(_, opt)| opt.key == name).map(|(at, opt)| (at, &**opt))
    }

    pub(super) fn opt(&self, name: &str) -> Option<&Opt> {
        self.find(name).map(|(_, opt)| opt)
    }

    /// Value of the last option with this name; None if the option or its value is missing.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.opt(name)?.value.as_deref().filter(|value| !value.is_empty())
    }

    /// Whether a flag is set: it occurs without a value, or with a value other than `0` and `false`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.opt(name).is_some_and(|opt| !matches!(opt.value.as_deref(), Some("0" | "false")))
    }

    /// Name of the job: the value of its option `name`, or else the name of its section.
    pub(super) fn job_name(&self) -> &str {
        let own = self.find("name").filter(|(at, _)| *at >= self.from_global);
        let own = own.and_then(|(_, opt)| opt.value.as_deref()).filter(|name| !name.is_empty());
        own.unwrap_or(&self.name)
    }
}

/// Reads a job file and the files that it includes.
pub(super) struct Lines<'a> {
    around: &'a dyn Surroundings,
    /// Variables set on the command line, name and value. They take precedence over environment variables.
    pub(super) variables: Vec<(String, String)>,
    pub(super) files: Vec<File>,
    pub(super) refused: Vec<Refusal>,
    global: Vec<Arc<Opt>>,
    jobs: Vec<Section>,
    within: Within,
}

/// The section to which the next option belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Global,
    Job,
}

impl<'a> Lines<'a> {
    pub(super) fn new(around: &'a dyn Surroundings) -> Self {
        Self {
            around,
            variables: Vec::new(),
            files: Vec::new(),
            refused: Vec::new(),
            global: Vec::new(),
            jobs: Vec::new(),
            within: Within::Nothing,
        }
    }

    /// Adds a file, and returns the index by which a `Place` refers to it.
    pub(super) fn add_file(&mut self, origin: &str, text: &str) -> usize {
        self.files.push(File {
            origin: origin.to_owned(),
            name: origin.to_owned(),
            text: text.into(),
            is_named_by_file: false,
        });
        self.files.len() - 1
    }

    /// Removes and returns the jobs read so far.
    pub(super) fn take_jobs(&mut self) -> Vec<Section> {
        std::mem::take(&mut self.jobs)
    }

    /// Parses the jobs in a text. Global options added earlier apply to them, too.
    pub(super) fn read(&mut self, origin: &str, text: &str) -> Vec<Section> {
        self.within = Within::Nothing;
        self.file(origin, text, 0);
        self.take_jobs()
    }

    fn file(&mut self, origin: &str, text: &str, depth: usize) {
        let file = self.add_file(origin, text);
        self.files[file].is_named_by_file = depth > 0;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.split([';', '#']).next().unwrap_or_default();
            let trimmed = content.trim();
            let at = start + (content.len() - content.trim_start().len());
            start += line.len();
            if trimmed.is_empty() {
                continue;
            }
            let place = Place { file, span: at..at + trimmed.len() };
            if let Some(rest) = trimmed.strip_prefix('[') {
                self.section(rest, place);
            } else if let Some(path) = included(trimmed) {
                self.include(path, origin, place, depth);
            } else {
                self.option(trimmed, place);
            }
        }
    }

    fn section(&mut self, rest: &str, place: Place) {
        let name = rest.strip_suffix(']').map(str::trim);
        let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= MAX_OPTION_BYTES)
        else {
            let help = "use the form `[name]`";
            self.refused.push(Refusal::new(place, "this is not a section", help));
            return;
        };
        self.begin(name, place);
    }

    /// Begins a section with this name. Options added later belong to it.
    pub(super) fn begin(&mut self, name: &str, place: Place) {
        if name == "global" {
            self.within = Within::Global;
            return;
        }
        self.within = Within::Job;
        let options = self.global.clone();
        // To bound memory, keep one job more than allowed, which is enough to refuse the file.
        if self.jobs.len() <= super::MAX_JOBS {
            let from_global = options.len();
            self.jobs.push(Section { name: name.to_owned(), place, options, from_global });
        }
    }

    fn include(&mut self, path: &str, origin: &str, place: Place, depth: usize) {
        let target = Path::new(origin).parent().unwrap_or(Path::new("")).join(path);
        if depth >= MAX_INCLUDES || self.files.len() >= MAX_INCLUDES {
            let words = format!("more than {MAX_INCLUDES} files are included");
            self.refused.push(Refusal::new(place, words, "put their lines into one file"));
            return;
        }
        match self.around.included(&target) {
            Ok(text) => self.file(&target.to_string_lossy(), &text, depth + 1),
            Err(why) => {
                let words = format!("`{path}` can't be included: {why}");
                let help = "give its path relative to the folder of this file";
                self.refused.push(Refusal::new(place, words, help));
            }
        }
    }

    fn option(&mut self, text: &str, place: Place) {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (text, None),
        };
        self.add(name, value, place);
    }

    /// Adds an option to the current section.
    pub(super) fn add(&mut self, name: &str, value: Option<&str>, place: Place) {
        let (mut value, mut unset) = (value.map(str::to_owned), None);
        if let Some(text) = &mut value {
            match self.with_variables(text) {
                Ok(replaced) => *text = replaced,
                Err(words) => unset = Some(words),
            }
        }
        let bytes = name.len() + value.as_ref().map_or(0, String::len);
        if bytes > MAX_OPTION_BYTES {
            let words = format!("an option must not exceed {MAX_OPTION_BYTES} bytes");
            self.refused.push(Refusal::new(place, words, "shorten it"));
            return;
        }
        let key = canonical(name).to_owned();
        let opt = Opt { name: name.to_owned(), key, value, place, unset };
        let section = match self.within {
            Within::Global => Some(&mut self.global),
            Within::Job => self.jobs.last_mut().map(|job| &mut job.options),
            Within::Nothing => None,
        };
        match section {
            Some(options) if options.len() > MAX_OPTIONS => {}
            Some(options) if options.len() == MAX_OPTIONS => {
                let words = format!("a section has more than {MAX_OPTIONS} options");
                self.refused.push(Refusal::new(opt.place.clone(), words, "remove some"));
                options.push(Arc::new(opt));
            }
            Some(options) => options.push(Arc::new(opt)),
            None => self.refused.push(Refusal::new(
                opt.place,
                format!("`{}` is outside of a section", opt.name),
                "put options below `[global]` or below the name of a job, such as `[job]`",
            )),
        }
    }

    /// Replaces variables in an option's value: environment variables `${NAME}`, and fio's `$ncpus` and
    /// `$pagesize`.
    fn with_variables(&self, value: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = value;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some((name, after)) = rest.strip_prefix('{').and_then(|r| r.split_once('}')) {
                let set = self.variables.iter().rev().find(|(set, _)| set == name);
                let set = set.map(|(_, value)| value.clone());
                let found = set.or_else(|| self.around.variable(name));
                out.push_str(
                    &found.ok_or_else(|| format!("the environment has no variable `{name}`"))?,
                );
                rest = after;
            } else if let Some(after) = rest.strip_prefix("ncpus") {
                let n = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                out.push_str(&n.to_string());
                rest = after;
            } else if let Some(after) = rest.strip_prefix("pagesize") {
                out.push_str("4096");
                rest = after;
            } else if rest.starts_with("mb_memory") {
                return Err("`$mb_memory` is not known here: give the number".to_owned());
            } else {
                out.push('$');
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Path of an `include` line; None for other lines.
fn included(line: &str) -> Option<&str> {
    let path = line.strip_prefix("include")?;
    let is_include = path.starts_with(char::is_whitespace);
    Some(path.trim()).filter(|path| is_include && !path.is_empty() && !path.starts_with('='))
}
