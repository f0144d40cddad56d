//! Divides the jobs of a file into groups that run at the same time, and places their files side by side on the
//! target.

use super::lines::Section;
use super::number::count;
use super::{Refusal, Surroundings};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Properties of a job that depend on other jobs in the same file.
pub(super) struct Surround<'a> {
    pub(super) part: &'a Part,
    pub(super) before: Before,
    /// Start delay, ns: until the end of the job for which this job waits; 0: no delay.
    pub(super) delay_ns: u64,
    /// Whether the job belongs to the last group of the file.
    pub(super) is_last: bool,
    /// Whether other jobs end with this one: a section of the file has `exitall`.
    pub(super) exits: bool,
}

/// Facts about earlier jobs in the same job file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// Size of the job's file, bytes; None unless an earlier job defines it.
    pub(super) file_bytes: Option<u64>,
    /// Total number of clones of all earlier jobs.
    pub(super) clones: u64,
}

/// Alignment of the start of each file on the target, bytes.
const FILE_ALIGN_BYTES: u64 = 1 << 20;

/// The part of the target in which a job's files are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole target, from its start.
    #[default]
    Whole,
    /// From this byte of the target on.
    From(u64),
    /// One of several equal parts: its index, from 0, and the number of parts.
    Share(u64, u64),
}

/// A group of jobs that run at the same time, by their index in the job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) jobs: Vec<usize>,
    /// Jobs in this group that wait for the end of another one (`wait_for`): index of the waiting job → index of the
    /// other.
    pub(super) waits: BTreeMap<usize, usize>,
}

/// Divides the jobs of a file into groups. `stonewall` begins a new group. A simple chain of `wait_for`
/// becomes one group per step.
pub(super) fn groups(sections: &[Section], refused: &mut Vec<Refusal>) -> Vec<Group> {
    let mut spans: Vec<Vec<usize>> = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        if section.flag("stonewall") || spans.is_empty() {
            spans.push(Vec::new());
        }
        if let Some(span) = spans.last_mut() {
            span.push(number);
        }
    }
    let mut groups = Vec::new();
    for span in spans {
        let mut waits = BTreeMap::new();
        let mut levels: BTreeMap<usize, usize> = BTreeMap::new();
        for &number in &span {
            levels.insert(number, 0);
            let section = &sections[number];
            let (Some(name), Some(opt)) = (section.value("wait_for"), section.opt("wait_for"))
            else {
                continue;
            };
            let before = (0..number).rev().find(|&other| sections[other].job_name() == name);
            match before {
                None => {
                    let words = format!("no job before `{}` has the name `{name}`", section.name);
                    let help = "name a job that is defined before this one";
                    refused.push(Refusal::new(opt.place.clone(), words, help));
                }
                // A job of an earlier group has ended.
                Some(before) if span[0] > before => {}
                Some(before) => {
                    waits.insert(number, before);
                    levels.insert(number, levels[&before] + 1);
                }
            }
        }
        let deepest = levels.values().copied().max().unwrap_or(0);
        let at = |level| span.iter().copied().filter(|n| levels[n] == level).collect::<Vec<_>>();
        if (0..deepest).all(|level| at(level).len() == 1) {
            // Each level waits for all jobs before it, so it is a group of its own.
            let chain = (0..=deepest).map(|level| Group { jobs: at(level), ..Group::default() });
            groups.extend(chain);
        } else {
            groups.push(Group { jobs: span, waits });
        }
    }
    groups
}

/// Separator between the file names of a job.
const BETWEEN_FILES: char = '\0';

/// File names of a job as in fio, joined by [`BETWEEN_FILES`]. None if each clone has its own files.
pub(super) fn files_of(section: &Section) -> Option<String> {
    // Named files are in the first folder of `directory`.
    let folder = section.value("directory").map(|folders| file_names(folders).swap_remove(0));
    let in_folder = |name: &str| match &folder {
        Some(folder) => format!("{}/{name}", folder.trim_end_matches('/')),
        None => name.to_owned(),
    };
    if let Some(names) = section.value("filename") {
        let files: Vec<String> = file_names(names).iter().map(|name| in_folder(name)).collect();
        return Some(files.join(&String::from(BETWEEN_FILES)));
    }
    if let Some(uri) = section.value("uri") {
        return Some(uri.to_owned());
    }
    let format = section.value("filename_format")?.to_ascii_lowercase();
    let is_of_all = !format.contains("$jobnum");
    is_of_all.then(|| in_folder(&format.replace("$jobname", section.job_name())))
}

