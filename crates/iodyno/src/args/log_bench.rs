//! Command-line flags of `iodyno log bench`.

use super::{Measuring, target};
use clap::{Args, ValueEnum};
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_rate_iops, parse_size};

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
    /// Read N chunks per replay; each replay starts at another position in the log
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Load")]
    pub replay: u32,
    /// Set the number of publishers, each with its own message sequence
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub publishers: u32,
    /// Limit the unpersisted messages of all publishers to N, such as 500k; when the limit is reached, they wait
    ///
    /// [default: 1,048,576 with --rate; otherwise the number of messages that two flushes make durable]
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
    /// Set the name of the run in the notebook, for `compare`
    #[arg(long, value_name = "NAME", default_value = "message-log", help_heading = "Output")]
    pub name: String,
    /// Flags shared by all commands that measure.
    #[command(flatten)]
    pub measuring: Measuring,
}

/// Parses a number of messages, such as `1000000` or `1M`.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    number
        .filter(|n| *n > 0)
        .ok_or_else(|| "use a whole number such as 50000, 500k or 2M".to_owned())
}
