//! Command-line flags of `iodyno replay`.

use super::{Given, Measuring, target, trace_name};
use clap::{Arg, Args, ValueEnum};
use iodyno_exchange::trace::{BlockAction, Format};
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use iodyno_workload::{Fit, MAX_DEPTH, MAX_THREADS};
use std::path::PathBuf;

/// Examples at the end of the help of `replay`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno replay web.csv                                summarise a trace, without I/O
  iodyno replay web.csv --on model:ssd-sata3-mlc-200g --fit scale
  iodyno replay sda.txt --on /dev/nvme1n1 --speed 2    replay twice as fast
  iodyno replay job.log --on d.img?size=1GiB --fast --depth 8
  zcat web.csv.gz | iodyno replay /dev/stdin --on scratch:8GiB --to 10m
  iodyno replay it.rec                                 repeat a record of `serve` in virtual time
  iodyno replay it.rec --on /dev/nvme1n1               issue its clients' operations on another target";

/// How addresses of a trace are mapped to a smaller or larger target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FitWord {
    /// Keep all addresses; refuse a trace that exceeds the target
    Exact,
    /// Scale all addresses from the range of the trace to the size of the target
    Scale,
    /// Take each address modulo the size of the target
    Wrap,
}

impl From<FitWord> for Fit {
    fn from(word: FitWord) -> Self {
        match word {
            FitWord::Exact => Self::Exact,
            FitWord::Scale => Self::Scale,
            FitWord::Wrap => Self::Wrap,
        }
    }
}

/// File format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatWord {
    /// Iolog of fio, version 2 or 3
    Iolog,
    /// Text output of blkparse
    Blkparse,
    /// Events of the kernel's block layer: ftrace, trace-cmd report, perf script
    Events,
    /// Text output of bcc's biosnoop
    Biosnoop,
    /// CSV of the MSR Cambridge traces
    Msr,
    /// CSV of the SYSTOR '17 traces
    Systor,
    /// CSV of the Alibaba block traces
    Alibaba,
    /// CSV of the Tencent block traces
    Tencent,
    /// Binary records or CSV of the CloudPhysics traces
    Cloudphysics,
    /// Trace file of the Storage Performance Council
    Spc,
    /// Trace written by `run --record-trace`
    Iodyno,
    /// Record written by `serve --record`
    Record,
}

impl From<FormatWord> for Format {
    fn from(word: FormatWord) -> Self {
        match word {
            FormatWord::Iolog => Self::IologV3,
            FormatWord::Blkparse => Self::Blkparse,
            FormatWord::Events => Self::Events,
            FormatWord::Biosnoop => Self::Biosnoop,
            FormatWord::Msr => Self::Msr,
            FormatWord::Systor => Self::Systor,
            FormatWord::Alibaba => Self::Alibaba,
            FormatWord::Tencent => Self::Tencent,
            FormatWord::Cloudphysics => Self::CloudPhysics,
            FormatWord::Spc => Self::Spc,
            FormatWord::Iodyno => Self::Own,
            FormatWord::Record => Self::Served,
        }
    }
}

/// Which event of a block trace counts as an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActionWord {
    /// When an operation is queued, before merges: Q, block_bio_queue
    Queue,
    /// When a request is issued to the driver: D, block_rq_issue
    Issue,
}

impl From<ActionWord> for BlockAction {
    fn from(word: ActionWord) -> Self {
        match word {
            ActionWord::Queue => Self::Queue,
            ActionWord::Issue => Self::Issue,
        }
    }
}

/// Arguments of `replay` that have an effect without a target. All others require --on.
const WITHOUT_TARGET: [&str; 13] = [
    "file", "on", "summary", "format", "align", "only", "from", "to", "action", "json", "quiet",
    "notes", "verbose",
];

fn needs_target(arg: Arg) -> Arg {
    if WITHOUT_TARGET.contains(&arg.get_id().as_str()) {
        arg
    } else {
        // clap drops the requirement of --on beside --summary, which conflicts with --on: the flag would be ignored.
        arg.requires("on").conflicts_with("summary")
    }
}

#[derive(Debug, Args)]
#[command(mut_args(needs_target))]
#[allow(clippy::struct_excessive_bools)]
pub struct Replay {
    /// Trace to replay; its format is recognised, unless --format is given
    ///
    /// Traces of fio (iolog), blkparse, ftrace, perf and biosnoop, published traces (MSR Cambridge, SYSTOR '17,
    /// Alibaba, Tencent, CloudPhysics, SPC), and files of `run --record-trace` and `serve --record`.
    pub file: PathBuf,
    /// Replay on this target, as for `run`; may be repeated [default: none; issue no I/O]
    ///
    /// Without a target, a record of `serve` is executed again in virtual time on the system that it describes, and
    /// any other trace is summarised.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub on: Vec<TargetName>,
    /// Summarise the operations of the trace or record, and exit
    #[arg(long, conflicts_with = "on")]
    pub summary: bool,
    /// Set the format of the trace [default: recognised by the first line]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<FormatWord>,

