//! Which jobs run at the same time, and on which part of the target each of them runs: fio's files lie side by side on
//! it. What a job does on its part is in `duration.rs`.

use super::Refusal;
use super::lines::Section;
use std::collections::BTreeMap;

/// What a job has of the file around it.
pub(super) struct Surround<'a> {
    /// Its part of the target.
    pub(super) part: &'a Part,
    /// How long it waits for another, ns.
    pub(super) delay_ns: u64,
    /// It is of the last group.
    pub(super) is_last: bool,
}

/// Files begin at multiples of this, so that any block fits.
const FILE_ALIGN_BYTES: u64 = 1 << 20;

/// The part of the target that a job's files take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// The target from its start.
    #[default]
    Whole,
    /// From so many bytes on.
    From(u64),
    /// One of so many equal parts, counted from 0.
    Share(u64, u64),
}

/// A group: its jobs by their numbers in the file, and which of them waits for which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) jobs: Vec<usize>,
    /// By job: the job whose end it waits for, in the same group.
    pub(super) waits: BTreeMap<usize, usize>,
}

/// The groups of a file: those that `stonewall` separates, and in them chains of `wait_for`.
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
                    let help = "name a job that stands before this one";
                    refused.push(Refusal::new(opt.place.clone(), words, help));
                }
                // One of an earlier group has ended.
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
            // Each waits for all that runs before it: a group of its own.
            let chain = (0..=deepest).map(|level| Group { jobs: at(level), ..Group::default() });
            groups.extend(chain);
        } else {
            groups.push(Group { jobs: span, waits });
        }
    }
    groups
}

/// Between the files of a job that has several.
const BETWEEN_FILES: char = '\0';

/// The files of a job, as fio names them; None where each clone has its own.
pub(super) fn files_of(section: &Section) -> Option<String> {
    // (Files that a job names are in the first of its folders.)
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

/// The part of each job, by its number, from the bytes that each takes; None where they are not known. Jobs of a group
/// that name one file share it. A file that is named keeps its place in later groups.
pub(super) fn parts(
    sections: &[Section],
    groups: &[Group],
    spaces: &[Option<u64>],
    refused: &mut Vec<Refusal>,
) -> Vec<Part> {
    let mut parts = vec![Part::Whole; sections.len()];
    let names: Vec<Option<String>> = sections.iter().map(files_of).collect();
    let mut placed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for group in groups {
        // The group's files in their order, each with its jobs.
        let mut files: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
        for &job in &group.jobs {
            let name = names[job].as_deref();
            match files.iter_mut().find(|(other, _)| name.is_some() && *other == name) {
                Some((_, jobs)) => jobs.push(job),
                None => files.push((name, vec![job])),
            }
        }
        overlapping(sections, &files, refused);
        let space = |jobs: &[usize]| {
            jobs.iter().map(|job| spaces[*job]).collect::<Option<Vec<_>>>()?.into_iter().max()
        };
        let known: Vec<Option<u64>> = files.iter().map(|(_, jobs)| space(jobs)).collect();
        let is_known_before =
            files.iter().any(|(name, _)| name.is_some_and(|n| placed.contains_key(n)));
        if let ([(Some(name), _)], [Some(bytes)], false) = (&files[..], &known[..], is_known_before)
        {
            placed.insert(name, (0, *bytes));
        }
        if files.len() < 2 && !is_known_before {
            continue;
        }
        if known.iter().all(Option::is_none) {
            for (number, (_, jobs)) in files.iter().enumerate() {
                for job in jobs {
                    parts[*job] = Part::Share(number as u64, files.len() as u64);
                }
            }
            continue;
        }
        let own = files.iter().filter_map(|(name, _)| placed.get((*name)?));
        let mut next = own.map(|(start, bytes)| start.saturating_add(*bytes)).max().unwrap_or(0);
        for ((name, jobs), bytes) in files.iter().zip(&known) {
            let Some(bytes) = bytes else {
                let section = &sections[jobs[0]];
                let words = format!(
                    "the place of the file of `{}` beside those of the jobs at the same time is not known: it has no size in bytes",
                    section.name
                );
                let help = "give size in bytes to all jobs of the group, or to none";
                refused.push(Refusal::new(section.place.clone(), words, help));
                continue;
            };
            let start = match name.and_then(|name| placed.get(name)) {
                Some((start, before)) if before >= bytes => *start,
                _ => {
                    let start = next.checked_next_multiple_of(FILE_ALIGN_BYTES).unwrap_or(next);
                    next = start.saturating_add(*bytes);
                    start
                }
            };
            if let Some(name) = name {
                placed.insert(name, (start, *bytes));
            }
            for job in jobs {
                parts[*job] = if start == 0 { Part::Whole } else { Part::From(start) };
            }
        }
    }
    parts
}

/// Refuses a file that is one of several of another job.
fn overlapping(
    sections: &[Section],
    files: &[(Option<&str>, Vec<usize>)],
    refused: &mut Vec<Refusal>,
) {
    for (number, (name, jobs)) in files.iter().enumerate() {
        let Some(name) = name else { continue };
        let others = files[..number].iter().filter_map(|(other, _)| *other);
        let own = || name.split(BETWEEN_FILES);
        let is_common =
            |other: &str| other.split(BETWEEN_FILES).any(|file| own().any(|own| own == file));
        if others.into_iter().any(is_common) {
            let section = &sections[jobs[0]];
            let place = section.opt("filename").map_or(&section.place, |opt| &opt.place);
            let words = "this job shares some of its files with another, and not all";
            let help = "give jobs at the same time the same files, or none in common";
            refused.push(Refusal::new(place.clone(), words, help));
        }
    }
}

/// The files of a `filename`, which colons separate; `\:` is a colon.
pub(super) fn file_names(text: &str) -> Vec<String> {
    text.replace("\\:", "\u{1}").split(':').map(|name| name.replace('\u{1}', ":")).collect()
}
