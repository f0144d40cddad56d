//! The command line: every command and flag, with the texts of `--help`, the man pages and the shell completions. One
//! definition produces all of them.

mod crashtest;
mod fit;
mod given;
mod log;
mod log_bench;
mod measuring;
mod replay;
mod run;
mod serve;
mod size;
mod stored;
mod web;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum, ValueHint,
};
pub use crashtest::{Crashtest, CrashtestOn};
pub use fit::Fit;
pub use given::Given;
use iodyno_measure::Threshold;
use iodyno_targets::TargetName;
use iodyno_targets::purge::Method;
use iodyno_workload::{ActiveRange, Block, MAX_DEPTH, MAX_THREADS, Pattern};
pub use log::{
    Log, LogCheck, LogClient, LogCommand, LogCreate, LogOutput, LogPublish, LogQuery, LogRead,
    LogReplay, LogServe,
};
pub use log_bench::LogBench;
pub use measuring::Measuring;
pub use replay::Replay;
use run::EXAMPLES;
use run::run_name as trace_name;
pub use run::{DEFAULT_TARGET, Run};
pub use serve::{FaultFlags, Serve, Speed, Status};
pub use size::Size;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
pub use stored::{Compare, Export, History, Import, Report};
pub use web::Web;

/// Benchmark block storage, and report how far the numbers can be trusted.
#[derive(Debug, Parser)]
#[command(name = "iodyno", version, max_term_width = 100, after_help = MORE,
    after_long_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Use this SQLite file as the notebook, which keeps the results [default: iodyno/notebook.sqlite in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, global = true, value_name = "FILE", env = NOTEBOOK_VARIABLE, value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub notebook: Option<PathBuf>,
    /// Choose when to use colours and symbols
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
}

/// Environment variable that names the notebook if no flag does. An empty value counts as unset.
pub(crate) const NOTEBOOK_VARIABLE: &str = "IODYNO_NOTEBOOK";

impl Cli {
    /// Parses a command line, which starts with the program's name.
    ///
    /// # Errors
    /// An error message for the user, or the requested help text.
    pub fn of_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?;
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            let given = Given::of(matches, command);
            match &mut cli.command {
                Command::Run(flags) => flags.given = given,
                Command::Replay(flags) => flags.given = given,
                Command::Serve(flags) => flags.given = given,
                _ => {}
            }
        }
        Ok(cli)
    }

    /// Uses the default notebook if [`NOTEBOOK_VARIABLE`] is set but empty.
    pub(crate) fn with_notebook_of_environment(mut self) -> Self {
        let is_empty = std::env::var_os(NOTEBOOK_VARIABLE).is_some_and(|name| name.is_empty());
        self.notebook = self.notebook.filter(|name| !is_empty || !name.as_os_str().is_empty());
        self
    }
}

const MORE: &str = "\
Start with `iodyno run four-corners`. `iodyno COMMAND --help` lists all flags and examples, `iodyno --help` the exit codes.";

const EXIT_CODES: &str = "\
Exit codes:
    0 done
    1 a fault of iodyno itself
    2 bad input: command line, workload, target name or run id; fault: it has no effect
    3 refused, because data would be destroyed
    4 the target or an engine failed, too many operations failed, the target stopped answering, or
      verification found data that differs from what was written; crashtest: a state is wrong
    5 the notebook can't be used, or did not store all of a run whose results were printed
    6 a threshold (--require) was missed, or with --strict the result is not VALID or a threshold is
      close; size: nothing meets the demand
    7 compare: something is slower
    8 compare: nothing could be judged (no common cell, or too few runs for every figure), or with
      --strict not everything; replay: the record was cut off
    9 a method failed: no steady state, or a stage measured nothing (results are kept);
      fit: no device of this kind behaves as measured, the twin is more than 10 % off and the nearest measured
      cell is closer, or most cells have warnings
  130 interrupted (results so far are kept)";

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// If the output is a terminal and NO_COLOR is not set
    Auto,
    /// Even if the output is a file or a pipe
    Always,
    /// Plain text
    Never,
}

