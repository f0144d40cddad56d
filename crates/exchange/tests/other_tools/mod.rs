//! Helpers for the tests of several foreign formats.

use iodyno_catalog::Problem;
use iodyno_exchange::fio::{Job, JobFile};
use iodyno_workload::Spec;

/// The only job of a text.
pub(crate) fn one(read: Result<JobFile, Problem>) -> Job {
    let mut file = read.unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(file.jobs().count(), 1);
    file.groups.remove(0).remove(0)
}

/// Asserts that a job equals a workload text, except for its `about` line.
#[track_caller]
pub(crate) fn is_workload(job: &Job, toml: &str) {
    let toml = format!("schema = 1\nabout = {:?}\n{toml}", job.spec.about());
    let theirs = Spec::from_toml(&toml).unwrap_or_else(|e| panic!("{toml}\n{e:?}"));
    assert_eq!(job.spec, theirs, "\n{}\n{}", job.toml, theirs.to_toml());
    assert_eq!(Spec::from_toml(&job.toml).as_ref(), Ok(&job.spec));
}

/// Asserts that a remark contains these words.
#[track_caller]
pub(crate) fn says(remarks: &[iodyno_exchange::fio::Note], words: &str) {
    assert!(remarks.iter().any(|remark| remark.words.contains(words)), "{words}: {remarks:?}");
}

/// Message of a refusal.
pub(crate) fn refusal(text: &str, read: Result<JobFile, Problem>) -> String {
    match read {
        Ok(_) => panic!("is read: {text}"),
        Err(problem) => problem.to_string(),
    }
}
