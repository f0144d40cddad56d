//! Converts fio job files and command lines to workloads, in groups that run one after the other ([`read`]).
//! Submodules parse the text (`lines.rs`, `command_line.rs`, `number.rs`), place files (`layout.rs`, `file_sizes.rs`),
//! interpret options (`options.rs`, `job.rs`, `kinds.rs`, `blocks.rs`, `extent.rs`, `duration.rs`, `mix.rs`) and warn
//! of traps (`lint.rs`).

mod blocks;
mod command_line;
mod duration;
mod extent;
mod file_sizes;
mod job;
mod kinds;
mod layout;
mod lines;
mod lint;
mod mix;
mod number;
mod options;
mod reading;
mod strided;

use crate::command_line::stem;
use iodyno_catalog::{File, FileError, Problem};
use iodyno_units::OpKind;
use iodyno_workload::{DropCache, Spec};
use lines::{Lines, Place, Section};
use reading::Reading;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum number of jobs in a file.
const MAX_JOBS: usize = 256;

/// Maximum number of refused options to report.
const MAX_SHOWN: usize = 50;

/// A parsed job file. Its groups of jobs run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Name of the job file without its suffix.
    pub name: String,
    /// Groups of at least one job. The jobs of a group run at the same time.
    pub groups: Vec<Vec<Job>>,
}

/// A job, converted to a workload and to settings for `iodyno run`.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the job, unique in the file.
    pub name: String,
    /// The converted workload, as the TOML text of a workload file.
    pub toml: String,
    /// The same workload as `toml`, parsed.
    pub spec: Spec,
    /// I/O engine, by its name on iodyno's command line; None: implied by the target.
    pub engine: Option<&'static str>,
    /// Whether I/O bypasses the page cache.
    pub direct: bool,
    /// Whether pages are dropped from the page cache after each I/O (`RWF_DONTCACHE`).
    pub uncached: bool,
    /// Pages to drop from the page cache before the job; None: nothing is dropped.
    pub drop_cache: Option<DropCache>,
    /// Target named by the job file or command line of the other tool; None if it names none.
    pub filename: Option<String>,
    /// Path of the file or device, if `filename` names exactly one.
    pub file: Option<PathBuf>,
    /// Remarks on options of the job that have no effect on results or need an explanation.
    pub notes: Vec<Note>,
    /// Warnings about settings with surprising effects.
    pub traps: Vec<Note>,
    /// Job that verifies this job's writes, to be run after this job's group; None: no verification.
    pub check: Option<Box<Job>>,
}

/// A remark on an option or section of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// File and line of the option, such as `job.fio:3`.
    pub at: String,
    /// The remark as a sentence, without its position.
    pub words: String,
    /// Whether a run also detects this problem from its measurements and issues a verdict on it.
    pub is_judged: bool,
}

impl Note {
    pub(crate) fn new(at: String, words: impl Into<String>) -> Self {
        Self { at, words: words.into(), is_judged: false }
    }
}

impl JobFile {
    /// All jobs of all groups, in the order in which the groups run.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.groups.iter().flatten()
    }
}

/// Whether a command-line argument is the path of a fio job file (`.fio`) or a quoted fio command line.
pub fn is_job_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|suffix| suffix == "fio") || is_command_line(name)
}

/// Provides a job file with its environment: included files, variables, device types, and the targets and flags of the
/// run.
pub trait Surroundings {
    /// Reads an included file.
    ///
    /// # Errors
    /// A message if the file can't be read.
    fn included(&self, path: &Path) -> Result<String, String>;

    /// Value of an environment variable; None if it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// Whether the file at a path is a device; None if unknown.
    fn is_device(&self, _path: &Path) -> Option<bool> {
        None
    }

    /// Whether the file or device at this path is one of several targets of the run. Jobs then use it from offset 0.
    fn is_target(&self, _path: &Path) -> bool {
        false
    }

    /// Whether the command line of the run sets this flag. Job options that the flag replaces then lead to a note, not
    /// an error.
    fn gives(&self, _flag: &str) -> bool {
        false
    }
}

/// Environment of the current process: its file system and environment variables.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Surroundings for Process {
    fn included(&self, path: &Path) -> Result<String, String> {
        text_at(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn is_device(&self, path: &Path) -> Option<bool> {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = std::fs::metadata(path).map(|of| of.file_type());
        Some(kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device()))
    }
}

/// Reads the text of a file of at most [`iodyno_catalog::MAX_FILE_BYTES`].
pub(crate) fn text_at(path: &Path) -> Result<String, String> {
    let most = iodyno_catalog::MAX_FILE_BYTES;
    iodyno_catalog::input::read_regular_text(path, most).map_err(|error| error.to_string())
}

