//! Converts fio's JSON output and log files to cells, the measurements in a notebook of runs. Submodules read the JSON
//! (`output.rs`) and the logs (`log.rs`), match both to jobs (`group.rs`), convert latencies (`latency.rs`), divide
//! them into intervals (`series.rs`), and build the cells (`cells.rs`, `failures.rs`).
//!
//! iodyno can't check how fio measured. [`Evidence::other_tool`] records this.
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

/// The imported jobs of one fio invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Name and version of the program, such as `fio-3.36`.
    pub program: String,
    /// Start of fio, ms since 1970. Before fio 3.34, computed from whole seconds of elapsed time.
    pub started_ms: u64,
    /// End of the jobs, ms since 1970.
    pub ended_ms: u64,
    /// Name of the run: the job names, joined by `+`.
    pub name: String,
    /// Files and devices of all jobs, without duplicates.
    pub targets: Vec<Target>,
    /// Names of the block devices in fio's `disk_util`.
    pub disks: Vec<String>,
    /// Name and options of each job, in the order of [`Self::cells`].
    pub workloads: Vec<(String, BTreeMap<String, String>)>,
    /// One cell per job, with its threads summed and without verdicts.
    pub cells: Vec<Cell>,
    /// Remarks on data that was not imported, each with the reason.
    pub remarks: Vec<String>,
    /// Hash of the JSON and the logs. The id of the run derives from it, so a repeated import gets the same id.
    pub digest: u64,
}

/// A file or device used by fio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name from fio's options, such as `/dev/nvme0n1`.
    pub name: String,
    /// `file`, `block` or `null`.
    pub kind: &'static str,
}

/// Whether a text contains fio's JSON output.
pub fn is_results(text: &str) -> bool {
    output::is_in(text)
}

/// Parses fio's JSON output and log files of the same invocation. `origin`: path of the JSON, for error messages.
///
/// # Errors
/// The JSON is damaged, from a fio before 3.0, or has no job with latencies; or a log is damaged, or from another
/// invocation.
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
