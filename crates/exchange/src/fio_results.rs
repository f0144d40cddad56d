//! Results of fio: its JSON and its log files become cells, so that a notebook can hold measurements that fio made.
//! `output.rs` reads the JSON, `log.rs` the logs, `group.rs` finds the entries and logs of each job, `latency.rs` converts
//! latencies, `series.rs` divides them into intervals, `cells.rs` makes cells of jobs, `failures.rs` counts what failed.
//!
//! The figures are fio's. iodyno can't check how they were measured, and says so in [`Evidence::other_tool`].
//!
//! [`Evidence::other_tool`]: iodyno_measure::Evidence::other_tool

mod cells;
mod failures;
mod group;
mod latency;
mod log;
mod output;
mod series;

pub use log::LogFile;

use iodyno_catalog::Problem;
use iodyno_measure::Cell;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The jobs of one invocation of fio.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Name and version of the program, such as `fio-3.36`.
    pub program: String,
    /// Start of fio, ms since 1970. Exact to a second, unless fio gives it (since 3.34).
    pub started_ms: u64,
    /// End of the jobs, ms since 1970.
    pub ended_ms: u64,
    /// Names of the jobs, joined by `+`: the name of the run.
    pub name: String,
    /// Files and devices of the jobs, each once.
    pub targets: Vec<Target>,
    /// Block devices whose use fio reports.
    pub disks: Vec<String>,
    /// Jobs with their options, in the order of [`Self::cells`].
    pub workloads: Vec<(String, BTreeMap<String, String>)>,
    /// Jobs with their figures, not yet judged. Threads of one job are one cell.
    pub cells: Vec<Cell>,
    /// What was left out, and why.
    pub remarks: Vec<String>,
    /// Hash of all files, for an id that is the same at each import.
    pub digest: u64,
}

/// A file or device that fio used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name by fio's options, such as `/dev/nvme0n1`.
    pub name: String,
    /// Kind of target, as in facts about targets: `file`, `block` or `null`.
    pub kind: &'static str,
}

/// Whether a text contains results of fio as JSON.
pub fn is_results(text: &str) -> bool {
    output::is_in(text)
}

/// Reads the JSON that fio printed, and log files of the same invocation. `origin` is the path of the JSON, for errors.
///
/// # Errors
/// The JSON is damaged, of fio before 3.0, or has no job with latencies; a log is damaged, or of another invocation.
pub fn read(origin: &str, text: &str, logs: &[LogFile]) -> Result<Results, Problem> {
    let (output, mut remarks) = output::last(origin, text)?;
    let jobs = cells::of(origin, &output, logs, &mut remarks)?;
    let mut hash = Sha256::new();
    let mut texts: Vec<&str> = logs.iter().map(|log| log.text.as_str()).collect();
    texts.sort_unstable();
    for text in [text].into_iter().chain(texts) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let digest = hash.finalize();
    let digest = digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let mut targets: Vec<Target> = Vec::new();
    for job in &jobs {
        if !targets.contains(&job.target) {
            targets.push(job.target.clone());
        }
    }
    let names: Vec<&str> = jobs.iter().map(|job| job.cell.key.name.as_str()).collect();
    let elapsed_ms = output.all_jobs().map(|job| job.elapsed.saturating_mul(1000)).max();
    let ended_ms = output.ended_ms();
    let started_ms = output.all_jobs().filter_map(|job| job.start).min();
    let started_ms = started_ms.filter(|start| *start <= ended_ms);
    Ok(Results {
        program: cells::program(&output),
        started_ms: started_ms.unwrap_or(ended_ms.saturating_sub(elapsed_ms.unwrap_or(0))),
        ended_ms,
        name: crate::shared::name(&names.join("+")),
        targets,
        disks: output.disk_util.iter().map(|disk| disk.name.clone()).collect(),
        workloads: jobs
            .iter()
            .map(|job| (job.cell.key.name.clone(), job.options.clone()))
            .collect(),
        cells: jobs.into_iter().map(|job| job.cell).collect(),
        remarks,
        digest,
    })
}
