//! Flags of `size`.

use clap::Args;
use iodyno_units::{parse_duration_ns, parse_percent, parse_rate_iops, parse_size};
use std::path::PathBuf;

/// Examples at the end of the help of `size`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno size --workload oltp1 --rate 500k/s --p99 2ms         what of the catalog does this
  iodyno size --workload oltp1 --rate 500k/s --p99 2ms --capacity 20TB --raid 5 --report
  iodyno size --workload db-oltp --rate 2M/s --p99 1ms --device nvme-tlc-3840g
  iodyno size --log-rate 1M/s --message 1KiB --read-share 80% --p99 5ms --backlog-bytes 256MiB
  iodyno size --like last --price prices.toml                  what does what I measured do
  iodyno size --saturate 57ce-gen3 --device ssd-gen3-emlc      how many SSDs a pair can use";

/// Flags of `size`.
#[derive(Debug, Args)]
pub struct Size {
    /// A workload of the catalog, or the path of a file of one: its mix, sizes and addresses. Its loop is open
    /// here: operations arrive at random.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["like", "saturate", "log_rate"],
        conflicts_with_all = ["like", "saturate"])]
    pub workload: Option<String>,
    /// As a run of the notebook, by its id or name: its last cell's workload, the part of the target that it worked on, its rate and its p99,
    /// where --rate and --p99 give no others.
    #[arg(long, value_name = "RUN", conflicts_with = "saturate")]
    pub like: Option<String>,
    /// How many operations a second, over the whole system: `500k/s`.
    #[arg(long, value_name = "RATE", value_parser = rate,
        required_unless_present_any = ["like", "saturate", "log_rate"], conflicts_with = "saturate")]
    pub rate: Option<f64>,
    /// Instead of a workload: a message log that takes N messages a second: `1M/s`.
    #[arg(long, value_name = "RATE", value_parser = rate,
        conflicts_with_all = ["workload", "like", "rate", "saturate"])]
    pub log_rate: Option<f64>,
    /// With --log-rate: the size of a message in the log.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1KiB", requires = "log_rate",
        conflicts_with_all = ["workload", "like", "saturate"])]
    pub message: u64,
    /// With --log-rate: the log is written in chunks of this size, of as many messages as fit.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64KiB", requires = "log_rate",
        conflicts_with_all = ["workload", "like", "saturate"])]
    pub chunk: u64,
    /// With --log-rate: messages a second replayed from the log, by all readers together: `4M/s`.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "log_rate",
        conflicts_with_all = ["workload", "like", "saturate", "read_share"])]
    pub replay_rate: Option<f64>,
    /// With --log-rate: the same as a share of all reads and writes of chunks: `80%`.
    #[arg(long, value_name = "SHARE", value_parser = read_share, requires = "log_rate",
        conflicts_with_all = ["workload", "like", "saturate"])]
    pub read_share: Option<f64>,
    /// With --log-rate: bytes of messages that publishers can hold until these are persisted: `256MiB`.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "log_rate",
        conflicts_with_all = ["workload", "like", "saturate", "backlog"])]
    pub backlog_bytes: Option<u64>,
    /// With --log-rate: the same as a number of messages.
    #[arg(long, value_name = "MESSAGES", requires = "log_rate", conflicts_with_all = ["workload", "like", "saturate"],
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub backlog: Option<u64>,
    /// 99 % of them take at most this long, from their arrival on: `2ms`.
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present_any = ["like", "saturate"],
        conflicts_with = "saturate")]
    pub p99: Option<u64>,
    /// 99.9 % of them take at most this long.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub p999: Option<u64>,
    /// 99 % of the reads take at most this long.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub read_p99: Option<u64>,
    /// 99.9 % of the reads take at most this long.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub read_p999: Option<u64>,
    /// 99 % of the writes take at most this long.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub write_p99: Option<u64>,
    /// 99.9 % of the writes take at most this long.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub write_p999: Option<u64>,
    /// The demand must be met with this part lost: a device of an array, one adapter of a pair, or a link between them.
    #[arg(long, value_name = "PART", value_parser = ["device", "adapter", "link"], conflicts_with = "saturate")]
    pub survive: Option<String>,
    /// Years that flash must last by its rating, at the asked writes; 0: no condition. [default: the years of the rating]
    #[arg(long, value_name = "YEARS", value_parser = years, conflicts_with = "saturate")]
    pub life: Option<f64>,
    /// Usable bytes, at least: `20TB`. Default: whatever the devices have.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "saturate")]
    pub capacity: Option<u64>,
    /// RAID level: 0, 5, 6 or 10; may be given again. Default: 5, 6 and 10; with --saturate 5.
    #[arg(long, value_name = "LEVEL", value_parser = ["0", "5", "6", "10"])]
    pub raid: Vec<String>,
    /// Devices of an array. Default: 1, 3, 4 and 2 for the levels 0, 5, 6 and 10, as in the study of RAID adapters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=48))]
    pub width: Option<u32>,
    /// Search only these: systems with RAID adapters, or servers, by name or path; may be given again.
    /// Default: the catalog's adapters, each kind in its fastest slots, and each other drive in the server that its
    /// file names, up to 24 drives in one.
    #[arg(long, value_name = "SYSTEM", conflicts_with = "saturate")]
    pub adapter: Vec<String>,
    /// Search only these devices, by name or path; may be given again. Default: the catalog's drives that can be
    /// replaced under power; behind adapters those for SAS bays.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Sort by price, from this file: a TOML file with `currency`, and tables `devices`, `systems` and `drawers` of
    /// prices by name. Default: the fewest devices first.
    #[arg(long, value_name = "FILE", conflicts_with = "saturate")]
    pub price: Option<PathBuf>,
    /// Instead: how many of --device a system with adapters can use fully, in arrays of --raid: at random (W1) and in
    /// order (W2).
    #[arg(long, value_name = "SYSTEM", requires = "device")]
    pub saturate: Option<String>,
    /// Draw it as a page. size.html here, or this file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "saturate")]
    pub report: Option<Option<PathBuf>>,
    /// One JSON document on standard output, and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// No live progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match parse_rate_iops(text) {
        Ok(rate) if (1.0..=1e9).contains(&rate) => Ok(rate),
        Ok(_) => Err("a rate is 1/s to 1G/s".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn time(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text) {
        Ok(ns) if (1_000..=5_000_000_000).contains(&ns) => Ok(ns),
        Ok(_) => Err("a limit of the latency is 1us to 5s".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn years(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(years) if (0.0..=100.0).contains(&years) => Ok(years),
        _ => Err("must be 0 to 100 years, such as 5".to_owned()),
    }
}

fn read_share(text: &str) -> Result<f64, String> {
    match parse_percent(text) {
        Ok(share) if (0.0..=0.99).contains(&share) => Ok(share),
        Ok(_) => Err("a share of reads is 0% to 99%".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
