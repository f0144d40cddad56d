//! Foreign formats as workloads: job files of fio, command lines of sysbench's `fileio` and of diskspd, parameter files of
//! vdbench.
//!
//! **Invariant:** an option of a foreign text is honoured, noted or refused, and never dropped without a word.

mod command_line;
pub mod diskspd;
pub mod fio;
mod found;
pub mod sysbench;
pub mod vdbench;

use command_line::program;
use fio::JobFile;
use iodyno_catalog::Problem;

/// Whether a name on the command line stands for a foreign workload: the path of a job file of fio (`.fio`) or of a
/// parameter file of vdbench (`.vdb`), or a command line of sysbench, diskspd or vdbench in one word.
pub fn is_foreign(name: &str) -> bool {
    fio::is_job_file(name) || vdbench::is_parameter_file(name) || is_command_line(name)
}

fn is_command_line(name: &str) -> bool {
    matches!(program(name), Some("sysbench" | "diskspd" | "vdbench"))
}

/// Reads a foreign workload: a command line, a parameter file of vdbench, or else a job file of fio.
///
/// # Errors
/// A file that can't be read; all options that can't be honoured, with their places.
pub fn read(name: &str) -> Result<JobFile, Problem> {
    match program(name) {
        Some("sysbench") => sysbench::parse(name),
        Some("diskspd") => diskspd::parse(name),
        Some("vdbench") => vdbench::read_command(name),
        _ if vdbench::is_parameter_file(name) => vdbench::read(name),
        _ => fio::read(name),
    }
}