/// Subcommands of `iodyno`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workload or a method on one or more targets
    #[command(after_help = EXAMPLES)]
    Run(Box<Run>),
    /// Convert a job of another benchmark tool into a workload file
    ///
    /// Takes a job file of fio, a parameter file of vdbench (`.vdb`), or a command line of fio, sysbench, diskspd
    /// or `amps_bio_perf_test`. If a job can't be converted exactly, the command fails with the reason.
    Convert(Convert),
    /// Inspect a target: what it is, whether it is safe to write, and what a run would measure
    Check(Check),
    /// Erase a target to its never-written state, and verify the result
    Purge(Purge),
    /// Explain where the time of an I/O to an emulated device goes, and which resource is the bottleneck
    Explain(Explain),
    /// Fit an emulated device to a real one, so that it predicts workloads that were not measured
    ///
    /// Measures a target with short runs, and writes a device file. Each parameter gets a confidence interval, or is
    /// reported as not identified. Held-out measurements score the predictions.
    #[command(after_help = fit::EXAMPLES)]
    Fit(Box<Fit>),
    /// Serve emulated storage to other programs over NBD
    ///
    /// Stores the data that clients write, completes each request with the latency of the model, and injects faults
    /// on command (`iodyno fault`).
    Serve(Box<Serve>),
    /// Check that a program's files survive a power cut: run it, and check every state that a cut can leave
    ///
    /// Runs the program in a private folder and records its changes. Derives each state that a power cut can leave from
    /// the rules of a file system, and runs a checker on it.
    #[command(after_help = crashtest::EXAMPLES)]
    Crashtest(Box<Crashtest>),
    /// Check a SQLite database after a power cut: the program of `crashtest --check sqlite:FILE`
    #[command(hide = true)]
    CheckSqlite {
        /// Database to check
        file: PathBuf,
        /// Query whose rows must include each line of the file $IODYNO_ACKNOWLEDGED
        query: Option<String>,
    },
    /// Run a script in the guest of `crashtest --guest`, with a file as the guest's disk
    #[command(hide = true)]
    InGuest {
        /// Folder with the guest
        folder: PathBuf,
        /// File with the disk's content
        disk: PathBuf,
        /// Script for the guest's shell
        script: OsString,
        /// Time limit of the script, ns
        time_limit_ns: Option<u64>,
    },
    /// Store messages in a durable log on any target: create, serve, publish, subscribe, replay, query
    Log(Log),
    /// Inject a fault into served storage.
    Fault(FaultFlags),
    /// Print the statistics and active faults of served storage
    Status(Status),
    /// Replay a recorded trace on a target, or summarise it
    ///
    /// Reads traces of fio (iolog), blkparse, perf, biosnoop and iodyno, and published CSV traces. A record of
    /// `serve --record` is executed again in virtual time, and the command checks that the same events follow.
    #[command(after_help = replay::EXAMPLES)]
    Replay(Box<Replay>),
    /// List the runs in the notebook, in the order in which they were stored: all, or those that match a text
    Ls {
        /// List only the runs whose id, name, workload, target or start time contains this text, such as 2026-11-28
        text: Option<String>,
        /// Print one JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// Show the results of a run
    Show {
        /// Run to show: an id, the start of an id, `last`, `last~1` for the run before the last, or a name
        run: String,
        /// Check the run against this threshold instead of those recorded with it; may be repeated
        #[arg(long, value_name = "THRESHOLD")]
        require: Vec<Threshold>,
        /// Print one JSON document on standard output
        #[arg(long)]
        json: bool,
        /// Print one JSON document that includes the time series
        #[arg(long)]
        series: bool,
        /// Level of detail of the printed results.
        #[command(flatten)]
        shown: Shown,
    },
    /// Continue an interrupted run of a method
    ///
    /// Finished steps are not measured again.
    Resume(Resume),
    /// Compare runs A and B: is B faster, slower, the same, or is the result inconclusive? (Three or more: `report`)
    Compare(Compare),
    /// Show one metric over all runs of a workload on a target, and where its level shifted
    History(History),
    /// Attach a note to a run, such as what changed before it; `history` and reports show the note
    Annotate {
        /// Run to annotate: an id, the start of an id, `last`, `last~1`, or a name
        run: String,
        /// Text of the note, 1 to 200 characters; replaces an earlier note [default: remove the note]
        #[arg(value_parser = annotation)]
        text: Option<String>,
    },
    /// Write an HTML report of one or more runs
    ///
    /// The page is one file, works offline and contains the data of its runs. If there are several runs, each is
    /// compared with the first.
    Report(Report),
    /// Import the runs in a report, or results of fio, into the notebook
    Import(Import),
    /// Merge the shards of a run (`run --shard`) into one run in the notebook
    Merge {
        /// Notebooks that contain the shards
        #[arg(required = true)]
        notebooks: Vec<PathBuf>,
    },
    /// Serve a web page that shows the notebook: runs, comparisons, runs in progress
    ///
    /// The page shows every run of the notebook, and changes nothing unless --allow-run is given. SIGINT and SIGTERM
    /// end the server.
    Web(Web),
    /// Export a run in another format, such as CSV, OpenMetrics or fio's JSON
    Export(Export),
    /// Repeat a published study in virtual time, and compare the simulated results with the published ones
    Study(Study),
    /// Find how many devices and adapters meet a demand, by simulation
    ///
    /// With --saturate, finds how many devices a pair of adapters can drive at full speed.
    #[command(after_help = size::EXAMPLES)]
    Size(Box<Size>),
    /// List the catalog (workloads, methods, devices and others), or show one entry
    Catalog {
        /// Entry to show
        name: Option<String>,
        /// Print one JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// Print the completion script of a shell
    Completions {
        /// Shell that will read the script
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// Destination folder, created if absent
        folder: PathBuf,
    },
}

/// Level of detail of a run's printed results. Verdicts and warnings are always printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Shown {
    /// Print every note in full [default: repeated notes as codes with counts]
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub notes: bool,
    /// Print more detail, including --notes
    ///
    /// Adds the settings in effect (engine, clock, device state), each target if there are many, and each point of
    /// a table over two axes.
    #[arg(long, short, conflicts_with = "json", help_heading = "Output")]
    pub verbose: bool,
}

