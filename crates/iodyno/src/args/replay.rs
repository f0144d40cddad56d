//! Flags of `replay`.

use super::{Shown, target, trace_name};
use clap::{Args, ValueEnum};
use iodyno_drive::EngineKind;
use iodyno_exchange::trace::{BlockAction, Format};
use iodyno_measure::Threshold;
use iodyno_run::Processors;
use iodyno_target::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use iodyno_workload::{Fit, MAX_DEPTH, MAX_THREADS};
use std::path::PathBuf;

/// Examples at the end of the help of `replay`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno replay web.csv                                what the trace does; no I/O
  iodyno replay web.csv --on model:ssd-sata3-mlc-200g --fit scale
  iodyno replay sda.txt --on /dev/nvme1n1 --speed 2    twice as fast, by absolute time
  iodyno replay job.log --on d.img?size=1GiB --fast --depth 8
  zcat web.csv.gz | iodyno replay /dev/stdin --on scratch:8GiB --to 10m
  iodyno replay it.rec                                 a record of `serve`: the same events again
  iodyno replay it.rec --on /dev/nvme1n1               what its clients asked for, elsewhere";

/// Where operations beyond a target's end go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FitWord {
    /// Nowhere: such a trace is refused.
    Exact,
    /// Every address is multiplied, so that the trace's range becomes the target's.
    Scale,
    /// To the address modulo the target's size.
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

/// Formats of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatWord {
    /// fio's iolog, version 2 or 3.
    Iolog,
    /// Text of blkparse.
    Blkparse,
    /// Events of the kernel's block layer: ftrace, trace-cmd report, perf script.
    Events,
    /// Text of bcc's biosnoop.
    Biosnoop,
    /// CSV of MSR Cambridge.
    Msr,
    /// CSV of SYSTOR '17.
    Systor,
    /// CSV of Alibaba's block traces.
    Alibaba,
    /// CSV of Tencent's block traces.
    Tencent,
    /// Records or CSV of `CloudPhysics`.
    Cloudphysics,
    /// Trace files of the Storage Performance Council.
    Spc,
    /// `run --record-trace`.
    Iodyno,
    /// `serve --record`.
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

/// Which events of a block trace are the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActionWord {
    /// As they were queued, before they were merged: Q, `block_bio_queue`.
    Queue,
    /// As they were issued to the driver: D, `block_rq_issue`.
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

