//! Parses fio's command line: options of the program, and jobs, each from `--name` on. Job options mean the same as in
//! a job file. As with `getopt_long_only`, an option has one or two dashes, and its name may be abbreviated to an
//! unambiguous prefix.

use super::Refusal;
use super::lines::{Lines, Place, Section};
use super::options::{Fate, canonical, fate, names, stands_alone};
use crate::command_line::Word;

/// Name of the command line in error messages, in place of a file name.
pub(super) const ORIGIN: &str = "command line of fio";

/// The source of jobs on a command line: a job file, or options.
pub(super) enum Jobs {
    /// Path of a job file, and names of the sections to read; all if empty. Options on the command line apply to
    /// all jobs.
    File(String, Vec<String>),
    /// Jobs defined on the command line, each from `--name` on.
    Named(Vec<Section>),
}

pub(super) struct Line {
    pub(super) jobs: Jobs,
    /// Position of `--readonly`, which forbids writes; None without it.
    pub(super) reads_only: Option<Place>,
}

/// Options of the program fio that concern only its output.
const OF_OUTPUT: &[&str] = &[
    "output",
    "output-format",
    "eta",
    "eta-newline",
    "eta-interval",
    "status-interval",
    "minimal",
    "terse-version",
    "append-terse",
    "bandwidth-log",
    "parse-only",
    "showcmd",
    "warnings-fatal",
    "max-jobs",
    "alloc-size",
    "idle-prof",
    "debug",
    "aux-path",
    "inflate-log",
];

/// Options of the program fio that take no value.
const WITHOUT_VALUE: &[&str] = &[
    "minimal",
    "append-terse",
    "bandwidth-log",
    "parse-only",
    "showcmd",
    "warnings-fatal",
    "readonly",
];

/// Options of the program fio that do not concern its output.
const OF_PROGRAM: &[&str] =
    &["section", "readonly", "client", "server", "remote-config", "daemonize", "name"];

/// Expands an abbreviated option to its full name. Known names and ambiguous or unknown abbreviations are
/// returned unchanged.
fn whole(name: &str) -> &str {
    let is_known = |name: &str| {
        OF_OUTPUT.contains(&name)
            || OF_PROGRAM.contains(&name)
            || fate(canonical(name)) != Fate::Unknown
    };
    if is_known(name) {
        return name;
    }
    let all = OF_OUTPUT.iter().chain(OF_PROGRAM).copied().chain(names());
    let mut begins = all.filter(|other| other.starts_with(name));
    match (begins.next(), begins.next()) {
        (Some(one), None) => one,
        _ => name,
    }
}

/// Reads the words of a command line into `lines`. Adds a note for each option that has no effect on results.
pub(super) fn read(
    lines: &mut Lines<'_>,
    text: &str,
    words: &[Word],
    notes: &mut Vec<String>,
) -> Line {
    let file = lines.add_file(ORIGIN, text);
    let place = |at: std::ops::Range<usize>| Place { file, span: at };
    let mut rest = words.iter().peekable();
    let (mut job_files, mut sections): (Vec<&Word>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut jobs, mut reads_only) = (0, None);
    lines.begin("global", place(0..0));
    while let Some(word) = rest.next() {
        let option = word.text.strip_prefix("--").or(word.text.strip_prefix('-'));
        let Some(option) = option.filter(|option| !option.is_empty()) else {
            job_files.push(word);
            continue;
        };
        let (name, mut value) = match option.split_once('=') {
            Some((name, value)) => (whole(name), Some(value)),
            None => (whole(option), None),
        };
        let alone = stands_alone(canonical(name)) || WITHOUT_VALUE.contains(&name);
        let mut at = word.span.clone();
        if value.is_none()
            && !alone
            && let Some(next) = rest.next_if(|next| !next.text.starts_with('-'))
        {
            value = Some(&next.text);
            at.end = next.span.end;
        }
        if OF_OUTPUT.contains(&name) {
            notes.push(format!("`--{name}`: affects only fio's output"));
            continue;
        }
        match name {
            "section" => sections.extend(value.map(str::to_owned)),
            "readonly" => reads_only = Some(place(at)),
            "client" | "server" | "remote-config" | "daemonize" => {
                let words = format!("`--{name}`: iodyno does not drive other hosts");
                lines.refused.push(Refusal::new(place(at), words, "run it on the host itself"));
            }
            "name" => {
                jobs += 1;
                lines.begin(value.filter(|v| !v.is_empty()).unwrap_or("job"), place(at));
            }
            name => lines.add(name, value, place(at)),
        }
    }
    match job_files.as_slice() {
        [] => {}
        [path] if jobs == 0 => {
            return Line { jobs: Jobs::File(path.text.clone(), sections), reads_only };
        }
        [_, second, ..] => {
            let words = "the line has more than one job file";
            let help = "run each job file separately; an option begins with `-`, and its value follows `=`";
            lines.refused.push(Refusal::new(place(second.span.clone()), words, help));
        }
        [word] => {
            let words = "a job file can't be combined with jobs given by `--name`";
            let help = "remove the job file, or the jobs given by `--name`";
            lines.refused.push(Refusal::new(place(word.span.clone()), words, help));
        }
    }
    let mut jobs = lines.take_jobs();
    jobs.retain(|job| sections.is_empty() || sections.iter().any(|name| job.job_name() == name));
    if jobs.is_empty() && lines.refused.is_empty() {
        let help = "begin a job with `--name=NAME`";
        lines.refused.push(Refusal::new(place(0..text.len()), "the line has no job", help));
    }
    Line { jobs: Jobs::Named(jobs), reads_only }
}
