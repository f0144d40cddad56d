//! Command-line flags of `iodyno run`, and parsers of their values.

use super::{Given, Measuring, metrics_address, target};
use crate::beside::Neighbour;
use clap::Args;
use iodyno_method::{LatencyLimit, Order};
use iodyno_run::Shard;
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_percent, parse_size};
use iodyno_workload::{
    ActiveRange, Block, Content, MAX_DEPTH, MAX_THREADS, MAX_TIME_NS, OfferedRate, Pattern, Percent,
};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Examples at the end of the help of `run`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno run four-corners                                   measure this file system in 25 s
  iodyno run db-oltp --rate 5k/s --require 'p99<2ms'        test a latency limit at a fixed rate (missed: exit 6)
  iodyno run random-read --read 70% --block 8KiB            measure a mix of reads and writes
  iodyno run db-oltp --with seq-write,rate=100MB/s          measure the effect of a second workload
  iodyno run random-read --vary depth=1..256                find the depth at which IOPS level off
  iodyno run random-read --find-rate 'p99<1ms'              find the highest rate within a latency limit
  iodyno run random-write --fsync 1 --depth 1               measure durable writes
  iodyno run seq-write --content verifiable --on d.img?size=1GiB
  iodyno run --verify-only --on d.img                       verify what the command above wrote
  iodyno run pts-iops --on model:ssd-sata3-mlc-200g         run SNIA's IOPS test on an emulated SSD
  iodyno run db-oltp --repeat 5 --name before               repeat, for `iodyno compare before after`";

