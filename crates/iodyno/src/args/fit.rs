//! Command-line flags of `iodyno fit`.

use clap::Args;
use iodyno_drive::EngineKind;
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use std::path::PathBuf;

/// Examples at the end of the help of `fit`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno fit data.bin?size=8GiB -o my.toml          a twin of the disk below this file
  iodyno fit /dev/nvme1n1 --read-only -o my.toml    reads only
  iodyno fit --from last -o my.toml                 fit again, without the device
  iodyno fit --figures sheet.toml --like nvme-tlc-3840g -o my.toml   to printed figures, without a device
  iodyno run oltp-67-33-4k --on model:./my.toml     what the twin predicts

Exit codes: 0 fitted; 9 MISFIT (no device of this kind behaves as measured), WORTHLESS (the twin is more than 10 %
off, and the nearest measured cell is closer), or most cells have warnings; others as in `iodyno --help`.";

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct Fit {
    /// Target to measure: a file, a block device, nbd: or ram:
    ///
    /// To try `fit` itself, name an emulated device (live: or model:). It is written in order first, unless its name
    /// says otherwise, such as `?state=random`.
    #[arg(value_name = "TARGET", required_unless_present_any = ["from", "figures"], conflicts_with = "from")]
    pub target: Option<TargetName>,
    /// Fit to the cells of this run of the notebook, and measure nothing
    ///
    /// RUN is an id, the start of an id, `last`, or a name. Any run on a single target will do. Cells named held-out-*
    /// only score the predictions.
    #[arg(long, value_name = "RUN")]
    pub from: Option<String>,
    /// Fit to the printed figures in this TOML file, such as those of a data sheet, and measure nothing; requires --like
    ///
    /// docs/fitting.md describes the file.
    #[arg(long, value_name = "FILE", requires = "like", conflicts_with_all = ["target", "from", "time", "read_only", "writes", "steady", "doubtful", "plan", "engine", "destroy"])]
    pub figures: Option<PathBuf>,
    /// Write the description of the fitted device (TOML) to this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Take the structure, and values for parameters that are not measured, from this device (catalog name or file)
    /// [default: by the kind of target]
    #[arg(long, value_name = "DEVICE")]
    pub like: Option<String>,
    /// Measure each cell for this time, after a warm-up of a fifth of the time (a half on a disk)
    /// [default: 1s, or 20s on a disk]
    #[arg(long, value_name = "TIME", value_parser = cell_time, conflicts_with = "from")]
    pub time: Option<u64>,
    /// Never write to the target; parameters of writes keep their start values
    #[arg(long, conflicts_with = "from")]
    pub read_only: bool,
    /// Limit the bytes written in total, excluding warm-ups, which also write [default: 2 % of the capacity of an SSD, no limit on others]
    ///
    /// Each cell that writes gets an equal share.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["from", "read_only"])]
    pub writes: Option<u64>,
    /// Measure the steady state too, after overwriting the whole target twice in random order
    ///
    /// Gives an SSD's spare capacity, often only roughly. The other cells come first. --plan says how much is written.
    #[arg(long, conflicts_with_all = ["from", "read_only"])]
    pub steady: bool,
    /// Also use cells that have warnings
    #[arg(long)]
    pub doubtful: bool,
    /// Print the cells with their times and writes, and measure nothing
    #[arg(long, conflicts_with_all = ["from", "json"])]
    pub plan: bool,
    /// Set the seed of all random streams
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Choose the I/O engine: uring, libaio, psync or mmap [default: depends on the target, the depth, and whether there are writes]
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    pub engine: Option<EngineKind>,
    /// Overwrite the data on this target: NAME is its device name, path, serial number or URI; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    pub destroy: Vec<String>,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Print no live progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

/// Parses the time of a cell: 20 ms to 1 h.
fn cell_time(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text).map_err(|e| e.to_string())? {
        time_ns @ 20_000_000..=3_600_000_000_000 => Ok(time_ns),
        _ => Err("must be from 20ms to 1h".to_owned()),
    }
}