/// Reads the job file at a path, or a command line of fio. `only` selects sections by name; all if it is empty.
///
/// # Errors
/// The file is unreadable, or options are unsupported. The error lists all unsupported options with their lines.
pub fn read(name: &str, only: &[String], around: &dyn Surroundings) -> Result<JobFile, Problem> {
    if is_command_line(name) {
        return parse_command_line(name, only, around);
    }
    let text = text_at(Path::new(name)).map_err(|why| {
        Problem::new(name, why).with_help("give the path of a job file of fio, such as job.fio")
    })?;
    parse_sections(name, &text, only, around)
}

/// Reads the text of a job file. `origin` is its path, for error messages and relative includes.
///
/// # Errors
/// Lists all unsupported options, with their lines.
pub fn parse(origin: &str, text: &str, around: &dyn Surroundings) -> Result<JobFile, Problem> {
    parse_sections(origin, text, &[], around)
}

/// Parses like [`parse`], but only the sections named in `only`; all if `only` is empty.
///
/// # Errors
/// Lists all unsupported options, with their lines. Also fails if `only` names an unknown section.
pub fn parse_sections(
    origin: &str,
    text: &str,
    only: &[String],
    around: &dyn Surroundings,
) -> Result<JobFile, Problem> {
    let mut lines = Lines::new(around);
    let sections = lines.read(origin, text);
    jobs(stem(origin), origin, lines, sections, only, around)
}

/// Whether a text is a command line of fio: the program's name, followed by at least one word.
pub fn is_command_line(text: &str) -> bool {
    crate::command_line::program(text) == Some("fio")
}

/// Parses a command line of fio, as typed in a shell: `fio --name=a --rw=randread --size=1g`.
///
/// # Errors
/// Lists all unsupported options, with their positions.
pub fn parse_command_line(
    text: &str,
    only: &[String],
    around: &dyn Surroundings,
) -> Result<JobFile, Problem> {
    let line = match crate::command_line::read(text, true) {
        Ok(line) => line,
        Err(fault) => {
            let (origin, name) = (command_line::ORIGIN.to_owned(), command_line::ORIGIN.to_owned());
            let file = File { origin, name, text: text.into(), is_named_by_file: false };
            let error = FileError::new(fault.span, fault.words).with_help(fault.help);
            return Err(Problem::of(&file, &[error]));
        }
    };
    let mut notes: Vec<String> = line.notes.into_iter().map(|(_, words)| words).collect();
    let mut lines = Lines::new(around);
    lines.variables = line.variables;
    let command_line::Line { jobs: found, reads_only } =
        command_line::read(&mut lines, text, &line.words, &mut notes);
    let files = lines.files.clone();
    let mut file = match found {
        command_line::Jobs::File(path, mut sections) => {
            sections.extend_from_slice(only);
            let text = around.included(Path::new(&path));
            let text = text.map_err(|why| Problem::new(&*path, why))?;
            let read = lines.read(&path, &text);
            jobs(stem(&path), &path, lines, read, &sections, around)
        }
        command_line::Jobs::Named(sections) => {
            jobs("fio".to_owned(), command_line::ORIGIN, lines, sections, only, around)
        }
    }?;
    if let Some(place) = reads_only {
        let writes = |job: &&Job| job.spec.kinds().any(|(kind, _)| kind != OpKind::Read);
        if let Some(job) = file.jobs().find(writes) {
            let words = format!("`{}` writes, which fio's `--readonly` forbids", job.name);
            let refusal =
                Refusal::new(place, words, "remove --readonly, or select jobs that only read");
            return Err(problem(&files, vec![refusal]));
        }
        notes.push(
            "fio's `--readonly` only checks the jobs, and none writes; iodyno's `--read-only` also opens the target for reading only"
                .to_owned(),
        );
    }
    let at = command_line::ORIGIN;
    let notes = notes.into_iter().map(|words| Note::new(at.to_owned(), words));
    if let Some(job) = file.groups.first_mut().and_then(|group| group.first_mut()) {
        job.notes.splice(0..0, notes);
    }
    Ok(file)
}