/// Key that is equal for jobs with the same files: [`files_of`], or fio's default file names.
fn identity(section: &Section) -> String {
    let own = || {
        let folder = section.value("directory").map(|folders| file_names(folders).swap_remove(0));
        let folder = folder.map_or(String::new(), |f| format!("{}/", f.trim_end_matches('/')));
        let count = |name: &str| section.value(name).unwrap_or("1");
        let name = match section.value("filename_format") {
            Some(format) => format.to_ascii_lowercase().replace("$jobname", section.job_name()),
            None if (count("numjobs"), count("nrfiles")) == ("1", "1") => {
                format!("{}.0.0", section.job_name())
            }
            None => format!("{}.*", section.job_name()),
        };
        folder + &name
    };
    files_of(section).unwrap_or_else(own)
}

/// Whether all files named by a job are devices. Each device is a target of its own, used from its start.
pub(super) fn is_device(section: &Section) -> bool {
    let is_one = |name: &String| name.starts_with("/dev/") && !name.starts_with("/dev/shm/");
    section.value("filename").is_some_and(|names| file_names(names).iter().all(is_one))
}

/// The single file or device that a job names; None if it names none or several.
pub(super) fn file_of(section: &Section) -> Option<PathBuf> {
    section.value("filename")?;
    files_of(section).filter(|names| !names.contains(BETWEEN_FILES)).map(PathBuf::from)
}

/// Whether a job's file is a target of its own, used from its start: a device, or one of several targets of
/// the run.
fn is_own_target(section: &Section, around: &dyn Surroundings) -> bool {
    is_device(section) || file_of(section).is_some_and(|file| around.is_target(&file))
}

/// A file, or one job's set of files, and all jobs that use it.
struct Used {
    name: String,
    jobs: Vec<usize>,
    /// First group that uses the file. The file keeps its content until `last_group`.
    first_group: usize,
    last_group: usize,
    /// Maximum number of bytes that a job needs in the file; None if it is unknown for any job.
    bytes: Option<u64>,
}

impl Used {
    fn meets(&self, other: &Self) -> bool {
        self.first_group <= other.last_group && other.first_group <= self.last_group
    }
}

/// For each job, the index of its group.
fn groups_by_job(sections: &[Section], groups: &[Group]) -> Vec<usize> {
    let of = |job: usize| groups.iter().position(|group| group.jobs.contains(&job)).unwrap_or(0);
    (0..sections.len()).map(of).collect()
}

/// For each job, the facts about earlier jobs, and the bytes that the job needs according to `space`. The size of a
/// device is never known.
pub(super) fn known_before(
    sections: &[Section],
    mut space: impl FnMut(usize, Before) -> Option<u64>,
) -> (Vec<Before>, Vec<Option<u64>>) {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    let (mut known, mut spaces, mut clones) = (Vec::new(), Vec::new(), 0_u64);
    for (number, section) in sections.iter().enumerate() {
        let name = Some(identity(section)).filter(|_| !is_device(section));
        let file_bytes = name.as_ref().and_then(|name| sizes.get(name)).copied();
        let before = Before { file_bytes, clones };
        let bytes = space(number, before);
        let own = section.value("numjobs").and_then(|text| count(text, 1024).ok());
        clones = clones.saturating_add(own.unwrap_or(1).max(1));
        if let (Some(name), Some(bytes)) = (name, bytes) {
            let size = sizes.entry(name).or_default();
            *size = bytes.max(*size);
        }
        known.push(before);
        spaces.push(bytes);
    }
    (known, spaces)
}

/// Determines the part of the target for each job. `spaces`: bytes that each job needs; None if unknown. A device, or a
/// file that is a target of its own, begins at the start of its target. So do other files, but files in use at the same
/// time are placed side by side. Jobs with the same file use the same part, in all groups.
pub(super) fn parts(
    sections: &[Section],
    groups: &[Group],
    spaces: &[Option<u64>],
    around: &dyn Surroundings,
    refused: &mut Vec<Refusal>,
) -> Vec<Part> {
    let mut parts = vec![Part::Whole; sections.len()];
    let group_of = groups_by_job(sections, groups);
    let mut files: Vec<Used> = Vec::new();
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|job| group_of[*job]);
    for job in order {
        if is_own_target(&sections[job], around) {
            continue;
        }
        let (name, group) = (identity(&sections[job]), group_of[job]);
        if let Some(file) = files.iter_mut().find(|file| file.name == name) {
            file.jobs.push(job);
            file.last_group = group;
            file.bytes = file.bytes.zip(spaces[job]).map(|(a, b)| a.max(b));
        } else {
            let (jobs, bytes) = (vec![job], spaces[job]);
            files.push(Used { name, jobs, first_group: group, last_group: group, bytes });
        }
    }
    overlapping(sections, &files, refused);
    while !files.is_empty() {
        let together = split_off_those_that_meet(&mut files);
        if together.len() > 1 {
            place(sections, &group_of, &together, &mut parts, refused);
        }
    }
    parts
}

