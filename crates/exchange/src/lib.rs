//! Converts formats of other tools:
//!
//! - job files of fio, parameter files of vdbench, and command lines of fio, sysbench's `fileio`, diskspd and
//!   `amps_bio_perf_test` to workloads;
//! - recorded I/O to traces;
//! - fio results to cells, the measurements in a notebook.
//!
//! **Invariant:** each option or line of a foreign text is either supported, reported in a note, or refused with an
//! error; none is silently dropped.

#![forbid(unsafe_code)]

pub mod amps;
mod command_line;
pub mod diskspd;
pub mod fio;
pub mod fio_results;
mod found;
mod option_line;
mod shared;
pub mod sysbench;
pub mod trace;
pub mod vdbench;

use command_line::program;
use fio::JobFile;
use iodyno_catalog::Problem;

/// Whether a command-line argument is a workload of another tool: the path of a fio job file (`.fio`) or
/// vdbench parameter file (`.vdb`), or, as a single argument, a command line of fio, sysbench, diskspd,
/// `amps_bio_perf_test` or vdbench.
pub fn is_foreign(name: &str) -> bool {
    fio::is_job_file(name) || vdbench::is_parameter_file(name) || is_command_line(name)
}

fn is_command_line(name: &str) -> bool {
    program(name).is_some()
}

/// Reads a workload of another tool: a command line, a vdbench parameter file, or else a fio job file. `only` selects
/// jobs by name; all if it is empty.
///
/// # Errors
/// The file is unreadable, options are unsupported (all are listed with their positions), or `only` names an unknown
/// job.
pub fn read(
    name: &str,
    only: &[String],
    around: &dyn fio::Surroundings,
) -> Result<JobFile, Problem> {
    let mut file = match program(name) {
        Some("sysbench") => sysbench::parse(name)?,
        Some("diskspd") => diskspd::parse(name)?,
        Some(amps::PROGRAM) => amps::parse(name)?,
        Some("vdbench") => vdbench::read_command(name)?,
        _ if vdbench::is_parameter_file(name) => vdbench::read(name)?,
        _ => return fio::read(name, only, around),
    };
    let names: Vec<String> = file.jobs().map(|job| job.name.clone()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        let message = format!("there is no job `{unknown}`; the jobs are {}", names.join(", "));
        return Err(Problem::new(name, message));
    }
    if !only.is_empty() {
        file.groups.iter_mut().for_each(|group| group.retain(|job| only.contains(&job.name)));
        file.groups.retain(|group| !group.is_empty());
    }
    Ok(file)
}
