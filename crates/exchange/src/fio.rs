//! Job files of fio: [`read`] makes workloads of a file, in groups that run one after the other. `fio/lines.rs` reads
//! sections and options, `fio/number.rs` fio's numbers, `fio/options.rs` lists the options that need no code,
//! `fio/job.rs`,
//! `fio/blocks.rs` and `fio/duration.rs` give the others their meaning.

mod blocks;
mod duration;
mod job;
mod lines;
mod number;
mod options;
mod reading;

use iodyno_catalog::{File, FileError, Problem};
use iodyno_workload::Spec;
use lines::{Place, Section};
use std::path::Path;

/// The most jobs of a file, and the most of a group.
const MAX_JOBS: usize = 256;

/// What a job file asks for: groups of jobs, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// The file's name without its suffix.
    pub name: String,
    /// The groups; each has a job or more, which run at the same time.
    pub groups: Vec<Vec<Job>>,
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name: no other job of the file has the same.
    pub name: String,
    /// The workload as a file with every key that the job sets.
    pub toml: String,
    /// The workload.
    pub spec: Spec,
    /// The engine by its name on iodyno's command line; None where the target implies it.
    pub engine: Option<&'static str>,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// What the job runs on, as the file says it.
    pub filename: Option<String>,
    /// Options that change no result, or whose meaning needs a word.
    pub notes: Vec<Note>,
    /// What the job may not do as its writer expects.
    pub traps: Vec<Note>,
}

/// A remark at an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The file and the line: `job.fio:3`.
    pub at: String,
    /// The remark, in a sentence.
    pub words: String,
}

impl JobFile {
    /// All jobs, in the order of the file.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.groups.iter().flatten()
    }
}

/// Whether a name on the command line is the path of a job file: it ends in `.fio`.
pub fn is_job_file(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|suffix| suffix == "fio")
}

/// Where a job file finds other texts: the files that it includes, and variables.
pub trait Surroundings {
    /// The text of an included file.
    ///
    /// # Errors
    /// Why it can't be read.
    fn included(&self, path: &Path) -> Result<String, String>;