/// Flags of `replay`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct Replay {
    /// A trace: an iolog of fio, the text of blkparse, ftrace, perf or biosnoop, a published trace (MSR Cambridge,
    /// SYSTOR '17, Alibaba, Tencent, `CloudPhysics`, SPC), what `run --record-trace` wrote, or a record of
    /// `serve --record`. The format is recognised, unless --format says it.
    pub file: PathBuf,
    /// What to run on, as in `run`; may be given again. Without it nothing is issued: a record of `serve` runs
    /// again on the system that it describes, and of a trace it is said what it does.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub on: Vec<TargetName>,
    /// Say what the trace does, a record's operations too, and end.
    #[arg(long, conflicts_with = "on")]
    pub summary: bool,
    /// The trace's format, where it is not recognised by its first line.
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<FormatWord>,

    /// Divide all times by this: 2 replays a minute in 30 s.
    #[arg(long, value_name = "FACTOR", value_parser = speed, default_value_t = 1.0, requires = "on",
        help_heading = "Timing")]
    pub speed: f64,
    /// As fast as possible, in a closed loop of --depth, rather than at the times of the trace.
    #[arg(long, requires = "on", conflicts_with_all = ["speed", "think"], help_heading = "Timing")]
    pub fast: bool,
    /// Wait as the trace's program did: each operation begins after as many completions, and then after as long,
    /// as in the trace. Needs response times (blkparse, events, biosnoop, MSR, SYSTOR, own traces).
    #[arg(long, requires = "on", help_heading = "Timing")]
    pub think: bool,
    /// Outstanding I/Os of each worker, at most; what is due beyond it is late. Default: 32 with --fast, 256
    /// otherwise, fewer where they are large.
    #[arg(long, value_name = "N", requires = "on", help_heading = "Timing",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Workers on each target: each takes its turn.
    #[arg(long, value_name = "N", requires = "on", default_value_t = 1, help_heading = "Timing",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: u32,

    /// Where operations beyond a target's end go.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = FitWord::Exact, requires = "on",
        help_heading = "Addresses")]
    pub fit: FitWord,
    /// Where in the target the trace begins.
    #[arg(long, value_name = "SIZE", value_parser = offset, default_value = "0", requires = "on",
        help_heading = "Addresses")]
    pub offset: u64,
    /// Enlarge each operation to multiples of this, such as 4KiB: a power of two from 512.
    #[arg(long, value_name = "SIZE", value_parser = align, help_heading = "Addresses")]
    pub align: Option<u32>,

    /// A file or device of the trace alone, by the name that the summary shows; may be given again. Several lie
    /// one after the other from the target's start on, without room for those between them.
    #[arg(long, value_name = "NAME", help_heading = "Part of the trace")]
    pub only: Vec<String>,
    /// From this time of the trace on; without it the replay begins with the first operation. Files have the same places as in the whole trace.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Part of the trace")]
    pub from: Option<u64>,
    /// Up to this time of the trace; files have the same places as in the whole trace.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Part of the trace")]
    pub to: Option<u64>,
    /// Of blkparse's text, kernel events and biosnoop: which events are the operations.
    #[arg(long, value_name = "EVENT", value_enum, default_value_t = ActionWord::Queue,
        help_heading = "Part of the trace")]
    pub action: ActionWord,

    /// What writes carry: incompressible, zeroes, `compressible=50%,dedupable=20%`.
    #[arg(
        long,
        value_name = "KIND",
        default_value = "incompressible",
        requires = "on",
        help_heading = "Workload"
    )]
    pub content: String,
    /// Seed of the content, and of emulated devices.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "on", help_heading = "Workload")]
    pub seed: u64,
    /// Repeat the replay N times.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "on", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Stop when more operations than this have failed.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "on", help_heading = "Limits")]
    pub max_errors: u64,

    /// uring, libaio, psync or mmap. Default: what suits the target.
    #[arg(long, value_name = "NAME", requires = "on", help_heading = "Engine")]
    pub engine: Option<EngineKind>,
    /// Processors for all threads of the run: `0-3,8`.
    #[arg(long, value_name = "LIST", requires = "on", help_heading = "Engine")]
    pub cpus: Option<Processors>,

    /// Never open anything for writing; a trace that writes is refused.
    #[arg(long, requires = "on", help_heading = "Safety")]
    pub read_only: bool,
    /// Write to a target that was refused: name it again, by its device name, path or serial number.
    #[arg(long, value_name = "NAME", requires = "on", help_heading = "Safety")]
    pub destroy: Vec<String>,

    /// Hold the figures against a threshold, or exit with 6, as in `run`.
    #[arg(long, value_name = "THRESHOLD", requires = "on", help_heading = "Output")]
    pub require: Vec<Threshold>,
    /// What the run is called in the notebook, for `compare`. Default: the file's name.
    #[arg(long, value_name = "NAME", value_parser = trace_name, requires = "on", help_heading = "Output")]
    pub name: Option<String>,
    /// Write what is issued, with its times and completions, to this new file.
    #[arg(long, value_name = "FILE", requires = "on", help_heading = "Output")]
    pub record_trace: Option<PathBuf>,
    /// One JSON document on standard output, and nothing else there.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// One JSON document with the series by interval.
    #[arg(long, requires = "on", help_heading = "Output")]
    pub series: bool,
    /// Length of the series' intervals.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, requires = "on",
        help_heading = "Output")]
    pub interval: Option<u64>,
    /// No live progress on standard error.
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// What the text shows.
    #[command(flatten)]
    pub shown: Shown,
    /// Keep nothing.
    #[arg(long, requires = "on", help_heading = "Output")]
    pub no_notebook: bool,
    /// Draw the run as a page when it is over, as `iodyno report` does: iodyno-ID.html here, or this file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, requires = "on",
        help_heading = "Output")]
    pub report: Option<Option<PathBuf>>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.001..=1e6).contains(&factor) => Ok(factor),
        _ => Err("take a factor from 0.001 to 1000000".to_owned()),
    }
}

fn offset(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|e| e.to_string())? {
        bytes if !bytes.is_multiple_of(512) => Err("take a multiple of 512 bytes".to_owned()),
        bytes if bytes > 1 << 50 => Err("take at most 1 PiB".to_owned()),
        bytes => Ok(bytes),
    }
}

fn align(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("take a power of two from 512 to 1MiB".to_owned()),
    }
}