    /// Replay FACTOR times as fast, from 0.001 to 1000000; at 2, a minute of the trace takes 30 s
    #[arg(long, value_name = "FACTOR", value_parser = speed, default_value_t = 1.0,
        help_heading = "Timing")]
    pub speed: f64,
    /// Issue operations as fast as possible, --depth at a time, and ignore the times of the trace
    #[arg(long, conflicts_with_all = ["speed", "think"], help_heading = "Timing")]
    pub fast: bool,
    /// Keep the dependencies and think times of the trace, in closed loop
    ///
    /// If n operations had completed in the trace when an operation was issued, it is issued after n completions, and
    /// after the same pause since the last of them. Requires response times in the trace (blkparse, events, biosnoop, MSR, SYSTOR,
    /// CloudPhysics version 2, `run --record-trace`).
    #[arg(long, help_heading = "Timing")]
    pub think: bool,
    /// Limit the outstanding I/Os per worker [default: 256, or 32 with --fast; fewer if they are large]
    ///
    /// Operations that are due while the limit is reached are issued late.
    #[arg(long, value_name = "N", help_heading = "Timing",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Set the number of workers per target; successive operations go to successive workers
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Timing",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: u32,

    /// Choose how to handle operations beyond the end of the target
    #[arg(long, value_name = "HOW", value_enum, default_value_t = FitWord::Exact,
        help_heading = "Addresses")]
    pub fit: FitWord,
    /// Shift all addresses by this much, a multiple of 512 bytes, at most 1 PiB
    #[arg(long, value_name = "SIZE", value_parser = offset, default_value = "0",
        help_heading = "Addresses")]
    pub offset: u64,
    /// Enlarge each operation to multiples of this power of two, 512 to 1MiB, such as 4KiB
    #[arg(long, value_name = "SIZE", value_parser = align, help_heading = "Addresses")]
    pub align: Option<u32>,

    /// Replay only this file or device of the trace, by its name in the summary; may be repeated
    ///
    /// The chosen files are placed one after the other from the start of the target; the others take no space.
    #[arg(long, value_name = "NAME", help_heading = "Part of the trace")]
    pub only: Vec<String>,
    /// Skip operations before this time of the trace, such as 10m [default: skip nothing]
    ///
    /// Does not change where the trace's files and devices lie on the target.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Part of the trace")]
    pub from: Option<u64>,
    /// End at this time of the trace, such as 20m [default: after the last operation]
    ///
    /// Does not change where the trace's files and devices lie on the target.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Part of the trace")]
    pub to: Option<u64>,
    /// Choose the events that count as operations, in traces of the formats `blkparse`, `events` and `biosnoop`
    #[arg(long, value_name = "EVENT", value_enum, default_value_t = ActionWord::Queue,
        help_heading = "Part of the trace")]
    pub action: ActionWord,

    /// Choose the data that writes carry
    ///
    /// Incompressible, zeroes, or a mix such as `compressible=50%,dedupable=20%`.
    #[arg(long, value_name = "KIND", default_value = "incompressible", help_heading = "Workload")]
    pub content: String,
    /// Stop when more than N operations have failed
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub max_errors: u64,

    /// Open targets for reading only, and refuse a trace that writes
    #[arg(long, help_heading = "Safety")]
    pub read_only: bool,
    /// Set the name of the run in the notebook, for `compare` [default: the name of the file]
    #[arg(long, value_name = "NAME", value_parser = trace_name, help_heading = "Output")]
    pub name: Option<String>,
    /// Record the operations as issued, with times and completions, to this new file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub record_trace: Option<PathBuf>,
    /// Flags shared by all commands that measure.
    #[command(flatten)]
    pub measuring: Measuring,
    /// Names of the flags that are set on the command line.
    #[arg(skip)]
    pub given: Given,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.001..=1e6).contains(&factor) => Ok(factor),
        _ => Err("use a factor from 0.001 to 1000000".to_owned()),
    }
}

fn offset(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|e| e.to_string())? {
        bytes if !bytes.is_multiple_of(512) => Err("use a multiple of 512 bytes".to_owned()),
        bytes if bytes > 1 << 50 => Err("use at most 1 PiB".to_owned()),
        bytes => Ok(bytes),
    }
}

fn align(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("use a power of two from 512 to 1MiB".to_owned()),
    }
}
