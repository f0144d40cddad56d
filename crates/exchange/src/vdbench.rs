//! Converts vdbench 5.04 parameter files to workloads. A run becomes one group of jobs for each combination of its
//! `for…` lists and I/O rates; the jobs of a group run at the same time. Submodules parse the text (`parameters.rs`),
//! resolve the workloads and storage of a run (`run.rs`), list its combinations (`points.rs`), and convert each
//! workload at one combination to a job (`case.rs`, `job.rs`).

mod case;
mod job;
mod parameters;
mod points;
mod run;

use crate::command_line;
use crate::fio::{Job, JobFile, make_unique, text_at};
use crate::found::Found;
use iodyno_catalog::{File, Problem};
use parameters::{Definition, Kind, Parameter, definitions};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of groups of jobs in a file.
const MAX_GROUPS: usize = 256;

/// Whether a path ends in `.vdb`, the suffix of parameter files.
pub fn is_parameter_file(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|suffix| suffix == "vdb")
}

/// Parameters from vdbench's command line. They override the values in all run definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Overrides {
    elapsed: Option<String>,
    interval: Option<String>,
    warmup: Option<String>,
    validate: bool,
}

/// Reads the parameter file at a path.
///
/// # Errors
/// The file is unreadable, or parameters are unsupported. The error lists all unsupported parameters with their lines.
pub fn read(path: &str) -> Result<JobFile, Problem> {
    read_with(path, &Overrides::default())
}

fn read_with(path: &str, overrides: &Overrides) -> Result<JobFile, Problem> {
    let text = text_at(Path::new(path)).map_err(|why| {
        Problem::new(path, why).with_help("give the path of a parameter file of vdbench")
    })?;
    parse_with(path, &text, overrides)
}

/// Reads a command line such as `vdbench -f FILE -e 60`, and the parameter file that it names.
///
/// # Errors
/// The file is unreadable, or parameters or options are unsupported. The error lists all unsupported ones with their
/// positions.
pub fn read_command(line: &str) -> Result<JobFile, Problem> {
    let file = command_line::file(line);
    let mut found = Found::new(&file);
    let mut overrides = Overrides::default();
    let mut path: Option<String> = None;
    let Some(words) = found.line(line, true) else { return Err(found.problem()) };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut chars = word.text.chars();
        let letter = (chars.next() == Some('-')).then(|| chars.next()).flatten();
        // A value follows its option, or is joined to it.
        let mut value = || {
            let joined = word.text.get(2..).filter(|value| !value.is_empty());
            joined.map(str::to_owned).or_else(|| words.next().map(|word| word.text))
        };
        match letter {
            Some('f') if path.is_none() => path = value(),
            Some('e') => overrides.elapsed = value(),
            Some('i') => overrides.interval = value(),
            Some('w') => overrides.warmup = value(),
            Some('o') => drop(value()),
            Some('v') if word.text == "-v" => overrides.validate = true,
            _ => {
                let words = format!("`{}` can't be honoured", word.text);
                let help = "iodyno supports -f FILE, -e SECONDS, -i SECONDS, -w SECONDS and -v; -o FOLDER has no effect";
                found.refuse(&word.span, words, help);
            }
        }
    }
    if path.is_none() {
        let all = 0..line.len();
        found.refuse(&all, "no parameter file is named", "use `vdbench -f FILE`");
    }
    match path {
        Some(path) if !found.is_refused() => read_with(&path, &overrides),
        _ => Err(found.problem()),
    }
}

/// Parses the text of a parameter file; `origin` is its path, for error messages.
///
/// # Errors
/// Lists all unsupported parameters, with their lines.
pub fn parse(origin: &str, text: &str) -> Result<JobFile, Problem> {
    parse_with(origin, text, &Overrides::default())
}