#[derive(Debug, Args)]
pub struct Resume {
    /// Run to continue: an id, the start of an id, `last`, or a name
    pub run: String,
    /// Overwrite the data on this target: NAME is its device name, path, serial number or URI; may be repeated
    ///
    /// Required again, even if the original run had it.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Print no live progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// Level of detail of the printed results.
    #[command(flatten)]
    pub shown: Shown,
}

#[derive(Debug, Args)]
pub struct Convert {
    /// Job to convert: a job file of fio, a parameter file of vdbench (`.vdb`), or a command line in quotes
    ///
    /// Command lines can be of fio, sysbench, diskspd or `amps_bio_perf_test`. A command line of fio can also
    /// follow all other flags without quotes: `iodyno convert fio --name=a --rw=randread`.
    pub job: String,
    /// Write the workload to this file [default: standard output]
    ///
    /// If there are several jobs, FILE is a folder, created if absent, and gets one file per job.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Convert only the job with this name
    #[arg(long, value_name = "NAME")]
    pub section: Option<String>,
    /// Print only warnings about pitfalls in the jobs; write no workload
    #[arg(long, conflicts_with = "out")]
    pub lint: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Target to inspect, as for `run --on`
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// Inspect as if `run --destroy NAME` were given; may be repeated
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Purge {
    /// Target to erase, as for `run --on`
    ///
    /// Commands that erase a whole device are never sent for a partition, a file, or a target limited by `?size=`.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// Choose the erase method [default: the best that the target supports]
    ///
    /// Methods, best first: nvme-sanitize-block, nvme-sanitize-crypto, nvme-format, nvme-format-crypto, ata-erase,
    /// ata-erase-enhanced, discard, and anew. `anew` sends no command; it is for targets without old data: memory,
    /// which each run allocates, or a file that does not exist yet.
    #[arg(long, value_name = "METHOD")]
    pub method: Option<Method>,
    /// Confirm the erase: NAME is the target's device name, path, serial number or URI
    ///
    /// Required for every device and NBD export, and for files that iodyno did not create. A target in use is never
    /// erased.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Study {
    /// Study to repeat: a name in the catalog, or a file (a path with a `/` or ending in `.toml`)
    pub study: String,
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Simulate a tenth of the operations, with about three times the standard error
    ///
    /// Warm-ups keep their length, so a study that consists mostly of warm-ups hardly gets faster.
    #[arg(long)]
    pub quick: bool,
    /// Simulate only this table or figure of the paper, by its name in the results; may be repeated
    #[arg(long, value_name = "NAME")]
    pub figure: Vec<String>,
    /// Set the seed of all random streams
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write an HTML report: each table and figure of the publication next to its simulation
    ///
    /// Without FILE, writes study-NAME.html in the current folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub report: Option<Option<PathBuf>>,
    /// Overlay a run on the figures of --report; may be repeated
    ///
    /// RUN is an id, the start of an id, `last`, or a name.
    #[arg(long, value_name = "RUN", requires = "report")]
    pub with: Vec<String>,
    /// Simulate N cells in parallel, 1 to 1024 [default: the number of processors]
    ///
    /// More threads than processors are not faster. Results do not depend on N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print no live progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// Emulated storage: a device of the catalog, a file that describes a device, or several devices in a server
    ///
    /// Has the form of a `model:` target of `run --on`, such as `exflash-400g*4@x3850-x6`. The prefix `model:` is
    /// optional.
    #[arg(value_parser = emulated)]
    pub device: TargetName,
    /// Workload to simulate [default: none; list the parts of the device and a few predictions]
    pub workload: Option<String>,
    /// Set the number of workers per volume, 1 to 1024 [default: the workload's]
    #[arg(long, value_name = "N", requires = "workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: Option<u32>,
    /// Set the outstanding I/Os per worker, 1 to 65536 [default: the workload's]
    #[arg(long, value_name = "N", requires = "workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Set the block size, such as `4KiB`, or a mix, such as `4KiB:60,8KiB:40` (4 KiB for 60 % of the operations)
    #[arg(long, value_name = "SIZE", requires = "workload", value_parser = Block::parse_list)]
    pub block: Option<std::vec::Vec<Block>>,
    /// Use only this part of each volume, such as `0%..50%`, or `8GiB` for the first 8 GiB
    #[arg(long, value_name = "RANGE", requires = "workload")]
    pub active: Option<ActiveRange>,
    /// Choose addresses by Zipf's law with exponent THETA, above 0 and at most 5
    #[arg(long, value_name = "THETA", requires = "workload", value_parser = Pattern::zipf)]
    pub zipf: Option<Pattern>,
    /// Concentrate the load: `90/10` sends 90 % of the operations to the first 10 % of the range
    #[arg(long, value_name = "OPS/RANGE", requires = "workload", value_parser = Pattern::hot,
        conflicts_with = "zipf")]
    pub hot: Option<Pattern>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Parses the path of a Unix socket, with or without the prefix `unix:`.
