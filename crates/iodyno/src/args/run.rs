//! Flags of `run`, and the forms of their values.

use super::{Shown, metrics_address, target};
use crate::beside::Neighbour;
use clap::Args;
use iodyno_drive::EngineKind;
use iodyno_measure::Threshold;
use iodyno_method::{LatencyLimit, Order};
use iodyno_run::{Processors, Shard};
use iodyno_target::TargetName;
use iodyno_units::{parse_duration_ns, parse_percent, parse_size};
use iodyno_workload::{
    ActiveRange, Block, Content, MAX_DEPTH, MAX_THREADS, MAX_TIME_NS, OfferedRate, Pattern, Percent,
};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Examples at the end of the help of `run`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno run four-corners                                   what this file system does, in 25 s
  iodyno run db-oltp --rate 5k/s --require 'p99<2ms'        does it hold a latency at a rate? (exit 6)
  iodyno run random-read --read 70% --block 8KiB            a mix of your own
  iodyno run db-oltp --with seq-write,rate=100MB/s          what a neighbour costs
  iodyno run random-read --vary depth=1..256                where more depth gives no more
  iodyno run random-read --find-rate 'p99<1ms'              the highest rate that holds a latency
  iodyno run random-write --fsync 1 --depth 1               what a durable write costs
  iodyno run seq-write --content verifiable --on d.img?size=1GiB
  iodyno run --verify-only --on d.img                       is all of it still as it was written?
  iodyno run pts-iops --on model:ssd-sata3-mlc-200g         SNIA's test on an emulated SSD
  iodyno run db-oltp --repeat 5 --name before               for `iodyno compare before after`";

/// The target where none is named.
pub const DEFAULT_TARGET: &str = "scratch:";