fn parse_with(origin: &str, text: &str, overrides: &Overrides) -> Result<JobFile, Problem> {
    let name = command_line::stem(origin);
    let file = File {
        origin: origin.to_owned(),
        name: name.clone(),
        text: text.into(),
        is_named_by_file: false,
    };
    let mut found = Found::new(&file);
    let all = definitions(&mut found);
    let mut general = General { validate: overrides.validate, ..General::default() };
    for definition in &all {
        match definition.kind {
            Kind::General => general.read(definition, &mut found),
            Kind::Host => hosts(definition, &mut found),
            Kind::Storage | Kind::Workload | Kind::Run => {}
        }
    }
    let mut groups: Vec<Vec<Job>> = Vec::new();
    let runs = all.iter().filter(|definition| definition.kind == Kind::Run);
    for definition in runs {
        let more = run::groups(definition, &all, &general, overrides, &mut found);
        groups.extend(more);
        if groups.len() > MAX_GROUPS {
            let words = format!("the file has more than {MAX_GROUPS} runs");
            found.refuse(&definition.span, words, "split the file");
            break;
        }
    }
    if groups.is_empty() && !found.is_refused() {
        let help = "add a line such as `rd=run1,wd=wd1,iorate=max,elapsed=60`";
        found.refuse(&(0..0), "the file has no run", help);
    }
    if found.is_refused() {
        return Err(found.problem());
    }
    let mut names = BTreeSet::new();
    groups.iter_mut().flatten().for_each(|job| make_unique(&mut job.name, &mut names));
    Ok(JobFile { name, groups })
}

/// General parameters of a file, which apply to all runs.
#[derive(Debug, Default)]
struct General {
    /// Whether writes have verifiable content, so that reads check it.
    validate: bool,
    /// Compression ratio, at least 1; 0 if it is not given.
    compression: f64,
}

impl General {
    fn read(&mut self, definition: &Definition, found: &mut Found<'_>) {
        for parameter in &definition.parameters {
            let value = run::first(parameter);
            match parameter.key.as_str() {
                "compratio" => match value.parse::<f64>() {
                    Ok(ratio) if (1.0..=1e6).contains(&ratio) => self.compression = ratio,
                    _ => {
                        let words = format!("`{value}` is not a compression ratio of at least 1");
                        found.refuse(&parameter.span, words, "");
                    }
                },
                "validate" | "data_validation" => match value {
                    "yes" | "y" => {
                        self.validate = true;
                        found.note(&parameter.span, "`validate`: each unit of at most 4 KiB carries its address, writer, generation and a CRC; reads check these");
                    }
                    "no" | "n" => {}
                    _ => {
                        let words = format!("`validate={value}` can't be honoured");
                        found.refuse(&parameter.span, words, "use validate=yes");
                    }
                },
                "report" | "report_run_totals" | "histogram" | "monitor" | "messagescan"
                | "create_anchors" | "formatsds" | "formatxfersize" | "port" | "auxreport"
                | "abort_failed_skew" | "compressionseed" | "pattern" | "data_errors"
                | "dataerrors" | "swat" | "psrset" | "misc" => {
                    let words = format!("`{}` has no effect on results", parameter.key);
                    found.note(&parameter.span, words);
                }
                "include" => {
                    let words = "iodyno does not read included files";
                    found.refuse(&parameter.span, words, "put its lines into this file");
                }
                key if key.starts_with("dedup") => {
                    let words = "deduplication by ratio and unit can't be honoured";
                    let help = "remove it, or use `dedupable` in a workload file";
                    found.refuse(&parameter.span, words, help);
                }
                key => {
                    let words = format!("vdbench's general parameter `{key}` can't be honoured");
                    let help =
                        "remove the parameter if it does not matter; storage is defined by `sd=`";
                    found.refuse(&parameter.span, words, help);
                }
            }
        }
    }
}

/// Refuses a host definition that names a host other than this one.
fn hosts(definition: &Definition, found: &mut Found<'_>) {
    let is_here = |parameter: &Parameter| {
        let value = run::first(parameter);
        match parameter.key.as_str() {
            "system" => matches!(value, "localhost" | "127.0.0.1"),
            "clients" | "jvms" => value == "1",
            _ => true,
        }
    };
    match definition.parameters.iter().find(|parameter| !is_here(parameter)) {
        Some(parameter) => {
            let words = "other hosts, clients and processes can't be honoured: a run uses one process on this host";
            found.refuse(&parameter.span, words, "remove it, and raise `threads`");
        }
        None => found.note(&definition.span, "`hd` has no effect: a run uses this host"),
    }
}