/// Converts sections to groups of jobs.
fn jobs(
    name: String,
    origin: &str,
    mut lines: Lines<'_>,
    mut sections: Vec<Section>,
    only: &[String],
    around: &dyn Surroundings,
) -> Result<JobFile, Problem> {
    let mut refused = std::mem::take(&mut lines.refused);
    if refused.is_empty() && sections.is_empty() {
        let help = "add a section for each job, such as `[randread]`";
        refused.push(Refusal::new(Place::START, "the file has no job", help));
    }
    if sections.len() > MAX_JOBS {
        let words = format!("the file has {} jobs; at most {MAX_JOBS} are allowed", sections.len());
        refused.push(Refusal::new(sections[MAX_JOBS].place.clone(), words, "split the file"));
    }
    if !refused.is_empty() {
        return Err(problem(&lines.files, refused));
    }
    select(origin, &mut sections, only)?;
    let groups = layout::groups(&sections, &mut refused);
    let (files, sections) = (lines.files.as_slice(), sections.as_slice());
    let mut conversion = Conversion {
        sections,
        groups: &groups,
        files,
        around,
        refused,
        jobs: Vec::new(),
        names: BTreeSet::new(),
    };
    conversion.convert();
    if !conversion.refused.is_empty() {
        return Err(problem(files, conversion.refused));
    }
    conversion.keep_checks();
    conversion.remark();
    let mut jobs = conversion.jobs;
    let of_group = |group: &layout::Group| -> Vec<Job> {
        group.jobs.iter().filter_map(|job| jobs[*job].take()).collect()
    };
    let mut groups: Vec<Vec<Job>> = groups.iter().map(of_group).collect();
    groups.retain(|group| !group.is_empty());
    Ok(JobFile { name, groups })
}

/// Removes all sections that `only` does not name. If `only` is empty, keeps all.
fn select(origin: &str, sections: &mut Vec<Section>, only: &[String]) -> Result<(), Problem> {
    let has_name = |section: &Section, name: &String| {
        section.job_name() == name.as_str() || section.name == *name
    };
    for name in only {
        if !sections.iter().any(|section| has_name(section, name)) {
            let names: Vec<&str> = sections.iter().map(Section::job_name).collect();
            let words = format!("`{origin}` has no job `{name}`: it has {}", names.join(", "));
            return Err(Problem::new(origin, words));
        }
    }
    sections.retain(|section| only.is_empty() || only.iter().any(|name| has_name(section, name)));
    Ok(())
}

/// Whether the job only creates its files, without I/O (`create_only`).
fn makes_files(section: &Section) -> bool {
    section.flag("create_only")
}

/// State of the conversion of sections to jobs.
struct Conversion<'a> {
    sections: &'a [Section],
    groups: &'a [layout::Group],
    files: &'a [File],
    around: &'a dyn Surroundings,
    refused: Vec<Refusal>,
    /// Job of each section; None if the section is refused or only creates files.
    jobs: Vec<Option<Job>>,
    /// Names of the jobs converted so far.
    names: BTreeSet<String>,
}

