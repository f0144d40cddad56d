//! Command-line flags of `iodyno crashtest`.

use clap::{Args, ValueEnum};
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use std::ffi::OsString;
use std::path::PathBuf;

/// Examples at the end of the help of `crashtest`.
pub(super) const EXAMPLES: &str = "Examples:
  iodyno crashtest --check ./check.sh -- ./program               check all states that a power cut can leave
  iodyno crashtest --check 'sqlite:test.db' -- sqlite3 test.db \"CREATE TABLE t(x); INSERT INTO t VALUES (1)\"
  iodyno crashtest --rules worst --again --check ./check.sh -- ./program
  iodyno crashtest --record run.jsonl --check ./check.sh -- ./program
  iodyno crashtest --from run.jsonl --state 12:3 --shell         look at a state that was found wrong

Exit codes: 0 all judged states are right, 4 some are wrong, others as of `iodyno`.";

/// Where `crashtest` runs the program and the checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CrashtestOn {
    /// On this machine, in a folder; states are derived from the recorded changes of files, by --rules
    Folder,
    /// In the virtual machine of --guest; states are derived from the recorded writes to its disk
    Guest,
}

#[derive(Debug, Args)]
pub struct Crashtest {
    /// Check each state with this shell command, in a folder that holds the state
    ///
    /// The check must exit with 0 if the state is correct. The file $IODYNO_ACKNOWLEDGED holds the program's output up to
    /// the cut, which counts as acknowledged. A check that fails sets the verdict by printing a line that starts with
    /// LOST_ACKNOWLEDGED, REFUSES_TO_OPEN or WRONG_CONTENT. Without such a line, it is run again with an empty
    /// $IODYNO_ACKNOWLEDGED: the verdict is LOST_ACKNOWLEDGED if it then succeeds, otherwise WRONG_CONTENT.
    ///
    /// `sqlite:FILE` checks the integrity of an SQLite database. `sqlite:FILE:SELECT ...` also checks that each line that
    /// the program printed before the cut is in the first column of the query's result.
    #[arg(long, value_name = "COMMAND", required_unless_present = "shell")]
    pub check: Option<String>,
    /// Run this shell command in the folder first; its changes survive every power cut
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Apply the rules of this file system: ext4, ext4-writeback, xfs, btrfs, or worst (all that POSIX allows)
    #[arg(long, value_name = "NAME", default_value = "ext4", value_parser = rules())]
    pub rules: String,
    /// Confirm findings on a real file system, in a virtual machine that is kept in this folder
    ///
    /// Runs the program and the checkers once more, on the file system that --rules names. The machine sees the host's
    /// files, but can't change them. If the folder has no machine, creates one: this requires QEMU, busybox, cpio and
    /// kmod, and on Debian and its derivatives downloads a kernel with apt-get.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["device", "shell", "fail_sync"])]
    pub guest: Option<PathBuf>,
    /// Choose where the program and the checkers run, and what is recorded
    #[arg(long, value_name = "WHERE", default_value = "folder", requires_if("guest", "guest"))]
    pub on: CrashtestOn,
    /// Explore this class of states; may be repeated [default: all but model; with --device, model]
    ///
    ///   prefix       the first k non-durable changes survive
    ///   one-missing  the first k survive, without one of them and those that require it
    ///   one-alone    one survives, with those that it requires
    ///   torn         a write survives in part
    ///   subset       all survive except 2 to N, or only 2 to N (--bound)
    ///   model        what the device keeps at each instant; requires --device
    #[arg(verbatim_doc_comment, long, value_name = "CLASS", value_delimiter = ',')]
    pub class: Vec<String>,
    /// In states of the class `subset`, lose at most N non-durable changes, or keep at most N
    ///
    /// 1 omits the class, because `one-missing` and `one-alone` cover it.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub bound: u8,
    /// Tear writes at multiples of this size [default: that of --device; else 4 KiB, or 512 bytes with --rules worst]
    #[arg(long, value_name = "SIZE", value_parser = atomic)]
    pub atomic: Option<u32>,
    /// Cut the power once more while the checker recovers each state
    #[arg(long)]
    pub again: bool,
    /// Stop after this time
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = parse_duration_ns)]
    pub time: u64,
    /// Stop a checker that runs longer than this, with the verdict HANGS
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration_ns)]
    pub check_time: u64,
    /// Run N checkers at a time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Let the Nth fsync of the program fail with EIO; the others succeed
    ///
    /// As on Linux, the data are then no longer dirty: a later fsync succeeds without writing them. The
    /// program's exit status is ignored.
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "device", "state", "shell"],
        value_parser = clap::value_parser!(u64).range(1..))]
    pub fail_sync: Option<u64>,
    /// Write the recorded run to this file, which --from explores without running the program again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "device", "state", "shell"])]
    pub record: Option<PathBuf>,
    /// Explore the run that --record wrote, or the log of a block device, without running a program
    ///
    /// Reads logs of dm-log-writes and of QEMU's `blklogwrites`; they require `--rules worst` or --device. The checker
    /// sees the block device as a file named `disk`; --setup can create its initial content [default: zeros]. A mark in
    /// the log counts as a line that the program printed.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub from: Option<PathBuf>,
    /// Replay the writes of a block device's log on this emulated device, and explore what the device keeps after a power cut
    ///
    /// The writes are issued one after another. A device with a protected write buffer keeps all acknowledged writes; one
    /// with a volatile buffer loses the dirty data in it.
    #[arg(long, value_name = "DEVICE", requires = "from",
        conflicts_with_all = ["rules", "again", "command"], value_parser = super::emulated)]
    pub device: Option<TargetName>,
    /// With --from, check only this state, by the name that the earlier result printed
    #[arg(long, value_name = "STATE", requires = "from",
        conflicts_with_all = ["class", "again", "command"])]
    pub state: Option<String>,
    /// With --state, start a shell in the folder that holds the state
    #[arg(long, requires = "state", conflicts_with_all = ["check", "class", "again", "json", "command"])]
    pub shell: bool,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, conflicts_with = "state")]
    pub json: bool,
    /// Print no live progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// Program to test, and its arguments; it runs in an empty folder, whose path is in $IODYNO_DIR
    #[arg(last = true, value_name = "CMD", required_unless_present = "from")]
    pub command: Vec<OsString>,
}

fn rules() -> impl clap::builder::TypedValueParser<Value = String> {
    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
    let value = |rules: &iodyno_crashtest::Rules| PossibleValue::new(rules.name).help(rules.about);
    PossibleValuesParser::new(iodyno_crashtest::RULES.iter().map(value)).map(|name| name)
}

/// Parses a size of at least 1 byte and at most 1 MiB.
fn atomic(text: &str) -> Result<u32, String> {
    match u32::try_from(parse_size(text).map_err(|e| e.to_string())?) {
        Ok(bytes @ 1..=0x10_0000) => Ok(bytes),
        _ => Err("must be from 1 byte to 1 MiB".to_owned()),
    }
}
