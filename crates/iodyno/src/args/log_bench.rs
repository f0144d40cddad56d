//! Flags of `log bench`.

use super::{Shown, target};
use clap::{Args, ValueEnum};
use iodyno_drive::EngineKind;
use iodyno_measure::Threshold;
use iodyno_run::Processors;
use iodyno_target::TargetName;
use iodyno_units::{parse_duration_ns, parse_rate_iops, parse_size};
use std::path::PathBuf;

/// Examples at the end of the help of `log bench`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno log bench --on scratch:1GiB                              as many messages as the disk takes
  iodyno log bench --rate 1M/s --size 1KiB --readers 4 --on /dev/nvme0n1
  iodyno log bench --durability none,batch,each --on d.img?size=1GiB   the price of durability on this disk
  iodyno log bench --rate 500k/s --on model:exflash-400g --report      spikes over time, on a device that is not here
  iodyno log bench --rate 200k/s --backlog 1M --drop --on live:hdd-7k2-4t --require 'write.p99<5ms'";

/// When messages count as persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogDurability {
    /// When they are written: a crash of the machine may lose them.
    None,
    /// When they are flushed, many together.
    Batch,
    /// When they are flushed, each by itself.
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
    /// What the log is on, as in `run`; may be given again: a log on each.
    #[arg(long, value_name = "TARGET", value_parser = target, default_value = "scratch:")]
    pub on: Vec<TargetName>,

    /// Messages a second of all publishers: `1M/s`. Default: as many as the log takes.
    #[arg(long, value_name = "RATE", value_parser = parse_rate_iops, help_heading = "Load")]
    pub rate: Option<f64>,
    /// Body of a message.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512", help_heading = "Load")]
    pub size: u64,
    /// Replays at the same time, each by a worker of its own, which checks what it reads.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Load",
        value_parser = clap::value_parser!(u32).range(0..=1023))]
    pub readers: u32,
    /// Chunks that a replay reads before the next begins elsewhere.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Load")]
    pub replay: u32,
    /// Publishers, each with a sequence of its own.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub publishers: u32,
    /// Messages that all publishers hold until they are persisted; then they wait. Default: 1,048,576 with a rate,
    /// otherwise as many as two flushes make durable.
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Load")]
    pub backlog: Option<u64>,
    /// Publishers that hold as many as they may drop messages instead, and count them.
    #[arg(long, requires = "rate", help_heading = "Load")]
    pub drop: bool,

    /// When a message counts as persisted; several levels, separated by commas, are measured one after the other, side by
    /// side.
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        value_delimiter = ',',
        default_value = "batch",
        help_heading = "Log"
    )]
    pub durability: Vec<LogDurability>,
    /// Durable writes (FUA, RWF_DSYNC) in place of flushes.
    #[arg(long, help_heading = "Log")]
    pub fua: bool,
    /// The longest chunk: what one write stores.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64KiB", help_heading = "Log")]
    pub chunk: u64,
    /// Messages in a chunk, at most. Default: what fits.
    #[arg(long, value_name = "N", help_heading = "Log")]
    pub batch: Option<u32>,
    /// Chunks between two flushes, at most.
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Log")]
    pub commit: u32,
    /// Writes in flight, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Log",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub depth: u32,

    /// Measured time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "10s", help_heading = "Limits")]
    pub time: u64,
    /// Time before it that is not counted.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "1s", help_heading = "Limits")]
    pub ramp: u64,
    /// Repeat the measurement N times.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Limits",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Seed of the content, of replays, and of emulated devices.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub seed: u64,

    /// uring, libaio, psync or mmap. Default: what suits the target.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub engine: Option<EngineKind>,
    /// Processors for all threads of the run: `0-3,8`.
    #[arg(long, value_name = "LIST", help_heading = "Engine")]
    pub cpus: Option<Processors>,

    /// Write to a target that was refused: name it again, by its device name, path or serial number.
    #[arg(long, value_name = "NAME", help_heading = "Safety")]
    pub destroy: Vec<String>,

    /// Hold the figures of writes, reads and flushes against a threshold, or exit with 6, as in `run`.
    #[arg(long, value_name = "THRESHOLD", help_heading = "Output")]
    pub require: Vec<Threshold>,
    /// What the run is called in the notebook, for `compare`.
    #[arg(long, value_name = "NAME", default_value = "message-log", help_heading = "Output")]
    pub name: String,
    /// One JSON document on standard output, and nothing else there.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// One JSON document with the series by interval.
    #[arg(long, help_heading = "Output")]
    pub series: bool,
    /// Length of the series' intervals.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Output")]
    pub interval: Option<u64>,
    /// No live progress on standard error.
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// What the text shows.
    #[command(flatten)]
    pub shown: Shown,
    /// Keep nothing.
    #[arg(long, help_heading = "Output")]
    pub no_notebook: bool,
    /// Draw the run as a page when it is over, as `iodyno report` does: iodyno-ID.html here, or this file.
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