impl Conversion<'_> {
    /// Converts each section to a job, in the order of the file, because a section depends on earlier ones.
    fn convert(&mut self) {
        let (sections, groups, around) = (self.sections, self.groups, self.around);
        let (known, spaces) = layout::known_before(sections, |number, before| {
            Reading::new(&sections[number], self.files, around, before).space()
        });
        let parts = layout::parts(sections, groups, &spaces, around, &mut self.refused);
        layout::one_flow(sections, groups, &mut self.refused);
        let exits = self.has_exitall();
        if sections.iter().all(makes_files) {
            let words = "no job of the file issues I/O: `create_only` only makes files";
            let help = "remove `create_only` from the jobs that should issue I/O";
            self.refused.push(Refusal::new(sections[0].place.clone(), words, help));
        }
        for (number, section) in sections.iter().enumerate() {
            if makes_files(section) {
                self.jobs.push(None);
                continue;
            }
            let is_last = groups.last().is_some_and(|group| group.jobs.contains(&number));
            let (part, before) = (&parts[number], known[number]);
            let delay_ns = self.delay_ns(number);
            let place = layout::Surround { part, before, delay_ns, is_last, exits };
            let job = job::job(section, self.files, around, &place);
            let job = job.map_err(|mut why| self.refused.append(&mut why)).ok();
            self.jobs.push(job.map(|mut job| {
                // fio allows jobs of the same name, but names of cells must be unique.
                make_unique(&mut job.name, &mut self.names);
                job
            }));
        }
    }

    /// Whether any section has `exitall`, which then applies to all jobs.
    fn has_exitall(&self) -> bool {
        self.sections.iter().any(|section| section.flag("exitall"))
    }

    /// Start delay of a job with `wait_for`, ns: the end of the awaited job; 0 without `wait_for`. Refuses the job if
    /// the awaited job has no fixed duration.
    fn delay_ns(&mut self, number: usize) -> u64 {
        let waited = self.groups.iter().find_map(|group| group.waits.get(&number));
        // None: refused itself.
        let other = waited.and_then(|other| self.jobs.get(*other)).and_then(Option::as_ref);
        let Some(other) = other else { return 0 };
        let limits = other.spec.limits();
        let is_counted = limits.ops.or(limits.bytes).is_some() || limits.passes.is_some();
        if let Some(ns) = limits.time_ns.filter(|_| !is_counted) {
            return limits.start_after_ns + limits.ramp_ns + ns;
        }
        let section = &self.sections[number];
        let place = section.opt("wait_for").map_or(&section.place, |opt| &opt.place);
        let words = format!(
            "iodyno can't wait for `{}` while other jobs run, because its duration is not fixed",
            other.name
        );
        let help = format!(
            "separate the jobs by stonewall, or give `{}` time_based and a runtime",
            other.name
        );
        self.refused.push(Refusal::new(place.clone(), words, help));
        0
    }

    /// Gives unique names to the jobs that verify the writes of another job. Removes the verifying job if the writing
    /// job may be stopped early or shares a range with other jobs, because the range may then contain other data.
    fn keep_checks(&mut self) {
        let is_ended = self.has_exitall();
        for number in 0..self.jobs.len() {
            let group = self.groups.iter().find(|group| group.jobs.contains(&number));
            let is_shared = group.is_some_and(|group| self.shares_range(number, &group.jobs));
            let Some(job) = &mut self.jobs[number] else { continue };
            if is_ended || is_shared {
                job.check = None;
            } else if let Some(check) = &mut job.check {
                check.name = format!("{}-verify", job.name);
                make_unique(&mut check.name, &mut self.names);
            }
        }
    }

    /// Whether another job in the group uses an overlapping range of the same file.
    fn shares_range(&self, number: usize, group: &[usize]) -> bool {
        let range = |at: usize| -> Option<(u64, u64)> {
            let spec = &self.jobs[at].as_ref()?.spec;
            let moved = spec.worker_step_bytes().unwrap_or(0);
            let moved = moved.saturating_mul(u64::from(spec.threads()) - 1);
            let (start, end) = spec.active_on(u64::MAX);
            spec.active().is_in_bytes().then_some((start, end.saturating_add(moved)))
        };
        let meets = |at: usize| match (range(number), range(at)) {
            (Some(own), Some(other)) => own.0 < other.1 && other.0 < own.1,
            _ => true,
        };
        let files = layout::files_of(&self.sections[number]);
        let mut others = group.iter().filter(|at| **at != number && meets(**at));
        files.is_some() && others.any(|at| layout::files_of(&self.sections[*at]) == files)
    }

    /// Adds warnings about jobs that run at the same time, and notes on sections that only create files.
    fn remark(&mut self) {
        for (number, trap) in lint::of_groups(self.sections, self.groups, self.files, self.around) {
            if let Some(job) = &mut self.jobs[number] {
                job.traps.push(trap);
            }
        }
        let made = self.sections.iter().filter(|section| makes_files(section)).map(|section| {
            let words = "`create_only`: the job is left out, since a run creates its target before it starts";
            Note::new(section.place.at(self.files), words)
        });
        if let Some(first) = self.jobs.iter_mut().flatten().next() {
            first.notes.splice(0..0, made);
        }
    }
}

/// Makes a name unique by appending a number if `names` already contains it. Adds the name to `names`.
pub(crate) fn make_unique(name: &mut String, names: &mut BTreeSet<String>) {
    let base = name.clone();
    let mut number = 2;
    while !names.insert(name.clone()) {
        *name = format!("{base}-{number}");
        number += 1;
    }
}

/// An option or section that can't be honoured: its position, the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    place: Place,
    words: String,
    help: String,
}

impl Refusal {
    fn new(place: Place, words: impl Into<String>, help: impl Into<String>) -> Self {
        Self { place, words: words.into(), help: help.into() }
    }
}

/// Builds an error from all refusals in the first file that has any. Removes duplicates, because many jobs
/// share the options of `[global]`.
fn problem(files: &[File], mut refused: Vec<Refusal>) -> Problem {
    refused.sort_by_key(|r| (r.place.file, r.place.span.start, r.words.clone()));
    refused.dedup();
    let Some(file) = refused.first().and_then(|r| files.get(r.place.file)) else {
        return Problem::new("job file", "the file is not valid");
    };
    let here = refused.iter().filter(|r| r.place.file == refused[0].place.file).take(MAX_SHOWN);
    let errors = here
        .map(|r| FileError::new(r.place.span.clone(), r.words.as_str()).with_help(r.help.as_str()));
    Problem::of(file, &errors.collect::<Vec<_>>())
}