/// Default of --on: a temporary file.
pub const DEFAULT_TARGET: &str = "scratch:";

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct Run {
    /// Workload or method: a name in the catalog, a file, or a job of another tool
    ///
    /// `iodyno catalog` lists the names. A file is a path with a `/` or ending in `.toml`.
    ///
    /// Jobs of other tools are a job file of fio (`.fio`), a parameter file of vdbench (`.vdb`), or a command line
    /// of fio, sysbench, diskspd or `amps_bio_perf_test` in quotes. A command line of fio can also follow all other
    /// flags without quotes: `iodyno run --on d.img?size=1GiB fio --name=a --rw=randread`.
    #[arg(
        required_unless_present = "verify_only",
        required = false,
        default_value_if("verify_only", "true", "verify")
    )]
    pub workload: String,
    /// Verify the content of each target in one full read; run no workload and write nothing
    ///
    /// The content must come from `--content verifiable`. Reports which data is intact and which run wrote it.
    /// Exits with 4 if data is stale, zeroed, foreign, torn, misdirected or damaged.
    #[arg(long, conflicts_with = "workload")]
    pub verify_only: bool,
    /// Choose a target; may be repeated
    ///
    ///   scratch:                        temporary file here, 1 GiB if it fits
    ///   scratch:256MiB                  temporary file of this size
    ///   scratch:4GiB@/mnt/disk          temporary file in /mnt/disk
    ///   data.bin?size=8GiB              file
    ///   /dev/nvme1n1                    block device
    ///   ram:4GiB                        memory
    ///   null:                           device that transfers no data
    ///   nbd://host/export               export of an NBD server
    ///   nbd+unix:///export?socket=PATH  the same over a Unix socket
    ///   model:exflash-400g              emulated device in virtual time
    ///   model:exflash-400g?state=fresh  the same in another initial state
    ///   model:exflash-400g*32@x3850-x6  32 emulated devices in one server
    ///   live:exflash-400g               emulated device in real time
    ///
    /// Each target has its own workers.
    #[arg(verbatim_doc_comment, long, value_name = "TARGET", value_parser = target, default_value = DEFAULT_TARGET)]
    pub on: Vec<TargetName>,

    /// Run only the job of this name in a job file of fio; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Workload")]
    pub section: Vec<String>,
    /// Set the number of workers per target, 1 to 1024 [default: the workload's]
    ///
    /// Each worker has --depth I/Os outstanding; with --rate as many as the rate needs, up to its queue.
    #[arg(long, value_name = "N", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: Option<u32>,
    /// Set the outstanding I/Os per worker, 1 to 65536 [default: the workload's]
    ///
    /// With --rate (open loop) it is the limit of outstanding I/Os, and at least 256.
    #[arg(long, value_name = "N", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Set the block size, such as `4KiB`, or a mix, such as `4KiB:60,8KiB:40` (4 KiB for 60 % of the operations)
    #[arg(long, value_name = "SIZE", value_parser = Block::parse_list, help_heading = "Workload")]
    pub block: Option<std::vec::Vec<Block>>,
    /// Set the share of reads, such as `70%`; the rest are writes
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Workload")]
    pub read: Option<Percent>,
    /// Choose how addresses are generated [default: as the workload does]
    ///
    ///   random        uniformly random
    ///   once          random, each block once per pass
    ///   sequential    in order, separately for each worker
    ///   shared        in order, one sequence for all workers
    ///   stride=64KiB  at a fixed distance from one another
    ///   zipf=1.1      by Zipf's law with this exponent
    ///   hot=80/20     80 % in the first 20 % of the range
    #[arg(verbatim_doc_comment, long, value_name = "PATTERN", help_heading = "Workload")]
    pub pattern: Option<Pattern>,
    /// Choose addresses by Zipf's law with exponent THETA, above 0 and at most 5; same as --pattern zipf=THETA
    #[arg(long, value_name = "THETA", value_parser = Pattern::zipf, conflicts_with = "pattern",
        help_heading = "Workload")]
    pub zipf: Option<Pattern>,
    /// Concentrate the load: `80/20` sends 80 % of the operations to the first 20 % of the range
    #[arg(long, value_name = "OPS/RANGE", value_parser = Pattern::hot,
        conflicts_with_all = ["pattern", "zipf"], help_heading = "Workload")]
    pub hot: Option<Pattern>,
    /// Flush (fdatasync) after every N writes of a worker
    #[arg(long, value_name = "N", help_heading = "Workload",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub fsync: Option<u32>,
    /// Make each write durable before it completes (RWF_DSYNC, FUA)
    #[arg(long, help_heading = "Workload")]
    pub dsync: bool,
    /// Offer this load to each target in open loop, such as `50k/s` operations or `200MB/s`
    ///
    /// The rate is that of all workers of a target. A rate per kind of operation, such as
    /// `read=20k/s,write=50MB/s`, also sets the mix.
    #[arg(long, value_name = "RATE", help_heading = "Workload")]
    pub rate: Option<OfferedRate>,
    /// With --rate, issue operations at equal intervals [default: at random, as a Poisson process]
    #[arg(long, requires = "rate", conflicts_with = "find_rate", help_heading = "Workload")]
    pub constant: bool,
    /// Use only this part of each target, such as `0%..50%`, or `8GiB` for the first 8 GiB
    #[arg(long, value_name = "RANGE", help_heading = "Workload")]
    pub active: Option<ActiveRange>,
    /// Write each target end to end before the measurement, 1 to 3 times (1 without a number)
    ///
    /// Covers the range of --active. Afterwards, no read hits a block that was never written, and an SSD is not
    /// fresh.
    #[arg(long, value_name = "PASSES", num_args = 0..=1, default_missing_value = "1",
        value_parser = clap::value_parser!(u8).range(1..=3), conflicts_with = "read_only",
        help_heading = "Workload")]
    pub fill: Option<u8>,
    /// Run another workload at the same time on the same targets; may be repeated
    ///
    /// Measures each workload alone first, then all together, with separate workers and results. Changes to
    /// WORKLOAD (threads, depth, block, read, rate) follow its name, such as `seq-write,depth=4,rate=100MB/s`.
    /// Flags such as --depth change the first workload only.
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["vary", "order", "ceiling", "ops", "bytes"],
        help_heading = "Workload")]
    pub with: Vec<Neighbour>,
    /// Choose the data that writes carry [default: the workload's, or incompressible]
    ///
    /// Incompressible, verifiable, zeroes, or a mix such as `compressible=50%,dedupable=20%`.
    #[arg(long, value_name = "KIND", help_heading = "Workload")]
    pub content: Option<Content>,

    /// Sweep a parameter, one cell per value, such as `depth=1,2,4,8`; may be repeated
    ///
    /// The last parameter varies fastest. `depth=1..64` doubles from 1 to 64. Parameters: depth, threads, block
    /// (`4KiB,64KiB`), read (`100%,70%,0%`), rate, think, fsync (`0,1,8`), fill, engine (`uring,libaio`), targets.
    #[arg(long, value_name = "AXIS=VALUES", help_heading = "Method")]
    pub vary: Vec<String>,
    /// With --vary, order the cells: given, random (by --seed) or abba (forward, then back) [default: given]
    #[arg(
        long,
        value_name = "ORDER",
        requires = "vary",
        conflicts_with = "find_rate",
        help_heading = "Method"
    )]
    pub order: Option<Order>,
    /// Search for the highest rate that meets a latency limit, such as 'p99<1ms' or 'read.p99.9<2ms'
    ///
    /// First measures the rate of the closed loop at the workload's depth. Then narrows, in open loop, the range between
    /// rates that meet the limit and rates that miss it.
    #[arg(long, value_name = "LIMIT", conflicts_with_all = ["vary", "rate", "ops", "bytes", "with", "repeat"],
        help_heading = "Method")]
    pub find_rate: Option<LatencyLimit>,
    /// With --vary, report the best point within this latency limit, such as `p99=1ms`; if repeated, all limits apply
    ///
    /// The best point has the fewest outstanding I/Os among those that reach 98 % of the highest IOPS within the limits.
    #[arg(
        long,
        value_name = "OF=TIME",
        requires = "vary",
        conflicts_with = "find_rate",
        help_heading = "Method"
    )]
    pub ceiling: Vec<String>,
    /// Choose one of the method's settings, such as `enterprise` or `client` [default: the first]
    #[arg(long, value_name = "NAME", help_heading = "Method")]
    pub setting: Option<String>,
    /// Multiply all durations of a method by this factor, such as 0.1 or 10%; at most 1
    ///
    /// The run is marked as not conformant.
    #[arg(long, value_name = "SHARE", value_parser = scale, help_heading = "Method")]
    pub scale: Option<f64>,
    /// Apply the method to each target in turn [default: to all targets at the same time]
    #[arg(long, help_heading = "Method")]
    pub each: bool,
    /// Skip the preconditioning of a method (purge, fill) if an earlier run in the notebook did the same
    ///
    /// Requires that the record of that run proves the same state, and that no other program has written since. The
    /// new run records which earlier run it relied on, or why none qualified.
    #[arg(long, help_heading = "Method")]
    pub reuse: bool,

    /// Measure for this long after the ramp, such as `30s` or `5m`
    #[arg(long, value_name = "TIME", value_parser = limit_ns, help_heading = "Limits")]
    pub time: Option<u64>,
    /// Warm up for this long before the measurement (excluded from results)
    #[arg(long, value_name = "TIME", value_parser = limit_ns, help_heading = "Limits")]
    pub ramp: Option<u64>,
    /// End after N operations on each target
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub ops: Option<u64>,
    /// End after this much data is transferred on each target
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub bytes: Option<u64>,
    /// Stop the run when more than N operations have failed
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub max_errors: u64,

    /// Flags shared by all commands that measure.
    #[command(flatten)]
    pub measuring: Measuring,

    /// Run all threads on the processors of this NUMA node, and allocate memory there
    #[arg(long, value_name = "NODE", conflicts_with = "cpus", help_heading = "Engine")]
    pub numa: Option<u32>,
    /// Poll for completions instead of waiting for interrupts (uring only)
    #[arg(long, help_heading = "Engine")]
    pub poll: bool,
    /// Use io_uring without registered files, registered buffers or optional flags
    #[arg(long, help_heading = "Engine")]
    pub plain_ring: bool,
    /// Take timestamps with clock_gettime [default: with the processor's time counter]
    #[arg(long, help_heading = "Engine")]
    pub system_clock: bool,

    /// Set the name of the run in the notebook, for `compare` [default: the name of the workload]
    #[arg(long, value_name = "NAME", value_parser = run_name, help_heading = "Output")]
    pub name: Option<String>,

    /// Open targets for reading only, and refuse a workload that writes
    #[arg(long, help_heading = "Safety")]
    pub read_only: bool,
    /// Serve OpenMetrics over HTTP during the run at this address, or at a port of 127.0.0.1, such as `9469`
    ///
    /// An address that other machines can reach requires --insist-on-plain.
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address, help_heading = "Output")]
    pub metrics: Option<SocketAddr>,
    /// Allow --metrics without TLS on an address that other machines can reach
    #[arg(long, requires = "metrics", help_heading = "Output")]
    pub insist_on_plain: bool,
    /// Measure only shard K of N of a sweep in virtual time, such as `3/64`
    ///
    /// For job arrays of a cluster; `iodyno merge` combines the shards.
    #[arg(long, value_name = "K/N", help_heading = "Several hosts")]
    pub shard: Option<Shard>,
    /// With iodyno-mpi, set the target of the ranks on HOST; other hosts use --on. May be repeated
    #[arg(long, value_name = "HOST=TARGET", value_parser = host_target, help_heading = "Several hosts")]
    pub on_host: Vec<(String, TargetName)>,
    /// With iodyno-mpi, refuse to run unless all ranks have the same target
    #[arg(long, help_heading = "Several hosts")]
    pub shared: bool,
    /// With iodyno-mpi, let each rank use all of a shared target [default: a separate region per rank]
    #[arg(long, help_heading = "Several hosts")]
    pub overlap: bool,
    /// Record all operations with times and completions to this new file, for `iodyno replay`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub record_trace: Option<PathBuf>,
    /// Names of the flags that are set on the command line.
    #[arg(skip)]
    pub given: Given,
}

/// Parses a percentage of reads.
fn share(text: &str) -> Result<Percent, String> {
    parse_percent(text).map(Percent::from_fraction).map_err(|e| e.to_string())
}

/// Parses the factor of --scale: a number or a percentage.
fn scale(text: &str) -> Result<f64, String> {
    if text.ends_with('%') {
        return parse_percent(text).map_err(|e| e.to_string());
    }
    text.parse().map_err(|_| format!("`{text}` is not a share: use a form such as 0.1 or 10%"))
}

/// Parses a duration that limits a workload, ns.
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

/// Parses the name of a run. `compare` accepts the name in place of the run's id.
pub(super) fn run_name(text: &str) -> Result<String, String> {
    iodyno_notebook::check_name(text).map(|()| text.to_owned())
}

/// Parses `HOST=TARGET` of --on-host.
fn host_target(text: &str) -> Result<(String, TargetName), String> {
    let (host, name) = text
        .split_once('=')
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(|| format!("`{text}` is not HOST=TARGET, such as node1=/dev/nvme0n1"))?;
    Ok((host.to_owned(), target(name)?))
}
