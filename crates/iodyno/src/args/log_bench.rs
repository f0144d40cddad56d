//! Flags of `log bench`.

use super::{Shown, target};
use clap::{Args, ValueEnum};
use iodyno_drive::EngineKind;
use iodyno_measure::Threshold;
use iodyno_run::Processors;
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_rate_iops, parse_size};
use std::path::PathBuf;

/// Examples at the end of the help of `log bench`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno log bench --on scratch:1GiB                              find the maximum rate of messages
  iodyno log bench --rate 1M/s --size 1KiB --readers 4 --on /dev/nvme0n1
  iodyno log bench --durability none,batch,each --on d.img?size=1GiB   compare the levels of durability
  iodyno log bench --rate 500k/s --on model:exflash-400g --report      plot latency spikes of an emulated device
  iodyno log bench --rate 200k/s --backlog 1M --drop --on live:hdd-7k2-4t --require 'write.p99<5ms'";

/// Point at which a message counts as persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogDurability {
    /// When its write completes; a crash of the machine can lose it
    None,
    /// When a flush after its write completes; messages share flushes
    Batch,
    /// When its own flush completes; each message has a write and a flush of its own
    Each,
}

impl From<LogDurability> for iodyno_workload::LogDurability {
    fn from(word: LogDurability) -> Self {
        match word {
            LogDurability::None => Self::None,
            LogDurability::Batch => Self::Batch,
            LogDurability::Each => Self::Each,
        }
    }
}

/// Flags of `log bench`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct LogBench {
    /// Choose a target, as for `run`; may be repeated, with one log per target
    #[arg(long, value_name = "TARGET", value_parser = target, default_value = "scratch:")]
    pub on: Vec<TargetName>,

    /// Publish this many messages per second over all publishers, such as `1M/s` [default: as many as the log
    /// accepts]
    #[arg(long, value_name = "RATE", value_parser = parse_rate_iops, help_heading = "Load")]
    pub rate: Option<f64>,
    /// Set the size of a message body
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512", help_heading = "Load")]
    pub size: u64,
    /// Replay the log with N concurrent readers, 0 to 1023, which check what they read
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Load",
        value_parser = clap::value_parser!(u32).range(0..=1023))]
    pub readers: u32,
    /// Read N chunks per replay; then the next replay starts elsewhere in the log
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Load")]
    pub replay: u32,
    /// Set the number of publishers, each with its own message sequence
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub publishers: u32,
    /// Let all publishers together hold N messages that are not persisted, such as 500k; then they wait
    ///
    /// [default: 1,048,576 with --rate; otherwise the number that two flushes make durable]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Load")]
    pub backlog: Option<u64>,
    /// When the backlog is full, drop messages and count them, instead of waiting
    #[arg(long, requires = "rate", help_heading = "Load")]
    pub drop: bool,

    /// Choose when a message counts as persisted
    ///
    /// Several levels, separated by commas, are measured one after the other and compared.
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        value_delimiter = ',',
        default_value = "batch",
        help_heading = "Log"
    )]
    pub durability: Vec<LogDurability>,
    /// Use durable writes (FUA, RWF_DSYNC) instead of flushes
    #[arg(long, help_heading = "Log")]
    pub fua: bool,
    /// Limit the size of a chunk; each write stores one chunk
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64KiB", help_heading = "Log")]
    pub chunk: u64,
    /// Limit the messages per chunk [default: as many as fit]
    #[arg(long, value_name = "N", help_heading = "Log")]
    pub batch: Option<u32>,
    /// Flush after at most N chunks
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Log")]
    pub commit: u32,
    /// Limit the writes in flight, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Log",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub depth: u32,

    /// Measure for this long after the ramp
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "10s", help_heading = "Limits")]
    pub time: u64,
    /// Warm up for this long before the measurement (excluded from results)
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "1s", help_heading = "Limits")]
    pub ramp: u64,
    /// Repeat the measurement N times, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Limits",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Set the seed of message contents, replays and emulated devices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub seed: u64,

    /// Choose the I/O engine: uring, libaio, psync or mmap [default: by target]
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

    /// Exit with 6 if writes, reads or flushes miss this threshold, such as 'write.p99<5ms'; may be repeated
    ///
    /// See `iodyno run --help` for all forms.
    #[arg(long, value_name = "THRESHOLD", help_heading = "Output")]
    pub require: Vec<Threshold>,
    /// Set the name of the run in the notebook, for `compare`
    #[arg(long, value_name = "NAME", default_value = "message-log", help_heading = "Output")]
    pub name: String,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print one JSON document that includes the time series
    #[arg(long, help_heading = "Output")]
    pub series: bool,
    /// Set the length of an interval of the time series, such as 1s [default: by the length of the run]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Output")]
    pub interval: Option<u64>,
    /// Print no live progress on standard error
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Level of detail of the text.
    #[command(flatten)]
    pub shown: Shown,
    /// Do not store the run in the notebook
    #[arg(long, help_heading = "Output")]
    pub no_notebook: bool,
    /// Write an HTML report when the run ends, as `iodyno report` does
    ///
    /// Without FILE, writes iodyno-ID.html in the current folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, help_heading = "Output")]
    pub report: Option<Option<PathBuf>>,
}

/// A number of messages: `1000000`, `1M`.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    number
        .filter(|n| *n > 0)
        .ok_or_else(|| "take a whole number such as 50000, 500k or 2M".to_owned())
}