fn socket(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("unix:").unwrap_or(text) {
        "" => Err("give a path such as unix:/run/ctl.sock".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// Parses the address at which to serve metrics: `HOST:PORT`, or only a port of 127.0.0.1.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost").unwrap_or(text);
    let port = port.strip_prefix(':').unwrap_or(port).parse::<u16>();
    port.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).or_else(|_| {
        text.parse().map_err(|_| {
            format!(
                "`{text}` is not an address: use a form such as 9469, 127.0.0.1:9469 or [::1]:9469"
            )
        })
    })
}

/// Parses the name of a target that is emulated, or plain memory.
fn emulated(text: &str) -> Result<TargetName, String> {
    if text.starts_with("model:") || text.starts_with("ram:") {
        target(text)
    } else {
        target(&format!("model:{text}"))
    }
}

fn annotation(text: &str) -> Result<String, String> {
    iodyno_notebook::check_annotation(text).map(|()| text.to_owned())
}

fn target(text: &str) -> Result<TargetName, String> {
    TargetName::parse(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the help text of a command's flag.
    fn help(command: &str, flag: &str) -> String {
        let cli = Cli::command();
        let command = cli.find_subcommand(command).unwrap();
        let arg = command.get_arguments().find(|a| a.get_long() == Some(flag)).unwrap();
        arg.get_long_help().or_else(|| arg.get_help()).unwrap().to_string()
    }

    /// The help text of a flag lists exactly the values that the flag accepts.
    #[test]
    fn the_help_says_what_is_taken() {
        for (flag, most) in [("threads", MAX_THREADS), ("depth", MAX_DEPTH)] {
            let said = help("run", flag);
            assert!(said.contains(&format!("1 to {most}")), "{said}");
        }
        let said = help("purge", "method");
        for method in Method::ALL {
            assert!(said.contains(method.name()), "{method}: {said}");
        }
    }
}