/// Flags of `run`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct Run {
    /// A workload or a method of the catalog (`iodyno catalog` lists them), or the path of a file of one (with
    /// a `/` or ending in `.toml`); or a job file of fio (`.fio`), a parameter file of vdbench (`.vdb`), or a command
    /// line of fio, sysbench, diskspd or `amps_bio_perf_test` in quotes, fio's also last of all:
    /// `iodyno run --on d.img?size=1GiB fio --name=a --rw=randread`.
    #[arg(
        required_unless_present = "verify_only",
        required = false,
        default_value_if("verify_only", "true", "verify")
    )]
    pub workload: String,
    /// Run no workload: read each target from end to end once, check its verifiable content, and write
    /// nothing. Says what is whole and of which run, and what is stale, zeroed, foreign, torn, misdirected or
    /// damaged; exits with 4 if anything is.
    #[arg(long, conflicts_with_all = ["workload", "content", "rate", "vary", "ops", "bytes", "repeat",
        "destroy", "require", "read", "pattern", "zipf", "hot", "fsync", "dsync", "fill", "with",
        "find_rate"])]
    pub verify_only: bool,
    /// What to run on; may be given again: `scratch:` (default: a file that is made here and
    /// removed, of 1 GiB where there is space), `scratch:256MiB`, `scratch:4GiB@/mnt/disk`, a path with `?size=8GiB`, a block device, `ram:4GiB`, `null:`, an export of an NBD
    /// server `nbd://host/export` or `nbd+unix:///export?socket=PATH`, or emulated storage in virtual
    /// time: `model:exflash-400g`, 32 of them in one server `model:exflash-400g*32@x3850-x6`, in
    /// another state `model:exflash-400g?state=fresh`; `live:` in place of `model:` has them in real
    /// time. Each target gets the workload's workers for itself.
    #[arg(long, value_name = "TARGET", value_parser = target, default_value = DEFAULT_TARGET)]
    pub on: Vec<TargetName>,

    /// Of a job file of fio, only the job of this name; may be given again.
    #[arg(long, value_name = "NAME", help_heading = "Workload")]
    pub section: Vec<String>,
    /// Workers on each target, 1 to 1024; each has --depth I/Os outstanding. Default: the workload's.
    #[arg(long, value_name = "N", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: Option<u32>,
    /// Outstanding I/Os of each worker, 1 to 65536.
    #[arg(long, value_name = "N", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Block size, or several with shares: `4KiB`, `4KiB:60,8KiB:40`.
    #[arg(long, value_name = "SIZE", value_parser = Block::parse_list, help_heading = "Workload")]
    pub block: Option<std::vec::Vec<Block>>,
    /// Share of reads; the rest is writes: `70%`.
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Workload")]
    pub read: Option<Percent>,
    /// How addresses are chosen, in place of the workload's own way: random, once (each block once per
    /// pass), sequential, shared (all workers one sequence), `stride=64KiB`, `zipf=1.1`, `hot=80/20`.
    #[arg(long, value_name = "PATTERN", help_heading = "Workload")]
    pub pattern: Option<Pattern>,
    /// Addresses by Zipf's law with this exponent, above 0 and at most 5; the same as `--pattern zipf=THETA`.
    #[arg(long, value_name = "THETA", value_parser = Pattern::zipf, conflicts_with = "pattern",
        help_heading = "Workload")]
    pub zipf: Option<Pattern>,
    /// A share of the operations in the first part of the range: `80/20` for 80 % of them in 20 % of it.
    #[arg(long, value_name = "OPS/RANGE", value_parser = Pattern::hot,
        conflicts_with_all = ["pattern", "zipf"], help_heading = "Workload")]
    pub hot: Option<Pattern>,
    /// A flush (fdatasync) after this many writes of each worker.
    #[arg(long, value_name = "N", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub fsync: Option<u32>,
    /// Each write is durable when it completes (RWF_DSYNC, FUA), as with O_DSYNC.
    #[arg(long, help_heading = "Workload")]
    pub dsync: bool,
    /// Open loop: what is offered to each target, over all its workers: operations a second `50k/s`, bytes a
    /// second `200MB/s`, or a rate for each kind of operation `read=20k/s,write=50MB/s`, which is the mix too.
    #[arg(long, value_name = "RATE", help_heading = "Workload")]
    pub rate: Option<OfferedRate>,
    /// With --rate: equal gaps, rather than those of a Poisson process.
    #[arg(long, requires = "rate", help_heading = "Workload")]
    pub constant: bool,
    /// Part of the target that is used: `0%..50%`, `8GiB`.
    #[arg(long, value_name = "RANGE", help_heading = "Workload")]
    pub active: Option<ActiveRange>,
    /// Write the targets from end to end before measuring, this many times (once without a number): no
    /// never-written blocks are read, and an SSD is not fresh.
    #[arg(long, value_name = "PASSES", num_args = 0..=1, default_missing_value = "1",
        value_parser = clap::value_parser!(u8).range(1..=3), conflicts_with = "read_only",
        help_heading = "Workload")]
    pub fill: Option<u8>,
    /// Another workload at once on the same targets, with workers and figures of its own; may be given again.
    /// Each is measured alone first. What differs from it follows: `seq-write,depth=4,rate=100MB/s` (threads,
    /// depth, block, read, rate). Flags such as --depth are for the first workload alone.
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["vary", "ops", "bytes"],
        help_heading = "Workload")]
    pub with: Vec<Neighbour>,
    /// What writes carry: incompressible, verifiable, zeroes, `compressible=50%,dedupable=20%`.
    #[arg(long, value_name = "KIND", help_heading = "Workload")]
    pub content: Option<Content>,
    /// Seed of all random streams.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    pub seed: u64,
    /// Repeat the list N times, each with a different random stream, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,

    /// Vary something of the workload, one cell a value; may be given again, the last one varies fastest:
    /// `depth=1,2,4,8` or `depth=1..64` (doubling), `block=4KiB,64KiB`, `read=100%,70%,0%`,
    /// `engine=uring,libaio`, `fsync=0,1,8`, and threads, rate, think, targets, fill.
    #[arg(long, value_name = "AXIS=VALUES", help_heading = "Method")]
    pub vary: Vec<String>,
    /// With --vary: in which order, `given`, `random` (by the seed) or `abba` (there and back).
    #[arg(long, value_name = "ORDER", requires = "vary", help_heading = "Method")]
    pub order: Option<Order>,
    /// Search for the highest rate that holds a latency: 'p99<1ms', 'read.p99.9<2ms'. First as fast as the
    /// workload goes, then in open loop at rates between those that hold and those that do not.
    #[arg(long, value_name = "LIMIT", conflicts_with_all = ["vary", "rate", "ops", "bytes", "with", "repeat"],
        help_heading = "Method")]
    pub find_rate: Option<LatencyLimit>,
    /// A latency that the best point of a sweep keeps under: `p99=1ms`, `mean=5ms`.
    #[arg(long, value_name = "OF=TIME", requires = "vary", help_heading = "Method")]
    pub ceiling: Vec<String>,
    /// Which settings of a method, such as enterprise or client.
    #[arg(long, value_name = "NAME", help_heading = "Method")]
    pub setting: Option<String>,
    /// Multiply all durations of a method, such as 0.1 or 10%; the run is marked as not
    /// conformant.
    #[arg(long, value_name = "SHARE", value_parser = scale, help_heading = "Method")]
    pub scale: Option<f64>,
    /// Apply a method to each target alone, one after the other, rather than to all at once.
    #[arg(long, help_heading = "Method")]
    pub each: bool,
    /// Take a method's preconditioning (purge, fill) from an earlier run of this notebook, where its record
    /// proves the same and no other program wrote since; the run says from which, or why not.
    #[arg(long, help_heading = "Method")]
    pub reuse: bool,

    /// Measured time, after the ramp: `30s`, `5m`.
    #[arg(long, value_name = "TIME", value_parser = limit_ns, help_heading = "Limits")]
    pub time: Option<u64>,
    /// Time before the measurement that is not counted.
    #[arg(long, value_name = "TIME", value_parser = limit_ns, help_heading = "Limits")]
    pub ramp: Option<u64>,
    /// End after this many operations on each target.
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub ops: Option<u64>,
    /// End after moving this much on each target.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub bytes: Option<u64>,
    /// Stop the run when more operations than this have failed.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub max_errors: u64,

    /// uring, libaio, psync or mmap. Default: what suits the target, the depth, and whether it is written to; the
    /// run names it, and -v says why. Give one where runs are compared.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub engine: Option<EngineKind>,
    /// Processors for all threads of the run: `0-3,8`.
    #[arg(long, value_name = "LIST", help_heading = "Engine")]
    pub cpus: Option<Processors>,
    /// The processors of this NUMA node; the memory of the run is allocated there too.
    #[arg(long, value_name = "NODE", conflicts_with = "cpus", help_heading = "Engine")]
    pub numa: Option<u32>,
    /// uring: poll for completions instead of waiting for interrupts.
    #[arg(long, help_heading = "Engine")]
    pub poll: bool,
    /// uring: without registered files and buffers and without optional flags.
    #[arg(long, help_heading = "Engine")]
    pub plain_ring: bool,
    /// Stamps by clock_gettime rather than by the processor's counter.
    #[arg(long, help_heading = "Engine")]
    pub system_clock: bool,

    /// Hold the figures against a threshold, or exit with 6; may be given again: 'p99<500us',
    /// 'write.p99.9<=2ms', 'random-*: iops>100k', 'bandwidth>=1GB/s'. Metrics: iops, bandwidth, mean,
    /// p50 to p99.999, max; of each kind of operation, or of one (read., write.).
    #[arg(long, value_name = "THRESHOLD", help_heading = "Output")]
    pub require: Vec<Threshold>,
    /// What the run is called in the notebook, for `compare`. Default: the workload's name.
    #[arg(long, value_name = "NAME", value_parser = run_name, help_heading = "Output")]
    pub name: Option<String>,

    /// Never open anything for writing; a workload that writes is refused.
    #[arg(long, help_heading = "Safety")]
    pub read_only: bool,
    /// Write to a target that was refused: name it again, by its device name, path or serial
    /// number.
    #[arg(long, value_name = "NAME", help_heading = "Safety")]
    pub destroy: Vec<String>,

    /// One JSON document on standard output, and nothing else there.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// One JSON document with the series by interval.
    #[arg(long, help_heading = "Output")]
    pub series: bool,
    /// Length of the series' intervals. Default: by the length of the run, 100 ms to 1 min.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, help_heading = "Output")]
    pub interval: Option<u64>,
    /// No live progress on standard error.
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Serve OpenMetrics over HTTP during the run, at this address or port of 127.0.0.1: `9469`. An address that other
    /// machines reach requires --insist-on-plain.
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address, help_heading = "Output")]
    pub metrics: Option<SocketAddr>,
    /// Serve --metrics without TLS on an address that other machines reach.
    #[arg(long, requires = "metrics", help_heading = "Output")]
    pub insist_on_plain: bool,
    /// What the text shows.
    #[command(flatten)]
    pub shown: Shown,
    /// Keep nothing.
    #[arg(long, help_heading = "Output")]
    pub no_notebook: bool,
    /// Measure shard K of N of a sweep in virtual time, for jobs of a cluster: `3/64`; `iodyno merge` puts
    /// them together.
    #[arg(long, value_name = "K/N", help_heading = "Several hosts")]
    pub shard: Option<Shard>,
    /// With iodyno-mpi: the target of the ranks on this host; --on gives that of all others. May be repeated.
    #[arg(long, value_name = "HOST=TARGET", value_parser = host_target, help_heading = "Several hosts")]
    pub on_host: Vec<(String, TargetName)>,
    /// With iodyno-mpi: refuse to run unless the target is one and the same for all ranks.
    #[arg(long, help_heading = "Several hosts")]
    pub shared: bool,
    /// With iodyno-mpi: ranks that share a target use all of it, rather than a region each.
    #[arg(long, help_heading = "Several hosts")]
    pub overlap: bool,
    /// Write what the workload issues, with times and completions, to this new file, for `iodyno replay`.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub record_trace: Option<PathBuf>,
    /// Draw the run as a page when it is over, as `iodyno report` does: iodyno-ID.html here, or this file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        help_heading = "Output")]
    pub report: Option<Option<PathBuf>>,
}

