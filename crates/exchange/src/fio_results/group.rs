//! Assigns JSON entries and logs to fio jobs.

use super::log::LogFile;
use super::output::{Job, Output};
use iodyno_catalog::Problem;
use std::ops::Range;

/// Maximum number of threads per job; fio's own limit is 4096.
const THREADS_MAX: u32 = 4096;
/// Minimum run time of a job for counting its threads by `job_runtime`, ms.
const LENGTH_MIN_MS: u64 = 200;

/// JSON entries for the threads of one job.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) jobs: Vec<&'a Job>,
    pub(super) threads: u32,
    /// fio's job numbers of the threads, from 1, as in the names of logs.
    pub(super) numbers: Range<u32>,
}

/// Groups consecutive entries with the same name and options, which are the threads of one job (`numjobs`).
pub(super) fn groups(output: &Output) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for job in output.all_jobs() {
        let threads = output.option(job, "numjobs").and_then(|n| n.parse().ok()).unwrap_or(1);
        let threads = u32::clamp(threads, 1, THREADS_MAX).max(summed_threads(job));
        let same = |other: &Job| {
            other.name() == job.name()
                && other.groupid == job.groupid
                && other.hostname == job.hostname
                && other.options == job.options
        };
        match groups.last_mut() {
            Some(last) if last.jobs.len() < threads as usize && same(last.jobs[0]) => {
                last.jobs.push(job);
            }
            _ => groups.push(Group { jobs: vec![job], threads, numbers: 0..0 }),
        }
    }
    let mut next = 1;
    for group in &mut groups {
        if group.jobs.len() > 1 {
            group.threads = group.jobs.len() as u32;
        }
        group.numbers = next..next + group.threads;
        next += group.threads;
    }
    groups
}

/// Number of threads summed in an entry, derived from its run time. Exceeds `numjobs` if `group_reporting` sums
/// several jobs. 0: the job was too short to tell.
pub(super) fn summed_threads(job: &Job) -> u32 {
    let longest_ms = job.directions().map(|(_, of)| of.runtime).max().unwrap_or(0);
    if longest_ms < LENGTH_MIN_MS {
        return 0;
    }
    (job.runtime as f64 / longest_ms as f64).round().min(f64::from(THREADS_MAX)) as u32
}

/// Index of the group to which a log belongs.
pub(super) fn group_of(
    log: &LogFile,
    number: Option<u32>,
    groups: &[Group],
) -> Result<usize, Problem> {
    if groups.len() == 1 {
        return Ok(0);
    }
    let threads = groups.last().map_or(0, |group| group.numbers.end - 1);
    let found = number.and_then(|n| groups.iter().position(|group| group.numbers.contains(&n)));
    found.ok_or_else(|| {
        let what = match number {
            Some(number) => {
                format!("this is the log of thread {number}, but the JSON has {threads} threads")
            }
            None => format!(
                "this is a log of all jobs (per_job_logs=0), but the JSON has {} jobs",
                groups.len()
            ),
        };
        Problem::new(&log.origin, what).with_help("import the JSON without this log")
    })
}