/// Removes and returns the first file, and all files that are in use at the same time as it, directly or through other
/// files.
fn split_off_those_that_meet(files: &mut Vec<Used>) -> Vec<Used> {
    let mut together = vec![files.remove(0)];
    let mut at = 0;
    while at < together.len() {
        let (mut meet, others): (Vec<_>, Vec<_>) =
            files.drain(..).partition(|file| file.meets(&together[at]));
        together.append(&mut meet);
        *files = others;
        at += 1;
    }
    together.sort_by_key(|file| file.jobs[0]);
    together
}

/// Places files that are in use at the same time side by side.
fn place(
    sections: &[Section],
    group_of: &[usize],
    files: &[Used],
    parts: &mut [Part],
    refused: &mut Vec<Refusal>,
) {
    if files.iter().all(|file| file.bytes.is_none()) {
        // Equal parts: each file takes the first number that no file in use at the same time has.
        let mut numbers: Vec<u64> = Vec::new();
        for (at, file) in files.iter().enumerate() {
            let is_taken = |n: u64| (0..at).any(|o| numbers[o] == n && files[o].meets(file));
            // At least one number up to its own index is free.
            numbers.push((0..=at as u64).find(|n| !is_taken(*n)).unwrap_or(0));
        }
        let count = numbers.iter().max().map_or(1, |most| most + 1);
        for (file, number) in files.iter().zip(numbers) {
            file.jobs.iter().for_each(|job| parts[*job] = Part::Share(number, count));
        }
        return;
    }
    let mut placed: Vec<(&Used, u64, u64)> = Vec::new();
    for file in files {
        let Some(bytes) = file.bytes else {
            let at_once = |job: &usize| {
                let others = files.iter().filter(|other| other.name != file.name);
                others.flat_map(|o| &o.jobs).any(|other| group_of[*other] == group_of[*job])
            };
            if let Some(job) = file.jobs.iter().find(|job| at_once(job)) {
                let section = &sections[*job];
                let words = format!(
                    "the file of `{}` has no size in bytes, so its place among the files of concurrent jobs is unknown",
                    section.name
                );
                let help = "give size in bytes to all jobs of the group, or to none";
                refused.push(Refusal::new(section.place.clone(), words, help));
            }
            continue;
        };
        // First fit: the first gap that is large enough.
        let mut start = 0_u64;
        while let Some((.., end)) = placed.iter().find(|(other, from, end)| {
            other.meets(file) && *from < start.saturating_add(bytes) && *end > start
        }) {
            let next = end.checked_next_multiple_of(FILE_ALIGN_BYTES).unwrap_or(u64::MAX);
            if next <= start || next == u64::MAX {
                start = next;
                break;
            }
            start = next;
        }
        placed.push((file, start, start.saturating_add(bytes)));
        for job in &file.jobs {
            parts[*job] = if start == 0 { Part::Whole } else { Part::From(start) };
        }
    }
}

/// Refuses jobs that run at the same time and have different values of `flow_id`.
pub(super) fn one_flow(sections: &[Section], groups: &[Group], refused: &mut Vec<Refusal>) {
    for group in groups {
        let with_flow = group.jobs.iter().map(|job| &sections[*job]).filter(|s| s.flag("flow"));
        let id = |section: &Section| section.value("flow_id").unwrap_or("0").to_owned();
        let mut first = None;
        for section in with_flow {
            let own = id(section);
            if *first.get_or_insert_with(|| own.clone()) != own {
                let place = section.opt("flow_id").map_or(&section.place, |opt| &opt.place);
                let words = "simultaneous jobs have different flow_ids, but iodyno balances all of them against one another";
                let help = "give all of them one flow_id, or separate them by stonewall";
                refused.push(Refusal::new(place.clone(), words, help));
            }
        }
    }
}

/// Refuses jobs that share some, but not all, of their files.
fn overlapping(sections: &[Section], files: &[Used], refused: &mut Vec<Refusal>) {
    for (number, file) in files.iter().enumerate() {
        let own = || file.name.split(BETWEEN_FILES);
        let is_common =
            |other: &Used| other.name.split(BETWEEN_FILES).any(|file| own().any(|own| own == file));
        if files[..number].iter().any(is_common) {
            let section = &sections[file.jobs[0]];
            let place = section.opt("filename").map_or(&section.place, |opt| &opt.place);
            let words = "this job shares only some of its files with another job";
            let help = "give both jobs the same files, or none in common";
            refused.push(Refusal::new(place.clone(), words, help));
        }
    }
}

/// Splits a `filename` at its colons; `\:` is a literal colon.
pub(super) fn file_names(text: &str) -> Vec<String> {
    text.replace("\\:", "\u{1}").split(':').map(|name| name.replace('\u{1}', ":")).collect()
}
