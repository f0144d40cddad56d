//! Command-line flags of `iodyno size`.

use clap::Args;
use iodyno_sizing::cloud::{CLOUDS, VOLUMES_MAX};
use iodyno_units::{parse_duration_ns, parse_percent, parse_rate_iops, parse_size};
use std::path::PathBuf;

/// Examples at the end of the help of `size`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno size --workload oltp1 --rate 500k/s --p99 2ms         search the whole catalog
  iodyno size --workload oltp1 --rate 500k/s --p99 2ms --capacity 20TB --raid 5 --report
  iodyno size --workload db-oltp --rate 2M/s --p99 1ms --device nvme-tlc-3840g
  iodyno size --log-rate 1M/s --message 1KiB --read-share 80% --p99 5ms --backlog-bytes 256MiB
  iodyno size --like last --price prices.toml                  meet the load of the last run, cheapest first
  iodyno size --cloud aws --price prices.toml --workload oltp1 --rate 6k/s --p99 5ms --capacity 500GiB
  iodyno size --saturate 57ce-gen3 --device ssd-gen3-emlc      find how many SSDs a pair of adapters can drive";

/// Flags that have no effect with --cloud, nor with the flags that require it.
const NOT_OF_A_CLOUD: [&str; 8] =
    ["saturate", "adapter", "device", "raid", "width", "survive", "life", "report"];