/// A share of reads.
fn share(text: &str) -> Result<Percent, String> {
    parse_percent(text).map(Percent::from_fraction).map_err(|e| e.to_string())
}

/// A factor on times, as a number or a share.
fn scale(text: &str) -> Result<f64, String> {
    if text.ends_with('%') {
        return parse_percent(text).map_err(|e| e.to_string());
    }
    text.parse().map_err(|_| format!("`{text}` is not a share: write 0.1 or 10%"))
}

/// A time that a workload may last.
fn limit_ns(text: &str) -> Result<u64, String> {
    let too_long =
        || Err(format!("`{text}` is too long: at most {}d", MAX_TIME_NS / 86_400_000_000_000));
    match parse_duration_ns(text) {
        Ok(ns) if ns > MAX_TIME_NS => too_long(),
        Ok(ns) => Ok(ns),
        Err(e) if e.to_string().contains("is too long") => too_long(),
        Err(e) => Err(e.to_string()),
    }
}

/// A name that `compare` can find again.
pub(super) fn run_name(text: &str) -> Result<String, String> {
    let is_taken = text.trim().to_ascii_lowercase().starts_with("last");
    let is_odd = text.trim() != text || text.contains(|c: char| c == ',' || c.is_control());
    match text.chars().count() {
        1..=100 if !is_taken && !is_odd => Ok(text.to_owned()),
        _ => Err("take 1 to 100 characters without commas, line ends and blanks around them, and nothing that begins with `last`".to_owned()),
    }
}

/// `HOST=TARGET`.
fn host_target(text: &str) -> Result<(String, TargetName), String> {
    let (host, name) = text
        .split_once('=')
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(|| format!("`{text}` is not HOST=TARGET, such as node1=/dev/nvme0n1"))?;
    Ok((host.to_owned(), target(name)?))
}