    /// The value of a variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The file system and the environment of this process.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Surroundings for Process {
    fn included(&self, path: &Path) -> Result<String, String> {
        text_at(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// The text of a file of at most [`iodyno_catalog::MAX_FILE_BYTES`].
pub(crate) fn text_at(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let most = iodyno_catalog::MAX_FILE_BYTES;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|e| format!("the file can't be read: {e}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("the file is larger than {} MiB, the most that is read", most >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned())
}

/// Reads the job file at a path.
///
/// # Errors
/// A file that can't be read; all options of its jobs that can't be honoured, with their lines.
pub fn read(path: &str) -> Result<JobFile, Problem> {
    let text = text_at(Path::new(path)).map_err(|why| {
        Problem::new(path, why).with_help("give the path of a job file of fio, such as job.fio")
    })?;
    parse(path, &text, &Process)
}

/// Reads the text of a job file; `origin` is its path, for errors and for what it includes.
///
/// # Errors
/// All options that can't be honoured, with their lines.
pub fn parse(origin: &str, text: &str, around: &dyn Surroundings) -> Result<JobFile, Problem> {
    let name = Path::new(origin).file_stem().and_then(|s| s.to_str()).unwrap_or("job").to_owned();
    let mut lines = lines::Lines::new(around);
    let sections = lines.read(origin, text);
    let mut refused = std::mem::take(&mut lines.refused);
    if refused.is_empty() && sections.is_empty() {
        let help = "a job file has a section for each job, such as `[randread]`";
        refused.push(Refusal::new(Place::START, "the file has no job", help));
    }
    if sections.len() > MAX_JOBS {
        let words = format!("the file has {} jobs; at most {MAX_JOBS} are read", sections.len());
        refused.push(Refusal::new(sections[MAX_JOBS].place.clone(), words, "split the file"));
    }
    if !refused.is_empty() {
        return Err(problem(&lines.files, refused));
    }
    let mut groups: Vec<Vec<Job>> = Vec::new();
    let mut places: Vec<Vec<&Section>> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for section in &sections {
        match job::job(section, &lines.files) {
            Err(mut why) => refused.append(&mut why),
            Ok((mut job, waits)) => {
                // Jobs of one name are legal in fio; cells go by their names.
                let base = job.name.clone();
                let mut number = 2;
                while names.contains(&job.name) {
                    job.name = format!("{base}-{number}");
                    number += 1;
                }
                names.push(job.name.clone());
                if waits || groups.is_empty() {
                    groups.push(Vec::new());
                    places.push(Vec::new());
                }
                if let (Some(group), Some(places)) = (groups.last_mut(), places.last_mut()) {
                    group.push(job);
                    places.push(section);
                }
            }
        }
    }
    for (group, sections) in groups.iter_mut().zip(&places) {
        refused.extend(uneven(group, sections));
        share_target(group, sections, &lines.files, &mut refused);
    }
    if refused.is_empty() {
        Ok(JobFile { name, groups })
    } else {
        Err(problem(&lines.files, refused))
    }
}

/// Why jobs can't run at the same time: each is measured for as long as the first.
fn uneven(group: &[Job], sections: &[&Section]) -> Vec<Refusal> {
    let Some((first, others)) = group.split_first() else { return Vec::new() };
    let mut all = Vec::new();
    let help = "give all jobs of the group the same runtime and ramp_time, with time_based, or separate them by `stonewall`";
    for (other, section) in others.iter().zip(&sections[1..]) {
        let (a, b) = (first.spec.limits(), other.spec.limits());
        let ends_by_time = |l: &iodyno_workload::Limits| {
            l.time_ns.is_some() && l.bytes.is_none() && l.ops.is_none()
        };
        let words = if !ends_by_time(&a) || !ends_by_time(&b) {
            format!(
                "`{}` and `{}` run at the same time, and not both of them end by time alone",
                first.name, other.name
            )
        } else if a != b {
            format!(
                "`{}` and `{}` run at the same time, for different times",
                first.name, other.name
            )
        } else {
            continue;
        };
        all.push(Refusal::new(section.place.clone(), words, help));
    }
    all
}

/// Refuses jobs at once on different files: all jobs of a group run on the same targets. Where no job names a file, fio
/// would make one for each.
fn share_target(
    group: &mut [Job],
    sections: &[&Section],
    files: &[File],
    refused: &mut Vec<Refusal>,
) {
    let Some((first, others)) = group.split_first_mut() else { return };
    for (other, section) in others.iter_mut().zip(&sections[1..]) {
        if other.filename != first.filename {
            let words = format!(
                "`{}` and `{}` run at the same time on different files, and jobs of a group share their targets",
                first.name, other.name
            );
            let help = "separate them by `stonewall`, or give them one filename and parts of it by offset and size";
            refused.push(Refusal::new(section.place.clone(), words, help));
        } else if first.filename.is_none() {
            let words = format!(
                "`{}` shares its target with `{}`, where fio would make a file for each: give both a filename, and parts of it by offset",
                other.name, first.name
            );
            other.traps.push(Note { at: section.place.at(files), words });
        }
    }
}

/// An option, or another place, that can't be honoured.
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

/// All refusals of the first file that has any, each once: what is in `[global]` concerns many jobs.
fn problem(files: &[File], mut refused: Vec<Refusal>) -> Problem {
    refused.sort_by_key(|r| (r.place.file, r.place.span.start, r.words.clone()));
    refused.dedup();
    let Some(file) = refused.first().and_then(|r| files.get(r.place.file)) else {
        return Problem::new("job file", "the file is not valid");
    };
    let here = refused.iter().filter(|r| r.place.file == refused[0].place.file);
    let errors = here
        .map(|r| FileError::new(r.place.span.clone(), r.words.as_str()).with_help(r.help.as_str()));
    Problem::of(file, &errors.collect::<Vec<_>>())
}