#[derive(Debug, Args)]
pub struct Size {
    /// Meet the demand of this workload: a name in the catalog, or a file
    ///
    /// Sets the mix, block sizes and addresses. Operations arrive at random (Poisson), in open loop.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["like", "saturate", "log_rate"],
        conflicts_with_all = ["like", "saturate"])]
    pub workload: Option<String>,
    /// Meet the demand of a run in the notebook, by its id or name
    ///
    /// Takes workload, rate and p99 from the last cell of the run, and the size of the address range in use as the minimum
    /// capacity. --rate, --p99 and --capacity override these values.
    #[arg(long, value_name = "RUN", conflicts_with = "saturate")]
    pub like: Option<String>,
    /// Set the operations per second of the whole system, such as `500k/s`
    #[arg(long, value_name = "RATE", value_parser = rate,
        required_unless_present_any = ["like", "saturate", "log_rate"], conflicts_with = "saturate")]
    pub rate: Option<f64>,
    /// Meet the demand of a message log that takes this many messages per second, such as `1M/s`
    #[arg(long, value_name = "RATE", value_parser = rate,
        conflicts_with_all = ["workload", "like", "rate", "saturate"])]
    pub log_rate: Option<f64>,
    /// With --log-rate, set the size of a message in the log
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1KiB", requires = "log_rate",
        conflicts_with_all = ["workload", "like", "rate", "saturate"])]
    pub message: u64,
    /// With --log-rate, set the size of a chunk; each write stores a chunk with as many messages as fit
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64KiB", requires = "log_rate",
        conflicts_with_all = ["workload", "like", "rate", "saturate"])]
    pub chunk: u64,
    /// With --log-rate, add readers that replay this many messages per second in total, such as `4M/s`
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "log_rate",
        conflicts_with_all = ["workload", "like", "rate", "saturate", "read_share"])]
    pub replay_rate: Option<f64>,
    /// With --log-rate, add readers whose chunk reads are this share of all reads and writes, such as `80%`
    #[arg(long, value_name = "SHARE", value_parser = read_share, requires = "log_rate",
        conflicts_with_all = ["workload", "like", "rate", "saturate"])]
    pub read_share: Option<f64>,
    /// With --log-rate, limit the unpersisted messages of all publishers together, in bytes, such as `256MiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "log_rate",
        conflicts_with_all = ["workload", "like", "rate", "saturate", "backlog"])]
    pub backlog_bytes: Option<u64>,
    /// With --log-rate, limit the number of unpersisted messages of all publishers together
    #[arg(long, value_name = "MESSAGES", requires = "log_rate", conflicts_with_all = ["workload", "like", "rate", "saturate"],
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub backlog: Option<u64>,
    /// Require the 99th percentile of the response time to be at most this, such as `2ms`; from 1us to 5s
    ///
    /// The response time counts from an operation's arrival. With --log-rate, an operation writes or reads a chunk.
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present_any = ["like", "saturate"],
        conflicts_with = "saturate")]
    pub p99: Option<u64>,
    /// Require the 99.9th percentile of the response time of all operations to be at most this
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub p999: Option<u64>,
    /// Require the 99th percentile of the response time of reads to be at most this
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub read_p99: Option<u64>,
    /// Require the 99.9th percentile of the response time of reads to be at most this
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub read_p999: Option<u64>,
    /// Require the 99th percentile of the response time of writes to be at most this
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub write_p99: Option<u64>,
    /// Require the 99.9th percentile of the response time of writes to be at most this
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "saturate")]
    pub write_p999: Option<u64>,
    /// Meet the demand even after the loss of this part
    ///
    /// PART is a device of an array, one adapter of a pair, or the link between the two adapters.
    #[arg(long, value_name = "PART", value_parser = ["device", "adapter", "link"], conflicts_with = "saturate")]
    pub survive: Option<String>,
    /// Require flash to last at least this many years at the demand's write rate; 0: any time [default: the device's rated years]
    #[arg(long, value_name = "YEARS", value_parser = years, conflicts_with = "saturate")]
    pub life: Option<f64>,
    /// Require at least this much usable capacity, such as `20TB` [default: no requirement]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "saturate")]
    pub capacity: Option<u64>,
    /// Consider only this RAID level: 0, 5, 6 or 10; may be repeated [default: 5, 6 and 10; with --saturate: 5]
    #[arg(long, value_name = "LEVEL", value_parser = ["0", "5", "6", "10"])]
    pub raid: Vec<String>,
    /// Set the devices per array, 1 to 48 [default: RAID 0: 1, RAID 5: 3, RAID 6: 4, RAID 10: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=48))]
    pub width: Option<u32>,
    /// Consider only this system (RAID adapters or a server), by name or path; may be repeated
    ///
    /// [default: every adapter in the catalog, each in its fastest slots. A drive that needs no adapter is
    /// considered in the server given in the drive's file, with up to 24 drives per server.]
    #[arg(long, value_name = "SYSTEM", conflicts_with = "saturate")]
    pub adapter: Vec<String>,
    /// Consider only this device, by name or path; may be repeated
    ///
    /// [default: all hot-swappable drives in the catalog. RAID adapters are considered only with drives that fit SAS
    /// bays.]
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Rank by price, from this TOML file [default: rank by the number of devices]
    ///
    /// The file has a `currency`, and the tables `devices`, `systems` and `drawers` with prices by name. With --cloud:
    /// a `currency`, a date `as_of`, a table `[[volumes]]` for each class, and optionally `[[instances]]`.
    #[arg(long, visible_alias = "prices", value_name = "FILE", conflicts_with = "saturate")]
    pub price: Option<PathBuf>,
    /// Find the cheapest volumes of a cloud provider, with their size and provisioned rates; requires --price
    ///
    /// `iodyno catalog cloud-2026-11 > prices.toml` makes an example of a price file to edit. Classes without a price are left out. Several equal volumes are striped where that is cheaper. A volume that meets the demand by burst credits alone does not count.
    #[arg(long, value_name = "PROVIDER", value_parser = CLOUDS,
        conflicts_with_all = NOT_OF_A_CLOUD)]
    pub cloud: Option<String>,
    /// With --cloud, stripe at most this many volumes, 1 to 64
    #[arg(long, value_name = "N", default_value_t = VOLUMES_MAX, requires = "cloud",
        conflicts_with_all = NOT_OF_A_CLOUD,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub volumes: u32,
    /// With --cloud, attach the volumes to an instance of this type and apply its limits
    ///
    /// SYSTEM is a name in the catalog or the path of a file. Default: the cheapest sufficient one of the price file's
    /// `[[instances]]`; if it has none, only the volumes' own limits apply.
    #[arg(long, value_name = "SYSTEM", requires = "cloud", conflicts_with_all = NOT_OF_A_CLOUD)]
    pub instance: Option<String>,
    /// Find how many devices this system's adapters can drive at full speed; requires --device
    ///
    /// The devices are in arrays of level --raid. Measured with random reads of 4 KiB (W1) and sequential reads of
    /// 1 MiB (W2).
    #[arg(long, value_name = "SYSTEM", requires = "device")]
    pub saturate: Option<String>,
    /// Write an HTML report
    ///
    /// Without FILE, writes size.html in the current folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "saturate")]
    pub report: Option<Option<PathBuf>>,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Print no live progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match parse_rate_iops(text) {
        Ok(rate) if (1.0..=1e9).contains(&rate) => Ok(rate),
        Ok(_) => Err("a rate must be 1/s to 1G/s".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn time(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text) {
        Ok(ns) if (1_000..=5_000_000_000).contains(&ns) => Ok(ns),
        Ok(_) => Err("a latency limit must be 1us to 5s".to_owned()),
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
        Ok(_) => Err("a share of reads must be 0% to 99%".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
