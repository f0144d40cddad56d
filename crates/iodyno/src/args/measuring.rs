//! Command-line flags of every command that measures: `run`, `replay` and `log bench`.

use super::Shown;
use clap::Args;
use iodyno_drive::EngineKind;
use iodyno_measure::Threshold;
use iodyno_report::run_verdict::CODES;
use iodyno_run::Processors;
use iodyno_units::{nearest, parse_duration_ns};
use std::path::PathBuf;

/// Flags shared by all commands that measure.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct Measuring {
    /// Set the seed of all random streams
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    pub seed: u64,
    /// Measure everything N times, 1 to 1000, each time with different random streams
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,

    /// Choose the I/O engine: uring, libaio, psync or mmap [default: depends on the target, the depth, and whether there are writes]
    ///
    /// The results name the engine, and -v explains the choice. Set the engine if you compare runs.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub engine: Option<EngineKind>,
    /// Run all threads on these processors, such as `0-3,8`
    #[arg(long, value_name = "LIST", help_heading = "Engine")]
    pub cpus: Option<Processors>,

    /// Overwrite the data on this target: NAME is its device name, path, serial number or URI; may be repeated
    ///
    /// Required if the target holds data that iodyno did not write, or is open elsewhere. A target that is mounted,
    /// swap space or held exclusively is refused regardless.
    #[arg(long, value_name = "NAME", help_heading = "Safety")]
    pub destroy: Vec<String>,

    /// Exit with 6 if a result misses this threshold, such as 'p99<500us'; may be repeated
    ///
    /// More examples: 'write.p99.9<=2ms', 'random-*: iops>100k' (cells with these names), 'bandwidth>=1GB/s'.
    /// Metrics are iops, bandwidth, mean, p50 to p99.999 and max, for each kind of operation, or for one kind with a
    /// prefix (`read.`, `write.`).
    #[arg(long, value_name = "THRESHOLD", help_heading = "Output")]
    pub require: Vec<Threshold>,
    /// Exit with 6 also if any cell has a warning or is INVALID, as a gate for CI
    ///
    /// A condition of --require whose limit lies within the 95 % interval of its figure counts as a warning, too.
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
    /// With --strict, accept warnings of this name, such as PAGE_CACHE; may be repeated
    #[arg(long, value_name = "NAME", requires = "strict", value_parser = verdict_name, help_heading = "Output")]
    pub accept: Vec<String>,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print one JSON document that includes the time series
    #[arg(long, help_heading = "Output")]
    pub series: bool,
    /// Set the length of an interval of the time series [default: 100ms to 1m, by the length of the run]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Output")]
    pub interval: Option<u64>,
    /// Print no live progress on standard error
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Level of detail of the printed results.
    #[command(flatten)]
    pub shown: Shown,
    /// Do not store the run in the notebook
    #[arg(long, help_heading = "Output")]
    pub no_notebook: bool,
    /// Write an HTML report when the run ends, as `iodyno report` does
    ///
    /// Without FILE, writes iodyno-ID.html in the current folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        help_heading = "Output")]
    pub report: Option<Option<PathBuf>>,
}

/// Parses the name of a verdict, in lower or upper case.
fn verdict_name(text: &str) -> Result<String, String> {
    let name = text.to_ascii_uppercase();
    if CODES.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(match nearest(&name, CODES) {
        Some(near) => format!("not the name of a verdict; did you mean {near}?"),
        None => "not the name of a verdict, such as PAGE_CACHE".to_owned(),
    })
}
