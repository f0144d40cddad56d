//! Command-line flags of `iodyno serve`, `iodyno fault` and `iodyno status`.

use super::{Given, emulated, socket};
use clap::{Args, ValueEnum};
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use std::ffi::OsString;
use std::path::PathBuf;

/// Timing of completions of served storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Speed {
    /// Complete each request at the time that the model predicts
    Model,
    /// Complete requests as fast as this machine can; acknowledged writes survive a killed server
    Native,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Emulated storage to serve, as in `run --on` (`model:` may be left out); or plain memory, `ram:4GiB`
    ///
    /// A device of the catalog, a file that describes a device, or several devices in a server (`exflash-400g*4@x3850-x6`). Each
    /// volume is an NBD export.
    #[arg(value_parser = emulated)]
    pub device: TargetName,
    /// Listen for NBD clients at unix:PATH or HOST:PORT; may be repeated [default: unix:iodyno.sock]
    ///
    /// The default applies only without --fuse and --ublk; with CMD it is a socket in a private folder. Limits: 1024
    /// connections, and 256 MiB in flight in total, plus 256 KiB per connection. Requests beyond that wait.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<String>,
    /// Mount a folder that contains one file per volume, by FUSE [default with CMD: a private folder]
    ///
    /// `losetup --direct-io=on` makes a block device of such a file. Users other than root need fusermount3.
    #[arg(long, value_name = "FOLDER")]
    pub fuse: Option<Option<PathBuf>>,
    /// Create a block device, /dev/ublkbN, for each volume (requires build feature `ublk`)
    #[arg(long)]
    pub ublk: bool,
    /// Choose the timing of completions [default: model]
    #[arg(long, value_name = "SPEED")]
    pub speed: Option<Speed>,
    /// Store data in this sparse file, created if absent; repeat for each volume [default: in memory]
    ///
    /// For an array, FILE is a folder, with one file per member.
    #[arg(long, value_name = "FILE")]
    pub backing: Vec<PathBuf>,
    /// Start from an existing raw image, or from an export of another NBD server; repeat for each volume
    ///
    /// The image is only read: writes of clients are kept in memory and lost when the server ends. To use an
    /// image of another format, export it with qemu-nbd and give the address of the export as FILE, such as
    /// `nbd+unix:///?socket=/run/q.sock`.
    #[arg(long, value_name = "FILE", conflicts_with = "backing")]
    pub image: Vec<String>,
    /// With --image, write changes into the image file
    #[arg(long, requires = "image", conflicts_with_all = ["size", "memory", "backing"])]
    pub write_image: bool,
    /// Set the size of each volume [default: the size of the image, or of the device]
    ///
    /// A smaller volume uses the beginning of the device. A size above the device's own is possible for emulated
    /// memory, and for flash, where it takes from the spare area.
    #[arg(long, value_name = "SIZE", value_parser = volume_size)]
    pub size: Option<u64>,
    /// Limit the memory for the data of all volumes, at least 1 MiB per volume [default: half of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "backing")]
    pub memory: Option<u64>,
    /// Accept `iodyno fault` and `iodyno status` on this Unix socket, such as `unix:/run/ctl.sock`
    #[arg(long, value_name = "SOCKET", value_parser = socket)]
    pub control: Option<PathBuf>,
    /// Inject the faults in this file, one per line with its time, such as `2s slow x10`
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Record all requests and faults to this file, for `iodyno replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Log all writes and flushes with their data to this file, for `iodyno crashtest --from`
    ///
    /// Requires a single volume. The format is that of Linux's dm-log-writes. A power cut ends the log.
    #[arg(long, value_name = "FILE")]
    pub record_data: Option<PathBuf>,
    /// Serve OpenMetrics over HTTP at this address, or at a port of 127.0.0.1, such as `9469`
    ///
    /// An address that other machines can reach requires --insist-on-plain.
    #[arg(long, value_name = "ADDRESS", value_parser = super::metrics_address)]
    pub metrics: Option<std::net::SocketAddr>,
    /// Multiply the model's times by K, from 0.001 to 1000000
    ///
    /// For guests and clients whose transport is slower than the device.
    #[arg(long, value_name = "K", value_parser = dilation)]
    pub dilate: Option<f64>,
    /// Multiply the model's times by a constant, for reproducible benchmarks on a loaded machine
    ///
    /// The constant is chosen such that a flushed write of 4 KiB takes TIME on an idle device [default: 10ms]. It is the
    /// same in each run, and is printed. The server's threads get real-time scheduling if permitted. At the end the
    /// server prints how late completions were.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10ms",
        value_parser = steady, conflicts_with = "dilate")]
    pub steady: Option<u64>,
    /// Require TLS, with these files: certificate chain, private key, CA of clients (optional)
    ///
    /// Example: `cert.pem,key.pem,ca.pem`. With a CA, clients need a certificate that it signed.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub tls: Vec<PathBuf>,
    /// Allow --nbd and --metrics without TLS on addresses that other machines can reach
    #[arg(long)]
    pub insist_on_plain: bool,
    /// Refuse writes from clients
    #[arg(long)]
    pub read_only: bool,
    /// Do not compensate for transport latency
    ///
    /// By default, the server subtracts the measured transport latency from the model's times.
    #[arg(long)]
    pub no_floor: bool,
    /// Set the seed of all random behaviour of the device
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write `ready` and a newline to file descriptor N, and close it, once clients can connect
    ///
    /// A server that systemd starts with `Type=notify` also reports to it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..))]
    pub ready_fd: Option<i32>,
    /// Run this command once clients can connect; when it ends, stop and return its exit code
    ///
    /// Its environment has the addresses of the first volume: IODYNO_NBD, an NBD URI; IODYNO_FILE, its file with
    /// --fuse; IODYNO_BLOCK, its block device with --ublk; and IODYNO_CONTROL, the socket for `iodyno fault --control`.
    /// Sockets and mount points not set by --nbd, --control or --fuse are in a private folder, which is removed at the
    /// end. On SIGTERM, the server sends SIGTERM to the command, and SIGKILL 5 s later. If a signal ends the command, the
    /// exit code is 128 plus the signal's number.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
    /// Names of the flags that are set on the command line.
    #[arg(skip)]
    pub given: Given,
}

#[derive(Debug, Args)]
pub struct FaultFlags {
    /// Fault to inject, such as `slow x10` or `error 1% reads`; or `clear`, `status` or `stop`
    #[arg(required = true, long_help = fault_help())]
    pub fault: Vec<String>,
    /// Control socket of the server (`serve --control`)
    #[arg(long, value_name = "SOCKET")]
    pub control: String,
}

#[derive(Debug, Args)]
pub struct Status {
    /// Control socket of the server (`serve --control`)
    #[arg(long, value_name = "SOCKET")]
    pub control: String,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Print metrics in the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    pub metrics: bool,
}

/// Returns the help text of the argument FAULT, which lists all fault commands.
fn fault_help() -> String {
    format!(
        "Fault to inject, such as `slow x10` or `error 1% reads`; or `clear`, `status` or `stop`

{}Commands of the server:
  status                        print statistics, as `iodyno status`
  stop                          flush, end the server, and wait for its end

To choose a volume other than 0, append its number, as in `slow x10 1`. If volumes are
arrays, the number selects a device of an array instead, except for `full`, `resize`,
and faults at the interface.
`delay`, `error 1%` and faults at the interface take a kind of operation, as in
`delay 5ms reads`: reads, writes, flushes, trims or zeroes.
Faults at the interface also take any of these limits, after the kind:
  at 1GiB..+64KiB               requests that touch this range
  after 2                       requests after the first 2, or `after 2 flushes`
  next 1                        the next request
  for 10s                       requests during this time
Numbers of adapters, and of the links between adapters (`aa`), start at 0.

Prints the faults then in effect, or why nothing changed.",
        iodyno_live::fault_command::help()
    )
}

fn volume_size(text: &str) -> Result<u64, String> {
    iodyno_live::fault_command::volume_size(text)
}

fn steady(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text) {
        Ok(ns) if (100_000..=1_000_000_000).contains(&ns) => Ok(ns),
        Ok(_) => Err("use a time from 100us to 1s".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn dilation(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(k) if k.is_finite() && (0.001..=1e6).contains(&k) => Ok(k),
        _ => Err("use a factor from 0.001 to 1000000".to_owned()),
    }
}
